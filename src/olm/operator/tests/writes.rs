use super::*;
use crate::olm::operator::condition;
use crate::olm::operator::deployment::{Write, kept};
use serde_json::Map;

fn installing() -> Cluster {
    Cluster::new([csv("a", "InstallReady", "x")]).marked()
}

#[test]
fn deployment_has_what_the_version_names_and_what_its_pods_need_to_know() {
    let mut cluster = installing();
    let container = "/spec/install/spec/deployments/0/spec/template/spec/containers/0";
    cluster.csv_mut("a").pointer_mut(container).unwrap()["env"] =
        json!([{"name": "OPERATOR_CONDITION_NAME", "value": "other"}, {"name": "X", "value": "1"}]);
    let [Write::Create { name, object }] = &cluster.decide("a", 10).deployments[..] else { panic!("it is created") };
    assert_eq!(name, "server");
    let labels = &object["metadata"]["labels"];
    for (key, value) in [
        ("tier", "one"),
        ("olm.managed", "true"),
        ("olm.owner", "a"),
        ("olm.owner.namespace", "shop"),
        ("olm.owner.kind", "ClusterServiceVersion"),
    ] {
        assert_eq!(labels[key], value, "{labels}");
    }
    let owner = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a",
        "uid": "uid-a", "controller": false, "blockOwnerDeletion": false});
    assert_eq!(object["metadata"]["ownerReferences"], json!([owner]));
    assert_eq!((&object["metadata"]["name"], &object["metadata"]["namespace"]), (&json!("server"), &json!("shop")));
    assert_eq!(object["spec"]["revisionHistoryLimit"], 1);
    let annotations = &object["spec"]["template"]["metadata"]["annotations"];
    assert_eq!((&annotations["own"], &annotations["olm.targetNamespaces"]), (&json!("kept"), &json!("shop")));
    let env = json!([{"name": "OPERATOR_CONDITION_NAME", "value": "a"}, {"name": "X", "value": "1"}]);
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["env"], env);
    // The hash follows what goes to the cluster.
    let hash = |cluster: &Cluster| {
        let [Write::Create { object, .. }] = &cluster.decide("a", 10).deployments[..] else { panic!() };
        object["metadata"]["labels"]["olm.deployment-spec-hash"].as_str().unwrap().to_owned()
    };
    let before = hash(&cluster);
    assert!(!before.is_empty() && before == hash(&cluster));
    cluster.csv_mut("a")["metadata"]["annotations"]["x"] = json!("y");
    assert_ne!(before, hash(&cluster));
}

#[test]
fn each_container_knows_the_name_of_the_condition() {
    let mut cluster = installing();
    let template = "/spec/install/spec/deployments/0/spec/template/spec";
    let env = json!([{"name": "X", "value": "1"}]);
    cluster.csv_mut("a").pointer_mut(template).unwrap()["containers"] =
        json!([{"name": "c", "image": "i:1"}, {"name": "d", "image": "i:2", "env": env}]);
    let [Write::Create { object, .. }] = &cluster.decide("a", 10).deployments[..] else { panic!("it is created") };
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    let name = json!({"name": "OPERATOR_CONDITION_NAME", "value": "a"});
    let env: Vec<&Value> = containers.iter().map(|it| &it["env"]).collect();
    assert_eq!(env, [&json!([name]), &json!([{"name": "X", "value": "1"}, name])]);
}

