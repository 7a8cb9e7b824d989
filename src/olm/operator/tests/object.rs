//! Operator objects: which labels components have, what is named, and when an object comes and goes.

use super::*;
use crate::olm::api::cluster_service_version::ClusterServiceVersionStatus;
use crate::olm::api::operator::OperatorStatus;
use crate::olm::operator::component::Write as ComponentWrite;
use crate::olm::operator::deployment::Write as DeploymentWrite;
use crate::olm::operator::object::{
    Found, Id, Kind, Live as Known, Membership, Owners, Write, conditions, fingerprint, phase, writes,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

const KEY: &str = "operators.coreos.com/etcd.shop";
const NAME: &str = "etcd.shop";

fn metadata(content: Value) -> ObjectMeta {
    typed(content)
}

fn labelled() -> Arc<Membership> {
    Membership::of(&metadata(json!({"labels": {KEY: ""}})), Vec::new).unwrap()
}

fn id(kind: Kind, namespace: &str, name: &str) -> Id {
    Id { kind, namespace: namespace.to_owned(), name: name.to_owned() }
}

fn found(ids: &[Id]) -> Found {
    let mut found = Found::default();
    ids.iter().for_each(|id| found.add(id, &labelled()));
    found
}

fn subscribed(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn none() -> BTreeMap<String, Known> {
    BTreeMap::new()
}

fn live(known: Known) -> BTreeMap<String, Known> {
    [(NAME.to_owned(), known)].into()
}

/// What is written of the object of the test, if it says something else.
fn status(found: &Found) -> OperatorStatus {
    match writes(found, &subscribed(&[NAME]), &live(Known::default())).remove(NAME) {
        Some(Write::Status(status)) => status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn kinds_are_in_the_order_of_their_names() {
    let names: Vec<&str> = Kind::ALL.iter().map(|kind| kind.names().1).collect();
    assert!(names.is_sorted() && Kind::ALL.is_sorted(), "{names:?}");
}

#[test]
fn status_selects_by_the_label_and_names_components_by_kind_namespace_and_name() {
    let ids = [
        id(Kind::Subscription, "shop", "etcd"),
        id(Kind::Deployment, "shop", "b"),
        id(Kind::Deployment, "mall", "z"),
        id(Kind::Deployment, "shop", "a"),
        id(Kind::CustomResourceDefinition, "", "etcds.example.com"),
    ];
    let refs = [
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "name": "etcds.example.com"}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "mall", "name": "z"}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "a"}),
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "namespace": "shop", "name": "b"}),
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription", "namespace": "shop", "name": "etcd"}),
    ];
    let expected = json!({"components": {"labelSelector": {"matchExpressions": [{"key": KEY, "operator": "Exists"}]},
        "refs": refs}});
    assert_eq!(json!(status(&found(&ids))), expected);
    let empty = json!({"components": {"labelSelector": {"matchExpressions": [{"key": KEY, "operator": "Exists"}]}}});
    assert_eq!(json!(status(&Found::default())), empty);
}

#[test]
fn status_that_has_been_written_is_not_written_again_and_another_one_is() {
    let found = |name: &str| found(&[id(Kind::Secret, "shop", name)]);
    let known = live(Known { status: fingerprint(&status(&found("a"))), ..Known::default() });
    // As the API server gives it back.
    let again: OperatorStatus = typed(json!(status(&found("a"))));
    assert_eq!(known[NAME].status, fingerprint(&again));
    assert_eq!(writes(&found("a"), &subscribed(&[NAME]), &known), BTreeMap::new());
    assert!(matches!(writes(&found("b"), &subscribed(&[NAME]), &known)[NAME], Write::Status(_)));
}

#[test]
fn condition_of_a_version_is_its_phase() {
    let said: ClusterServiceVersionStatus = typed(json!({"phase": "Succeeded", "reason": "InstallSucceeded",
        "message": "all is well", "lastUpdateTime": at(2).to_string(), "lastTransitionTime": at(1).to_string(),
        "conditions": [{"phase": "Pending", "reason": "RequirementsUnknown"}]}));
    let expected = json!([{"type": "Succeeded", "status": "True", "reason": "InstallSucceeded", "message": "all is well",
        "lastUpdateTime": "1970-01-01T00:02:00Z", "lastTransitionTime": "1970-01-01T00:01:00Z"}]);
    assert_eq!(json!(phase(Some(&said))), expected);
    assert_eq!(phase(Some(&ClusterServiceVersionStatus::default())), Vec::new());
    assert_eq!(phase(None), Vec::new());
}

