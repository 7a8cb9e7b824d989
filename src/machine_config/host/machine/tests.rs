use super::*;
use crate::machine_config::agent::{Action as Step, AgentFacts, Plan, Unread, decide};
use crate::machine_config::disruption::{Disruption, Policies, disruption_on};
use crate::machine_config::drain::Request;
use crate::machine_config::host::commands::recorded::Recorded;
use crate::machine_config::host::root::faults::Fault;
use crate::machine_config::host::system::simulated::Host;
use crate::machine_config::node::NodeState;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

mod full;
mod node;
mod systems;

use node::{Node, file, machine_config};

const MOTD: &str = "/etc/motd";
const POLICY: &str = "/etc/containers/policy.json";

/// Two configurations that differ in files, modes, units and drop-ins, on a node that has had files before.
fn node() -> Node {
    let mut node = Node::new();
    node.put(MOTD, "of the operating system", 0o640);
    node.put("/etc/systemd/system/old.service.d/keep.conf", "mine", 0o644);
    node.add(machine_config(
        "a",
        &[file("/etc/a/one", "1", 0o644), file("/etc/a/two", "2", 0o600), file("/etc/gone", "x", 0o644)],
        &[json!({"name": "old.service", "enabled": true, "contents": "[Unit]\n", "dropins": [{"name": "d.conf", "contents": "d"}]})],
    ));
    node.add(machine_config(
        "b",
        &[file("/etc/a/one", "changed", 0o600), file("/etc/new/deep/file", "n", 0o755), file(MOTD, "ours", 0o644)],
        &[
            json!({"name": "new.service", "enabled": true, "contents": "[Service]\n"}),
            json!({"name": "masked.service", "mask": true}),
        ],
    ));
    node
}

#[tokio::test]
async fn first_record_says_that_nothing_was_applied() {
    let mut node = node();
    let before = node.tree();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!(node.current, "unconfigured");
    assert_eq!(node.tree(), before, "nothing is written before anything is desired");
}

