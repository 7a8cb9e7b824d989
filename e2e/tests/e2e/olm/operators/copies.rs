//! Copies of operators in the namespaces that they work for.

use std::time::Duration;

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::olm_config::OLMConfig;
use cvo::testing::api::olm::operator_group::OperatorGroup;
use e2e::conditions::Conditions;
use e2e::harness::audit;
use e2e::olm::{self, PROCESS, USER};
use e2e::workspace;
use k8s_openapi::api::core::v1::{Event, Namespace};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::LIMIT;
use super::tenants::{version, writes_nothing};
use super::{SHOP, World, group};

const NAME: &str = "server.v1.0.0";
/// The resource in which copies are seen that are not written.
const SEEN: &str = "clusterserviceversions.packages.operators.coreos.com";
/// A namespace more is complete after this.
const COMPLETE: Duration = Duration::from_secs(2);
/// How many there are besides those that every cluster has.
const NAMESPACES: usize = 20;

impl World {
    fn copies(&self, namespace: &str) -> Api<ClusterServiceVersion> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// Namespaces with a copy that has a status.
    async fn with_copies(&self) -> Vec<String> {
        let all: Api<ClusterServiceVersion> = Api::all(self.client.clone());
        let all = all.list(&ListParams::default().labels("olm.copiedFrom=shop")).await.unwrap();
        let is_whole = |it: &&ClusterServiceVersion| it.status.as_ref().is_some_and(|it| it.reason == "Copied");
        all.iter().filter(is_whole).map(|it| it.namespace().unwrap()).collect()
    }

    async fn until_copied(&self, what: &str, expected: &[String]) {
        let mut found = Vec::new();
        for _ in 0..150 {
            found = self.with_copies().await;
            if found == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(found, expected, "{what}");
    }

    /// All namespaces but that of the operator.
    async fn others(&self) -> Vec<String> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let all = namespaces.list(&ListParams::default()).await.unwrap();
        all.iter().map(ResourceExt::name_any).filter(|name| name != SHOP).collect()
    }

    /// What was written to copies since then: verb, subresource and namespace.
    fn wrote(&self, since: usize) -> Vec<String> {
        let all = audit::requests(&self.cluster.audit_log(), USER).unwrap();
        let of_copies = all.iter().skip(since).filter(|it| it.wrote() && it.resource == "clusterserviceversions");
        let mut wrote: Vec<String> = of_copies
            .filter(|it| it.namespace != SHOP)
            .map(|it| format!("{} {} {}", it.namespace, it.verb, it.subresource))
            .collect();
        wrote.sort();
        wrote
    }

    fn requests(&self) -> usize {
        audit::requests(&self.cluster.audit_log(), USER).unwrap().len()
    }

    async fn until_condition(&self, status: &str, message: &str) {
        let configs: Api<OLMConfig> = Api::all(self.client.clone());
        let wait = self.cluster.until(message, &[PROCESS]).within(LIMIT);
        let is = |it: &OLMConfig| {
            let conditions = it.status.iter().flat_map(|status| &status.conditions);
            { conditions }
                .any(|it| it.type_ == "DisabledCopiedCSVs" && it.status == status && it.message.contains(message))
        };
        wait.existing(configs, "cluster", is).await.unwrap();
    }

    async fn switch(&self, disabled: bool) {
        self.configure("cluster", disabled).await;
    }