#[test]
fn conditions_without_their_form_are_left_out() {
    let fine = json!({"type": "Available", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"});
    let odd = [json!(7), json!({"type": "A"}), json!({"type": "A", "status": 1}), json!({"status": "True"})];
    let all: Vec<Value> = odd.into_iter().chain([fine.clone()]).collect();
    assert_eq!(json!(conditions(Some(&json!({"conditions": all})))), json!([fine]));
    for status in [json!(null), json!({}), json!({"conditions": "x"}), json!([])] {
        assert_eq!(conditions(Some(&status)), Vec::new(), "{status}");
    }
}

#[test]
fn status_stays_small_enough_for_the_api_server_however_much_is_labelled() {
    let ids: Vec<Id> = (0..20_000).map(|number| id(Kind::ConfigMap, "shop", &format!("map-{number:05}"))).collect();
    let status = status(&found(&ids));
    assert!(json!(status).to_string().len() < 1_100_000);
    let refs = status.components.unwrap().refs;
    assert!(refs.len() > 5_000, "{}", refs.len());
    assert_eq!(refs[0].reference.name.as_deref(), Some("map-00000"));
}

#[test]
fn object_comes_with_a_subscription_or_a_component_and_goes_with_the_last_one() {
    let one = || found(&[id(Kind::ClusterServiceVersion, "shop", "etcd.v1")]);
    let created = |found: Found, names: &[&str]| writes(&found, &subscribed(names), &none());
    let create = || BTreeMap::from([(NAME.to_owned(), Write::Create)]);
    assert_eq!(created(Found::default(), &[NAME]), create(), "a Subscription");
    assert_eq!(created(one(), &[]), create(), "a component that is left");
    assert_eq!(created(Found::default(), &[]), BTreeMap::new());
    let gone = |known: Known| writes(&Found::default(), &subscribed(&[]), &live(known)).remove(NAME);
    assert_eq!(gone(Known { is_made: true, ..Known::default() }), Some(Write::Delete));
    assert_eq!(
        gone(Known { has_components: true, ..Known::default() }),
        Some(Write::Delete),
        "of another implementation"
    );
    assert!(matches!(gone(Known::default()), Some(Write::Status(_))), "somebody has written it and labels nothing yet");
    assert_eq!(gone(Known { is_made: true, is_deleted: true, ..Known::default() }), None);
    let kept = writes(&one(), &subscribed(&[]), &live(Known { is_made: true, ..Known::default() }));
    assert!(matches!(kept[NAME], Write::Status(_)));
}

#[test]
fn names_that_are_cut_in_a_key_are_found_by_subscriptions_and_objects() {
    let long = format!("{}.shop", "p".repeat(70));
    let key = crate::olm::components::key_of(&long).unwrap();
    let mut found = Found::default();
    let member = Membership::of(&metadata(json!({"labels": {key.clone(): ""}})), Vec::new).unwrap();
    found.add(&id(Kind::Secret, "shop", "s"), &member);
    let names = |names: &[&str], live| writes(&found, &subscribed(names), &live).into_keys().collect::<Vec<_>>();
    let found_by = [names(&[&long], none()), names(&[], [(long.clone(), Known::default())].into())];
    assert_eq!(found_by, [vec![long.clone()], vec![long]]);
    assert_eq!(names(&[], none()), ["p".repeat(63)], "what is left of it");
    // No object can have such a name, and nobody tries again and again to make one.
    assert_eq!(writes(&Found::default(), &subscribed(&["Etcd_1.shop", "ä.shop"]), &none()), BTreeMap::new());
}

/// What a ClusterServiceVersion owns, as references and labels say it.
#[test]
fn what_belongs_to_a_version_lacks_its_labels_until_it_has_them() {
    let mut owners = Owners::default();
    owners.add(&metadata(
        json!({"name": "etcd.v1", "namespace": "shop", "uid": "u1", "labels": {KEY: "", "other": "x"}}),
    ));
    owners.add(&metadata(json!({"name": "etcd.v0", "namespace": "shop", "uid": "u0", "labels": {KEY: ""},
        "deletionTimestamp": "2026-01-02T03:04:05Z"})));
    owners.add(&metadata(json!({"name": "plain", "namespace": "shop", "uid": "u2"})));
    let owner = |uid: &str| {
        json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "name": "etcd.v1", "uid": uid}])
    };
    let labels = |namespace: &str| {
        json!({"olm.owner": "etcd.v1", "olm.owner.namespace": namespace,
        "olm.owner.kind": "ClusterServiceVersion"})
    };
    let alongside = |csv: &str| json!({"operatorframework.io/installed-alongside-1": csv});
    let mut copied = labels("shop");
    copied["olm.copiedFrom"] = json!("shop");
    let mut has = labels("shop");
    has[KEY] = json!("");
    let cases = [
        (json!({"ownerReferences": owner("u1")}), true),
        (json!({"labels": labels("shop")}), true),
        (json!({"annotations": alongside("shop/etcd.v1")}), true),
        (json!({"labels": has}), false),
        (json!({"labels": copied}), false),
        (json!({"labels": labels("mall")}), false),
        (json!({"ownerReferences": owner("u0")}), false),
        (json!({"ownerReferences": owner("u2")}), false),
        (json!({"annotations": alongside("mall/etcd.v1")}), false),
        (json!({"annotations": alongside("etcd.v1")}), false),
        (json!({"labels": {"app": "etcd"}}), false),
    ];
    for (content, lacks) in cases {
        let membership = Membership::of(&metadata(content.clone()), Vec::new);
        let lacking = membership.map(|it| owners.lacking(&it)).unwrap_or_default();
        assert_eq!(lacking, lacks.then(|| KEY.to_owned()).into_iter().collect(), "{content}");
    }
    assert_eq!(Membership::of(&metadata(json!({"labels": {"app": "etcd"}})), Vec::new), None, "nothing is kept of it");
}

