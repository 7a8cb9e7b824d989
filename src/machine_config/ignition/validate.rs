//! What the types of fields do not say: which paths, modes, names and contents a node can be given.

use super::contents::{ContentsError, MAX_FILE_BYTES};
use super::model::{Config, File, Link, Owner, Systemd, Unit, User};
use super::{IgnitionError, Resource};
use serde_json::Value;
use std::collections::BTreeSet;

/// Number of bytes that all files of a configuration may have when they are decoded: the agent of a node keeps the files
/// that it changes in memory.
const MAX_TOTAL_BYTES: usize = 64 << 20;
/// What Linux allows.
const MAX_PATH: usize = 4095;
const MAX_NAME: usize = 255;
/// Their contents come from the kernel.
const KERNEL_FOLDERS: [&str; 3] = ["/dev", "/proc", "/sys"];
const UNITS: &str = "/etc/systemd/system";
/// Below this folder the agent of a node notes what was at a path before, under its name with these before and after it.
const NOTED: (&str, &str, &str) = ("/etc/machine-config-daemon/noorig", ".", ".mcdnoorig.cvo-new");
/// What the agent of a node keeps for itself, and what is of others below it.
const OF_AGENT: [&str; 2] = ["/etc/machine-config-daemon", "/var/lib/machine-config-daemon"];
const NOT_OF_AGENT: &str = "/etc/machine-config-daemon/no-reboot";
/// Units of which there is one, named by the root.
const ROOT_UNITS: [&str; 2] = ["-.mount", "-.slice"];
const UNIT_SUFFIXES: [&str; 12] = [
    "automount",
    "device",
    "mount",
    "path",
    "scope",
    "service",
    "slice",
    "snapshot",
    "socket",
    "swap",
    "target",
    "timer",
];

/// Each part of a configuration, and the parts together.
pub(super) fn validate(config: &Config) -> Result<(), IgnitionError> {
    let storage = &config.storage;
    for file in &storage.files {
        self::file(file)?;
    }
    for directory in &storage.directories {
        let place = format!("storage.directories[{}]", directory.path);
        node(&place, &directory.path, &directory.user, &directory.group)?;
        mode(&place, directory.mode)?;
    }
    for link in &storage.links {
        self::link(link)?;
    }
    for unit in &config.systemd.units {
        self::unit(unit)?;
    }
    for user in &config.passwd.users {
        self::user(user)?;
    }
    no_other_configurations(config)?;
    contents(config)?;
    conflicts(config)
}

/// What the agent of a node writes. It can read what it could not write: nodes may have it already, and get rid of it.
pub(super) fn written(config: &Config) -> Result<(), IgnitionError> {
    let files = config.storage.files.iter().map(|file| ("files", &file.path));
    let links = config.storage.links.iter().map(|link| ("links", &link.path));
    for (list, path) in files.chain(links) {
        let of_agent = OF_AGENT.iter().any(|folder| is_at_or_below(path, folder));
        let problem = if of_agent && !is_at_or_below(path, NOT_OF_AGENT) {
            "where the agent of a node keeps what it has to know; write to another folder"
        } else if is_too_long(path) {
            "which is too long for what the agent of a node adds to it to keep what was there before; shorten it"
        } else {
            continue;
        };
        let field = format!("storage.{list}[{path}].path");
        return Err(IgnitionError::Path { field, path: path.clone(), problem: problem.to_owned() });
    }
    config.systemd.units.iter().try_for_each(written_unit)
}

fn written_unit(unit: &Unit) -> Result<(), IgnitionError> {
    let refuse =
        |field: String, name: &String, problem| Err(IgnitionError::Name { field, name: name.clone(), problem });
    let too_long = "which is too long for what the agent of a node adds to it; shorten it";
    let field = format!("systemd.units[{}]", unit.name);
    if unit.name.starts_with('-') && !ROOT_UNITS.contains(&unit.name.as_str()) {
        return refuse(field + ".name", &unit.name, "which a command would take for an option; choose another name");
    }
    if is_too_long(&unit.name) {
        return refuse(field + ".name", &unit.name, too_long);
    }
    match unit.dropins.iter().find(|dropin| is_too_long(&dropin.name)) {
        Some(dropin) => refuse(format!("{field}.dropins[{}].name", dropin.name), &dropin.name, too_long),
        None => Ok(()),
    }
}

fn is_too_long(path: &str) -> bool {
    let (folder, before, after) = NOTED;
    let added = before.len() + after.len();
    let name = path.rsplit('/').next().map_or(0, str::len);
    name + added > MAX_NAME || folder.len() + path.len() + added > MAX_PATH
}

