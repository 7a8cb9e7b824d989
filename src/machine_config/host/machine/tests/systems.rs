//! Updates of operating systems: what is staged when, and what is booted after a failure.

use super::*;
use crate::machine_config::host::system::simulated::Deployment;

fn with_image(name: &str, image: &str, more: Value, files: &[Value]) -> MachineConfig {
    let mut config = machine_config(name, files, &[]);
    let mut spec = serde_json::to_value(&config.spec).unwrap();
    spec["osImageURL"] = image.into();
    for (field, value) in more.as_object().unwrap() {
        spec[field] = value.clone();
    }
    config.spec = serde_json::from_value(spec).unwrap();
    config
}

/// Has the first of two configurations, each with an image and a file; with rpm-ostree also with arguments and
/// packages.
async fn node(system: System) -> Node {
    let mut node = Node::with_system(system, "r/os@sha256:1");
    let more = match system {
        System::RpmOstree => json!({"kernelArguments": ["quiet", "a=b"], "extensions": ["usbguard"]}),
        _ => json!({}),
    };
    node.add(with_image("a", "r/os@sha256:1", json!({}), &[file("/etc/app", "one", 0o644)]));
    node.add(with_image("b", "r/os@sha256:2", more, &[file("/etc/app", "two", 0o644)]));
    node.reach("a").await;
    node.services.take();
    node
}

const SYSTEMS: [System; 2] = [System::RpmOstree, System::Bootc];

#[tokio::test]
async fn image_is_staged_while_the_node_serves_and_released_once_it_is_drained_and_written() {
    for system in SYSTEMS {
        let mut node = node(system).await;
        let before = node.tree();
        node.reach("b").await;
        let (at_drain, next_boot) = node.at_drain.clone().unwrap();
        assert_eq!(at_drain, before, "{system:?}: nothing is written before the drain");
        assert_eq!(next_boot, "r/os@sha256:1", "{system:?}: no restart boots what is staged");
        assert_eq!((node.read("/etc/app").as_deref(), node.drains, node.reboots), (Some("two"), 2, 2));
        assert_eq!(*node.host().in_agent.lock().unwrap(), Vec::<String>::new(), "it has a limit of memory");
        let reboot = "systemd-run --collect --unit=machine-config-daemon-reboot";
        let calls = node.host().take_changes();
        let calls = calls.iter().map(|call| if call.starts_with(reboot) { reboot } else { call.as_str() });
        let expected: &[&str] = match system {
            System::RpmOstree => &[
                "rpm-ostree cleanup --pending",
                "rpm-ostree rebase --experimental --lock-finalization ostree-unverified-registry:r/os@sha256:2",
                "rpm-ostree kargs --lock-finalization --append=quiet --append=a=b",
                "rpm-ostree install --lock-finalization usbguard",
                "ostree admin lock-finalization --unlock",
                reboot,
            ],
            _ => &[
                "podman pull --quiet r/os@sha256:2",
                "bootc switch --quiet --transport containers-storage r/os@sha256:2",
                reboot,
            ],
        };
        assert_eq!(calls.collect::<Vec<_>>(), expected, "{system:?}");
        assert_eq!(node.host().deployments().booted.image, "r/os@sha256:2");
    }
}

/// By another process than the one that has staged it.
#[tokio::test]
async fn what_was_staged_is_dropped_when_its_target_is_withdrawn() {
    for (system, drops) in [(System::RpmOstree, "rpm-ostree cleanup --pending"), (System::Bootc, "systemctl stop")] {
        for wanted in ["a", "files"] {
            let mut node = node(system).await;
            node.add(with_image("files", "r/os@sha256:1", json!({}), &[file(POLICY, "{}", 0o644)]));
            (node.desired, node.withdraws) = ("b".to_owned(), true);
            let machine = node.machine();
            node.live(&machine).await.unwrap();
            assert_eq!(node.disk().staging, Some(Target::new("b")), "{system:?}");
            assert_eq!(node.host().deployments().staged.is_some(), system == System::RpmOstree);
            node.withdraws = false;
            node.services.take();
            node.reach(wanted).await;
            assert_eq!((node.disk().staging, node.host().deployments().staged.is_none()), (None, true), "{system:?}");
            let calls = node.services.take();
            assert!(calls.iter().any(|call| call.starts_with(drops)), "{system:?}: {calls:?}");
        }
    }
}

