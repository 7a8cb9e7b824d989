use super::*;
use crate::machine_config::api::machine_config::{GENERATED_BY, OS_IMAGE_OVERRIDDEN, RELEASE_VERSION};
use serde_json::{Value, json};

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const OS: &str = "os@sha256:1";

fn config(name: &str, role: &str, spec: Value) -> MachineConfig {
    let mut config = MachineConfig::new(name, serde_json::from_value(spec).unwrap());
    config.metadata.labels = Some([(ROLE_LABEL.to_owned(), role.to_owned())].into());
    config
}

fn file(path: &str, content: &str) -> Value {
    let file = json!({"path": path, "contents": {"source": format!("data:,{content}")}});
    json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}}})
}

fn defaults() -> Defaults {
    let (controller_version, release_version) = ("9.9.9".to_owned(), "1.0.0".to_owned());
    Defaults { controller_version, release_version, os_image: OS.to_owned(), ..Defaults::default() }
}

fn pool(name: &str, spec: &Value, annotations: &[(&str, &str)]) -> MachineConfigPool {
    let mut pool = MachineConfigPool::new(name, serde_json::from_value(spec.clone()).unwrap());
    let selector = |key: &str, value: &str| serde_json::from_value(json!({"matchLabels": {key: value}})).unwrap();
    pool.spec.machine_config_selector = Some(selector(ROLE_LABEL, name));
    pool.spec.node_selector = Some(selector("pool", name));
    let annotations = annotations.iter().map(|(key, value)| (format!("{GROUP}/{key}"), (*value).to_owned()));
    pool.metadata.annotations = Some(annotations.collect());
    pool
}

fn node(name: &str, pool: &str, config: &str) -> Node {
    let annotations = ["currentConfig", "desiredConfig"].map(|key| (format!("{GROUP}/{key}"), json!(config)));
    let annotations: serde_json::Map<String, Value> =
        annotations.into_iter().chain([(format!("{GROUP}/state"), json!("Done"))]).collect();
    let metadata = json!({"name": name, "labels": {"pool": pool}, "annotations": annotations});
    serde_json::from_value(json!({"metadata": metadata})).unwrap()
}

/// A cluster whose pools have what their MachineConfigs are rendered to, and whose nodes have that.
fn cluster(mut pools: Vec<MachineConfigPool>, inputs: &[MachineConfig], nodes: &[(&str, &str)]) -> Cluster {
    let mut configs = inputs.to_vec();
    for pool in &mut pools {
        let rendered = render(&pool.metadata.name.clone().unwrap(), &super::inputs(pool, inputs), &defaults()).unwrap();
        pool.spec.configuration.name.clone_from(&rendered.name);
        let mut object = rendered.object();
        let owner =
            json!([{"apiVersion": "v1", "kind": "MachineConfigPool", "name": "p", "uid": "1", "controller": true}]);
        object.metadata.owner_references = serde_json::from_value(owner).unwrap();
        configs.push(object);
    }
    let has = |pool: &str| {
        let found = pools.iter().find(|it| it.metadata.name.as_deref() == Some(pool)).unwrap();
        found.spec.configuration.name.clone()
    };
    let nodes = nodes.iter().map(|(name, pool)| node(name, pool, &has(pool))).collect();
    let (pods, budgets) = (Some(BTreeMap::new()), Some(Vec::new()));
    Cluster { pools, configs, nodes, pods, budgets, ..Cluster::default() }
}

/// Three workers, which have the file /etc/a, and one node of the control plane.
fn usual(spec: &Value, annotations: &[(&str, &str)]) -> Cluster {
    let pools = vec![pool("worker", spec, annotations), pool("master", &json!({}), &[])];
    let inputs =
        [config("10-a", "worker", file("/etc/a", "one")), config("10-master", "master", file("/etc/m", "one"))];
    cluster(pools, &inputs, &[("w3", "worker"), ("w1", "worker"), ("m1", "master"), ("w2", "worker")])
}

fn of<'a>(plan: &'a NodePlan, pool: &str) -> &'a PoolPlan {
    plan.pools.iter().find(|plan| plan.name == pool).unwrap()
}

fn changed(cluster: &Cluster) -> PoolPlan {
    of(&plan(cluster, &[config("10-a", "worker", file("/etc/a", "three"))], &[], NOW), "worker").clone()
}

