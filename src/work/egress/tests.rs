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
    let failed = Read::Failed("no".to_owned());
    assert!(!known.on(Source::TrustBundle, &failed));
    assert!(!known.on(Source::Proxy, &proxy("http://p")));
    assert!(!known.on(Source::Proxy, &proxy("http://q")));
    assert!(!known.on(Source::TrustBundle, &failed), "an object that cannot be read may exist");
    assert!(known.on(Source::TrustBundle, &Read::Absent));
    assert_eq!(known.egress.proxy.as_ref().map(|proxy| proxy.https.as_str()), Some("http://q"));
    assert!(!known.on(Source::TrustBundle, &Read::Absent));
    assert!(!known.on(Source::Proxy, &failed), "the last settings stay");
    assert!(!known.on(Source::Proxy, &proxy("http://q")));
    assert!(known.on(Source::Proxy, &Read::Absent));
    assert_eq!(known.egress, Egress::default());
}
