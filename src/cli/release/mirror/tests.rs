use super::*;

#[tokio::test]
async fn target_is_a_folder_or_a_repository_without_a_tag() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let (access, folder) = (Access::default(), tempfile::tempdir().unwrap());
    let found = target(&folder.path().display().to_string(), &access).await.unwrap();
    assert!(found.repository.is_none() && Layout::is_at(folder.path()));
    let found = target("r.example:5000/org/platform", &access).await.unwrap();
    assert_eq!(found.repository.unwrap().repository(), "org/platform");
    let by_digest = format!("r.example/org/platform@sha256:{}", "0".repeat(64));
    for wrong in ["r.example/org/platform:1.0", "platform", by_digest.as_str(), ""] {
        assert!(target(wrong, &access).await.is_err(), "{wrong}");
    }
}

#[test]
fn signatures_are_written_as_a_store_and_as_an_object_that_the_daemon_reads() {
    let folder = tempfile::tempdir().unwrap();
    let digest = Digest::given(&format!("sha256:{}", "ab".repeat(32))).unwrap();
    write_signatures(folder.path(), &digest, &[]).unwrap();
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    write_signatures(folder.path(), &digest, &[b"one".to_vec(), b"two".to_vec()]).unwrap();
    let store = folder.path().join("signatures").join(format!("sha256={}", "ab".repeat(32)));
    assert_eq!(std::fs::read(store.join("signature-2")).unwrap(), b"two");
    let object: Value = serde_yaml::from_slice(&std::fs::read(object_file(folder.path(), &digest)).unwrap()).unwrap();
    let prefix = digest.config_map_prefix();
    assert_eq!(object["metadata"]["labels"][SIGNATURES_LABEL], "");
    assert_eq!(object["binaryData"], json!({format!("{prefix}-1"): "b25l", format!("{prefix}-2"): "dHdv"}));
}

#[test]
fn release_is_unsigned_only_if_every_store_says_so() {
    let nothing = || Found::Nothing { source: "https://a".into() };
    let failure = || Found::Failure { source: "https://b".into(), cause: "connection refused".into() };
    let error = unsigned(&[nothing(), failure()], false).unwrap_err().to_string();
    assert!(error.starts_with("nothing is copied") && error.contains("--without-signatures"), "{error}");
    for (found, without, said) in [
        (&[nothing()][..], false, "No signature was found"),
        (&[nothing()], true, "No signature was found"),
        (&[failure()], true, "is not known"),
        (&[], false, "names no signature store"),
    ] {
        let told = unsigned(found, without).unwrap();
        assert!(told.contains(said), "{found:?}: {told}");
    }
}

#[tokio::test]
async fn folder_tells_where_manifests_name_its_images() {
    let (folder, media_type) = (tempfile::tempdir().unwrap(), oci_client::manifest::OCI_IMAGE_MEDIA_TYPE);
    let layout = Layout::create(folder.path()).await.unwrap();
    let add = async |name: &str, source: Option<&str>| {
        let content = name.as_bytes().to_vec();
        let digest = crate::net::registry::layer::sha256(&content);
        let annotations = source.map(|source| (SOURCE.to_owned(), source.to_owned())).into_iter().collect();
        let entry = Entry { name: name.to_owned(), digest, annotations };
        layout.add(entry, media_type, content.into(), true).await.unwrap();
    };
    add("1.0.0-x86_64", Some("r.example/release")).await;
    add("1.0.0-x86_64-a", Some("r.example/a")).await;
    add("1.0.0-x86_64-b", Some("r.example/a")).await;
    let read = || async { sources(Layout::open(folder.path()).entries().await.unwrap().iter()) };
    let known: BTreeSet<String> = ["r.example/a", "r.example/release"].map(str::to_owned).into();
    assert_eq!(read().await, (known.clone(), true));
    let set = mirror_set("mirror.example/platform", &known);
    let named = set.pointer("/spec/imageDigestMirrors/0").unwrap();
    assert_eq!(named, &json!({"source": "r.example/a", "mirrors": ["mirror.example/platform"]}));
    add("0.9.0-x86_64-old", None).await;
    assert_eq!(read().await, (known, false), "one of them is from an older program");
}