#[test]
fn the_plan_has_the_name_that_the_controller_will_render_and_says_what_follows() {
    let cluster = usual(&json!({"maxUnavailable": 2}), &[("node-durations", "60,60,60")]);
    let given = [config("10-a", "worker", file("/etc/a", "three"))];
    let plan = plan(&cluster, &given, &[], NOW);
    let expected = render("worker", &given, &defaults()).unwrap().name;
    let worker = of(&plan, "worker");
    assert_eq!((worker.to.as_ref(), worker.given.as_slice()), (Some(&expected), ["10-a".to_owned()].as_slice()));
    let [transition] = worker.transitions.as_slice() else { panic!("{:?}", worker.transitions) };
    let line = ChangeLine { what: "file /etc/a".into(), how: "3 → 5 bytes".into(), follows: vec!["Reboot".into()] };
    assert_eq!((transition.changes.as_slice(), transition.drains, transition.reboots), ([line].as_slice(), true, true));
    assert_eq!(transition.nodes, ["w1", "w2", "w3"]);
    let rollout = worker.rollout.as_ref().unwrap();
    assert_eq!((rollout.order.as_slice(), rollout.at_a_time), (["w1", "w2", "w3"].map(str::to_owned).as_slice(), 2));
    assert_eq!(rollout.seconds, Some(120), "two waves of a minute");
    let master = of(&plan, "master");
    assert!(!master.changes() && master.rollout.is_none() && master.transitions.is_empty(), "{master:?}");
    assert_eq!((plan.verdict(), plan.remarks.as_slice()), (Verdict::Fine, [].as_slice()));
}

#[test]
fn policies_of_administrators_say_what_follows() {
    let mut cluster = usual(&json!({}), &[]);
    let restart = json!([{"type": "Restart", "restart": {"serviceName": "a.service"}}]);
    let policy = json!({"spec": {"nodeDisruptionPolicy": {"files": [{"path": "/etc/a", "actions": restart}]}}});
    cluster.settings = Settings::of(Some(&policy)).unwrap();
    cluster.pods = None;
    let plan = changed(&cluster);
    let transition = &plan.transitions[0];
    assert_eq!((transition.drains, transition.reboots), (false, false));
    assert_eq!(transition.actions, ["Restart a.service"]);
    assert_eq!(plan.rollout.unwrap().drains, []);
}

#[test]
fn what_follows_depends_on_the_container_runtime_of_a_node() {
    let policy = |content: &str| config("10-policy", "worker", file("/etc/containers/policy.json", content));
    let unit = json!([{"name": "crio.service", "contents": "[Service]"}]);
    let crio = json!({"config": {"ignition": {"version": "3.5.0"}, "systemd": {"units": unit}}});
    let with = |inputs: &[MachineConfig]| {
        let pools = vec![pool("worker", &json!({}), &[])];
        let mut cluster = cluster(pools, inputs, &[("w1", "worker"), ("w2", "worker"), ("w3", "worker")]);
        for (node, runtime) in cluster.nodes.iter_mut().zip(["cri-o://1.34.0", "containerd://2.1.0", ""]) {
            let status = json!({"nodeInfo": {"containerRuntimeVersion": runtime}});
            node.status = Some(serde_json::from_value(status).unwrap());
        }
        cluster
    };
    let planned = |cluster: &Cluster, given: MachineConfig| -> Vec<(String, String)> {
        let plan = plan(cluster, &[given], &[], NOW);
        let transitions = of(&plan, "worker").transitions.iter();
        transitions
            .map(|it| (it.nodes.join(" "), it.actions.join(" ") + if it.reboots { "Reboot" } else { "" }))
            .collect()
    };
    let found = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(nodes, follows)| ((*nodes).to_owned(), (*follows).to_owned())).collect()
    };
    let usual = with(&[policy("one")]);
    assert_eq!(planned(&usual, policy("three")), found(&[("w1 w3", "Reload crio.service"), ("w2", "")]));
    let other = config("20-b", "worker", file("/etc/b", "one"));
    assert_eq!(planned(&usual, other), found(&[("w1 w2 w3", "Reboot")]), "it makes no difference here");
    let brought = with(&[policy("one"), config("05-crio", "worker", crio)]);
    assert_eq!(planned(&brought, policy("three")), found(&[("w1 w2 w3", "Reload crio.service")]));
}

