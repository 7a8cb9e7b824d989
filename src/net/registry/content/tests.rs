use super::super::Access;
use super::super::copy::{Progress, copy};
use super::super::layer::sha256;
use super::super::layout::Layout;
use super::super::place::Place;
use super::super::tests::{Fake, base};
use super::*;

const PAUSE: Duration = Duration::from_secs(1);

struct Silent;

impl Progress for Silent {
    fn expect(&self, _bytes: u64) {}
    fn done(&self, _bytes: u64, _copied: bool) {}
}

/// As long as something arrives now and then: a large layer on a slow line takes hours.
#[tokio::test]
async fn content_that_is_sent_slowly_is_not_given_up() {
    let (fake, bytes) = (Fake::start().await, vec![7_u8; 10_000]);
    let parts: Vec<Vec<u8>> = bytes.chunks(1000).map(<[u8]>::to_vec).collect();
    let slowly = stream::iter(parts).then(|part| async move {
        sleep(PAUSE / 4).await;
        Ok::<_, io::Error>(Bytes::from(part))
    });
    let repository = fake.impatient("a:1", PAUSE);
    repository.send(&sha256(&bytes), bytes.len() as u64, slowly.boxed()).await.unwrap();
    assert_eq!(fake.count("PUT blob"), 1);
}

#[tokio::test]
async fn registry_that_takes_nothing_more_is_given_up() {
    let (fake, large) = (Fake::start().await, vec![0_u8; 64 << 20]);
    fake.stall();
    let repository = fake.impatient("a:1", PAUSE);
    let sent = repository.send(&sha256(&large), large.len() as u64, parts(large)).await;
    let error = sent.unwrap_err().to_string();
    for words in ["repository a: cannot push blob sha256:", "has taken nothing of it for 1 s", "run the command again"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
}

#[tokio::test]
async fn registry_that_sends_nothing_more_is_given_up_wherever_the_content_goes() {
    let (from, to, folder) = (Fake::start().await, Fake::start().await, tempfile::tempdir().unwrap());
    let (image, layers) = base();
    from.repository("org/base:1", &Access::default()).push(&image, layers, None).await.unwrap();
    from.stall();
    let source = Place::Registry(Box::new(from.impatient("org/base:1", PAUSE)));
    let folder = Place::Folder(Layout::create(folder.path()).await.unwrap());
    let registry = Place::Registry(Box::new(to.impatient("mirror/base:1", 10 * PAUSE)));
    for target in [folder, registry] {
        let progress: Arc<dyn Progress> = Arc::new(Silent);
        let error = copy(&source, &target, &image.digest, None, &progress).await.unwrap_err().to_string();
        for words in ["org/base: cannot pull blob sha256:", "has sent nothing for 1 s", "run the command again"] {
            assert!(error.contains(words), "{words}: {error}");
        }
        assert!(!error.contains("mirror") && !error.contains("partial"), "it is not the target that fails: {error}");
    }
    let base = from.impatient("org/base:1", PAUSE);
    let error = to.impatient("new:1", 10 * PAUSE).push(&image, Vec::new(), Some(&base)).await.unwrap_err().to_string();
    assert!(error.contains("org/base: cannot pull blob") && error.contains("has sent nothing"), "{error}");
}

#[tokio::test]
async fn content_in_memory_is_sent_in_parts() {
    for size in [0, 1, PART, PART + 1, 3 * PART] {
        let bytes: Vec<u8> = (0..size).map(|at| at as u8).collect();
        let sent: Vec<Bytes> = parts(bytes.clone()).try_collect().await.unwrap();
        assert_eq!((sent.len(), sent.concat()), (size.div_ceil(PART), bytes));
    }
}

#[tokio::test]
async fn content_has_the_size_of_its_descriptor() {
    let bytes = b"layer".to_vec();
    for (size, expected) in [(4, "more than the 4 bytes"), (5, ""), (6, "it has 5 bytes, and 6 by its manifest")] {
        let part = OciDescriptor { digest: sha256(&bytes), size, ..OciDescriptor::default() };
        let read: io::Result<Vec<Bytes>> = verified(parts(bytes.clone()), &part, io::Error::other).try_collect().await;
        let text = read.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{size}: {text}");
    }
}
