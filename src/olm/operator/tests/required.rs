use super::*;
use crate::olm::api::cluster_service_version::{Requirement, RequirementStatus};
use crate::olm::operator::rights::lacking;

/// State and message of each line.
fn lines(cluster: &Cluster) -> Vec<(String, Requirement, String)> {
    let (_, status) = cluster.decide("a", 10).status.unwrap();
    status.requirement_status.into_iter().map(|it| (it.name, it.status, it.message)).collect()
}

fn pending(spec: &Value) -> Cluster {
    let mut csv = csv("a", "Pending", "RequirementsUnknown");
    merge(&mut csv["spec"], spec);
    Cluster::new([csv]).marked()
}

fn line(name: &str, status: Requirement, message: &str) -> Vec<(String, Requirement, String)> {
    vec![(name.to_owned(), status, message.to_owned())]
}

#[test]
fn version_of_kubernetes_is_at_least_what_is_asked_for() {
    use Requirement::{NotPresent, Present};
    let least = |text: &str, status, message: &str| {
        assert_eq!(lines(&pending(&json!({"minKubeVersion": text}))), line("a", status, message), "{text}");
    };
    least("1.33.2", Present, "CSV minKubeVersion (1.33.2) less than server version (1.33.2)");
    least("v1.20", Present, "CSV minKubeVersion (v1.20) less than server version (1.33.2)");
    let more = "CSV version requirement not met: minKubeVersion (1.33.3) > server version (1.33.2)";
    least("1.33.3", NotPresent, more);
    let cluster = pending(&json!({"minKubeVersion": "new"}));
    let [(_, status, message)] = lines(&cluster).try_into().unwrap();
    assert!(status == NotPresent && message.starts_with("CSV version parsing error"), "{message}");
    let mut unknown = pending(&json!({"minKubeVersion": "1.0.0"}));
    unknown.kubernetes = Err("it refuses".into());
    assert_eq!(lines(&unknown), line("a", NotPresent, "the version of the API server is not known: it refuses"));
}

#[test]
fn definitions_are_there_served_and_established() {
    use Requirement::{NotPresent, Present, PresentNotAvailable};
    for part in ["owned", "required"] {
        let named = json!([{"name": "k.example.com", "version": "v1", "kind": "K"}]);
        let mut cluster = pending(&json!({"customresourcedefinitions": {part: named}}));
        assert_eq!(lines(&cluster), line("k.example.com", NotPresent, "CRD is not present"));
        let mut of = |served: &str, is_available| {
            let served = [served.to_owned()].into();
            let definition = Definition { uid: "u".into(), served, is_available, ..Definition::default() };
            cluster.definitions.insert("k.example.com".into(), definition);
            lines(&cluster)
        };
        assert_eq!(of("v2", true), line("k.example.com", NotPresent, "CRD version not served"));
        let message = "CRD is present but the Established condition is False (not available)";
        assert_eq!(of("v1", false), line("k.example.com", PresentNotAvailable, message));
        let message = "CRD is present and Established condition is true";
        assert_eq!(of("v1", true), line("k.example.com", Present, message));
    }
}

#[test]
fn each_version_of_a_definition_is_looked_for() {
    let version = |name: &str| json!({"name": "k.example.com", "version": name, "kind": "K"});
    let owned = json!([version("v2"), version("v1"), version("v1")]);
    let mut cluster = pending(&json!({"customresourcedefinitions": {"owned": owned}}));
    let definition = Definition { served: ["v1".to_owned()].into(), is_available: true, ..Definition::default() };
    cluster.definitions.insert("k.example.com".into(), definition);
    let found: Vec<Requirement> = lines(&cluster).into_iter().map(|(_, status, _)| status).collect();
    assert_eq!(found, [Requirement::Present, Requirement::NotPresent]);
}

