use super::*;
use serde_json::json;

#[test]
fn effective_proxy_is_in_the_status_of_the_object() {
    let mut egress = Egress::default();
    let object = json!({"spec": {"httpProxy": "http://spec"},
        "status": {"httpProxy": " http://p ", "httpsProxy": "https://q", "noProxy": "a,b"}});
    Source::Proxy.update(&mut egress, Some(&object));
    let expected = ProxySettings { http: "http://p".into(), https: "https://q".into(), none: "a,b".into() };
    assert_eq!(egress.proxy, Some(expected));
    for none in [None, Some(json!({"spec": {"httpProxy": "http://spec"}})), Some(json!({"status": {"noProxy": "a"}}))] {
        Source::Proxy.update(&mut egress, none.as_ref());
        assert_eq!(egress.proxy, None);
    }
}

#[test]
fn bundle_replaces_the_roots_unless_it_is_empty() {
    let mut egress = Egress::default();
    Source::TrustBundle.update(&mut egress, Some(&json!({"data": {"ca-bundle.crt": "pem"}})));
    assert!(matches!(&egress.roots, Roots::Only(bundle) if bundle.pem == "pem"
        && bundle.origin == "ConfigMap openshift-config-managed/trusted-ca-bundle, key ca-bundle.crt"));
    for none in
        [None, Some(json!({})), Some(json!({"data": {"ca-bundle.crt": " \n"}})), Some(json!({"data": {"x": "y"}}))]
    {
        Source::TrustBundle.update(&mut egress, none.as_ref());
        assert_eq!(egress.roots, Roots::System);
    }
}

#[test]
fn way_is_told_when_both_objects_were_read_and_when_it_changes() {
    let mut known = Known::default();
    let proxy = |url: &str| Read::Value(json!({"status": {"httpsProxy": url}}));
    let failed = || Read::Failed("configmaps is forbidden".to_owned());
    let proxy_of = |known: &Known| match known.way(true) {
        Some(Ok(Egress { proxy, .. })) => proxy.map(|proxy| proxy.https),
        other => Some(format!("{other:?}")),
    };
    known.on(Source::TrustBundle, failed());
    known.on(Source::Proxy, proxy("http://p"));
    known.on(Source::Proxy, proxy("http://q"));
    assert_eq!(known.way(true), None, "an object that cannot be read may exist");
    let told = known.way(false).unwrap().unwrap_err();
    assert!(
        told.ends_with("ConfigMap openshift-config-managed/trusted-ca-bundle cannot be read: configmaps is forbidden")
    );
    known.on(Source::TrustBundle, Read::Absent);
    assert_eq!(proxy_of(&known).as_deref(), Some("http://q"));
    for unreadable in [Source::Proxy, Source::TrustBundle] {
        known.on(unreadable, failed());
        assert_eq!(proxy_of(&known).as_deref(), Some("http://q"), "the last settings stay");
    }
    known.on(Source::Proxy, Read::Absent);
    assert_eq!(known.way(true), Some(Ok(Egress::default())));
    // Of neither is anything known.
    let told = Known::default().way(false).unwrap().unwrap_err();
    assert!(told.contains("Proxy cluster cannot be read: there is no answer yet; ConfigMap"), "{told}");
}
