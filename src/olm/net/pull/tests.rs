use super::*;
use crate::net::registry::Access;
use crate::net::registry::image::{self, Image, Start};
use crate::net::registry::layer::{self, LayerFile, Packing};
use crate::net::registry::source::parse;
use crate::net::registry::tests::Fake;
use crate::olm::source::content::Content;
use jiff::Timestamp;
use tokio::sync::Semaphore;

const CATALOG: &str = r#"{"schema": "olm.package", "name": "NAME", "defaultChannel": "stable"}
{"schema": "olm.channel", "package": "NAME", "name": "stable", "entries": [{"name": "NAME.v1.0.0"}]}
{"schema": "olm.bundle", "package": "NAME", "name": "NAME.v1.0.0", "image": "quay.io/a/NAME:1", "properties":
 [{"type": "olm.package", "value": {"packageName": "NAME", "version": "1.0.0"}}]}"#;

/// Pushes an image with a catalog of one package, which has the name of its folder.
async fn pushed(fake: &Fake, name: &str, folder: &str, labels: &[(&str, &str)]) -> Image {
    let text = CATALOG.replace("NAME", folder);
    let file = LayerFile { path: format!("{folder}/catalog.json"), mode: 0o444, bytes: text.into() };
    let layers = vec![layer::write(&[file], 0, Packing::USUAL).unwrap()];
    let labels = labels.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let image = image::scratch(&layers, &Start { labels, ..Start::default() }, Timestamp::UNIX_EPOCH).unwrap();
    fake.repository(name, &Access::default()).push(&image, layers, None).await.unwrap();
    image
}

async fn permit() -> OwnedSemaphorePermit {
    Arc::new(Semaphore::new(1)).acquire_owned().await.unwrap()
}

async fn place() -> Result<OwnedSemaphorePermit, StoreError> {
    Ok(permit().await)
}

/// The packages of the catalog in an image, or the error.
async fn read(fake: &Fake, name: &str, directory: &str) -> Result<String, PullError> {
    let root = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(root.path(), 0).unwrap());
    let reference = parse(&format!("{}/{name}", fake.address())).unwrap();
    let opened = open(&Sources::default(), &reference, None).await?;
    let content = Content::of_image("a", &opened.image.named, directory);
    let stored = image(&store, &opened, directory, Key::of(&content), place()).await?;
    let names: Vec<&str> = stored.content.index.packages().map(|package| package.name()).collect();
    Ok(names.join(" "))
}

#[tokio::test]
async fn folder_of_the_catalog_is_that_of_the_spec_else_that_of_the_image() {
    let fake = Fake::start().await;
    pushed(&fake, "a/plain:1", "configs", &[]).await;
    pushed(&fake, "a/labelled:1", "other", &[(CONFIGS_LABEL, "/other")]).await;
    assert_eq!(read(&fake, "a/plain:1", "").await.unwrap(), "configs");
    assert_eq!(read(&fake, "a/labelled:1", "").await.unwrap(), "other");
    assert_eq!(read(&fake, "a/labelled:1", "/other").await.unwrap(), "other");
    let error = read(&fake, "a/labelled:1", "/configs").await.unwrap_err();
    assert!(error.is_of_content());
    let text = error.to_string();
    for words in ["a/labelled:1", "sha256:", "/configs", "catalogDir"] {
        assert!(text.contains(words), "{text}");
    }
}

#[tokio::test]
async fn image_with_a_database_is_refused_and_says_why() {
    let fake = Fake::start().await;
    pushed(&fake, "a/old:1", "database", &[(DATABASE_LABEL, "/database/index.db")]).await;
    let error = read(&fake, "a/old:1", "").await.unwrap_err();
    assert!(error.is_of_content());
    let text = error.to_string();
    assert!(text.contains("/database/index.db") && text.contains("only its own program can read"), "{text}");
    // Both labels: the files come before.
    pushed(&fake, "a/both:1", "both", &[(DATABASE_LABEL, "/x.db"), (CONFIGS_LABEL, "/both")]).await;
    assert_eq!(read(&fake, "a/both:1", "").await.unwrap(), "both");
}

#[tokio::test]
async fn image_that_is_not_there_may_come_later() {
    let fake = Fake::start().await;
    let error = read(&fake, "a/none:1", "").await.unwrap_err();
    assert!(!error.is_of_content() && error.to_string().contains("404"), "{error}");
}

#[tokio::test]
async fn digest_that_is_asked_for_is_read_although_the_tag_has_moved_on() {
    let fake = Fake::start().await;
    let before = pushed(&fake, "a/cat:1", "before", &[]).await;
    let now = pushed(&fake, "a/cat:1", "now", &[]).await;
    let reference = parse(&format!("{}/a/cat:1", fake.address())).unwrap();
    for image in [&before, &now] {
        let opened = open(&Sources::default(), &reference, Some(&image.digest)).await.unwrap();
        assert_eq!(opened.image.digest, image.digest);
    }
    assert_eq!(open(&Sources::default(), &reference, None).await.unwrap().image.digest, now.digest);
    let gone = format!("sha256:{}", "0".repeat(64));
    assert!(open(&Sources::default(), &reference, Some(&gone)).await.is_err());
}

