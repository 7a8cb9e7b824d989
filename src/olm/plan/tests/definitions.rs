use super::super::definition::{is_converted, is_lenient, risks, stricter, too_restrictive, with_live_conversion};
use super::super::step::Csv;
use super::*;

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
    let unserved = |version: &str| {
        format!("updating \"as.example.com\" would end serving its version {version}, which clients may use")
    };
    assert_eq!(texts(&plain(&[("v2", true)])), [(false, stored.to_owned()), (true, unserved("v1"))]);
    assert_eq!(texts(&plain(&[("v1", false), ("v2", true)])), [(true, unserved("v1"))], "stored and not served");
    assert_eq!(texts(&plain(&[("v1", true)])), [(true, unserved("v2"))]);
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