#[test]
fn nothing_is_fine_that_rests_on_what_could_not_be_read() {
    type Change = fn(&mut Cluster);
    let table: [(&str, Change, usize); 4] = [
        ("pods", |cluster| cluster.pods = None, 1),
        ("budgets", |cluster| cluster.budgets = None, 1),
        ("the owner of a pod", |cluster| cluster.undecided = vec!["pod a/b: forbidden".into()], 1),
        ("policies", |cluster| cluster.settings_unread = true, 0),
    ];
    for (what, change, remarks) in table {
        let planned = |spec: Value, content: &str| {
            let mut cluster = usual(&spec, &[]);
            change(&mut cluster);
            plan(&cluster, &[config("10-a", "worker", file("/etc/a", content))], &[], NOW)
        };
        let changed = planned(json!({}), "three");
        let found = (changed.verdict(), changed.incomplete, changed.remarks.len());
        assert_eq!(found, (Verdict::Incomplete, true, remarks), "{what}: {:?}", changed.remarks);
        let same = planned(json!({}), "one");
        assert_eq!((same.verdict(), same.incomplete, same.remarks.len()), (Verdict::Fine, false, 0), "{what}");
        assert_eq!(planned(json!({"paused": true}), "three").verdict(), Verdict::Waits, "{what}: what is known counts");
    }
}

#[test]
fn a_pool_that_cannot_be_rendered_names_the_machine_config_that_is_guilty() {
    let cluster = usual(&json!({}), &[]);
    let broken = json!({"config": {"ignition": {"version": "9.0.0"}}});
    let plan = plan(&cluster, &[config("50-broken", "worker", broken)], &[], NOW);
    let worker = of(&plan, "worker");
    assert!(worker.error.as_ref().unwrap().starts_with("MachineConfig 50-broken: "), "{:?}", worker.error);
    assert_eq!((worker.to.as_ref(), plan.verdict()), (None, Verdict::Fails));
    assert!(of(&plan, "master").error.is_none());
}

#[test]
fn a_change_that_running_nodes_cannot_follow_names_the_machine_config_that_is_guilty() {
    let cluster = usual(&json!({}), &[]);
    let disks = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"disks": [{"device": "/dev/sdb"}]}}});
    let plan = plan(&cluster, &[config("50-disk", "worker", disks)], &[], NOW);
    let error = of(&plan, "worker").error.as_ref().unwrap();
    assert!(error.contains("MachineConfig 50-disk: storage.disks[/dev/sdb] is added"), "{error}");
    assert_eq!(plan.verdict(), Verdict::Fails);
}

#[test]
fn a_change_that_an_administrator_excepts_is_planned_as_the_controller_makes_it() {
    let mut cluster = usual(&json!({}), &[]);
    let overrides = json!({"spec": {"irreconcilableValidationOverrides": {"storage": ["Disks"]}}});
    cluster.settings = Settings::of(Some(&overrides)).unwrap();
    let disks = json!({"config": {"ignition": {"version": "3.5.0"}, "storage": {"disks": [{"device": "/dev/sdb"}]}}});
    let plan = plan(&cluster, &[config("50-disk", "worker", disks)], &[], NOW);
    let worker = of(&plan, "worker");
    assert_eq!((worker.error.as_ref(), worker.changes(), plan.verdict()), (None, true, Verdict::Fine));
    assert_eq!(worker.transitions[0].error, None);
}

#[test]
fn nodes_that_no_pool_selects_are_remarked() {
    let mut cluster = usual(&json!({}), &[]);
    cluster.nodes.push(node("lost", "nowhere", "x"));
    let remarks = plan(&cluster, &[config("10-a", "worker", file("/etc/a", "three"))], &[], NOW).remarks;
    let [remark] = remarks.as_slice() else { panic!("{remarks:?}") };
    assert!(remark.starts_with("Left alone: node lost belongs to no MachineConfigPool"), "{remark}");
    assert!(remark.ends_with("to let pool worker configure nodes: kubectl label node lost pool=worker"), "{remark}");
}

#[test]
fn a_machine_config_that_no_pool_selects_is_told_with_its_labels() {
    let cluster = usual(&json!({}), &[]);
    let plan = plan(&cluster, &[config("50-lost", "wroker", file("/etc/a", "1"))], &[], NOW);
    let [lost] = plan.unselected.as_slice() else { panic!("{:?}", plan.unselected) };
    assert!(lost.message.contains(&format!("it has {ROLE_LABEL}=wroker")), "{}", lost.message);
    assert!(plan.pools.iter().all(|pool| !pool.changes()));
    assert_eq!((lost.name.as_str(), plan.verdict()), ("50-lost", Verdict::Waits));
}

