use super::*;
use crate::olm::api::catalog_source::SourceType;
use crate::olm::api::operator_hub::{HubSource, OperatorHubSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::json;

const NAMESPACE: &str = "openshift-marketplace";

/// A cluster with a release that brings the catalogs `one` and `two`.
struct World {
    release: Option<BTreeMap<String, String>>,
    hub: Option<OperatorHub>,
    live: Vec<CatalogSource>,
    failed: BTreeMap<String, String>,
}

fn manifest(name: &str, image: &str, annotations: &serde_json::Value) -> String {
    let manifest = json!({
        "apiVersion": "operators.coreos.com/v1alpha1",
        "kind": "CatalogSource",
        "metadata": {"name": name, "labels": {"tier": "default"}, "annotations": annotations},
        "spec": {"sourceType": "grpc", "image": image, "priority": -100},
    });
    manifest.to_string()
}

fn release(image: &str) -> BTreeMap<String, String> {
    let catalogs = ["one", "two"].map(|name| (format!("{name}.yaml"), manifest(name, image, &json!({}))));
    catalogs.into_iter().collect()
}

impl World {
    fn new() -> World {
        let hub = Some(OperatorHub::new("cluster", OperatorHubSpec::default()));
        World { release: Some(release("cat:v1.0")), hub, live: Vec::new(), failed: BTreeMap::new() }
    }

    fn hub(&mut self, disable_all: bool, sources: &[(&str, bool)]) {
        let sources = sources.iter().map(|(name, disabled)| HubSource { name: name.to_string(), disabled: *disabled });
        let spec = OperatorHubSpec { disable_all_default_sources: disable_all, sources: sources.collect() };
        let status = self.hub.take().and_then(|hub| hub.status);
        self.hub = Some(OperatorHub { status, ..OperatorHub::new("cluster", spec) });
    }

    fn decide(&self) -> HubDecision {
        decide(&HubFacts {
            release: self.release.as_ref(),
            hub: self.hub.as_ref(),
            live: &self.live,
            namespace: NAMESPACE,
            failed: &self.failed,
        })
    }

    /// Decides, and performs it. Returns what was created, repaired and deleted.
    fn step(&mut self) -> [Vec<String>; 3] {
        let decision = self.decide();
        let names =
            |sources: &[CatalogSource]| sources.iter().map(|source| name(source).to_owned()).collect::<Vec<_>>();
        let deleted: Vec<String> = decision.delete.iter().map(|(name, _)| name.clone()).collect();
        let done = [names(&decision.create), names(&decision.repair), deleted.clone()];
        self.live.retain(|source| !deleted.contains(&name(source).to_owned()));
        for source in &decision.repair {
            *self.live.iter_mut().find(|live| name(live) == name(source)).unwrap() = source.clone();
        }
        for mut source in decision.create {
            source.metadata.uid = Some(format!("uid-{}", name(&source)));
            source.metadata.resource_version = Some("7".to_owned());
            self.live.push(source);
        }
        if let Some(hub) = &mut self.hub {
            hub.status = decision.status.or(hub.status.take());
        }
        done
    }

    fn live(&mut self, name_of: &str) -> &mut CatalogSource {
        self.live.iter_mut().find(|live| name(live) == name_of).unwrap()
    }

    /// Name, whether disabled, status.
    fn status(&self) -> Vec<(String, bool, String)> {
        let status = self.hub.as_ref().unwrap().status.clone().unwrap_or_default();
        status.sources.into_iter().map(|source| (source.name, source.disabled, source.status)).collect()
    }
}

fn custom(name: &str) -> CatalogSource {
    let spec =
        CatalogSourceSpec { source_type: SourceType::Grpc, image: "mine:1".into(), ..CatalogSourceSpec::default() };
    CatalogSource::new(name, spec)
}

fn none() -> [Vec<String>; 3] {
    Default::default()
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| name.to_string()).collect()
}

