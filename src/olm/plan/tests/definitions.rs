use super::super::definition::{
    Risk, add_unfit, is_converted, is_lenient, risks, stricter, too_restrictive, with_live_conversion,
};
use super::super::schema::Schema;
use super::super::step::{Action, Csv, Item};
use super::super::together::Together;
use super::*;
use std::sync::Arc;

fn version(name: &str, served: bool, schema: &Value) -> Value {
    json!({"name": name, "served": served, "storage": false, "schema": {"openAPIV3Schema": schema}})
}

fn definition(versions: &[Value], stored: &[&str]) -> Value {
    json!({"metadata": {"name": "as.example.com"}, "spec": {"group": "example.com", "scope": "Namespaced",
        "names": {"kind": "A", "plural": "as"}, "versions": versions}, "status": {"storedVersions": stored}})
}

fn plain(names: &[(&str, bool)]) -> Value {
    let versions: Vec<Value> =
        names.iter().map(|(name, served)| version(name, *served, &json!({"type": "object"}))).collect();
    definition(&versions, &["v1"])
}

#[test]
fn version_that_objects_are_stored_in_or_clients_use_must_stay() {
    let live = plain(&[("v1", true), ("v2", true), ("v3", false)]);
    let texts =
        |new: &Value| risks(&live, new).into_iter().map(|risk| (risk.may_be_taken, risk.text)).collect::<Vec<_>>();
    assert_eq!(texts(&live), []);
    assert_eq!(texts(&plain(&[("v1", true), ("v2", true), ("v4", true)])), [], "v3 was not served");
    let stored = "risk of data loss updating \"as.example.com\": new CRD removes version v1 that is listed as a stored version \
        on the existing CRD";
    let removed = |version: &str| {
        format!("updating \"as.example.com\" would remove its version {version}, which is served and clients may use")
    };
    assert_eq!(texts(&plain(&[("v2", true)])), [(false, stored.to_owned()), (true, removed("v1"))]);
    assert_eq!(texts(&plain(&[("v1", true)])), [(true, removed("v2"))]);
}

/// So authors take a version back: first it is not served any more, and removed in a later release.
#[test]
fn version_may_stay_without_being_served() {
    let live = plain(&[("v1", true), ("v2", true)]);
    for new in [[("v1", false), ("v2", true)], [("v1", true), ("v2", false)]] {
        assert_eq!(risks(&live, &plain(&new)), []);
    }
    assert_eq!(risks(&plain(&[("v1", true), ("v2", false)]), &plain(&[("v1", true)])), []);
}

#[test]
fn what_cannot_be_changed_is_told_before() {
    let live = plain(&[("v1", true)]);
    for (field, pointer) in [("scope", "/spec/scope"), ("group", "/spec/group"), ("kind", "/spec/names/kind")] {
        let mut new = live.clone();
        *new.pointer_mut(pointer).unwrap() = json!("Other");
        let [risk] = &risks(&live, &new)[..] else { panic!("{field}") };
        assert!(risk.text.contains(&format!("its {field} from")) && !risk.may_be_taken, "{}", risk.text);
    }
}

#[test]
fn objects_are_compared_with_schemas_that_change_of_versions_that_stay_served() {
    let (old, new) = (json!({"type": "object"}), json!({"type": "object", "required": ["spec"]}));
    let live = definition(&[version("v1", true, &old), version("v2", false, &old), version("v3", true, &new)], &["v1"]);
    let wanted = definition(&[version("v1", true, &new), version("v2", true, &new), version("v3", true, &new)], &[]);
    let found = stricter(&live, &wanted);
    assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["v1"]);
    assert_eq!(found[0].1.faults(&json!({})), ["spec: is required"]);
    let text = too_restrictive("as.example.com", "v1", &["shop/x: spec: is required".to_owned()], true);
    assert!(
        text.starts_with("error validating existing CRs against new CRD's schema for \"as.example.com\""),
        "{text}"
    );
    assert!(text.ends_with("updated validation is too restrictive") && text.contains("shop/x"), "{text}");
}

#[test]
fn ten_objects_that_do_not_fit_are_named_over_all_pages() {
    let schema = Schema::new(json!({"type": "object", "required": ["spec"]}));
    let objects: Vec<Value> =
        (0..12).map(|at| json!({"metadata": {"namespace": "shop", "name": format!("a{at}")}})).collect();
    let fits = json!({"metadata": {"name": "fits"}, "spec": {}});
    let mut invalid = Vec::new();
    assert!(add_unfit(&mut invalid, &schema, &[&objects[..9], &[fits]].concat()));
    assert!(add_unfit(&mut invalid, &schema, &objects[9..10]), "ten are all of them");
    assert!(!add_unfit(&mut invalid, &schema, &objects[10..]));
    assert_eq!((invalid.len(), invalid[9].as_str()), (10, "shop/a9: spec: is required"));
    let text = |is_all| too_restrictive("as.example.com", "v1", &invalid, is_all);
    assert!(text(false).contains("shop/a9: spec: is required; there may be more: updated"), "{}", text(false));
    assert!(!text(true).contains("more"), "{}", text(true));
}