#[test]
fn given_machine_configs_keep_the_labels_that_the_cluster_gave_them() {
    let cluster = usual(&json!({}), &[]);
    let mut given = config("10-a", "", file("/etc/a", "two"));
    given.metadata.labels = None;
    let plan = plan(&cluster, &[given], &[], NOW);
    assert!(plan.unselected.is_empty() && of(&plan, "worker").changes());
}

#[test]
fn holds_are_told_and_the_order_behind_them_too() {
    for (spec, annotation, reason, lasts) in [
        (json!({"paused": true}), ("soak", "0s"), "PausedPool", true),
        (json!({}), ("pause-after", "1"), "AwaitingApproval", true),
        (json!({}), ("approval-query", "up"), "AwaitingHealth", false),
        // The epoch was a Thursday.
        (json!({}), ("maintenance-windows", "Sat 02:00-03:00"), "OutsideMaintenanceWindow", false),
        (json!({}), ("soak", "soon"), "InvalidPool", true),
    ] {
        let cluster = usual(&spec, &[annotation]);
        let rollout = changed(&cluster).rollout.unwrap();
        let [hold] = rollout.holds.as_slice() else { panic!("{annotation:?}: {:?}", rollout.holds) };
        assert_eq!((hold.reason.as_str(), hold.lasts, rollout.waits()), (reason, lasts, lasts), "{}", hold.message);
        assert_eq!(rollout.order, ["w1", "w2", "w3"], "{annotation:?}");
    }
    let approved = usual(&json!({}), &[("pause-after", "3")]);
    assert_eq!(changed(&approved).rollout.unwrap().holds, [], "all three begin");
}

#[test]
fn nodes_that_would_never_be_told_are_stuck() {
    let mut cluster = usual(&json!({}), &[]);
    for node in &mut cluster.nodes {
        let cordoned = node.metadata.name.as_deref() == Some("w2");
        node.spec = serde_json::from_value(json!({"unschedulable": cordoned})).unwrap();
    }
    let rollout = changed(&cluster).rollout.unwrap();
    let stuck = rollout.stuck.as_ref().unwrap();
    assert_eq!((stuck.nodes.len(), stuck.reason.as_str(), rollout.waits()), (3, "UnavailableNodes", true));
    assert!(stuck.message.contains("node w2: was cordoned by somebody else"), "{}", stuck.message);
    cluster.pools[0].spec.max_unavailable = Some(k8s_openapi::apimachinery::pkg::util::intstr::IntOrString::Int(2));
    let rollout = changed(&cluster).rollout.unwrap();
    assert_eq!((rollout.order, rollout.stuck.unwrap().nodes), (vec!["w1".into(), "w3".into()], vec!["w2".into()]));
}

#[test]
fn budgets_that_let_no_pod_go_now_are_named_with_what_they_demand() {
    let mut cluster = usual(&json!({}), &[]);
    let budget = |name: &str, allowed: i32| {
        let status =
            json!({"currentHealthy": 2, "desiredHealthy": 2, "expectedPods": 2, "disruptionsAllowed": allowed});
        let spec = json!({"selector": {"matchLabels": {"app": name}}});
        let metadata = json!({"name": name, "namespace": "shop"});
        Budget::of(serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap())
    };
    let pod = |name: &str| PodToMove {
        namespace: "shop".into(),
        name: format!("{name}-0"),
        labels: [("app".to_owned(), name.to_owned())].into(),
        warning: (name == "db").then_some("no controller starts it again elsewhere"),
    };
    cluster.budgets = Some(vec![budget("web", 0), budget("db", 1)]);
    cluster.pods = Some([("w2".to_owned(), vec![pod("web"), pod("db")]), ("m1".to_owned(), vec![pod("web")])].into());
    let rollout = changed(&cluster).rollout.unwrap();
    let [drain] = rollout.drains.as_slice() else { panic!("{:?}", rollout.drains) };
    assert_eq!((drain.node.as_str(), drain.pods), ("w2", 2));
    assert_eq!(drain.lost, ["shop/db-0: no controller starts it again elsewhere"]);
    let [kept] = drain.kept.as_slice() else { panic!("{:?}", drain.kept) };
    assert_eq!((kept.budget.as_str(), kept.pods.as_slice()), ("web", ["web-0".to_owned()].as_slice()));
    assert!(kept.message.contains("2 of 2 pods are healthy, 2 have to be"), "{}", kept.message);
    assert!(rollout.waits());
    // Nobody could take the pods of the only node.
    for node in &mut cluster.nodes {
        let key = format!("{GROUP}/controlPlaneTopology");
        node.metadata.annotations.get_or_insert_default().insert(key, "SingleReplica".into());
    }
    assert_eq!(changed(&cluster).rollout.unwrap().drains, []);
}