#[test]
fn only_what_the_version_names_is_changed_back() {
    let cluster = installing().deployed("a", ready());
    let live = &cluster.deployments["server"];
    let differs = |live: &Value, scaled: bool| {
        let mut cluster = installing();
        let live = Live { object: Arc::new(live.clone()), scaled, ..Live::default() };
        cluster.deployments.insert("server".into(), live);
        cluster.decide("a", 10).deployments.len()
    };
    assert_eq!(differs(&live.object, false), 0);
    let with = |pointer: &str, key: &str, value: Value| {
        let mut object = (*live.object).clone();
        object.pointer_mut(pointer).unwrap()[key] = value;
        object
    };
    let template = "/spec/template/metadata/annotations";
    for theirs in [
        with(template, "kubectl.kubernetes.io/restartedAt", json!("now")),
        with("/metadata/labels", "policy", json!("strict")),
        with("/metadata", "annotations", json!({"deployment.kubernetes.io/revision": "3"})),
        with("/spec/template/spec", "nodeSelector", json!({"disk": "fast"})),
        with("/spec", "progressDeadlineSeconds", json!(600)),
        with("/spec/template/spec/containers/0", "terminationMessagePath", json!("/dev/termination-log")),
    ] {
        assert_eq!(differs(&theirs, false), 0, "{theirs}");
    }
    for ours in [
        with("/spec/template/spec/containers/0", "image", json!("other")),
        with(template, "own", json!("changed")),
        with("/metadata/labels", "tier", json!("two")),
        with("/metadata/labels", "olm.deployment-spec-hash", json!("0")),
        with("/spec", "replicas", json!(3)),
    ] {
        assert_eq!(differs(&ours, false), 1, "{ours}");
    }
    // Whoever scales it says how many there are.
    assert_eq!(differs(&with("/spec", "replicas", json!(0)), true), 0);
    // Where the version does not say it, nobody is changed back.
    let mut without = installing();
    without
        .csv_mut("a")
        .pointer_mut("/spec/install/spec/deployments/0/spec")
        .unwrap()
        .as_object_mut()
        .unwrap()
        .remove("replicas");
    let mut without = without.deployed("a", ready());
    Arc::make_mut(&mut without.deployments.get_mut("server").unwrap().object)["spec"]["replicas"] = json!(5);
    assert_eq!(without.decide("a", 10).deployments, []);
}

/// With the version before, everything would be collected that still belongs to it.
#[test]
fn next_version_takes_over_what_the_one_before_has() {
    let mut next = csv("b", "InstallReady", "x");
    next["spec"]["replaces"] = json!("a");
    let mut cluster = Cluster::new([csv("a", "Replacing", "x"), next]).marked().deployed("a", ready());
    let other = json!({"apiVersion": "example.com/v1", "kind": "ClusterServiceVersion", "name": "x", "uid": "uid-x"});
    let live = Arc::make_mut(&mut cluster.deployments.get_mut("server").unwrap().object);
    live["metadata"]["ownerReferences"].as_array_mut().unwrap().push(other);
    let [Write::Replace { object, .. }] = &cluster.decide("b", 10).deployments[..] else { panic!("it is taken over") };
    let owners = object["metadata"]["ownerReferences"].as_array().unwrap();
    let uids: Vec<&str> = owners.iter().map(|it| it["uid"].as_str().unwrap()).collect();
    assert_eq!(uids, ["uid-x", "uid-b"]);
    assert_eq!(object["metadata"]["labels"]["olm.owner"], "b");
    assert_eq!(object["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"], "b");
    // Also where only the reference is left.
    let object = object.clone();
    cluster.deployments.insert("server".into(), Live { object: Arc::new(object.clone()), ..Live::default() });
    assert_eq!(cluster.decide("b", 10).deployments, []);
    let mut both = object;
    let before = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": "uid-a"});
    both["metadata"]["ownerReferences"].as_array_mut().unwrap().insert(0, before);
    cluster.deployments.insert("server".into(), Live { object: Arc::new(both), ..Live::default() });
    let [Write::Replace { object, .. }] = &cluster.decide("b", 10).deployments[..] else { panic!("it is handed over") };
    assert_eq!(object["metadata"]["ownerReferences"].as_array().unwrap().len(), 2);
    // The version before does not take it back.
    assert_eq!(cluster.decide("a", 10).deployments, []);
}