#[tokio::test]
async fn config_map_becomes_a_catalog_and_nothing_is_left_of_one_that_is_none() {
    let root = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(root.path(), 1 << 20).unwrap());
    let csv = "- apiVersion: operators.coreos.com/v1alpha1\n  kind: ClusterServiceVersion\n  metadata: {name: etcd.v1.0.0}\n  \
               spec: {version: 1.0.0, install: {strategy: deployment, spec: {deployments: []}}}\n";
    let packages = "- packageName: etcd\n  channels:\n  - name: alpha\n    currentCSV: etcd.v1.0.0\n";
    let data = BTreeMap::from([
        ("clusterServiceVersions".to_owned(), csv.to_owned()),
        ("customResourceDefinitions".to_owned(), "[]".to_owned()),
        ("packages".to_owned(), packages.to_owned()),
    ]);
    let key = |digest: &str| Key::of(&Content::ConfigMap { name: "c".to_owned(), digest: digest.to_owned() });
    let stored = config_map(&store, data, key("sha256:1"), permit().await).await.unwrap();
    let names: Vec<&str> = stored.content.index.packages().map(|package| package.name()).collect();
    assert_eq!(names, ["etcd"], "{:?}", stored.found);
    let empty = config_map(&store, BTreeMap::new(), key("sha256:2"), permit().await).await.unwrap_err();
    assert!(empty.is_of_content(), "{empty}");
    // The content and the lock.
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 2);
}

/// Two versions of one number, in a package with capital letters: so they come from tools that know nothing of file-based catalogs.
#[tokio::test]
async fn untidy_package_of_a_config_map_is_served_with_a_note_and_that_of_an_image_is_not() {
    let root = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(root.path(), 1 << 20).unwrap());
    let csv = |name: &str, replaces: &str| {
        format!(
            "- apiVersion: operators.coreos.com/v1alpha1\n  kind: ClusterServiceVersion\n  metadata: {{name: {name}}}\n  \
             spec: {{version: 1.0.0, replaces: {replaces:?}, install: {{strategy: deployment, spec: {{deployments: []}}}}}}\n"
        )
    };
    let packages = "- packageName: PkgMain\n  channels:\n  - name: alpha\n    currentCSV: main.v2\n";
    let data = BTreeMap::from([
        ("clusterServiceVersions".to_owned(), csv("main.v1", "") + &csv("main.v2", "main.v1")),
        ("packages".to_owned(), packages.to_owned()),
    ]);
    let key = Key::of(&Content::ConfigMap { name: "c".to_owned(), digest: "sha256:1".to_owned() });
    let stored = config_map(&store, data, key, permit().await).await.unwrap();
    let package = stored.content.index.package("PkgMain").unwrap();
    assert_eq!(package.bundles().map(|it| it.name().to_owned()).collect::<Vec<_>>(), ["main.v1", "main.v2"]);
    let found = &stored.found;
    assert_eq!((found.packages, found.sick_count, found.faults.len()), (1, 0, 0), "{:?}", found.faults);
    for (note, words) in found.notes.iter().zip(["olm.package PkgMain", "same version 1.0.0 as main.v1"]) {
        assert!(note.contains(words), "{note}");
    }
    assert_eq!(found.notes.len(), 2, "{:?}", found.notes);
    let fake = Fake::start().await;
    pushed(&fake, "a/capital:1", "Main", &[(CONFIGS_LABEL, "/Main")]).await;
    assert_eq!(read(&fake, "a/capital:1", "").await.unwrap(), "", "its package is left out");
}

#[tokio::test]
async fn image_of_ten_gigabytes_is_refused_before_it_is_pulled() {
    let fake = Fake::start().await;
    let image = pushed(&fake, "a/huge:1", "configs", &[]).await;
    let mut manifest = serde_json::to_value(&image.manifest).unwrap();
    manifest["layers"][0]["size"] = (10_u64 << 30).into();
    fake.put("a/huge", "1", &image.media_type, manifest.to_string());
    let error = read(&fake, "a/huge:1", "").await.unwrap_err();
    assert!(error.is_of_content(), "it is not tried again and again");
    let text = crate::error::chain(&error);
    for words in ["a/huge@sha256:", "10737418240 bytes or more", "is this the right image?"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert_eq!(fake.count("GET blob"), 1, "its config");
}

#[test]
fn full_disk_says_the_way_out_wherever_it_shows() {
    let full = || std::io::Error::from(std::io::ErrorKind::StorageFull);
    let path = "/var/cache/olm/aside-1/files".to_owned();
    let source = FilesError::Disk { path: path.clone(), cause: full() };
    let of_image = PullError::from(RegistryError::Files { image: "a.example/b@sha256:1".to_owned(), source });
    let of_index = PullError::from(StoreError::write(Path::new(&path), full()));
    assert_eq!(of_image.to_string(), of_index.to_string());
    for words in [path.as_str(), "make room on that volume", "--catalog-cache-size"] {
        assert!(of_image.to_string().contains(words), "{words}: {of_image}");
    }
    assert!(!of_image.is_of_content(), "there may be room later");
}
