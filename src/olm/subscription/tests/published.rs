//! Namespaces that other controllers are known by: what is installed over what, and for whom. Where the answer is another one on
//! purpose, the row says by which rule.

use super::*;
use crate::olm::names::property::{GVK, GVK_REQUIRED, PACKAGE};
use crate::olm::resolve::tests::written::{Written, written};
use crate::olm::resolve::tests::{Bundle as WrittenBundle, blobs};
use crate::olm::steps::{properties_annotation, subscription_name};

mod rows;

/// A named namespace and what comes of it.
struct Row {
    name: &'static str,
    world: &'static str,
    /// The group asks for failing forward.
    forward: bool,
    /// As `told`, or texts that the reason has.
    expected: Result<&'static str, &'static [&'static str]>,
}

const fn installs(name: &'static str, world: &'static str, expected: &'static str) -> Row {
    Row { name, world, forward: false, expected: Ok(expected) }
}

const fn fails(name: &'static str, world: &'static str, expected: &'static [&'static str]) -> Row {
    Row { name, world, forward: false, expected: Err(expected) }
}

const fn forward(row: Row) -> Row {
    Row { forward: true, ..row }
}

fn written_csv(bundle: &WrittenBundle) -> Csv {
    let apis = |kind: &str| -> Vec<[String; 3]> {
        let of = |value: &Value| ["group", "version", "kind"].map(|key| value[key].as_str().unwrap().to_owned());
        bundle.properties.iter().filter(|(found, _)| found == kind).map(|(_, value)| of(value)).collect()
    };
    let is_api = |kind: &str| [GVK, GVK_REQUIRED].contains(&kind);
    let more = bundle.properties.iter().any(|(kind, _)| !is_api(kind));
    let phase = bundle.phase.as_deref().unwrap_or("Succeeded");
    Csv {
        name: bundle.name.clone(),
        version: bundle.version.clone(),
        owned: apis(GVK),
        required: apis(GVK_REQUIRED),
        properties: more.then(|| properties_annotation(&bundle.all_properties())),
        phase: serde_json::from_value(json!(phase)).unwrap(),
        replaces: bundle.entry["replaces"].as_str().unwrap_or_default().to_owned(),
        ..Csv::default()
    }
}

fn case(written: &Written, forward: bool) -> Case {
    let subscribed = |it: &world::Subscription| {
        let spec = SubscriptionSpec {
            name: it.package.clone(),
            channel: it.channel.clone(),
            source_namespace: it.catalog.0.clone(),
            source: it.catalog.1.clone(),
            starting_csv: it.starting_csv.clone(),
            ..SubscriptionSpec::default()
        };
        let mut subscription = Subscription::new(&it.name, spec);
        subscription.metadata.uid = Some(format!("uid-{}", it.name));
        if it.other_catalogs {
            let annotation = (annotation::OTHER_CATALOGS.to_owned(), "true".to_owned());
            subscription.metadata.annotations = Some([annotation].into());
        }
        let status = json!({"lastUpdated": "2023-01-01T00:00:00Z", "installedCSV": it.installed_csv, "currentCSV": it.installed_csv});
        subscription.status = Some(serde_json::from_value(status).unwrap());
        Arc::new(subscription)
    };
    let visible = |it: &crate::olm::resolve::tests::written::WrittenCatalog| {
        let (namespace, name) = it.place.split_once('/').unwrap_or(("ns", &it.place));
        let content = Some(Arc::new(content(&blobs(&it.bundles)).0));
        (id(namespace, name), Visible { priority: it.priority, content, ..healthy() })
    };
    let group = Group { fail_forward: forward, ..Group::default() };
    Case {
        subscriptions: written.subscriptions.iter().map(subscribed).collect(),
        csvs: written.installed.iter().map(|it| Arc::new(written_csv(it))).collect(),
        groups: vec![Arc::new(group)],
        plans: Vec::new(),
        catalogs: written.catalogs.iter().map(visible).collect(),
        unpacked: Unpacked::Done(bundle("any")),
        refused: None,
    }
}

/// What is to be installed: `<name> over <name that it replaces> for <Subscriptions>`, or `by <Subscription that is made for it>`.
fn told(case: &Case) -> Result<String, String> {
    let inputs = match case.facts().gate() {
        Gate::Open(inputs) => inputs,
        Gate::Closed(cause) => return Err(cause),
        Gate::Waiting => return Ok(String::new()),
    };
    let (mut installs, mut failures) = (Vec::new(), Vec::new());
    for part in inputs.answer(&ClusterVersions::default(), &Limits::default())?.parts {
        installs.extend(part.installs().iter().map(of_new));
        if let Outcome::Impossible(failure) = part.outcome {
            failures.push(failure.message);
        }
    }
    installs.sort();
    if failures.is_empty() { Ok(installs.join("; ")) } else { Err(failures.join("; ")) }
}