    async fn configure(&self, name: &str, disabled: bool) {
        let config = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": name},
            "spec": {"features": {"disableCopiedCSVs": disabled}}});
        self.apply(&config).await;
    }

    /// Which operators it was told of that they are not copied, each as often as it was.
    async fn not_copied(&self) -> Vec<String> {
        let events: Api<Event> = Api::namespaced(self.client.clone(), SHOP);
        let all = events.list(&ListParams::default().fields("reason=DisabledCopiedCSVs")).await.unwrap();
        let mut told = Vec::new();
        for event in all.items {
            let times = event.series.as_ref().and_then(|series| series.count).unwrap_or(1);
            let line = format!("{} {}", event.type_.unwrap(), event.involved_object.name.unwrap());
            told.extend((0..times).map(|_| line.clone()));
        }
        told.sort();
        told
    }

    /// Starts the process so that copies are not written, but in the namespace `park`, and waits until it is asked for packages.
    async fn start_virtual(&self) {
        let port = self.cluster.port("packages");
        let process = olm::limited(&self.cluster, &self.ports).unwrap().log_level("info,cvo=debug");
        let process = process.flag("--secure-port", port.to_string()).flag("--protectedCopiedCSVNamespaces", "park");
        self.cluster.spawn(process.args(["--virtual-copies"]).launch(PROCESS).unwrap()).unwrap();
        olm::register_packages(&self.cluster, port).await.unwrap();
        let services: Api<APIService> = Api::all(self.client.clone());
        let wait = self.cluster.until("the API of packages", &[PROCESS]).within(LIMIT);
        wait.existing(services, olm::PACKAGES, |it| it.has("Available=True")).await.unwrap();
    }

    /// What kubectl shows of ClusterServiceVersions that are served beside packages.
    async fn seen(&self, arguments: &str) -> Result<String, String> {
        let arguments = format!("get {SEEN} {arguments}");
        self.cluster.kubectl(arguments.split(' ')).await.map_err(|error| format!("{error:?}"))
    }

    async fn until_not_copied(&self, expected: &[&str]) {
        let expected: Vec<String> = expected.iter().map(|name| format!("Warning {name}")).collect();
        let wait = self.cluster.until(format!("{expected:?}"), &[PROCESS]).within(LIMIT);
        wait.holds(async || self.not_copied().await == expected).await.unwrap();
    }
}

