use super::*;
use crate::object::manifest::Origin;
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
    let inputs = CapabilityInputs { spec, before: &set(before), always: &set(always), gates: &set(&[]) };
    let Capabilities { enabled, implicit, .. } = Capabilities::of(&inputs);
    (enabled, implicit)
}

#[test]
fn baseline_sets_grow_with_the_versions() {
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
fn enabled_capabilities_stay_enabled_and_become_implicit() {
    let none = spec("None", &[]);
    assert_eq!(of(&none, &[], &[]), (set(&[]), set(&[])), "nothing is enabled by itself");
    assert_eq!(of(&none, &[], &["Ingress"]), (set(&["Ingress"]), set(&["Ingress"])));
    let baremetal = spec("None", &["baremetal"]);
    let enabled = set(&["Console", "Ingress", "baremetal"]);
    assert_eq!(of(&baremetal, &["Console", "baremetal"], &["Ingress"]), (enabled, set(&["Console", "Ingress"])));
    // An unknown name is kept, since a newer release may know it.
    assert_eq!(of(&spec("None", &["Future"]), &[], &[]), (set(&["Future"]), set(&[])));
    // Once the spec asks for it, it is no longer implicit.
    assert_eq!(of(&spec("v4.12", &[]), &["Console"], &[]).1, set(&[]));
}

#[test]
fn gated_capabilities_do_not_exist_while_the_gate_is_off() {
    let table: [(&[&str], &[&str]); 3] = [
        (&[], &[]),
        (&["CRDCompatibilityRequirementOperator"], &["CompatibilityRequirements"]),
        (&["ClusterAPIMachineManagement"], &["ClusterAPI", "CompatibilityRequirements"]),
    ];
    for (gates, expected) in table {
        let spec = spec("None", &["ClusterAPI"]);
        let inputs = CapabilityInputs {
            spec: &spec,
            before: &set(&["CompatibilityRequirements"]),
            always: &set(&["ClusterAPI"]),
            gates: &set(gates),
        };
        let found = Capabilities::of(&inputs);
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
fn unknown_gated_capability_is_reported_with_its_gate() {
    let said = |gates: &[&str], needed: &str| {
        let (spec, none) = (spec("None", &["ClusterAPI"]), set(&[]));
        let inputs = CapabilityInputs { spec: &spec, before: &none, always: &none, gates: &set(gates) };
        Capabilities::of(&inputs).check(&manifest("a", needed)).err().unwrap_or_default()
    };
    assert_eq!(
        said(&[], "ClusterAPI+Future"),
        "unrecognized capability names: ClusterAPI (needs the feature gate ClusterAPIMachineManagement), Future"
    );
    let either = said(&[], "CompatibilityRequirements");
    assert!(either.ends_with("CRDCompatibilityRequirementOperator or ClusterAPIMachineManagement)"), "{either}");
    assert_eq!(said(&["ClusterAPIMachineManagement"], "ClusterAPI"), "");
}

/// A manifest enables the disabled capability into which it moved, but only if its object was managed before.
#[test]
fn managed_manifest_enables_the_capability_it_moved_into() {
    let table = [
        ("stays", "Console", "Console", ""),
        ("moved", "", "Build", "Build"),
        ("moved further", "Console", "Console+Build", "Build"),
        ("into an unknown one", "Console", "Future", "Future"),
        ("was not managed", "Build", "Build+Storage", ""),
        ("out of a disabled one", "Build", "", ""),
        ("into a gated one", "", "ClusterAPI", ""),
        ("into one that is implicit already", "", "Insights", ""),
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
        assert_eq!(capabilities.implicit.len(), 1 + expected.len(), "{name}: nothing is removed");
    }
}

#[test]
fn first_enabled_capability_may_be_an_implicit_one() {
    let mut capabilities = Capabilities::default();
    let implied = capabilities.imply(&[manifest("a", "Build")], &[manifest("a", "")], &set(&[]));
    assert_eq!(
        (implied, &capabilities.enabled, &capabilities.implicit),
        (set(&["Build"]), &set(&["Build"]), &set(&["Build"]))
    );
}
