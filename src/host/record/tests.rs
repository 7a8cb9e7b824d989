use super::*;
use crate::pools::agent::Phase;
use std::fs;
use tempfile::TempDir;

fn disk() -> (TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("etc/machine-config-daemon")).unwrap();
    let root = Root::open(dir.path()).unwrap();
    (dir, root)
}

fn update() -> Update {
    let to = Target { config: "b".into(), image: Some("registry/os@sha256:1".into()) };
    let journal = Journal { to, phase: Phase::Applying, drains: true, reboots: true, boot: "1".into() };
    Update { journal, actions: vec![Action::DaemonReload, Action::Restart("x.service".into())], forced: false }
}

#[test]
fn what_is_written_is_read_again() {
    let (_dir, root) = disk();
    let (a, b) = (MachineConfig::new("a", MachineConfigSpec::default()), unconfigured());
    put_record(&root, &a, Some("image")).unwrap();
    let next = MachineConfig::new("b", b.spec);
    begin(&root, &update(), &next).unwrap();
    let failure = Failure {
        target: Target::new("b"),
        cause: "no room".into(),
        at: jiff::Timestamp::UNIX_EPOCH,
        count: 2,
        after_reboot: true,
    };
    put_failure(&root, Some(&failure)).unwrap();
    let read = Disk::read(&root).unwrap();
    assert_eq!(read.record.unwrap().target, Target { config: "a".into(), image: Some("image".into()) });
    assert_eq!((read.update, read.failure), (Some(update()), Some(failure)));
    end(&root).unwrap();
    put_failure(&root, None).unwrap();
    put_record(&root, &a, None).unwrap();
    let read = Disk::read(&root).unwrap();
    assert!(read.update.is_none() && read.next.is_none() && read.failure.is_none());
    assert_eq!(read.record.unwrap().target, Target::new("a"));
}

#[test]
fn unreadable_files_are_named() {
    let (dir, root) = disk();
    let at = |name: &str| dir.path().join("etc/machine-config-daemon").join(name);
    for (name, content, expected) in [
        ("currentconfig", "{", "cannot read /etc/machine-config-daemon/currentconfig of the node"),
        ("currentconfig", r#"{"metadata": {}, "spec": {}}"#, "it has no metadata.name"),
        ("journal.json", "[]", "cannot read /etc/machine-config-daemon/journal.json of the node"),
        ("failure.json", "1", "cannot read /etc/machine-config-daemon/failure.json of the node"),
    ] {
        fs::write(at(name), content).unwrap();
        let error = Disk::read(&root).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        fs::remove_file(at(name)).unwrap();
    }
    put_update(&root, &update()).unwrap();
    assert!(Disk::read(&root).unwrap_err().to_string().contains("names b, and"));
}

#[test]
fn seed_is_read_once_and_put_aside() {
    let (dir, root) = disk();
    assert_eq!(seed(&root).unwrap(), None);
    let at = dir.path().join("etc/machine-config-daemon/node-annotations.json");
    fs::write(&at, r#"{"machineconfiguration.openshift.io/currentConfig": "rendered-worker-1"}"#).unwrap();
    assert_eq!(seed(&root).unwrap(), Some(Target::new("rendered-worker-1")));
    put_seed_aside(&root).unwrap();
    assert_eq!(seed(&root).unwrap(), None);
    assert!(!at.exists() && at.with_file_name("node-annotation.json.bak").exists());
    put_seed_aside(&root).unwrap();
    fs::write(&at, "{}").unwrap();
    let error = seed(&root).unwrap_err().to_string();
    assert!(error.contains("node-annotations.json") && error.contains("currentConfig"), "{error}");
}

#[test]
fn only_the_superuser_reads_the_record() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, root) = disk();
    put_record(&root, &unconfigured(), None).unwrap();
    let mode = fs::metadata(dir.path().join("etc/machine-config-daemon/currentconfig")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}
