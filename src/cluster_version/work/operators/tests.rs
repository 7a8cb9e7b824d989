use super::*;
use crate::object::condition::ConditionStatus;
use serde_json::json;

fn operator(name: &str, conditions: &[(&str, &str)]) -> Value {
    let condition = |(type_, status): &(&str, &str)| json!({"type": type_, "status": status, "reason": "R", "message": "m", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions: Vec<Value> = conditions.iter().map(condition).collect();
    json!({
        "metadata": {"name": name, "generation": 3, "resourceVersion": "7"},
        "status": {"conditions": conditions, "versions": [{"name": "operator", "version": "1.0.0"}]},
    })
}

fn known(objects: &[Value]) -> Operators {
    let operators = Operators::default();
    operators.on_event(ObjectEvent::Begin);
    objects.iter().for_each(|object| operators.on_event(ObjectEvent::Applied(object)));
    operators.on_event(ObjectEvent::Complete);
    operators
}

fn names(operators: &Operators) -> Vec<String> {
    operators.current().keys().cloned().collect()
}

#[test]
fn nothing_is_known_before_all_have_been_read() {
    let operators = Operators::default();
    operators.on_event(ObjectEvent::Begin);
    operators.on_event(ObjectEvent::Applied(&operator("a", &[("Available", "True")])));
    assert!(!operators.are_known() && operators.current().is_empty());
    operators.on_event(ObjectEvent::Complete);
    assert!(operators.are_known());
    let report = operators.current().get("a").cloned().unwrap();
    assert_eq!((report.generation, report.version("operator")), (3, Some("1.0.0")));
    assert_eq!(report.conditions.iter().map(|c| c.status).collect::<Vec<_>>(), [ConditionStatus::True]);
}

#[test]
fn operator_that_a_new_list_lacks_is_gone_and_one_that_was_deleted_too() {
    let operators = known(&[operator("a", &[]), operator("b", &[]), operator("c", &[])]);
    operators.on_event(ObjectEvent::Deleted("b"));
    assert_eq!(names(&operators), ["a", "c"]);
    operators.on_event(ObjectEvent::Begin);
    operators.on_event(ObjectEvent::Applied(&operator("c", &[])));
    // What was there stays known until everything has been read again.
    assert_eq!(names(&operators), ["a", "c"]);
    operators.on_event(ObjectEvent::Complete);
    assert_eq!(names(&operators), ["c"]);
}

#[test]
fn list_that_broke_off_removes_nothing_and_its_changes_count() {
    let operators = known(&[operator("a", &[("Available", "True")]), operator("b", &[])]);
    operators.on_event(ObjectEvent::Begin);
    operators.on_event(ObjectEvent::Applied(&operator("a", &[("Available", "False")])));
    operators.on_event(ObjectEvent::Begin);
    assert_eq!(names(&operators), ["a", "b"]);
    assert_eq!(operators.current()["a"].conditions[0].status, ConditionStatus::False);
}

#[test]
fn only_what_an_operator_says_anew_is_told() {
    let operators = known(&[operator("a", &[("Available", "True")])]);
    let changes = operators.changes();
    let mut same = operator("a", &[("Available", "True")]);
    same["metadata"]["resourceVersion"] = json!("8");
    operators.on_event(ObjectEvent::Applied(&same));
    operators.on_event(ObjectEvent::Deleted("other"));
    assert!(!changes.has_changed().unwrap());
    operators.on_event(ObjectEvent::Applied(&operator("a", &[("Available", "False")])));
    assert!(changes.has_changed().unwrap());
}

#[test]
fn transitions_count_changes_of_status_and_conditions_that_come_or_go() {
    let operators = known(&[operator("a", &[("Available", "True"), ("Degraded", "False")])]);
    for conditions in [
        [("Available", "False"), ("Degraded", "False")].as_slice(),
        &[("Available", "Unknown"), ("Upgradeable", "True")],
        &[("Available", "Unknown"), ("Upgradeable", "True")],
    ] {
        operators.on_event(ObjectEvent::Applied(&operator("a", conditions)));
    }
    let expected = [("Available", 2), ("Degraded", 1), ("Upgradeable", 1)];
    let expected = expected.map(|(type_, count)| (("a".to_owned(), type_.to_owned()), count));
    assert_eq!(operators.transitions(), Transitions::from(expected));
}

#[test]
fn number_of_operators_and_size_of_each_are_bounded() {
    let many: Vec<Value> = (0..MAX_OPERATORS + 5).map(|n| operator(&format!("o{n}"), &[])).collect();
    let operators = known(&many);
    assert_eq!(operators.current().len(), MAX_OPERATORS);
    operators.on_event(ObjectEvent::Applied(&operator("one-more", &[])));
    assert_eq!(operators.current().len(), MAX_OPERATORS);
    let mut large = operator("o0", &[("Available", "True"); 100]);
    large["status"]["conditions"][0]["message"] = json!("x".repeat(MAX_TEXT * 10));
    operators.on_event(ObjectEvent::Applied(&large));
    let report = operators.current()["o0"].clone();
    assert_eq!(report.conditions.len(), MAX_ENTRIES);
    assert!(report.conditions[0].message.len() <= MAX_TEXT);
}

#[test]
fn unreadable_parts_of_an_operator_count_as_absent() {
    let nonsense = [
        json!({"metadata": {"name": "a"}}),
        json!({"metadata": {"name": "a"}, "status": 1}),
        json!({"metadata": {"name": "a", "generation": "x"}, "status": {"conditions": [1, {"type": "T"}], "versions": {}}}),
    ];
    for object in nonsense {
        assert_eq!(*known(&[object]).current()["a"], OperatorReport::default());
    }
}
