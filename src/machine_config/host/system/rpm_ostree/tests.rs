use super::*;
use crate::machine_config::changes::changes;
use crate::machine_config::host::system::simulated::{Deployment as Booted, Host};
use serde_json::{Value, json};
use std::sync::Arc;
use tempfile::TempDir;

/// In the form of `rpm-ostree status --json` on a node with a former deployment and packages.
const STATUS: &str = r#"{
  "deployments" : [
    {
      "base-commit-meta" : { "ostree.container.image-config" : "{}", "rpmostree.inputhash" : "c3" },
      "base-removals" : [ [ "kernel-5.14.0-427.el9.x86_64", "kernel-core-5.14.0-427.el9.x86_64" ] ],
      "booted" : true,
      "checksum" : "3c6dad657109522e0b2e49bf44b5420f16f0b438b5b9357e5132211cfbad135d",
      "container-image-reference" : "ostree-unverified-registry:quay.io/example/os@sha256:aaaa",
      "container-image-reference-digest" : "sha256:aaaa",
      "id" : "rhcos-3c6dad657109522e0b2e49bf44b5420f16f0b438b5b9357e5132211cfbad135d.0",
      "osname" : "rhcos",
      "packages" : [ "usbguard" ],
      "pinned" : false,
      "regenerate-initramfs" : false,
      "requested-local-packages" : [],
      "requested-packages" : [ "usbguard" ],
      "serial" : 0,
      "staged" : false,
      "timestamp" : 1700000000,
      "unlocked" : "none",
      "version" : "418.94.202411"
    },
    {
      "booted" : false,
      "checksum" : "26836632adf6228d64ef07a26fd3efaf177104efd1f341a2cf7909a3e4e2c72c",
      "custom-origin" : [ "pivot://quay.io/example/os@sha256:bbbb", "Managed by machine-config-operator" ],
      "osname" : "rhcos",
      "packages" : [],
      "staged" : false
    }
  ],
  "transaction" : null,
  "cached-update" : null,
  "update-driver" : null
}"#;

fn spec(fields: Value) -> MachineConfigSpec {
    serde_json::from_value(fields).unwrap()
}

fn lines(old: Value, new: Value) -> Vec<String> {
    let (old, new) = (spec(old), spec(new));
    staging(&changes(&old, &new).unwrap(), &new).iter().map(|step| step.command.join(" ")).collect()
}

/// A host, a root, and a change.
struct Case {
    host: Arc<Host>,
    dir: TempDir,
    changes: Changes,
    new: MachineConfigSpec,
}

impl Case {
    fn new(new: Value) -> Case {
        let new = spec(new);
        let changes = changes(&spec(json!({"osImageURL": "r/os@sha256:1"})), &new).unwrap();
        Case { host: Host::new("r/os@sha256:1"), dir: tempfile::tempdir().unwrap(), changes, new }
    }

    async fn stage(&self) -> Result<(), SystemError> {
        let root = Root::open(self.dir.path()).unwrap();
        stage(&root, &self.host.commands(), &self.changes, &self.new).await
    }

    async fn give_back(&self, restarted: bool) {
        give_back(&self.host.commands(), &self.changes, &self.new, restarted).await.unwrap();
    }
}

#[test]
fn status_of_a_real_form_is_read() {
    let status: Status = serde_json::from_str(STATUS).unwrap();
    let booted = status.booted().unwrap();
    assert_eq!((booted.image(), status.staged().is_none()), (Some("quay.io/example/os@sha256:aaaa"), true));
    let config = |fields| spec(fields);
    let wanted = json!({"osImageURL": "mirror/os@sha256:aaaa", "extensions": ["usbguard"]});
    assert_eq!(booted.deviation(&config(wanted)), None);
    let found = booted.deviation(&config(json!({"osImageURL": "quay.io/example/os@sha256:cccc"}))).unwrap();
    let expected = "the booted image is quay.io/example/os@sha256:aaaa and should be quay.io/example/os@sha256:cccc;";
    assert!(found.starts_with(expected), "{found}");
    let found = booted.deviation(&config(json!({"extensions": ["ipsec"]}))).unwrap();
    assert!(found.contains("NetworkManager-libreswan, libreswan"), "{found}");
    assert_eq!(status.deployments[1].image(), None, "of before images were containers");
}

#[test]
fn image_is_named_without_its_transport() {
    for reference in [
        "ostree-unverified-registry:r/os:1",
        "ostree-unverified-image:docker://r/os:1",
        "ostree-unverified-image:containers-storage:r/os:1",
        "ostree-image-signed:registry:r/os:1",
        "ostree-remote-registry:fedora:r/os:1",
        "ostree-remote-image:fedora:docker://r/os:1",
    ] {
        let deployment = Deployment { container_image_reference: Some(reference.into()), ..Deployment::default() };
        assert_eq!(deployment.image(), Some("r/os:1"), "{reference}");
    }
}

