//! Many errors of one pass as the one that conditions can show (payload-and-apply §4.9).

use crate::status::failure::{Effect, UpdateError};
use std::collections::{BTreeMap, BTreeSet};

/// Joins errors of the same reason that know a plural, puts them behind all others, and wraps what is still more than
/// one: into `MultipleErrors` with unset effect, or, if all of it is mere waiting, into `ComponentsUpdating` with
/// effect `None`, since operators and rollouts that are waited for at the same time are no failure. `None` for no error.
pub fn aggregate(errors: Vec<UpdateError>) -> Option<UpdateError> {
    let mut single = Vec::new();
    let mut groups: BTreeMap<String, Vec<UpdateError>> = BTreeMap::new();
    for error in errors {
        match error.plural_reason {
            Some(_) => groups.entry(error.reason.clone()).or_default().push(error),
            None => single.push(error),
        }
    }
    let mut all = single;
    all.extend(groups.into_values().filter_map(join));
    if all.len() > 1 { Some(wrap(all)) } else { all.pop() }
}

/// One error of several with the same reason; what they share is taken from the first.
fn join(mut group: Vec<UpdateError>) -> Option<UpdateError> {
    if group.len() < 2 {
        return group.pop();
    }
    let names = names(&group);
    // An unset effect fails at once: nothing is stronger.
    let effect =
        if group.iter().any(|e| e.effect.is_none()) { None } else { group.iter().filter_map(|e| e.effect).max() };
    let first = group.first()?;
    let plural_message = first.plural_message.clone();
    let message = match &plural_message {
        Some(template) => template.replace("{names}", &names.join(", ")),
        None => listed(&group),
    };
    let reason = first.plural_reason.clone().unwrap_or_else(|| first.reason.clone());
    Some(UpdateError {
        plural_reason: Some(reason.clone()),
        reason,
        message,
        plural_message,
        effect,
        names,
        nested: group,
    })
}

fn wrap(all: Vec<UpdateError>) -> UpdateError {
    let waits = all.iter().all(|error| error.effect == Some(Effect::None));
    let (reason, effect) = if waits { ("ComponentsUpdating", Some(Effect::None)) } else { ("MultipleErrors", None) };
    let (names, message) = (names(&all), listed(&all));
    UpdateError { effect, names, nested: all, ..UpdateError::new(reason, message) }
}

/// Names of all, sorted, each once.
fn names(errors: &[UpdateError]) -> Vec<String> {
    let set: BTreeSet<&String> = errors.iter().flat_map(|error| &error.names).collect();
    set.into_iter().cloned().collect()
}

/// The different messages, sorted, a line each.
fn listed(errors: &[UpdateError]) -> String {
    let distinct: BTreeSet<&str> = errors.iter().map(|error| error.message.as_str()).collect();
    let lines: String = distinct.into_iter().map(|message| format!("\n* {message}")).collect();
    format!("Several things hold the release up:{lines}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plural(reason: &str, name: &str, effect: Effect) -> UpdateError {
        UpdateError {
            plural_reason: Some(reason.replace("Operator", "Operators")),
            plural_message: Some("Cluster operators {names} are so".into()),
            effect: Some(effect),
            names: vec![name.into()],
            ..UpdateError::new(reason, format!("Cluster operator {name} is so"))
        }
    }

    fn plain(message: &str) -> UpdateError {
        UpdateError::new("UpdatePayloadFailed", message)
    }

    /// Reason, effect, names of what comes out, and reasons of what it holds.
    type Shape = Option<(String, Option<Effect>, Vec<String>, Vec<String>)>;

    fn shape(errors: &[UpdateError]) -> Shape {
        let one = aggregate(errors.to_vec())?;
        let inner = one.nested.iter().map(|e| e.reason.clone()).collect();
        Some((one.reason, one.effect, one.names, inner))
    }

    fn row(reason: &str, effect: Option<Effect>, names: &[&str], inner: &[&str]) -> Shape {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect();
        Some((reason.into(), effect, own(names), own(inner)))
    }

    #[test]
    fn line_20_aggregation() {
        use Effect::{Fail, FailAfterInterval, None as Wait, Report};
        let down = |name, effect| plural("ClusterOperatorNotAvailable", name, effect);
        let bad = |name, effect| plural("ClusterOperatorDegraded", name, effect);
        let late = |name| plural("ClusterOperatorUpdating", name, Wait);
        let roll = |name| plural("WorkloadUpdating", name, Wait);
        let unset = |error: UpdateError| UpdateError { effect: None, ..error };
        let (d, ds) = ("ClusterOperatorDegraded", "ClusterOperatorsDegraded");
        let table = [
            (vec![], None),
            (vec![plain("x")], row("UpdatePayloadFailed", None, &[], &[])),
            (vec![bad("a", Report)], row(d, Some(Report), &["a"], &[])),
            (
                vec![bad("b", Report), bad("a", FailAfterInterval)],
                row(ds, Some(FailAfterInterval), &["a", "b"], &[d, d]),
            ),
            (vec![bad("b", Wait), bad("a", Report)], row(ds, Some(Wait), &["a", "b"], &[d, d])),
            (
                vec![bad("b", Fail), bad("a", FailAfterInterval), bad("c", Wait)],
                row(ds, Some(Fail), &["a", "b", "c"], &[d, d, d]),
            ),
            (vec![bad("b", Fail), unset(bad("a", Wait))], row(ds, None, &["a", "b"], &[d, d])),
            (
                vec![
                    down("z", Fail),
                    bad("b", FailAfterInterval),
                    plain("y"),
                    late("q"),
                    bad("a", FailAfterInterval),
                    plain("x"),
                ],
                row(
                    "MultipleErrors",
                    None,
                    &["a", "b", "q", "z"],
                    &[
                        "UpdatePayloadFailed",
                        "UpdatePayloadFailed",
                        ds,
                        "ClusterOperatorNotAvailable",
                        "ClusterOperatorUpdating",
                    ],
                ),
            ),
            (
                vec![roll("w"), late("b"), late("a")],
                row(
                    "ComponentsUpdating",
                    Some(Wait),
                    &["a", "b", "w"],
                    &["ClusterOperatorsUpdating", "WorkloadUpdating"],
                ),
            ),
            (
                vec![roll("w"), down("a", Fail)],
                row("MultipleErrors", None, &["a", "w"], &["ClusterOperatorNotAvailable", "WorkloadUpdating"]),
            ),
        ];
        for (errors, expected) in table {
            assert_eq!(shape(&errors), expected, "{errors:?}");
        }
    }

    #[test]
    fn line_20_messages() {
        let joined = aggregate(vec![plural("X", "b", Effect::Fail), plural("X", "a", Effect::Fail)]).unwrap();
        assert_eq!(joined.message, "Cluster operators a, b are so");
        assert_eq!(aggregate(vec![joined.clone()]), Some(joined), "joining again changes nothing");
        let several = aggregate(vec![plain("second"), plain("first"), plain("second")]).unwrap();
        assert_eq!(several.message, "Several things hold the release up:\n* first\n* second");
        assert_eq!(several.nested, [plain("second"), plain("first"), plain("second")], "the others keep their order");
    }
}