#[test]
fn what_the_version_does_not_name_any_more_is_deleted() {
    let mut cluster = installing().deployed("a", ready());
    let mut left = (*cluster.deployments["server"].object).clone();
    left["metadata"]["name"] = json!("left");
    left["metadata"]["uid"] = json!("uid-left");
    let insert = |cluster: &mut Cluster, object: &Value| {
        cluster.deployments.insert("left".into(), Live { object: Arc::new(object.clone()), ..Live::default() });
    };
    insert(&mut cluster, &left);
    let delete = [Write::Delete { name: "left".into(), uid: "uid-left".into() }];
    assert_eq!(cluster.decide("a", 10).deployments, delete);
    // An operator that runs is installed again for that.
    for phase in ["Installing", "Succeeded", "Failed"] {
        cluster.csv_mut("a")["status"]["phase"] = json!(phase);
        assert!(cluster.step("a", 10).starts_with("InstallReady/"), "{phase}");
    }
    cluster.csv_mut("a")["status"]["phase"] = json!("InstallReady");
    for (pointer, value) in
        [("/metadata/ownerReferences/0/uid", json!("uid-other")), ("/metadata/labels/olm.owner", json!("other"))]
    {
        let mut theirs = left.clone();
        *theirs.pointer_mut(pointer).unwrap() = value;
        insert(&mut cluster, &theirs);
        assert_eq!(cluster.decide("a", 10).deployments, [], "{pointer}");
    }
}

/// It is collected with its owner, the version before, which goes once this one has succeeded.
#[test]
fn what_only_the_version_before_names_goes_with_it_and_not_before() {
    let mut before = csv("a", "Replacing", "x");
    let deployments = "/spec/install/spec/deployments";
    before.pointer_mut(deployments).unwrap().as_array_mut().unwrap().push(entry("helper"));
    let mut next = csv("b", "InstallReady", "x");
    next["spec"]["replaces"] = json!("a");
    let mut cluster = Cluster::new([before, next]).marked().deployed("a", ready());
    let names = |cluster: &Cluster, name: &str| -> Vec<String> {
        cluster.decide(name, 10).deployments.iter().map(|it| it.name().to_owned()).collect()
    };
    for phase in ["InstallReady", "Installing", "Succeeded", "Failed"] {
        cluster.csv_mut("b")["status"]["phase"] = json!(phase);
        assert!(names(&cluster, "b").iter().all(|name| name == "server"), "{phase}");
        assert!(names(&cluster, "a").is_empty(), "{phase}");
        let is_over = cluster.step("a", 10).starts_with("Deleting/");
        assert_eq!(is_over, phase == "Succeeded", "{phase}");
    }
    let owners = &cluster.deployments["helper"].object["metadata"]["ownerReferences"];
    assert_eq!(owners[0]["uid"], "uid-a");
}

/// Else it would be written for ever.
#[test]
fn what_the_server_makes_different_is_not_written_again() {
    let mut cluster = installing().deployed("a", ready());
    let live = cluster.deployments.get_mut("server").unwrap();
    let wanted = (*live.object).clone();
    Arc::make_mut(&mut live.object)["spec"]["template"]["spec"]["containers"][0]["image"] = json!("mirror/i:1");
    assert_eq!(cluster.decide("a", 10).deployments.len(), 1);
    let live = cluster.deployments.get_mut("server").unwrap();
    live.kept = kept(&wanted, &live.object);
    assert_eq!(live.kept, ["spec.template.spec.containers[c].image"]);
    assert_eq!(cluster.decide("a", 10).deployments, []);
}

#[test]
fn deployments_that_are_no_objects_are_no_danger() {
    for spec in
        [json!(null), json!(1), json!({"template": []}), json!({"template": {"spec": {"containers": [1, null]}}})]
    {
        let mut cluster = installing();
        cluster.csv_mut("a").pointer_mut("/spec/install/spec/deployments/0").unwrap()["spec"] = spec;
        assert_eq!(cluster.decide("a", 10).deployments.len(), 1);
    }
}

fn csv_of(permissions: Value) -> ClusterServiceVersion {
    let mut csv = csv("a", "Succeeded", "x");
    csv["spec"]["install"]["spec"].as_object_mut().unwrap().extend(permissions.as_object().unwrap().clone());
    typed(csv)
}

