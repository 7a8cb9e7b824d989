//! Everything that whoever may write in one namespace can have against the process, beside a namespace where operators are installed.

use std::time::{Duration, Instant};

use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion;
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use cvo::testing::api::olm::subscription::Subscription;
use e2e::conditions::Conditions;
use e2e::operators::Version;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::{LIMIT, PROCESS, World, push};
use super::{condition, with_rights};

const BAD: &str = "bad";
const API: &str = "operators.coreos.com/v1alpha1";
/// For an operator beside all that; and for the quickest of them, as others use the machine too.
const LONGEST: Duration = Duration::from_secs(5);
const QUICK: Duration = Duration::from_secs(1);
/// No properties.
const NONE: &str = "{\"properties\": []}";
/// Loops within each other.
const LOOPS: usize = 6;

fn bundle(name: &str, image: &str, properties: &[Value]) -> Value {
    let (package, version) = name.split_once(".v").unwrap();
    let identity =
        json!({"type": "olm.package", "value": {"packageName": package, "version": format!("{version}.0.0")}});
    let properties: Vec<&Value> = std::iter::once(&identity).chain(properties).collect();
    json!({"schema": "olm.bundle", "package": package, "name": name, "image": image, "properties": properties})
}

/// A package of these channels, each with one entry.
fn package(name: &str, channels: &[(&str, &str)]) -> Vec<Value> {
    let package = json!({"schema": "olm.package", "name": name, "defaultChannel": channels[0].0});
    let channel = |(channel, entry): &(&str, &str)| json!({"schema": "olm.channel", "package": name, "name": channel, "entries": [{"name": entry}]});
    std::iter::once(package).chain(channels.iter().map(channel)).collect()
}

/// A rule with so many loops within each other, of a bundle with as many properties as make each of them long.
fn looping() -> Vec<Value> {
    let open: String = (0..LOOPS).map(|at| format!("properties.all(p{at}, ")).collect();
    let rule = format!("properties.exists(q, q.type == 'mark0') && {open}true{}", ")".repeat(LOOPS));
    let marks: Vec<Value> = (0..300).map(|at| json!({"type": format!("mark{at}"), "value": at})).collect();
    let rule = json!({"type": "olm.constraint", "value": {"cel": {"rule": rule}, "failureMessage": "loops"}});
    let all = [package("loops", &[("stable", "loops.v1")]), package("marks", &[("stable", "marks.v1")])];
    let image = "registry.invalid/x:1";
    let bundles = [bundle("loops.v1", image, &[rule]), bundle("marks.v1", image, &marks)];
    all.into_iter().flatten().chain(bundles).collect()
}

/// What a Subscription asks for, and what is to be said of it in a condition.
struct Asked {
    name: &'static str,
    package: &'static str,
    channel: &'static str,
    condition: &'static str,
    words: &'static [&'static str],
}

const ASKED: [Asked; 7] = [
    Asked {
        name: "odd",
        package: "odd",
        channel: "stable",
        condition: "ResolutionFailed",
        words: &["odd.v1", "properties[1]", "value.all.constraints[1].xyz: unknown key", "another version than"],
    },
    Asked {
        name: "loops",
        package: "loops",
        channel: "stable",
        condition: "ResolutionFailed",
        words: &["loops.v1 requires an operator with constraint", "\"loops\"", "a catalog that offers"],
    },
    Asked {
        name: "one",
        package: "fight",
        channel: "one",
        condition: "ResolutionFailed",
        words: &["Only one operator of package fight can be", "change or delete Subscription two"],
    },
    Asked {
        name: "two",
        package: "fight",
        channel: "two",
        condition: "ResolutionFailed",
        words: &["Only one operator of package fight can be", "change or delete Subscription one"],
    },
    Asked {
        name: "nowhere",
        package: "nowhere",
        channel: "stable",
        condition: "ResolutionFailed",
        words: &["no operators found in package nowhere", "correct Subscription nowhere"],
    },
    Asked {
        name: "empty",
        package: "empty",
        channel: "stable",
        condition: "BundleUnpackFailed",
        words: &["bundle empty.v1", "there is no ClusterServiceVersion: add the one"],
    },
    Asked {
        name: "twins",
        package: "twins",
        channel: "stable",
        condition: "BundleUnpackFailed",
        words: &["bundle twins.v1", "each has a ClusterServiceVersion", "make a bundle of each"],
    },
];

fn subscription(namespace: &str, name: &str, package: &str, channel: &str) -> Value {
    json!({"apiVersion": API, "kind": "Subscription", "metadata": {"name": name, "namespace": namespace},
        "spec": {"name": package, "channel": channel, "source": "main", "sourceNamespace": namespace}})
}