#[tokio::test]
async fn image_that_cannot_be_staged_is_told_before_any_drain() {
    for (system, failing) in [(System::RpmOstree, "rpm-ostree rebase"), (System::Bootc, "podman pull")] {
        let mut node = node(system).await;
        node.host().fail(failing);
        node.desired = "b".to_owned();
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        let told = node.told.last().unwrap();
        assert!(told.starts_with(failing) && told.ends_with("error: no connection"), "{told}");
        assert_eq!((node.drains, node.reboots), (1, 1), "those of the first configuration");
        node.pause();
        node.reach("b").await;
    }
}

/// What comes after the drain: everything is restored, and the next attempt needs no other drain.
#[tokio::test]
async fn image_that_cannot_be_released_is_dropped_and_the_files_are_restored() {
    for (system, failing) in [(System::RpmOstree, "ostree admin lock-finalization"), (System::Bootc, "bootc switch")] {
        let mut node = node(system).await;
        let before = node.tree();
        node.host().fail(failing);
        node.desired = "b".to_owned();
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        assert_eq!(node.tree(), before, "{system:?}");
        assert!(node.host().deployments().staged.is_none(), "{system:?}");
        assert!(node.told.last().unwrap().starts_with(failing), "{:?}", node.told);
        node.pause();
        node.reach("b").await;
        assert_eq!(node.drains, 2, "{system:?}");
    }
}

#[tokio::test]
async fn node_that_comes_back_with_the_old_image_is_degraded_and_names_both() {
    for system in SYSTEMS {
        let mut node = node(system).await;
        let before = node.tree();
        node.host().deployments().refuses = true;
        node.desired = "b".to_owned();
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        let told = node.told.last().unwrap();
        let expected = "the node is not as b: the booted image is r/os@sha256:1 and should be r/os@sha256:2;";
        assert!(told.starts_with(expected), "{told}");
        assert_eq!(node.asked, Some(Request::Drain("b".into())), "it stays cordoned");
        assert_eq!(node.tree(), before, "{system:?}");
        assert!(node.disk().failure.unwrap().after_reboot, "{system:?}: it is not restarted for ever");
        assert_eq!(node.host().next_boot().image, "r/os@sha256:1");
    }
}

#[tokio::test]
async fn force_file_brings_back_the_operating_system_that_somebody_has_changed() {
    for system in SYSTEMS {
        let mut node = node(system).await;
        node.reach("b").await;
        let booted = node.host().deployments().booted.clone();
        let other = Deployment { image: "r/other@sha256:9".into(), arguments: Vec::new(), packages: Vec::new() };
        node.host().deployments().booted = other.clone();
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        assert!(node.told.last().unwrap().contains("the booted image is r/other@sha256:9"), "{:?}", node.told);
        node.put(record::FORCE, "", 0o600);
        // One attempt in vain, after the restart: back to what was there.
        node.host().deployments().refuses = true;
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        assert_eq!((&node.host().deployments().booted, node.read(record::FORCE)), (&other, None), "{system:?}");
        node.put(record::FORCE, "", 0o600);
        node.pause();
        node.reach("b").await;
        let found = node.host().deployments().booted.clone();
        assert_eq!((found.image, found.packages), (booted.image, booted.packages), "{system:?}");
        assert_eq!(node.read(record::FORCE), None);
    }
}