#[test]
fn default_catalogs_are_made_in_the_global_namespace_and_told_of() {
    let mut world = World::new();
    assert_eq!(world.step(), [list(&["one", "two"]), vec![], vec![]]);
    let one = world.live("one").clone();
    assert_eq!(one.metadata.namespace.as_deref(), Some(NAMESPACE));
    assert_eq!((one.spec.image.as_str(), one.spec.priority), ("cat:v1.0", -100));
    assert_eq!(annotation(&one, DEFAULT_CATALOG), Some("one"));
    assert_eq!(one.metadata.labels.unwrap()["tier"], "default");
    let success = |name: &str| (name.to_owned(), false, "Success".to_owned());
    assert_eq!(world.status(), [success("one"), success("two")]);
    assert_eq!(world.step(), none());
    assert_eq!(world.decide().status, None, "nothing has changed");
}

#[test]
fn changed_and_deleted_default_is_back() {
    let mut world = World::new();
    world.step();
    world.live("one").spec.image = "other:1".to_owned();
    world.live("one").metadata.annotations.as_mut().unwrap().insert("mine".into(), "stays".into());
    world.live("two").metadata.labels = None;
    assert_eq!(world.step(), [vec![], list(&["one", "two"]), vec![]]);
    let one = world.live("one");
    assert_eq!((one.spec.image.as_str(), annotation(one, "mine")), ("cat:v1.0", Some("stays")));
    assert_eq!(one.metadata.resource_version.as_deref(), Some("7"), "it is based on what was seen");
    world.live.retain(|source| name(source) != "two");
    assert_eq!(world.step(), [list(&["two"]), vec![], vec![]]);
    assert_eq!(world.step(), none());
}

#[test]
fn catalogs_move_with_the_release_and_go_with_it() {
    let mut world = World::new();
    world.step();
    let mut next = release("cat:v1.1");
    next.remove("two.yaml");
    world.release = Some(next);
    assert_eq!(world.step(), [vec![], list(&["one"]), list(&["two"])]);
    assert_eq!(world.live("one").spec.image, "cat:v1.1");
    world.release = Some(BTreeMap::new());
    assert_eq!(world.step(), [vec![], vec![], list(&["one"])]);
    assert_eq!(world.status(), []);
}

#[test]
fn operator_hub_disables_all_or_one_and_enables_again() {
    let mut world = World::new();
    world.step();
    world.hub(false, &[("one", true)]);
    assert_eq!(world.step(), [vec![], vec![], list(&["one"])]);
    let said = |one: bool, two: bool| {
        vec![("one".to_owned(), one, "Success".to_owned()), ("two".to_owned(), two, "Success".to_owned())]
    };
    assert_eq!(world.status(), said(true, false));
    world.hub(true, &[]);
    assert_eq!(world.step(), [vec![], vec![], list(&["two"])]);
    assert_eq!(world.status(), said(true, true));
    world.hub(true, &[("two", true), ("two", false)]);
    assert_eq!(
        world.step(),
        [list(&["two"]), vec![], vec![]],
        "a source that is named comes before all, the last first"
    );
    assert_eq!(world.status(), said(true, false));
    world.hub(false, &[]);
    assert_eq!(world.step(), [list(&["one"]), vec![], vec![]]);
}

#[test]
fn name_that_no_default_has_is_an_error_in_the_status() {
    let mut world = World::new();
    world.hub(false, &[("three", true)]);
    world.step();
    assert_eq!(world.status()[2], ("three".to_owned(), true, "Error".to_owned()));
    let status = world.hub.as_ref().unwrap().status.clone().unwrap();
    assert!(status.sources[2].message.contains("no default catalog of this name"), "{status:?}");
    assert!(world.decide().errors.is_empty(), "it is for the administrator alone");
}

#[test]
fn custom_catalogs_are_left_alone() {
    let mut world = World::new();
    world.live = vec![custom("mine")];
    let mut copy = custom("copy");
    copy.metadata.annotations = Some([(DEFAULT_CATALOG.to_owned(), "one".to_owned())].into());
    world.live.push(copy);
    let mut theirs = custom("theirs");
    theirs.metadata.annotations = Some([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())].into());
    world.live.push(theirs);
    world.step();
    world.hub(true, &[]);
    world.step();
    let names: Vec<&str> = world.live.iter().map(name).collect();
    assert_eq!(names, ["mine", "copy", "theirs"]);
    assert_eq!(world.live("mine").spec, custom("mine").spec);
}

