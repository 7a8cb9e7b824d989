use super::*;
use crate::images::mirrors::{By, Rule};
use crate::images::policy::Policy;
use crate::net::registry::Access;
use crate::net::registry::image::{self, Start};
use crate::net::registry::layer::{self, LayerFile, Packing};
use crate::net::registry::source::Sources;
use crate::net::registry::tests::{Fake, keyring};
use crate::olm::catalog::served::Content;
use crate::olm::catalog::text::content;
use crate::olm::net::store::Store;
use crate::olm::subscription::Visible;
use crate::olm::work::catalogs::{Reach, Way};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::json;

fn wanted(image: &str) -> Wanted {
    let catalog = ("shop".to_owned(), "main".to_owned());
    let new = New {
        name: "ink.v1".to_owned(),
        package: "ink".to_owned(),
        channel: "stable".to_owned(),
        catalog,
        image: image.to_owned(),
        replaces: String::new(),
        properties: Vec::new(),
        subscriptions: BTreeSet::new(),
        reasons: Vec::new(),
    };
    Wanted { new, timeout: None, retry: None }
}

fn known(wanted: &Wanted, way: &Way) -> Known {
    let id = || wanted.new.catalog.clone();
    Known {
        catalogs: Some(BTreeMap::from([(id(), Visible::default())])),
        reach: BTreeMap::from([(id(), way.clone())]),
        ..Known::default()
    }
}

fn way(cause: &str) -> Way {
    Arc::new(Err(cause.to_owned()))
}

async fn failed(unpacker: &Unpacker, wanted: &Wanted) -> String {
    loop {
        if let Unpacked::Failed { cause, .. } = unpacker.look(&wanted.new) {
            return cause;
        }
        unpacker.changed.notified().await;
    }
}

#[tokio::test]
async fn bundle_that_failed_is_fetched_at_once_where_another_way_leads_there() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(Store::open(folder.path(), 0).unwrap());
    let mut unpacker =
        Unpacker::new(Arc::new(Bundles::new(store, None)), Duration::ZERO, Arc::default(), CancellationToken::new());
    let wanted = wanted("registry.invalid/ink:1");
    let first = way("no proxy is known");
    assert_eq!(unpacker.want(std::slice::from_ref(&wanted), &known(&wanted, &first)), None);
    let expected = "bundle ink.v1 (registry.invalid/ink:1): no proxy is known";
    assert_eq!(failed(&unpacker, &wanted).await, expected);
    // The same way is taken again after a pause only.
    let again = unpacker.want(std::slice::from_ref(&wanted), &known(&wanted, &first));
    assert!(again.is_some_and(|again| again > Instant::now()));
    assert!(matches!(unpacker.look(&wanted.new), Unpacked::Failed { .. }));
    let second = way("the Secret is no JSON");
    assert_eq!(unpacker.want(std::slice::from_ref(&wanted), &known(&wanted, &second)), None);
    assert!(matches!(unpacker.look(&wanted.new), Unpacked::Pending(_)));
    assert!(failed(&unpacker, &wanted).await.ends_with("the Secret is no JSON"));
    // Ways of other catalogs are none to it.
    let mut other = known(&wanted, &second);
    other.reach.insert(("shop".to_owned(), "other".to_owned()), way("another"));
    assert!(unpacker.want(std::slice::from_ref(&wanted), &other).is_some());
}

fn csv(name: &str) -> serde_json::Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {"install": {"strategy": "deployment", "spec": {"deployments": []}}}})
}

