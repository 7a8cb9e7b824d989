//! Pools of simulated nodes, and the real controller on a real API server.

use std::{
    collections::{BTreeMap, BTreeSet},
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    time::Duration,
};

use cvo::testing::api::{ClusterOperator, machine_config::MachineConfigPool};
use e2e::{
    conditions::Conditions,
    harness::{Identity, Options},
    nodes::{
        agents::{Times, annotation},
        fleet::{Fleet, Watchdog},
    },
    random::SeededRandom,
    services::monitoring::PROMETHEUS,
    until::{changes, until},
};
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{Api, runtime::watcher};

use super::{LIMIT, agent, is_blocked, order, script, why_blocked};

fn times(milliseconds: u64) -> Times {
    let of = Duration::from_millis;
    Times { stage: of(milliseconds), apply: of(milliseconds), restart: of(milliseconds) }
}

/// Whatever the daemon writes of a pool in a release leaves alone what the controller has written.
async fn assert_writes_under_its_own_name(fleet: &Fleet) {
    const NAME: &str = "machine-config-controller";
    let node = fleet.nodes().get("fake-0").await.unwrap();
    let fields = node.metadata.managed_fields.iter().flatten();
    let desired = "/f:metadata/f:annotations/f:machineconfiguration.openshift.io~1desiredConfig";
    let writers: BTreeSet<String> = fields
        .filter(|entry| entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(desired).is_some()))
        .filter_map(|entry| entry.manager.clone())
        .collect();
    assert_eq!(writers, BTreeSet::from([NAME.to_owned()]));
    let events: Api<Event> = Api::all(fleet.client.clone());
    let of_pools = events.list(&kube::api::ListParams::default()).await.unwrap().into_iter();
    let reporters: BTreeSet<String> = of_pools
        .filter(|event| event.involved_object.kind.as_deref() == Some("MachineConfigPool"))
        .filter_map(|event| event.reporting_component)
        .collect();
    assert_eq!(reporters, BTreeSet::from([NAME.to_owned()]));
}

/// As in the example that the documentation of OpenShift gives: nodes 1, 2 and 3 begin; 2 ends, and 4 begins; 1 ends, and 5 begins;
/// then 3, 5 and 4 end.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn three_of_five_nodes_are_updated_at_a_time() {
    let mut fleet = Fleet::up(Options { audit: true, ..Options::default() }).await.unwrap();
    fleet.add_nodes(&[("worker", 5)]).await.unwrap();
    fleet.add_pool("worker", IntOrString::Int(3)).await.unwrap();
    fleet.require("worker").await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "one").await.unwrap();
    let agents = |name: &str| match name {
        "fake-1" => times(200),
        "fake-0" => times(800),
        "fake-4" => times(1000),
        "fake-2" => times(1400),
        _ => times(2000),
    };
    fleet.start_agents(agents).await.unwrap();
    let address = format!("127.0.0.1:{}", fleet.cluster.port("metrics"));
    fleet.start_controller("controller", &["--listen", &address]).unwrap();
    let pool = fleet.until_updated("worker", "", LIMIT).await.unwrap();
    let first = pool.spec.configuration.name.clone();
    assert!(first.starts_with("rendered-worker-"), "{first}");
    let status = pool.status.unwrap();
    assert_eq!((status.machine_count, status.ready_machine_count, status.unavailable_machine_count), (5, 5, 0));

    let watchdog = Watchdog::begin(&fleet).await.unwrap();
    let before = first.clone();
    let order = order(&fleet, 5, move |node| annotation(node, "currentConfig") != before);
    fleet.configure("worker", "10-file", "/etc/sample", "two").await.unwrap();
    let pool = fleet.until_updated("worker", &first, LIMIT).await.unwrap();
    assert_eq!(order.await.unwrap(), ["fake-1", "fake-0", "fake-2", "fake-4", "fake-3"]);
    let seen = watchdog.end(&fleet).await.unwrap();
    assert_eq!(seen.most.get("worker"), Some(&3));
    // It is written after the pool, and not more often than once a second.
    let available = |operator: &ClusterOperator| {
        operator.condition("Available=True").is_some_and(|condition| condition.reason == "AsExpected")
    };
    let named = (fleet.operators(), "machine-config");
    let operator = fleet.until("the operator to be available", named, LIMIT, available).await.unwrap();
    assert!(operator.has("Degraded=False"), "{:?}", operator.status);
    let reasons = events_of_pools(&fleet, "Completed").await;
    for reason in ["RenderedConfigGenerated", "Updating", "Completed"] {
        assert!(reasons.contains(reason), "{reason}: {reasons:?}");
    }
    assert_writes_under_its_own_name(&fleet).await;
    let metrics = metrics(&fleet, &address).await;
    for sample in [
        "mco_machine_count{pool=\"worker\"} 5",
        "mco_updated_machine_count{pool=\"worker\"} 5",
        "machine_config_pool_condition{pool=\"worker\",condition=\"Updated\",reason=\"\"} 1",
        "machine_config_node_state{node=\"fake-0\",pool=\"worker\",state=\"Done\"} 1",
    ] {
        assert!(metrics.lines().any(|line| line == sample), "{sample}: {metrics}");
    }
    let columns = fleet.cluster.kubectl(["get", "mcp"]).await.unwrap();
    let columns: Vec<Vec<&str>> = columns.lines().map(|line| line.split_whitespace().collect()).collect();
    let header = "NAME CONFIG UPDATED UPDATING DEGRADED MACHINECOUNT READYMACHINECOUNT UPDATEDMACHINECOUNT \
                  DEGRADEDMACHINECOUNT AGE";
    assert_eq!(columns[0].join(" "), header);
    let name = &pool.spec.configuration.name;
    assert_eq!(columns[1][..9], ["worker", name, "True", "False", "False", "5", "5", "5", "0"]);
}