#[test]
fn the_node_of_the_controller_comes_last_and_other_configurations_are_compared_by_themselves() {
    let mut cluster = usual(&json!({}), &[]);
    cluster.controller.node = Some("w1".into());
    let old = render("worker", &[config("10-a", "worker", file("/etc/b", "old"))], &defaults()).unwrap();
    cluster.configs.push(old.object());
    cluster.nodes[3] = node("w2", "worker", &old.name);
    cluster.nodes.push(node("w4", "worker", "gone"));
    cluster.nodes.push(node("w5", "worker", ""));
    let plan = changed(&cluster);
    let rollout = plan.rollout.as_ref().unwrap();
    assert_eq!(
        (rollout.order.join(" ").as_str(), rollout.unknown.as_slice()),
        ("w2 w3 w4 w1", ["w5".into()].as_slice())
    );
    let found: Vec<(String, usize, bool)> =
        plan.transitions.iter().map(|it| (it.nodes.join(" "), it.changes.len(), it.error.is_some())).collect();
    assert!(found.contains(&("w1 w3".to_owned(), 1, false)), "{found:?}");
    assert!(found.contains(&("w2".to_owned(), 2, false)), "{found:?}");
    assert!(found.contains(&("w4".to_owned(), 0, true)), "{found:?}");
}

#[test]
fn an_update_that_is_under_way_ends_before_other_nodes_begin() {
    let mut cluster = usual(&json!({}), &[]);
    let before = &cluster.pools[0].spec.configuration.name.clone();
    let annotations = cluster.nodes[0].metadata.annotations.as_mut().unwrap();
    annotations.insert(format!("{GROUP}/currentConfig"), "older".into());
    annotations.insert(format!("{GROUP}/state"), "Working".into());
    let rollout = changed(&cluster).rollout.unwrap();
    assert_eq!((rollout.order.join(" "), rollout.stuck), ("w3 w1 w2".to_owned(), None), "w3 is on its way to {before}");
}

#[test]
fn a_ceiling_and_pools_that_wait_for_each_other_let_all_nodes_be_told_once() {
    let mut cluster = usual(&json!({"maxUnavailable": 3}), &[]);
    cluster.controller.ceiling = Some(1);
    let given = [config("10-a", "worker", file("/etc/a", "x")), config("10-master", "master", file("/etc/m", "x"))];
    let plan = plan(&cluster, &given, &[], NOW);
    assert_eq!(of(&plan, "worker").rollout.as_ref().unwrap().order, ["w1", "w2", "w3"]);
    assert_eq!(of(&plan, "master").rollout.as_ref().unwrap().order, ["m1"]);
    assert_eq!(plan.verdict(), Verdict::Fine);
}

#[test]
fn what_the_release_brings_is_taken_from_what_pools_have() {
    let cluster = usual(&json!({}), &[]);
    let (found, remarks) = super::defaults::of(&cluster.pools, &cluster.configs, &Controller::default());
    assert_eq!((found, remarks), (defaults(), Vec::new()));
    let mut overridden = cluster.clone();
    for config in &mut overridden.configs {
        let annotations = config.metadata.annotations.get_or_insert_default();
        annotations.insert(OS_IMAGE_OVERRIDDEN.to_owned(), "true".to_owned());
    }
    let (found, remarks) = super::defaults::of(&overridden.pools, &overridden.configs, &Controller::default());
    assert_eq!((found.os_image.as_str(), remarks.len()), ("", 1));
    let controller = Controller { os_image: Some("os@sha256:2".into()), ..Controller::default() };
    let (found, remarks) = super::defaults::of(&overridden.pools, &overridden.configs, &controller);
    assert_eq!((found.os_image.as_str(), remarks.len()), ("os@sha256:2", 0));
    assert_eq!(found.release_version, "1.0.0");
    let annotations = cluster.configs.last().unwrap().metadata.annotations.clone().unwrap();
    assert_eq!((&annotations[GENERATED_BY], &annotations[RELEASE_VERSION]), (&"9.9.9".into(), &"1.0.0".into()));
}

