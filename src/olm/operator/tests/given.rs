use super::*;
use crate::olm::operator::component::Write;

const RBAC: &str = "rbac.authorization.k8s.io";

/// An object that belongs to the operator, as its plan makes it.
fn owned(kind: &str, content: Value) -> Value {
    let mut object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": kind, "metadata": {
        "name": "a-server", "namespace": "shop", "uid": format!("uid-{kind}"), "resourceVersion": "1",
        "labels": {"olm.managed": "true", "olm.owner": "a", "olm.owner.namespace": "shop", "olm.owner.kind": "ClusterServiceVersion"},
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": "a", "uid": "uid-a"}],
    }});
    if kind == "Role" {
        object["metadata"]["labels"]["olm.operatorframework.io/for-targets"] = json!("true");
    }
    merge(&mut object, &content);
    object
}

fn binding() -> Value {
    let subject = json!({"kind": "ServiceAccount", "name": "server", "namespace": "shop"});
    let role = json!({"apiGroup": RBAC, "kind": "Role", "name": "a-server"});
    owned("RoleBinding", json!({"roleRef": role, "subjects": [subject]}))
}

/// A version that needs to read config maps, and may in its own namespace, with the targets of its group.
fn cluster(targets: &[&str], phase: &str) -> Cluster {
    let mut version = csv("a", phase, "InstallSucceeded");
    let needed = rule(&["get"], &["configmaps"]);
    version["spec"]["install"]["spec"]["permissions"] = json!([{"serviceAccountName": "server", "rules": [needed]}]);
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    version["spec"]["installModes"] = modes.map(|mode| json!({"type": mode, "supported": true})).into();
    let mut cluster = Cluster::new([version]);
    cluster.groups[0]["spec"] = if targets == ["*"] { json!({}) } else { json!({"targetNamespaces": targets}) };
    cluster.namespaces = vec!["mall", "park"];
    cluster.rules = vec![("shop", needed.clone())];
    cluster.accounts.insert(("shop".into(), "server".into()), Account::default());
    cluster.components = vec![owned("Role", json!({"rules": [needed]})), binding()];
    cluster.marked().deployed("a", ready())
}

/// With a copy of it in each of these.
fn copied(mut cluster: Cluster, namespaces: &[&str]) -> Cluster {
    cluster.copies = namespaces.iter().map(|name| ((*name).to_owned(), format!("copy-{name}"))).collect();
    cluster
}

fn told(write: &Write) -> String {
    match write {
        Write::Create { id, .. } => format!("create {id}"),
        Write::Replace { id, fields, .. } => format!("change {id}: {}", fields.join(" ")),
        Write::Delete { id, .. } => format!("delete {id}"),
    }
}

fn writes(cluster: &Cluster) -> Vec<String> {
    cluster.decide("a", 10).components.iter().map(told).collect()
}

/// What is created is there from now on.
fn written(cluster: &mut Cluster) {
    for write in cluster.decide("a", 10).components {
        if let Write::Create { mut object, .. } = write {
            merge(&mut object["metadata"], &json!({"uid": "uid-new", "resourceVersion": "2"}));
            cluster.components.push(object);
        }
    }
}

const READY: &str = "InstallReady/AllRequirementsMet: all requirements found, attempting install";

#[test]
fn roles_are_in_each_target_that_exists_before_the_operator_runs() {
    let mut cluster = copied(cluster(&["shop", "mall", "park", "gone"], "Pending"), &["mall"]);
    // The copy of the version owns them, so that they come after it.
    assert_eq!(writes(&cluster), ["create Role mall/a-server"]);
    assert_eq!(cluster.step("a", 10), "");
    written(&mut cluster);
    assert_eq!(writes(&cluster), ["create RoleBinding mall/a-server"]);
    written(&mut cluster);
    assert_eq!((writes(&cluster), cluster.step("a", 10).as_str()), (vec![], ""));
    let mut cluster = copied(cluster, &["mall", "park"]);
    written(&mut cluster);
    written(&mut cluster);
    assert_eq!((writes(&cluster), cluster.step("a", 10).as_str()), (vec![], READY));

    let role = &cluster.components[2];
    let labels = json!({"olm.managed": "true", "olm.owner": "a", "olm.owner.namespace": "mall", "olm.owner.kind": "ClusterServiceVersion",
        "olm.copiedFrom": "shop"});
    assert_eq!((&role["metadata"]["labels"], &role["rules"]), (&labels, &cluster.components[0]["rules"]));
    assert_eq!(role["metadata"]["ownerReferences"][0]["uid"], "copy-mall");
    let binding = &cluster.components[3];
    assert_eq!(binding["subjects"], json!([{"kind": "ServiceAccount", "name": "server", "namespace": "shop"}]));
    assert_eq!(binding["roleRef"], json!({"apiGroup": RBAC, "kind": "Role", "name": "a-server"}));

    // What is there stays where the copies are not known yet.
    let known = std::mem::take(&mut cluster.copies);
    assert_eq!((writes(&cluster), cluster.step("a", 10).as_str()), (vec![], ""));
    cluster.copies = known;

    // A target is lost, and somebody changes what is in another one.
    cluster.groups[0]["spec"] = json!({"targetNamespaces": ["shop", "park"]});
    cluster.components[4]["rules"] = json!([rule(&["*"], &["*"])]);
    let cluster = cluster.marked();
    let expected = [
        "change Role park/a-server: rules[0].resources[0] rules[0].verbs[0]",
        "delete Role mall/a-server",
        "delete RoleBinding mall/a-server",
    ];
    assert_eq!(writes(&cluster), expected);
}

