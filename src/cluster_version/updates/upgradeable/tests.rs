//! Each source of risks, and gates in all their forms.

use super::*;
use serde_json::{Value, json};

fn data(pairs: &[(&str, &str)]) -> Read<BTreeMap<String, String>> {
    Read::Value(pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect())
}

/// Names and messages, of a cluster at 4.21.3 with these gates and acknowledgements.
fn gates(gates: &Read<BTreeMap<String, String>>, acks: &Read<BTreeMap<String, String>>) -> Vec<(String, String)> {
    let risks = risks(&Sources {
        version: "4.21.3",
        updating: false,
        overrides: &[],
        deletions: &[],
        operators: &Read::Value(Vec::new()),
        gates,
        acks,
    });
    risks.into_iter().map(|risk| (risk.name, risk.message)).collect()
}

#[test]
fn gates_of_the_minor_version_wait_for_exactly_true() {
    let gate = data(&[("ack-4.21-apis", "APIs go away, see https://example.com/a b")]);
    for (acks, passes) in [
        (data(&[]), false),
        (data(&[("ack-4.21-apis", "true")]), true),
        (data(&[("ack-4.21-apis", "True")]), false),
        (data(&[("ack-4.21-apis", "")]), false),
        (data(&[("ack-4.21-other", "true")]), false),
        (Read::Absent, false),
        (Read::Failed("refused".into()), false),
    ] {
        let found = gates(&gate, &acks);
        assert_eq!(found.is_empty(), passes, "{acks:?}");
        assert!(
            passes || found[0].0 == "AdminAck-ack-4.21-apis" && found[0].1.starts_with("APIs go away"),
            "{found:?}"
        );
    }
}

#[test]
fn gates_in_all_their_forms() {
    let acks = data(&[]);
    for (key, text, expected) in [
        ("ack-4.20-apis", "of another minor version", None),
        ("ack-5.21-apis", "of another major version", None),
        ("ack-4.21-apis", "counts", Some("counts")),
        ("ack-4.21-a", "", Some("has no text")),
        ("ack-4.21--a", "x", Some("is invalid")),
        ("ack-4.21-", "x", Some("is invalid")),
        ("ack-4.21", "x", Some("is invalid")),
        ("ack-6.1-a", "x", Some("is invalid")),
        ("ack-4.+1-a", "x", Some("is invalid")),
        ("ack-4.99999999999999999999-a", "x", Some("is invalid")),
        ("nonsense", "x", Some("is invalid")),
        ("", "x", Some("is invalid")),
    ] {
        let found = gates(&data(&[(key, text)]), &acks);
        match expected {
            None => assert_eq!(found, [], "{key}"),
            Some(part) => assert!(found.len() == 1 && found[0].1.contains(part), "{key}: {found:?}"),
        }
    }
}

#[test]
fn gates_that_cannot_be_read_are_a_risk() {
    let names = |gates_map: &_| gates(gates_map, &data(&[])).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert_eq!(names(&Read::Absent), ["AdminAckUnknown"]);
    assert_eq!(names(&Read::Failed("no answer".into())), ["AdminAckUnknown"]);
}

#[test]
fn address_in_the_text_of_a_gate_is_its_url() {
    let sources = Sources {
        version: "4.21.3",
        updating: false,
        overrides: &[],
        deletions: &[],
        operators: &Read::Absent,
        gates: &data(&[("ack-4.21-a", "see https://example.com/a and https://example.com/b"), ("ack-4.21-b", "plain")]),
        acks: &data(&[]),
    };
    let urls: Vec<String> = risks(&sources).into_iter().map(|risk| risk.url).collect();
    let documentation = "https://docs.openshift.com/container-platform/4.21/updating/index.html";
    assert_eq!(urls, ["https://example.com/a", documentation]);
}

fn conditions(entries: Value) -> Vec<Condition> {
    serde_json::from_value(entries).unwrap()
}

#[test]
fn each_source_is_a_risk_that_names_what_it_is_about() {
    let time = "2026-01-01T00:00:00Z";
    let says = |status: &str| {
        conditions(
            json!([{"type": "Upgradeable", "status": status, "reason": "PoolUpdating", "message": "a pool updates",
            "lastTransitionTime": time}]),
        )
    };
    let (no, yes, unknown, silent) = (says("False"), says("True"), says("Unknown"), Vec::new());
    let operators = [("machine-config", no.as_slice()), ("dns", yes.as_slice()), ("etcd", &unknown), ("net", &silent)];
    let component = |kind: &str, unmanaged| ComponentOverride {
        kind: kind.into(),
        name: "a".into(),
        namespace: "b".into(),
        unmanaged,
        ..ComponentOverride::default()
    };
    let found = risks(&Sources {
        version: "nonsense",
        updating: true,
        overrides: &[component("Deployment", true), component("Service", false)],
        deletions: &["configmap \"b/a\"".to_owned()],
        operators: &Read::Value(refusals(operators)),
        gates: &data(&[]),
        acks: &Read::Absent,
    });
    let names: Vec<&str> = found.iter().map(|risk| risk.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "ClusterVersionUpdating",
            "ClusterVersionOverrides",
            "ResourceDeletionInProgress",
            "AdminAckUnknown",
            "ClusterOperatorUpgradeable-machine-config"
        ]
    );
    for (risk, part) in found.iter().zip([
        "Progressing",
        "Deployment b/a",
        "configmap \"b/a\"",
        "\"nonsense\"",
        "machine-config should not be updated to another minor version: PoolUpdating: a pool updates",
    ]) {
        assert!(risk.message.contains(part), "{risk:?}");
    }
    assert!(!found[1].message.contains("Service"), "{:?}", found[1]);
}

#[test]
fn gates_of_the_minor_version_are_listed_with_their_state() {
    let given = data(&[("ack-4.21-apis", "APIs go away"), ("ack-4.21-keys", "Keys change"), ("ack-4.20-old", "old")]);
    let acks = data(&[("ack-4.21-keys", "true"), ("ack-4.21-apis", "True")]);
    let listed = |acks: &Read<BTreeMap<String, String>>| -> Vec<(String, bool)> {
        let gates = admin_gates::gates("4.21.3", &given, acks).unwrap();
        gates.into_iter().map(|gate| (gate.name, gate.acknowledged)).collect()
    };
    let named = |apis, keys| vec![("ack-4.21-apis".to_owned(), apis), ("ack-4.21-keys".to_owned(), keys)];
    assert_eq!(listed(&acks), named(false, true));
    assert_eq!(listed(&Read::Absent), named(false, false));
    let broken = data(&[("ack-4.21-keys", ""), ("ack-4.21", "y"), ("ack-4.20-old", "")]);
    let broken =
        admin_gates::gates("4.21.3", &broken, &data(&[("ack-4.21-keys", "true"), ("ack-4.21", "true")])).unwrap();
    let told: Vec<_> = broken.iter().map(|gate| (gate.name.as_str(), gate.acknowledged)).collect();
    assert_eq!(told, [("ack-4.21", false), ("ack-4.21-keys", false)], "as the daemon takes them");
    let problems: Vec<_> = broken.iter().filter_map(|gate| gate.invalid.as_deref()).collect();
    assert!(problems[0].contains("is invalid") && problems[1].contains("has no text"), "{problems:?}");
    assert!(admin_gates::gates("x", &given, &acks).unwrap_err().contains("is not a semantic version"));
    assert!(admin_gates::gates("4.21.3", &Read::Absent, &acks).unwrap_err().contains("does not exist"));
    assert!(admin_gates::gates("4.21.3", &Read::Failed("no".into()), &acks).unwrap_err().ends_with("no"));
}
