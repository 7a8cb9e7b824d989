use super::*;
use crate::payload::manifest::Origin;
use std::collections::BTreeMap;

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

fn spec(baseline: &str, additional: &[&str]) -> CapabilitiesSpec {
    CapabilitiesSpec {
        baseline_capability_set: baseline.into(),
        additional_enabled_capabilities: additional.iter().map(|n| (*n).to_owned()).collect(),
    }
}

/// Enabled and implicit, for a cluster without gates.
fn of(spec: &CapabilitiesSpec, before: &[&str], always: &[&str]) -> (BTreeSet<String>, BTreeSet<String>) {
    let wish = Wish { spec, before: &set(before), always: &set(always), gates: &set(&[]) };
    let Capabilities { enabled, implicit, .. } = Capabilities::of(&wish);
    (enabled, implicit)
}

#[test]
fn baselines_grow_with_the_versions() {
    let sizes = [
        ("None", 0),
        ("v4.11", 4),
        ("v4.12", 8),
        ("v4.13", 9),
        ("v4.14", 12),
        ("v4.15", 14),
        ("v4.16", 16),
        ("v4.17", 16),
        ("v4.18", 17),
        ("vCurrent", 19),
        ("", 19),
        ("v9.99", 0),
    ];
    for (name, size) in sizes {
        assert_eq!(baseline(name).collect::<BTreeSet<_>>().len(), size, "{name:?}");
    }
    assert_eq!(names().len(), 19);
}

#[test]
fn what_was_enabled_stays_enabled_and_is_told() {
    let none = spec("None", &[]);
    assert_eq!(of(&none, &[], &[]), (set(&[]), set(&[])), "an empty set is a set");
    assert_eq!(of(&none, &[], &["Ingress"]), (set(&["Ingress"]), set(&["Ingress"])));
    let wanted = spec("None", &["baremetal"]);
    let enabled = set(&["Console", "Ingress", "baremetal"]);
    assert_eq!(of(&wanted, &["Console", "baremetal"], &["Ingress"]), (enabled, set(&["Console", "Ingress"])));
    // What a later release may know is kept.
    assert_eq!(of(&spec("None", &["Future"]), &[], &[]), (set(&["Future"]), set(&[])));
    // Asked for at last: no longer implicit, and nothing else changes.
    assert_eq!(of(&spec("v4.12", &[]), &["Console"], &[]).1, set(&[]));
}

#[test]
fn gated_names_do_not_exist_without_a_gate() {
    let table: [(&[&str], &[&str]); 3] = [
        (&[], &[]),
        (&["CRDCompatibilityRequirementOperator"], &["CompatibilityRequirements"]),
        (&["ClusterAPIMachineManagement"], &["ClusterAPI", "CompatibilityRequirements"]),
    ];
    for (gates, expected) in table {
        let spec = spec("None", &["ClusterAPI"]);
        let wish = Wish {
            spec: &spec,
            before: &set(&["CompatibilityRequirements"]),
            always: &set(&["ClusterAPI"]),
            gates: &set(gates),
        };
        let found = Capabilities::of(&wish);
        assert_eq!(found.enabled, set(expected), "{gates:?}");
        let shown: BTreeSet<_> =
            GATED.iter().map(|(n, _)| (*n).to_owned()).filter(|n| found.known.contains(n)).collect();
        assert_eq!(shown, set(expected), "{gates:?}");
        assert_eq!(found.known.len(), 17 + expected.len());
        assert!(found.implicit.is_subset(&found.enabled));
    }
}

fn manifest(name: &str, capabilities: &str) -> Arc<Manifest> {
    let annotation = ("capability.openshift.io/name".to_owned(), capabilities.to_owned());
    Arc::new(Manifest {
        origin: Origin::Release,
        file: "0000_50_a_b.yaml".into(),
        index_in_file: 0,
        id: ObjectId::new("", "ConfigMap", "ns", name),
        api_version: "v1".into(),
        annotations: BTreeMap::from([annotation]),
        raw: b"{}".as_slice().into(),
    })
}

#[test]
fn what_a_gate_keeps_away_is_told_with_the_gate() {
    let said = |gates: &[&str], needed: &str| {
        let (spec, none) = (spec("None", &["ClusterAPI"]), set(&[]));
        let wish = Wish { spec: &spec, before: &none, always: &none, gates: &set(gates) };
        Capabilities::of(&wish).check(&manifest("a", needed)).err().unwrap_or_default()
    };
    assert_eq!(
        said(&[], "ClusterAPI+Future"),
        "unrecognized capability names: ClusterAPI (needs the feature gate ClusterAPIMachineManagement), Future"
    );
    let either = said(&[], "CompatibilityRequirements");
    assert!(either.ends_with("CRDCompatibilityRequirementOperator or ClusterAPIMachineManagement)"), "{either}");
    assert_eq!(said(&["ClusterAPIMachineManagement"], "ClusterAPI"), "");
}

/// §10.9: whoever moves into a disabled capability takes it along; whoever was not managed does not.
#[test]
fn a_manifest_that_moves_enables_its_capability() {
    let table = [
        ("stays", "Console", "Console", ""),
        ("moved", "", "Build", "Build"),
        ("moved further", "Console", "Console+Build", "Build"),
        ("into one that nobody here knows", "Console", "Future", "Future"),
        ("was not managed", "Build", "Build+Storage", ""),
        ("out of a disabled one", "Build", "", ""),
        ("into a gated one", "", "ClusterAPI", ""),
        ("into what was implied before", "", "Insights", ""),
    ];
    for (name, before, after, implied) in table {
        let mut capabilities = Capabilities {
            known: set(&["Console", "Build", "Storage", "Insights"]),
            enabled: set(&["Console", "Insights"]),
            implicit: set(&["Insights"]),
        };
        let (old, new) = ([manifest("a", before)], [manifest("a", after), manifest("new", "Storage")]);
        let expected: BTreeSet<String> =
            Some(implied).filter(|i| !i.is_empty()).map(str::to_owned).into_iter().collect();
        assert_eq!(capabilities.imply(&new, &old, &set(&[])), expected, "{name}");
        assert!(capabilities.enabled.is_superset(&expected) && capabilities.implicit.is_superset(&expected), "{name}");
        assert_eq!(capabilities.implicit.len(), 1 + expected.len(), "{name}: nothing is taken away");
    }
}

/// §10.9: the set may have been empty before (§2.7).
#[test]
fn the_first_capability_may_be_an_implied_one() {
    let mut capabilities = Capabilities::default();
    let implied = capabilities.imply(&[manifest("a", "Build")], &[manifest("a", "")], &set(&[]));
    assert_eq!(
        (implied, &capabilities.enabled, &capabilities.implicit),
        (set(&["Build"]), &set(&["Build"]), &set(&["Build"]))
    );
}
