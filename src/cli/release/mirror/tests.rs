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
