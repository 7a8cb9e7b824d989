//! What versions require.

use super::*;
use crate::olm::api::cluster_service_version::Requirement;
use crate::olm::operator::definition;
use Requirement::{NotPresent, Present, PresentNotAvailable, PresentNotSatisfied};

/// A version that waits for what it requires, with this strategy.
fn asking(strategy: Value) -> Cluster {
    let mut version = version("a", "Pending", &[]);
    version["spec"]["install"]["spec"] = strategy;
    Cluster::new([version]).marked()
}

/// The state of the last line, how many parts that has, and whether the version goes on.
fn last_line(cluster: &Cluster) -> (Requirement, usize, bool) {
    let (states, status) = cluster.decide("a", 10).status.unwrap();
    let line = status.requirement_status.last().unwrap();
    let goes_on = states.last().is_some_and(|state| state.phase == Phase::InstallReady);
    (line.status.clone(), line.dependents.len(), goes_on)
}

/// To read donuts in its namespace, and an address everywhere.
fn permissions(has_both: bool) -> Value {
    let address = json!({"verbs": ["get"], "nonResourceURLs": ["/osbs"]});
    let everywhere = json!({"serviceAccountName": "server", "rules": [address]});
    let everywhere = if has_both { vec![everywhere] } else { Vec::new() };
    json!({"deployments": [entry("server")], "clusterPermissions": everywhere,
        "permissions": [{"serviceAccountName": "server", "rules": [rule(&["*"], &["donuts"])]}]})
}

/// Which versions own the account, and what it may do.
#[test]
fn accounts_and_their_rights_are_required_as_published() {
    let address = |url: &str| -> PolicyRule { typed(json!({"verbs": ["get"], "nonResourceURLs": [url]})) };
    let donuts = || ("shop", rule(&["*"], &["donuts"]));
    for (name, has_both, owners, rules, expected) in [
        ("it may do all", true, vec!["uid-a"], vec![donuts(), ("", address("/osbs"))], (Present, 2, true)),
        (
            "it may read what is below the address",
            true,
            vec!["uid-a"],
            vec![donuts(), ("", address("/osbs/*"))],
            (PresentNotSatisfied, 2, false),
        ),
        (
            "another version owns it",
            true,
            vec!["uid-b"],
            vec![donuts(), ("", address("/osbs"))],
            (PresentNotSatisfied, 0, false),
        ),
        ("its owner is gone", false, vec!["uid-former"], vec![], (PresentNotSatisfied, 0, false)),
        ("no version owns it", false, vec![], vec![donuts()], (Present, 1, true)),
    ] {
        let mut cluster = asking(permissions(has_both));
        let owners = owners.into_iter().map(str::to_owned).collect();
        cluster.accounts.insert(("shop".into(), "server".into()), Account { owners });
        cluster.rules = rules;
        assert_eq!(last_line(&cluster), expected, "{name}");
    }
}

/// Elsewhere that is a failure; here it is a right that nobody has given.
#[test]
fn rule_of_resources_and_addresses_at_once_is_not_met() {
    let rules = json!([{"verbs": ["*"], "resources": ["*"], "nonResourceURLs": ["/osb"]}]);
    let everywhere = json!({"serviceAccountName": "server", "rules": rules});
    let mut cluster = asking(json!({"deployments": [entry("server")], "clusterPermissions": [everywhere]}));
    let owners = ["uid-a".to_owned()].into();
    cluster.accounts.insert(("shop".into(), "server".into()), Account { owners });
    assert_eq!(last_line(&cluster), (PresentNotSatisfied, 1, false));
    assert_eq!(told(&cluster), "a: Pending/RequirementsNotMet");
}

/// Which version of the definition is served, and what its conditions say: that it is established, and that its names are accepted.
#[test]
fn definitions_are_required_as_published() {
    for (name, wanted, served, conditions, expected) in [
        ("it is there", "v1", "v1", ["True", "True"], (Present, 0, true)),
        ("another version is served", "v2", "v1", ["True", "True"], (NotPresent, 0, false)),
        ("there is no such version", "none", "v2", ["True", "True"], (NotPresent, 0, false)),
        ("its names are taken", "v2", "v2", ["True", "False"], (PresentNotAvailable, 0, false)),
        ("it is not established", "v2", "v2", ["False", "True"], (PresentNotAvailable, 0, false)),
    ] {
        let mut version = version("a", "Pending", &["owns", "Widget"]);
        version["spec"]["customresourcedefinitions"]["owned"][0]["version"] = json!(wanted);
        let mut cluster = Cluster::new([version]).marked();
        let [established, accepted] = conditions;
        let conditions =
            json!([{"type": "Established", "status": established}, {"type": "NamesAccepted", "status": accepted}]);
        let object: definition::Definition = typed(json!({"metadata": {"name": "widgets.example.com", "uid": "u"},
            "spec": {"versions": [{"name": served, "served": true}]}, "status": {"conditions": conditions}}));
        cluster.definitions.insert("widgets.example.com".into(), object.required());
        assert_eq!(last_line(&cluster), expected, "{name}");
    }
}

