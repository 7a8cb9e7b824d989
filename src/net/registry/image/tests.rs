use super::*;
use crate::net::registry::layer::{self, LayerFile};

fn one(path: &str, content: &str) -> Layer {
    let file = LayerFile { path: path.into(), mode: 0o755, bytes: content.into() };
    layer::write(&[file], 0, Packing::USUAL).unwrap()
}

fn base() -> Image {
    let start = Start {
        entrypoint: vec!["/usr/bin/cvo".into()],
        labels: [("vendor".to_string(), "x".to_string())].into(),
        env: vec!["A=b".into()],
        user: Some(65534),
        architecture: "amd64".into(),
    };
    scratch(&[one("usr/bin/cvo", "binary")], &start, Timestamp::UNIX_EPOCH).unwrap()
}

#[test]
fn appended_layer_keeps_the_base_and_replaces_its_labels() {
    let labels = [("io.openshift.release".to_string(), "1.0.0".to_string())].into();
    let created = "2026-01-02T03:04:05.5Z".parse().unwrap();
    let top = one("release-manifests/a.yaml", "a");
    let image = append(&base(), &top, &labels, created).unwrap();
    assert_eq!(image.manifest.layers.len(), 2);
    assert_eq!(image.manifest.layers[0].digest, base().manifest.layers[0].digest);
    assert_eq!(image.manifest.layers[1].digest, top.digest);
    assert_eq!(image.config["rootfs"]["diff_ids"][1], json!(top.diff_id));
    assert_eq!(image.config["config"]["Entrypoint"], json!(["/usr/bin/cvo"]));
    assert_eq!(image.config["config"]["User"], "65534");
    assert_eq!(image.config["created"], json!("2026-01-02T03:04:05Z"));
    assert_eq!(image.label("io.openshift.release"), Some("1.0.0"));
    assert_eq!(image.label("vendor"), None);
    assert_eq!(image.digest, sha256(&image.manifest_bytes));
    assert_eq!(image.manifest.config.digest, sha256(&image.config_bytes));
    assert_eq!(image.digest, append(&base(), &top, &labels, created).unwrap().digest);
}

#[test]
fn layer_has_the_media_type_of_its_manifest() {
    let mut docker = base();
    docker.media_type = IMAGE_MANIFEST_MEDIA_TYPE.into();
    let image = append(&docker, &one("a", "b"), &BTreeMap::new(), Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(image.manifest.layers[1].media_type, IMAGE_DOCKER_LAYER_GZIP_MEDIA_TYPE);
    assert_eq!(image.manifest.media_type.as_deref(), Some(IMAGE_MANIFEST_MEDIA_TYPE));
}

#[test]
fn base_whose_config_does_not_match_its_manifest_is_refused() {
    let mut broken = base();
    broken.config["rootfs"]["diff_ids"] = json!([]);
    let error = append(&broken, &one("a", "b"), &BTreeMap::new(), Timestamp::UNIX_EPOCH).unwrap_err().to_string();
    assert!(error.contains(&broken.digest) && error.contains("as many layers"), "{error}");
}
