//! What `cvo olm plan` says before a change is what the process does after it: each object and what becomes of it, by the audit log
//! of the API server.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::cluster_service_version::Phase;
use e2e::harness::audit::{self, Request};
use e2e::harness::{Cvo, Options};
use e2e::olm::USER;
use e2e::operators::{Version, catalog};
use e2e::random::SeededRandom;
use serde_json::{Value, json};

use super::subscriptions::with_rights_in;
use super::{LIMIT, World, push};

/// Packages that are subscribed to, each with one that it requires.
const PAIRS: [(&str, &str); 4] =
    [("alphas", "basics"), ("charts", "drivers"), ("eagles", "feeds"), ("gadgets", "hooks")];
/// What the process writes whatever is installed.
const ASIDE: [&str; 6] = ["events", "leases", "services", "endpointslices", "clusteroperators", "operators"];

/// `create`, `update` and `delete` of an object: its resource, its namespace and its name.
type Effects = BTreeMap<(String, String, String), BTreeSet<String>>;

/// What came of it in the end: who creates or deletes an object may change it in between.
fn net(effects: Effects) -> Effects {
    let net = |mut verbs: BTreeSet<String>| {
        if verbs.len() > 1 {
            verbs.remove("update");
        }
        verbs
    };
    effects.into_iter().map(|(object, verbs)| (object, net(verbs))).collect()
}

/// The name of a plan depends on what does not exist before.
fn named(resource: &str, name: &str) -> String {
    if resource == "installplans" { "install-*".to_owned() } else { name.to_owned() }
}

fn foretold(plan: &Value) -> Effects {
    let mut effects = Effects::new();
    for change in plan["rounds"].as_array().unwrap().iter().flat_map(|round| round["changes"].as_array().unwrap()) {
        let text = |key: &str| change[key].as_str().unwrap_or_default();
        let resource = format!("{}s", text("kind").to_lowercase());
        let object = (resource.clone(), text("namespace").to_owned(), named(&resource, text("name")));
        let verbs: &[&str] = match text("verb") {
            "replace" => &["create", "delete"],
            verb => &[verb],
        };
        effects.entry(object).or_default().extend(verbs.iter().map(|verb| (*verb).to_owned()));
    }
    net(effects)
}

fn done(requests: &[Request]) -> Effects {
    let mut effects = Effects::new();
    for request in requests.iter().filter(|request| request.wrote() && request.subresource.is_empty()) {
        // Old plans are deleted whatever comes, and Subscriptions are labelled.
        let resource = request.resource.as_str();
        let is_aside = ASIDE.contains(&resource)
            || [("installplans", "delete"), ("subscriptions", "update")].contains(&(resource, request.effect()));
        if is_aside {
            continue;
        }
        let name = named(&request.resource, &request.name);
        let object = (request.resource.clone(), request.namespace.clone(), name);
        effects.entry(object).or_default().insert(request.effect().to_owned());
    }
    net(effects)
}

