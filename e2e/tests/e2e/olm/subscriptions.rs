//! Subscriptions: what is planned for them, and what they say.

mod hostile;

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use cvo::testing::api::olm::subscription::{State, Subscription};
use e2e::conditions::Conditions;
use e2e::harness::{Cvo, Options};
use e2e::olm;
use e2e::operators::{Version, catalog};
use e2e::until::until;
use e2e::workspace;
use futures::StreamExt;
use kube::Api;
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World, push};

impl World {
    /// A catalog `main` of these versions in the namespace `shop`.
    pub(super) async fn offer(&self, versions: &[Version]) {
        self.offer_in("catalogs/main:v1", versions).await;
    }

    /// The same in this image.
    pub(super) async fn offer_in(&self, image: &str, versions: &[Version]) {
        let registry = self.cluster.registry();
        let mut offered = Vec::new();
        for version in versions {
            offered.push((version.clone(), version.push(&registry).await.unwrap()));
        }
        let text = catalog(&offered);
        push(&registry, image, &[("configs/catalog.json", text.as_bytes())], &[]).await;
    }

    pub(super) async fn subscribe(&self, package: &str, more: &Value) {
        let mut spec = json!({"name": package, "channel": "stable", "source": "main", "sourceNamespace": "shop"});
        let all = spec.as_object_mut().unwrap();
        all.extend(more.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": package, "namespace": "shop"}, "spec": spec});
        self.apply(&object).await;
    }

    pub(super) async fn group(&self, name: &str) {
        let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": name, "namespace": "shop"}, "spec": {"targetNamespaces": ["shop"]}});
        self.apply(&object).await;
    }

    pub(super) async fn subscription(
        &self,
        what: &str,
        name: &str,
        ok: impl FnMut(&Subscription) -> bool,
    ) -> Subscription {
        let api: Api<Subscription> = Api::namespaced(self.client.clone(), "shop");
        self.cluster.until(what, &[PROCESS]).within(LIMIT).existing(api, name, ok).await.unwrap()
    }

    pub(super) async fn plans(&self) -> Vec<InstallPlan> {
        let api: Api<InstallPlan> = Api::namespaced(self.client.clone(), "shop");
        api.list(&Default::default()).await.unwrap().items
    }
}

/// Reason and message of a condition that is true.
pub(super) fn condition(subscription: &Subscription, type_: &str) -> Option<(String, String)> {
    let status = json!(subscription);
    let all = status.pointer("/status/conditions")?.as_array()?.clone();
    let found = all.into_iter().find(|it| it["type"] == type_ && it["status"] == "True")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

/// Without a group nothing is looked for. With one a plan is made that waits for an approval, and a newer content of the catalog takes
/// its place.
#[tokio::test(flavor = "multi_thread")]
async fn plan_is_made_for_subscriptions_and_what_they_depend_on() {
    let world = World::up().await;
    let gears = Version { kind: "Gear", ..Version::new("gears.v1") };
    let widgets = Version { kind: "Widget", requires: ("Gear", "gears.example.com"), ..Version::new("widgets.v1") };
    world.offer(&[gears.clone(), widgets.clone()]).await;
    world.start();
    world
        .create(
            "shop",
            "main",
            json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1"),
        "updateStrategy": {"registryPoll": {"interval": "10s"}}}),
        )
        .await;
    world.subscribe("widgets", &json!({"installPlanApproval": "Manual"})).await;
    let expected = "found 0 operatorGroups, expected 1";
    let said = |it: &Subscription| condition(it, "ResolutionFailed").is_some_and(|(_, text)| text == expected);
    world.subscription("what is missing", "widgets", said).await;
    world.group("one").await;
    let pending =
        |it: &Subscription| condition(it, "InstallPlanPending").is_some_and(|(reason, _)| reason == "RequiresApproval");
    let found = world.subscription("a plan", "widgets", pending).await;
    let status = found.status.as_ref().unwrap();
    assert_eq!((status.current_csv.as_str(), &status.state), ("widgets.v1", &State::UpgradePending));
    assert_eq!(condition(&found, "ResolutionFailed"), None);
    let [plan] = &world.plans().await[..] else { panic!("one plan") };
    assert_eq!(plan.spec.cluster_service_version_names, ["gears.v1", "widgets.v1"]);
    let steps =
        plan.status.as_ref().unwrap().plan.iter().map(|step| format!("{} {}", step.resource.kind, step.resource.name));
    let steps: Vec<String> = steps.collect();
    for expected in [
        "ClusterServiceVersion widgets.v1",
        "CustomResourceDefinition gears.gears.example.com",
        "Subscription gears-stable-main-shop",
        "ServiceAccount widgets",
    ] {
        assert!(steps.iter().any(|step| step == expected), "{expected} is not in {steps:?}");
    }
    // A restart changes nothing.
    world.cluster.kill(PROCESS).unwrap();
    world.start();
    let next = Version { kind: "Widget", replaces: "widgets.v1", ..Version::new("widgets.v2") };
    world.offer(&[gears, widgets, next]).await;
    let chosen = |it: &Subscription| it.status.as_ref().is_some_and(|status| status.current_csv == "widgets.v2");
    world.subscription("the newer version", "widgets", chosen).await;
    let [newer] = &world.plans().await[..] else { panic!("one plan") };
    assert_eq!(newer.spec.cluster_service_version_names, ["widgets.v2"]);
    assert!(newer.metadata.uid != plan.metadata.uid);
    world.cluster.down().await.unwrap();
}