/// Pushes a bundle of this ClusterServiceVersion, and returns its image by tag and by digest.
async fn pushed(fake: &Fake, name: &str) -> [String; 2] {
    let prefix = "operators.operatorframework.io.bundle";
    let annotations =
        json!({"annotations": {format!("{prefix}.package.v1"): "ink", format!("{prefix}.manifests.v1"): "manifests/"}});
    let file = |path: &str, content: serde_json::Value| LayerFile {
        path: path.to_owned(),
        mode: 0o444,
        bytes: content.to_string().into(),
    };
    let files = [file("manifests/csv.yaml", csv(name)), file("metadata/annotations.yaml", annotations)];
    let layers = vec![layer::write(&files, 0, Packing::USUAL).unwrap()];
    let image = image::scratch(&layers, &Start::default(), Timestamp::UNIX_EPOCH).unwrap();
    fake.repository("a/ink:1", &Access::default()).push(&image, layers, None).await.unwrap();
    let name = format!("{}/a/ink", fake.address());
    [format!("{name}:1"), format!("{name}@{}", image.digest)]
}

/// With this login, as the Secrets of a catalog have it.
fn direct(fake: &Fake, password: &str) -> Way {
    let credentials = match password {
        "" => Default::default(),
        _ => keyring(fake.address(), &[("", "ann", password)]),
    };
    let sources = Sources { access: Access { credentials, ..Access::default() }, ..Sources::default() };
    Arc::new(Ok(Reach { sources, notes: vec!["Secret shop/pull does not exist".to_owned()] }))
}

struct World {
    unpacker: Unpacker,
    _folder: tempfile::TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let store = Arc::new(Store::open(folder.path(), 0).unwrap());
        let unpacker = Unpacker::new(
            Arc::new(Bundles::new(store, None)),
            Duration::ZERO,
            Arc::default(),
            CancellationToken::new(),
        );
        World { unpacker, _folder: folder }
    }

    /// The name of what is fetched by this way, or why it is not, and whether the bundle itself is wrong.
    async fn fetched(&mut self, wanted: &Wanted, way: &Way) -> Result<String, (String, bool)> {
        self.fetched_from(wanted, &known(wanted, way)).await
    }

    async fn fetched_from(&mut self, wanted: &Wanted, known: &Known) -> Result<String, (String, bool)> {
        self.unpacker.want(std::slice::from_ref(wanted), known);
        loop {
            match self.unpacker.look(&wanted.new) {
                Unpacked::Done(bundle) => return Ok(bundle.csv.metadata.name.clone()),
                Unpacked::Failed { cause, of_content } => return Err((cause, of_content)),
                Unpacked::Pending(text) => assert!(text.contains("is fetched from"), "{text}"),
            }
            self.unpacker.changed.notified().await;
        }
    }
}

#[tokio::test]
async fn bundle_is_fetched_with_the_credentials_of_its_catalog() {
    let fake = Fake::start().await;
    let [_, image] = pushed(&fake, "ink.v1").await;
    fake.require("ann:secret");
    let (mut world, wanted) = (World::new(), wanted(&image));
    let (cause, of_content) = world.fetched(&wanted, &direct(&fake, "")).await.unwrap_err();
    assert!(!of_content && cause.contains("Secret shop/pull does not exist"), "{cause}");
    assert!(world.fetched(&wanted, &direct(&fake, "wrong")).await.is_err());
    assert_eq!(world.fetched(&wanted, &direct(&fake, "secret")).await.as_deref(), Ok("ink.v1"));
}

#[tokio::test]
async fn bundle_that_is_not_what_the_catalog_says_is_told_of() {
    let fake = Fake::start().await;
    let [tag, image] = pushed(&fake, "ink.v2").await;
    let mut world = World::new();
    // Another name.
    let (cause, of_content) = world.fetched(&wanted(&tag), &direct(&fake, "")).await.unwrap_err();
    assert!(of_content && cause.contains("ink.v1") && cause.contains("ink.v2"), "{cause}");
    // Another digest.
    let other = format!("{}@sha256:{}", image.split_once('@').unwrap().0, "0".repeat(64));
    let (cause, of_content) = world.fetched(&wanted(&other), &direct(&fake, "")).await.unwrap_err();
    assert!(!of_content && cause.contains(&other), "{cause}");
    // It is put in order in the registry.
    pushed(&fake, "ink.v1").await;
    assert_eq!(world.fetched(&wanted(&tag), &direct(&fake, "")).await.as_deref(), Ok("ink.v1"));
    // An image that the catalog names anew is another bundle.
    let [_, image] = pushed(&fake, "ink.v1").await;
    assert_eq!(world.fetched(&wanted(&image), &direct(&fake, "")).await.as_deref(), Ok("ink.v1"));
    assert_eq!(world.unpacker.all.len(), 1, "nothing is kept that nobody wants");
}

