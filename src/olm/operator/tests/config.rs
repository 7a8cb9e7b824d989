use super::*;
use crate::olm::operator::deployment::Write;

const CONTAINER: &str = "/spec/install/spec/deployments/0/spec/template/spec/containers/0";

fn subscriber(name: &str, current: &str, installed: &str, config: Value) -> Subscriber {
    let config = (!config.is_null()).then(|| typed(config));
    Subscriber {
        name: name.into(),
        package: String::new(),
        current_csv: current.into(),
        installed_csv: installed.into(),
        config,
    }
}

/// One that is to be installed, as its Subscription configures it.
fn configured(config: Value) -> Cluster {
    let mut cluster = Cluster::new([csv("a", "InstallReady", "x")]).marked();
    cluster.subscribers = vec![subscriber("s", "a", "", config)];
    cluster
}

/// The Deployment that is created.
fn created(cluster: &Cluster) -> Value {
    let [Write::Create { object, .. }] = &cluster.decide("a", 10).deployments[..] else { panic!("it is created") };
    object.clone()
}

fn pod(object: &Value) -> &Value {
    &object["spec"]["template"]["spec"]
}

#[test]
fn variables_replace_those_of_the_same_name_and_the_rest_is_added() {
    let mut cluster = configured(json!({"env": [{"name": "A", "value": "new"}, {"name": "B", "value": "2"}],
        "envFrom": [{"secretRef": {"name": "known"}}, {"configMapRef": {"name": "more"}}]}));
    let container = cluster.csv_mut("a").pointer_mut(CONTAINER).unwrap();
    container["env"] = json!([{"name": "A", "value": "old"}, {"name": "C", "value": "3"}]);
    container["envFrom"] = json!([{"secretRef": {"name": "known"}}]);
    let object = created(&cluster);
    let container = &pod(&object)["containers"][0];
    let expected = json!([{"name": "A", "value": "new"}, {"name": "C", "value": "3"}, {"name": "B", "value": "2"},
        {"name": "OPERATOR_CONDITION_NAME", "value": "a"}]);
    assert_eq!(container["env"], expected);
    assert_eq!(container["envFrom"], json!([{"secretRef": {"name": "known"}}, {"configMapRef": {"name": "more"}}]));
}

#[test]
fn volumes_mounts_and_resources_replace_and_tolerations_are_added() {
    let tolerated = json!({"key": "infra", "operator": "Exists"});
    let mut cluster = configured(json!({
        "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}],
        "volumeMounts": [{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}],
        "resources": {"limits": {"memory": "1Gi"}}, "nodeSelector": {"infra": ""}, "tolerations": [tolerated]}));
    let template = "/spec/install/spec/deployments/0/spec/template/spec";
    let spec = cluster.csv_mut("a").pointer_mut(template).unwrap();
    spec["volumes"] = json!([{"name": "v", "secret": {"secretName": "s"}}]);
    spec["nodeSelector"] = json!({"own": ""});
    spec["tolerations"] = json!([{"key": "own"}]);
    spec["containers"] = json!([
        {"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/old"}], "resources": {"requests": {"cpu": "1"}}},
        {"name": "d"}]);
    let object = created(&cluster);
    let pod = pod(&object);
    assert_eq!(pod["volumes"], json!([{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]));
    let mounts = json!([{"name": "v", "mountPath": "/new"}, {"name": "w", "mountPath": "/w"}]);
    for container in pod["containers"].as_array().unwrap() {
        assert_eq!(container["volumeMounts"], mounts);
        assert_eq!(container["resources"], json!({"limits": {"memory": "1Gi"}}));
    }
    assert_eq!(pod["nodeSelector"], json!({"infra": ""}));
    assert_eq!(pod["tolerations"], json!([{"key": "own"}, tolerated]));
}

#[test]
fn each_part_of_the_affinity_is_replaced_removed_or_kept() {
    let (own, other) = (json!({"own": 1}), json!({"other": 1}));
    for (said, expected) in [
        (json!({"nodeAffinity": other}), json!({"nodeAffinity": other, "podAntiAffinity": own})),
        (json!({"podAntiAffinity": {}}), json!({"nodeAffinity": own})),
        (
            json!({"podAffinity": other, "podAntiAffinity": null}),
            json!({"nodeAffinity": own, "podAffinity": other, "podAntiAffinity": own}),
        ),
        (json!({}), json!({"nodeAffinity": own, "podAntiAffinity": own})),
    ] {
        let mut cluster = configured(json!({"affinity": said}));
        let template = "/spec/install/spec/deployments/0/spec/template/spec";
        cluster.csv_mut("a").pointer_mut(template).unwrap()["affinity"] =
            json!({"nodeAffinity": own, "podAntiAffinity": own});
        assert_eq!(pod(&created(&cluster))["affinity"], expected, "{said}");
    }
    let bare = configured(json!({"affinity": {"podAffinity": other, "podAntiAffinity": {}}}));
    assert_eq!(pod(&created(&bare))["affinity"], json!({"podAffinity": other}));
}

#[test]
fn annotations_are_added_to_deployment_and_pods_and_never_replace() {
    let mut cluster = configured(json!({"annotations": {"own": "no", "from": "subscription", "of-csv": "no"}}));
    cluster.csv_mut("a")["metadata"]["annotations"]["of-csv"] = json!("yes");
    let object = created(&cluster);
    let pods = &object["spec"]["template"]["metadata"]["annotations"];
    assert_eq!([&pods["own"], &pods["of-csv"], &pods["from"]], ["kept", "yes", "subscription"]);
    assert_eq!(object["metadata"]["annotations"]["from"], "subscription");
}