/// The same on a cluster with a node that kwok plays, by a process that has the rights of the release and no others.
pub(super) async fn with_rights() -> World {
    with_rights_in(Options::default()).await
}

/// `options`: what else the cluster is made of.
pub(super) async fn with_rights_in(options: Options) -> World {
    let world = World::with(Options { registry: true, audit: true, kwok: true, ..options }).await;
    world.cluster.add_fake_nodes(0..1).await.unwrap();
    olm::grant(&world.cluster).await.unwrap();
    world.start_with_rights();
    world
}

impl World {
    /// Ends the cluster. The process has asked for nothing that the release does not allow it, and what it has made is marked.
    pub(super) async fn down_with_rights(self) {
        let forbidden = olm::forbidden(&self.cluster).await.unwrap();
        let unmarked = olm::unmarked(&self.cluster, &self.client).await.unwrap();
        self.cluster.down().await.unwrap();
        assert_eq!((forbidden, unmarked), (Vec::new(), Vec::new()), "forbidden, unmarked");
    }

    pub(super) fn start_with_rights(&self) {
        let process = olm::limited(&self.cluster, &self.catalog_ports).unwrap().log_level("info,cvo=debug");
        self.cluster.spawn(process.flag("--secure-port", "0").launch(PROCESS).unwrap()).unwrap();
    }

    pub(super) async fn csv(&self, name: &str, phase: &Phase) -> ClusterServiceVersion {
        let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), "shop");
        let wait = self.cluster.until(format!("{name} to be {phase:?}"), &[PROCESS]).within(LIMIT);
        wait.existing(api, name, |it| it.status.as_ref().is_some_and(|status| status.phase == *phase)).await.unwrap()
    }

    pub(super) async fn csv_gone(&self, name: &str) {
        let api: Api<ClusterServiceVersion> = Api::namespaced(self.client.clone(), "shop");
        let wait = self.cluster.until(format!("{name} to be gone"), &[PROCESS]).within(LIMIT);
        wait.object(api, name, |it| it.is_none()).await.unwrap();
    }

    /// The ClusterServiceVersions of each plan, by generation, all of which are complete.
    pub(super) async fn complete_plans(&self) -> Vec<Vec<String>> {
        let mut plans = self.plans().await;
        plans.sort_by_key(|plan| plan.spec.generation);
        let is_complete =
            |plan: &InstallPlan| plan.status.as_ref().is_some_and(|it| it.phase == InstallPlanPhase::Complete);
        assert!(plans.iter().all(is_complete), "{plans:?}");
        plans.into_iter().map(|plan| plan.spec.cluster_service_version_names).collect()
    }

    async fn planned(&self, arguments: &[&str]) -> Value {
        let all = ["olm", "plan", "-n", "shop", "-o", "json"].iter().chain(arguments).copied();
        self.cluster.cvo(all).run().await.unwrap().json().unwrap()
    }
}