/// The reasons of events about pools, once there is one with this reason.
async fn events_of_pools(fleet: &Fleet, last: &str) -> BTreeSet<String> {
    let events: Api<Event> = Api::all(fleet.client.clone());
    let mut reasons = BTreeSet::new();
    let events = changes(events, watcher::Config::default());
    let all = until(format!("an event {last}"), LIMIT).event(events, |event: &Event| {
        if event.involved_object.kind.as_deref() == Some("MachineConfigPool") {
            reasons.extend(event.reason.clone());
        }
        reasons.contains(last).then_some(())
    });
    all.await.unwrap();
    reasons
}

/// As the platform's Prometheus gets them. Without a certificate they are refused.
async fn metrics(fleet: &Fleet, address: &str) -> String {
    let client = || reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let get = async |client: reqwest::ClientBuilder| {
        client.build().unwrap().get(format!("https://{address}/metrics")).send().await.unwrap()
    };
    assert_eq!(get(client()).await.status().as_u16(), 401);
    let leaf = fleet.cluster.client_certificate(PROMETHEUS).unwrap();
    let identity = reqwest::Identity::from_pem(leaf.identity().as_bytes()).unwrap();
    let answer = get(client().identity(identity)).await;
    assert_eq!(answer.status().as_u16(), 200);
    answer.text().await.unwrap()
}

/// A real agent of a simulated node. Its root is a folder, and it is started again whenever it ends, as kubelet does.
struct Agent {
    folder: PathBuf,
}

impl Agent {
    fn start(fleet: &Fleet, node: &str) -> Agent {
        let folder = fleet.cluster.dir().join(format!("agent-{node}"));
        std::fs::create_dir_all(folder.join("root/etc")).unwrap();
        std::fs::write(folder.join("boot-id"), "boot-0\n").unwrap();
        let path = |name: &str| folder.join(name).display().to_string();
        let services = script(folder.join("services"), &format!("echo \"$@\" >> {}", path("services.log")));
        // The node is off and on again, which ends all that runs on it.
        let reboot = format!("echo boot-$$ > {}\nkill -9 $PPID", path("boot-id"));
        let reboot = script(folder.join("reboot"), &reboot);
        let agent = agent(&fleet.cluster, node, &folder.join("root"), &services, &reboot, &folder.join("boot-id"));
        let launch = agent.launch(&format!("agent-{node}")).unwrap();
        fleet.cluster.spawn(launch.again(&folder.join("pid"), &folder.join("ends"))).unwrap();
        Agent { folder }
    }

    fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.folder.join("root").join(path)).unwrap_or_default()
    }

    fn kill(&self) {
        let pid = std::fs::read_to_string(self.folder.join("pid")).unwrap_or_default();
        if let Some(process) = pid.trim().parse().ok().and_then(Identity::of) {
            process.kill();
        }
    }

    /// With which statuses its processes have ended.
    fn ends(&self) -> BTreeSet<String> {
        let text = std::fs::read_to_string(self.folder.join("ends")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// All below the root but what the agent keeps for itself, with modes.
    fn tree(&self) -> BTreeMap<PathBuf, (u32, Vec<u8>)> {
        let (mut tree, mut folders) = (BTreeMap::new(), vec![self.folder.join("root")]);
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                let found = std::fs::symlink_metadata(&path).unwrap();
                if path.ends_with("machine-config-daemon") {
                    continue;
                }
                let content = if found.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
                tree.insert(path.strip_prefix(&self.folder).unwrap().to_owned(), (found.permissions().mode(), content));
                folders.extend(found.is_dir().then_some(path));
            }
        }
        tree
    }
}

/// Real agents and the real controller: a budget holds a drain and is named until it is gone; agents that are killed all
/// the time end with the same files.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_are_carried_over_through_a_blocked_drain_and_killed_agents() {
    let fleet = Fleet::up(Options::default()).await.unwrap();
    fleet.add_nodes(&[("worker", 2)]).await.unwrap();
    fleet.add_pool("worker", IntOrString::Int(1)).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "one").await.unwrap();
    let agents = ["fake-0", "fake-1"].map(|node| Agent::start(&fleet, node));
    fleet.start_controller("controller", &[]).unwrap();
    let pool = fleet.until_updated("worker", "", LIMIT).await.unwrap();
    let first = pool.spec.configuration.name;
    assert_eq!(agents.each_ref().map(|agent| agent.read("etc/sample")), ["one", "one"]);

    fleet.guarded_pod("web", "fake-0").await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "two").await.unwrap();
    let blocked = |pool: &MachineConfigPool| is_blocked(pool, "DrainBlocked", &[]);
    let pool = fleet.until("the drain to be blocked", (fleet.pools(), "worker"), LIMIT, blocked).await.unwrap();
    let (_, message) = why_blocked(&pool);
    for part in ["1 node waits", "node fake-0: pod default/web-", "PodDisruptionBudget web", "never allows any"] {
        assert!(message.contains(part), "{part}: {message}");
    }
    assert_eq!(agents.each_ref().map(|agent| agent.read("etc/sample")), ["one", "one"], "nothing is written before");
    fleet.cluster.kubectl(["delete", "pdb", "web"]).await.unwrap();
    let pool = fleet.until_updated("worker", &first, LIMIT).await.unwrap();
    let second = pool.spec.configuration.name;
    assert_eq!(agents.each_ref().map(|agent| agent.read("etc/sample")), ["two", "two"]);
    fleet.cluster.kubectl(["rollout", "status", "deployment/web", "--timeout=60s"]).await.unwrap();

    let random = SeededRandom::new(SeededRandom::seed(), 0, 0);
    fleet.configure("worker", "10-file", "/etc/sample", "three").await.unwrap();
    for _ in 0..10 {
        // The moment of a kill is random: this does not wait for anything.
        tokio::time::sleep(random.duration(Duration::from_millis(800))).await;
        random.pick(&[&agents[0], &agents[1]]).kill();
    }
    fleet.until_updated("worker", &second, LIMIT).await.unwrap();
    assert_eq!(agents.each_ref().map(|agent| agent.read("etc/sample")), ["three", "three"]);
    assert_eq!(agents[0].tree(), agents[1].tree());
    // By SIGKILL: of the test, or with their node.
    let killed = BTreeSet::from(["137".to_owned()]);
    assert_eq!(agents.each_ref().map(Agent::ends), [killed.clone(), killed], "an agent ended by itself");
    let cordoned = fleet.cluster.kubectl(["get", "nodes", "-o", "jsonpath={.items[*].spec.unschedulable}"]).await;
    assert_eq!(cordoned.unwrap(), "");
}