#[tokio::test]
async fn bundle_with_other_bytes_than_its_digest_names_is_refused_until_they_are_right() {
    let fake = Fake::start().await;
    let [_, image] = pushed(&fake, "ink.v1").await;
    let (mut world, wanted) = (World::new(), wanted(&image));
    fake.falsify(Some("something else"));
    let (cause, of_content) = world.fetched(&wanted, &direct(&fake, "")).await.unwrap_err();
    let has = layer::sha256(b"something else");
    assert!(!of_content && cause.contains(&image) && cause.contains(&has), "{cause}");
    fake.falsify(None);
    assert_eq!(world.fetched(&wanted, &direct(&fake, "")).await.as_deref(), Ok("ink.v1"));
}

#[tokio::test]
async fn bundle_is_fetched_from_a_mirror_and_not_from_where_the_policy_forbids_it() {
    let fake = Fake::start().await;
    let [_, image] = pushed(&fake, "ink.v1").await;
    let digest = image.split_once('@').unwrap().1;
    let (mut world, wanted) = (World::new(), wanted(&format!("registry.invalid/a/ink@{digest}")));
    let mirror = Rule {
        source: "registry.invalid/a".to_owned(),
        mirrors: vec![format!("{}/a", fake.address())],
        by: By::Digest,
        contact_source: false,
        origin: "ImageDigestMirrorSet m".to_owned(),
    };
    let way = |blocked: &[String]| -> Way {
        let policy = Policy { blocked: blocked.to_vec(), ..Policy::default() };
        let sources = Sources { mirrors: vec![mirror.clone()], policy, ..Sources::default() };
        Arc::new(Ok(Reach { sources, notes: Vec::new() }))
    };
    let (cause, _) = world.fetched(&wanted, &way(&[fake.address().to_owned()])).await.unwrap_err();
    assert!(cause.contains(fake.address()) && cause.contains("blocked"), "{cause}");
    assert_eq!(fake.count("GET blob"), 0);
    assert_eq!(world.fetched(&wanted, &way(&[])).await.as_deref(), Ok("ink.v1"));
}

#[tokio::test]
async fn registry_that_does_not_answer_holds_bundles_of_its_namespace_alone() {
    let (fake, silent) = (Fake::start().await, tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap());
    let [_, image] = pushed(&fake, "ink.v1").await;
    let of = |namespace: &str, name: &str, image: &str| {
        let mut wanted = wanted(image);
        (wanted.new.catalog.0, wanted.new.name) = (namespace.to_owned(), name.to_owned());
        wanted
    };
    let address = silent.local_addr().unwrap();
    let mut all: Vec<Wanted> =
        (0..100).map(|at| of("bad", &format!("ink.v{at}"), &format!("{address}/a/ink:{at}"))).collect();
    let (inline, own) = (of("bad", "ink.v1", ""), of("shop", "ink.v1", &image));
    all.extend([inline.clone(), own.clone()]);
    let known = Known {
        catalogs: Some(BTreeMap::from([
            (inline.new.catalog.clone(), Visible { content: Some(Arc::new(catalog("ink.v1"))), ..Visible::default() }),
            (own.new.catalog.clone(), Visible::default()),
        ])),
        reach: [&inline, &own].map(|it| (it.new.catalog.clone(), direct(&fake, ""))).into(),
        ..Known::default()
    };
    let mut world = World::new();
    world.unpacker.want(&all, &known);
    let both_are_there = async {
        while [&inline, &own].iter().any(|it| !matches!(world.unpacker.look(&it.new), Unpacked::Done(_))) {
            world.unpacker.changed.notified().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), both_are_there).await.expect("they wait for the others");
    let pending = |it: &&Wanted| matches!(world.unpacker.look(&it.new), Unpacked::Pending(_));
    assert_eq!(all.iter().filter(pending).count(), 100);
    assert_eq!(world.unpacker.places.all.available_permits(), IMAGES.1 - IMAGES.0);
    world.unpacker.want(&[own], &known);
    assert_eq!(world.unpacker.places.of.keys().collect::<Vec<_>>(), ["shop"]);
}

