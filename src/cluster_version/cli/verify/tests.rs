use super::*;
use crate::verify::fixtures::Signer;
use serde_json::{Value, json};

#[test]
fn digest_may_stand_in_a_pull_spec() {
    let text = "sha256:00ab";
    for given in [text.to_owned(), format!("registry.example.com/release@{text}")] {
        assert_eq!(Digest::given(&given).unwrap().to_string(), text);
    }
    for given in ["registry.example.com/release:1", "sha256", "", "registry.example.com/release@"] {
        assert!(Digest::given(given).is_err(), "{given}");
    }
}

#[test]
fn cluster_demands_what_its_release_has_and_stores_of_the_spec_count_instead() {
    let signer = Signer::new("one");
    let map = |name: &str, annotations: Value| -> ConfigMap {
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations},
            "data": {"verifier-public-key-one": signer.public(), "store-one": "https://signatures.example.com"}}))
        .unwrap()
    };
    let maps = || vec![map("other", json!({})), map("verification", json!({VERIFICATION_ANNOTATION: ""}))];
    let urls = |demanded: &Demanded| demanded.stores.iter().map(|(store, _)| store.to_string()).collect::<Vec<_>>();
    let own = demanded(maps(), None).unwrap();
    assert_eq!(own.config.keyring_names().collect::<Vec<_>>(), ["verifier-public-key-one"]);
    assert_eq!(urls(&own), ["https://signatures.example.com"]);
    let store = |url: &str| SignatureStore { url: url.into(), ca: Some(ConfigMapName { name: "ca".into() }) };
    let own = demanded(maps(), Some(vec![store("https://mirror.example.com/")])).unwrap();
    assert_eq!(urls(&own), ["https://mirror.example.com"]);
    assert_eq!(own.stores[0].1, store("").ca, "with its CA");
    assert_eq!(urls(&demanded(maps(), Some(Vec::new())).unwrap()), Vec::<String>::new());
    let wrong = demanded(maps(), Some(vec![store("ftp://x")])).map(|_| ()).unwrap_err();
    assert!(wrong.to_string().contains("spec.signatureStores: ftp://x: "), "{wrong}");
    let none = demanded(vec![map("other", json!({}))], None).map(|_| ()).unwrap_err();
    assert!(none.to_string().contains("by force only"), "{none}");
}

#[test]
fn stores_of_the_spec_count_with_their_feature_gate_only() {
    let enabled = |version: &str, gates: &[&str]| Features {
        gates: [(version.to_owned(), gates.iter().map(|gate| (*gate).to_owned()).collect())].into(),
        ..Features::default()
    };
    let version = json!({"spec": {"signatureStores": [{"url": "https://a", "ca": {"name": "ca"}}]},
        "status": {"desired": {"version": "1.0.0"}}});
    let ca = Some(ConfigMapName { name: "ca".into() });
    let on = enabled("1.0.0", &["Other", "SignatureStores"]);
    assert_eq!(named(&version, &on).unwrap(), Some(vec![SignatureStore { url: "https://a".into(), ca }]));
    assert_eq!(named(&json!({"spec": {}, "status": version["status"]}), &on).unwrap(), None, "none are named");
    for off in [enabled("1.0.0", &["Other"]), enabled("2.0.0", &["SignatureStores"]), Features::default()] {
        assert_eq!(named(&version, &off).unwrap(), None, "{off:?}");
    }
}