#[test]
fn definition_of_a_version_before_is_not_that_of_the_next_one() {
    use Requirement::{Present, PresentNotSatisfied};
    let named =
        json!({"customresourcedefinitions": {"owned": [{"name": "k.example.com", "version": "v1", "kind": "K"}]}});
    let mut next = csv("a", "Pending", "x");
    merge(&mut next["spec"], &named);
    next["spec"]["replaces"] = json!("before");
    let mut before = csv("before", "Replacing", "x");
    merge(&mut before["spec"], &named);
    before["spec"]["replaces"] = json!("gone");
    let mut cluster = Cluster::new([next, before, csv("other", "Succeeded", "x")]).marked();
    let mut verdict = |alongside: &[(&str, &str)]| {
        let alongside =
            alongside.iter().map(|(namespace, name)| ((*namespace).to_owned(), (*name).to_owned())).collect();
        let definition = Definition {
            uid: "u".into(),
            served: ["v1".to_owned()].into(),
            is_available: true,
            alongside,
            ..Definition::default()
        };
        cluster.definitions.insert("k.example.com".into(), definition);
        let [(_, status, message)] = lines(&cluster).try_into().unwrap();
        (status, message)
    };
    let expected = (PresentNotSatisfied, "CRD installed alongside other CSV(s): before".to_owned());
    assert_eq!(verdict(&[("shop", "before"), ("shop", "gone")]), expected);
    // It has brought it too; one of another namespace; one that it does not replace.
    for fine in [&[("shop", "before"), ("shop", "a")][..], &[("mall", "before")], &[("shop", "other")], &[]] {
        assert_eq!(verdict(fine).0, Present, "{fine:?}");
    }
}

#[test]
fn kinds_that_others_define_are_served() {
    let native =
        |group: &str| pending(&json!({"nativeAPIs": [{"group": group, "version": "v1", "kind": "Deployment"}]}));
    assert_eq!(lines(&native("apps")), line("v1.apps", Requirement::Present, "Native API exists"));
    assert_eq!(lines(&native("app")), line("v1.app", Requirement::NotPresent, "Native API does not exist"));
    let service = json!({"required": [{"name": "p", "group": "g", "version": "v1", "kind": "K"}]});
    let required = pending(&json!({"apiservicedefinitions": service}));
    assert_eq!(lines(&required), line("v1.g", Requirement::NotPresent, ""));
}

/// It is registered before its server answers, and later than that the kinds are known.
#[test]
fn required_service_is_available_and_serves_the_kind() {
    use Requirement::{NotPresent, Present};
    let of = |kind: &str, available: Option<bool>| {
        let required = json!({"required": [{"group": "apps", "version": "v1", "kind": kind, "name": "any"}]});
        let mut cluster = pending(&json!({"apiservicedefinitions": required}));
        let service = available.map(|is_available| ApiService {
            uid: "u".into(),
            is_available,
            has_service: true,
            ..ApiService::default()
        });
        cluster.services.extend(service.map(|service| ("v1.apps".to_owned(), service)));
        cluster
    };
    let waits = "one or more requirements couldn't be found";
    for (kind, available) in [("Deployment", None), ("Deployment", Some(false)), ("Other", Some(true))] {
        let cluster = of(kind, available);
        assert_eq!(lines(&cluster), line("v1.apps", NotPresent, ""), "{kind} {available:?}");
        assert_eq!(cluster.step("a", 10), format!("Pending/RequirementsNotMet: {waits}"));
    }
    let cluster = of("Deployment", Some(true));
    assert_eq!(lines(&cluster), line("v1.apps", Present, ""));
    let ready = "InstallReady/AllRequirementsMet: all requirements found, attempting install";
    assert_eq!(cluster.step("a", 10), ready);
}

fn with_rights(permissions: Value) -> Cluster {
    let mut cluster = pending(&json!({"install": {"spec": permissions}}));
    cluster.accounts.insert(("shop".into(), "server".into()), Account::default());
    cluster
}

#[test]
fn accounts_exist_and_belong_to_no_other_version() {
    use Requirement::{NotPresent, Present, PresentNotSatisfied};
    let permissions = json!({"permissions": [{"serviceAccountName": "server", "rules": []}]});
    let mut cluster = with_rights(permissions);
    assert_eq!(lines(&cluster), line("server", Present, ""));
    let mut owned = |owners: &[&str]| {
        let account = Account { owners: owners.iter().map(|it| (*it).to_owned()).collect() };
        cluster.accounts.insert(("shop".into(), "server".into()), account);
        lines(&cluster)
    };
    assert_eq!(owned(&["uid-a", "uid-b"]), line("server", Present, ""));
    let message = "Service account is owned by another ClusterServiceVersion";
    assert_eq!(owned(&["uid-b"]), line("server", PresentNotSatisfied, message));
    cluster.accounts.clear();
    assert_eq!(lines(&cluster), line("server", NotPresent, "Service account does not exist"));
}

