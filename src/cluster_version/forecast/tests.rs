//! Plans of small releases.

mod concerns;

use super::*;
use crate::cluster_version::api::ClusterVersion;
use crate::cluster_version::rollout::{MANAGER, owner};
use crate::cluster_version::updates::upgradeable::NotUpgradeable;
use crate::machine_config::summary;
use crate::object::read::Read;
use crate::release::{ApplyFilter, Capabilities, LoadOptions, Payload, PayloadFiles, SourceFile, load};
use serde_json::json;
use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::sync::Arc;

/// An object of the default profile as a file.
fn file(name: &str, mut object: Value) -> SourceFile {
    let annotations = object["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
    object["metadata"]["annotations"] = json!({"include.release.openshift.io/self-managed-high-availability": "true"});
    for (key, value) in annotations {
        object["metadata"]["annotations"][key] = value;
    }
    SourceFile { name: name.to_owned(), bytes: object.to_string().into_bytes() }
}

fn release(version: &str, own: Vec<SourceFile>, mut release: Vec<SourceFile>) -> Payload {
    let metadata = json!({"kind": "cincinnati-metadata-v0", "version": version});
    let references =
        json!({"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": version}});
    for (name, content) in [("release-metadata", metadata), ("image-references", references)] {
        release.push(SourceFile { name: name.to_owned(), bytes: content.to_string().into_bytes() });
    }
    let options = LoadOptions { image: format!("r/release:{version}"), ..LoadOptions::default() };
    load(PayloadFiles { place: "/p".into(), own, release, ..PayloadFiles::default() }, &options).unwrap()
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "ns"}, "data": {"k": value}})
}

fn operator(name: &str, version: &str) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": name},
        "status": {"versions": [{"name": "operator", "version": version}]}})
}