#[test]
fn each_change_has_its_commands_and_all_of_them_lock() {
    let image = lines(json!({}), json!({"osImageURL": "r/os@sha256:2"}));
    let rebase = "rpm-ostree rebase --experimental --lock-finalization ostree-unverified-registry:r/os@sha256:2";
    assert_eq!(image, ["rpm-ostree cleanup --pending", rebase]);
    let arguments = lines(json!({"kernelArguments": ["a=1", "b"]}), json!({"kernelArguments": ["b c=\"x y\""]}));
    let kargs = "rpm-ostree kargs --lock-finalization --delete-if-present=b --delete-if-present=a=1 --append=b \
                 --append=c=\"x y\"";
    assert_eq!(arguments[1..], [kargs]);
    let extensions = lines(json!({"extensions": ["usbguard"]}), json!({"extensions": ["ipsec"]}));
    let install = "rpm-ostree install --lock-finalization --uninstall=usbguard NetworkManager-libreswan libreswan";
    assert_eq!(extensions[1..], [install]);
    let removed = lines(json!({"extensions": ["usbguard"]}), json!({}));
    assert_eq!(removed[1..], ["rpm-ostree uninstall --lock-finalization usbguard"]);
    let default = "kernel kernel-core kernel-modules kernel-modules-core kernel-modules-extra";
    let kernels =
        "kernel-64k-core --NAME=kernel-64k-modules --NAME=kernel-64k-modules-core --NAME=kernel-64k-modules-extra";
    let option = |name: &str| format!("--{name}={}", kernels.replace("NAME", name));
    let remove = format!("rpm-ostree override remove --lock-finalization {} {default}", option("install"));
    let reset = format!("rpm-ostree override reset --lock-finalization {} {default}", option("uninstall"));
    assert_eq!(lines(json!({}), json!({"kernelType": "64k-pages"}))[1..], [remove.as_str()]);
    assert_eq!(lines(json!({"kernelType": "64k-pages"}), json!({"kernelType": "default"}))[1..], [reset.as_str()]);
    let both = lines(
        json!({"kernelType": "64k-pages", "osImageURL": "r/os@sha256:1"}),
        json!({"kernelType": "64k-pages", "osImageURL": "r/os@sha256:2"}),
    );
    assert_eq!(both[1..], [reset.as_str(), rebase, remove.as_str()], "another kernel of another image");
    let nothing = lines(json!({}), json!({"baseOSExtensionsContainerImage": "r/ext"}));
    assert_eq!(nothing, Vec::<String>::new());
}

#[test]
fn extensions_that_can_be_rendered_have_packages() {
    let names = EXTENSIONS.map(|(name, _)| name);
    assert_eq!(names, crate::machine_config::render::EXTENSIONS, "each of them, and no other");
}

#[tokio::test]
async fn what_is_staged_is_booted_by_no_restart_until_it_is_released() {
    let case = Case::new(json!({"osImageURL": "r/os@sha256:2", "kernelArguments": ["quiet"]}));
    case.stage().await.unwrap();
    assert_eq!(case.host.next_boot().image, "r/os@sha256:1");
    activate(&case.host.commands(), &case.changes, &case.new).await.unwrap();
    activate(&case.host.commands(), &case.changes, &case.new).await.unwrap();
    let next = case.host.next_boot();
    assert_eq!((next.image.as_str(), next.arguments.last().unwrap().as_str()), ("r/os@sha256:2", "quiet"));
    let before = deviation(&case.host.commands(), &case.new).await.unwrap().unwrap();
    assert!(before.starts_with("the booted image is r/os@sha256:1 and should be r/os@sha256:2"), "{before}");
    case.host.restart();
    assert_eq!(deviation(&case.host.commands(), &case.new).await.unwrap(), None);
    case.host.deployments().booted.arguments.clear();
    let missing = deviation(&case.host.commands(), &case.new).await.unwrap().unwrap();
    assert_eq!(missing, "the kernel was booted without the argument quiet, which should be there");
}

#[tokio::test]
async fn command_that_fails_leaves_nothing_staged() {
    for failing in ["rpm-ostree rebase", "rpm-ostree kargs", "podman create", "rpm-ostree install"] {
        let case = Case::new(json!({
            "osImageURL": "r/os@sha256:2", "kernelArguments": ["quiet"], "extensions": ["usbguard"],
            "baseOSExtensionsContainerImage": "r/ext",
        }));
        case.host.fail(failing);
        let error = case.stage().await.unwrap_err().to_string();
        assert!(error.starts_with(failing) && error.ends_with("error: no connection"), "{error}");
        assert!(case.host.deployments().staged.is_none(), "{failing}");
        assert!(!case.dir.path().join("etc/yum.repos.d/coreos-extensions.repo").exists(), "{failing}");
        case.stage().await.unwrap();
        assert!(case.host.deployments().staged.is_some(), "the next attempt");
    }
}