#[test]
fn each_rule_is_looked_for_where_it_has_to_hold() {
    let wanted = rule(&["get", "list"], &["pods", "secrets"]);
    let named = json!([{"serviceAccountName": "server", "rules": [wanted]}]);
    let satisfied = |field: &str, rules: Vec<(&'static str, PolicyRule)>| {
        let mut cluster = with_rights(json!({field: named}));
        cluster.rules = rules;
        let (_, status) = cluster.decide("a", 10).status.unwrap();
        let line = status.requirement_status.into_iter().next().unwrap();
        assert_eq!(line.dependents.len(), 1);
        let scope = if field == "permissions" { "namespaced" } else { "cluster" };
        let text =
            format!(r#"{scope} rule:{{"verbs":["get","list"],"apiGroups":[""],"resources":["pods","secrets"]}}"#);
        assert_eq!(line.dependents[0].message, text);
        line.status == Requirement::Present
    };
    let both = rule(&["*"], &["pods", "secrets"]);
    for (field, rules, expected) in [
        ("permissions", vec![], false),
        ("permissions", vec![("shop", both.clone())], true),
        ("permissions", vec![("", both.clone())], true),
        ("permissions", vec![("mall", both.clone())], false),
        ("clusterPermissions", vec![("shop", both.clone())], false),
        ("clusterPermissions", vec![("", both)], true),
        // By several roles together.
        (
            "permissions",
            vec![("shop", rule(&["get", "list"], &["pods"])), ("", rule(&["list", "get"], &["secrets"]))],
            true,
        ),
        ("permissions", vec![("shop", rule(&["get"], &["pods", "secrets"]))], false),
        ("permissions", vec![("shop", rule(&["get", "list"], &["*"]))], true),
    ] {
        assert_eq!(satisfied(field, rules.clone()), expected, "{field}: {rules:?}");
    }
}

/// By group, version, kind and name, with the uid of what is there.
#[test]
fn each_line_names_the_object_that_is_required() {
    let mut cluster = with_rights(json!({"permissions": [{"serviceAccountName": "server",
        "rules": [rule(&["get"], &["pods"]), rule(&["get"], &["secrets"])]}]}));
    let definition = |name: &str| json!({"name": name, "version": "v1", "kind": "K"});
    let service = json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": "any"});
    let own = json!({"group": "g.example.com", "version": "v1", "kind": "G", "name": "gs", "deploymentName": "server"});
    let spec = json!({
        "minKubeVersion": "1.0.0",
        "customresourcedefinitions": {"owned": [definition("k.example.com")], "required": [definition("r.example.com")]},
        "apiservicedefinitions": {"required": [service], "owned": [own]},
        "nativeAPIs": [{"group": "apps", "version": "v1", "kind": "Deployment"}],
    });
    merge(&mut cluster.csv_mut("a")["spec"], &spec);
    cluster.rules = vec![("shop", rule(&["get"], &["pods"]))];
    let served = ["v1".to_owned()].into();
    let found = Definition { uid: "uid-k".into(), served, is_available: true, ..Definition::default() };
    cluster.definitions.insert("k.example.com".into(), found);
    let found = ApiService { uid: "uid-s".into(), is_available: true, has_service: true, ..ApiService::default() };
    cluster.services.insert("v1.apps".into(), found);
    let cluster = cluster.marked();
    let (_, status) = cluster.decide("a", 10).status.unwrap();
    let told = status.requirement_status.iter().map(|it| {
        let RequirementStatus { group, version, kind, name, status, uuid, .. } = it;
        format!("{group}/{version}/{kind} {name}: {status:?} {uuid}")
    });
    let expected = [
        "operators.coreos.com/v1alpha1/ClusterServiceVersion a: Present ",
        "apiextensions.k8s.io/v1/CustomResourceDefinition k.example.com: Present uid-k",
        "apiextensions.k8s.io/v1/CustomResourceDefinition r.example.com: NotPresent ",
        "apiregistration.k8s.io/v1/APIService v1.apps: Present uid-s",
        "apiregistration.k8s.io/v1/APIService v1.g.example.com: DeploymentFound ",
        "apps/v1/Deployment v1.apps: Present ",
        "/v1/ServiceAccount server: PresentNotSatisfied ",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let parts = status.requirement_status.last().unwrap().dependents.iter();
    let parts = parts.map(|it| format!("{}/{}/{}: {:?} {}", it.group, it.version, it.kind, it.status, it.uuid));
    let part = "rbac.authorization.k8s.io/v1/PolicyRule";
    assert_eq!(parts.collect::<Vec<_>>(), [format!("{part}: Satisfied "), format!("{part}: NotSatisfied ")]);
}

#[test]
fn rules_are_covered_as_the_api_server_would_say() {
    let covers = |given: Value, wanted: Value| {
        let mut cluster = Cluster::new([]);
        cluster.rules = vec![("", typed(given))];
        cluster.rights().allow(("shop", "server"), "", &typed(wanted))
    };
    let pods = |extra: Value| {
        let mut rule = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]});
        merge(&mut rule, &extra);
        rule
    };
    let name = |name: &str| json!({"resourceNames": [name]});
    let urls = |urls: &[&str]| json!({"verbs": ["get"], "nonResourceURLs": urls});
    for (given, wanted, expected) in [
        (pods(json!({})), pods(name("a")), true),
        (pods(name("a")), pods(name("a")), true),
        (pods(name("a")), pods(name("b")), false),
        (pods(name("a")), pods(json!({})), false),
        (pods(json!({"apiGroups": ["*"]})), pods(json!({"apiGroups": ["apps"]})), true),
        (pods(json!({})), pods(json!({"verbs": ["*"]})), false),
        (pods(json!({})), pods(json!({"resources": ["pods/log"]})), false),
        (pods(json!({"resources": ["*/log"]})), pods(json!({"resources": ["pods/log"]})), true),
        (urls(&["/metrics"]), urls(&["/metrics"]), true),
        (urls(&["/m*"]), urls(&["/metrics"]), true),
        (urls(&["/metrics"]), urls(&["/metrics", "/healthz"]), false),
        (pods(json!({})), json!({"verbs": ["get"]}), true),
    ] {
        assert_eq!(covers(given.clone(), wanted.clone()), expected, "{given} {wanted}");
    }
}

