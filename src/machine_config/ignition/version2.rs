//! Rewrites a configuration of version 2.0 to 2.2 as one of version 3.0. Types are checked afterwards: what has another
//! type than it should stays as it is.

use super::IgnitionError;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// What version 3 has no counterpart for, or describes so differently that a conversion would be a guess.
const REFUSED: [(&str, &str); 5] = [
    ("/networkd/units", "write network configuration as files below /etc/NetworkManager/system-connections"),
    ("/storage/disks", "write the configuration in version 3"),
    ("/storage/raid", "write the configuration in version 3"),
    ("/ignition/config/append", "a node must not need the network; write its contents into a MachineConfig"),
    ("/ignition/config/replace", "a node must not need the network; write its contents into a MachineConfig"),
];

/// Version 2 allows entries that contradict each other; the last one is the one that Ignition 2 leaves behind.
pub(super) fn convert(fields: &Map<String, Value>) -> Result<Value, IgnitionError> {
    let mut config = Value::Object(fields.clone());
    for (pointer, problem) in REFUSED {
        let is_empty = |value: &Value| {
            value.is_null()
                || value.as_array().is_some_and(Vec::is_empty)
                || value.as_object().is_some_and(Map::is_empty)
        };
        if config.pointer(pointer).is_some_and(|value| !is_empty(value)) {
            return Err(IgnitionError::Conversion { field: place(pointer), problem });
        }
    }
    for (pointer, field) in [("", "networkd"), ("/ignition", "config")] {
        if let Some(object) = config.pointer_mut(pointer).and_then(Value::as_object_mut) {
            object.remove(field);
        }
    }
    filesystems(&mut config)?;
    for list in ["files", "directories", "links"] {
        let Some(entries) = list_mut(&mut config, &format!("/storage/{list}")) else { continue };
        for entry in entries.iter_mut().filter_map(Value::as_object_mut) {
            root_only(list, entry)?;
            appended(entry);
        }
        last_of_each(entries, "path");
    }
    if let Some(units) = list_mut(&mut config, "/systemd/units") {
        self::units(units);
    }
    if let Some(users) = list_mut(&mut config, "/passwd/users") {
        *users = core_user(users)?;
    }
    Ok(config)
}

fn place(pointer: &str) -> String {
    pointer.trim_start_matches('/').replace('/', ".")
}

fn list_mut<'a>(config: &'a mut Value, pointer: &str) -> Option<&'a mut Vec<Value>> {
    config.pointer_mut(pointer).and_then(Value::as_array_mut)
}

fn text<'a>(entry: &'a Value, field: &str) -> Option<&'a str> {
    entry.get(field).and_then(Value::as_str)
}

/// A file system may be declared for its name `root` only, which is the one that nodes are written to.
fn filesystems(config: &mut Value) -> Result<(), IgnitionError> {
    let Some(storage) = config.get_mut("storage").and_then(Value::as_object_mut) else { return Ok(()) };
    let mut given = storage.get("filesystems").and_then(Value::as_array).into_iter().flatten();
    if given.any(|filesystem| filesystem.get("mount").is_some_and(|mount| !mount.is_null())) {
        let problem = "write the configuration in version 3";
        return Err(IgnitionError::Conversion { field: "storage.filesystems".to_owned(), problem });
    }
    storage.remove("filesystems");
    Ok(())
}

/// Version 3 knows paths of the running system only.
fn root_only(list: &str, entry: &mut Map<String, Value>) -> Result<(), IgnitionError> {
    match entry.remove("filesystem") {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(name)) if name.is_empty() || name == "root" => Ok(()),
        Some(_) => {
            let path = entry.get("path").and_then(Value::as_str).unwrap_or_default();
            let problem = "only the file system root can be written to; use the path that the other one is mounted at";
            Err(IgnitionError::Conversion { field: format!("storage.{list}[{path}].filesystem"), problem })
        }
    }
}

/// `append: true` says that the contents are appended, for which version 3 has a list.
fn appended(entry: &mut Map<String, Value>) {
    match entry.get("append") {
        Some(Value::Bool(true)) => {
            let contents = entry.remove("contents").unwrap_or_else(|| Value::Object(Map::new()));
            entry.insert("append".to_owned(), Value::Array(vec![contents]));
        }
        Some(Value::Bool(false)) => drop(entry.remove("append")),
        _ => {}
    }
}

/// Keeps of the entries with the same key the last one.
fn last_of_each(entries: &mut Vec<Value>, key: &str) {
    let last: BTreeMap<String, usize> =
        entries.iter().enumerate().filter_map(|(at, entry)| text(entry, key).map(|own| (own.to_owned(), at))).collect();
    let mut at = 0;
    entries.retain(|entry| {
        let is_last = text(entry, key).is_none_or(|own| last.get(own) == Some(&at));
        at += 1;
        is_last
    });
}

/// Of units with the same name the last one counts, with the drop-ins of all of them, of which again the last one counts.
fn units(units: &mut Vec<Value>) {
    let mut dropins: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for unit in units.iter_mut() {
        let name = text(unit, "name").unwrap_or_default().to_owned();
        let own = unit.get("dropins").and_then(Value::as_array).cloned().unwrap_or_default();
        dropins.entry(name).or_default().extend(own);
        let Some(unit) = unit.as_object_mut() else { continue };
        // The older of two fields that mean the same.
        if unit.remove("enable") == Some(Value::Bool(true)) && unit.get("enabled").is_none_or(Value::is_null) {
            unit.insert("enabled".to_owned(), Value::Bool(true));
        }
    }
    last_of_each(units, "name");
    for unit in units.iter_mut().filter_map(Value::as_object_mut) {
        let name = unit.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(mut of_unit) = dropins.remove(name) else { continue };
        if unit.get("dropins").is_none_or(|own| own.is_array() || own.is_null()) {
            last_of_each(&mut of_unit, "name");
            unit.insert("dropins".to_owned(), Value::Array(of_unit));
        }
    }
}

/// Several entries for the user core become one: the fields of the last one, and the keys of all, newest entry first.
fn core_user(users: &[Value]) -> Result<Vec<Value>, IgnitionError> {
    let Some(last) = users.last() else { return Ok(Vec::new()) };
    for user in users {
        let name = text(user, "name").unwrap_or_default();
        let refuse = |problem| Err(IgnitionError::Conversion { field: format!("passwd.users[{name}]"), problem });
        if name != "core" {
            return refuse("the only user that can be configured is core; remove the entry");
        }
        if user.get("create").is_some_and(|create| !create.is_null()) {
            return refuse("create has no counterpart; write its fields into the entry itself");
        }
    }
    let mut merged = last.clone();
    let keys = users.iter().rev().filter_map(|user| user.get("sshAuthorizedKeys").and_then(Value::as_array));
    let mut all: Vec<Value> = Vec::new();
    for key in keys.flatten() {
        if !all.contains(key) {
            all.push(key.clone());
        }
    }
    let newest_hash = users.iter().rev().find_map(|user| user.get("passwordHash").filter(|hash| !hash.is_null()));
    if let Some(merged) = merged.as_object_mut() {
        if merged.get("sshAuthorizedKeys").is_none_or(|own| own.is_array() || own.is_null()) {
            merged.insert("sshAuthorizedKeys".to_owned(), Value::Array(all));
        }
        merged.extend(newest_hash.map(|hash| ("passwordHash".to_owned(), hash.clone())));
    }
    Ok(vec![merged])
}