#[test]
fn a_change_that_the_pool_does_not_have_yet_is_told() {
    let mut cluster = usual(&json!({}), &[]);
    cluster.configs.push(config("20-late", "worker", file("/etc/late", "1")));
    let plan = plan(&cluster, &[config("10-a", "worker", file("/etc/a", "three"))], &[], NOW);
    let [remark] = plan.remarks.as_slice() else { panic!("{:?}", plan.remarks) };
    assert!(remark.starts_with("Pool worker has rendered-worker-"), "{remark}");
    assert_eq!(of(&plan, "worker").transitions[0].changes.len(), 2);
}

#[test]
fn a_node_that_is_not_back_from_its_restart_is_not_expected_to_end() {
    let mut cluster = usual(&json!({"maxUnavailable": 2}), &[]);
    let annotations = cluster.nodes[0].metadata.annotations.as_mut().unwrap();
    annotations.insert(format!("{GROUP}/currentConfig"), "older".into());
    annotations.insert(format!("{GROUP}/state"), "Working".into());
    annotations.insert(format!("{GROUP}/{}", annotation::POST_CONFIG_ACTION), "Rebooting".into());
    annotations.insert(format!("{GROUP}/{}", annotation::REBOOT_STARTED), "1969-12-31T23:00:00Z".into());
    let rollout = changed(&cluster).rollout.unwrap();
    let stuck = rollout.stuck.as_ref().unwrap();
    assert_eq!((stuck.nodes.join(" ").as_str(), stuck.reason.as_str()), ("w3", "RestartOverdue"), "{}", stuck.message);
    assert_eq!(rollout.order, ["w3", "w1", "w2"], "it takes the new one when it is back");
}

#[test]
fn a_control_plane_that_would_lose_its_quorum_is_warned_about_and_not_stopped() {
    let pools = vec![pool("master", &json!({"maxUnavailable": 2}), &[])];
    let inputs = [config("10-m", "master", file("/etc/m", "one"))];
    let cluster = cluster(pools, &inputs, &[("m1", "master"), ("m2", "master"), ("m3", "master")]);
    let plan = |content| plan(&cluster, &[config("10-m", "master", file("/etc/m", content))], &[], NOW);
    let changed = plan("two");
    let [warning] = of(&changed, "master").warnings.as_slice() else { panic!("{changed:?}") };
    assert!(warning.contains("set spec.maxUnavailable to 1"), "{warning}");
    assert_eq!(changed.verdict(), Verdict::Fine);
    assert_eq!(of(&plan("one"), "master").warnings, [""; 0], "nothing changes");
}

#[test]
fn kubelet_config_is_planned_as_the_machine_config_that_is_made_of_it() {
    let kubelet = |name: &str, max_pods: Value| {
        let selector = json!({"matchLabels": {"kubelet": "big"}});
        let spec = json!({"machineConfigPoolSelector": selector, "kubeletConfig": {"maxPods": max_pods}});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        Source::of_kubelet(&serde_json::from_value(object).unwrap())
    };
    let mut cluster = usual(&json!({}), &[]);
    let worker = cluster.pools.iter_mut().find(|pool| super::pool_name(pool) == "worker").unwrap();
    worker.metadata.labels = Some([("kubelet".to_owned(), "big".to_owned())].into());
    let planned = plan(&cluster, &[], &[kubelet("a", json!(500)), kubelet("b", json!(7))], NOW);
    assert_eq!(planned.verdict(), Verdict::Fine);
    let worker = of(&planned, "worker");
    assert_eq!(worker.given, ["99-worker-generated-kubelet", "99-worker-generated-kubelet-1"]);
    let what: Vec<&str> = worker.transitions[0].changes.iter().map(|change| change.what.as_str()).collect();
    let folder = "file /etc/kubernetes/kubelet.conf.d";
    assert_eq!(what, [format!("{folder}/50-a.conf"), format!("{folder}/50-b.conf")]);
    assert!(!of(&planned, "master").changes());
    let refused = plan(&cluster, &[], &[kubelet("a", json!("many"))], NOW);
    assert_eq!(refused.verdict(), Verdict::Fails);
    let [lost] = refused.refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!(lost.name, "KubeletConfig a");
    assert!(lost.message.contains("kubeletConfig.maxPods is \"many\""), "{}", lost.message);
    assert!(!of(&refused, "worker").changes());
}
