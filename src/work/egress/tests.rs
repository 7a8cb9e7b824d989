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
