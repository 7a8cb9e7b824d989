use super::super::tests::{condition, now, running};
use super::super::{State, lines, render, view};
use super::*;
use crate::object::read::Read;
use crate::olm::cli::status::{Lists, What};
use crate::release::api::Release;
use serde_json::{Value, json};

const BEGIN: &str = "2026-11-21T12:00:00Z";

/// A Subscription to a package of its name.
fn subscription(name: &str, installed: &str, current: &str, conditions: &Value) -> Value {
    json!({"kind": "Subscription", "metadata": {"namespace": "shop", "name": name},
        "spec": {"name": name, "channel": "stable", "source": "main", "sourceNamespace": "market"},
        "status": {"installedCSV": installed, "currentCSV": current, "lastUpdated": BEGIN,
            "installPlanRef": {"name": "install-abcde"}, "conditions": conditions}})
}

fn version(name: &str, phase: &str, maximum: Option<&str>) -> Value {
    let property = |it: &str| json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": it}]}).to_string();
    let annotations = maximum.map(|it| json!({"operatorframework.io/properties": property(it)}));
    json!({"kind": "ClusterServiceVersion", "metadata": {"namespace": "shop", "name": name, "annotations": annotations},
        "spec": {"version": "1.0.0"},
        "status": {"phase": phase, "reason": phase, "message": "", "lastTransitionTime": BEGIN}})
}

/// 1.0.1 runs, and 1.1.0 is offered.
fn state(subscriptions: Vec<Value>, versions: Vec<Value>) -> State {
    let lists = Lists::from([(What::Subscriptions, Ok(subscriptions)), (What::Versions, Ok(versions))]);
    State { installed: Read::Value(Objects::of(lists)), ..running() }
}

fn text(state: &State) -> String {
    let all = render(state, usize::MAX, false, now());
    let rest = all.split_once("\nInstalled operators\n").map_or("", |(_, rest)| rest);
    rest.split("\n\n").next().unwrap_or_default().to_owned()
}

fn told(state: &State) -> Value {
    json!(view::View::of(state, now()).installed_operators)
}

fn waits() -> Value {
    json!([condition("InstallPlanPending", "True", BEGIN, "RequiresApproval", "")])
}

#[test]
fn where_all_are_well_it_is_one_line() {
    let state = state(
        vec![subscription("gears", "gears.v1", "gears.v1", &json!([]))],
        vec![version("gears.v1", "Succeeded", Some("1.1")), version("by-hand.v1", "Succeeded", None)],
    );
    assert_eq!(text(&state), "  2 installed, 2 of them well");
    assert_eq!(told(&state), json!({"installed": 2, "well": 2, "toDo": [], "inTheWay": []}));
}

