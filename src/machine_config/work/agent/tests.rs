use super::*;
use crate::machine_config::api::machine_config::{GROUP, MachineConfig};
use crate::machine_config::host::commands::{CommandError, Output, Place, Run};
use crate::machine_config::host::root::faults::Fault;
use crate::machine_config::host::system::simulated::Host;
use futures::future::BoxFuture;
use kube::client::Body;
use serde_json::json;
use tempfile::TempDir;

#[test]
fn event_of_an_earlier_state_is_outdated() {
    let object = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
    assert!(is_outdated(&object("a", "9"), &object("a", "10")));
    assert!(!is_outdated(&object("a", "10"), &object("a", "10")));
    assert!(!is_outdated(&object("b", "9"), &object("a", "10")), "it was created anew");
    assert!(!is_outdated(&object("a", "x"), &object("a", "10")), "versions are only compared where they are numbers");
}

fn config(name: &str, image: &str) -> Value {
    json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfig", "metadata": {"name": name},
        "spec": {"config": {"ignition": {"version": "3.5.0"}}, "osImageURL": image},
    })
}

fn node(ahead: &str) -> Value {
    let texts = [("currentConfig", "a"), ("desiredConfig", "a"), ("state", "Done"), ("stageAhead", ahead)];
    let annotations: serde_json::Map<String, Value> =
        texts.iter().map(|(key, text)| (format!("{GROUP}/{key}"), json!(text))).collect();
    json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "7", "annotations": annotations}})
}

/// A server that has the MachineConfig `b`, and nothing else.
fn server() -> Objects {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            let missing =
                json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"});
            let (code, object) = match request.uri().path().ends_with("/machineconfigs/b") {
                true => (200, config("b", "r/os@sha256:2")),
                false => (404, missing),
            };
            let body = Body::from(object.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    Objects::new(kube::Client::new(service, "default"), "tests", Arc::new(|| true))
}

/// Pulls no image to its end.
#[derive(Debug)]
struct Slow(Arc<Host>);

impl Run for Slow {
    fn run<'a>(
        &'a self,
        place: Place,
        command: &'a [String],
        limit: Duration,
    ) -> BoxFuture<'a, Result<Output, CommandError>> {
        match command.iter().any(|word| word == "pull") {
            true => Box::pin(std::future::pending()),
            false => self.0.run(place, command, limit),
        }
    }
}

/// The agent of a node that has `a` and is to prepare `b`, and its root.
fn agent(host: &Arc<Host>, run: Arc<dyn Run>, events: Vec<Read<Value>>) -> (Agent, TempDir) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(dir.path().join("usr/bin")).unwrap();
    for program in ["bootc", "ostree", "podman", "systemctl", "systemd-run"] {
        std::fs::write(dir.path().join("usr/bin").join(program), "").unwrap();
    }
    let commands = Commands { run, ..host.commands() };
    let machine = Machine { root: Root::open(dir.path()).unwrap(), commands, system: System::Bootc };
    let first: MachineConfig = serde_json::from_value(config("a", "r/os@sha256:1")).unwrap();
    machine.record_first(&first, None).unwrap();
    let events = futures::stream::iter(events).chain(futures::stream::pending()).boxed();
    let kubelet = KubeletProcess::new(dir.path().join("proc"));
    let mut agent = Agent::new("n".to_owned(), "1".to_owned(), machine, server(), (events, kubelet));
    agent.node = Some(node("b"));
    (agent, dir)
}

/// Steps until something has come of the preparation.
async fn until_tried(agent: &mut Agent) {
    let stop = CancellationToken::new();
    for _ in 0..10 {
        if agent.staged.is_some() || agent.tried_ahead.is_some() {
            return;
        }
        tokio::time::timeout(Duration::from_secs(10), agent.step(&stop)).await.unwrap().unwrap();
    }
    panic!("nothing is prepared");
}

#[tokio::test]
async fn what_the_node_is_to_take_later_is_pulled_while_it_serves() {
    let host = Host::new("r/os@sha256:1");
    let (mut agent, _dir) = agent(&host, host.clone(), Vec::new());
    until_tried(&mut agent).await;
    assert_eq!(agent.staged, Some(Target::new("b")));
    assert_eq!(host.deployments().pulled, ["r/os@sha256:2"]);
    assert_eq!(host.next_boot().image, "r/os@sha256:1");
}

#[tokio::test]
async fn a_pull_ahead_that_fails_is_no_failure_of_the_node_and_is_tried_again() {
    let (host, stop) = (Host::new("r/os@sha256:1"), CancellationToken::new());
    host.fail("podman pull");
    let (mut agent, _dir) = agent(&host, host.clone(), Vec::new());
    until_tried(&mut agent).await;
    let tried = agent.tried_ahead.clone().unwrap();
    assert_eq!((agent.staged.as_ref(), &tried.target), (None, &Target::new("b")));
    assert_eq!(agent.pending, Pending::default(), "nobody is told");
    let next = |agent: &mut Agent, at: Timestamp| {
        let (disk, seen) = (Disk::read(&agent.machine.root).unwrap(), agent.seen().unwrap());
        assert_eq!(disk.failure, None);
        agent.disk = disk;
        decide(&agent.facts(&seen), at)
    };
    assert_eq!(next(&mut agent, tried.at), Action::DropStaged, "what may be half prepared");
    agent.change(Action::DropStaged, &stop).await.unwrap();
    let Action::Wait { until: Some(until), .. } = next(&mut agent, tried.at) else { panic!("it does not wait") };
    let again = next(&mut agent, until);
    assert_eq!(again, Action::StageAhead(Target::new("b")));
    let seen = agent.seen().unwrap();
    agent.perform(again, &seen, &stop).await.unwrap();
    assert_eq!((agent.staged.as_ref(), agent.tried_ahead.as_ref()), (Some(&Target::new("b")), None));
}

#[tokio::test]
async fn what_cannot_be_dropped_is_told_only_where_it_is_in_the_way() {
    for (stays, desired) in [(true, "a"), (false, "c")] {
        let host = Host::new("r/os@sha256:1");
        host.fail("podman pull");
        let (mut agent, _dir) = agent(&host, host.clone(), Vec::new());
        until_tried(&mut agent).await;
        agent.disk = Disk::read(&agent.machine.root).unwrap();
        assert!(agent.disk.staging.is_some(), "there is something to drop");
        let mut object = agent.node.clone().unwrap();
        object["metadata"]["annotations"][format!("{GROUP}/desiredConfig")] = json!(desired);
        agent.node = Some(object);
        agent.machine.root.faults.set(Fault::Once(0));
        let error = agent.change(Action::DropStaged, &CancellationToken::new()).await.unwrap_err();
        agent.explain(&error).await;
        assert_eq!(agent.pending == Pending::default(), stays, "{error}");
    }
}

#[tokio::test]
async fn a_pull_ahead_ends_when_it_is_not_wanted_any_more() {
    let host = Host::new("r/os@sha256:1");
    let withdrawn = Read::Value(node(""));
    let (mut agent, _dir) = agent(&host, Arc::new(Slow(host.clone())), vec![withdrawn]);
    until_tried(&mut agent).await;
    let seen = agent.seen().unwrap();
    assert_eq!(decide(&agent.facts(&seen), Timestamp::now()), Action::DropStaged);
    assert!(host.deployments().pulled.is_empty());
}
