//! What namespaces see of operators.

use super::*;
use crate::olm::operator::copies::shown::{Shown, ShownCsv};
use crate::olm::operator::copies::{Rules, content};

/// A version of this name in a namespace whose targets are these, as its annotation has them.
fn version(namespace: &str, name: &str, targets: &str) -> Value {
    let mut object = csv(name, "Succeeded", "InstallSucceeded");
    let metadata = json!({"namespace": namespace, "annotations": {"olm.targetNamespaces": targets, "kept": "x"},
        "labels": {"tier": "gold", "operators.coreos.com/a.shop": ""}, "creationTimestamp": at(1).to_string()});
    merge(&mut object["metadata"], &metadata);
    object
}

/// Of these versions in the namespaces `mall`, `park` and `shop`.
fn shown(versions: &[Value], rules: Rules) -> Shown {
    let originals = versions.iter().map(|object| {
        let csv: ClusterServiceVersion = typed(object.clone());
        let metadata = csv.metadata.clone();
        ((metadata.namespace.unwrap(), metadata.name.unwrap()), Arc::new(csv))
    });
    Shown::new(originals.collect(), [], ["mall", "park", "shop"].map(str::to_owned).into(), rules, at(11))
}

/// Names that a namespace sees, each with the namespace of its original.
fn seen(shown: &Shown, namespace: &str) -> Vec<String> {
    let of = |csv: &ShownCsv| {
        assert_eq!(csv.namespace, namespace);
        format!("{}@{}", csv.name(), csv.original.metadata.namespace.as_deref().unwrap())
    };
    shown.within(namespace).iter().map(of).collect()
}

#[test]
fn namespace_sees_its_own_versions_and_those_whose_operators_work_for_it() {
    let versions = [
        version("shop", "all", ""),
        version("shop", "some", "mall,shop"),
        version("shop", "own", "shop"),
        // It has the name of one that would be copied there.
        version("park", "all", "park"),
    ];
    let unwritten = Rules { is_virtual: true, ..Rules::default() };
    let shown = shown(&versions, unwritten);
    assert_eq!(seen(&shown, "shop"), ["all@shop", "own@shop", "some@shop"]);
    assert_eq!(seen(&shown, "mall"), ["all@shop", "some@shop"]);
    assert_eq!(seen(&shown, "park"), ["all@park"]);
    assert!(seen(&shown, "nowhere").is_empty());
    assert_eq!(Vec::from_iter(shown.namespaces("n")), ["park", "shop"]);
    assert!(shown.get("mall", "own").is_none() && shown.get("mall", "all").unwrap().is_copy());
}

#[test]
fn copies_that_are_switched_off_are_seen_in_protected_namespaces_alone() {
    let rules = Rules { disabled: true, is_virtual: true, protected: BTreeSet::from(["park".to_owned()]) };
    let shown = shown(&[version("shop", "all", ""), version("shop", "some", "mall")], rules);
    assert_eq!(seen(&shown, "mall"), ["some@shop"]);
    assert_eq!(seen(&shown, "park"), ["all@shop"]);
}

#[test]
fn version_that_belongs_to_no_group_that_fits_is_seen_at_home_alone() {
    let mut lost = version("shop", "lost", "");
    lost["status"]["reason"] = json!("NoOperatorGroup");
    let mut new = version("shop", "new", "");
    new["status"] = json!({});
    let mut passing = version("shop", "passing", "");
    passing["status"]["phase"] = json!("Installing");
    let shown = shown(&[lost, new, passing], Rules::default());
    assert_eq!(seen(&shown, "mall"), ["passing@shop"]);
    assert_eq!(seen(&shown, "shop").len(), 3);
}

#[test]
fn name_of_a_version_that_cannot_be_read_is_taken() {
    let csv: ClusterServiceVersion = typed(version("shop", "all", ""));
    let originals = BTreeMap::from([(("shop".to_owned(), "all".to_owned()), Arc::new(csv))]);
    let odd = ("mall".to_owned(), "all".to_owned());
    let namespaces = ["mall", "park"].map(str::to_owned).into();
    let shown = Shown::new(originals, [odd], namespaces, Rules::default(), at(11));
    assert!(seen(&shown, "mall").is_empty());
    assert_eq!(seen(&shown, "park"), ["all@shop"]);
}

#[test]
fn metadata_of_a_copy_say_where_it_is_from_and_not_what_is_for_pods() {
    let shown = shown(&[version("shop", "all", "")], Rules::default());
    let metadata = |namespace: &str| json!(shown.get(namespace, "all").unwrap().metadata());
    let labels = json!({"tier": "gold", "olm.copiedFrom": "shop", "olm.managed": "true"});
    assert_eq!(
        metadata("mall"),
        json!({"name": "all", "namespace": "mall", "creationTimestamp": at(1).to_string(), "labels": labels,
            "annotations": {"kept": "x"}})
    );
    let own = metadata("shop");
    assert_eq!((&own["uid"], &own["annotations"]["olm.targetNamespaces"]), (&json!("uid-all"), &json!("")));
    // What is copied where copies are written has the same.
    let written = content(&version("shop", "all", ""));
    assert_eq!(written.object["metadata"]["labels"], labels);
}
