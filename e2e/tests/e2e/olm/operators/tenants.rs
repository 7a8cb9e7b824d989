//! What an OperatorGroup means: rights of the operator and of users by their effect, labels of namespaces, and groups that meet.

mod provided;

use std::collections::BTreeMap;

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::operator_group::OperatorGroup;
use e2e::harness::audit;
use e2e::harness::named;
use e2e::olm::{PROCESS, USER};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::LIMIT;
use super::{SHOP, World, csv, group, in_shop};

const NAME: &str = "server.v1.0.0";
const RBAC: &str = "rbac.authorization.k8s.io";
const ACCOUNT: &str = "system:serviceaccount:shop:server";

pub(super) fn definition() -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"kind": "Widget", "plural": "widgets", "singular": "widget",
            "listKind": "WidgetList"}, "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}})
}

/// A version that provides widgets, and can work for any namespaces.
pub(super) fn version(number: &str) -> Value {
    let mut csv = csv(number, "");
    csv["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]});
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    csv["spec"]["installModes"] = modes.map(|mode| json!({"type": mode, "supported": true})).into();
    csv
}

impl World {
    pub(super) async fn namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = Namespace { metadata: named(name), ..Namespace::default() };
        namespaces.create(&Default::default(), &namespace).await.unwrap();
    }

    /// What a plan makes of a version: the definition, the account, and the Role that belongs to it.
    pub(super) async fn carry_out_version(&self, csv: &Value) {
        self.apply(&definition()).await;
        self.apply(&in_shop("v1", "ServiceAccount", "server", json!({}))).await;
        self.apply(csv).await;
        let name = csv["metadata"]["name"].as_str().unwrap();
        let uid = self.csvs().get(name).await.unwrap().uid().unwrap();
        let metadata = json!({"name": "server-role", "namespace": SHOP, "labels": {"olm.managed": "true", "olm.owner": name,
            "olm.owner.namespace": SHOP, "olm.owner.kind": "ClusterServiceVersion"},
            "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": name, "uid": uid}]});
        let mut role =
            json!({"apiVersion": format!("{RBAC}/v1"), "kind": "Role", "metadata": metadata, "rules": [super::rule()]});
        role["metadata"]["labels"]["olm.operatorframework.io/for-targets"] = json!("true");
        self.apply(&role).await;
        let subject = json!({"kind": "ServiceAccount", "name": "server", "namespace": SHOP});
        self.apply(&json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": "server-role"}, "subjects": [subject]}))
            .await;
    }

    async fn may(&self, user: &str, verb: &str, (api, resource): (&str, &str), namespace: &str) -> bool {
        let attributes = json!({"verb": verb, "group": api, "resource": resource, "namespace": namespace});
        self.is_allowed(user, attributes).await
    }

    async fn is_allowed(&self, user: &str, attributes: Value) -> bool {
        let review = json!({"metadata": {}, "spec": {"user": user, "groups": ["system:authenticated"],
            "resourceAttributes": attributes}});
        let reviews: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let review = reviews.create(&Default::default(), &serde_json::from_value(review).unwrap()).await.unwrap();
        review.status.unwrap().allowed
    }

    /// For each user the namespaces in which they may do each of these with widgets; and for the account of the operator those in
    /// which it may change config maps.
    async fn table(&self) -> BTreeMap<String, String> {
        let mut table = BTreeMap::new();
        for namespace in ["mall", "park"] {
            for user in ["admin", "edit", "view", "none"] {
                let mut verbs = Vec::new();
                for verb in ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"] {
                    if self.may(user, verb, ("example.com", "widgets"), namespace).await {
                        verbs.push(verb);
                    }
                }
                table.insert(format!("{user} in {namespace}"), verbs.join(" "));
            }
        }
        for namespace in [SHOP, "mall", "park", "default"] {
            let may = self.may(ACCOUNT, "update", ("", "configmaps"), namespace).await;
            table.insert(format!("operator in {namespace}"), may.to_string());
        }
        table
    }

    async fn until_table(&self, what: &str, expected: &[(&str, &str)]) {
        let expected: BTreeMap<String, String> =
            expected.iter().map(|(who, verbs)| ((*who).to_owned(), (*verbs).to_owned())).collect();
        soon(&format!("{what}: {expected:?}"), async || self.table().await == expected).await;
    }

    async fn until_labels(&self, uid: &str, expected: &[&str]) {
        let labels = ListParams::default().labels(&format!("olm.operatorgroup.uid/{uid}"));
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let names =
            async || namespaces.list(&labels).await.unwrap().iter().map(ResourceExt::name_any).collect::<Vec<_>>();
        soon(&format!("labels of {expected:?}"), async || names().await == expected).await;
    }

    /// Gives a user a ClusterRole in a namespace.
    async fn bind(&self, user: &str, role: &str, namespace: &str) {
        let subject = json!({"kind": "User", "name": user, "apiGroup": RBAC});
        self.apply(&json!({"apiVersion": format!("{RBAC}/v1"), "kind": "RoleBinding",
            "metadata": {"name": user, "namespace": namespace},
            "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}, "subjects": [subject]}))
            .await;
    }

    fn csvs_of(&self, namespace: &str) -> Api<ClusterServiceVersion> {
        Api::namespaced(self.client.clone(), namespace)
    }

    fn groups(&self) -> Api<OperatorGroup> {
        Api::namespaced(self.client.clone(), SHOP)
    }

    async fn of_groups(&self) -> Vec<String> {
        let roles: Api<ClusterRole> = Api::all(self.client.clone());
        let all = roles.list(&ListParams::default().labels("olm.owner.kind=OperatorGroup")).await.unwrap();
        all.iter().map(ResourceExt::name_any).collect()
    }
}

const READS: &str = "get list watch";
const WRITES: &str = "get list watch create update patch delete";
const ALL: &str = "get list watch create update patch delete deletecollection";

/// Users are given roles of the cluster in the namespace `mall` alone; the account of the operator works where its group says.
fn users(installed: bool, operator: [bool; 3]) -> Vec<(&'static str, &'static str)> {
    let of = |verbs| if installed { verbs } else { "" };
    let told = |may: bool| if may { "true" } else { "false" };
    let [shop, mall, park] = operator.map(told);
    vec![
        ("admin in mall", of(ALL)),
        ("edit in mall", of(WRITES)),
        ("view in mall", of(READS)),
        ("none in mall", ""),
        ("admin in park", ""),
        ("edit in park", ""),
        ("view in park", ""),
        ("none in park", ""),
        ("operator in shop", shop),
        ("operator in mall", mall),
        ("operator in park", park),
        ("operator in default", "false"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_of_users_and_of_the_operator_follow_what_its_group_selects() {
    let world = World::up().await;
    for name in ["mall", "park", "rival"] {
        world.namespace(name).await;
    }
    for user in ["admin", "edit", "view"] {
        world.bind(user, user, "mall").await;
    }
    world.start();
    world.until_table("before", &users(false, [false, false, false])).await;

    world.apply(&group("one", json!({"targetNamespaces": [SHOP, "mall"]}))).await;
    provided::one_that_waits_gives_no_rights(&world, &version("1.0.0")).await;
    world.carry_out_version(&version("1.0.0")).await;
    world.until_succeeded(NAME).await;
    world.until_table("installed", &users(true, [true, true, false])).await;
    let one = world.groups().get("one").await.unwrap();
    let uid = one.uid().unwrap();
    world.until_labels(&uid, &["mall", SHOP]).await;
    assert_eq!(one.annotations()["olm.providedAPIs"], "Widget.v1.example.com");
    let wait = world.cluster.until("the copy", &[PROCESS]).within(LIMIT);
    let is_copied = |it: &ClusterServiceVersion| {
        it.status.as_ref().is_some_and(|it| (&it.phase, it.reason.as_str()) == (&Phase::Succeeded, "Copied"))
    };
    wait.existing(world.csvs_of("mall"), NAME, is_copied).await.unwrap();
    provided::definition_is_seen(&world).await;
    provided::roles_of_the_group(&world).await;
    provided::names_of_the_roles_of_the_group(&world).await;

    // A target comes, and one goes.
    world.apply(&group("one", json!({"targetNamespaces": [SHOP, "mall", "park"]}))).await;
    world.until_table("a target more", &users(true, [true, true, true])).await;
    world.until_succeeded(NAME).await;
    world.apply(&group("one", json!({"targetNamespaces": [SHOP, "park"]}))).await;
    world.until_table("a target less", &users(true, [true, false, true])).await;
    world.until_labels(&uid, &["park", SHOP]).await;
    let wait = world.cluster.until("the copy to be gone", &[PROCESS]).within(LIMIT);
    wait.object(world.csvs_of("mall"), NAME, |it| it.is_none()).await.unwrap();
    world.until_succeeded(NAME).await;

    conflict(&world).await;
    let before = world.deployment().await;
    writes_nothing(&world).await;

    // The group goes. What runs goes on.
    world.groups().delete("one", &Default::default()).await.unwrap();
    world.until("to be told", NAME, |it| it.reason == "NoOperatorGroup").await;
    world.until_labels(&uid, &[]).await;
    soon("the roles of the group are gone", async || world.of_groups().await.is_empty()).await;
    let after = world.deployment().await;
    assert_eq!((after.uid(), after.metadata.generation), (before.uid(), before.metadata.generation));
    world.until_table("without a group", &users(true, [true, false, true])).await;
    world.down().await;
}

async fn soon(what: &str, is_so: impl AsyncFn() -> bool) {
    for _ in 0..100 {
        if is_so().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    panic!("{what}: not so");
}

/// The group `two` of the namespace `rival`, which protects the API of widgets in another one.
pub(super) fn rival(target: &str) -> Value {
    let mut rival = group("two", json!({"targetNamespaces": [target], "staticProvidedAPIs": true}));
    rival["metadata"]["namespace"] = json!("rival");
    rival["metadata"]["annotations"] = json!({"olm.providedAPIs": "Widget.v1.example.com"});
    rival
}

/// Another group protects the same API in one of the namespaces, and then no more.
async fn conflict(world: &World) {
    world.apply(&rival("park")).await;
    world.until("to be refused", NAME, |it| it.reason == "InterOperatorGroupOwnerConflict").await;
    let wait = world.cluster.until("the Deployment to be gone", &[PROCESS]).within(LIMIT);
    wait.object(world.deployments(), "server", |it| it.is_none()).await.unwrap();
    let wait = world.cluster.until("the copy to be gone", &[PROCESS]).within(LIMIT);
    wait.object(world.csvs_of("park"), NAME, |it| it.is_none()).await.unwrap();
    let one = world.groups().get("one").await.unwrap();
    assert_eq!(one.annotations()["olm.providedAPIs"], "", "programs look for it");
    world.kubectl(["delete", "operatorgroup", "-n", "rival", "two"]).await;
    world.until_succeeded(NAME).await;
    world.until_table("after the conflict", &users(true, [true, false, true])).await;
}

/// Another process finds everything as it has to be: what it writes first is what is asked of it afterwards.
pub(super) async fn writes_nothing(world: &World) {
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    let before = audit::requests(&world.cluster.audit_log(), USER).unwrap().len();
    world.start();
    world.namespace("last").await;
    let mut last = group("last", json!({"targetNamespaces": ["last"]}));
    last["metadata"]["namespace"] = json!("last");
    world.apply(&last).await;
    let groups: Api<OperatorGroup> = Api::namespaced(world.client.clone(), "last");
    let wait = world.cluster.until("the new group to be seen", &[PROCESS]).within(LIMIT);
    wait.existing(groups, "last", |it| it.status.is_some()).await.unwrap();
    let all = audit::requests(&world.cluster.audit_log(), USER).unwrap();
    let ignored = ["leases", "events", "subjectaccessreviews", "tokenreviews", "secrets", "clusteroperators"];
    let wrote = all.iter().skip(before).filter(|it| it.wrote() && !ignored.contains(&it.resource.as_str()));
    let wrote: Vec<String> = wrote
        .filter(|it| {
            it.namespace != "last"
                && it.name != "last"
                && !it.name.starts_with("olm.og.last.")
                && !it.name.starts_with("last-")
        })
        .map(|it| format!("{} {} {}", it.verb, it.resource_path(), it.object()))
        .collect();
    assert_eq!(wrote, Vec::<String>::new());
    world.kubectl(["delete", "operatorgroup", "-n", "last", "last"]).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn operator_for_all_namespaces_may_work_in_each_and_loses_that_with_its_group_and_by_its_end() {
    let world = World::up().await;
    world.namespace("mall").await;
    world.start();
    world.apply(&group("one", json!({}))).await;
    world.carry_out_version(&version("1.0.0")).await;
    world.until_succeeded(NAME).await;
    let everywhere = async |expected: bool| {
        for namespace in ["mall", "default"] {
            let may = async || world.may(ACCOUNT, "update", ("", "configmaps"), namespace).await;
            soon(&format!("{namespace}: {expected}"), async || may().await == expected).await;
        }
        assert!(world.may(ACCOUNT, "update", ("", "configmaps"), SHOP).await);
    };
    everywhere(true).await;
    assert!(world.may(ACCOUNT, "watch", ("", "namespaces"), "").await);
    world.apply(&group("one", json!({"targetNamespaces": [SHOP]}))).await;
    everywhere(false).await;
    world.until_succeeded(NAME).await;
    world.apply(&group("one", json!({"targetNamespaces": [], "selector": {"matchLabels": {}}}))).await;
    everywhere(true).await;
    world.until_succeeded(NAME).await;
    world.csvs().delete(NAME, &Default::default()).await.unwrap();
    world.until_gone(NAME).await;
    let roles: Api<ClusterRole> = Api::all(world.client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(world.client.clone());
    assert!(roles.get_opt("server-role").await.unwrap().is_none());
    assert!(bindings.get_opt("server-role").await.unwrap().is_none());
    world.down().await;
}

/// Labels directly in a selector count, as documentation shows them, and who writes them is told where they belong.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn published_groups_are_taken_as_they_are_typed() {
    let world = World::up().await;
    let guard = e2e::workspace::root().join("manifests/olm/0000_50_olm_05_group-guard.yaml");
    world.kubectl(["apply", "--server-side", "-f", &guard.display().to_string()]).await;
    world.start();
    world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "prod", "labels": {"cool.io/prod": "true"}}})).await;
    world.apply(&group("one", json!({"selector": {"cool.io/prod": "true"}}))).await;
    let until = async |expected: &[&str]| {
        let wait = world.cluster.until(format!("{expected:?}"), &[PROCESS]).within(LIMIT);
        let is = |it: &OperatorGroup| it.status.as_ref().is_some_and(|status| status.namespaces == expected);
        wait.existing(world.groups(), "one", is).await.unwrap();
    };
    until(&["prod"]).await;
    world.apply(&group("one", json!({"selector": {"cool.io/prod": "false"}}))).await;
    until(&[]).await;
    // Both selectors, and an account as older tools write it.
    let account = json!({"metadata": {"creationTimestamp": null}});
    let local = json!({"selector": {}, "serviceAccount": account, "targetNamespaces": [SHOP]});
    world.apply(&group("one", local)).await;
    until(&[SHOP]).await;
    world.apply(&group("one", json!({}))).await;
    until(&[""]).await;
    let file = world.cluster.dir().join("told.json");
    std::fs::write(&file, group("told", json!({"selector": {"cool.io/prod": "true"}})).to_string()).unwrap();
    let mut warned = String::new();
    // A policy counts a moment after it is there.
    for _ in 0..50 {
        let output = tokio::process::Command::new(world.cluster.kubectl_program())
            .args(["create", "--dry-run=server", "-o", "name", "-f", &file.display().to_string()])
            .env("KUBECONFIG", world.cluster.kubeconfig())
            .output()
            .await
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        warned = String::from_utf8_lossy(&output.stderr).into_owned();
        if warned.contains("write them below matchLabels") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    assert!(warned.contains("write them below matchLabels"), "{warned}");
    let roles: Api<Role> = Api::namespaced(world.client.clone(), SHOP);
    assert!(roles.list(&ListParams::default().labels("olm.copiedFrom")).await.unwrap().items.is_empty());
    world.down().await;
}
