use super::*;
use serde_json::json;

#[test]
fn profile_of_the_cluster_counts_only_if_all_servers_are_to_follow_it() {
    let flags = tls::Flags::default();
    let demanded = Demanded::new(flags.clone());
    let demands = demanded.subscribe();
    let modern = json!({"spec": {"tlsSecurityProfile": {"type": "Modern"}}});
    let modern = tls::Demands::of_cluster(&Tls::of(Some(&modern)), &flags).unwrap();
    let profile = |adherence: &str, profile: Value| {
        let object = json!({"spec": {"tlsAdherence": adherence, "tlsSecurityProfile": profile}});
        demanded.update(Some(&object));
        demands.borrow().clone()
    };
    for adherence in ["", "LegacyAdheringComponentsOnly"] {
        assert_eq!(profile(adherence, json!({"type": "Modern"})), flags.alone, "{adherence}");
    }
    let strict = profile("StrictAllComponents", json!({"type": "Modern"}));
    assert_ne!(modern, flags.alone);
    assert_eq!(strict, modern);
    // One that cannot be served leaves the last one in place.
    let bad = json!({"type": "Custom", "custom": {"minTLSVersion": "VersionTLS99", "ciphers": []}});
    assert_eq!(profile("StrictAllComponents", bad), strict);
    demanded.update(None);
    assert_eq!(*demands.borrow(), flags.alone, "without an APIServer only the flags count");
}
