//! What users get by operators: roles of their APIs, and of their groups.

use cvo::testing::api::olm::operator_group::OperatorGroup;
use e2e::olm::PROCESS;
use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::super::LIMIT;
use super::super::{World, group};
use super::{NAME, RBAC, definition, soon, users};

/// Names that the group gives its users beside its own, which others may have.
const SECOND: [&str; 3] = ["one-admin", "one-edit", "one-view"];

impl World {
    fn cluster_roles(&self) -> Api<ClusterRole> {
        Api::all(self.client.clone())
    }

    /// Those by which the API of widgets is used.
    async fn of_widgets(&self) -> Vec<String> {
        let all = self.cluster_roles().list(&ListParams::default()).await.unwrap();
        let is_of_widgets = |name: &String| name.starts_with("widgets.") || name.starts_with("widget.");
        all.iter().map(ResourceExt::name_any).filter(is_of_widgets).collect()
    }

    async fn until_seconds(&self, what: &str, expected: &[&str]) {
        let seconds = async || {
            let all = self.of_groups().await;
            all.into_iter().filter(|name| !name.starts_with("olm.og.")).collect::<Vec<_>>()
        };
        let wait = self.cluster.until(format!("{what}: {expected:?}"), &[PROCESS]).within(LIMIT);
        wait.holds(async || seconds().await == expected).await.unwrap();
    }
}

/// The account of the version is missing: nobody may do anything with what it provides.
pub(super) async fn one_that_waits_gives_no_rights(world: &World, csv: &Value) {
    world.apply(&definition()).await;
    world.apply(csv).await;
    world.until("to wait for its account", NAME, |it| it.reason == "RequirementsNotMet").await;
    // Roles of groups come after those of APIs.
    let provides = |it: &OperatorGroup| it.annotations().get("olm.providedAPIs").is_some_and(|it| !it.is_empty());
    let wait = world.cluster.until("the APIs of the group", &[PROCESS]).within(LIMIT);
    wait.existing(world.groups(), "one", provides).await.unwrap();
    world.until_seconds("the roles of the group", &SECOND).await;
    assert_eq!(world.of_widgets().await, [""; 0]);
    world.until_table("one that waits", &users(false, [false, false, false])).await;
}

/// Whoever may look may look at the definition of what is provided, and at no other one.
pub(super) async fn definition_is_seen(world: &World) {
    let subject = json!({"kind": "User", "name": "viewer", "apiGroup": RBAC});
    let binding = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": "viewer"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "view"}, "subjects": [subject]});
    world.apply(&binding).await;
    let may = async |verb: &str, name: &str| {
        let (group, resource) = ("apiextensions.k8s.io", "customresourcedefinitions");
        let attributes = json!({"verb": verb, "group": group, "resource": resource, "name": name});
        world.is_allowed("viewer", attributes).await
    };
    let wait = world.cluster.until("the definition to be seen", &[PROCESS]).within(LIMIT);
    wait.holds(async || may("get", "widgets.example.com").await).await.unwrap();
    for (verb, name) in [
        ("get", "subscriptions.operators.coreos.com"),
        ("get", ""),
        ("list", ""),
        ("update", "widgets.example.com"),
        ("delete", "widgets.example.com"),
    ] {
        assert!(!may(verb, name).await, "{verb} {name}");
    }
}

/// By either name the group gives its users what its operators provide.
pub(super) async fn roles_of_the_group(world: &World) {
    let names = world.of_groups().await;
    assert_eq!(names.len(), 6, "{names:?}");
    let given = names.iter().find(|name| name.starts_with("olm.og.one.view-")).unwrap();
    for (user, role) in [("guest", given.as_str()), ("visitor", "one-view")] {
        world.bind(user, role, "park").await;
        let may = async |verb: &str| world.may(user, verb, ("example.com", "widgets"), "park").await;
        soon(user, async || may("list").await).await;
        assert!(!may("create").await);
    }
}

/// Names that another group, or a role of somebody else, has as well are nobody's.
pub(super) async fn names_of_the_roles_of_the_group(world: &World) {
    let mut namesake = group("one", json!({"targetNamespaces": ["rival"]}));
    namesake["metadata"]["namespace"] = json!("rival");
    world.apply(&namesake).await;
    world.until_seconds("two groups of one name", &[]).await;
    let wait = world.cluster.until("the other roles of both groups", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.of_groups().await.len() == 6).await.unwrap();

    let rule = json!({"apiGroups": [""], "resources": ["secrets"], "verbs": ["list"]});
    let theirs = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole", "metadata": {"name": "one-view"},
        "rules": [rule]});
    world.apply(&theirs).await;
    let before = world.cluster_roles().get("one-view").await.unwrap();
    // The process knows of it once it knows of what happened to another role afterwards.
    let role = "widgets.example.com-v1-crdview";
    let uid = world.cluster_roles().get(role).await.unwrap().uid();
    world.kubectl(["delete", "clusterrole", role]).await;
    let wait = world.cluster.until("the role of the API to come back", &[PROCESS]).within(LIMIT);
    wait.existing(world.cluster_roles(), role, |it| it.uid() != uid).await.unwrap();
    world.kubectl(["delete", "operatorgroup", "-n", "rival", "one"]).await;
    world.until_seconds("one group, and a role of somebody else", &SECOND[..2]).await;
    let may = async |resource: &str| world.may("visitor", "list", ("", resource), "park").await;
    let wait = world.cluster.until("the role of somebody else to count", &[PROCESS]).within(LIMIT);
    wait.holds(async || may("secrets").await).await.unwrap();
    assert!(!world.may("visitor", "list", ("example.com", "widgets"), "park").await);
    let after = world.cluster_roles().get("one-view").await.unwrap();
    assert_eq!((after.uid(), after.resource_version()), (before.uid(), before.resource_version()));

    world.kubectl(["delete", "clusterrole", "one-view"]).await;
    world.until_seconds("one group alone", &SECOND).await;
    let wait = world.cluster.until("the role of the group to count", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.may("visitor", "list", ("example.com", "widgets"), "park").await).await.unwrap();
    assert!(!may("secrets").await);
}