/// Nobody knows what is booted while the command fails that says it: the node is neither given up nor restarted.
#[tokio::test]
async fn operating_system_that_does_not_answer_after_the_restart_is_asked_again() {
    for (system, look) in [(System::RpmOstree, "rpm-ostree status"), (System::Bootc, "bootc status")] {
        let mut node = node(system).await;
        *node.host().mute.lock().unwrap() = Some(("r/os@sha256:2".to_owned(), look.to_owned()));
        node.desired = "b".to_owned();
        for _ in 0..10 {
            let machine = node.machine();
            node.live(&machine).await.unwrap();
            node.pause();
        }
        let told = node.told.last().unwrap();
        let expected = format!("what the node is like after the update could not be read: {look} --");
        let expected =
            if system == System::Bootc { expected.replace("status --", "status --format") } else { expected };
        assert!(told.starts_with(&expected) && told.ends_with("error: no connection"), "{told}");
        assert_eq!((node.reboots, node.disk().failure), (2, None), "{system:?}: {:?}", node.told);
        *node.host().mute.lock().unwrap() = None;
        node.reach("b").await;
        assert_eq!((node.reboots, node.drains), (2, 2), "{system:?}");
    }
}

/// It booted the image, and something else is wrong with it: the former image is booted again.
#[tokio::test]
async fn image_that_does_not_hold_the_configuration_is_left_again() {
    for system in SYSTEMS {
        let mut node = node(system).await;
        node.add(with_image("c", "r/os@sha256:3", json!({}), &[file("/etc/app", "three", 0o644)]));
        node.desired = "c".to_owned();
        let path = node.dir.path().join("etc/app");
        *node.host().removes.lock().unwrap() = Some(("r/os@sha256:3".to_owned(), path));
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        assert_eq!(node.host().deployments().booted.image, "r/os@sha256:1", "{system:?}: {:?}", node.told);
        assert_eq!(node.read("/etc/app").as_deref(), Some("one"));
        let cause = "the node is not as c: /etc/app is missing";
        assert_eq!(node.told.last().map(String::as_str), Some(cause), "{system:?}");
        let told = node.told.iter().position(|told| told == cause).unwrap();
        assert_eq!(node.told_by[told], "r/os@sha256:3", "{system:?}: before the restart, which may be the end of it");
        assert_eq!(node.told.iter().filter(|told| *told == cause).count(), 1, "{:?}", node.told);
        // To a, to c, back, and once more for the files, which the former image was booted with as they were for c.
        assert_eq!((node.reboots, node.disk().update), (4, None), "{system:?}");
        assert!(node.disk().failure.unwrap().after_reboot);
    }
}

#[tokio::test]
async fn image_alone_is_left_again_by_one_restart() {
    for system in SYSTEMS {
        let mut node = node(system).await;
        node.add(with_image("c", "r/os@sha256:3", json!({}), &[file("/etc/app", "one", 0o644)]));
        node.desired = "c".to_owned();
        let path = node.dir.path().join("etc/app");
        *node.host().removes.lock().unwrap() = Some(("r/os@sha256:3".to_owned(), path));
        let machine = node.machine();
        node.live(&machine).await.unwrap();
        assert_eq!(node.host().deployments().booted.image, "r/os@sha256:1", "{system:?}: {:?}", node.told);
        let cause = "the node is not as c: /etc/app is missing";
        assert_eq!((node.told.last().map(String::as_str), node.reboots), (Some(cause), 3), "{system:?}");
        *node.host().removes.lock().unwrap() = None;
        node.reach("a").await;
        node.reach("c").await;
    }
}

#[tokio::test]
async fn agent_killed_after_any_write_boots_the_image_of_its_configuration() {
    for system in SYSTEMS {
        let mut kills = 0;
        for number in 0.. {
            let mut node = node(system).await;
            node.desired = "b".to_owned();
            let machine = node.machine();
            machine.root.faults.set(Fault::Killed(number));
            if node.live(&machine).await.is_ok() {
                break;
            }
            kills += 1;
            let machine = node.machine();
            node.live(&machine).await.unwrap();
            if node.current == "a" {
                node.pause();
                node.reach("b").await;
            }
            let booted = node.host().deployments().booted.clone();
            let packages = if system == System::RpmOstree { vec!["usbguard".to_owned()] } else { Vec::new() };
            assert_eq!(
                booted,
                Deployment { image: "r/os@sha256:2".into(), packages, ..booted.clone() },
                "write {number}"
            );
            assert_eq!((node.read("/etc/app").as_deref(), node.disk().update), (Some("two"), None), "write {number}");
        }
        assert!(kills > 5, "{system:?}: only {kills} kills");
    }
}
