use super::*;
use crate::api::Release;
use crate::payload::ObjectId;
use crate::plan::{Blocker, By, Cause, Counts, GateAhead, LeftOut, SCHEMA, Side};
use jiff::Timestamp;
use serde_json::json;

fn page(width: usize, colours: bool) -> Page {
    Page { width, colours, now: Timestamp::UNIX_EPOCH }
}

fn step(kind: &str, name: &str, action: Action, gate: Option<GateAhead>) -> Step {
    let object = ObjectId::new("", kind, "ns", name);
    Step { object, api_version: "v1".into(), file: "f.yaml".into(), index: 0, action, gate }
}

fn field(path: &str, from: Option<Value>, to: Option<Value>) -> Field {
    Field { path: path.into(), from, to }
}

fn forecast() -> Forecast {
    let gate = |now, message: &str| Some(GateAhead { awaits: "to be well".into(), now, message: message.into() });
    let fields = vec![field("data.a", Some(json!("x")), None), field("data[example.com/b]", None, None)];
    let steps = vec![
        step("ConfigMap", "new", Action::Create, None),
        step("ConfigMap", "changed", Action::Change { fields }, gate(Now::Open, "")),
        step("ConfigMap", "same", Action::Leave { why: "as wanted" }, gate(Now::Open, "")),
        step("ConfigMap", "ill", Action::Leave { why: "as wanted" }, gate(Now::Failing, "broken")),
    ];
    let quiet = vec![step("ConfigMap", "quiet", Action::Leave { why: "as wanted" }, None)];
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
        excluded: vec![LeftOut { object: ObjectId::default(), file: "x".into(), by: By::Filter, reason: "no".into() }],
        dropped: vec![],
        implicit_capabilities: vec!["Console".into()],
        overrides_hide: vec![],
        blockers: vec![Blocker::of(Cause::Unhealthy, "operator \"x\"", "Ill", "is not well".into())],
        unknowns: vec!["What operators do.".into()],
    }
}

#[test]
fn a_plan_for_people() {
    let expected = "\
Update 1.0.0 → 1.0.1, seen from cluster
1 to create, 1 to change, 3 to leave alone; 1 stages, 3 gates

Stage 1: 2 components side by side, 2 objects written, 3 gates
  1/20/x (wave 1)
    create   configmap \"ns/new\"
    change   configmap \"ns/changed\"  data.a: x → nothing
                                     data[example.com/b]
  waits for configmap \"ns/changed\" to be well
  waits for configmap \"ns/ill\" to be well (failing now: broken)
  1 gates more, of objects that are left alone

Will probably stop the update
  - operator \"x\" (Ill): is not well

Capabilities that get enabled implicitly
  - Console

Not known beforehand
  - What operators do.

1 manifests of the release are not for this cluster; `cvo payload list` says why
";
    assert_eq!(text(&forecast(), &page(usize::MAX, false), false), expected);
    let all = text(&forecast(), &page(usize::MAX, false), true);
    for line in
        ["    leave    configmap \"ns/quiet\"  as wanted", "  1/20/y (wave 1)", "waits for configmap \"ns/same\""]
    {
        assert!(all.contains(line), "{line} in\n{all}");
    }
}

#[test]
fn colours_change_no_text() {
    let coloured = text(&forecast(), &page(usize::MAX, true), false);
    let mut plain = String::new();
    let mut rest = coloured.as_str();
    while let Some((before, after)) = rest.split_once('\u{1b}') {
        plain.push_str(before);
        rest = after.split_once('m').unwrap().1;
    }
    plain.push_str(rest);
    assert_ne!(coloured, plain);
    assert_eq!(plain, text(&forecast(), &page(usize::MAX, false), false));
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let told = text(&forecast(), &page(60, false), true);
    let widest = told.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(60), "{told}");
}