/// Three versions of widgets, the first of which requires gears.
fn versions() -> [Version; 4] {
    let widgets = |name, replaces| Version {
        kind: "Widget",
        requires: ("Gear", "gears.example.com"),
        replaces,
        ..Version::new(name)
    };
    [
        Version { kind: "Gear", ..Version::new("gears.v1") },
        widgets("widgets.v1", ""),
        widgets("widgets.v2", "widgets.v1"),
        widgets("widgets.v3", "widgets.v2"),
    ]
}

fn text(object: &Value, fields: [&str; 3]) -> String {
    fields.map(|field| object[field].as_str().unwrap_or_default()).join(" ")
}

fn names(rounds: &Value) -> Vec<Vec<String>> {
    let of = |round: &Value| -> Vec<String> {
        let all = round["install"].as_array().unwrap();
        all.iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    rounds["rounds"].as_array().unwrap().iter().map(of).collect()
}

impl World {
    /// What it would take to go back to the version before.
    async fn way_back(&self) {
        let plans = self.plans().await;
        let before = plans.iter().find(|it| it.spec.cluster_service_version_names == ["widgets.v2"]).unwrap();
        let told = self.planned(&["--restore", before.metadata.name.as_deref().unwrap()]).await;
        let told = &told["restore"];
        assert_eq!(told["since"], json!({"widgets.v3": "widgets.v2"}));
        assert_eq!(told["hindrances"], json!([]));
        let changes: Vec<String> =
            told["changes"].as_array().unwrap().iter().map(|it| text(it, ["verb", "kind", "name"])).collect();
        for expected in [
            "delete ClusterServiceVersion widgets.v3",
            "create ClusterServiceVersion widgets.v2",
            "replace Deployment widgets-operator",
            "replace ServiceAccount widgets",
        ] {
            assert!(changes.iter().any(|it| it == expected), "{expected} is not in {changes:#?}");
        }
        let steps: Vec<&str> = told["steps"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let [subscription, csv, anew] = &steps[..] else { panic!("{steps:?}") };
        assert!(
            subscription.starts_with("kubectl delete subscriptions.operators.coreos.com widgets "),
            "{subscription}"
        );
        assert!(csv.starts_with("kubectl delete clusterserviceversions.operators.coreos.com widgets.v3 "), "{csv}");
        assert!(anew.contains("spec.startingCSV: widgets.v2"), "{anew}");
    }

    /// An operator without its Subscription stays as it is, whatever the catalog offers. Once it is deleted too, the definition of its
    /// kind is left.
    async fn without_its_subscription(&self) {
        self.kubectl("delete subscription widgets -n shop").await;
        let [gears, _, _, widgets] = versions();
        let next = |before: Version, name| Version { name, replaces: before.name, ..before };
        let alone = Version::new("alone.v1");
        let of_gears = [gears.clone(), next(gears, "gears.v2")];
        let offered = [&of_gears[..], &[widgets.clone(), next(widgets, "widgets.v4"), alone.clone()]].concat();
        self.offer(&offered).await;
        let poll = json!({"spec": {"updateStrategy": {"registryPoll": {"interval": "1s"}}}});
        let patch = kube::api::Patch::Merge(poll);
        self.sources("shop").patch("main", &Default::default(), &patch).await.unwrap();
        let seen = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.installed_csv == "gears.v2");
        self.subscription("another operator to be updated", "gears-stable-main-shop", seen).await;
        self.csv("gears.v2", &Phase::Succeeded).await;
        self.csv("widgets.v3", &Phase::Succeeded).await;
        assert_eq!(self.kubectl("get csv -n shop -o name --ignore-not-found widgets.v4").await, "");
        self.kubectl("delete csv widgets.v3 -n shop --wait=false").await;
        self.csv_gone("widgets.v3").await;
        let left = self.kubectl("get crd -o name widgets.widgets.example.com").await;
        assert!(left.contains("widgets.widgets.example.com"), "{left}");
        self.csv("gears.v2", &Phase::Succeeded).await;
        // One that somebody has made before there was a Subscription becomes that of the Subscription.
        let mut made = alone.csv();
        made["metadata"]["namespace"] = json!("shop");
        self.apply(&made).await;
        self.subscribe("alone", &json!({})).await;
        let installed = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.installed_csv == alone.name);
        self.subscription("it to be known", "alone", installed).await;
        self.csv(alone.name, &Phase::Succeeded).await;
    }
}