fn deployment(namespace: &str, name: &str, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn own_deployment() -> ObjectId {
    ObjectId::new("apps", "Deployment", "own", "daemon")
}

fn prepared(manifest: &Manifest) -> Result<Value, MergeError> {
    let owner = owner("version", "u");
    Ok(merge::metadata::prepare(manifest.object().unwrap(), Some(&owner), manifest.create_only()))
}

fn predict(payload: &Payload, live: &[LiveObject], filter: &ApplyFilter, values: bool) -> Forecast {
    let side = |source: &str, version: &str| Side {
        source: source.to_owned(),
        release: Release { version: version.to_owned(), image: format!("r/release:{version}"), ..Release::default() },
    };
    let selection = payload.select(filter);
    forecast(&PlanInput {
        from: side("cluster", "1.0.0"),
        to: side("/to", "1.0.1"),
        mode: Mode::Update,
        manifests: &selection.manifests,
        excluded: excluded(&selection, filter),
        live: &live.iter().map(|object| (object.id.clone(), object.clone())).collect(),
        namespaces: Some(["ns", "own"].map(str::to_owned).into()),
        prepared: &prepared,
        own_deployment: &own_deployment(),
        manager: MANAGER,
        server: Some(30),
        values,
    })
}

/// Everything is included.
fn all() -> ApplyFilter {
    ApplyFilter::default()
}

/// From one release to another, with nothing excluded.
fn between(before: &Payload, after: &Payload) -> (Forecast, Vec<ObjectId>) {
    let live = live_after_release(&before.manifests, after, &prepared);
    let selection = after.select(&all());
    let dropped = dropped(&before.manifests, &selection, &excluded(&selection, &all()));
    (predict(after, &live.into_values().collect::<Vec<_>>(), &all(), false), dropped)
}

/// `stage node action name fields`.
fn lines(forecast: &Forecast) -> Vec<String> {
    let mut lines = Vec::new();
    for stage in &forecast.stages {
        for node in &stage.nodes {
            for step in &node.steps {
                let fields = match &step.action {
                    Action::Change { fields } | Action::Replace { fields } => {
                        fields.iter().map(|field| format!(" {}", field.path)).collect()
                    }
                    _ => String::new(),
                };
                lines.push(format!("{} {} {}{fields}", node.id, step.action.word(), step.object.name));
            }
        }
    }
    lines
}

/// A release and its successor, with a manifest for each kind of step.
fn two_releases() -> (Payload, Payload) {
    let delete = |mut object: Value| {
        object["metadata"]["annotations"] = json!({"release.openshift.io/delete": "true"});
        object
    };
    let create_only = |mut object: Value| {
        object["metadata"]["annotations"] = json!({"release.openshift.io/create-only": "true"});
        object
    };
    let before = release(
        "1.0.0",
        vec![
            file("0000_00_own_a.yaml", deployment("own", "daemon", "i:1")),
            file("0000_00_own_b.yaml", map("own", "1")),
        ],
        vec![
            file("0000_20_x_a.yaml", map("same", "1")),
            file("0000_20_x_b.yaml", map("changed", "1")),
            file("0000_20_y_a.yaml", map("once", "1")),
            file("0000_20_y_b.yaml", map("goes", "1")),
            file("0000_30_z_a.yaml", map("dropped", "1")),
        ],
    );
    let after = release(
        "1.0.1",
        vec![
            file("0000_00_own_a.yaml", deployment("own", "daemon", "i:2")),
            file("0000_00_own_b.yaml", map("own", "1")),
        ],
        vec![
            file("0000_20_x_a.yaml", map("same", "1")),
            file("0000_20_x_b.yaml", map("changed", "2")),
            file("0000_20_x_c.yaml", operator("new", "1.0.1")),
            file("0000_20_y_a.yaml", create_only(map("once", "2"))),
            file("0000_20_y_b.yaml", delete(map("goes", "1"))),
            file("0000_20_y_c.yaml", delete(map("never-was", "1"))),
        ],
    );
    (before, after)
}

#[test]
fn steps_are_in_the_order_of_writing() {
    let (before, after) = two_releases();
    let (forecast, dropped) = between(&before, &after);
    let expected = [
        // The own Deployment is the last of the own manifests.
        "1/00/own leave own",
        "1/00/own change daemon spec.template.spec.containers[c].image",
        // A new ClusterOperator is created when its node starts.
        "2/20/x create new",
        "2/20/x leave same",
        "2/20/x change changed data.k",
        "2/20/y leave once",
        "2/20/y delete goes",
        "2/20/y leave never-was",
    ];
    assert_eq!(lines(&forecast), expected);
    let counts = Counts { create: 1, change: 2, delete: 1, leave: 4, ..Counts::default() };
    assert_eq!(forecast.counts, counts);
    assert_eq!(dropped, [ObjectId::new("", "ConfigMap", "ns", "dropped")]);
    let nodes: Vec<_> = forecast.stages.iter().flat_map(|s| &s.nodes).map(|n| (n.wave, n.after.clone())).collect();
    let own = vec!["1/00/own".to_owned()];
    assert_eq!(nodes, [(1, vec![]), (2, own.clone()), (2, own)]);
    let gates: Vec<_> = forecast.steps().filter_map(|s| Some((s.object.name.as_str(), s.gate.as_ref()?))).collect();
    let awaited: Vec<_> = gates.iter().map(|(name, gate)| (*name, gate.awaits.as_str(), gate.now)).collect();
    let expected = [
        ("daemon", "to replace the running daemon by the new release's", GateState::Unknown),
        ("new", "to be available, not degraded and at operator 1.0.1", GateState::Unknown),
    ];
    assert_eq!(awaited, expected);
}

/// The plan of one manifest, for an object in this state.
fn one(object: Value, state: LiveState) -> Forecast {
    let payload = release("1.0.1", vec![], vec![file("0000_20_x_a.yaml", object)]);
    let found = [LiveObject { id: payload.manifests[0].id.clone(), state, has_status: true }];
    predict(&payload, &found, &all(), false)
}

fn live(mut object: Value) -> LiveState {
    let annotations = json!({"include.release.openshift.io/self-managed-high-availability": "true", "foreign": "x"});
    object["metadata"]["annotations"] = annotations;
    object["metadata"]["ownerReferences"] = json!([{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion",
        "name": "version", "uid": "u", "controller": true}]);
    LiveState::Exists(Arc::new(object))
}

fn only(forecast: &Forecast) -> &Action {
    &forecast.stages[0].nodes[0].steps[0].action
}

#[test]
fn unreadable_object_is_unknown() {
    let forecast = one(map("a", "1"), LiveState::Unreadable("cannot list configmaps: forbidden".into()));
    assert_eq!(only(&forecast), &Action::Unknown { why: "cannot list configmaps: forbidden".into() });
    assert_eq!(forecast.counts, Counts { unknown: 1, ..Counts::default() });
}

#[test]
fn unserved_kind_blocks_unless_the_release_defines_it() {
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}});
    let forecast = one(widget.clone(), LiveState::NotServed);
    assert!(matches!(only(&forecast), Action::Refused { why } if why.contains("does not serve example.org/v1 Widget")));
    assert!(forecast.is_blocked() && forecast.blockers[0].cause == Cause::NotServed);

    let crd = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.org"}, "spec": {"group": "example.org", "scope": "Cluster",
        "names": {"kind": "Widget", "plural": "widgets"}, "versions": [{"name": "v1", "served": true}]}});
    let payload = release("1.0.1", vec![], vec![file("0000_20_x_a.yaml", crd), file("0000_20_x_b.yaml", widget)]);
    let found = |i: usize, state| LiveObject { id: payload.manifests[i].id.clone(), state, has_status: true };
    let forecast = predict(&payload, &[found(0, LiveState::Absent), found(1, LiveState::NotServed)], &all(), false);
    assert_eq!(lines(&forecast), ["1/20/x create widgets.example.org", "1/20/x create w"]);
    assert!(!forecast.is_blocked(), "{:?}", forecast.blockers);
    // It exists already, in an older version.
    let older = || LiveState::OtherVersion("it exists as v1beta1".into());
    let forecast = predict(&payload, &[found(0, LiveState::Absent), found(1, older())], &all(), false);
    assert_eq!(lines(&forecast), ["1/20/x create widgets.example.org", "1/20/x unknown w"]);
    assert!(!forecast.is_blocked(), "{:?}", forecast.blockers);
    let widget = json!({"apiVersion": "example.org/v1", "kind": "Widget", "metadata": {"name": "w"}});
    assert_eq!(one(widget, older()).blockers[0].cause, Cause::NotServed);
}