#[test]
fn operator_condition_is_made_and_kept_without_what_others_write() {
    let accounts = json!({"permissions": [{"serviceAccountName": "s", "rules": []}],
        "clusterPermissions": [{"serviceAccountName": "r", "rules": []}, {"serviceAccountName": "s", "rules": []}]});
    let csv = csv_of(accounts);
    let object = condition::object(&csv, None).unwrap();
    assert_eq!(object["spec"], json!({"serviceAccounts": ["r", "s"], "deployments": ["server"]}));
    assert_eq!(object["metadata"]["ownerReferences"][0]["controller"], true);
    assert_eq!(object["metadata"]["labels"]["olm.managed"], "true");
    let plain = condition::object(&csv_of(json!({})), None).unwrap();
    assert_eq!(plain["spec"]["serviceAccounts"], json!(["default"]));
    let mut live = object;
    live["spec"]["overrides"] = json!([{"type": "Upgradeable", "status": "True", "reason": "R", "message": ""}]);
    assert_eq!(condition::object(&csv, Some(&typed(live.clone()))), None);
    live["spec"]["deployments"] = json!([]);
    live["metadata"]["resourceVersion"] = json!("4");
    live["metadata"]["ownerReferences"][0]["uid"] = json!("older");
    let patch = condition::object(&csv, Some(&typed(live))).unwrap();
    assert_eq!(patch["metadata"]["resourceVersion"], "4");
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "uid-a");
    let keys: Vec<&String> = patch["spec"].as_object().map(Map::keys).unwrap().collect();
    assert_eq!(keys, ["deployments", "serviceAccounts"]);
}

#[test]
fn operator_is_repeated_in_the_status_with_the_generation() {
    let said = |type_: &str, generation: Value| {
        json!({"type": type_, "status": "False", "reason": "R", "message": "m", "observedGeneration": generation,
            "lastTransitionTime": "2026-01-02T03:04:05Z"})
    };
    let object = |spec: Value, status: Value| -> OperatorCondition {
        typed(json!({"metadata": {"name": "a", "generation": 3}, "spec": {"conditions": spec},
            "status": {"conditions": status}}))
    };
    let (old, new) = (said("Upgradeable", json!(2)), said("Upgradeable", json!(3)));
    let after =
        condition::status(&object(json!([said("Upgradeable", Value::Null)]), json!([old, said("Other", json!(1))])));
    let expected = json!({"conditions": [said("Other", json!(1)), new]});
    assert_eq!(serde_json::to_value(after.unwrap()).unwrap(), expected);
    assert_eq!(condition::status(&object(json!([said("Upgradeable", Value::Null)]), json!([new]))), None);
    // Operators of the older version write the status themselves.
    assert_eq!(condition::status(&object(json!([]), json!([old]))), None);
}

#[test]
fn accounts_of_the_operator_may_write_its_condition_and_no_other() {
    let object: OperatorCondition = typed(json!({"metadata": {"name": "a", "namespace": "shop", "uid": "u"},
        "spec": {"serviceAccounts": ["s"]}}));
    let [role, binding] = condition::components(&object);
    let rules = json!([{"apiGroups": ["operators.coreos.com"], "resources": ["operatorconditions"], "resourceNames": ["a"],
        "verbs": ["get", "update", "patch"]}]);
    assert_eq!(role["rules"], rules);
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "s", "namespace": "shop"}]));
    assert_eq!(binding["roleRef"]["name"], "a");
    assert_eq!(role["metadata"]["ownerReferences"][0]["uid"], "u");
    assert_eq!(role["metadata"]["labels"], json!({"olm.managed": "true"}));
    assert_eq!(role["metadata"], binding["metadata"]);
    let writes = |live: &[&Value]| {
        let known = component::Known::new(live.iter().map(|it| Arc::new((*it).clone())));
        component::writes(condition::components(&object).into(), [], &known).unwrap()
    };
    assert!(writes(&[&role, &binding]).is_empty());
    // Of others, or with other content, they are made what they have to be.
    let mut other = role.clone();
    other["metadata"]["ownerReferences"] = json!([]);
    other["rules"] = json!([]);
    let [component::Write::Replace { object: written, fields, .. }] = &writes(&[&other, &binding])[..] else {
        panic!()
    };
    assert_eq!(*written, role);
    assert_eq!(*fields, ["metadata.ownerReferences[u]", "rules"]);
}