/// Where it is not met, others say `PresentNotSatisfied`: here what is not there is not present.
#[test]
fn version_of_kubernetes_is_required_as_published() {
    for (name, least, expected, message) in [
        ("it is lower", "0.0.0", Present, "CSV minKubeVersion (0.0.0) less than server version"),
        (
            "it is higher",
            "999.999.999",
            NotPresent,
            "CSV version requirement not met: minKubeVersion (999.999.999) > server version",
        ),
        ("it is none", "a.b.c", NotPresent, "CSV version parsing error"),
    ] {
        let mut cluster = Cluster::new([version("a", "Pending", &[])]).marked();
        cluster.csv_mut("a")["spec"]["minKubeVersion"] = json!(least);
        let (_, status) = cluster.decide("a", 10).status.unwrap();
        let line = status.requirement_status.last().unwrap();
        assert_eq!((&line.status, line.kind.as_str()), (&expected, "ClusterServiceVersion"), "{name}");
        assert!(line.message.starts_with(message), "{name}: {}", line.message);
        let goes_on = expected == Present;
        assert_eq!(told(&cluster).starts_with("a: InstallReady"), goes_on, "{name}");
    }
    // Nothing is asked for.
    let cluster = Cluster::new([version("a", "Pending", &[])]).marked();
    let (_, status) = cluster.decide("a", 10).status.unwrap();
    assert_eq!(status.requirement_status, []);
}

/// Who has brought the definition, which others there are with what they replace, and what the version itself replaces.
#[test]
fn versions_that_brought_a_definition_are_told_as_published() {
    for (name, brought, others, replaces, expected) in [
        ("one of another namespace", vec![("mall", "b")], vec![("b", "")], "b", ""),
        ("it alone", vec![("shop", "a")], vec![], "", ""),
        ("it and the one before", vec![("shop", "a"), ("shop", "b")], vec![("b", "")], "b", ""),
        ("one that it does not replace", vec![("shop", "b")], vec![("b", "")], "", ""),
        ("those before it", vec![("shop", "b"), ("shop", "c")], vec![("b", "c"), ("c", "")], "b", "b, c"),
        ("those after it", vec![("shop", "b"), ("shop", "c")], vec![("c", "b"), ("b", "a")], "", ""),
        ("those of a circle", vec![("shop", "b"), ("shop", "c")], vec![("b", "c"), ("c", "a")], "b", "b, c"),
    ] {
        let own = version("a", "Pending", &["owns", "Widget", "replaces", replaces]);
        let others = others.into_iter().map(|(name, replaces)| version(name, "Pending", &["replaces", replaces]));
        let mut cluster = Cluster::new([own].into_iter().chain(others)).marked();
        let text = |(namespace, name): (&str, &str)| (namespace.to_owned(), name.to_owned());
        let found = Definition {
            served: ["v1".to_owned()].into(),
            is_available: true,
            alongside: brought.into_iter().map(text).collect(),
            ..Definition::default()
        };
        cluster.definitions.insert("widgets.example.com".into(), found);
        let (_, status) = cluster.decide("a", 10).status.unwrap();
        let message = &status.requirement_status[0].message;
        let told = message.strip_prefix("CRD installed alongside other CSV(s): ").unwrap_or_default();
        assert_eq!(told, expected, "{name}");
        let is_told = status.requirement_status[0].status == PresentNotSatisfied;
        assert_eq!(is_told, !expected.is_empty(), "{name}");
    }
}

/// The namespaces in which the rules are given that the account has: an empty one for all.
#[test]
fn rules_are_satisfied_as_published() {
    let wanted = rule(&["create", "update", "delete"], &["donuts"]);
    let (some, rest) = (rule(&["create", "update"], &["donuts"]), rule(&["delete"], &["donuts"]));
    for (name, given, expected) in [
        ("nothing is given", vec![], false),
        ("one role", vec![("shop", wanted.clone())], true),
        ("two roles", vec![("shop", some.clone()), ("shop", rest.clone())], true),
        ("a role, and one for all namespaces", vec![("shop", some.clone()), ("", rest.clone())], true),
        ("a role lacks a verb", vec![("shop", some.clone())], false),
        ("a role of another namespace", vec![("shop", some), ("mall", rest)], false),
        ("any verb", vec![("", rule(&["*"], &["*"]))], true),
    ] {
        let mut cluster = Cluster::new([]);
        cluster.rules = given;
        assert_eq!(cluster.rights().allow(("shop", "server"), "shop", &wanted), expected, "{name}");
    }
}
