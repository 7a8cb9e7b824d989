//! What copies depend on. All of it is gone through only where something of it has changed: the plan of copies may be large, and most of
//! what happens is nothing to them.

use super::derived::ById;
use super::known::Known;
use super::roles::is_same;
use super::views::CsvView;
use crate::olm::operator::copies::book::{Key, Plan};
use crate::olm::operator::copies::{Course, Rules, Source, Targets};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

/// As it was when copies were planned last.
pub(crate) struct Planned {
    csvs: ById<Arc<CsvView>>,
    unread: Vec<Key>,
    namespaces: BTreeSet<String>,
    rules: Rules,
    next: Option<Timestamp>,
}

impl Planned {
    /// The plan, and what it depends on.
    pub(crate) fn of(known: &Known, rules: Rules, now: Timestamp) -> (Plan, Planned) {
        let key = |source: Source| ((source.namespace.clone(), source.name.clone()), source);
        let mut plan = Plan {
            sources: known.csvs().filter_map(|csv| Source::of(csv, now)).map(key).collect(),
            originals: known.csv_views().keys().cloned().collect(),
            namespaces: known.labels().keys().cloned().collect(),
            rules: rules.clone(),
        };
        // What cannot be read is not gone.
        for (namespace, name) in known.unread_csvs() {
            let source = Source {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: String::new(),
                version: String::new(),
                course: Course::Kept,
                targets: Targets::All,
                is_passing: false,
                lasts_from: None,
            };
            plan.originals.insert((namespace.clone(), name.clone()));
            plan.sources.insert((namespace.clone(), name.clone()), source);
        }
        let planned = Planned {
            csvs: known.csv_views().clone(),
            unread: known.unread_csvs().to_vec(),
            namespaces: plan.namespaces.clone(),
            rules,
            next: plan.sources.values().filter_map(|source| source.lasts_from).min(),
        };
        (plan, planned)
    }

    /// Whether the plan would be the same.
    pub(crate) fn holds(&self, known: &Known, rules: &Rules, now: Timestamp) -> bool {
        self.rules == *rules
            && self.next.is_none_or(|next| now < next)
            && is_same(&self.csvs, known.csv_views())
            && self.unread == known.unread_csvs()
            && self.namespaces.iter().eq(known.labels().keys())
    }

    /// When it becomes another one although nothing has changed.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::work::operators::memory::Memory;
    use crate::olm::work::operators::seen::Seen;
    use crate::olm::work::operators::seen::tests::put;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    /// It works for all namespaces, and lacks something since second 10, which counts from second 40 on.
    fn lacking() -> Value {
        json!({"metadata": {"annotations": {"olm.targetNamespaces": ""}}, "spec": {},
            "status": {"phase": "Pending", "reason": "RequirementsNotMet", "lastTransitionTime": at(10).to_string()}})
    }

    fn seen() -> Seen {
        let mut seen = Seen::default();
        put(&mut seen.csvs, "shop/a", lacking());
        put(&mut seen.namespaces, "shop", json!({}));
        put(&mut seen.namespaces, "mall", json!({}));
        seen
    }

    fn known(seen: &Seen) -> Known {
        Known::of(seen.clone(), &Memory::default(), Ok(semver::Version::new(1, 33, 2)))
    }

    /// What it is called, and how it is made.
    type Change = (&'static str, fn(&mut Seen));

    /// Whether what was planned at second 20 holds at that second after this change.
    fn holds_after(change: fn(&mut Seen)) -> bool {
        let mut seen = seen();
        let (_, planned) = Planned::of(&known(&seen), Rules::default(), at(20));
        change(&mut seen);
        planned.holds(&known(&seen), &Rules::default(), at(20))
    }

    #[test]
    fn plan_holds_until_something_changes_that_copies_depend_on() {
        let changes: [Change; 6] = [
            ("a version", |it| put(&mut it.csvs, "shop/a", lacking())),
            ("another version", |it| put(&mut it.csvs, "mall/b", lacking())),
            ("a version that goes", |it| drop(Arc::make_mut(&mut it.csvs).remove("shop/a"))),
            ("one that cannot be read", |it| it.unread_csvs.push(("mall".to_owned(), "b".to_owned()))),
            ("another namespace", |it| put(&mut it.namespaces, "park", json!({}))),
            ("a namespace that goes", |it| {
                put(&mut it.namespaces, "mall", json!({"metadata": {"deletionTimestamp": at(1).to_string()}}));
            }),
        ];
        for (what, change) in changes {
            assert!(!holds_after(change), "{what}");
        }
        let others: [Change; 4] = [
            ("nothing", |_| {}),
            ("labels of a namespace", |it| {
                put(&mut it.namespaces, "mall", json!({"metadata": {"labels": {"x": "y"}}}));
            }),
            ("a group", |it| put(&mut it.groups, "shop/g", json!({"spec": {}}))),
            ("a Deployment", |it| put(&mut it.deployments, "shop/server", json!({}))),
        ];
        for (what, change) in others {
            assert!(holds_after(change), "{what}");
        }
    }

    #[test]
    fn plan_holds_for_the_same_rules_and_until_something_lasts() {
        let known = known(&seen());
        let (plan, planned) = Planned::of(&known, Rules::default(), at(20));
        assert_eq!((plan.sources.len(), planned.next()), (1, Some(at(40))));
        assert!(planned.holds(&known, &Rules::default(), at(39)));
        assert!(!planned.holds(&known, &Rules::default(), at(40)));
        let disabled = Rules { disabled: true, ..Rules::default() };
        assert!(!planned.holds(&known, &disabled, at(39)));
        // Once it lasts, nothing else is waited for.
        let (_, planned) = Planned::of(&known, Rules::default(), at(40));
        assert_eq!(planned.next(), None);
        assert!(planned.holds(&known, &Rules::default(), at(1000)));
    }

    #[test]
    fn configuration_of_another_name_switches_no_copies_off() {
        let mut seen = seen();
        for (name, is_off) in [("other", false), ("cluster", true)] {
            put(&mut seen.configs, name, json!({"spec": {"features": {"disableCopiedCSVs": true}}}));
            assert_eq!(known(&seen).has_no_copies(), is_off, "{name}");
        }
    }

    #[test]
    fn copies_of_what_cannot_be_read_stay() {
        let mut seen = seen();
        seen.unread_csvs.push(("mall".to_owned(), "b".to_owned()));
        let (plan, _) = Planned::of(&known(&seen), Rules::default(), at(20));
        let key = ("mall".to_owned(), "b".to_owned());
        assert_eq!((plan.sources[&key].course, plan.originals.contains(&key)), (Course::Kept, true));
    }
}
