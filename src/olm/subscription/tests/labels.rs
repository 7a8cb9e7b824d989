//! Labels by which Subscriptions and plans are components of operators.

use super::*;
use crate::olm::subscription::labels::Labelled;

const KEY: &str = "operators.coreos.com/a.ns";

fn labelled(mut plan: Plan) -> Plan {
    plan.components = [KEY.to_owned()].into();
    plan
}

impl Case {
    /// Each Subscription has its label.
    fn known(mut self) -> Case {
        for it in &mut self.subscriptions {
            let key = crate::olm::components::key(&it.spec.name, "ns").unwrap();
            Arc::make_mut(it).metadata.labels = Some([(key, String::new())].into());
        }
        self
    }

    fn labels(&self) -> Vec<(String, Value)> {
        let name = |of: &Labelled<'_>| match of {
            Labelled::Subscription(it) => it.metadata.name.clone().unwrap(),
            Labelled::Plan(plan) => plan.name.clone(),
        };
        let all = self.facts().labels();
        all.iter().map(|(of, patch)| (name(of), patch["metadata"]["labels"].clone())).collect()
    }
}

fn told(all: &[(&str, Value)]) -> Vec<(String, Value)> {
    all.iter().map(|(name, labels)| ((*name).to_owned(), labels.clone())).collect()
}

#[test]
fn subscription_is_labelled_once() {
    assert_eq!(Case::of(&["a"]).labels(), told(&[("sub-a", json!({KEY: ""}))]));
    assert_eq!(Case::of(&["a"]).known().labels(), []);
    // What fits no key is left alone.
    let odd = Case::of(&["a"]).change(0, |it| it.spec.name = "a b".to_owned());
    assert_eq!(odd.labels(), []);
}

#[test]
fn newest_plan_is_labelled_and_older_ones_lose_it() {
    let case = |plans: [Plan; 2]| plans.into_iter().fold(Case::of(&["a"]).known(), Case::with_plan);
    let complete = |generation, csv| plan(generation, csv, InstallPlanPhase::Complete);
    let (first, second) = (|| complete(1, "a.v1"), || complete(2, "a.v2"));
    assert_eq!(case([labelled(first()), labelled(second())]).labels(), told(&[("install-1", json!({KEY: null}))]));
    assert_eq!(case([first(), labelled(second())]).labels(), []);
    assert_eq!(
        case([first(), second()]).labels(),
        told(&[("install-2", json!({KEY: ""}))]),
        "of another implementation"
    );
    // It was deleted: the one before is the newest again.
    let left = Case::of(&["a"]).known().with_plan(first());
    assert_eq!(left.labels(), told(&[("install-1", json!({KEY: ""}))]));
    // One that waits for an approval is the newest.
    let waits = labelled(plan(2, "a.v2", InstallPlanPhase::RequiresApproval));
    assert_eq!(case([labelled(first()), waits]).labels(), told(&[("install-1", json!({KEY: null}))]));
}

/// Each of them has a newest plan, and what one needs the other does not take away.
#[test]
fn plans_of_two_subscriptions_of_one_package_keep_their_labels() {
    let other = |it: &mut Subscription| {
        it.metadata.name = Some("other".to_owned());
        it.metadata.uid = Some("uid-other".to_owned());
    };
    let both = Plan {
        owners: ["uid-a", "uid-other"].map(ToOwned::to_owned).into(),
        ..plan(1, "a.v1", InstallPlanPhase::Complete)
    };
    let alone = Plan { owners: ["uid-other".to_owned()].into(), ..plan(2, "a.v2", InstallPlanPhase::Complete) };
    let case = Case::of(&["a", "a"]).change(1, other).known();
    let case = case.with_plan(labelled(both)).with_plan(labelled(alone));
    assert_eq!(case.labels(), []);
}

#[test]
fn plan_is_created_with_the_labels_of_its_subscriptions_and_of_what_it_installs() {
    let case = Case::of(&["b"]);
    let decision = case.decide();
    let [new] = &decision.create[..] else { panic!("one plan") };
    let (plan, _) = new.object(&BTreeMap::new()).unwrap();
    let labels = plan.metadata.labels.unwrap();
    let expected = ["olm.managed", "operators.coreos.com/b.ns", "operators.coreos.com/c.ns"];
    assert_eq!(labels.keys().collect::<Vec<_>>(), expected);
}