#[test]
fn proxy_of_the_cluster_reaches_pods_unless_the_subscription_says_anything_of_it() {
    let mut cluster = configured(json!({"env": [{"name": "X", "value": "1"}]}));
    cluster.proxy = Proxy { http: "http://p".into(), https: String::new(), none: ".svc".into() };
    let names = |cluster: &Cluster| {
        let object = created(cluster);
        let variables = pod(&object)["containers"][0]["env"].as_array().unwrap().clone();
        let text = |it: &Value| format!("{}={}", it["name"].as_str().unwrap(), it["value"].as_str().unwrap());
        variables.iter().map(text).collect::<Vec<_>>()
    };
    let condition = "OPERATOR_CONDITION_NAME=a".to_owned();
    assert_eq!(names(&cluster), ["HTTP_PROXY=http://p", "NO_PROXY=.svc", "X=1", &condition]);
    cluster.subscribers = vec![subscriber("s", "a", "", json!({"env": [{"name": "HTTPS_PROXY", "value": ""}]}))];
    assert_eq!(names(&cluster), ["HTTPS_PROXY=", &condition]);
    // Those who came without a Subscription have it too.
    cluster.subscribers.clear();
    assert_eq!(names(&cluster), ["HTTP_PROXY=http://p", "NO_PROXY=.svc", &condition]);
}

#[test]
fn subscription_that_has_it_installed_comes_before_one_that_has_chosen_it() {
    let config = |value: &str| json!({"nodeSelector": {"by": value}});
    let mut cluster = configured(Value::Null);
    let by = |cluster: &Cluster| pod(&created(cluster))["nodeSelector"]["by"].clone();
    cluster.subscribers = vec![
        subscriber("z", "a", "before", config("z")),
        subscriber("b", "a", "", config("b")),
        subscriber("other", "c", "before", config("other")),
    ];
    assert_eq!(by(&cluster), "b", "the first deployment of a version has it already");
    cluster.subscribers.push(subscriber("y", "next", "a", config("y")));
    assert_eq!(by(&cluster), "y");
}

#[test]
fn deployment_is_rolled_when_the_config_changes_and_not_when_its_subscription_goes() {
    let config = json!({"env": [{"name": "X", "value": "1"}], "nodeSelector": {"infra": ""}});
    let mut cluster = Cluster::new([csv("a", "Succeeded", "x")]).marked();
    cluster.subscribers = vec![subscriber("s", "a", "a", config)];
    let mut cluster = cluster.deployed("a", ready());
    let quiet = |cluster: &Cluster| cluster.step("a", 10).is_empty() && cluster.decide("a", 10).deployments.is_empty();
    assert!(quiet(&cluster), "it is as it has to be");
    let with = std::mem::take(&mut cluster.subscribers);
    assert!(quiet(&cluster), "what the deployment remembers counts");
    cluster.subscribers = vec![subscriber("s", "a", "a", json!({"nodeSelector": {"infra": ""}}))];
    let told = cluster.step("a", 10);
    assert!(told.starts_with("InstallReady/InstallWaiting: installing: deployment server changed"), "{told}");
    // A Subscription without any is not the same as none.
    cluster.subscribers = vec![subscriber("s", "a", "a", Value::Null)];
    assert!(!quiet(&cluster));
    // What another version was given is nothing to this one.
    cluster.subscribers = with;
    let mut object = (*cluster.deployments["server"].object).clone();
    object["metadata"]["ownerReferences"][0]["uid"] = json!("uid-before");
    cluster.deployments.insert("server".into(), Live { object: Arc::new(object), ..Live::default() });
    cluster.subscribers.clear();
    assert!(cluster.step("a", 10).contains("env"), "{}", cluster.step("a", 10));
}

#[test]
fn deployment_that_does_not_remember_yet_is_not_written_for_that_alone() {
    let mut cluster = Cluster::new([csv("a", "Succeeded", "x")]).marked();
    cluster.subscribers = vec![subscriber("s", "a", "a", json!({"nodeSelector": {"infra": ""}}))];
    let mut cluster = cluster.deployed("a", ready());
    let mut object = (*cluster.deployments["server"].object).clone();
    object["metadata"]["annotations"] = json!({});
    cluster.deployments.insert("server".into(), Live { object: Arc::new(object), ..Live::default() });
    assert_eq!(cluster.step("a", 10), "");
    assert!(cluster.decide("a", 10).deployments.is_empty());
}

#[test]
fn each_deployment_of_a_version_is_configured() {
    let mut cluster = configured(json!({"env": [{"name": "X", "value": "1"}], "nodeSelector": {"infra": ""},
        "annotations": {"from": "subscription"}}));
    let deployments = cluster.csv_mut("a").pointer_mut("/spec/install/spec/deployments").unwrap();
    deployments.as_array_mut().unwrap().push(entry("helper"));
    let decision = cluster.decide("a", 10);
    let names: Vec<&str> = decision.deployments.iter().map(Write::name).collect();
    assert_eq!(names, ["server", "helper"]);
    for object in decision.deployments.iter().filter_map(Write::object) {
        let env = json!([{"name": "X", "value": "1"}, {"name": "OPERATOR_CONDITION_NAME", "value": "a"}]);
        assert_eq!(pod(object)["containers"][0]["env"], env);
        assert_eq!(pod(object)["nodeSelector"], json!({"infra": ""}));
        assert_eq!(object["metadata"]["annotations"]["from"], "subscription");
    }
}