#[test]
fn overridden_object_is_neither_written_nor_awaited() {
    let object = deployment("ns", "a", "i:2");
    let payload =
        release("1.0.1", vec![], vec![file("0000_20_x_a.yaml", object), file("0000_20_x_b.yaml", map("b", "1"))]);
    let [id, other] = [0, 1].map(|i: usize| payload.manifests[i].id.clone());
    let found = [
        LiveObject { id: id.clone(), state: live(deployment("ns", "a", "i:1")), has_status: true },
        LiveObject { id: other, state: LiveState::Absent, has_status: true },
    ];
    let over = crate::release::api::ComponentOverride {
        group: "apps".into(),
        kind: "Deployment".into(),
        namespace: "ns".into(),
        name: "a".into(),
        unmanaged: true,
    };
    let forecast = predict(&payload, &found, &ApplyFilter { overrides: vec![over], ..all() }, false);
    assert_eq!(lines(&forecast), ["1/20/x create b"]);
    assert_eq!((forecast.overrides_hide.clone(), forecast.counts.hidden), (vec![id.clone()], 1));
    let [hidden] = &forecast.excluded[..] else { panic!("{:?}", forecast.excluded) };
    assert_eq!((&hidden.object, hidden.by), (&id, ExcludedBy::Override));
    assert!(hidden.reason.contains("override"), "{hidden:?}");
    assert!(forecast.blockers.is_empty(), "{:?}", forecast.blockers);
}

#[test]
fn foreign_annotations_and_owners_are_not_a_change() {
    assert!(matches!(only(&one(map("a", "1"), live(map("a", "1")))), Action::Leave { .. }));
    let changed = one(map("a", "2"), live(map("a", "1")));
    assert_eq!(lines(&changed), ["1/20/x change a data.k"]);
}

#[test]
fn second_manifest_of_an_object_starts_from_the_result_of_the_first() {
    let files = |value: &str| vec![file("0000_20_x_a.yaml", map("a", "1")), file("0000_20_x_b.yaml", map("a", value))];
    let plan = |value: &str| {
        let payload = release("1.0.1", vec![], files(value));
        let id = payload.manifests[0].id.clone();
        let found = LiveObject { id, state: LiveState::Absent, has_status: true };
        lines(&predict(&payload, &[found], &all(), false))
    };
    assert_eq!(plan("1"), ["1/20/x create a", "1/20/x leave a"]);
    assert_eq!(plan("2"), ["1/20/x create a", "1/20/x change a data.k"]);
}