#[test]
fn custom_catalog_with_the_name_of_a_default_is_left_alone_and_told_of() {
    let mut world = World::new();
    world.live = vec![custom("one")];
    assert_eq!(world.step(), [list(&["two"]), vec![], vec![]]);
    assert_eq!(world.status()[0], ("one".to_owned(), false, "Error".to_owned()));
    assert!(world.decide().errors.is_empty(), "a name that an administrator has chosen must not hinder updates");
    world.hub(false, &[("one", true)]);
    assert_eq!(world.step(), none());
    assert_eq!(world.status()[0], ("one".to_owned(), true, "Success".to_owned()));
}

#[test]
fn default_that_another_program_has_made_is_taken_over() {
    let mut world = World::new();
    let mut theirs = custom("one");
    theirs.metadata.annotations = Some([(MANAGED_BY.0.to_owned(), MANAGED_BY.1.to_owned())].into());
    let mut same = custom("two");
    same.spec = defaults(&release("cat:v1.0"), NAMESPACE).0["two"].spec.clone();
    world.live = vec![theirs, same];
    assert_eq!(world.step(), [vec![], list(&["one", "two"]), vec![]]);
    assert!(world.live.iter().all(is_own));
}

#[test]
fn image_of_a_default_with_a_template_follows_the_template() {
    let mut world = World::new();
    let annotations = json!({CATALOG_IMAGE_TEMPLATE: "cat:v{kube_major_version}"});
    world.release = Some([("one.yaml".to_owned(), manifest("one", "", &annotations))].into());
    world.step();
    world.live("one").spec.image = "cat:v1".to_owned();
    assert_eq!(world.step(), none());
    world.live("one").spec.priority = 7;
    assert_eq!(world.step(), [vec![], list(&["one"]), vec![]]);
    assert_eq!(world.live("one").spec.image, "cat:v1");
}

#[test]
fn without_the_config_map_nothing_is_done() {
    let mut world = World::new();
    world.step();
    world.release = None;
    world.live("one").spec.image = "other:1".to_owned();
    assert_eq!(world.step(), none());
    assert_eq!(world.decide().status, None);
}

#[test]
fn cluster_without_operator_hub_has_all_defaults() {
    let mut world = World::new();
    world.hub = None;
    assert_eq!(world.step(), [list(&["one", "two"]), vec![], vec![]]);
    assert_eq!(world.decide().status, None);
}

#[test]
fn what_cannot_be_read_of_the_release_is_said_and_deletes_nothing() {
    for (text, expected) in [
        ("a: [", "ConfigMap openshift-marketplace/default-catalog-sources, key two.yaml: "),
        ("\nkind: Pod\napiVersion: v1", "key two.yaml, line 2: it is a v1 Pod, not"),
        (r#"{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource"}"#, "key two.yaml, line 1: "),
        (&manifest("", "cat:1", &json!({})), "line 1: it has no name"),
        (&manifest("one", "cat:1", &json!({})), "there are two catalogs one"),
    ] {
        let mut world = World::new();
        world.step();
        world.release.as_mut().unwrap().insert("two.yaml".to_owned(), text.to_owned());
        let decision = world.decide();
        assert!(decision.errors.iter().any(|error| error.contains(expected)), "{text}: {:?}", decision.errors);
        assert!(decision.delete.is_empty(), "two may be what cannot be read");
    }
}

#[test]
fn write_that_fails_is_told_of() {
    let mut world = World::new();
    world.failed = [("two".to_owned(), "forbidden".to_owned())].into();
    assert_eq!(world.decide().errors, ["catalog two: forbidden"]);
    world.step();
    assert_eq!(world.status()[1], ("two".to_owned(), false, "Error".to_owned()));
    world.failed.clear();
    world.step();
    assert_eq!(world.status()[1].2, "Success");
}

#[test]
fn catalog_that_is_being_deleted_is_waited_for() {
    let mut world = World::new();
    world.step();
    world.live("one").metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
    world.hub(true, &[]);
    assert_eq!(world.step(), [vec![], vec![], list(&["two"])]);
}