/// So does what somebody deletes, and so does the status.
async fn what_somebody_changes_comes_back(world: &World) {
    let since = world.requests();
    let change = json!({"spec": {"displayName": "Other"}});
    world.copies("n01").patch(NAME, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    world.copies("n02").delete(NAME, &Default::default()).await.unwrap();
    let failed = r#"{"status": {"phase": "Failed", "reason": "InstallCheckFailed"}}"#;
    let how = ["--subresource=status", "--type=merge", "-p"];
    world.kubectl(["patch", "csv", NAME, "-n", "n04", how[0], how[1], how[2], failed]).await;
    let wait = world.cluster.until("the change to be taken back", &[PROCESS]).within(LIMIT);
    wait.existing(world.copies("n01"), NAME, |it| it.spec.display_name == "Server").await.unwrap();
    let wait = world.cluster.until("another copy", &[PROCESS]).within(LIMIT);
    wait.object(world.copies("n02"), NAME, |it| it.is_some_and(|it| it.status.is_some())).await.unwrap();
    let wait = world.cluster.until("the phase to be taken back", &[PROCESS]).within(LIMIT);
    let is_back = |it: &ClusterServiceVersion| {
        it.status.as_ref().is_some_and(|it| (&it.phase, it.reason.as_str()) == (&Phase::Succeeded, "Copied"))
    };
    wait.existing(world.copies("n04"), NAME, is_back).await.unwrap();
    let expected = ["n01 update ", "n02 create ", "n02 update status", "n04 update status"];
    assert_eq!(world.wrote(since), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_for_all_namespaces_is_copied_to_each_with_two_writes_and_follows_its_original() {
    let world = World::up().await;
    for number in 0..NAMESPACES {
        world.namespace(&format!("n{number:02}")).await;
    }
    world.switch(false).await;
    // It is not that of the cluster.
    world.configure("other", true).await;
    world.start();
    world.apply(&group("one", json!({}))).await;
    world.carry_out_version(&version("1.0.0")).await;
    world.until_succeeded(NAME).await;
    let others = world.others().await;
    assert!(others.len() > NAMESPACES);
    world.until_copied("installed", &others).await;
    let expected: Vec<String> =
        others.iter().flat_map(|name| [format!("{name} create "), format!("{name} update status")]).collect();
    assert_eq!(world.wrote(0), expected);
    world.until_condition("False", "present across the cluster").await;
    let configs: Api<OLMConfig> = Api::all(world.client.clone());
    assert_eq!(configs.get("other").await.unwrap().status, None);
    let (copy, original) = (world.copies("n00").get(NAME).await.unwrap(), world.csvs().get(NAME).await.unwrap());
    assert_eq!(copy.spec, original.spec);
    assert_eq!(copy.annotations().get("olm.targetNamespaces"), None);
    assert_eq!(copy.annotations()["olm.operatorNamespace"], SHOP);
    assert!(copy.finalizers().is_empty());
    let (copied, status) = (copy.status.unwrap(), original.status.unwrap());
    assert_eq!(copied.message, "The operator is running in shop but is managing this namespace");
    assert_eq!((copied.phase, copied.conditions.len()), (Phase::Succeeded, status.conditions.len()));

    // A namespace more, and one less.
    let begun = std::time::Instant::now();
    world.namespace("late").await;
    let wait = world.cluster.until("the copy in a new namespace", &[PROCESS]).within(COMPLETE);
    wait.object(world.copies("late"), NAME, |it| it.is_some_and(|it| it.status.is_some())).await.unwrap();
    eprintln!("a namespace more is complete after {:?}", begun.elapsed());
    what_somebody_changes_comes_back(&world).await;
    // An edit of the original is one of all copies.
    let change = json!({"spec": {"displayName": "Servers"}});
    world.csvs().patch(NAME, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    for name in ["n00", "n19", "late"] {
        let wait = world.cluster.until("the edit in a copy", &[PROCESS]).within(LIMIT);
        wait.existing(world.copies(name), NAME, |it| it.spec.display_name == "Servers").await.unwrap();
    }
    let others = world.others().await;
    world.until_copied("edited", &others).await;
    // Whoever has written an equal one, it is left as it is.
    let told = json!({"metadata": {"annotations": {"olm.operatorframework.io/copied-content": null}}});
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    world.copies("n03").patch(NAME, &PatchParams::default(), &Patch::Merge(told)).await.unwrap();
    world.start();
    let since = world.requests();
    writes_nothing(&world).await;
    assert_eq!(world.wrote(since).iter().filter(|it| !it.starts_with("last ")).count(), 0);
    not_copied_is_told_once(&world).await;
    world.down().await;
}

/// Each operator that is not copied any more is told of once, whenever it came. Another process does not tell it again.
async fn not_copied_is_told_once(world: &World) {
    world.switch(true).await;
    world.until_copied("switched off", &[]).await;
    world.until_not_copied(&[NAME]).await;
    world.install_empty("7.0.0").await;
    world.until_not_copied(&[NAME, "server.v7.0.0"]).await;

    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    let mut next = group("next", json!({"targetNamespaces": ["last"]}));
    next["metadata"]["namespace"] = json!("last");
    world.apply(&next).await;
    world.start();
    let groups: Api<OperatorGroup> = Api::namespaced(world.client.clone(), "last");
    let wait = world.cluster.until("another process to have looked", &[PROCESS]).within(LIMIT);
    wait.existing(groups, "next", |it| it.status.is_some()).await.unwrap();
    // It tells one after the other: whatever it tells again comes before this.
    world.install_empty("8.0.0").await;
    world.until_not_copied(&[NAME, "server.v7.0.0", "server.v8.0.0"]).await;
    assert_eq!(world.with_copies().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn copies_are_switched_off_and_on_and_go_with_their_original() {
    let world = World::up().await;
    for name in ["mall", "park"] {
        world.namespace(name).await;
    }
    world.switch(false).await;
    let process = olm::limited(&world.cluster, &world.ports).unwrap();
    let process = process.log_level("info,cvo=debug").flag("--secure-port", "0");
    let process = process.flag("--protectedCopiedCSVNamespaces", "park");
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    world.apply(&group("one", json!({}))).await;
    world.carry_out_version(&version("1.0.0")).await;
    world.until_succeeded(NAME).await;
    let others = world.others().await;
    world.until_copied("installed", &others).await;

    world.switch(true).await;
    world.until_copied("switched off", &["park".to_owned()]).await;
    world.until_condition("True", "no unexpected copied CSVs were found").await;
    world.until_not_copied(&[NAME]).await;
    // The operator itself is as before.
    world.until_succeeded(NAME).await;
    world.switch(false).await;
    world.until_copied("switched on", &others).await;
    world.until_condition("False", "present across the cluster").await;

    // Those of an operator that works for some namespaces alone stay.
    world.apply(&group("one", json!({"targetNamespaces": ["mall"]}))).await;
    world.until_copied("for one namespace", &["mall".to_owned()]).await;
    world.switch(true).await;
    world.until_condition("True", "no unexpected copied CSVs were found").await;
    world.until_copied("switched off for others", &["mall".to_owned()]).await;
    world.csvs().delete(NAME, &Default::default()).await.unwrap();
    world.until_gone(NAME).await;
    world.until_copied("deleted", &[]).await;
    world.down().await;
}

/// Who may view a namespace sees the operators that work for it there, although nothing has been written.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn copies_that_are_not_written_are_seen_by_who_may_view_the_namespace() {
    let world = World::up().await;
    for name in ["mall", "park"] {
        world.namespace(name).await;
    }
    let roles = workspace::root().join("manifests/olm/0000_50_olm_03_user-roles.yaml").display().to_string();
    world.kubectl(["apply", "--server-side", "-f", &roles]).await;
    let role = "--clusterrole=aggregate-olm-view";
    world.kubectl(["create", "rolebinding", "viewer", role, "--user=viewer", "-n", "mall"]).await;
    world.switch(false).await;
    world.start();
    world.apply(&group("one", json!({}))).await;
    world.carry_out_version(&version("1.0.0")).await;
    world.until_succeeded(NAME).await;
    let others = world.others().await;
    world.until_copied("installed", &others).await;

    // Copies that have been written go, but where they are protected. Nobody is told, because they are still seen.
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    world.start_virtual().await;
    world.until_copied("not written any more", &["park".to_owned()]).await;
    world.until_succeeded(NAME).await;
    let row = world.seen("-n mall --no-headers --as viewer").await.unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), [NAME, "Server", "1.0.0", "Succeeded"]);
    let copy = world.seen(&format!("{NAME} -n mall -o json --as viewer")).await.unwrap();
    let copy: Value = serde_json::from_str(&copy).unwrap();
    assert_eq!(copy["apiVersion"], "packages.operators.coreos.com/v1");
    assert_eq!(copy["metadata"]["labels"]["olm.copiedFrom"], SHOP);
    assert_eq!(copy["status"]["reason"], "Copied");
    let original = world.kubectl(["get", "csv", NAME, "-n", SHOP, "-o", "json"]).await;
    let original: Value = serde_json::from_str(&original).unwrap();
    assert_eq!(copy["spec"], original["spec"]);
    assert_eq!(world.copies("mall").get_opt(NAME).await.unwrap().map(|it| it.name_any()), None);
    let refused = world.seen("-n park --as viewer").await.unwrap_err();
    assert!(refused.contains("cannot list resource"), "{refused}");
    let missing = world.seen("none -n mall --as viewer").await.unwrap_err();
    assert!(missing.contains("not found"), "{missing}");
    let all = world.seen("-A --no-headers").await.unwrap();
    assert_eq!(all.lines().count(), others.len() + 1, "{all}");

    // A namespace more sees it as soon as it is there.
    let since = world.requests();
    world.namespace("late").await;
    let wait = world.cluster.until("a namespace more to see it", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.seen("-n late --no-headers").await.is_ok_and(|rows| rows.contains(NAME))).await.unwrap();
    assert_eq!(world.wrote(since), [""; 0]);
    assert_eq!(world.not_copied().await, [""; 0]);

    // What OLMConfig disables is not seen either.
    world.switch(true).await;
    world.until_condition("True", "no unexpected copied CSVs were found").await;
    world.until_not_copied(&[NAME]).await;
    let wait = world.cluster.until("copies to be seen no more", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.seen("-n mall --no-headers").await.is_ok_and(|rows| !rows.contains(NAME))).await.unwrap();
    world.cluster.down().await.unwrap();
}
