//! `cvo page` in a real browser: it shows each state, asks little of the cluster, and answers nobody but itself.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cvo::testing::api::progress::{CONFIG_MAP, KEY};
use e2e::browser::{self, Browser};
use e2e::harness::{Cvo, Running, audit};
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::simulation::Workloads;
use e2e::until::until;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};

/// Who looks at the page.
const VIEWER: &str = "viewer";

/// What the page follows.
const FOLLOWED: [&str; 6] =
    ["clusterversions", "clusteroperators", "machineconfigpools", "nodes", "configmaps", "leases"];

/// A running `cvo page`.
pub(super) struct Page {
    running: Running,
    pub url: String,
}

impl Page {
    pub(super) async fn start(arguments: &[&str]) -> Page {
        let mut running = Cvo::new(["page"]).args(arguments).start().unwrap();
        let url = until("the address of the page", Duration::from_secs(30)).end_of(running.lines.next_line());
        let url = url.await.unwrap().unwrap().unwrap();
        assert!(url.starts_with("http://127.0.0.1:") && url.contains("?token="), "{url}");
        Page { running, url }
    }

    /// Seconds of a CPU that it has used.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.running.child.id().unwrap())).unwrap();
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: f64 = fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap();
        ticks / 100.0
    }
}

/// The kubeconfig of somebody who may only read what the page shows.
async fn viewer(cluster: &SimulatedCluster) -> PathBuf {
    let control_plane = &cluster.control_plane;
    let path = control_plane.kubeconfig_as(VIEWER, VIEWER, &[]).unwrap();
    let rules = [
        json!({"apiGroups": ["config.openshift.io"], "resources": ["clusterversions", "clusteroperators"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["machineconfiguration.openshift.io"], "resources": ["machineconfigpools"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": [""], "resources": ["nodes", "configmaps"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["operators.coreos.com"], "resources": ["*"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list", "watch"]}),
        json!({"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["list", "watch"]}),
    ];
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": VIEWER}, "rules": rules},
        {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": VIEWER},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": VIEWER},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": VIEWER}]},
    ]});
    let file = control_plane.dir().join("viewer.json");
    std::fs::write(&file, objects.to_string()).unwrap();
    control_plane.kubectl(["apply", "-f", &file.display().to_string()]).await.unwrap();
    path
}

pub(super) async fn browser(dir: &Path) -> Option<Browser> {
    let Some(program) = browser::program() else {
        println!("skipped: there is no chromium on this machine");
        return None;
    };
    Some(Browser::start(&program, &dir.join("browser")).await.unwrap())
}