#[tokio::test]
async fn update_with_a_restart_writes_files_units_and_links() {
    let mut node = node();
    node.reach("a").await;
    node.services.take();
    node.reach("b").await;
    assert_eq!(node.reboots, 2);
    assert_eq!(node.read("/etc/a/one").as_deref(), Some("changed"));
    assert_eq!(node.read(MOTD).as_deref(), Some("ours"));
    assert_eq!([node.read("/etc/a/two"), node.read("/etc/gone")], [None, None]);
    assert_eq!(node.read("/etc/systemd/system/new.service").as_deref(), Some("[Service]\n"));
    assert_eq!(node.read("/etc/systemd/system/old.service.d/d.conf"), None);
    assert_eq!(node.read("/etc/systemd/system/old.service.d/keep.conf").as_deref(), Some("mine"));
    let masked = fs::read_link(node.dir.path().join("etc/systemd/system/masked.service")).unwrap();
    assert_eq!(masked, Path::new("/dev/null"));
    let mode = fs::metadata(node.dir.path().join("etc/new/deep/file")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
    let calls = node.services.take();
    assert!(calls.contains(&"systemctl enable -- new.service".to_owned()), "{calls:?}");
    assert!(calls.contains(&"systemctl disable -- old.service".to_owned()), "{calls:?}");
}

#[tokio::test]
async fn what_was_there_before_comes_back_when_no_configuration_has_it() {
    let mut node = node();
    node.reach("a").await;
    node.reach("b").await;
    node.reach("a").await;
    assert_eq!(node.read(MOTD).as_deref(), Some("of the operating system"));
    let mode = fs::metadata(node.dir.path().join("etc/motd")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o640);
    assert_eq!(node.read("/etc/new/deep/file"), None);
    let kept = ["orig/etc/motd.mcdorig", "noorig/etc/new/deep/file.mcdnoorig"];
    let kept = kept.map(|path| node.read(&format!("/etc/machine-config-daemon/{path}")));
    assert_eq!(kept, [None, None]);
}

/// Every write of an update fails in turn, on a node that starts at `a` and is told `b`.
#[tokio::test]
async fn failing_write_restores_the_tree_and_the_next_attempt_needs_no_second_drain() {
    let mut faults = 0;
    for number in 0.. {
        let mut node = node();
        node.reach("a").await;
        let (before, drains) = (node.tree(), node.drains);
        node.desired = "b".to_owned();
        let machine = node.machine();
        machine.root.faults.set(Fault::Once(number));
        // A fault that hits what follows a failure ends the process, which is started again.
        if node.live(&machine).await.is_err() {
            let machine = node.machine();
            node.live(&machine).await.unwrap();
        }
        if machine.root.faults.is_pending() {
            break;
        }
        faults += 1;
        let disk = node.disk();
        assert_eq!(disk.update, None, "write {number}: the journal is gone");
        match disk.record.unwrap().target.config.as_str() {
            "a" => {
                assert_eq!(node.tree(), before, "write {number}");
                assert!(disk.failure.unwrap().cause.contains("No space left"), "write {number}");
                node.pause();
                node.reach("b").await;
                assert_eq!(node.drains, drains + 1, "write {number}: {:?}", node.told);
            }
            // It failed when everything had been written.
            other => assert_eq!(other, "b", "write {number}"),
        }
    }
    assert!(faults > 12, "only {faults} writes");
}

/// The process is killed after each write in turn, and started again.
#[tokio::test]
async fn agent_killed_after_any_write_reaches_the_target() {
    let mut reference = node();
    reference.reach("a").await;
    reference.reach("b").await;
    let mut kills = 0;
    for number in 0.. {
        let mut node = node();
        node.reach("a").await;
        let before = node.tree();
        node.desired = "b".to_owned();
        let machine = node.machine();
        machine.root.faults.set(Fault::Killed(number));
        let ended = node.live(&machine).await;
        if ended.is_ok() {
            break;
        }
        kills += 1;
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        if node.disk().record.unwrap().target.config == "a" {
            assert_eq!(node.tree(), before, "write {number}");
            node.pause();
            node.reach("b").await;
        }
        assert_eq!(node.tree(), reference.tree(), "write {number}");
        assert_eq!(node.disk().update, None, "write {number}");
    }
    assert!(kills > 12, "only {kills} kills");
}

#[tokio::test]
async fn file_with_a_policy_is_followed_by_a_reload_and_neither_drain_nor_restart() {
    let mut node = Node::new();
    node.add(machine_config("a", &[], &[]));
    node.add(machine_config("b", &[file(POLICY, "{}", 0o644)], &[]));
    node.reach("a").await;
    node.services.take();
    node.reach("b").await;
    assert_eq!((node.reboots, node.drains), (0, 0));
    assert_eq!(node.services.take_changes(), ["systemctl reload -- crio.service"]);
    assert_eq!(node.read(POLICY).as_deref(), Some("{}"));
}

/// Nothing that runs reads the file there, and whatever takes the place of CRI-O does not know its name.
#[tokio::test]
async fn node_without_cri_o_is_given_the_file_and_nothing_follows() {
    let mut node = Node::new();
    node.services.answer("systemctl show --property=LoadState --value -- crio.service", 0, "not-found\n", "");
    let registries = |mirrors| file("/etc/containers/registries.conf", &registries(mirrors), 0o644);
    node.add(machine_config("a", &[registries("")], &[]));
    let by_tag = "[[registry.mirror]]\nlocation = \"m.example\"\n";
    node.add(machine_config("b", &[file(POLICY, "{}", 0o644), registries(by_tag)], &[]));
    node.reach("a").await;
    let before = (node.reboots, node.drains);
    node.services.take();
    node.reach("b").await;
    assert_eq!((node.services.take_changes(), (node.reboots, node.drains)), (Vec::new(), before));
}

#[tokio::test]
async fn unit_of_a_policy_that_the_node_lacks_is_named_before_any_drain() {
    let mut node = Node::new();
    let actions = json!([{"type": "Drain"}, {"type": "Restart", "restart": {"serviceName": "app.service"}}]);
    let policies = json!({
        "files": [{"path": "/etc/app", "actions": actions}], "units": [{"name": "app.service", "actions": actions}],
    });
    node.policies = Policies::new(&serde_json::from_value(policies).unwrap()).unwrap();
    node.services.answer("systemctl show --property=LoadState --value -- app.service", 0, "not-found\n", "");
    node.add(machine_config("a", &[], &[]));
    node.add(machine_config("b", &[file("/etc/app/conf", "x", 0o644)], &[]));
    let unit = json!({"name": "app.service", "contents": "[Service]\n"});
    node.add(machine_config("c", &[file("/etc/app/conf", "x", 0o644)], &[unit]));
    node.reach("a").await;
    node.desired = "b".to_owned();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    let told = node.told.last().unwrap();
    assert!(told.starts_with("before anything is changed: the node has no unit app.service"), "{told}");
    assert_eq!((node.drains, node.read("/etc/app/conf")), (0, None));
    // A configuration may bring it.
    node.services.take();
    node.reach("c").await;
    let expected = ["systemctl daemon-reload", "systemctl restart -- app.service"];
    assert_eq!((node.services.take_changes(), node.reboots), (expected.map(str::to_owned).into(), 0));
}

fn registries(mirrors: &str) -> String {
    format!("[[registry]]\nprefix = \"r.example\"\nlocation = \"r.example\"\n{mirrors}")
        .replace('\n', "%0A")
        .replace(' ', "%20")
}

#[tokio::test]
async fn change_of_the_registries_drains_only_if_running_pods_could_pull_other_images() {
    let by_digest = "[[registry.mirror]]\nlocation = \"m.example\"\npull-from-mirror = \"digest-only\"\n";
    let by_tag = "[[registry.mirror]]\nlocation = \"m.example\"\n";
    for (mirrors, drains) in [(by_digest, 0), (by_tag, 1)] {
        let mut node = Node::new();
        let config = |name, mirrors| {
            machine_config(name, &[file("/etc/containers/registries.conf", &registries(mirrors), 0o644)], &[])
        };
        node.add(config("a", ""));
        node.add(config("b", mirrors));
        node.reach("a").await;
        let before = node.drains;
        node.services.take();
        node.reach("b").await;
        assert_eq!((node.drains - before, node.reboots), (drains, 0), "{mirrors}");
        assert_eq!(node.services.take_changes(), ["systemctl reload -- crio.service"], "{mirrors}");
    }
}

/// Each command of the update fails in turn.
#[tokio::test]
async fn failing_command_restores_the_tree_and_the_next_attempt_needs_no_second_drain() {
    for failing in ["systemctl disable -- old.service", "systemctl enable -- new.service"] {
        let mut node = node();
        node.reach("a").await;
        let (before, drains) = (node.tree(), node.drains);
        node.services.answer(failing, 1, "", "Failed to connect to bus\n");
        node.desired = "b".to_owned();
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        assert_eq!((node.tree(), node.disk().update, node.reboots), (before, None, 1), "{failing}");
        let cause = format!("{failing} failed (exit status 1): Failed to connect to bus");
        assert_eq!(node.told.last(), Some(&cause));
        assert_eq!(node.asked, Some(Request::Drain("b".into())), "it stays drained");
        node.services.answers.lock().unwrap().clear();
        node.pause();
        node.reach("b").await;
        assert_eq!(node.drains, drains + 1, "{failing}");
    }
}

#[tokio::test]
async fn service_that_cannot_be_reloaded_brings_the_former_file_back() {
    let mut node = Node::new();
    node.add(machine_config("a", &[file(POLICY, "old", 0o644)], &[]));
    node.add(machine_config("b", &[file(POLICY, "new", 0o644)], &[]));
    node.reach("a").await;
    node.services.answer("systemctl reload -- crio.service", 1, "", "Job failed.\n");
    node.desired = "b".to_owned();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!(node.read(POLICY).as_deref(), Some("old"));
    let cause = node.disk().failure.unwrap().cause;
    assert_eq!(cause, "systemctl reload -- crio.service failed (exit status 1): Job failed.");
    assert_eq!(node.told.last(), Some(&cause));
}

#[tokio::test]
async fn node_that_does_not_become_what_it_was_restarted_for_is_restored_and_not_tried_again() {
    let mut node = node();
    node.reach("a").await;
    let before = node.tree();
    node.desired = "b".to_owned();
    // Somebody else removes it again at each start.
    node.services.answer("systemctl is-enabled -- new.service", 1, "disabled\n", "");
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!(node.tree(), before);
    let failure = node.disk().failure.unwrap();
    assert!(failure.after_reboot);
    let expected = "the node is not as b: the unit new.service is disabled and should be enabled";
    assert_eq!(failure.cause, expected);
    assert_eq!(node.reboots, 3, "to a, to b, and back");
    assert_eq!(node.disk().record.unwrap().target.config, "a");
}

/// The cause is mended, the pool goes back and forth: the name of the configuration is still the same.
#[tokio::test]
async fn what_failed_after_a_restart_is_tried_again_once_the_node_was_well() {
    let mut node = node();
    node.reach("a").await;
    node.desired = "b".to_owned();
    node.services.answer("systemctl is-enabled -- new.service", 1, "disabled\n", "");
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert!(node.disk().failure.unwrap().after_reboot);
    node.services.answers.lock().unwrap().clear();
    node.reach("a").await;
    assert_eq!(node.disk().failure, None);
    node.reach("b").await;
}

#[tokio::test]
async fn units_that_cannot_be_asked_for_after_the_restart_are_no_deviation() {
    let mut node = node();
    node.reach("a").await;
    node.services.answer("systemctl is-enabled -- new.service", 1, "", "Failed to connect to bus\n");
    node.desired = "b".to_owned();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!((node.reboots, node.disk().failure), (2, None), "{:?}", node.told);
    assert_eq!(node.disk().update.unwrap().journal.phase, Phase::Applied);
    node.services.answers.lock().unwrap().clear();
    node.pause();
    node.reach("b").await;
    assert_eq!(node.reboots, 2);
}

/// A unit that the update brings, and that is enabled, has to run; before the system has started nobody knows.
#[tokio::test]
async fn unit_that_fails_after_the_restart_is_a_deviation_once_the_node_has_started() {
    let mut node = node();
    node.reach("a").await;
    node.services.answer("systemctl is-active -- new.service", 3, "failed\n", "");
    node.services.answer("systemctl is-system-running", 1, "starting\n", "");
    node.desired = "b".to_owned();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    assert_eq!((node.disk().update.unwrap().journal.phase, node.disk().failure), (Phase::Applied, None));
    node.services.answer("systemctl is-system-running", 1, "degraded\n", "");
    node.pause();
    let machine = node.machine();
    node.live(&machine).await.unwrap();
    let cause = "the node is not as b: the unit new.service has failed; `systemctl status new.service` on the node \
                 says why";
    assert_eq!((node.told.last().map(String::as_str), node.reboots), (Some(cause), 3));
    // It is not asked for on a node that has settled, where it may fail for any reason.
    node.services.answer("systemctl is-active -- new.service", 0, "activating\n", "");
    node.reach("a").await;
    node.reach("b").await;
    node.services.answer("systemctl is-active -- new.service", 3, "failed\n", "");
    assert_eq!(node.machine().check(&node.disk()).await, Ok(Check::Passed));
}

/// What it could not read does not hide what it did read.
#[tokio::test]
async fn file_that_deviates_is_found_although_the_system_does_not_answer() {
    let mut node = Node::with_system(System::RpmOstree, "r/os@sha256:1");
    let mut config = machine_config("a", &[file("/etc/a", "1", 0o644), file("/etc/b", "2", 0o644)], &[]);
    config.spec.os_image_url = "r/os@sha256:1".to_owned();
    node.add(config);
    node.reach("a").await;
    *node.host().mute.lock().unwrap() = Some(("r/os@sha256:1".to_owned(), "rpm-ostree status".to_owned()));
    let unread = node.machine().check(&node.disk()).await.unwrap_err();
    assert!(unread.starts_with("rpm-ostree status --json failed"), "{unread}");
    node.put("/etc/b", "other", 0o644);
    let found = node.machine().check(&node.disk()).await;
    assert!(matches!(&found, Ok(Check::Failed(text)) if text.contains("the content of /etc/b differs")), "{found:?}");
}

#[tokio::test]
async fn force_file_writes_everything_anew_with_a_restart_and_is_removed() {
    let mut node = node();
    node.reach("a").await;
    node.put("/etc/a/one", "drifted", 0o644);
    node.put(record::FORCE, "", 0o600);
    node.reach("a").await;
    assert_eq!(node.read("/etc/a/one").as_deref(), Some("1"));
    assert_eq!(node.read(record::FORCE), None);
    assert_eq!(node.reboots, 2);
}

/// It would be restarted for ever otherwise, where nobody empties the folder of the file at a restart.
#[tokio::test]
async fn force_file_is_good_for_one_restart() {
    let mut node = node();
    node.reach("a").await;
    node.put(record::FORCE, "", 0o600);
    node.services.answer("systemctl is-enabled -- new.service", 1, "disabled\n", "");
    node.desired = "b".to_owned();
    for _ in 0..3 {
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        node.pause();
    }
    assert_eq!((node.reboots, node.read(record::FORCE)), (3, None), "to a, to b, and back: {:?}", node.told);
    assert!(node.told.last().unwrap().contains("new.service is disabled"), "{:?}", node.told);
}

#[tokio::test]
async fn drift_is_told_and_its_repair_found() {
    let mut node = node();
    node.reach("a").await;
    type Damage = fn(&Path);
    let deviations: [(&str, Damage, &str); 6] = [
        ("etc/a/one", |path| fs::write(path, "other").unwrap(), "the content of /etc/a/one differs"),
        ("etc/a/one", |path| fs::remove_file(path).unwrap(), "/etc/a/one is missing"),
        (
            "etc/a/one",
            |path| fs::set_permissions(path, fs::Permissions::from_mode(0o777)).unwrap(),
            "/etc/a/one has the mode 0777 and should have 0644",
        ),
        (
            "etc/a/one",
            |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("two", path).unwrap();
            },
            "/etc/a/one is a symbolic link",
        ),
        (
            "etc/systemd/system/old.service",
            |path| {
                fs::remove_file(path).unwrap();
                std::os::unix::fs::symlink("/dev/null", path).unwrap();
            },
            "the unit old.service is masked",
        ),
        ("etc/systemd/system/old.service.d/d.conf", |path| fs::write(path, "").unwrap(), "the content of"),
    ];
    for (path, damage, expected) in deviations {
        let (machine, disk) = (node.machine(), node.disk());
        let at = node.dir.path().join(path);
        let (content, before) = (fs::read(&at).unwrap(), machine.fingerprint(&disk));
        damage(&at);
        assert_ne!(machine.fingerprint(&disk), before, "{expected}");
        let Ok(Check::Failed(found)) = machine.check(&disk).await else { panic!("{expected}") };
        assert!(found.contains(expected) && !found.contains("other"), "{found}");
        let _missing_already = fs::remove_file(&at);
        node.put(path, &String::from_utf8(content).unwrap(), 0o644);
        assert_eq!(machine.check(&disk).await, Ok(Check::Passed), "{expected}");
    }
    node.services.set_enabled("old.service", false);
    let Ok(Check::Failed(found)) = node.machine().check(&node.disk()).await else { panic!("disabled") };
    assert_eq!(found, "the node is not as a: the unit old.service is disabled and should be enabled");
}
