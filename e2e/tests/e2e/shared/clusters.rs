//! The harness itself: a cluster serves, keeps its data, and leaves nothing behind.

use std::{
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    batch::v1::Job,
    core::v1::{ConfigMap, Node, Pod, Service},
};
use kube::Api;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, BufReader};

use e2e::conditions::Conditions;
use e2e::harness::{Cluster, Identity, Options, machine, named, node, process, programs};
use e2e::until::until;

/// For what a pod does.
const LIMIT: Duration = Duration::from_secs(60);
/// Services, as pods of another namespace name them.
const NAMED: [&str; 2] = ["kubernetes.default.svc:443", "served.default.svc:80"];

#[tokio::test(flavor = "multi_thread")]
async fn control_plane_keeps_data_over_a_restart_and_leaves_nothing_behind() {
    let begun = Instant::now();
    let cluster = Cluster::up(Options { audit: true, ..Default::default() }).await.unwrap();
    println!("control plane up after {:.1} s", begun.elapsed().as_secs_f32());
    let dir = cluster.dir();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client().await.unwrap(), "default");
    let data = [("colour".to_owned(), "blue".to_owned())].into();
    let desired = ConfigMap { metadata: named("probe"), data: Some(data), ..Default::default() };
    maps.create(&Default::default(), &desired).await.unwrap();

    cluster.restart_apiserver().await.unwrap();

    let found = maps.get("probe").await.unwrap();
    assert_eq!(found.data, desired.data);
    let said = cluster.kubectl(["get", "configmap", "probe", "-o", "jsonpath={.data.colour}"]).await.unwrap();
    assert_eq!(said, "blue");
    let audit = std::fs::read_to_string(cluster.audit_log()).unwrap();
    let creates =
        audit.lines().filter(|line| line.contains(r#""verb":"create""#) && line.contains(r#""name":"probe""#));
    assert_eq!(creates.count(), 1, "one create of the ConfigMap in the audit log");

    // Who has no certificate that only the API server has.
    let anybody = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap();
    let answer = anybody.get(format!("{}/version", cluster.etcd())).send().await;
    assert!(answer.is_err(), "{answer:?}");
    let listens = tokio::net::TcpStream::connect(cluster.etcd().trim_start_matches("https://")).await;
    assert!(listens.is_ok(), "{listens:?}");

    let mark = dir.display().to_string();
    assert!(process::marked(&mark).len() >= 4, "etcd, API server, controllers and scheduler carry the mark");
    cluster.down().await.unwrap();
    assert_eq!(process::marked(&mark), Vec::<Identity>::new());
    assert!(!dir.exists(), "{} is removed", dir.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_run_on_the_real_node_and_reach_the_api_and_services_by_their_names() {
    if !machine::is_root() {
        println!("skipped: a node needs root");
        return;
    }
    let begun = Instant::now();
    let cluster = Cluster::up(Options { node: true, registry: true, ..Default::default() }).await.unwrap();
    println!("node ready after {:.1} s", begun.elapsed().as_secs_f32());
    let site = (cluster.dir(), cluster.id().to_owned());
    let pods: Api<Pod> = Api::namespaced(cluster.client().await.unwrap(), "default");
    serve(&cluster, &pods).await;
    for (name, host_network) in [("on-host", true), ("on-bridge", false)] {
        pods.create(&Default::default(), &probe(name, host_network)).await.unwrap();
    }
    for name in ["on-host", "on-bridge"] {
        let pod = ended(&pods, name).await;
        let phase = pod.status.clone().and_then(|status| status.phase);
        let said = pods.logs(name, &Default::default()).await.unwrap();
        assert_eq!(phase.as_deref(), Some("Succeeded"), "pod {name} said {said:?}, {:?}", pod.status);
        assert!(said.starts_with("https://10.213.") && said.contains("v1.36"), "pod {name} said {said:?}");
        for named in NAMED {
            assert!(said.contains(&format!("{named} 10.213.")), "pod {name} said {said:?}");
        }
    }
    cluster.down().await.unwrap();
    assert_nothing_is_left(&site.0, &site.1);
}

#[tokio::test(flavor = "multi_thread")]
async fn leftovers_of_a_killed_owner_are_removed_by_the_next_start() {
    let id = format!("killed-{}", std::process::id());
    let dir = std::env::temp_dir().join("cvo-lab").join(&id);
    let mut command = tokio::process::Command::new(programs::lab().unwrap());
    command.args(["cluster", "up", "--foreground", "--name", &id]).stdout(Stdio::piped()).kill_on_drop(true);
    if machine::is_root() {
        command.arg("--node");
    }
    let mut owner = command.spawn().unwrap();
    let mut said = BufReader::new(owner.stdout.take().unwrap()).lines();
    let line = until("its first line", Duration::from_secs(120)).end_of(said.next_line()).await.unwrap().unwrap();
    assert!(line.unwrap_or_default().contains("is up"), "the owner's cluster came up");
    if machine::is_root() {
        // A running container: its shim and its process are not children of the owner or of this process.
        let pods: Api<Pod> = Api::namespaced(Cluster::attach(&id).unwrap().client().await.unwrap(), "default");
        pods.create(&Default::default(), &sleeper()).await.unwrap();
        let running = |pod: &Pod| phase(pod) == Some("Running");
        until("the pod to run", LIMIT).existing(pods, "sleeper", running).await.unwrap();
    }
    owner.kill().await.unwrap();
    assert!(process::marked(&dir.display().to_string()).len() >= 4, "its cluster outlives a killed owner");

    let next = Cluster::up(Options::default()).await.unwrap();

    assert_nothing_is_left(&dir, &id);
    next.down().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn kwok_simulates_nodes_and_their_pods() {
    let cluster = Cluster::up(Options { kwok: true, ..Default::default() }).await.unwrap();
    let client = cluster.client().await.unwrap();
    cluster.add_fake_nodes(0..3).await.unwrap();
    let jobs: Api<Job> = Api::namespaced(client.clone(), "default");
    jobs.create(&Default::default(), &simulated_job()).await.unwrap();
    let look = async { cluster.kubectl(["get", "nodes,pods,jobs", "-o", "wide"]).await.unwrap_or_default() };
    let done = until("the job to be completed", LIMIT).look(look);
    done.existing(jobs, "simulated", |job: &Job| job.has("Complete=True")).await.unwrap();
    let nodes: Api<Node> = Api::all(client);
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 3);
}

/// A job whose pods go to kwok's nodes.
fn simulated_job() -> Job {
    serde_json::from_value(json!({
        "metadata": {"name": "simulated"},
        "spec": {"completions": 2, "parallelism": 2, "template": {"spec": {
            "restartPolicy": "Never",
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
            "containers": [{"name": "work", "image": "cvo.invalid/none:1"}],
        }}},
    }))
    .unwrap()
}

/// A pod that sleeps.
fn sleeper() -> Pod {
    let container = json!({"name": "sleeper", "image": node::PAUSE_IMAGE});
    serde_json::from_value(json!({"metadata": {"name": "sleeper"}, "spec": {"containers": [container]}})).unwrap()
}

/// Starts a pod, and waits until its Service leads to it.
async fn serve(cluster: &Cluster, pods: &Api<Pod>) {
    let command = ["/lab", "serve-folder", "--listen", "0.0.0.0:8080", "/"];
    let container = json!({"name": "served", "image": node::PAUSE_IMAGE, "command": command});
    let metadata = json!({"name": "served", "labels": {"app": "served"}});
    let pod = serde_json::from_value(json!({"metadata": metadata, "spec": {"containers": [container]}})).unwrap();
    pods.create(&Default::default(), &pod).await.unwrap();
    let services: Api<Service> = Api::namespaced(cluster.client().await.unwrap(), "default");
    let spec = json!({"selector": {"app": "served"}, "ports": [{"port": 80, "targetPort": 8080}]});
    let service = serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap();
    let service = services.create(&Default::default(), &service).await.unwrap();
    let address = service.spec.and_then(|spec| spec.cluster_ip).unwrap();
    let reached = async || tokio::net::TcpStream::connect((address.as_str(), 80)).await;
    until("the Service to be reached", LIMIT).answer(reached).await.unwrap();
}

/// A pod that reads the version of the API server once, and connects to Services by their names.
fn probe(name: &str, host_network: bool) -> Pod {
    let to = NAMED.map(|name| format!("--to={name}"));
    let command: Vec<String> = ["/lab", "reach"].map(str::to_owned).into_iter().chain(to).collect();
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "spec": {
            "hostNetwork": host_network,
            "dnsPolicy": "ClusterFirstWithHostNet",
            "restartPolicy": "Never",
            "containers": [{"name": "probe", "image": node::PAUSE_IMAGE, "command": command}],
        },
    }))
    .unwrap()
}

/// Waits until the containers of the pod have ended.
async fn ended(pods: &Api<Pod>, name: &str) -> Pod {
    let done = |pod: &Pod| matches!(phase(pod), Some("Succeeded" | "Failed"));
    until(format!("pod {name} to end"), LIMIT).existing(pods.clone(), name, done).await.unwrap()
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

/// No process, mount, folder, network device or cgroup carries the cluster's name.
fn assert_nothing_is_left(dir: &Path, id: &str) {
    assert_eq!(process::marked(&dir.display().to_string()), Vec::<Identity>::new());
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let run_dir = format!("/run/cvo-lab/{id}");
    for place in [dir, Path::new(&run_dir)] {
        assert!(!place.exists(), "{} is removed", place.display());
        assert!(!mounts.contains(&format!("{}/", place.display())), "a mount below {} is left", place.display());
    }
    for hierarchy in std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten() {
        let group = hierarchy.path().join(format!("cvo-lab-{id}"));
        assert!(!group.exists(), "{} is removed", group.display());
    }
}