#[test]
fn immutable_fields_are_refused_or_replaced() {
    let mut other = deployment("ns", "a", "i:1");
    other["spec"]["selector"] = json!({"matchLabels": {"a": "other"}});
    let forecast = one(deployment("ns", "a", "i:1"), live(other));
    assert!(matches!(only(&forecast), Action::Refused { why } if why.contains("spec.selector")), "{forecast:?}");
    assert_eq!(forecast.blockers[0].cause, Cause::Refused);
    let binding = |role: &str| {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "b"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
    };
    let forecast = one(binding("new"), live(binding("old")));
    assert_eq!(lines(&forecast), ["1/20/x replace b roleRef.name"]);
}

#[test]
fn values_are_shown_on_request_but_not_of_secrets() {
    let secret = |value: &str| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "ns"}, "data": {"k": value}});
    let before = release("1.0.0", vec![], vec![file("a.yaml", map("a", "1")), file("b.yaml", secret("b2xk"))]);
    let after = release("1.0.1", vec![], vec![file("a.yaml", map("a", "2")), file("b.yaml", secret("bmV3"))]);
    let found: Vec<_> = live_after_release(&before.manifests, &after, &prepared).into_values().collect();
    let fields = |values| {
        let forecast = predict(&after, &found, &all(), values);
        let fields = forecast.steps().flat_map(|step| match &step.action {
            Action::Change { fields } => fields.clone(),
            _ => panic!("{step:?}"),
        });
        fields.collect::<Vec<_>>()
    };
    let field = |from: Option<&str>, to: Option<&str>| Field {
        path: "data.k".into(),
        from: from.map(Value::from),
        to: to.map(Value::from),
    };
    assert_eq!(fields(false), [field(None, None), field(None, None)]);
    assert_eq!(fields(true), [field(Some("1"), Some("2")), field(None, None)]);
}

#[test]
fn namespace_that_does_not_exist_in_time_blocks() {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}});
    let inside = |name: &str, namespace: &str| {
        let mut object = map(name, "1");
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    let blocked = |files: Vec<SourceFile>| {
        let payload = release("1.0.1", vec![], files);
        let found = |m: &Arc<Manifest>| LiveObject { id: m.id.clone(), state: LiveState::Absent, has_status: true };
        let found: Vec<_> = payload.manifests.iter().map(found).collect();
        let forecast = predict(&payload, &found, &all(), false);
        forecast.blockers.into_iter().map(|blocker| (blocker.object, blocker.message)).collect::<Vec<_>>()
    };
    let object = |file_name: &str, namespace: &str| file(file_name, inside(file_name, namespace));
    let (nowhere, many) = (object("0000_20_x_a.yaml", "nowhere"), object("0000_20_x_b.yaml", "nowhere"));
    let told = blocked(vec![nowhere, many]);
    let [(what, why)] = &told[..] else { panic!("{told:?}") };
    assert_eq!(what, "namespace \"nowhere\"");
    assert!(why.contains("and 1 more") && why.contains("does not contain it"), "{why}");
    let table = [
        ("0000_20_x_b.yaml", true, "the same node, later"),
        ("0000_30_y_a.yaml", true, "a later stage"),
        ("0000_20_w_a.yaml", false, "beside it: it is waited for"),
        ("0000_10_x_a.yaml", false, "before it"),
    ];
    for (place, blocks, what) in table {
        let told = blocked(vec![object("0000_20_x_a.yaml", "new"), file(place, namespace.clone())]);
        assert_eq!(told.iter().any(|(_, why)| why.contains("comes later")), blocks, "{what}: {told:?}");
    }
    for name in ["ns", "default"] {
        assert_eq!(blocked(vec![object("0000_20_x_a.yaml", name)]), [], "{name} exists");
    }
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "r", "namespace": "ignored"}});
    assert_eq!(blocked(vec![file("0000_20_x_a.yaml", role)]), [], "it is in no namespace");
    let made = |place: &str| file(place, namespace.clone());
    let between = vec![made("0000_10_x_a.yaml"), object("0000_20_x_a.yaml", "new"), made("0000_30_x_a.yaml")];
    assert_eq!(blocked(between), [], "the first makes it");
}

