//! What others write to the Deployment of an operator: what its version names is changed back, and all else stays.

use super::*;
use crate::object::writers;
use crate::olm::operator::deployment::Write;

const TEMPLATE: &str = "/spec/template/spec";
const CONTAINER: &str = "/spec/template/spec/containers/0";
/// Of the version.
const ENTRY: &str = "/spec/install/spec/deployments/0";

/// A version that installs, whose only container has this as well.
fn installing(container: &Value) -> Cluster {
    let mut csv = csv("a", "InstallReady", "x");
    merge(csv.pointer_mut(&format!("{ENTRY}{CONTAINER}")).unwrap(), container);
    Cluster::new([csv]).marked().deployed("a", ready())
}

impl Cluster {
    /// Others have changed the Deployment.
    fn changed(mut self, change: impl FnOnce(&mut Value)) -> Cluster {
        change(Arc::make_mut(&mut self.deployments.get_mut("server").unwrap().object));
        self
    }

    /// This manager has set these fields of the pods of the Deployment.
    fn written_by(mut self, manager: &str, fields: &Value) -> Cluster {
        let fields = json!({"f:spec": {"f:template": {"f:spec": fields}}});
        let entry =
            json!({"manager": manager, "operation": "Update", "time": "2026-01-02T03:04:05Z", "fieldsV1": fields});
        let live = self.deployments.get_mut("server").unwrap();
        let mut entries = live.writers.read();
        entries.push(entry);
        live.writers = writers::Text::of(&entries);
        self
    }

    /// The version is edited: another content is to be written.
    fn edited(mut self) -> Cluster {
        self.csv_mut("a").pointer_mut(&format!("{ENTRY}{CONTAINER}")).unwrap()["image"] = json!("i:2");
        self
    }

    /// What is written; `None` for nothing.
    fn written(&self) -> Option<Value> {
        match &self.decide("a", 10).deployments[..] {
            [] => None,
            [Write::Replace { object, .. }] => Some(object.clone()),
            other => panic!("{other:?}"),
        }
    }
}

/// Sidecars, volumes, variables and settings that a policy or an admission webhook adds.
#[test]
fn what_others_add_stays_also_when_something_else_is_changed_back() {
    let sidecar = json!({"name": "sidecar", "image": "mesh"});
    let additions: [(&str, &str, Value); 14] = [
        (TEMPLATE, "containers", json!([{"name": "c", "image": "i:1"}, sidecar])),
        (TEMPLATE, "initContainers", json!([sidecar])),
        (TEMPLATE, "volumes", json!([{"name": "ca", "emptyDir": {}}])),
        (TEMPLATE, "securityContext", json!({"runAsNonRoot": true})),
        (TEMPLATE, "affinity", json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}})),
        (TEMPLATE, "tolerations", json!([{"key": "a", "operator": "Exists"}])),
        (TEMPLATE, "dnsPolicy", json!("Default")),
        (TEMPLATE, "priorityClassName", json!("high")),
        ("/spec", "strategy", json!({"type": "Recreate"})),
        (CONTAINER, "livenessProbe", json!({"httpGet": {"port": 1}})),
        (CONTAINER, "resources", json!({"limits": {"cpu": "1"}, "requests": {"memory": "1Mi"}})),
        (CONTAINER, "volumeMounts", json!([{"name": "ca", "mountPath": "/ca"}])),
        (CONTAINER, "ports", json!([{"containerPort": 1, "protocol": "TCP"}])),
        (CONTAINER, "envFrom", json!([{"configMapRef": {"name": "more"}}])),
    ];
    for (place, key, value) in additions {
        let add = |object: &mut Value| match object.pointer_mut(place).unwrap().get_mut(key) {
            Some(containers) if key == "containers" => containers.as_array_mut().unwrap().push(sidecar.clone()),
            _ => object.pointer_mut(place).unwrap()[key] = value.clone(),
        };
        let cluster = installing(&json!({})).changed(add);
        assert_eq!(cluster.written(), None, "{key}");
        let cluster = cluster.changed(|object| object.pointer_mut(CONTAINER).unwrap()["image"] = json!("other"));
        let written = cluster.written().unwrap();
        assert_eq!(written.pointer(CONTAINER).unwrap()["image"], "i:1", "{key}");
        let kept = written.pointer(place).unwrap()[key].clone();
        match key {
            "containers" => assert_eq!(kept[1], sidecar),
            _ => assert_eq!(kept, value, "{key}"),
        }
    }
}

