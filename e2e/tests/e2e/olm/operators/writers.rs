//! Who writes a ClusterServiceVersion gains no rights by it.

use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion;
use e2e::olm::PROCESS;
use e2e::workspace;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use super::{SHOP, World, csv};

const GUARD: &str = "manifests/olm/0000_50_olm_05_install-guard.yaml";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// Of whatever the account is: everything.
fn all() -> Value {
    json!([{"serviceAccountName": "server", "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]}])
}

impl World {
    /// A user who may do this with ClusterServiceVersions, and that with Deployments, in the namespace; and nothing else.
    async fn user(&self, name: &str, deployments: &[&str]) -> Theirs {
        let mut rules = vec![json!({"apiGroups": ["operators.coreos.com"], "resources": ["clusterserviceversions"],
            "verbs": ["create", "patch"]})];
        if !deployments.is_empty() {
            rules.push(json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": deployments}));
        }
        Api::namespaced(self.client_of(name, &rules).await, SHOP)
    }

    /// That of a user who may do this in the namespace, and nothing else.
    async fn client_of(&self, name: &str, rules: &[Value]) -> Client {
        let object =
            |kind: &str| json!({"apiVersion": RBAC, "kind": kind, "metadata": {"name": name, "namespace": SHOP}});
        let mut role = object("Role");
        role["rules"] = json!(rules);
        self.apply(&role).await;
        let mut binding = object("RoleBinding");
        binding["roleRef"] = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name});
        binding["subjects"] = json!([{"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"}]);
        self.apply(&binding).await;
        let mut config = self.cluster.config().await.unwrap();
        config.auth_info.impersonate = Some(name.to_owned());
        config.auth_info.impersonate_groups = Some(vec!["system:authenticated".to_owned()]);
        Client::try_from(config).unwrap()
    }

    /// Accounts, roles, bindings and Deployments: those of the namespace, and those without one that belong to operators.
    async fn rights_that_there_are(&self) -> Vec<String> {
        let mut names = Vec::new();
        macro_rules! add {
            ($api:expr, $params:expr, $kind:literal) => {
                let all = $api.list(&$params).await.unwrap().items;
                names.extend(all.iter().map(|it| format!("{} {}", $kind, it.name_any())));
            };
        }
        let everything = ListParams::default();
        let managed = ListParams::default().labels("olm.managed=true");
        add!(Api::<ServiceAccount>::namespaced(self.client.clone(), SHOP), everything, "ServiceAccount");
        add!(Api::<Role>::namespaced(self.client.clone(), SHOP), everything, "Role");
        add!(Api::<RoleBinding>::namespaced(self.client.clone(), SHOP), everything, "RoleBinding");
        add!(Api::<ClusterRole>::all(self.client.clone()), managed, "ClusterRole");
        add!(Api::<ClusterRoleBinding>::all(self.client.clone()), managed, "ClusterRoleBinding");
        add!(self.deployments(), everything, "Deployment");
        names.sort();
        names
    }
}

type Theirs = Api<ClusterServiceVersion>;

async fn create(user: &Theirs, object: &Value, dry_run: bool) -> Result<(), String> {
    let object: ClusterServiceVersion = serde_json::from_value(object.clone()).unwrap();
    user.create(&PostParams { dry_run, ..PostParams::default() }, &object)
        .await
        .map(drop)
        .map_err(|error| error.to_string())
}

async fn patch(user: &Theirs, name: &str, patch: &Value) -> Result<(), String> {
    let answer = user.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    answer.map(drop).map_err(|error| error.to_string())
}

/// A version that asks for all rights, and one whose pods run as another account.
fn attempts() -> [Value; 2] {
    let mut rights = csv("8.0.0", "");
    rights["spec"]["install"]["spec"]["clusterPermissions"] = all();
    let mut stranger = csv("9.0.0", "");
    stranger["spec"]["install"]["spec"]["permissions"] = json!([]);
    let pod = "/spec/install/spec/deployments/0/spec/template/spec/serviceAccountName";
    *stranger.pointer_mut(pod).unwrap() = json!("strong");
    stranger.pointer_mut("/spec/install/spec/deployments/0").unwrap()["name"] = json!("stranger");
    [rights, stranger]
}

/// A version that has nothing but this registered in the cluster; who may do that; and what others are told.
fn registered() -> [(Value, [&'static str; 3], &'static str); 4] {
    let webhook = |type_: &str| {
        json!({"webhookdefinitions": [{"generateName": "check.example.com", "type": type_, "deploymentName": "server",
            "admissionReviewVersions": ["v1"], "sideEffects": "None"}]})
    };
    let api = json!({"name": "gears", "group": "gears.example.com", "version": "v1", "kind": "Gear", "deploymentName": "server"});
    [
        (webhook("ValidatingAdmissionWebhook"), ["create", "validatingwebhookconfigurations"], "a validating webhook"),
        (webhook("MutatingAdmissionWebhook"), ["create", "mutatingwebhookconfigurations"], "a mutating webhook"),
        (webhook("ConversionWebhook"), ["update", "customresourcedefinitions"], "a conversion webhook"),
        (json!({"apiservicedefinitions": {"owned": [api]}}), ["create", "apiservices"], "an API"),
    ]
    .map(|(spec, [verb, resource], what)| {
        let group = match resource {
            "customresourcedefinitions" => "apiextensions.k8s.io",
            "apiservices" => "apiregistration.k8s.io",
            _ => "admissionregistration.k8s.io",
        };
        (spec, [verb, resource, group], what)
    })
}

/// A patch by which the operator would run another image as another account.
fn another_account() -> Value {
    let container = json!({"name": "server", "image": "registry.example.com/theirs"});
    let template = json!({"metadata": {"labels": {"app": "server"}},
        "spec": {"serviceAccountName": "strong", "containers": [container]}});
    let spec = json!({"selector": {"matchLabels": {"app": "server"}}, "template": template});
    json!({"spec": {"install": {"spec": {"clusterPermissions": all(), "deployments": [{"name": "server", "spec": spec}]}}}})
}

/// There is an account with all rights, under which its Deployments would run.
#[tokio::test(flavor = "multi_thread")]
async fn user_who_may_only_create_and_patch_versions_gains_nothing() {
    let world = World::up().await;
    let guard = workspace::root().join(GUARD).display().to_string();
    world.kubectl(["apply", "--server-side", "-f", &guard]).await;
    world.install(&csv("1.0.0", "")).await;
    let name = "server.v1.0.0";
    world.kubectl(["create", "serviceaccount", "strong", "-n", SHOP]).await;
    let strong =
        ["create", "clusterrolebinding", "strong", "--clusterrole=cluster-admin", "--serviceaccount=shop:strong"];
    world.kubectl(strong).await;
    let writer = world.user("writer", &[]).await;
    let before = world.rights_that_there_are().await;
    let deployment = world.deployment().await;

    let [rights, stranger] = attempts();
    let refused = "is written by those who may create Deployments in its namespace";
    // The policy is in force once it refuses: nothing tells of that.
    let wait = world.cluster.until("the guard", &[PROCESS]);
    wait.holds(async || create(&writer, &rights, true).await.is_err_and(|it| it.contains(refused))).await.unwrap();
    for object in [&rights, &stranger] {
        assert!(create(&writer, object, false).await.unwrap_err().contains(refused));
    }
    let annotations = json!({"metadata": {"annotations": {"example.com/to-pods": "theirs"}}});
    for change in [another_account(), annotations] {
        let answer = patch(&writer, name, &change).await.unwrap_err();
        assert!(answer.contains(refused), "{answer}");
    }
    // What is not installed is theirs to change.
    patch(&writer, name, &json!({"metadata": {"labels": {"example.com/seen": "yes"}}})).await.unwrap();

    // Whoever may make Deployments himself has them made, and no rights with them: what is missing is told.
    let deployer = world.user("deployer", &["create"]).await;
    let before_deployer = world.rights_that_there_are().await;
    create(&deployer, &rights, false).await.unwrap();
    let pending = world.until("to be told", "server.v8.0.0", |it| it.reason == "RequirementsNotMet").await;
    let lines = pending.status.unwrap().requirement_status;
    let account = lines.iter().find(|it| it.kind == "ServiceAccount").unwrap();
    assert_eq!(account.message, "Policy rule not satisfied for service account");
    let missing = r#"cluster rule:{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}"#;
    assert!(account.dependents.iter().any(|it| it.message == missing), "{account:?}");
    let own = ["Role server.v8.0.0", "RoleBinding server.v8.0.0"];
    let gained = |all: Vec<String>, before: &[String]| -> Vec<String> {
        // By it the operator says how it is, in one object of its own.
        all.into_iter().filter(|it| !before.contains(it) && !own.contains(&it.as_str())).collect()
    };
    assert_eq!(gained(world.rights_that_there_are().await, &before_deployer), [""; 0]);
    let theirs = ["Role deployer", "RoleBinding deployer"];
    let gained: Vec<String> = gained(world.rights_that_there_are().await, &before);
    assert_eq!(gained, theirs);
    let after = world.deployment().await;
    assert_eq!((after.metadata.generation, after.spec), (deployment.metadata.generation, deployment.spec));
    world.down().await;
}

/// Webhooks and APIs concern the whole cluster, whichever namespace their operator is in.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn webhooks_and_apis_are_written_by_those_who_may_register_them() {
    let world = World::up().await;
    let guard = workspace::root().join(GUARD).display().to_string();
    world.kubectl(["apply", "--server-side", "-f", &guard]).await;
    world.start();
    let user = world.user("deployer", &["create"]).await;
    create(&user, &csv("1.0.0", ""), false).await.unwrap();
    for (number, (spec, [verb, resource, group], what)) in registered().into_iter().enumerate() {
        let mut object = csv(&format!("2.0.{number}"), "");
        object["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        // The policy is in force once it refuses: nothing tells of that.
        let wait = world.cluster.until("the guard", &[PROCESS]);
        wait.holds(async || create(&user, &object, true).await.is_err_and(|it| it.contains(what))).await.unwrap();
        let change = json!({"spec": spec});
        for answer in [create(&user, &object, false).await, patch(&user, "server.v1.0.0", &change).await] {
            let answer = answer.unwrap_err();
            assert!(answer.contains(&format!("{what} in spec.")), "{answer}");
        }
        let (role, rule) = (format!("may-{number}"), format!("{resource}.{group}"));
        world.kubectl(["create", "clusterrole", &role, "--verb", verb, "--resource", &rule]).await;
        world.kubectl(["create", "clusterrolebinding", &role, "--clusterrole", &role, "--user", "deployer"]).await;
        let wait = world.cluster.until("the right", &[PROCESS]);
        wait.holds(async || create(&user, &object, true).await.is_ok()).await.unwrap();
        create(&user, &object, false).await.unwrap();
        // What is there already, nobody is asked for again.
        world.kubectl(["delete", "clusterrolebinding", &role]).await;
        let mut another = object.clone();
        another["metadata"]["name"] = json!("server.v9.0.0");
        let wait = world.cluster.until("the right to be gone", &[PROCESS]);
        wait.holds(async || create(&user, &another, true).await.is_err()).await.unwrap();
        let more = json!({"spec": {"displayName": "other"}});
        patch(&user, &format!("server.v2.0.{number}"), &more).await.unwrap();
    }
    world.down().await;
}

/// Such a Role is given to its operator in other namespaces too: whoever may write Roles here must not have that done.
#[tokio::test(flavor = "multi_thread")]
async fn role_for_other_namespaces_is_written_by_those_who_may_give_any_right_alone() {
    let world = World::up().await;
    let guard = workspace::root().join(GUARD).display().to_string();
    world.kubectl(["apply", "--server-side", "-f", &guard]).await;
    let roles = json!({"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles"], "verbs": ["create", "patch", "delete"]});
    let client = world.client_of("keeper", &[roles, super::rule()]).await;
    let theirs: Api<Role> = Api::namespaced(client, SHOP);
    let role = |name: &str, labels: Value| -> Role {
        let object = json!({"metadata": {"name": name, "labels": labels}, "rules": [super::rule()]});
        serde_json::from_value(object).unwrap()
    };
    let labels = json!({"olm.operatorframework.io/for-targets": "true"});
    let refused = "is written by those who may escalate ClusterRoles";
    let create = async |object: Role, dry_run: bool| {
        let answer = theirs.create(&PostParams { dry_run, ..PostParams::default() }, &object).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    let wait = world.cluster.until("the guard", &[]);
    wait.holds(async || create(role("given", labels.clone()), true).await.is_err_and(|it| it.contains(refused)))
        .await
        .unwrap();
    assert!(create(role("given", labels.clone()), false).await.unwrap_err().contains(refused));
    create(role("own", json!({})), false).await.unwrap();
    let patch = async |name: &str, change: Value| {
        let answer = theirs.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
        answer.map(drop).map_err(|error| error.to_string())
    };
    assert!(patch("own", json!({"metadata": {"labels": labels}})).await.unwrap_err().contains(refused));
    // Whoever may give any right makes one; and nobody else changes it.
    let mut given = json!(role("given", labels));
    given["apiVersion"] = json!(RBAC);
    given["kind"] = json!("Role");
    given["metadata"]["namespace"] = json!(SHOP);
    world.apply(&given).await;
    let owner = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "theirs", "uid": "1"}]);
    for change in [json!({"rules": []}), json!({"metadata": {"ownerReferences": owner}})] {
        assert!(patch("given", change).await.unwrap_err().contains(refused));
    }
    patch("own", json!({"rules": []})).await.unwrap();
    world.down().await;
}