fn of_new(new: &New) -> String {
    let over = if new.replaces.is_empty() { String::new() } else { format!(" over {}", new.replaces) };
    let made = || subscription_name([&new.package, &new.channel, &new.catalog.1, &new.catalog.0]);
    match new.subscriptions.is_empty() {
        true => format!("{}{over} by {}", new.name, made()),
        false => format!("{}{over} for {}", new.name, new.subscriptions.iter().cloned().collect::<Vec<_>>().join(", ")),
    }
}

fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for row in rows {
        let written = written(row.world);
        for (order, written) in [("", written.clone()), ("reversed, ", written.reversed())] {
            let found = told(&case(&written, row.forward));
            let is_right = match (&row.expected, &found) {
                (Ok(expected), Ok(found)) => expected == found,
                (Err(texts), Err(message)) => texts.iter().all(|text| message.contains(text)),
                _ => false,
            };
            if !is_right {
                wrong.push(format!("{order}{}: {found:?}", row.name));
            }
        }
    }
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len(), "names are different");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn namespaces_come_to_what_is_published() {
    check(&rows::NEW);
    check(&rows::EXISTING);
    check(&rows::TOGETHER);
    check(&rows::FORWARD);
}

/// What the record of a bundle in an image says, before its steps are there.
#[test]
fn bundle_in_an_image_is_recorded_with_properties_and_what_it_replaces() {
    for (name, world, expected) in [
        (
            "dependency",
            "catalog main\n a.v1 alpha requires K\n b.v1 beta provides K\n sub a/alpha",
            ("b.v1", "", "b", "1.0.0"),
        ),
        (
            "update",
            "catalog main\n b.v2 alpha replaces b.v1 provides K\n installed b.v1 provides K\n sub b/alpha at b.v1",
            ("b.v2", "b.v1", "b", "2.0.0"),
        ),
    ] {
        let (_, status) = case(&written(world), false).decide().create[0].object(&BTreeMap::new()).unwrap();
        let (csv, replaces, package, version) = expected;
        let lookup = status.bundle_lookups.iter().find(|it| it.identifier == csv).unwrap();
        assert_eq!(
            (lookup.replaces.as_str(), lookup.path.starts_with("quay.io/test/b@sha256:")),
            (replaces, true),
            "{name}"
        );
        let properties: Value = serde_json::from_str(&lookup.properties).unwrap();
        let api = json!({"group": "g", "version": "v1", "kind": "K"});
        let expected = json!({"properties": [{"type": PACKAGE, "value": {"packageName": package, "version": version}},
            {"type": GVK, "value": api}]});
        assert_eq!(properties, expected, "{name}");
        let reference = &lookup.catalog_source_ref;
        assert_eq!((reference.namespace.as_deref(), reference.name.as_deref()), (Some("ns"), Some("main")), "{name}");
    }
}

#[test]
fn content_of_a_catalog_counts_until_there_is_another_one() {
    let inputs = |case: &Case| match case.facts().gate() {
        Gate::Open(inputs) => inputs,
        other => panic!("{other:?}"),
    };
    let one = case(&written("catalog main\n a.v1 alpha\n sub a/alpha"), false);
    assert_eq!(inputs(&one), inputs(&one), "the same content is not looked at again");
    let mut other = case(&written("catalog main\n a.v2 alpha\n sub a/alpha"), false);
    other.subscriptions = one.subscriptions.clone();
    assert_ne!(inputs(&one), inputs(&other), "another one is");
    assert_eq!([told(&one), told(&other)], ["a.v1 for a-alpha", "a.v2 for a-alpha"].map(|text| Ok(text.to_owned())));
}

#[test]
fn catalog_counts_by_its_health() {
    for (name, health, expected) in [
        ("healthy", Some(Ok(())), Ok("a.v2 over a.v1 for sub-a".to_owned())),
        ("nothing is known yet", None, Ok(String::new())),
        ("it fails", Some(Err("testing".to_owned())), Err("error using catalogsource ns/main: testing".to_owned())),
        (
            "it fails with content",
            Some(Err("testing".to_owned())),
            Err("error using catalogsource ns/main: testing".to_owned()),
        ),
    ] {
        let content = healthy().content.filter(|_| name != "it fails");
        let mut case = Case::of(&["a"]);
        case.catalogs = [(id("ns", "main"), Visible { health, content, ..healthy() })].into();
        assert_eq!(told(&case), expected, "{name}");
    }
}