/// A million single things, and more with the names.
#[test]
fn rule_of_long_lists_is_part_of_a_single_one_or_is_lacking() {
    let names = |letter: &str| (0..100).map(|number| format!("{letter}{number}")).collect::<Vec<_>>();
    let (verbs, groups, resources) = (names("v"), names("g"), names("r"));
    let wanted = json!({"verbs": verbs, "apiGroups": groups, "resources": resources, "resourceNames": names("n"),
        "nonResourceURLs": ["/a", "/b"]});
    let given = |key: &str, value: Value| {
        let mut rule = wanted.clone();
        rule[key] = value;
        rule
    };
    let half = |all: &[String]| json!(all.iter().take(50).collect::<Vec<_>>());
    let everything = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "nonResourceURLs": ["*"]});
    for (given, expected) in [
        (wanted.clone(), true),
        (everything, true),
        (given("verbs", half(&verbs)), false),
        (given("apiGroups", half(&groups)), false),
        (given("resources", half(&resources)), false),
        (given("resourceNames", json!(["n1"])), false),
        (given("resourceNames", json!([])), true),
        (given("nonResourceURLs", json!(["/a"])), false),
    ] {
        let mut cluster = Cluster::new([]);
        cluster.rules = vec![("", typed(given.clone()))];
        let allowed = cluster.rights().allow(("shop", "server"), "", &typed(wanted.clone()));
        assert_eq!(allowed, expected, "{given}");
        let lacking = lacking(&[typed(given.clone())], &[typed(wanted.clone()), rule(&["get"], &["pods"])]);
        let told = "100000200 single things that one rule allows, too many to compare".to_owned();
        assert_eq!(lacking.contains(&told), !expected, "{lacking:?}");
        assert_eq!(lacking.contains(&"get pods".to_owned()), !given["verbs"].as_array().unwrap().contains(&json!("*")));
    }
}

#[test]
fn subjects_are_accounts_users_and_groups() {
    let role: RoleRef = typed(json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}));
    let wanted = rule(&["get"], &["pods"]);
    let allows = |subject: Value, namespace: &str| {
        let subjects: Vec<Subject> = vec![typed(subject)];
        let binding = Binding { namespace, role: &role, subjects: &subjects };
        let rights = Rights::new([binding].into_iter(), |of, name| {
            assert_eq!((of, name), (namespace, "r"));
            Some([wanted.clone()].into())
        });
        rights.allow(("shop", "server"), "shop", &wanted)
    };
    for (subject, expected) in [
        (json!({"kind": "ServiceAccount", "name": "server", "namespace": "shop"}), true),
        (json!({"kind": "ServiceAccount", "name": "server"}), true),
        (json!({"kind": "ServiceAccount", "name": "server", "namespace": "mall"}), false),
        (json!({"kind": "User", "name": "system:serviceaccount:shop:server"}), true),
        (json!({"kind": "Group", "name": "system:serviceaccounts"}), true),
        (json!({"kind": "Group", "name": "system:serviceaccounts:shop"}), true),
        (json!({"kind": "Group", "name": "system:authenticated"}), true),
        (json!({"kind": "Group", "name": "system:serviceaccounts:mall"}), false),
        (json!({"kind": "Robot", "name": "server"}), false),
    ] {
        assert_eq!(allows(subject.clone(), "shop"), expected, "{subject}");
    }
}