/// Decodes the contents of all files, one after the other.
pub(super) fn contents(config: &Config) -> Result<(), IgnitionError> {
    let mut total = 0;
    for file in &config.storage.files {
        let of_file = |(resource, field): (&Resource, &str)| {
            let field = format!("storage.files[{}].{field}", file.path);
            resource.decode().map(|bytes| bytes.len()).map_err(|source| IgnitionError::Contents { field, source })
        };
        let mut size = of_file((&file.contents, "contents"))?;
        for resource in &file.append {
            size += of_file((resource, "append"))?;
        }
        if size > MAX_FILE_BYTES {
            let field = format!("storage.files[{}]", file.path);
            return Err(IgnitionError::Contents { field, source: ContentsError::TooLarge });
        }
        total += size;
        if total > MAX_TOTAL_BYTES {
            let problem = format!(
                "the files together have more than {} MiB when they are decoded; keep large files in an image",
                MAX_TOTAL_BYTES >> 20
            );
            return Err(IgnitionError::Invalid { field: "storage.files".to_owned(), problem });
        }
    }
    Ok(())
}

/// What two entries, each right by itself, say about the same path. Two valid configurations can conflict when merged.
pub(super) fn conflicts(config: &Config) -> Result<(), IgnitionError> {
    let storage = &config.storage;
    let files = storage.files.iter().map(|file| ("files", file.path.as_str()));
    let directories = storage.directories.iter().map(|directory| ("directories", directory.path.as_str()));
    let links = storage.links.iter().map(|link| ("links", link.path.as_str()));
    let parents: BTreeSet<&str> = files.clone().chain(links.clone()).map(|(_, path)| path).collect();
    let units = unit_paths(&config.systemd);
    for (list, path) in files.chain(directories).chain(links) {
        let refuse = |problem: String| {
            let field = format!("storage.{list}[{path}].path");
            Err(IgnitionError::Path { field, path: path.to_owned(), problem })
        };
        if let Some(parent) = ancestors(path).find(|parent| parents.contains(parent)) {
            return refuse(format!(
                "which is below {parent:?}, and that is itself a file or a link; move or remove one of them"
            ));
        }
        if units.contains(path) {
            return refuse("which systemd.units writes as well; keep one of them".to_owned());
        }
    }
    Ok(())
}

/// Where units and drop-ins with contents are written.
fn unit_paths(systemd: &Systemd) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    for unit in &systemd.units {
        let is_set = |contents: &Option<String>| contents.as_ref().is_some_and(|contents| !contents.is_empty());
        if is_set(&unit.contents) {
            paths.insert(format!("{UNITS}/{}", unit.name));
        }
        let dropins = unit.dropins.iter().filter(|dropin| is_set(&dropin.contents));
        paths.extend(dropins.map(|dropin| format!("{UNITS}/{}.d/{}", unit.name, dropin.name)));
    }
    paths
}

/// The folders above a path, without the root.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').filter_map(|(at, _)| path.get(..at)).filter(|parent| !parent.is_empty())
}

fn file(file: &File) -> Result<(), IgnitionError> {
    let place = format!("storage.files[{}]", file.path);
    node(&place, &file.path, &file.user, &file.group)?;
    mode(&place, file.mode)?;
    if file.append.iter().chain([&file.contents]).any(|resource| !resource.http_headers.is_empty()) {
        let problem = "httpHeaders are sent to a server, and a data: URL has none; remove them".to_owned();
        return Err(IgnitionError::Invalid { field: place, problem });
    }
    Ok(())
}

fn link(link: &Link) -> Result<(), IgnitionError> {
    let place = format!("storage.links[{}]", link.path);
    node(&place, &link.path, &link.user, &link.group)?;
    let field = format!("{place}.target");
    match link.target.as_deref() {
        None | Some("") => Err(IgnitionError::Missing { field }),
        Some(target) if link.hard == Some(true) => path(&field, target),
        Some(target) if target.contains('\0') || target.len() > MAX_PATH => {
            let problem = "which no file system can contain; correct it".to_owned();
            Err(IgnitionError::Path { field, path: target.to_owned(), problem })
        }
        Some(_) => Ok(()),
    }
}

/// What files, directories and links have in common.
fn node(place: &str, of_node: &str, user: &Owner, group: &Owner) -> Result<(), IgnitionError> {
    path(&format!("{place}.path"), of_node)?;
    owner(&format!("{place}.user"), user)?;
    owner(&format!("{place}.group"), group)
}