#[tokio::test]
async fn packages_come_from_the_image_of_the_release_and_its_repository_goes_again() {
    let case = Case::new(json!({
        "osImageURL": "r/os@sha256:1", "extensions": ["usbguard"], "baseOSExtensionsContainerImage": "r/ext@sha256:3",
    }));
    std::fs::create_dir_all(case.dir.path().join("var/lib/kubelet")).unwrap();
    std::fs::write(case.dir.path().join("var/lib/kubelet/config.json"), "{}").unwrap();
    case.stage().await.unwrap();
    let expected = [
        "podman create --quiet --replace --net=none --name=machine-config-extensions \
         --authfile=/var/lib/kubelet/config.json r/ext@sha256:3 none",
        "podman cp machine-config-extensions:/usr/share/rpm-ostree/extensions /run/machine-config-extensions",
        "podman rm --force machine-config-extensions",
        "rpm-ostree cleanup --pending",
        "rpm-ostree install --lock-finalization usbguard",
    ];
    assert_eq!(case.host.take_changes(), expected);
    assert!(!case.dir.path().join("etc/yum.repos.d/coreos-extensions.repo").exists());
    let link = std::fs::read_link(case.dir.path().join("run/ostree/auth.json")).unwrap();
    assert_eq!(link.to_str(), Some("/var/lib/kubelet/config.json"), "ostree pulls with the kubelet's credentials");
}

#[tokio::test]
async fn deployment_that_is_not_locked_is_dropped() {
    let case = Case::new(json!({"osImageURL": "r/os@sha256:2"}));
    let unlocked = json!({"deployments": [{"staged": true, "checksum": "1"}, {"booted": true}]});
    case.host.deployments().booted = Booted::default();
    let recorded = Arc::new(crate::machine_config::host::commands::recorded::Recorded::default());
    recorded.answer("rpm-ostree status --json", 0, &unlocked.to_string(), "");
    let root = Root::open(case.dir.path()).unwrap();
    let error = stage(&root, &recorded.commands(), &case.changes, &case.new).await.unwrap_err();
    assert!(matches!(error, SystemError::NotLocked), "{error}");
    assert_eq!(recorded.take().last().unwrap(), "rpm-ostree cleanup --pending");
}

#[tokio::test]
async fn what_is_so_already_need_not_be_staged() {
    let case = Case::new(json!({"osImageURL": "r/os@sha256:1", "kernelArguments": ["quiet"]}));
    let recorded = Arc::new(crate::machine_config::host::commands::recorded::Recorded::default());
    let reference = "ostree-unverified-registry:r/os@sha256:1";
    let booted = json!({"deployments": [{"booted": true, "container-image-reference": reference}]});
    recorded.answer("rpm-ostree status --json", 0, &booted.to_string(), "");
    recorded.answer("cat /proc/cmdline", 0, "root=/dev/vda quiet\n", "");
    let root = Root::open(case.dir.path()).unwrap();
    stage(&root, &recorded.commands(), &case.changes, &case.new).await.unwrap();
    activate(&recorded.commands(), &case.changes, &case.new).await.unwrap();
    recorded.answer("cat /proc/cmdline", 0, "root=/dev/vda\n", "");
    let error = stage(&root, &recorded.commands(), &case.changes, &case.new).await.unwrap_err().to_string();
    assert!(
        error.ends_with(
            "nothing is staged, and the kernel was booted without the argument quiet, which should be there"
        )
    );
}

#[tokio::test]
async fn way_back_depends_on_what_is_booted_and_can_be_gone_twice() {
    let case = Case::new(json!({"osImageURL": "r/os@sha256:2", "kernelArguments": ["quiet"]}));
    case.stage().await.unwrap();
    case.give_back(false).await;
    assert!(case.host.deployments().staged.is_none());
    case.stage().await.unwrap();
    activate(&case.host.commands(), &case.changes, &case.new).await.unwrap();
    case.host.restart();
    case.give_back(true).await;
    case.give_back(true).await;
    assert_eq!(case.host.next_boot().image, "r/os@sha256:1");
    case.host.restart();
    case.host.take_changes();
    case.give_back(true).await;
    assert_eq!(case.host.take_changes(), ["rpm-ostree cleanup --pending"], "it came back as it was");
    assert_eq!(case.host.next_boot().image, "r/os@sha256:1");
}

#[tokio::test]
async fn output_that_cannot_be_read_is_named() {
    let case = Case::new(json!({"osImageURL": "r/os@sha256:2"}));
    for (output, expected) in [
        ("<html>", "cannot read what rpm-ostree status --json prints: expected value"),
        ("{}", "missing field `deployments`"),
        (r#"{"deployments": []}"#, "rpm-ostree status --json names no deployment that is booted"),
    ] {
        let recorded = Arc::new(crate::machine_config::host::commands::recorded::Recorded::default());
        recorded.answer("rpm-ostree status --json", 0, output, "");
        let error = deviation(&recorded.commands(), &case.new).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
