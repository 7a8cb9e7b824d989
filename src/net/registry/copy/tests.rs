use super::super::Access;
use super::super::layout::Layout;
use super::super::tests::{Fake, base};
use super::*;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are expected, that are there, and that were copied.
#[derive(Default)]
struct Counts([AtomicU64; 3]);

impl Progress for Counts {
    fn expect(&self, bytes: u64) {
        self.0[0].fetch_add(bytes, Ordering::SeqCst);
    }

    fn done(&self, bytes: u64, copied: bool) {
        self.0[1].fetch_add(bytes, Ordering::SeqCst);
        self.0[2].fetch_add(if copied { bytes } else { 0 }, Ordering::SeqCst);
    }
}

/// Copies an image as `1.0.0`; its digest, and the bytes expected, done and copied.
async fn counted(from: &Place, to: &Place, image: &str) -> Result<(String, [u64; 3]), RegistryError> {
    let counts = Arc::new(Counts::default());
    let progress: Arc<dyn Progress> = counts.clone();
    let name = Name { tag: "1.0.0".into(), annotations: BTreeMap::from([("a".into(), "b".into())]) };
    let digest = copy(from, to, image, Some(&name), &progress).await?;
    Ok((digest, counts.0.each_ref().map(|count| count.load(Ordering::SeqCst))))
}

fn at(fake: &Fake, name: &str) -> Place {
    Place::Registry(Box::new(fake.repository(name, &Access::default())))
}

/// Everything below the folder.
fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path.display().to_string()) }
    }
    found
}

#[tokio::test]
async fn image_keeps_its_digest_through_a_folder_and_nothing_is_copied_twice() {
    let (one, two, folder) = (Fake::start().await, Fake::start().await, tempfile::tempdir().unwrap());
    let (image, layers) = base();
    one.repository("org/base:1", &Access::default()).push(&image, layers, None).await.unwrap();
    let layout = Layout::create(folder.path()).await.unwrap();
    let from = at(&one, "org/base:1");
    let to = Place::Folder(layout.clone());
    let (digest, [expected, done, copied]) = counted(&from, &to, "1").await.unwrap();
    assert_eq!(digest, image.digest);
    assert!(expected > 0 && done == expected && copied == expected, "{expected} {done} {copied}");
    let (_, again) = counted(&from, &to, "1").await.unwrap();
    assert_eq!(again, [expected, expected, 0]);
    let entry =
        Entry { name: "1.0.0".into(), digest: digest.clone(), annotations: BTreeMap::from([("a".into(), "b".into())]) };
    assert_eq!(layout.entries().await.unwrap(), [entry]);
    assert!(files(folder.path()).iter().all(|file| !file.contains("partial")));

    let far = at(&two, "mirror/release");
    let opened = Place::Folder(Layout::open(folder.path()));
    assert_eq!(counted(&opened, &far, "1.0.0").await.unwrap(), (digest.clone(), [expected, expected, expected]));
    assert_eq!(counted(&opened, &far, &digest).await.unwrap().1, [expected, expected, 0]);
    let pulled = two.repository("mirror/release:1.0.0", &Access::default()).pull("amd64").await.unwrap();
    assert_eq!((pulled.digest, pulled.manifest_bytes), (image.digest, image.manifest_bytes));
    // From registry to registry without a folder between them.
    assert_eq!(counted(&from, &at(&two, "direct/release"), "1").await.unwrap().0, digest);
}

/// As the images of a release that have layers in common, or are the same one.
#[tokio::test]
async fn content_of_several_images_is_copied_once() {
    let (one, two, folder) = (Fake::start().await, Fake::start().await, tempfile::tempdir().unwrap());
    let (image, layers) = base();
    one.repository("org/base:1", &Access::default()).push(&image, layers, None).await.unwrap();
    let layout = Place::Folder(Layout::create(folder.path()).await.unwrap());
    for (from, to) in [(at(&one, "org/base:1"), layout.clone()), (layout, at(&two, "mirror/release"))] {
        let counts = Arc::new(Counts::default());
        let progress: Arc<dyn Progress> = counts.clone();
        let names = ["first", "second", "third"].map(|tag| Name { tag: tag.into(), annotations: BTreeMap::new() });
        let copies = names.iter().map(|name| copy(&from, &to, &image.digest, Some(name), &progress));
        let digests = futures::future::try_join_all(copies).await.unwrap();
        assert_eq!(digests, vec![image.digest.clone(); 3]);
        let [expected, done, copied] = counts.0.each_ref().map(|count| count.load(Ordering::SeqCst));
        assert!(copied > 0 && expected == 3 * copied && done == expected, "{expected} {done} {copied}");
    }
}

#[tokio::test]
async fn content_that_is_not_as_its_digest_leaves_nothing_behind() {
    let (one, folder) = (Fake::start().await, tempfile::tempdir().unwrap());
    let (image, layers) = base();
    one.repository("org/base:1", &Access::default()).push(&image, layers, None).await.unwrap();
    let layout = Layout::create(folder.path()).await.unwrap();
    let to = Place::Folder(layout.clone());
    let before = files(folder.path());
    for wrong in ["", "short", "x".repeat(1 << 20).leak()] {
        one.falsify(Some(wrong));
        let error = counted(&at(&one, "org/base:1"), &to, "1").await.unwrap_err().to_string();
        assert!(error.contains("sha256:"), "{error}");
        assert_eq!((files(folder.path()), layout.entries().await.unwrap()), (before.clone(), Vec::new()), "{error}");
    }
    one.falsify(None);
    counted(&at(&one, "org/base:1"), &to, "1").await.unwrap();

    // A folder that somebody has changed on its way.
    let manifest = folder.path().join("blobs/sha256").join(image.digest.strip_prefix("sha256:").unwrap());
    std::fs::write(manifest, "{}").unwrap();
    let error = counted(&to, &at(&one, "other/base"), "1.0.0").await.unwrap_err().to_string();
    assert!(error.contains(&image.digest), "{error}");
}
