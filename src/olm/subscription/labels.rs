//! Labels by which Subscriptions and InstallPlans are components of operators.

use super::Facts;
use super::plan::Plan;
use crate::olm::api::subscription::Subscription;
use crate::olm::components;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object whose labels are others than they have to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Labelled<'a> {
    Subscription(&'a Arc<Subscription>),
    Plan(&'a Arc<Plan>),
}

impl<'a> Facts<'a> {
    /// What has to be labelled, each with a merge patch. A Subscription is a component of its operator, and so is the newest of its plans:
    /// the others are not any more.
    pub(crate) fn labels(&self) -> Vec<(Labelled<'a>, Value)> {
        let keyed =
            self.subscriptions.iter().filter_map(|it| Some((it, components::key(&it.spec.name, self.namespace)?)));
        let keyed: Vec<(&Arc<Subscription>, String)> = keyed.collect();
        let lacks = |(it, key): &&(&'a Arc<Subscription>, String)| {
            it.metadata.labels.as_ref().is_none_or(|labels| !labels.contains_key(key))
        };
        let label =
            |(it, key): &(&'a Arc<Subscription>, String)| (Labelled::Subscription(it), patch([(key, json!(""))]));
        let of_subscriptions = keyed.iter().filter(lacks).map(label);
        // Of several Subscriptions of one package each has a newest plan.
        let mut wanted: BTreeMap<(&str, &str), bool> = BTreeMap::new();
        for (subscription, key) in &keyed {
            for (place, plan) in self.plans_of(subscription).into_iter().enumerate() {
                *wanted.entry((&plan.name, key)).or_default() |= place == 0;
            }
        }
        let of_plans = self.plans.iter().filter_map(|plan| {
            let of = wanted.range((plan.name.as_str(), "")..).take_while(|((name, _), _)| *name == plan.name);
            let other = of.filter(|((_, key), is_wanted)| **is_wanted != plan.components.contains(*key));
            let changed: Vec<(&str, Value)> =
                other.map(|((_, key), is_wanted)| (*key, if *is_wanted { json!("") } else { Value::Null })).collect();
            (!changed.is_empty()).then(|| (Labelled::Plan(plan), patch(changed)))
        });
        of_subscriptions.chain(of_plans).collect()
    }
}

fn patch<K: Into<String>>(labels: impl IntoIterator<Item = (K, Value)>) -> Value {
    let labels: Map<String, Value> = labels.into_iter().map(|(key, value)| (key.into(), value)).collect();
    json!({"metadata": {"labels": labels}})
}