/// Looks at the page in light and dark, from narrow to wide. Nothing is cut off, and nothing went wrong. Pictures are kept where
/// `CVO_PICTURES` says.
pub(super) async fn looks_right(browser: &mut Browser, state: &str) {
    for (width, height) in [(320, 640), (768, 1024), (1280, 800), (2000, 1200)] {
        for dark in [false, true] {
            browser.look(width, height, dark).await.unwrap();
            let wide = browser
                .value("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                .await
                .unwrap();
            assert!(wide.as_i64().unwrap() <= 0, "{state}: {wide} columns too wide at {width}");
            let ground = browser.value("getComputedStyle(document.documentElement).backgroundColor").await.unwrap();
            let is_dark = ground.as_str().unwrap().starts_with("rgb(20,");
            assert_eq!(is_dark, dark, "{state}: {ground}");
            if let Some(folder) = std::env::var_os("CVO_PICTURES") {
                let theme = if dark { "dark" } else { "light" };
                let file = Path::new(&folder).join(format!("{state}-{width}-{theme}.png"));
                browser.picture(&file).await.unwrap();
            }
        }
    }
    browser.look(1280, 800, false).await.unwrap();
}

fn text(id: &str) -> String {
    format!("document.getElementById('{id}').innerText")
}

pub(super) async fn shows(browser: &mut Browser, id: &str, words: &str) {
    browser.until(&format!("{}.includes({})", text(id), json!(words))).await.unwrap();
}

pub(super) async fn count(browser: &mut Browser, selector: &str) -> i64 {
    browser.value(&format!("document.querySelectorAll({}).length", json!(selector))).await.unwrap().as_i64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn each_state_is_shown_and_the_cluster_is_asked_little() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    let Some(mut browser) = browser(&cluster.control_plane.dir()).await else { return };
    let kubeconfig = viewer(&cluster).await;
    let mut page = Page::start(&["--kubeconfig", kubeconfig.to_str().unwrap()]).await;

    browser.open(&page.url).await.unwrap();
    shows(&mut browser, "headline", "Running 1.0.0").await;
    assert_eq!(count(&mut browser, "#blockers .is-bad").await, 0);
    looks_right(&mut browser, "idle").await;

    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    shows(&mut browser, "headline", "Updating 1.0.0 → 1.0.1").await;
    shows(&mut browser, "blockers", "waits for ClusterOperator delta").await;
    assert_eq!(count(&mut browser, "#behind:not([hidden])").await, 1, "it says where the pods are shown");
    assert_eq!(count(&mut browser, ".is-bad, .is-failing").await, 0, "an update that is well is never red");
    looks_right(&mut browser, "updating").await;
    works_by_keyboard(&mut browser).await;
    is_accessible(&mut browser).await;

    report_beta(&cluster, "True").await;
    shows(&mut browser, "blockers", "Operator beta is degraded").await;
    shows(&mut browser, "blockers", "kubectl describe clusteroperator beta").await;
    looks_right(&mut browser, "blocked").await;
    report_beta(&cluster, "False").await;
    cluster.simulation.release("delta");
    cluster.completed(&releases[1]).await.unwrap();
    shows(&mut browser, "headline", "Running 1.0.1").await;
    shows(&mut browser, "courses", "Update 1.0.0 → 1.0.1").await;

    let unsigned = cluster.lay_out_sample("1.0.5").unwrap();
    cluster.request(&unsigned).await.unwrap();
    shows(&mut browser, "blockers", "ReleaseAccepted=False").await;
    shows(&mut browser, "blockers", "It is tried again in").await;
    looks_right(&mut browser, "refused").await;
    assert_eq!(browser.take_errors(), Vec::<String>::new());

    let before = requests_of_viewer(&cluster);
    let (followed, behind): (Vec<_>, Vec<_>) =
        before.iter().partition(|(_, resource)| FOLLOWED.contains(&resource.as_str()));
    assert!(before.iter().all(|(verb, _)| verb == "list" || verb == "watch"), "{before:?}");
    let lists = followed.iter().filter(|(verb, _)| verb == "list").count();
    let watches = followed.iter().filter(|(verb, _)| verb == "watch").count();
    assert!(lists <= 6 && watches <= 6, "one list and one watch of each of six kinds: {before:?}");
    // The pods behind what has waited for half a minute, in two namespaces at most, and not all the time.
    assert!(behind.len() <= 7 * 2 * 3, "{behind:?}");
    browser.open(&page.url).await.unwrap();
    shows(&mut browser, "headline", "Running 1.0.1").await;
    assert_eq!(requests_of_viewer(&cluster).len(), before.len(), "another look costs the cluster nothing");

    cluster_goes_away_and_comes_back(&cluster, &mut browser).await;
    page.running.child.kill().await.unwrap();
    shows(&mut browser, "connection", "cvo page does not answer since").await;
    shows(&mut browser, "headline", "Running 1.0.1").await;
    browser.close().await.unwrap();
    cluster.close().await.unwrap();
}

fn requests_of_viewer(cluster: &SimulatedCluster) -> Vec<(String, String)> {
    let all = audit::requests(&cluster.control_plane.audit_log(), VIEWER).unwrap();
    // Kinds that are not there are asked for again after a while, by kubectl as well.
    let all = all.into_iter().filter(|request| request.code != 404);
    all.map(|request| (request.verb, request.resource)).collect()
}

async fn cluster_goes_away_and_comes_back(cluster: &SimulatedCluster, browser: &mut Browser) {
    cluster.control_plane.kill("kube-apiserver").unwrap();
    shows(browser, "connection", "Not up to date").await;
    shows(browser, "headline", "Running 1.0.1").await;
    looks_right(browser, "disconnected").await;
    assert!(count(browser, "#stages > li").await > 0, "what is known stays");
    cluster.control_plane.respawn("kube-apiserver").unwrap();
    browser.until("document.getElementById('connection').innerText.startsWith('Follows')").await.unwrap();
}

async fn report_beta(cluster: &SimulatedCluster, degraded: &str) {
    cluster.simulation.hold("beta");
    let conditions =
        [("Available", "True"), ("Progressing", "False"), ("Degraded", degraded)].map(|(type_, status)| {
            json!({"type": type_, "status": status, "reason": "DiskFull", "message": "beta has no room",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
        });
    let patch = json!({"status": {"conditions": conditions}}).to_string().into_bytes();
    let report = http::Request::patch("/apis/config.openshift.io/v1/clusteroperators/beta/status");
    let report = report.header("Content-Type", "application/merge-patch+json").body(patch).unwrap();
    cluster.client.request::<Value>(report).await.unwrap();
    if degraded == "False" {
        cluster.simulation.release("beta");
    }
}

/// The first key leads past the header; the stages open and close.
async fn works_by_keyboard(browser: &mut Browser) {
    browser.press("Tab").await.unwrap();
    let focused = browser.value("document.activeElement.className").await.unwrap();
    assert_eq!(focused, "skip");
    for _ in 0..20 {
        browser.press("Tab").await.unwrap();
        if browser.value("document.activeElement.tagName").await.unwrap() == "SUMMARY" {
            break;
        }
    }
    let open = "document.activeElement.parentElement.open";
    let before = browser.value(open).await.unwrap().as_bool().unwrap();
    browser.press("Enter").await.unwrap();
    assert_eq!(browser.value(open).await.unwrap(), !before);
    let outline = browser.value("getComputedStyle(document.activeElement).outlineStyle").await.unwrap();
    assert_eq!(outline, "solid", "the focus is seen");
    browser.press("Enter").await.unwrap();
}

/// What a screen reader finds: landmarks, headings, the progress and the blockers as lists.
async fn is_accessible(browser: &mut Browser) {
    let found = [
        ("main", ""),
        ("banner", ""),
        ("heading", "Updating 1.0.0 → 1.0.1"),
        ("heading", "What needs attention"),
        ("heading", "Components by stage"),
        ("heading", "History"),
        ("progressbar", "manifests"),
        ("columnheader", "Version"),
        ("link", "Skip to the state of the cluster"),
    ];
    is_in_tree(browser, &found).await;
}

/// A screen reader finds each role with this name.
pub(super) async fn is_in_tree(browser: &mut Browser, found: &[(&str, &str)]) {
    let tree = browser.accessible().await.unwrap();
    let has = |role: &str, name: &str| tree.iter().any(|(r, n)| r == role && n.contains(name));
    for (role, name) in found {
        assert!(has(role, name), "{role} {name:?} is not in {tree:?}");
    }
}

/// An update that is recommended, and one that is not.
fn offered(since: &str) -> (Value, Value) {
    let risk = |name: &str, url: &str| json!({"name": name, "url": url, "message": "it is risky", "matchingRules": [{"type": "Always"}]});
    let judged = json!({"type": "Recommended", "status": "False", "reason": "Risky", "message": "it is risky", "lastTransitionTime": since});
    let available = json!([{"version": "2.0.1", "image": "r.example/p@2.0.1", "url": "https://example.com/2.0.1"}]);
    let conditional = json!([{"release": {"version": "2.1.0", "image": "r.example/p@2.1.0"}, "conditions": [judged],
        "risks": [risk("Known", "https://example.com/known"), risk("Script", "javascript:alert(1)")]}]);
    (available, conditional)
}

/// Objects as a daemon would have written them in a release of 800 manifests, with names that try to do harm.
async fn write_large(cluster: &SimulatedCluster, components: usize) {
    let now = Timestamp::now();
    let ago = |seconds: i64| (now - SignedDuration::from_secs(seconds)).strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let harm = "<img src=x onerror=alert(1)> \u{202e}desrever\u{202c} \u{7} ".to_owned() + &"long".repeat(200);
    let nodes: Vec<Value> = (0..components)
        .map(|at| {
            let stage = 1 + at * 8 / components;
            let (state, waiting) = match at * 100 / components {
                0..60 => ("done", json!([])),
                60 => ("waiting", json!([{"kind": "ClusterOperator", "name": format!("operator-{at}"), "reason": "Waits", "message": harm, "since": ago(60)}])),
                61..66 => ("running", json!([])),
                _ => ("pending", json!([])),
            };
            let mut node = json!({"id": format!("{stage}/{:02}/component-{at}", stage * 10), "state": state, "done": 3, "total": 9, "waiting": waiting});
            if state != "pending" {
                node["started"] = json!(ago(300));
            }
            if state == "done" {
                node["finished"] = json!(ago(200));
            }
            node
        })
        .collect();
    let entry = |version: &str, state: &str| {
        json!({"state": state, "version": version, "image": format!("r.example/p@{version}"), "startedTime": ago(300),
            "completionTime": if state == "Completed" { json!(ago(200)) } else { Value::Null }, "verified": true})
    };
    let condition = json!({"type": "Progressing", "status": "True", "reason": "", "message": "under way", "lastTransitionTime": ago(300)});
    let (available, conditional) = offered(&ago(300));
    let status = json!({"desired": {"version": "2.0.0", "image": "r.example/p@2.0.0"}, "observedGeneration": 1, "versionHash": "x",
        "availableUpdates": available, "conditionalUpdates": conditional, "conditions": [condition], "history": [entry("2.0.0", "Partial"), entry("1.0.0", "Completed")]});
    let record = json!({"schema": 1, "release": {"version": "2.0.0", "image": "r.example/p@2.0.0"},
        "pass": {"mode": "update", "started": ago(300), "done": 480, "total": 800}, "nodes": nodes});
    // A merge patch would lose what is null.
    let path = "/apis/config.openshift.io/v1/clusterversions/version";
    let read = http::Request::get(path).body(Vec::new()).unwrap();
    let mut version: Value = cluster.client.request(read).await.unwrap();
    version["status"] = status;
    let write = http::Request::put(format!("{path}/status")).header("Content-Type", "application/json");
    let write = write.body(version.to_string().into_bytes()).unwrap();
    cluster.client.request::<Value>(write).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), cvo::testing::api::NAMESPACE);
    let map = json!({"metadata": {"name": CONFIG_MAP}, "data": {KEY: record.to_string()}});
    match maps.get_opt(CONFIG_MAP).await.unwrap() {
        Some(_) => drop(maps.patch(CONFIG_MAP, &PatchParams::default(), &Patch::Merge(map)).await.unwrap()),
        None => drop(maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap()),
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn large_release_is_shown_at_once_and_costs_nothing_while_it_rests() {
    let (mut cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    cluster.stop_daemon().await.unwrap();
    let Some(mut browser) = browser(&cluster.control_plane.dir()).await else { return };
    write_large(&cluster, 90).await;
    let page = Page::start(&["--kubeconfig", &cluster.control_plane.kubeconfig().display().to_string()]).await;
    browser.open(&page.url).await.unwrap();
    shows(&mut browser, "headline", "Updating 1.0.0 → 2.0.0").await;
    // Again, with everything that a browser does once done.
    browser.open(&page.url).await.unwrap();
    shows(&mut browser, "blockers", "<img src=x").await;
    let paint = "performance.getEntriesByName('first-contentful-paint')[0]";
    browser.until(paint).await.unwrap();
    let paint = browser.value(&format!("{paint}.startTime")).await.unwrap().as_f64().unwrap();
    let html =
        browser.value("performance.getEntriesByType('navigation')[0].transferSize").await.unwrap().as_f64().unwrap();
    let record: ConfigMap =
        Api::namespaced(cluster.client.clone(), cvo::testing::api::NAMESPACE).get(CONFIG_MAP).await.unwrap();
    let state = record.data.unwrap()[KEY].len();
    println!("first paint {paint:.0} ms, page {html:.0} bytes, record {state} bytes");
    assert!(html + state as f64 * 1.5 < 150_000.0, "{html} bytes and {state} of the record");
    assert_eq!(count(&mut browser, "img, script[src], link[href^=http]").await, 0, "messages are only text");
    shows(&mut browser, "risky", "2.1.0: not recommended").await;
    let links = browser.value("[...document.querySelectorAll('#updates a')].map((link) => link.href)").await.unwrap();
    assert_eq!(links, json!(["https://example.com/2.0.1", "https://example.com/known"]), "a script is no link");
    looks_right(&mut browser, "large").await;
    assert_eq!(browser.take_errors(), Vec::<String>::new());

    // Nothing moves but the time.
    let (tab, server) = (browser.metric("TaskDuration").await.unwrap(), page.cpu());
    let begun = std::time::Instant::now();
    browser.value("new Promise((done) => setTimeout(done, 10000))").await.unwrap();
    let took = begun.elapsed().as_secs_f64();
    let tab = (browser.metric("TaskDuration").await.unwrap() - tab) / took * 100.0;
    let server = (page.cpu() - server) / took * 100.0;
    println!("at rest: the tab uses {tab:.2} % of a core, cvo page {server:.2} %");

    write_large(&cluster, 1500).await;
    browser.until("document.querySelectorAll('#stages > li').length === 8 && document.getElementById('blockers').children.length >= 15").await.unwrap();
    looks_right(&mut browser, "huge").await;
    assert!(count(&mut browser, ".cells > li").await <= 8 * 60, "the rest is shown on request");
    let more = browser.value("document.querySelector('.more:not([hidden])').click()").await;
    assert!(more.is_ok());
    browser.until("document.querySelectorAll('.cells > li').length > 8 * 20").await.unwrap();

    let file = cluster.control_plane.dir().join("record.tar.zst").display().to_string();
    cluster.control_plane.cvo(["collect", "--to", &file]).output().await.unwrap();
    let recorded = Page::start(&["--from", &file]).await;
    browser.open(&recorded.url).await.unwrap();
    shows(&mut browser, "headline", "Updating 1.0.0 → 2.0.0").await;
    shows(&mut browser, "connection", "record.tar.zst, collected").await;
    assert_eq!(count(&mut browser, "#behind:not([hidden])").await, 0, "there is no cluster");
    assert_eq!(browser.take_errors(), Vec::<String>::new());
    browser.close().await.unwrap();
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_but_the_page_itself_is_answered() {
    let cluster = SimulatedCluster::start(Workloads::Kwok).await.unwrap();
    let page = Page::start(&["--kubeconfig", &cluster.control_plane.kubeconfig().display().to_string()]).await;
    let (address, token) = page.url.split_once("/?token=").unwrap();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let status = async |method: &str, path: &str, headers: &[(&str, &str)]| {
        let mut request = client.request(method.parse().unwrap(), format!("{address}{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.unwrap().status().as_u16()
    };
    let right = format!("/?token={token}");
    assert_eq!(status("GET", &right, &[]).await, 200);
    assert_eq!(status("GET", "/", &[]).await, 403, "without the token");
    assert_eq!(status("GET", "/?token=AAAAAAAAAAAAAAAAAAAAAA", &[]).await, 403, "a wrong token");
    assert_eq!(status("GET", &right, &[("host", "rebound.example")]).await, 421, "a foreign host");
    assert_eq!(status("GET", &right, &[("origin", "https://evil.example")]).await, 403, "another origin");
    assert_eq!(status("GET", &right, &[("sec-fetch-site", "cross-site")]).await, 403, "another site");
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        assert_eq!(status(method, &right, &[]).await, 405, "{method}: it only reads");
    }
    let other = Page::start(&["--kubeconfig", &cluster.control_plane.kubeconfig().display().to_string()]).await;
    assert_ne!(other.url.split_once("/?token=").unwrap().1, token, "new at each start");
    cluster.close().await.unwrap();
}
