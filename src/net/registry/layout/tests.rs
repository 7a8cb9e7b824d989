use super::*;

#[tokio::test]
async fn digest_is_never_a_path_that_leads_out() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).await.unwrap();
    for digest in
        ["sha256:../../../../etc/passwd", "sha256:", "../x", "sha512:00", &format!("sha256:{}", "G".repeat(64))]
    {
        let descriptor = OciDescriptor { digest: digest.to_owned(), ..OciDescriptor::default() };
        assert!(matches!(layout.has(&descriptor).await, Err(LayoutError::Digest(_))), "{digest}");
        assert!(matches!(layout.stream(digest).await.err(), Some(LayoutError::Digest(_))), "{digest}");
    }
}

#[tokio::test]
async fn index_that_cannot_be_read_is_named() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!Layout::is_at(folder.path()));
    let layout = Layout::create(folder.path()).await.unwrap();
    assert!(Layout::is_at(folder.path()) && layout.entries().await.unwrap().is_empty());
    let error = layout.document("1.0.0").await.unwrap_err().to_string();
    assert!(error.contains("there is no image 1.0.0"), "{error}");
    for content in ["junk".to_owned(), " ".repeat(5 << 20)] {
        std::fs::write(folder.path().join(INDEX), content).unwrap();
        let error = layout.entries().await.unwrap_err().to_string();
        assert!(error.contains("index.json"), "{error}");
    }
}

/// Two images of a release may be the same one, or have a layer in common.
#[tokio::test]
async fn content_is_written_by_two_at_the_same_time() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).await.unwrap();
    let content = Bytes::from_static(b"layer");
    let digest = crate::net::registry::layer::sha256(&content);
    let descriptor = OciDescriptor { digest, size: 5, ..OciDescriptor::default() };
    let (ended, end) = tokio::sync::oneshot::channel();
    let slow = futures::stream::once({
        let content = content.clone();
        async move {
            end.await.unwrap();
            Ok(content)
        }
    });
    let quick = async {
        let written = layout.write(&descriptor, futures::stream::once(async { Ok(content) }).boxed()).await;
        ended.send(()).unwrap();
        written
    };
    let (first, second) = tokio::join!(layout.write(&descriptor, slow.boxed()), quick);
    assert!(first.is_ok() && second.is_ok(), "{first:?} {second:?}");
    assert!(layout.has(&descriptor).await.unwrap());
    let files = std::fs::read_dir(folder.path().join("blobs/sha256")).unwrap().count();
    assert_eq!(files, 1, "nothing is left beside it");
}

/// Other tools call an image by its whole reference.
#[tokio::test]
async fn name_of_an_image_may_have_colons() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).await.unwrap();
    let name = "quay.io:443/org/cat:1";
    let digest = crate::net::registry::layer::sha256(b"{}");
    let entry = Entry { name: name.to_owned(), digest: digest.clone(), annotations: BTreeMap::new() };
    layout.add(entry, "x", Bytes::from_static(b"{}"), true).await.unwrap();
    for name in [name, &digest] {
        assert_eq!(layout.document(name).await.unwrap().1, digest);
    }
}