#[test]
fn operator_that_cannot_have_a_copy_in_a_target_says_so() {
    let mut cluster = copied(cluster(&["shop", "mall", "park"], "Pending"), &["mall"]);
    written(&mut cluster);
    written(&mut cluster);
    assert_eq!(cluster.step("a", 10), "", "the copy may come yet");
    cluster.taken.insert("park".to_owned());
    assert_eq!(
        cluster.step("a", 10),
        "Pending/RequirementsNotMet: its rights in namespace park belong to a copy of this ClusterServiceVersion, and there is another \
         one of the same name: delete that, or let the OperatorGroups of both select other namespaces"
    );
    // Where others have given the rights, nothing is waited for.
    cluster.rules.push(("park", rule(&["get"], &["configmaps"])));
    assert_eq!(cluster.step("a", 10), READY);
    // One that runs goes on.
    cluster.rules.pop();
    cluster.csv_mut("a")["status"]["phase"] = json!("Succeeded");
    assert_eq!(cluster.step("a", 10), "");
}

#[test]
fn new_target_does_not_stop_what_runs() {
    let cluster = copied(cluster(&["shop", "mall"], "Succeeded"), &["mall"]);
    assert_eq!((writes(&cluster), cluster.step("a", 10).as_str()), (vec!["create Role mall/a-server".to_owned()], ""));
}

#[test]
fn operator_for_all_namespaces_has_its_roles_for_all_of_them_and_sees_which_there_are() {
    let mut cluster = cluster(&["*"], "Pending");
    assert_eq!(
        (writes(&cluster), cluster.step("a", 10).as_str()),
        (vec!["create ClusterRole a-server".to_owned()], "")
    );
    written(&mut cluster);
    assert_eq!(writes(&cluster), ["create ClusterRoleBinding a-server"]);
    written(&mut cluster);
    assert_eq!((writes(&cluster), cluster.step("a", 10).as_str()), (vec![], READY));
    let (role, binding) = (&cluster.components[2], &cluster.components[3]);
    let sees = rule(&["get", "list", "watch"], &["namespaces"]);
    assert_eq!(role["rules"], json!([rule(&["get"], &["configmaps"]), sees]));
    assert_eq!(role["metadata"].get("ownerReferences"), None, "they would be collected at once");
    assert_eq!(role["metadata"]["labels"]["olm.owner.namespace"], "shop");
    assert_eq!(binding["roleRef"]["kind"], "ClusterRole");
    // From now on it is for its own namespace alone.
    cluster.groups[0]["spec"] = json!({"targetNamespaces": ["shop"]});
    let cluster = cluster.marked();
    assert_eq!(writes(&cluster), ["delete ClusterRole a-server", "delete ClusterRoleBinding a-server"]);
}

#[test]
fn access_that_others_have_given_is_enough() {
    let mut cluster = copied(cluster(&["shop", "mall"], "Pending"), &["mall"]);
    cluster.rules.push(("mall", rule(&["get"], &["configmaps"])));
    assert_eq!((writes(&cluster), cluster.step("a", 10).as_str()), (vec![], READY));
    let mut cluster = self::cluster(&["*"], "Pending");
    cluster.rules.push(("", rule(&["get"], &["configmaps"])));
    assert_eq!((writes(&cluster), cluster.step("a", 10).as_str()), (vec![], READY));
}

/// Who may write Roles in the namespace of an operator gives nothing away in others by that.
#[test]
fn only_what_the_version_asks_for_and_owns_goes_to_other_namespaces() {
    let stranger = json!({"kind": "User", "apiGroup": RBAC, "name": "eve"});
    type Change = Box<dyn Fn(&mut Cluster)>;
    let cases: [(&str, Change); 4] = [
        ("more rules", Box::new(|it| it.components[0]["rules"] = json!([rule(&["*"], &["*"])]))),
        ("another owner", Box::new(|it| it.components[0]["metadata"]["ownerReferences"][0]["uid"] = json!("uid-b"))),
        ("no owner", Box::new(|it| it.components[1]["metadata"]["ownerReferences"] = json!([]))),
        ("another subject", Box::new(move |it| it.components[1]["subjects"] = json!([stranger]))),
    ];
    for (what, change) in cases {
        for targets in [vec!["shop", "mall"], vec!["*"]] {
            let mut cluster = copied(cluster(&targets, "Succeeded"), &["mall"]);
            change(&mut cluster);
            assert_eq!(writes(&cluster), Vec::<String>::new(), "{what} {targets:?}");
        }
    }
    // Another subject beside the account gets nothing.
    let mut cluster = copied(cluster(&["shop", "mall"], "Succeeded"), &["mall"]);
    cluster.components[1]["subjects"].as_array_mut().unwrap().push(json!({"kind": "User", "name": "eve"}));
    written(&mut cluster);
    written(&mut cluster);
    assert_eq!(cluster.components[3]["subjects"].as_array().unwrap().len(), 1);
}