fn subscriber(package: &str, installed: &str) -> Subscriber {
    Subscriber {
        name: package.into(),
        package: package.into(),
        installed_csv: installed.into(),
        ..Subscriber::default()
    }
}

#[test]
fn version_that_a_subscription_has_installed_is_labelled_once() {
    let mut cluster = Cluster::new([csv("a", "Succeeded", "InstallSucceeded")]);
    cluster.subscribers = vec![subscriber("etcd", "a"), subscriber("other", "b")];
    let patch = cluster.decide("a", 10).patch.unwrap();
    assert_eq!(patch["metadata"]["labels"], json!({KEY: ""}));
    assert_eq!(cluster.marked().decide("a", 10).patch, None);
}

/// A version that has been installed before it was labelled: its Deployment is as it has to be.
#[test]
fn deployment_is_created_with_the_label_and_one_without_it_has_not_drifted() {
    let marked = |phase: &str| {
        let mut cluster = Cluster::new([csv("a", phase, "InstallSucceeded")]);
        cluster.subscribers = vec![subscriber("etcd", "a")];
        cluster.marked()
    };
    let decision = marked("InstallReady").decide("a", 10);
    let [DeploymentWrite::Create { object, .. }] = &decision.deployments[..] else { panic!("{decision:?}") };
    assert_eq!(object["metadata"]["labels"][KEY], "");
    let mut cluster = marked("Succeeded").deployed("a", ready());
    let live = Arc::make_mut(&mut cluster.deployments.get_mut("server").unwrap().object);
    live["metadata"]["labels"].as_object_mut().unwrap().remove(KEY).unwrap();
    let decision = cluster.decide("a", 10);
    assert_eq!((cluster.step("a", 10), decision.deployments), (String::new(), Vec::new()));
    // With another change it comes along.
    let live = Arc::make_mut(&mut cluster.deployments.get_mut("server").unwrap().object);
    live["spec"]["template"]["spec"]["containers"][0]["image"] = json!("i:2");
    let mut cluster = cluster;
    cluster.csv_mut("a")["status"]["phase"] = json!("InstallReady");
    let decision = cluster.decide("a", 10);
    let [DeploymentWrite::Replace { object, change, .. }] = &decision.deployments[..] else { panic!("{decision:?}") };
    assert_eq!(object["metadata"]["labels"][KEY], "");
    assert_eq!(change.fields, ["spec.template.spec.containers[c].image"]);
}

#[test]
fn object_beside_deployments_that_lacks_nothing_but_the_label_is_as_it_has_to_be() {
    let role = |labels: Value| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [],
            "metadata": {"name": "r", "namespace": "shop", "uid": "u", "resourceVersion": "1", "labels": labels}})
    };
    let wanted = || role(json!({"olm.managed": "true", KEY: ""}));
    let known = |labels: Value| component::Known::new([Arc::new(role(labels))]);
    let written = component::writes(vec![wanted()], [], &known(json!({"olm.managed": "true"}))).unwrap();
    assert_eq!(written, Vec::new());
    let written = component::writes(vec![wanted()], [], &known(json!({"olm.managed": "false"}))).unwrap();
    let [ComponentWrite::Replace { object, fields, .. }] = &written[..] else { panic!("{written:?}") };
    assert_eq!(
        (&object["metadata"]["labels"][KEY], fields.as_slice()),
        (&json!(""), ["metadata.labels[olm.managed]".to_owned()].as_slice())
    );
}