/// A ClusterServiceVersion that somebody has made by hand.
fn by_hand(name: &str, replaces: &str, annotations: &Value) -> Value {
    json!({"apiVersion": API, "kind": "ClusterServiceVersion",
        "metadata": {"name": name, "namespace": BAD, "annotations": annotations},
        "spec": {"displayName": name, "replaces": replaces, "installModes": [{"type": "OwnNamespace", "supported": true}],
            "install": {"strategy": "deployment", "spec": {"deployments": []}}}})
}

impl World {
    /// A catalog `main` of the namespace `bad`, in which little can be installed.
    async fn offer_what_is_bad(&self) {
        let registry = self.cluster.registry();
        let image = |name: &str| self.image(&format!("bad/{name}:v1"));
        let csv = |name: &str| Version::new("twins.v1").csv().to_string().replace("twins.v1", name);
        let [one, two] = ["twins.v1", "twins.v2"].map(csv);
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}}).to_string();
        push(&registry, "bad/empty:v1", &[("manifests/map.yaml", map.as_bytes())], &[]).await;
        let files = [("manifests/one.yaml", one.as_bytes()), ("manifests/two.yaml", two.as_bytes())];
        push(&registry, "bad/twins:v1", &files, &[]).await;
        let gvk = json!({"gvk": {"group": "example.com", "version": "v1", "kind": "Widget"}});
        let odd = json!({"type": "olm.constraint", "value": {"all": {"constraints": [gvk, {"xyz": {}}]}}});
        let mut blobs = looping();
        blobs.extend(package("odd", &[("stable", "odd.v1")]));
        blobs.push(bundle("odd.v1", &image("none"), &[odd]));
        blobs.extend(package("fight", &[("one", "fight.v1"), ("two", "fight.v2")]));
        blobs.extend(["fight.v1", "fight.v2"].map(|name| bundle(name, &image("none"), &[])));
        for name in ["empty", "twins"] {
            let version = format!("{name}.v1");
            blobs.extend(package(name, &[("stable", &version)]));
            blobs.push(bundle(&version, &image(name), &[]));
        }
        let text: Vec<String> = blobs.iter().map(Value::to_string).collect();
        push(&registry, "bad/catalog:v1", &[("configs/catalog.json", text.join("\n").as_bytes())], &[]).await;
        self.create(BAD, "main", json!({"sourceType": "grpc", "image": image("catalog")})).await;
    }

    /// The Subscription of the bad namespace, once its condition says all of this.
    async fn bad_says(&self, name: &str, type_: &str, words: &[&str]) {
        let api: Api<Subscription> = Api::namespaced(self.client.clone(), BAD);
        let is_said = |it: &Subscription| {
            condition(it, type_).is_some_and(|(_, text)| words.iter().all(|word| text.contains(word)))
        };
        let wait = self.cluster.until(format!("{name} to say {words:?}"), &[PROCESS]).within(LIMIT);
        wait.existing(api, name, is_said).await.unwrap();
    }

    /// How long it takes from a Subscription of the good namespace until all of its operator is written.
    async fn install_beside(&self, package: &str) -> Duration {
        let api: Api<Subscription> = Api::namespaced(self.client.clone(), "shop");
        let wanted = serde_json::from_value(subscription("shop", package, package, "stable")).unwrap();
        let plans: Api<InstallPlan> = Api::namespaced(self.client.clone(), "shop");
        let changes = e2e::until::changes(plans, kube::runtime::watcher::Config::default());
        let name = format!("{package}.v1");
        let begun = Instant::now();
        api.create(&Default::default(), &wanted).await.unwrap();
        let is_done = |plan: &InstallPlan| {
            let complete = plan.status.as_ref().is_some_and(|it| it.phase == InstallPlanPhase::Complete);
            (complete && plan.spec.cluster_service_version_names == [name.as_str()]).then_some(())
        };
        let wait = self.cluster.until(format!("{package} to be installed"), &[PROCESS]).within(LIMIT);
        wait.event(changes, is_done).await.unwrap();
        let took = begun.elapsed();
        println!("{package} was installed beside it within {took:?}");
        took
    }

    /// A plan that is approved and has steps that are none.
    async fn plan_by_hand(&self) {
        let plans: Api<InstallPlan> = Api::namespaced(self.client.clone(), BAD);
        let plan = json!({"apiVersion": API, "kind": "InstallPlan", "metadata": {"name": "by-hand", "namespace": BAD},
            "spec": {"approval": "Manual", "approved": true, "generation": 1_i64 << 40, "clusterServiceVersionNames": ["x.v1"]}});
        plans.create(&Default::default(), &serde_json::from_value(plan).unwrap()).await.unwrap();
        let step = |kind: &str, manifest: &str| {
            json!({"resolving": "x.v1", "status": "Unknown", "resource": {"sourceName": "main", "sourceNamespace": BAD,
                "group": "", "version": "v1", "kind": kind, "name": "x", "manifest": manifest}})
        };
        let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        let other = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}).to_string();
        let steps = [step("Node", "{}"), step("ConfigMap", &deep), step("Service", &other), step("ConfigMap", "{")];
        let status = json!({"status": {"phase": "Installing", "catalogSources": [], "plan": steps}});
        plans.patch_status("by-hand", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        let words = [
            "4 steps cannot be carried out",
            "Node x: objects of the kind Node are not part of a plan; remove it from the bundle",
            "ConfigMap x: its manifest is not the JSON of an object: recursion limit",
            "Service x: its manifest is a Pod, and the step says Service",
            "ConfigMap x: its manifest is not the JSON of an object: EOF",
        ];
        let is_said = |plan: &InstallPlan| {
            let text = plan.status.as_ref().map(|it| it.message.as_str()).unwrap_or_default();
            words.iter().all(|word| text.contains(word))
        };
        let wait = self.cluster.until("the plan to say what is wrong", &[PROCESS]).within(LIMIT);
        wait.existing(plans, "by-hand", is_said).await.unwrap();
    }
}