/// What was foretold is what happens: the version that was asked for with what it depends on, then each that follows it. An operator
/// that is deleted comes back, unless its Subscription is deleted too.
#[tokio::test(flavor = "multi_thread")]
async fn operator_is_installed_and_follows_its_channel() {
    let world = with_rights().await;
    world.offer(&versions()).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    let ready = |it: &cvo::testing::api::olm::catalog_source::CatalogSource| it.has("ContentLoaded=True");
    world.until("its content", ("shop", "main"), ready).await;
    let wanted = world.planned(&["--subscribe", "main/widgets:stable", "--to-head"]).await;
    assert_eq!(names(&wanted), [vec!["gears.v1", "widgets.v3"]], "without a version to begin with it is the head");
    world.subscribe("widgets", &json!({"startingCSV": "widgets.v1"})).await;
    let at_head = |it: &Subscription| {
        it.status.as_ref().is_some_and(|it| it.installed_csv == "widgets.v3" && it.state == State::AtLatestKnown)
    };
    world.subscription("the head", "widgets", at_head).await;
    world.csv("widgets.v3", &Phase::Succeeded).await;
    world.csv("gears.v1", &Phase::Succeeded).await;
    for name in ["widgets.v1", "widgets.v2"] {
        world.csv_gone(name).await;
    }
    let installed = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.installed_csv == "gears.v1");
    world.subscription("what only widgets depend on", "gears-stable-main-shop", installed).await;
    assert_eq!(world.complete_plans().await, [vec!["gears.v1", "widgets.v1"], vec!["widgets.v2"], vec!["widgets.v3"]]);
    assert_eq!(names(&world.planned(&[]).await), [Vec::<String>::new()]);
    world.way_back().await;

    world.kubectl("delete csv widgets.v3 -n shop --wait=false").await;
    world
        .subscription("it to be planned again", "widgets", |it| {
            it.status.as_ref().is_some_and(|it| it.install_plan_generation == Some(4))
        })
        .await;
    world.csv("widgets.v3", &Phase::Succeeded).await;
    world.without_its_subscription().await;
    world.down_with_rights().await;
}

