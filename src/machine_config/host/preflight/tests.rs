use super::*;
use crate::machine_config::api::machine_config::MachineConfigSpec;
use crate::machine_config::host::commands::recorded::Recorded;
use crate::machine_config::host::root::HostError;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use tempfile::TempDir;

/// A small file system, as far as this process may mount one.
pub(crate) struct Small(TempDir);

impl Small {
    pub(crate) fn mount(options: &str) -> Option<Small> {
        let dir = tempfile::tempdir().unwrap();
        let options = CString::new(options).unwrap();
        match mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), options.as_c_str()) {
            Ok(()) => Some(Small(dir)),
            Err(error) => {
                println!("skipped: cannot mount a tmpfs: {error}");
                None
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        unmount(self.0.path(), UnmountFlags::DETACH).unwrap();
    }
}

fn writes(root: &Root, files: &[(&str, usize)]) -> Writes {
    let owner = root.owner().unwrap();
    let state = |size| State::File { content: vec![b'x'; size].into(), mode: 0o644, owner };
    let states = files.iter().map(|(path, size)| ((*path).to_owned(), state(*size)));
    Writes { states: states.collect(), ..Writes::default() }
}

fn next() -> MachineConfig {
    MachineConfig::new("b", MachineConfigSpec::default())
}

#[test]
fn what_finds_no_room_is_named_with_what_is_needed() {
    let Some(disk) = Small::mount("size=20m,nr_inodes=100") else { return };
    let root = Root::open(disk.path()).unwrap();
    room(&root, &writes(&root, &[("/etc/a/b", 1 << 20)]), &next()).unwrap();
    let error = room(&root, &writes(&root, &[("/etc/a/b", 5 << 20)]), &next()).unwrap_err();
    let PreflightError::Full { path, needed, free } = &error else { panic!("{error}") };
    assert!(path.starts_with("/etc/") && *needed > (21 << 20) && *free <= (20 << 20), "{error}");
    assert!(error.to_string().contains("remove what is not used, or make it larger"), "{error}");
    fs::create_dir(disk.path().join("etc")).unwrap();
    fs::write(disk.path().join("etc/same"), vec![b'x'; 3 << 20]).unwrap();
    fs::set_permissions(disk.path().join("etc/same"), fs::Permissions::from_mode(0o644)).unwrap();
    room(&root, &writes(&root, &[("/etc/same", 3 << 20)]), &next()).unwrap();
    fs::set_permissions(disk.path().join("etc/same"), fs::Permissions::from_mode(0o600)).unwrap();
    let error = room(&root, &writes(&root, &[("/etc/same", 3 << 20)]), &next()).unwrap_err();
    assert!(matches!(error, PreflightError::Full { .. }), "it is replaced, and kept until then: {error}");
    let many: Vec<String> = (0..40).map(|number| format!("/etc/{number}")).collect();
    let many: Vec<(&str, usize)> = many.iter().map(|path| (path.as_str(), 1)).collect();
    let error = room(&root, &writes(&root, &many), &next()).unwrap_err();
    assert!(matches!(error, PreflightError::Files { .. }), "{error}");
}

#[test]
fn file_system_that_cannot_be_written_is_named() {
    let Some(disk) = Small::mount("size=40m") else { return };
    let dir = tempfile::tempdir().unwrap();
    let below = dir.path().join("usr");
    fs::create_dir(&below).unwrap();
    let flags = MountFlags::BIND;
    rustix::mount::mount_bind(disk.path(), &below).unwrap();
    rustix::mount::mount_remount(&below, flags | MountFlags::RDONLY, "").unwrap();
    let root = Root::open(dir.path()).unwrap();
    let found = room(&root, &writes(&root, &[("/usr/local/x", 1)]), &next());
    unmount(&below, UnmountFlags::DETACH).unwrap();
    let error = found.unwrap_err().to_string();
    assert!(error.starts_with("the file system of /usr/local/x is mounted read-only; mount it"), "{error}");
}

#[test]
fn path_below_a_file_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("file"), "").unwrap();
    let root = Root::open(dir.path()).unwrap();
    let error = room(&root, &writes(&root, &[("/file/below", 1)]), &next()).unwrap_err();
    assert!(matches!(error, PreflightError::Host(HostError::Failed { .. })), "{error}");
}

#[test]
fn program_that_is_not_there_is_named_unless_nothing_needs_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let recorded = Arc::new(Recorded::default());
    let missing = |commands: &Commands, services, reboots, others: &[&'static str]| {
        let programs = Programs { services, reboots, others: others.to_vec() };
        has_programs(&root, commands, &programs).err().map(|error| error.to_string())
    };
    let commands = recorded.commands();
    assert_eq!(missing(&commands, false, false, &[]), None);
    let text = |name: &str| {
        Some(format!(
            "the node has no program {name}, which the change needs; install it, or change the flag that names it"
        ))
    };
    assert_eq!(missing(&commands, true, false, &[]), text("systemctl"));
    assert_eq!(missing(&commands, false, false, &["rpm-ostree"]), text("rpm-ostree"));
    fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
    fs::write(dir.path().join("usr/bin/systemctl"), "").unwrap();
    assert_eq!(missing(&commands, true, false, &[]), None);
    assert_eq!(missing(&commands, true, true, &[]), text("systemd-run"));
    let own = Commands { reboot_command: Some("/no/such/reboot".into()), ..recorded.commands() };
    assert_eq!(missing(&own, true, true, &[]), text("/no/such/reboot"));
    let own = Commands { reboot_command: Some("/bin/sh".into()), service_command: Some("/bin/sh".into()), ..own };
    assert_eq!(missing(&own, true, true, &[]), None);
}
