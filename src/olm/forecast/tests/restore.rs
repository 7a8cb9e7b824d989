//! Going back to what an earlier plan has installed.

use super::*;
use crate::olm::forecast::restore::{looked_at, restored, since, subscribers};

const DEFINITION: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");

/// The second version is installed. The first plan, once more.
fn updated() -> (Known, InstallPlan) {
    let (mut known, mut next) = installed();
    for step in next.status.iter_mut().flat_map(|status| &mut status.plan).filter(|step| step.resource.kind == CSV.1) {
        step.resource.manifest = step.resource.manifest.replace(r#""spec":{"#, r#""spec":{"replaces":"w.v1","#);
    }
    assert!(foretold(&next, &mut known, &fit()).held.is_empty());
    (known, plan(&first(), ""))
}

fn back(known: &mut Known, first: &InstallPlan) -> Forecast {
    let since = since(&steps(first, &Found::default()), "ns", known);
    assert_eq!(since, [("w.v2".to_owned(), "w.v1".to_owned())].into());
    let unfit = fit();
    restored(&Premise { groups: &[group()], unfit: &unfit, values: false, ..premise(first) }, &since, known)
}

#[test]
fn what_has_come_since_goes_and_the_earlier_version_is_installed_anew() {
    let (mut known, first) = updated();
    insta::assert_snapshot!(written(&back(&mut known, &first)), @r"
    Delete ClusterServiceVersion ns/w.v2
    Delete OperatorCondition ns/w.v2
    Delete ClusterRole w.v2-9zjQrcfnOZ1PXdKIG00xn8DFVfOG3nprlWCiBK
    Delete ClusterRoleBinding w.v2-9zjQrcfnOZ1PXdKIG00xn8DFVfOG3nprlWCiBK
    Delete Role ns/w.v2-w-4JFnJCkGUSydXcRyjdaDOOuVyyKTq67g7RBciF
    Delete RoleBinding ns/w.v2-w-4JFnJCkGUSydXcRyjdaDOOuVyyKTq67g7RBciF
    Create InstallPlan ns/install-x
    Create ClusterServiceVersion ns/w.v1
    Update CustomResourceDefinition widgets.widgets.example.com: spec.versions[0].schema.openAPIV3Schema.properties.spec.properties
    Replace ServiceAccount ns/w
    Create ClusterRole w.v1-1aBBMGots8PIVlf8vBARCUzbpdTxUrRzhWqkmq
    Create ClusterRoleBinding w.v1-1aBBMGots8PIVlf8vBARCUzbpdTxUrRzhWqkmq
    Replace Deployment ns/widgets
    ");
}

/// A version that is stored and that the earlier definition does not have cannot be read any more.
#[test]
fn stored_version_that_would_go_forbids_the_way_back() {
    let (mut known, first) = updated();
    let key = Key::new(DEFINITION, "", &format!("widgets.{GROUP}"));
    let mut live = (*known.object(&key).unwrap()).clone();
    live["status"] = json!({"storedVersions": ["v1", "v2"]});
    known.add(key, Read::Value(live));
    let found = back(&mut known, &first);
    assert_eq!(found.held.len(), 1, "{found:?}");
    assert!(found.held[0].contains("removes version v2 that is listed as a stored version"), "{found:?}");
    assert_eq!(written(&found), "", "nothing is deleted where nothing can take its place");
}

/// Versions in between go when the last one is there. What it owns tells what it has come from.
#[test]
fn version_whose_predecessors_are_gone_is_known_by_what_it_owns() {
    let (mut known, first) = updated();
    let owning = |name: &str, replaces: &str, owned: &str| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": name, "namespace": "ns", "uid": name},
            "spec": {"replaces": replaces, "customresourcedefinitions": {"owned": [{"name": owned, "version": "v1", "kind": "X"}]},
                "install": {"spec": {"deployments": [{"name": "of-it"}]}}}})
    };
    for (name, object) in [
        ("w.v2", owning("w.v2", "w.v1", "a")),
        ("w.v4", owning("w.v4", "w.v3", "widgets.example")),
        ("w.v5", owning("w.v5", "w.v4", "b")),
        ("other", owning("other", "w.v0", "c")),
    ] {
        known.add(Key::new(CSV, "ns", name), Read::Value(object));
    }
    let mut own = steps(&first, &Found::default());
    let csv = own.iter_mut().flatten().find(|item| item.is(CSV)).unwrap();
    csv.object["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "widgets.example", "version": "v1", "kind": "X"}]});
    let since = since(&own, "ns", &known);
    assert_eq!(since.keys().collect::<Vec<_>>(), ["w.v2", "w.v4", "w.v5"]);
    assert!(since.values().all(|origin| origin == "w.v1"));
    assert!(
        looked_at(&since, "ns", &known)
            .contains(&("apps/v1".to_owned(), Key::new(("apps", "Deployment"), "ns", "of-it")))
    );
    let asks = |current: &str, installed: &str| Subscriber {
        current_csv: current.to_owned(),
        installed_csv: installed.to_owned(),
        ..Subscriber::default()
    };
    let after = subscribers(&[asks("w.v5", "w.v5"), asks("other", "other")], &since);
    assert_eq!(after, [asks("w.v1", ""), asks("other", "other")]);
}
