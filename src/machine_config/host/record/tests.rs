use super::*;
use crate::machine_config::agent::Phase;
use std::fs;
use tempfile::TempDir;

fn disk() -> (TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    for folder in ["etc", "var/lib"] {
        fs::create_dir_all(dir.path().join(folder).join("machine-config-daemon")).unwrap();
    }
    let root = Root::open(dir.path()).unwrap();
    (dir, root)
}

fn update() -> Update {
    let to = Target { config: "b".into(), image: Some("registry/os@sha256:1".into()) };
    let journal = Journal { to, phase: Phase::Applying, drains: true, reboots: true, boot: "1".into() };
    let repairs = Repairs { kernel_arguments: vec!["quiet".into()], ..Repairs::default() };
    Update { journal, actions: vec![Action::DaemonReload, Action::Restart("x.service".into())], forced: true, repairs }
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
        begun_in: Some("0".into()),
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
        ("../../var/lib/machine-config-daemon/failure.json", "1", "cannot read /var/lib/machine-config-daemon/failure"),
    ] {
        fs::write(at(name), content).unwrap();
        let error = Disk::read(&root).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        fs::remove_file(at(name)).unwrap();
    }
    put_update(&root, &update()).unwrap();
    assert!(Disk::read(&root).unwrap_err().to_string().contains("names b, and"));
}

/// Earlier versions had it there, and a node may be updated while it has one.
#[test]
fn failure_is_found_where_it_was_before_and_forgotten_there() {
    let (dir, root) = disk();
    let text =
        r#"{"target": {"config": "b"}, "cause": "c", "at": "1970-01-01T00:00:00Z", "count": 1, "after_reboot": true}"#;
    let at = dir.path().join("etc/machine-config-daemon/failure.json");
    fs::write(&at, text).unwrap();
    let failure = Disk::read(&root).unwrap().failure.unwrap();
    assert_eq!((failure.cause.as_str(), failure.begun_in.as_ref()), ("c", None));
    put_failure(&root, Some(&Failure { cause: "d".into(), ..failure })).unwrap();
    assert!(!at.exists());
    assert_eq!(Disk::read(&root).unwrap().failure.unwrap().cause, "d");
    fs::write(&at, text).unwrap();
    put_failure(&root, None).unwrap();
    assert_eq!(Disk::read(&root).unwrap().failure, None);
}

/// The journal may be that of an operating system which the node has come back to.
#[test]
fn update_that_was_given_up_after_a_restart_is_on_its_way_back_whatever_its_journal_says() {
    let (_dir, root) = disk();
    let mut update = update();
    (update.journal.phase, update.journal.boot) = (Phase::Applied, "1".into());
    begin(&root, &update, &MachineConfig::new("b", MachineConfigSpec::default())).unwrap();
    let phase = |target: &Target, begun_in: &str| {
        let failure = Failure {
            target: target.clone(),
            cause: String::new(),
            at: jiff::Timestamp::UNIX_EPOCH,
            count: 1,
            after_reboot: true,
            begun_in: Some(begun_in.to_owned()),
        };
        put_failure(&root, Some(&failure)).unwrap();
        Disk::read(&root).unwrap().update.unwrap().journal.phase
    };
    let to = update.journal.to.clone();
    assert_eq!(phase(&to, "1"), Phase::RollingBack);
    assert_eq!(phase(&to, "0"), Phase::Applied, "an earlier attempt");
    assert_eq!(phase(&Target::new("c"), "1"), Phase::Applied);
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