#[test]
fn rights_by_hand_are_needed_in_each_target_or_for_all_of_them() {
    let lacking = |targets: &[&str], given: &[&'static str]| {
        let mut cluster = copied(cluster(targets, "Pending"), &["mall"]);
        cluster.components.clear();
        cluster.rules = given.iter().map(|at| (*at, rule(&["get"], &["configmaps"]))).collect();
        assert_eq!(writes(&cluster), Vec::<String>::new());
        let (states, status) = cluster.decide("a", 10).status.unwrap();
        let line = &status.requirement_status[0];
        let scope = line.dependents[0].message.split(':').next().unwrap().to_owned();
        (states.first().map(|it| it.reason).unwrap_or_default(), line.message.clone(), scope)
    };
    let met = "AllRequirementsMet";
    let of = |reason, message: &str, scope: &str| (reason, message.to_owned(), scope.to_owned());
    let (none, unmet) = ("Policy rule not satisfied for service account", "RequirementsNotMet");
    let in_mall = format!("{none} in namespace mall");
    assert_eq!(lacking(&["shop", "mall"], &["shop"]), of(unmet, &in_mall, "namespaced rule"));
    assert_eq!(lacking(&["shop", "mall"], &["shop", "mall"]), of(met, "", "namespaced rule"));
    assert_eq!(lacking(&["shop"], &["mall"]), of(unmet, none, "namespaced rule"));
    assert_eq!(lacking(&["*"], &["shop", "mall", "park"]), of(unmet, none, "cluster rule"));
    assert_eq!(lacking(&["*"], &[""]), of(met, "", "cluster rule"));
    // A namespace that does not exist yet needs nothing.
    assert_eq!(lacking(&["shop", "later"], &["shop"]), of(met, "", "namespaced rule"));
}

/// Who may write Roles in the namespace of the group alone must gain nothing elsewhere.
#[test]
fn role_that_no_plan_has_given_stays_in_its_namespace_unless_it_is_given_everywhere_already() {
    let label = "olm.operatorframework.io/for-targets";
    let mut cluster = cluster(&["*"], "Pending");
    assert_eq!(writes(&cluster), ["create ClusterRole a-server"]);
    cluster.components[0]["metadata"]["labels"].as_object_mut().unwrap().remove(label);
    assert_eq!(writes(&cluster), [""; 0]);
    assert!(cluster.step("a", 10).contains("RequirementsNotMet"), "{}", cluster.step("a", 10));
    // Another implementation has given it, which did not mark what it had made.
    cluster.components[0]["metadata"]["labels"][label] = json!("true");
    written(&mut cluster);
    written(&mut cluster);
    cluster.components[0]["metadata"]["labels"].as_object_mut().unwrap().remove(label);
    assert_eq!(writes(&cluster), [""; 0], "it stays as it is");
}

/// Copies in target namespaces may be thousands, and are no components; what is given for all namespaces is one.
#[test]
fn rights_for_all_namespaces_are_a_component_and_those_of_each_target_are_not() {
    const KEY: &str = "operators.coreos.com/etcd.shop";
    let labelled = |targets: &[&str]| {
        let mut cluster = copied(cluster(targets, "Succeeded"), &["mall"]);
        cluster.csv_mut("a")["metadata"]["labels"] = json!({KEY: ""});
        cluster.marked()
    };
    for (targets, is_component) in [(&["shop", "mall"][..], false), (&["*"][..], true)] {
        let mut cluster = labelled(targets);
        let written = cluster.decide("a", 20).components;
        let role = written.iter().filter_map(Write::object).find(|it| it["kind"].as_str().unwrap().ends_with("Role"));
        let labels = &role.unwrap()["metadata"]["labels"];
        assert_eq!(labels.get(KEY).is_some(), is_component, "{labels}");
        // One that was made before there were such labels is not written again.
        for mut object in written.iter().filter_map(Write::object).cloned().collect::<Vec<_>>() {
            object["metadata"]["labels"].as_object_mut().unwrap().remove(KEY);
            object["metadata"]["uid"] = json!("u");
            cluster.components.push(object);
        }
        let left: Vec<String> = cluster.decide("a", 20).components.iter().map(told).collect();
        assert!(left.iter().all(|it| it.contains("Binding")), "{left:?}");
    }
}