/// Each thing that is bad is told where it stands, with the way out, and operators of another namespace are installed meanwhile.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn bad_input_of_one_namespace_holds_nothing_of_another() {
    let world = with_rights().await;
    world.offer(&["first.v1", "second.v1", "third.v1", "fourth.v1"].map(Version::new)).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.until("its content", ("shop", "main"), |it| it.has("ContentLoaded=True")).await;
    world.kubectl(&format!("create namespace {BAD}")).await;
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "one", "namespace": BAD}, "spec": {"targetNamespaces": [BAD]}});
    world.apply(&group).await;
    world.offer_what_is_bad().await;
    world.until("the bad content", (BAD, "main"), |it| it.has("ContentLoaded=True")).await;
    for asked in &ASKED {
        world.apply(&subscription(BAD, asked.name, asked.package, asked.channel)).await;
    }
    let mut took = vec![world.install_beside("first").await];
    for asked in &ASKED {
        world.bad_says(asked.name, asked.condition, asked.words).await;
    }
    took.push(world.install_beside("second").await);

    // Nobody believes what others write into a status.
    let api: Api<Subscription> = Api::namespaced(world.client.clone(), BAD);
    let invented = json!({"status": {"state": "Invented", "installedCSV": "z.v9", "conditions": [
        {"type": "Own", "status": "True", "reason": "Invented", "message": "x".repeat(100_000)}]}});
    api.patch_status("odd", &PatchParams::default(), &Patch::Merge(invented)).await.unwrap();
    let is_own = |it: &Subscription| {
        let Some(status) = &it.status else { return false };
        condition(it, "Own").is_none() && status.installed_csv.is_empty() && json!(status.state) != "Invented"
    };
    let wait = world.cluster.until("its own status", &[PROCESS]).within(LIMIT);
    wait.existing(api, "odd", is_own).await.unwrap();
    world.bad_says("odd", "ResolutionFailed", ASKED[0].words).await;
    world.plan_by_hand().await;
    took.push(world.install_beside("third").await);
    world.kubectl(&format!("delete installplan by-hand -n {BAD}")).await;

    // Two that replace each other, and one whose annotation is no JSON.
    for (name, replaces, properties) in
        [("round.v1", "round.v2", NONE), ("round.v2", "round.v1", NONE), ("torn.v1", "", "{\"properties\": [")]
    {
        world.apply(&by_hand(name, replaces, &json!({"operatorframework.io/properties": properties}))).await;
    }
    let torn = ["clusterserviceversion bad/torn.v1: its annotation operatorframework.io/properties", "correct it"];
    world.bad_says("odd", "ResolutionFailed", &torn).await;
    took.push(world.install_beside("fourth").await);
    let csvs: Api<ClusterServiceVersion> = Api::namespaced(world.client.clone(), BAD);
    for csv in csvs.list(&Default::default()).await.unwrap() {
        let status = csv.status.unwrap_or_default();
        println!("{}: {:?} {}: {}", csv.metadata.name.unwrap_or_default(), status.phase, status.reason, status.message);
    }
    csvs.delete("torn.v1", &Default::default()).await.unwrap();
    world.bad_says("odd", "ResolutionFailed", ASKED[0].words).await;
    assert!(took.iter().all(|it| *it < LONGEST) && took.iter().any(|it| *it < QUICK), "{took:?}");
    world.cluster.down().await.unwrap();
}
