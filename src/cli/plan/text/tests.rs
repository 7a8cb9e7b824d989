use super::*;
use crate::cluster_version::forecast::{Blocker, Cause, Counts, Excluded, ExcludedBy, PlannedGate, SCHEMA, Side};
use crate::diff::field::Field;
use crate::object::manifest::ObjectId;
use crate::release::api::Release;
use jiff::Timestamp;
use serde_json::{Value, json};

fn page(width: usize, colours: bool) -> Page {
    Page { width, colours, now: Timestamp::UNIX_EPOCH }
}

fn step(kind: &str, name: &str, action: Action, gate: Option<PlannedGate>) -> Step {
    let object = ObjectId::new("", kind, "ns", name);
    Step { object, api_version: "v1".into(), file: "f.yaml".into(), index: 0, action, gate }
}

fn field(path: &str, from: Option<Value>, to: Option<Value>) -> Field {
    Field { path: path.into(), from, to }
}

pub(in crate::cli::plan) fn forecast() -> Forecast {
    let gate = |now, message: &str| Some(PlannedGate { awaits: "to be well".into(), now, message: message.into() });
    let fields = vec![field("data.a", Some(json!("x")), None), field("data[example.com/b]", None, None)];
    let steps = vec![
        step("ConfigMap", "new", Action::Create, None),
        step("ConfigMap", "changed", Action::Change { fields }, gate(GateState::Open, "")),
        step("ConfigMap", "same", Action::Leave { why: "as desired" }, gate(GateState::Open, "")),
        step("ConfigMap", "unhealthy", Action::Leave { why: "as desired" }, gate(GateState::Failing, "broken")),
    ];
    let quiet = vec![step("ConfigMap", "quiet", Action::Leave { why: "as desired" }, None)];
    let node = |id: &str, steps| Node { id: id.into(), wave: 1, after: vec![], steps };
    let side = |version: &str| Side {
        source: "cluster".into(),
        release: Release { version: version.into(), image: version.into(), ..Release::default() },
    };
    Forecast {
        schema: SCHEMA,
        mode: Mode::Update,
        from: side("1.0.0"),
        to: side("1.0.1"),
        counts: Counts { create: 1, change: 1, leave: 3, ..Counts::default() },
        stages: vec![Stage { number: 1, nodes: vec![node("1/20/x", steps), node("1/20/y", quiet)] }],
        excluded: vec![Excluded {
            object: ObjectId::default(),
            file: "x".into(),
            by: ExcludedBy::Filter,
            reason: "no".into(),
        }],
        dropped: vec![],
        implicit_capabilities: vec!["Console".into()],
        verified: Some(true),
        overrides_hide: vec![],
        blockers: vec![Blocker::new(Cause::Unhealthy, "operator \"x\"", "Unhealthy", "is not well".into())],
        unknowns: vec!["What operators do.".into()],
    }
}

fn catalog(name: &str, from: Option<&str>, to: Option<&str>, available: Option<bool>) -> Catalog {
    let planned = PlannedCatalog {
        namespace: "m".into(),
        name: name.into(),
        default: true,
        template: None,
        from: from.map(str::to_owned),
        to: to.map(str::to_owned),
        problem: String::new(),
    };
    Catalog { planned, available, unasked: String::new() }
}

/// A plan without catalogs and operators.
fn plan() -> Plan {
    Plan { forecast: forecast(), catalogs: Vec::new(), operators: Vec::new() }
}

#[test]
fn catalogs_are_shown_with_their_images_and_what_registries_say() {
    let catalogs = vec![
        catalog("gone", Some("r/g:1"), None, None),
        catalog("lost", Some("r/l:1"), Some("r/l:2"), Some(false)),
        catalog("new", None, Some("r/n:2"), None),
        catalog("same", Some("r/s:1"), Some("r/s:1"), Some(true)),
    ];
    let text = text(&Plan { catalogs, ..plan() }, &page(usize::MAX, false), false);
    let expected = "
Images of catalogs of operators
  - m/gone: r/g:1 → none
  - m/lost: r/l:1 → r/l:2 (its registry does not have it)
  - m/new: none → r/n:2 (its registry could not be asked)
  - m/same: r/s:1, as now (its registry has it)

Will probably stop the update
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn operators_are_shown_with_whether_they_fit() {
    let operator = |name: &str, hindrances: &[&str], warnings: &[&str], maximum: Option<&str>| PlannedOperator {
        namespace: "n".into(),
        name: name.into(),
        maximum: maximum.map(str::to_owned),
        hindrances: hindrances.iter().map(|it| (*it).to_owned()).collect(),
        warnings: warnings.iter().map(|it| (*it).to_owned()).collect(),
        ..PlannedOperator::default()
    };
    let operators = vec![
        operator("a.v1", &[], &[], Some("1.1")),
        operator("b.v1", &["no"], &["x"], Some("1.0")),
        operator("c.v1", &[], &["x"], None),
    ];
    let text = text(&Plan { operators, ..plan() }, &page(usize::MAX, false), false);
    let expected = "
Operators
  - n/a.v1: fits the release (supports versions up to 1.1)
  - n/b.v1: does not fit the release, see below (supports versions up to 1.0)
  - n/c.v1: fits the release, but see below

Will probably stop the update
";
    assert!(text.contains(expected), "{text}");
}

#[test]
fn plan_is_printed_as_text() {
    let expected = "\
Update 1.0.0 → 1.0.1, starting from cluster
1 to create, 1 to change, 3 to leave alone; 1 stages, 3 gates
The release is signed as the running one demands

Stage 1: 2 components in parallel, 2 objects written, 3 gates
  1/20/x (wave 1)
    create   configmap \"ns/new\"
    change   configmap \"ns/changed\"  data.a: x → nothing
                                     data[example.com/b]
  waits for configmap \"ns/changed\" to be well
  waits for configmap \"ns/unhealthy\" to be well (failing now: broken)
  1 more gates, of objects that are left alone

Will probably stop the update
  - operator \"x\" (Unhealthy): is not well

Capabilities that will be enabled implicitly
  - Console

Not known beforehand
  - What operators do.

1 manifests of the release are excluded by filters; `cvo payload list` says why
";
    assert_eq!(text(&plan(), &page(usize::MAX, false), false), expected);
    let all = text(&plan(), &page(usize::MAX, false), true);
    for line in
        ["    leave    configmap \"ns/quiet\"  as desired", "  1/20/y (wave 1)", "waits for configmap \"ns/same\""]
    {
        assert!(all.contains(line), "{line} in\n{all}");
    }
}

#[test]
fn colours_do_not_change_text() {
    let coloured = text(&plan(), &page(usize::MAX, true), false);
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_ne!(coloured, plain);
    assert_eq!(plain, text(&plan(), &page(usize::MAX, false), false));
}

#[test]
fn lines_fit_the_terminal() {
    let text = super::text(&plan(), &page(60, false), true);
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(60), "{text}");
}