/// Absolute, written in the one usual way, and outside of what the kernel provides.
fn path(field: &str, path: &str) -> Result<(), IgnitionError> {
    let parts = || path.split('/').skip(1);
    let problem = if !path.starts_with('/') {
        "which is not absolute; let it begin with /"
    } else if path == "/" {
        "which is the root folder; name what is in it"
    } else if path.contains('\0') {
        "which contains a NUL character; remove it"
    } else if parts().any(|part| part == "..") {
        "which contains ..; write where it leads to"
    } else if parts().any(|part| part.is_empty() || part == ".") {
        "which has an empty part or the part . in it; leave these parts out"
    } else if path.len() > MAX_PATH || parts().any(|part| part.len() > MAX_NAME) {
        "which is longer than Linux allows; shorten it"
    } else if KERNEL_FOLDERS.iter().any(|folder| is_at_or_below(path, folder)) {
        "where the kernel provides all files; use kernel arguments, a sysctl file, a udev rule or a unit instead"
    } else {
        return Ok(());
    };
    Err(IgnitionError::Path { field: field.to_owned(), path: path.to_owned(), problem: problem.to_owned() })
}

fn is_at_or_below(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn mode(place: &str, mode: Option<i64>) -> Result<(), IgnitionError> {
    match mode {
        Some(mode) if !(0..=0o777).contains(&mode) => Err(IgnitionError::Mode { field: format!("{place}.mode"), mode }),
        _ => Ok(()),
    }
}

fn owner(place: &str, owner: &Owner) -> Result<(), IgnitionError> {
    let refuse = |problem: &str| Err(IgnitionError::Invalid { field: place.to_owned(), problem: problem.to_owned() });
    match (&owner.id, &owner.name) {
        (Some(_), Some(name)) if !name.is_empty() => refuse("both id and name are set; keep one of them"),
        (Some(id), _) if u32::try_from(*id).is_err() => refuse("id is no number of a user or group; correct it"),
        (_, Some(name)) if !name.is_empty() && !is_account(name) => {
            refuse("name is no name of a user or group; correct it")
        }
        _ => Ok(()),
    }
}

/// One line of /etc/passwd holds a name between colons; a name that begins with a hyphen would be read as an option.
fn is_account(name: &str) -> bool {
    let is_allowed = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, ':' | '/' | ',');
    !name.is_empty() && name.len() <= MAX_NAME && !name.starts_with('-') && name.chars().all(is_allowed)
}

fn unit(unit: &Unit) -> Result<(), IgnitionError> {
    let field = format!("systemd.units[{}].name", unit.name);
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || ":-_.\\@".contains(c);
    let problem = match unit.name.rsplit_once('.') {
        _ if unit.name.contains('/') => "which is a path; name the unit alone, as systemctl does",
        Some(("", _)) | None => "which has no suffix, such as .service; name the unit completely",
        Some((_, suffix)) if !UNIT_SUFFIXES.contains(&suffix) => {
            "which has none of the suffixes that systemd knows, such as .service; correct the name"
        }
        Some(_) if unit.name.len() > MAX_NAME || !unit.name.chars().all(is_allowed) => {
            "which systemd does not accept as a name; use letters, digits and :-_.\\@"
        }
        Some(_) => return unit.dropins.iter().try_for_each(|dropin| drop_in(&unit.name, &dropin.name)),
    };
    Err(IgnitionError::Name { field, name: unit.name.clone(), problem })
}

fn drop_in(unit: &str, name: &str) -> Result<(), IgnitionError> {
    let problem = match name.strip_suffix(".conf") {
        _ if name.contains(['/', '\0']) => "which is a path; name the drop-in alone",
        None | Some("") => "which does not end in .conf, and systemd reads no others; rename it",
        Some(_) if name.len() > MAX_NAME => "which is longer than Linux allows; shorten it",
        Some(_) => return Ok(()),
    };
    let field = format!("systemd.units[{unit}].dropins[{name}].name");
    Err(IgnitionError::Name { field, name: name.to_owned(), problem })
}

fn user(user: &User) -> Result<(), IgnitionError> {
    let place = format!("passwd.users[{}]", user.name);
    let is_line = |text: &str| !text.contains(['\n', '\r', '\0']);
    if !is_account(&user.name) {
        let problem = "which is no name of a user; correct it";
        return Err(IgnitionError::Name { field: format!("{place}.name"), name: user.name.clone(), problem });
    }
    let problem = if !user.ssh_authorized_keys.iter().all(|key| is_line(key)) {
        "sshAuthorizedKeys has a key of several lines; write each key as an entry of its own"
    } else if user.password_hash.as_deref().is_some_and(|hash| !is_line(hash) || hash.contains(':')) {
        "passwordHash contains a colon or a line break, which /etc/shadow cannot hold; hash the password again"
    } else {
        return Ok(());
    };
    Err(IgnitionError::Invalid { field: place, problem: problem.to_owned() })
}

/// What another configuration would contain is unknown when this one is rendered.
fn no_other_configurations(config: &Config) -> Result<(), IgnitionError> {
    match config.ignition.get("config") {
        None | Some(Value::Null) => Ok(()),
        Some(_) => Err(IgnitionError::Invalid {
            field: "ignition.config".to_owned(),
            problem: "a node must not need the network for its configuration; write the contents of the other \
                      configuration into a MachineConfig"
                .to_owned(),
        }),
    }
}