/// A catalog that has the manifests of this ClusterServiceVersion as ink.v1.
fn catalog(name: &str) -> Content {
    let object = STANDARD.encode(csv(name).to_string());
    let blobs = [
        json!({"schema": "olm.package", "name": "ink", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "ink", "name": "stable", "entries": [{"name": "ink.v1"}]}),
        json!({"schema": "olm.bundle", "package": "ink", "name": "ink.v1", "properties": [
            {"type": "olm.package", "value": {"packageName": "ink", "version": "1.0.0"}},
            {"type": "olm.bundle.object", "value": {"data": object}},
        ]}),
    ];
    content(&blobs.map(|blob| blob.to_string()).concat()).unwrap()
}

#[tokio::test]
async fn bundle_whose_manifests_are_in_its_catalog_is_read_there() {
    let (mut world, wanted) = (World::new(), wanted(""));
    let with = |content: Option<Content>| Known {
        catalogs: Some(BTreeMap::from([(
            wanted.new.catalog.clone(),
            Visible { content: content.map(Arc::new), ..Visible::default() },
        )])),
        ..Known::default()
    };
    let gone = ("bundle ink.v1 (ink.v1): the catalog does not have it any more".to_owned(), false);
    assert_eq!(world.fetched_from(&wanted, &with(None)).await, Err(gone));
    // Another content is looked at without a pause.
    let (cause, of_content) = world.fetched_from(&wanted, &with(Some(catalog("ink.v2")))).await.unwrap_err();
    assert!(of_content && cause.contains("ink.v2"), "{cause}");
    assert_eq!(world.fetched_from(&wanted, &with(Some(catalog("ink.v1")))).await.as_deref(), Ok("ink.v1"));
}

#[tokio::test(start_paused = true)]
async fn fetching_ends_after_its_time_and_begins_again_later_and_later() {
    let mut world = World::new();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let image = format!("{}/a/ink:1", silent.local_addr().unwrap());
    let wanted = Wanted { timeout: Some(SignedDuration::from_secs(7)), ..wanted(&image) };
    let way: Way = Arc::new(Ok(Reach { sources: Sources::default(), notes: Vec::new() }));
    let (cause, of_content) = world.fetched(&wanted, &way).await.unwrap_err();
    assert!(!of_content && cause.contains("DeadlineExceeded: it took longer than 7s: the annotation"), "{cause}");
    let mut pauses = Vec::new();
    for count in 1..=6 {
        let all = std::slice::from_ref(&wanted);
        let next = world.unpacker.want(all, &known(&wanted, &way)).expect("it is tried again");
        pauses.push(next.saturating_duration_since(Instant::now()));
        // As if the time had come.
        for entry in world.unpacker.all.values() {
            let mut state = entry.state.lock().unwrap();
            if let State::Failed { until, .. } = &mut *state {
                *until = Instant::now();
            }
        }
        world.fetched(&wanted, &way).await.unwrap_err();
        assert_eq!(world.unpacker.all.values().next().unwrap().count, count);
    }
    let bounded = pauses.iter().all(|pause| *pause <= PAUSES.1 * 5 / 4);
    assert!(pauses[5] > pauses[0] * 8 && bounded, "{pauses:?}");
    let short = Wanted { retry: Some(SignedDuration::from_secs(1)), ..wanted.clone() };
    world.unpacker.all.clear();
    world.fetched(&short, &way).await.unwrap_err();
    let next = world.unpacker.want(std::slice::from_ref(&short), &known(&short, &way)).unwrap();
    assert!(next <= Instant::now() + Duration::from_secs(1), "the group says how long");
}
