use super::*;
use crate::cluster::objects::tests::answering;
use crate::net::registry::source::Sources;
use crate::net::registry::tests::Fake;
use std::time::Duration;

const GLOBAL: &str = "openshift-marketplace";

fn reader(root: &std::path::Path) -> Reader {
    let store = Arc::new(Store::open(root, 0).unwrap());
    Reader::new(store, Objects::reader(answering(Vec::new())), GLOBAL)
}

/// To read an image that the registry does not have.
fn job(fake: &Fake, namespace: &str, notes: &[&str]) -> Job {
    let notes = notes.iter().map(|note| note.to_string()).collect();
    let image = format!("{}/a/b:1", fake.address());
    Job {
        namespace: namespace.to_owned(),
        work: Work::Pull { image, digest: None, directory: String::new() },
        reach: Some(Arc::new(Ok(Reach { sources: Sources::default(), notes }))),
        tagged: None,
        told: false,
        server: None,
        served: None,
    }
}

fn cause(done: Done) -> String {
    match done.outcome {
        Some(Outcome::Failed { cause } | Outcome::NoAccess { cause } | Outcome::Refused { cause, .. }) => cause,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn whoever_is_denied_is_told_what_is_wrong_with_the_secrets() {
    let (root, fake) = (tempfile::tempdir().unwrap(), Fake::start().await);
    let (reader, note) = (reader(root.path()), "Secret shop/pull does not exist");
    let missing = cause(reader.perform(job(&fake, "shop", &[note])).await);
    assert!(missing.contains("404") && !missing.contains(note), "{missing}");
    fake.require("ann:secret");
    let denied = cause(reader.perform(job(&fake, "shop", &[note])).await);
    assert!(denied.contains("401") && denied.ends_with(note), "{denied}");
    let ask = Job { work: Work::Ask { image: format!("{}/a/b:1", fake.address()) }, ..job(&fake, "shop", &[note]) };
    assert!(cause(reader.perform(ask).await).ends_with(note));
}

#[tokio::test]
async fn nothing_is_asked_before_it_is_known_how() {
    let (root, fake) = (tempfile::tempdir().unwrap(), Fake::start().await);
    let reader = reader(root.path());
    assert!(reader.perform(Job { reach: None, ..job(&fake, "shop", &[]) }).await.outcome.is_none());
    let no_way = Job { reach: Some(Arc::new(Err("no proxy is known".to_owned()))), ..job(&fake, "shop", &[]) };
    assert_eq!(cause(reader.perform(no_way).await), "no proxy is known");
}

/// An image without a catalog: it comes from the registry, and that is told.
#[tokio::test]
async fn registries_that_drip_keep_no_catalog_of_the_platform_waiting() {
    let (root, fake) = (tempfile::tempdir().unwrap(), Fake::start().await);
    let reader = reader(root.path());
    let image = crate::net::registry::image::scratch(&[], &Default::default(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    fake.repository("a/b:1", &Default::default()).push(&image, Vec::new(), None).await.unwrap();
    // Those of users are on their way, and will be for long.
    let _images = reader.images("shop").acquire_many(2).await.unwrap();
    let of_platform = tokio::time::timeout(Duration::from_secs(20), reader.perform(job(&fake, GLOBAL, &[])));
    assert!(cause(of_platform.await.unwrap()).contains("has no folder /configs"));
    let of_user = tokio::time::timeout(Duration::from_millis(300), reader.perform(job(&fake, "shop", &[])));
    assert!(of_user.await.is_err(), "it waits");
    // What is on its way takes no place of those who read a content that is there.
    assert_eq!(reader.places.available_permits(), MOST);
}
