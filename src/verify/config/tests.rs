use super::super::fixtures::Signer;
use super::*;
use crate::object::manifest::{ObjectId, Origin};

fn data(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn store_urls_are_parsed() {
    let digest = Digest::parse("sha256:ab").unwrap();
    let table = [
        (" https://a.example/base/ \n", Ok("https://a.example/base/sha256=ab/signature-2")),
        ("http://a.example", Ok("http://a.example/sha256=ab/signature-2")),
        ("file:///var/sigs/", Ok("/var/sigs/sha256=ab/signature-2")),
        ("file://localhost/var", Ok("/var/sha256=ab/signature-2")),
        ("file://host/var", Err("absolute path")),
        ("ftp://a.example", Err("not http, https or file")),
        ("a.example/x", Err("invalid")),
        ("/var/sigs", Err("not http, https or file")),
        ("https://a.example/?q=1", Err("query")),
        ("", Err("empty")),
    ];
    for (url, expected) in table {
        match (Store::parse(url).map(|s| s.location(&digest, 2)), expected) {
            (Ok(location), Ok(expected)) => assert_eq!(location, expected, "{url:?}"),
            (Err(cause), Err(part)) => assert!(cause.contains(part), "{url:?}: {cause}"),
            (got, expected) => panic!("{url:?}: {got:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn config_map_needs_a_keyring_and_a_store_and_invalid_keys_are_named() {
    let key = Signer::new("one").public();
    let good = [("verifier-public-key-a", key.as_str()), ("store-a", "https://a.example"), ("other", "x")];
    let config = Config::from_config_map(&data(&good)).unwrap();
    assert_eq!(config.keyrings.keys().collect::<Vec<_>>(), ["verifier-public-key-a"]);
    assert_eq!(config.stores, [Store::Http("https://a.example".to_owned())]);

    assert_eq!(Config::from_config_map(&data(&good[1..])).unwrap_err(), VerifyError::NoKeyring);
    assert_eq!(Config::from_config_map(&data(&good[..1])).unwrap_err(), VerifyError::NoStore);
    let bad_url = [good[0], ("store-b", "gopher://x")];
    let error = Config::from_config_map(&data(&bad_url)).unwrap_err().to_string();
    assert!(error.contains("store-b") && error.contains("gopher://x"), "{error}");
    for junk in ["", "not a key", "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nAAAA\n-----END PGP PUBLIC KEY BLOCK-----\n"]
    {
        let error = Config::from_config_map(&data(&[("verifier-public-key-b", junk), good[1]])).unwrap_err();
        assert!(error.to_string().contains("verifier-public-key-b"), "{error}");
    }
}

#[test]
fn identity_that_is_demanded_is_read_and_an_unusable_one_is_an_error() {
    let key = Signer::new("one").public();
    let identity = |value: &str| {
        let pairs =
            [("verifier-public-key-a", key.as_str()), ("store-a", "https://a.example"), ("identity-prefix", value)];
        Config::from_config_map(&data(&pairs)).map(|config| config.identity.unwrap())
    };
    assert_eq!(identity(" r.example/prod/\n"), Ok("r.example/prod".to_owned()));
    for value in ["", " ", "/", "https://r.example/prod", "r.example/a r.example/b"] {
        let error = identity(value).unwrap_err();
        assert!(error.to_string().contains("identity-prefix") && error.to_string().contains(value.trim()), "{error}");
    }
}

fn config_map(name: &str, annotated: bool, data: Value) -> Manifest {
    let annotations: &[(&str, &str)] = if annotated { &[(VERIFICATION_ANNOTATION, "")] } else { &[] };
    Manifest {
        origin: Origin::Release,
        file: format!("{name}.yaml").into(),
        index_in_file: 0,
        id: ObjectId::new("", "ConfigMap", "ns", name),
        api_version: "v1".to_owned(),
        annotations: self::data(annotations),
        raw: serde_json::to_vec(&serde_json::json!({ "data": data })).unwrap().into(),
    }
}

#[test]
fn first_annotated_config_map_of_a_release_is_used() {
    let key = Signer::new("one").public();
    let plain = config_map("a", false, serde_json::json!({}));
    let first = config_map("b", true, serde_json::json!({"verifier-public-key-b": key, "store-b": "file:///b"}));
    let second = config_map("c", true, serde_json::json!({"verifier-public-key-c": key, "store-c": "file:///c"}));
    let found = Config::from_manifests([&plain, &first, &second]).unwrap().unwrap();
    assert_eq!(found.keyrings.keys().collect::<Vec<_>>(), ["verifier-public-key-b"]);
    assert!(Config::from_manifests([&plain]).unwrap().is_none());
    let odd = config_map("d", true, serde_json::json!({"store-d": 7}));
    assert_eq!(Config::from_manifests([&odd]).unwrap_err(), VerifyError::ConfigShape);
}