#[test]
fn live_conversion_stays_as_the_installation_has_written_it() {
    let mut live = plain(&[("v1", true)]);
    live["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"clientConfig": {"caBundle": "Yg=="}}});
    let mut new = plain(&[("v1", true), ("v2", true)]);
    new["spec"]["conversion"] =
        json!({"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"namespace": "system"}}}});
    let kept = with_live_conversion(&live, new.clone());
    assert_eq!(kept["spec"]["conversion"], live["spec"]["conversion"]);
    assert_eq!(kept["spec"]["versions"], new["spec"]["versions"]);
    assert!(is_converted(&kept) && !is_converted(&plain(&[])));
    let csv = json!({"metadata": {"name": "a"}, "spec": {"webhookdefinitions": [
        {"type": "ConversionWebhook", "conversionCRDs": ["as.example.com"]},
        {"type": "ValidatingAdmissionWebhook", "conversionCRDs": ["bs.example.com"]}]}});
    assert_eq!(Csv::read(&csv).converted.into_iter().collect::<Vec<_>>(), ["as.example.com"]);
}

#[test]
fn administrator_may_take_a_risk() {
    let mut live = plain(&[("v1", true)]);
    assert!(!is_lenient(&live));
    live["metadata"]["annotations"] = json!({"olm.operatorframework.io/crd-safety": "warn"});
    assert!(is_lenient(&live));
    live["metadata"]["annotations"] = json!({"olm.operatorframework.io/crd-safety": "none"});
    assert!(!is_lenient(&live));
}

/// The one whose objects are at stake is the operator that owns the definition, so that it has to be one.
#[test]
fn risk_is_taken_for_the_definition_of_a_single_operator_only() {
    let lenient = |mut live: Value| {
        live["metadata"]["annotations"] = json!({"olm.operatorframework.io/crd-safety": "warn"});
        live
    };
    let owner = |namespace: &str, is_deleted: bool| {
        let owned = [if namespace == "elsewhere" { "bs.example.com" } else { "as.example.com" }.to_owned()].into();
        Arc::new(Csv { namespace: namespace.to_owned(), name: "a.v1".to_owned(), owned, is_deleted, ..Csv::default() })
    };
    let risk = |text: &str, may_be_taken: bool| Risk { text: text.to_owned(), may_be_taken };
    let (live, strict) = (lenient(plain(&[("v1", true)])), plain(&[("v1", true)]));
    let [shop, mall, going, elsewhere] =
        [owner("shop", false), owner("mall", false), owner("mall", true), owner("elsewhere", false)];
    let next = Arc::new(Csv { name: "a.v2".to_owned(), replaces: "a.v1".to_owned(), ..(*shop).clone() });
    for (live, known, taken) in [
        (&live, vec![], vec!["schema"]),
        (&live, vec![shop.clone()], vec!["schema"]),
        (&live, vec![shop.clone(), going, elsewhere], vec!["schema"]),
        (&live, vec![shop.clone(), mall.clone()], vec![]),
        (&live, vec![shop.clone(), next.clone()], vec!["schema"]),
        (&live, vec![shop.clone(), next, mall], vec![]),
        (&strict, vec![shop], vec![]),
    ] {
        let together = Together::of(&[], known);
        let (found, refused) =
            together.judged("as.example.com", live, vec![risk("schema", true), risk("stored", false)]);
        let texts = |all: &[Risk]| all.iter().map(|it| it.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&found), taken);
        assert_eq!(refused.len(), 2 - taken.len());
        assert!(texts(&refused).contains(&"stored".to_owned()), "never for stored versions");
    }
}

#[test]
fn operators_of_other_namespaces_that_own_a_definition_are_named_where_it_changes() {
    let csv = |namespace: &str, name: &str, owned: &str, is_deleted: bool| {
        let owned = [owned.to_owned()].into();
        Arc::new(Csv { namespace: namespace.to_owned(), name: name.to_owned(), owned, is_deleted, ..Csv::default() })
    };
    let known = vec![
        csv("shop", "a.v1", "as.example.com", false),
        csv("mall", "a.v2", "as.example.com", false),
        csv("gone", "a.v3", "as.example.com", true),
        csv("other", "b.v1", "bs.example.com", false),
    ];
    let together = Together::of(&[], known);
    let whole = |mut definition: Value| {
        definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
        definition["kind"] = json!("CustomResourceDefinition");
        definition
    };
    let (live, new) = (whole(plain(&[("v1", true)])), whole(plain(&[("v1", true), ("v2", true)])));
    let mut alone = live.clone();
    alone["metadata"]["annotations"] = json!({"operatorframework.io/installed-alongside-1": "shop/a.v1"});
    let item = Item {
        place: 0,
        resolving: String::new(),
        optional: false,
        action: Action::Define,
        api_version: "apiextensions.k8s.io/v1".to_owned(),
        group: "apiextensions.k8s.io".to_owned(),
        kind: "CustomResourceDefinition".to_owned(),
        name: "as.example.com".to_owned(),
        object: new.clone(),
    };
    let told = |new: &Value, namespace: &str| together.shared(&item, (&live, new), namespace);
    let says = |owners: &str| {
        Some(format!("as.example.com changes for operators of other namespaces too, which own it as it was: {owners}"))
    };
    assert_eq!(told(&new, "shop"), says("mall/a.v2"));
    assert_eq!(told(&new, "another"), says("mall/a.v2, shop/a.v1"));
    assert_eq!([told(&live, "shop"), told(&alone, "shop")], [None, None], "it stays what it is");
}

#[test]
fn definition_that_is_nonsense_does_no_harm() {
    let live = plain(&[("v1", true)]);
    for nonsense in [json!(null), json!({"spec": []}), json!({"spec": {"versions": [3, {"name": 1}], "conversion": 7}})]
    {
        assert!(!risks(&live, &nonsense).is_empty());
        let (_, _, _) =
            (stricter(&live, &nonsense), risks(&nonsense, &live), with_live_conversion(&live, nonsense.clone()));
    }
}