#[test]
fn plan_that_waits_says_how_it_is_approved_and_is_nothing_bad() {
    let state = state(
        vec![subscription("gears", "gears.v1", "gears.v2", &waits())],
        vec![version("gears.v1", "Succeeded", None)],
    );
    insta::assert_snapshot!(text(&state), @"
    1 installed, 1 of them well
    shop/gears: approve the InstallPlan: cvo olm approve install-abcde -n shop
    ");
    let to_do = json!([{"namespace": "shop", "name": "gears", "needsSomebody": false,
        "whatToDo": "approve the InstallPlan: cvo olm approve install-abcde -n shop"}]);
    assert_eq!(told(&state), json!({"installed": 1, "well": 1, "toDo": to_do, "inTheWay": []}));
}

#[test]
fn operator_that_failed_is_named_with_what_to_do() {
    let mut failed = version("gears.v1", "Failed", None);
    failed["status"]["conditions"] = json!([{"phase": "Succeeded"}]);
    let state = state(vec![subscription("gears", "gears.v1", "gears.v1", &json!([]))], vec![failed]);
    insta::assert_snapshot!(text(&state), @"
    1 installed, 0 of them well
    shop/gears: mend what the message of gears.v1 says: it is tried again by itself
    ");
    let to_do = json!([{"namespace": "shop", "name": "gears", "needsSomebody": true,
        "whatToDo": "mend what the message of gears.v1 says: it is tried again by itself"}]);
    assert_eq!(told(&state), json!({"installed": 1, "well": 0, "toDo": to_do, "inTheWay": []}));
}

#[test]
fn operator_that_holds_an_update_is_named_with_its_maximum_and_what_frees_it() {
    let mut held = state(
        vec![
            subscription("gears", "gears.v1", "gears.v1", &json!([])),
            subscription("wheels", "wheels.v1", "wheels.v2", &waits()),
        ],
        vec![
            version("gears.v1", "Succeeded", Some("1.0")),
            version("wheels.v1", "Succeeded", Some("1.0")),
            version("by-hand.v1", "Succeeded", Some("x")),
            version("fits.v1", "Succeeded", Some("1.1")),
        ],
    );
    insta::assert_snapshot!(text(&held), @r#"
    4 installed, 4 of them well
    shop/wheels: approve the InstallPlan: cvo olm approve install-abcde -n shop
    shop/by-hand.v1 stands in the way of updates: whether it supports 1.1 cannot be told from olm.maxOpenShiftVersion: "x" is no version; write a minor version of the cluster such as "4.9"
    → update or remove it
    shop/gears.v1 stands in the way of updates: the last version of the cluster that it supports is 1.0, not 1.1
    → cvo plan says which version of its catalog supports 1.1
    shop/wheels.v1 stands in the way of updates: the last version of the cluster that it supports is 1.0, not 1.1
    → cvo plan says which version of its catalog supports 1.1, and wheels.v2 is what its plan installs
    "#);
    let first = &told(&held)["inTheWay"][1];
    assert_eq!(
        (&first["name"], &first["maximum"], &first["package"]),
        (&json!("gears.v1"), &json!("1.0"), &json!("gears"))
    );
    // What is offered or asked for may be further away than the next minor version.
    let names = |state: &State| -> Vec<String> {
        let told = told(state);
        told["inTheWay"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap().to_owned()).collect()
    };
    let of_next = ["by-hand.v1", "gears.v1", "wheels.v1"];
    assert_eq!(names(&held), of_next);
    let cluster = held.cluster_version.as_mut().unwrap();
    let offered = &mut cluster.status.as_mut().unwrap().available_updates;
    offered.as_mut().unwrap().push(Release { version: "1.2.0".into(), ..Release::default() });
    assert_eq!(names(&held), ["by-hand.v1", "fits.v1", "gears.v1", "wheels.v1"]);
    let cluster = held.cluster_version.as_mut().unwrap();
    cluster.status.as_mut().unwrap().available_updates = None;
    assert_eq!(names(&held), of_next);
    let cluster = held.cluster_version.as_mut().unwrap();
    cluster.spec.desired_update = serde_json::from_value(json!({"version": "1.2.0"})).unwrap();
    assert_eq!(names(&held).len(), 4);
    // It is not known what the cluster goes on from.
    held.cluster_version = None;
    assert_eq!((names(&held).len(), &told(&held)["installed"]), (0, &json!(4)));
}

#[test]
fn what_cannot_be_read_is_told_and_what_is_not_there_is_not() {
    let mut state = state(Vec::new(), Vec::new());
    assert_eq!((text(&state), told(&state)), (String::new(), Value::Null));
    state.installed = Read::Absent;
    assert_eq!((text(&state), told(&state)), (String::new(), Value::Null));
    assert!(view::View::of(&state, now()).remarks.is_empty());
    state.installed = super::super::of_lists([(What::Versions, Err("forbidden".to_owned()))].into());
    assert_eq!(view::View::of(&state, now()).remarks, ["Installed operators are not shown: forbidden"]);
    let lists = [(
        What::Versions,
        Ok(vec![version("a.v1", "Succeeded", None), json!({"kind": "ClusterServiceVersion", "spec": 7})]),
    )];
    state.installed = super::super::of_lists(lists.into());
    let remarks = view::View::of(&state, now()).remarks;
    assert!(remarks[0].starts_with("ClusterServiceVersion / is left out: spec: "), "{remarks:?}");
    assert_eq!(text(&state), "  1 installed, 1 of them well");
    assert!(matches!(super::super::of_lists(Lists::new()), Read::Absent));
    let unknown = super::super::of_lists([(What::Subscriptions, Err("forbidden".to_owned()))].into());
    assert!(matches!(unknown, Read::Failed(error) if error == "forbidden"));
}

#[test]
fn many_are_counted_and_control_characters_do_not_reach_the_terminal() {
    let versions = (0..9).map(|n| version(&format!("gears-{n}\u{1b}[2J.v1"), "Succeeded", Some("1.0"))).collect();
    let text = text(&state(Vec::new(), versions));
    assert_eq!((text.lines().count(), text.matches(" stands in the way of updates: ").count()), (12, 5), "{text}");
    assert!(text.ends_with("  and 4 more: cvo olm status, cvo status -o json") && !text.contains('\u{1b}'), "{text}");
}

#[test]
fn changes_are_told_once() {
    let view = |state: &State| view::View::of(state, now());
    let changes = |before: &State, after: &State| -> Vec<String> {
        let all = lines::lines(&view(before), &view(after), after, now());
        all.into_iter().filter(|line| line.contains("installed operators")).collect()
    };
    let with = |phase: &str| state(Vec::new(), vec![version("gears.v1", phase, Some("1.0"))]);
    let (none, well, failed) = (running(), with("Succeeded"), with("Failed"));
    let text = |text: &str| format!("12:05:00Z  installed operators: {text}");
    let held = text(
        "shop/gears.v1 stands in the way of updates: the last version of the cluster that it supports is 1.0, not 1.1",
    );
    assert_eq!(changes(&none, &well), [text("1 installed, 1 of them well"), held]);
    assert_eq!(changes(&well, &well), Vec::<String>::new());
    let what = "shop/gears.v1: mend what the message of gears.v1 says: it is tried again by itself";
    assert_eq!(changes(&well, &failed), [text("0 installed, 0 of them well"), text(what)]);
    assert_eq!(changes(&failed, &none), [text("none any more")]);
}