/// Programs read this: members may be added, but none may be removed or change its meaning while `schema` is 1.
#[test]
fn json_schema_is_stable() {
    let forecast = one(map("a", "2"), live(map("a", "1")));
    let value = serde_json::to_value(&forecast).unwrap();
    let side = |source: &str, version: &str| json!({"source": source, "release": {"version": version, "image": format!("r/release:{version}")}});
    let expected = json!({
        "schema": 1, "mode": "update", "from": side("cluster", "1.0.0"), "to": side("/to", "1.0.1"),
        "counts": {"create": 0, "change": 1, "replace": 0, "delete": 0, "leave": 0, "hidden": 0, "refused": 0,
            "unknown": 0},
        "stages": [{"number": 1, "nodes": [{"id": "1/20/x", "wave": 1, "after": [], "steps": [{
            "object": {"group": "", "kind": "ConfigMap", "namespace": "ns", "name": "a"}, "apiVersion": "v1",
            "file": "0000_20_x_a.yaml", "index": 0, "action": "change", "fields": [{"path": "data.k"}]}]}]}],
        "excluded": [], "dropped": [], "implicitCapabilities": [], "overridesHide": [], "blockers": [], "unknowns": [], "verified": null,
    });
    assert_eq!(value, expected);
}

#[test]
fn dot_has_each_node_once_and_its_edges() {
    let before = release("1.0.0", vec![], vec![]);
    let after = release(
        "1.0.1",
        vec![],
        vec![
            file("0000_20_x_a.yaml", map("a", "1")),
            file("0000_20_y_a.yaml", map("b", "1")),
            file("0000_30_z_a.yaml", map("c\"", "1")),
        ],
    );
    let drawn = dot(&between(&before, &after).0);
    for part in [
        "label=\"1.0.0 to 1.0.1\"",
        "subgraph cluster_1",
        "\"1/20/x\" -> \"2/30/z\"",
        "\"1/20/y\" -> \"2/30/z\"",
        "ns/c\\\"",
    ] {
        assert!(drawn.contains(part), "{part} in {drawn}");
    }
    assert_eq!(drawn.matches("[label=").count(), 3, "{drawn}");
}

#[test]
fn capability_of_a_managed_object_is_enabled_implicitly() {
    let needs = |mut object: Value, capability: &str| {
        object["metadata"]["annotations"] = json!({"capability.openshift.io/name": capability});
        object
    };
    let payload = release(
        "1.0.1",
        vec![],
        vec![
            file("0000_20_x_a.yaml", needs(map("moved", "2"), "Console")),
            file("0000_20_x_b.yaml", needs(map("never-there", "1"), "Storage")),
            file("0000_20_x_c.yaml", needs(map("foreign", "1"), "Instates")),
        ],
    );
    let mut foreign = map("foreign", "1");
    foreign["metadata"]["ownerReferences"] = json!([{"kind": "Deployment", "name": "d", "uid": "d"}]);
    let states = [live(map("moved", "1")), LiveState::Absent, LiveState::Exists(Arc::new(foreign))];
    let found: Vec<_> = states
        .into_iter()
        .zip(&payload.manifests)
        .map(|(state, manifest)| LiveObject { id: manifest.id.clone(), state, has_status: true })
        .collect();
    let findings = found.iter().map(|found| (found.id.clone(), found.clone())).collect();
    let known = ["Console", "Storage", "Instates"].map(str::to_owned).into();
    let mut capabilities = Capabilities { known, ..Capabilities::default() };
    let implied = capabilities.imply(&payload.manifests, &managed(&findings, &payload.manifests), &BTreeSet::new());
    assert_eq!(implied.into_iter().collect::<Vec<_>>(), ["Console"]);
    let by = ApplyFilter { capabilities: Some(capabilities), ..ApplyFilter::default() };
    let forecast = predict(&payload, &found, &by, false);
    assert_eq!(lines(&forecast), ["1/20/x change moved data.k metadata.annotations[capability.openshift.io/name]",]);
    let hidden: Vec<_> = forecast.excluded.iter().map(|l| (l.object.name.as_str(), l.by)).collect();
    assert_eq!(hidden, [("never-there", ExcludedBy::Capability), ("foreign", ExcludedBy::Capability)]);
    assert_eq!((forecast.overrides_hide.len(), forecast.counts.hidden), (0, 2));
}