#[test]
fn lists_have_the_order_of_the_version_and_keep_what_others_add_between() {
    let named = |names: &[&str]| -> Value { names.iter().map(|name| json!({"name": name, "value": "1"})).collect() };
    let cluster = || installing(&json!({"env": named(&["A", "B"])}));
    let with = |names: &[&str]| {
        let env = named(names);
        cluster().changed(|object| {
            let all = object.pointer_mut(&format!("{CONTAINER}/env")).unwrap();
            let condition =
                all.as_array().unwrap().iter().find(|it| it["name"] == "OPERATOR_CONDITION_NAME").unwrap().clone();
            *all = env;
            all.as_array_mut().unwrap().push(condition);
        })
    };
    for names in [["X", "A", "B"], ["A", "X", "B"], ["A", "B", "X"]] {
        assert_eq!(with(&names).written(), None, "{names:?}");
    }
    let names = |cluster: Cluster| -> Vec<String> {
        let env = cluster.written().unwrap().pointer(&format!("{CONTAINER}/env")).unwrap().clone();
        env.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    // One that is named has been removed, or stands where it must not.
    assert_eq!(names(with(&["X", "B"])), ["A", "B", "OPERATOR_CONDITION_NAME", "X"]);
    assert_eq!(names(with(&["B", "X", "A"])), ["A", "B", "OPERATOR_CONDITION_NAME", "X"]);
}

/// Else nothing that a version once had would ever go.
#[test]
fn next_content_keeps_what_is_of_others_and_loses_what_was_written_before() {
    let manager = "operator-lifecycle-manager";
    let element = |name: &str, more: Value| {
        let mut all = json!({".": {}, "f:name": {}});
        merge(&mut all, &more);
        (format!("k:{}", json!({"name": name})), all)
    };
    let fields = |elements: Vec<(String, Value)>| Value::Object(elements.into_iter().collect());
    let env = |names: &[&str]| fields(names.iter().map(|it| element(it, json!({"f:value": {}}))).collect());
    let volume = |name: &str| fields(vec![element(name, json!({"f:emptyDir": {}}))]);
    let ours = json!({"f:nodeSelector": {}, "f:volumes": volume("old"), "f:affinity": {"f:nodeAffinity": {}}, "f:containers": fields(vec![
        element("c", json!({"f:image": {}, "f:args": {}, "f:env": env(&["OLD"])})), element("before", json!({}))])});
    let theirs = json!({"f:dnsPolicy": {}, "f:volumes": volume("mesh"), "f:affinity": {"f:podAffinity": {}}, "f:containers": fields(vec![
        element("sidecar", json!({"f:image": {}})),
        (format!("k:{}", json!({"name": "c"})), json!({"f:env": env(&["X"]), "f:resources": {"f:limits": {"f:cpu": {}}}}))])});
    let change = |object: &mut Value| {
        let pod = object.pointer_mut(TEMPLATE).unwrap();
        pod["dnsPolicy"] = json!("Default");
        pod["nodeSelector"] = json!({"old": "1"});
        pod["volumes"] = json!([{"name": "old", "emptyDir": {}}, {"name": "mesh", "emptyDir": {}}]);
        pod["affinity"] = json!({"nodeAffinity": {"a": 1}, "podAffinity": {"b": 2}});
        let containers = object.pointer_mut(&format!("{TEMPLATE}/containers")).unwrap().as_array_mut().unwrap();
        containers[0]["args"] = json!(["old"]);
        containers[0]["resources"] = json!({"limits": {"cpu": "1"}});
        let env = containers[0]["env"].as_array_mut().unwrap();
        env.extend([json!({"name": "OLD", "value": "1"}), json!({"name": "X", "value": "1"})]);
        containers.extend([json!({"name": "before", "image": "b"}), json!({"name": "sidecar", "image": "mesh"})]);
    };
    let cluster =
        installing(&json!({})).changed(change).written_by(manager, &ours).written_by("mesh", &theirs).edited();
    let written = cluster.written().unwrap();
    let pod = written.pointer(TEMPLATE).unwrap();
    let names = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let container = &pod["containers"][0];
    assert_eq!(names(&pod["containers"]), ["c", "sidecar"]);
    assert_eq!(names(&container["env"]), ["OPERATOR_CONDITION_NAME", "X"]);
    assert_eq!((&container["image"], &container["args"]), (&json!("i:2"), &Value::Null));
    assert_eq!((&container["resources"]["limits"]["cpu"], &pod["dnsPolicy"]), (&json!("1"), &json!("Default")));
    assert_eq!(names(&pod["volumes"]), ["mesh"]);
    assert_eq!((&pod["nodeSelector"], &pod["affinity"]), (&Value::Null, &json!({"podAffinity": {"b": 2}})));
}

/// An autoscaler of resources and a policy set other quantities than the version names.
#[test]
fn quantities_are_tuned_by_others_until_another_content_is_written() {
    let resources = json!({"resources": {"limits": {"memory": "64Mi"}, "requests": {"cpu": "100m", "memory": "32Mi"}}});
    let tuned = json!({"limits": {"memory": "512Mi", "cpu": "2"}, "requests": {"cpu": "250m", "memory": "32Mi"}});
    let set = |value: Value| move |object: &mut Value| object.pointer_mut(CONTAINER).unwrap()["resources"] = value;
    let of = |cluster: &Cluster| cluster.written().unwrap().pointer(CONTAINER).unwrap()["resources"].clone();
    assert_eq!(installing(&resources).changed(set(tuned.clone())).written(), None);
    // What is removed comes back, and what is tuned beside it stays.
    let removed = installing(&resources).changed(set(json!({"requests": {"cpu": "250m"}})));
    assert_eq!(of(&removed), json!({"limits": {"memory": "64Mi"}, "requests": {"cpu": "250m", "memory": "32Mi"}}));
    let edited = installing(&resources).changed(set(tuned)).edited();
    assert_eq!(of(&edited), resources["resources"]);
}

#[test]
fn who_has_changed_what_is_told() {
    let image = json!({"f:containers": {"k:{\"name\":\"c\"}": {"f:image": {}}}});
    let other = |object: &mut Value| object.pointer_mut(CONTAINER).unwrap()["image"] = json!("other");
    let mut cluster = installing(&json!({})).changed(other);
    cluster.csv_mut("a")["status"]["phase"] = json!("Succeeded");
    let field = "spec.template.spec.containers[c].image";
    let told = |cluster: &Cluster| cluster.step("a", 10);
    assert_eq!(told(&cluster), format!("InstallReady/InstallWaiting: installing: deployment server changed: {field}"));
    let cluster = cluster.written_by("operator-lifecycle-manager", &json!({})).written_by("policy", &image);
    assert_eq!(
        told(&cluster),
        format!("InstallReady/InstallWaiting: installing: deployment server changed: {field} (by policy)")
    );
    let [Write::Replace { change, .. }] = &cluster.changed_back()[..] else { panic!("it is changed back") };
    assert_eq!(
        change.contest("shop", "server"),
        format!(
            "Deployment shop/server: {field}: changed again and again by policy. The ClusterServiceVersion names it, so that it is \
             changed back, each time later: let policy leave it alone, or change it in the ClusterServiceVersion"
        )
    );
}

/// Both are written by the same manager, so that managedFields do not name the other one.
#[test]
fn other_version_that_names_the_same_deployment_is_named() {
    let other = |object: &mut Value| {
        object.pointer_mut(CONTAINER).unwrap()["image"] = json!("other");
        object["metadata"]["labels"]["olm.owner"] = json!("b.v2");
    };
    let cluster = installing(&json!({})).changed(other);
    let [Write::Replace { change, .. }] = &cluster.changed_back()[..] else { panic!("it is changed back") };
    let note = change.contest("shop", "server");
    assert!(note.contains("changed again and again by ClusterServiceVersion b.v2."), "{note}");
}

impl Cluster {
    /// What is written once it is installed again.
    fn changed_back(mut self) -> Vec<Write> {
        self.csv_mut("a")["status"]["phase"] = json!("InstallReady");
        self.decide("a", 10).deployments
    }
}