/// A change that somebody makes.
#[derive(Debug)]
enum Change {
    Subscribe(&'static str),
    Remove(&'static str),
    /// New versions of a package, one after the other.
    Offer(&'static str, usize),
}

struct Shop {
    world: World,
    random: SeededRandom,
    /// Versions with the images of their bundles.
    offered: Vec<(Version, String)>,
    /// The version that is installed of each package.
    installed: BTreeMap<&'static str, usize>,
    subscribed: BTreeSet<&'static str>,
    /// Of the image of the catalog.
    tag: usize,
    /// Requests that have been compared.
    seen: usize,
}

fn version(package: &'static str, number: usize) -> Version {
    let name: &'static str = format!("{package}.v{number}").leak();
    let replaces: &'static str = if number > 1 { format!("{package}.v{}", number - 1).leak() } else { "" };
    let kind: &'static str = format!("{}{}", package[..1].to_uppercase(), &package[1..package.len() - 1]).leak();
    let required = PAIRS.iter().find(|(head, _)| *head == package).map(|(_, required)| *required);
    let requires: (&'static str, &'static str) = required.map_or(("", ""), |required| {
        let kind: &'static str = version(required, 1).kind;
        (kind, format!("{required}.example.com").leak())
    });
    // Every second version of a package changes its definition, and every third one asks for more.
    let (properties, everywhere) = (number / 2, number.is_multiple_of(3));
    Version { kind, replaces, requires, properties, everywhere, ..Version::new(name) }
}

impl Shop {
    async fn open() -> Shop {
        let seed = SeededRandom::seed();
        // What a deleted operator owned stays, so that it does not depend on chance whether it is there at the next change.
        let controllers = Some("*,-garbage-collector-controller".to_owned());
        let world = with_rights_in(Options { controllers, ..Options::default() }).await;
        world.group("one").await;
        let mut shop = Shop {
            world,
            random: SeededRandom::new(seed, 0, 0),
            offered: Vec::new(),
            installed: BTreeMap::new(),
            subscribed: BTreeSet::new(),
            tag: 0,
            seen: 0,
        };
        for (head, required) in PAIRS {
            shop.add(head, 1).await;
            shop.add(required, 1).await;
        }
        let (image, digest) = shop.pushed().await;
        shop.world.create("shop", "main", json!({"sourceType": "grpc", "image": image})).await;
        shop.loaded(&digest).await;
        shop.seen = shop.requests().len();
        shop
    }

    fn newest(&self, package: &str) -> usize {
        self.offered.iter().filter(|(version, _)| version.package() == package).count()
    }

    async fn add(&mut self, package: &'static str, number: usize) {
        let version = version(package, number);
        let image = version.push(&self.world.cluster.registry()).await.unwrap();
        self.offered.push((version, image));
    }

    fn text(&self) -> String {
        let mut offered = self.offered.clone();
        offered.sort_by_key(|(version, _)| version.package());
        catalog(&offered)
    }

    /// Waits until this is the content of the catalog.
    async fn loaded(&self, digest: &str) {
        let is_loaded = |it: &CatalogSource| {
            let mut conditions = it.status.iter().flat_map(|status| &status.conditions);
            conditions.any(|it| it.type_ == "ContentLoaded" && it.message.contains(digest))
        };
        self.world.until("its content", ("shop", "main"), is_loaded).await;
    }

    /// The name of an image with all that is offered, and its digest.
    async fn pushed(&mut self) -> (String, String) {
        self.tag += 1;
        let (name, text) = (format!("catalogs/main:v{}", self.tag), self.text());
        let files = [("configs/catalog.json", text.as_bytes())];
        let digest = push(&self.world.cluster.registry(), &name, &files, &[]).await;
        (self.world.image(&name), digest)
    }

    fn requests(&self) -> Vec<Request> {
        audit::requests(&self.world.cluster.audit_log(), USER).unwrap()
    }

    fn choose(&self) -> Change {
        let heads = PAIRS.map(|(head, _)| head);
        let free: Vec<&'static str> = heads.into_iter().filter(|it| !self.subscribed.contains(it)).collect();
        let taken: Vec<&'static str> = self.subscribed.iter().copied().collect();
        let all: Vec<&'static str> = PAIRS.iter().flat_map(|(head, required)| [*head, *required]).collect();
        match self.random.below(6) {
            0 | 1 if !free.is_empty() => Change::Subscribe(self.random.pick(&free)),
            2 if !taken.is_empty() => Change::Remove(self.random.pick(&taken)),
            _ if taken.is_empty() => Change::Subscribe(self.random.pick(&free)),
            number => Change::Offer(self.random.pick(&all), 1 + number % 2),
        }
    }

    /// Foretells the change, makes it, and compares.
    async fn change(&mut self) {
        let change = self.choose();
        let told = match &change {
            Change::Subscribe(package) => self.planned(&["--subscribe", &format!("main/{package}:stable")]).await,
            Change::Remove(package) => self.planned(&["--remove", package]).await,
            Change::Offer(package, count) => {
                for _ in 0..*count {
                    self.add(package, self.newest(package) + 1).await;
                }
                let folder = self.world.cluster.dir().join("offered");
                fs::create_dir_all(&folder).unwrap();
                fs::write(folder.join("catalog.json"), self.text()).unwrap();
                self.planned(&["--catalog", &format!("main={}", folder.display())]).await
            }
        };
        self.make(&change).await;
        self.settled(&told).await;
        self.compare(&change, &foretold(&told)).await;
        if let Change::Remove(package) = change {
            self.uninstall(package).await;
        }
    }

    async fn planned(&self, arguments: &[&str]) -> Value {
        let all = ["olm", "plan", "-n", "shop", "--to-head", "-o", "json"].iter().chain(arguments).copied();
        let plan: Value = self.world.cluster.cvo(all).run().await.unwrap().json().unwrap();
        for round in plan["rounds"].as_array().unwrap() {
            assert_eq!((&round["hindrances"], &round["held"]), (&json!([]), &Value::Null), "{arguments:?}: {round}");
            assert_eq!(round["failures"], json!([]), "{arguments:?}");
        }
        plan
    }

    async fn make(&mut self, change: &Change) {
        match change {
            Change::Subscribe(package) => {
                self.world.subscribe(package, &json!({})).await;
                self.subscribed.insert(package);
            }
            Change::Remove(package) => {
                self.world.kubectl(&format!("delete subscription {package} -n shop")).await;
                self.subscribed.remove(package);
            }
            Change::Offer(..) => {
                let (image, digest) = self.pushed().await;
                let patch = json!({"spec": {"image": image}}).to_string();
                let patched = ["patch", "catalogsource", "main", "-n", "shop", "--type=merge", "-p", &patch];
                self.world.cluster.kubectl(patched).await.unwrap();
                self.loaded(&digest).await;
            }
        }
    }

    /// Waits until all is installed that was foretold.
    async fn settled(&mut self, told: &Value) {
        let rounds = told["rounds"].as_array().unwrap();
        for new in rounds.iter().flat_map(|round| round["install"].as_array().unwrap()) {
            let name = new["name"].as_str().unwrap();
            let package = PAIRS.iter().flat_map(|(a, b)| [*a, *b]).find(|it| new["package"] == *it).unwrap();
            let (_, number) = name.split_once(".v").unwrap();
            self.installed.insert(package, number.parse().unwrap());
        }
        for new in rounds.iter().flat_map(|round| round["install"].as_array().unwrap()) {
            let (name, package) = (new["name"].as_str().unwrap(), new["package"].as_str().unwrap());
            let last = format!("{package}.v{}", self.installed[package]);
            if name == last {
                self.world.csv(name, &Phase::Succeeded).await;
            }
        }
        for new in rounds.iter().flat_map(|round| round["install"].as_array().unwrap()) {
            let replaced = new["replaces"].as_str().unwrap_or_default();
            if !replaced.is_empty() {
                self.world.csv_gone(replaced).await;
            }
        }
    }

    /// The log is written after the answers.
    async fn compare(&mut self, change: &Change, told: &Effects) {
        let until = Instant::now() + LIMIT;
        loop {
            let requests = self.requests();
            let done = done(&requests[self.seen..]);
            if done == *told {
                self.seen = requests.len();
                return;
            }
            let only = |one: &Effects, other: &Effects| -> Vec<String> {
                let differs = one.iter().filter(|(object, verbs)| other.get(*object) != Some(*verbs));
                differs.map(|(object, verbs)| format!("{object:?}: {verbs:?}")).collect()
            };
            assert!(
                Instant::now() < until,
                "{change:?}: foretold and not done {:#?}, done and not foretold {:#?}",
                only(told, &done),
                only(&done, told)
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// What nobody subscribes to any more goes by hand, which is no plan.
    async fn uninstall(&mut self, package: &'static str) {
        let Some(number) = self.installed.remove(package) else { return };
        let name = format!("{package}.v{number}");
        self.world.kubectl(&format!("delete csv {name} -n shop --wait=false")).await;
        self.world.csv_gone(&name).await;
        let until = Instant::now() + LIMIT;
        // The group names its APIs no more, nor do its six roles.
        let is_of_group = |request: &&Request| {
            let resources = ["operatorgroups", "clusterroles"];
            request.wrote() && request.effect() == "update" && resources.contains(&request.resource.as_str())
        };
        let is_end =
            |request: &Request| request.name == name && request.verb == "patch" && request.subresource.is_empty();
        loop {
            let requests = self.requests();
            let new = &requests[self.seen..];
            let changed: BTreeSet<&str> = new.iter().filter(is_of_group).map(|request| request.name.as_str()).collect();
            if new.iter().any(is_end) && changed.len() == 7 {
                break;
            }
            assert!(Instant::now() < until, "the end of {name} is not in the log: {changed:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        self.seen = self.requests().len();
    }
}

/// So many changes, one after the other.
async fn foretell(changes: usize) {
    let mut shop = Shop::open().await;
    for _ in 0..changes {
        shop.change().await;
    }
    // Nothing has come after the last one that was not foretold.
    shop.world.cluster.kill(super::PROCESS).unwrap();
    let rest = done(&shop.requests()[shop.seen..]);
    assert_eq!(rest, Effects::new());
    let forbidden: Vec<Request> = shop.requests().into_iter().filter(|request| request.code == 403).collect();
    assert!(forbidden.is_empty(), "{forbidden:?}");
    shop.world.cluster.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn what_is_foretold_of_twenty_changes_is_what_is_written() {
    foretell(20).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes"]
async fn what_is_foretold_of_two_hundred_changes_is_what_is_written() {
    foretell(200).await;
}

/// What the cluster refuses, or does not have, is told before, and whoever may only read is told that nothing could be tried.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_cluster_refuses_or_lacks_is_foretold_without_a_write() {
    const READER: &str = "reader";
    let world = with_rights_in(Options::default()).await;
    world.group("one").await;
    let widgets = Version { padding: (0, &[10]), kubernetes: "99.0.0", ..Version::new("widgets.v1") };
    let gears = Version { padding: (0, &[10]), ..Version::new("gears.v1") };
    world.offer(&[widgets, gears]).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    let metadata = json!({"name": READER});
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}]);
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": READER},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": READER}]});
    for object in [role, binding] {
        world.apply(&object).await;
    }
    let file = world.cluster.kubeconfig_as(READER, READER, &["system:authenticated"]).unwrap();
    // Exit code, what holds it, and what is not known.
    let planned = async |package: &str, is_reader: bool| {
        let wanted = format!("main/{package}:stable");
        let arguments = ["olm", "plan", "-n", "shop", "-o", "json", "--subscribe", &wanted];
        let command = if is_reader { Cvo::new(arguments).kubeconfig(&file) } else { world.cluster.cvo(arguments) };
        let said = command.run().await.unwrap();
        let (code, plan) = (said.code, said.json::<Value>().unwrap());
        (code, plan["rounds"][0]["hindrances"].to_string(), plan["unknown"].to_string())
    };
    let (code, held, _) = planned("widgets", false).await;
    assert!(held.contains("minKubeVersion (99.0.0) > server version"), "{held}");
    assert_eq!(code, Some(3));
    let (code, held, unknown) = planned("gears", false).await;
    assert_eq!((code, held.as_str()), (Some(0), "[]"), "{unknown}");
    assert!(!unknown.contains("is not allowed"), "{unknown}");
    let (code, held, unknown) = planned("gears", true).await;
    assert_eq!((code, held.as_str()), (Some(0), "[]"), "{unknown}");
    assert!(unknown.contains("a dry run is not allowed to who asks") && unknown.contains("cannot create"), "{unknown}");
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": "shop"},
        "spec": {"hard": {"count/configmaps": "0"}}});
    world.apply(&quota).await;
    let limit = Instant::now() + LIMIT;
    let held = loop {
        // The quota counts once the cluster has counted.
        let (_, held, _) = planned("gears", false).await;
        if held.contains("exceeded quota") {
            break held;
        }
        assert!(Instant::now() < limit, "{held}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert!(held.contains("ConfigMap shop/gears-0: the API server would refuse it"), "{held}");
    let wrote: Vec<Request> = audit::requests(&world.cluster.audit_log(), READER).unwrap();
    assert!(!wrote.is_empty() && !wrote.iter().any(Request::wrote), "{wrote:?}");
    world.cluster.down().await.unwrap();
}
