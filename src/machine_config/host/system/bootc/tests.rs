use super::*;
use crate::machine_config::changes::changes;
use crate::machine_config::host::system::simulated::Host as Simulated;
use serde_json::json;

/// In the form of `bootc status --format json` on a host with an update that is staged.
const STATUS: &str = r#"{"apiVersion":"org.containers.bootc/v1","kind":"BootcHost","metadata":{"name":"host"},
"spec":{"image":{"image":"quay.io/example/os:latest","transport":"registry"},"bootOrder":"default"},
"status":{"staged":{"image":{"image":{"image":"quay.io/example/os:latest","transport":"registry"},"version":"nightly",
"timestamp":"2023-10-14T19:22:15Z","imageDigest":"sha256:16dc","architecture":"amd64"},"cachedUpdate":null,
"incompatible":false,"pinned":false,"softRebootCapable":false,"downloadOnly":false,"store":"ostreeContainer",
"ostree":{"checksum":"3c6d","deploySerial":0,"stateroot":"default"}},
"booted":{"image":{"image":{"image":"quay.io/example/os:latest","transport":"registry"},"version":"nightly",
"timestamp":"2023-09-30T19:22:16Z","imageDigest":"sha256:736b","architecture":"amd64"},"cachedUpdate":null,
"incompatible":false,"pinned":false,"ostree":{"checksum":"2683","deploySerial":0,"stateroot":"default"}},
"rollback":null,"rollbackQueued":false,"type":"bootcHost"}}"#;

fn image(name: &str) -> MachineConfigSpec {
    MachineConfigSpec { os_image_url: name.to_owned(), ..MachineConfigSpec::default() }
}

fn change(from: &str, to: &str) -> Changes {
    changes(&image(from), &image(to)).unwrap()
}

#[test]
fn status_of_a_real_form_is_read() {
    let host: Host = serde_json::from_str(STATUS).unwrap();
    let (staged, booted) = (host.status.staged.unwrap(), host.status.booted.unwrap());
    assert!(staged.is("quay.io/example/os@sha256:16dc") && !booted.is("quay.io/example/os@sha256:16dc"));
    assert!(booted.is("mirror/os@sha256:736b") && booted.is("quay.io/example/os:latest"));
    assert_eq!((booted.name().as_str(), host.status.rollback_queued), ("quay.io/example/os:latest", false));
    let none: Host = serde_json::from_value(json!({"status": {"staged": null, "booted": {"image": null}}})).unwrap();
    assert_eq!(none.status.booted.unwrap().name(), "none");
}

#[tokio::test]
async fn image_is_only_pulled_while_the_node_serves() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let (host, change) = (Simulated::new("r/os@sha256:1"), change("r/os@sha256:1", "r/os@sha256:2"));
    let commands = host.commands();
    stage(&root, &commands, &change).await.unwrap();
    assert_eq!(host.take_changes(), ["podman pull --quiet r/os@sha256:2"]);
    assert_eq!(host.next_boot().image, "r/os@sha256:1");
    activate(&commands, &change).await.unwrap();
    assert_eq!(host.take_changes(), ["bootc switch --quiet --transport containers-storage r/os@sha256:2"]);
    let wanted = image("r/os@sha256:2");
    let before = deviation(&commands, &wanted).await.unwrap().unwrap();
    assert!(before.starts_with("the booted image is r/os@sha256:1 and should be r/os@sha256:2;"), "{before}");
    host.restart();
    assert_eq!(deviation(&commands, &wanted).await.unwrap(), None);
    assert_eq!(deviation(&commands, &MachineConfigSpec::default()).await.unwrap(), None);
}

#[tokio::test]
async fn way_back_depends_on_what_is_booted_and_can_be_gone_twice() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let (host, change) = (Simulated::new("r/os@sha256:1"), change("r/os@sha256:1", "r/os@sha256:2"));
    let commands = host.commands();
    stage(&root, &commands, &change).await.unwrap();
    give_back(&commands, &change, false).await.unwrap();
    activate(&commands, &change).await.unwrap();
    give_back(&commands, &change, false).await.unwrap();
    give_back(&commands, &change, false).await.unwrap();
    assert!(host.deployments().staged.is_none());
    activate(&commands, &change).await.unwrap();
    host.restart();
    give_back(&commands, &change, true).await.unwrap();
    give_back(&commands, &change, true).await.unwrap();
    assert_eq!(host.next_boot().image, "r/os@sha256:1");
    let calls = host.take_changes();
    assert_eq!(calls.iter().filter(|call| *call == "bootc rollback").count(), 1, "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "ostree admin undeploy 0").count(), 1, "{calls:?}");
}