/// Whenever the process is killed, there is one plan a generation, and the operator is installed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn process_that_is_killed_goes_on_where_it_was() {
    let world = with_rights().await;
    world.offer(&versions()).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.subscribe("widgets", &json!({"startingCSV": "widgets.v1"})).await;
    let api: Api<Subscription> = Api::namespaced(world.client.clone(), "shop");
    let mut changes = e2e::until::changes(api, kube::runtime::watcher::Config::default());
    // Each change of a Subscription is a moment between two steps.
    for _ in 0..20 {
        let next = tokio::time::timeout(LIMIT, changes.next()).await.expect("a change");
        world.cluster.kill(PROCESS).unwrap();
        world.start_with_rights();
        let Some(subscription) = next else { break };
        if subscription.status.as_ref().is_some_and(|it| it.installed_csv == "widgets.v3") {
            break;
        }
    }
    let at_head = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.installed_csv == "widgets.v3");
    world.subscription("the head", "widgets", at_head).await;
    world.csv("widgets.v3", &Phase::Succeeded).await;
    world.csv_gone("widgets.v2").await;
    assert_eq!(world.complete_plans().await, [vec!["gears.v1", "widgets.v1"], vec!["widgets.v2"], vec!["widgets.v3"]]);
    world.down_with_rights().await;
}

/// A user with no other right than to edit the namespace subscribes, sees what waits, and approves it.
#[tokio::test(flavor = "multi_thread")]
async fn user_who_may_edit_a_namespace_subscribes_and_approves() {
    let world = with_rights().await;
    let roles = workspace::root().join("manifests/olm/0000_50_olm_03_user-roles.yaml").display().to_string();
    world.cluster.kubectl(["apply", "--server-side", "-f", &roles]).await.unwrap();
    world.offer(&versions()[..2]).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    let user = world.cluster.kubeconfig_as("editor", "editor", &["system:authenticated"]).unwrap();
    world.kubectl("create rolebinding editor --clusterrole=edit --user=editor -n shop").await;
    let run = async |arguments: &[&str]| {
        let all = ["olm"].iter().chain(arguments).chain(&["-n", "shop"]).copied();
        Cvo::new(all).kubeconfig(user.clone()).run().await.unwrap()
    };
    let asked = ["subscribe", "main/widgets:stable", "--catalog-namespace", "shop", "--manual"];
    let dry = run(&[&asked[..], &["--dry-run"]].concat()).await;
    assert!(dry.stdout.contains("nothing was done"), "{dry:?}");
    assert!(world.plans().await.is_empty());
    run(&asked).await;
    let pending =
        |it: &Subscription| condition(it, "InstallPlanPending").is_some_and(|(it, _)| it == "RequiresApproval");
    let waits = world.subscription("a plan", "widgets", pending).await;
    let plan = waits.status.unwrap().install_plan_ref.unwrap().name.unwrap();
    let listed = run(&["list"]).await;
    assert!(listed.stdout.contains(&format!("cvo olm approve {plan} -n shop")), "{listed:?}");
    // Nothing is wrong, so that this is no failure, although she may not see everything that could explain one.
    let stands = run(&["status", "widgets"]).await;
    let steps = [
        format!("InstallPlan {plan}: RequiresApproval"),
        format!("What to do: approve the InstallPlan: cvo olm approve {plan} -n shop"),
    ];
    assert!(stands.code == Some(0) && steps.iter().all(|step| stands.stdout.contains(step)), "{stands:?}");
    let watch = ["olm", "status", "widgets", "-n", "shop", "--watch"];
    let mut watched = Cvo::new(watch).kubeconfig(user.clone()).start().unwrap();
    let mut told = async |what: &str| {
        let line = async {
            while let Some(line) = watched.lines.next_line().await.unwrap() {
                if line.contains(what) {
                    return;
                }
            }
            panic!("it ends without {what}");
        };
        until(format!("the line {what}"), LIMIT).end_of(line).await.unwrap();
    };
    told(&steps[1]).await;
    let status = world
        .cluster
        .kubectl(["auth", "can-i", "update", "installplans", "--subresource=status", "-n", "shop", "--as=editor"])
        .await;
    assert!(status.is_err(), "whoever writes steps is the administrator of the cluster");
    run(&["approve", &plan]).await;
    told("shop/widgets: Installed: widgets.v1, Succeeded.").await;
    told("shop/widgets: What to do: nothing").await;
    world.csv("widgets.v1", &Phase::Succeeded).await;
    world.down_with_rights().await;
}
