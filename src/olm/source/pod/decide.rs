//! Which pods of a catalog are made, put into use and removed. While another content is brought into use there is no moment in which
//! nobody answers: the new pod gets into the Service when it is ready, the old one out of it when the Service leads to the new one, and
//! it goes when the Service leads to it no more.

use crate::olm::source::spec::Why;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// What has ended is made anew after this at the earliest, so that what ends at once is not made again and again.
const SHORTEST_LIFE: SignedDuration = SignedDuration::from_secs(10);
/// Seconds that a pod gets to end which nobody needs any more.
const GRACE: u32 = 1;

/// A pod of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodSeen {
    pub name: String,
    pub uid: String,
    /// What it was made as.
    pub hash: String,
    /// Its containers with their images, which somebody may change.
    pub images: BTreeMap<String, String>,
    /// The image as the CatalogSource named it, and why it has a pod, unless somebody wanted it so.
    pub why: Option<(String, Why)>,
    /// The Service leads to it as soon as it is ready. Otherwise it waits for that.
    pub in_use: bool,
    pub created: Timestamp,
    pub terminating: bool,
    /// It runs and answers.
    pub ready: bool,
    /// It has ended, and will not begin again.
    pub ended: bool,
    /// It is to be removed from its node, such as one that does not answer any more; it may not end by itself.
    pub disrupted: bool,
    /// Why it is not ready: what its containers wait for.
    pub problem: Option<String>,
    /// The Service leads to it.
    pub reached: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PodWrite {
    Create {
        /// It is not in use before it is ready.
        candidate: bool,
    },
    /// Put it into use.
    Promote { name: String, uid: String },
    /// Put it out of use, so that the Service does not lead to it any more.
    Retire { name: String, uid: String },
    /// `grace`: seconds until it is killed.
    Delete { name: String, uid: String, grace: u32 },
}

/// What is to be done with pods, and what is to be said of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PodPlan {
    pub writes: Vec<PodWrite>,
    /// There is a pod as it is wanted, and it is in use.
    pub done: bool,
    /// Why there is none.
    pub problem: Option<String>,
    /// Decide again then.
    pub next: Option<Timestamp>,
}

impl PodPlan {
    fn delete(&mut self, pod: &PodSeen, grace: u32) {
        self.writes.push(PodWrite::Delete { name: pod.name.clone(), uid: pod.uid.clone(), grace });
    }

    /// Whoever is deleted at once may be asked a moment longer, and answers no more.
    fn take_away(&mut self, pod: &PodSeen) {
        match (pod.reached, pod.in_use) {
            (true, true) => self.writes.push(PodWrite::Retire { name: pod.name.clone(), uid: pod.uid.clone() }),
            (true, false) => {}
            (false, _) => self.delete(pod, GRACE),
        }
    }
}

/// `wanted`: the hash of the pod that is wanted.
pub(crate) fn decide(wanted: &str, pods: &[PodSeen], now: Timestamp) -> PodPlan {
    let mut plan = PodPlan::default();
    // Whoever is stuck on a node that is away keeps its name and nothing else.
    pods.iter().filter(|pod| pod.disrupted).for_each(|pod| plan.delete(pod, 0));
    let mut wait = false;
    let rest = pods.iter().filter(|pod| !pod.disrupted && !pod.terminating);
    let (ended, alive): (Vec<&PodSeen>, Vec<&PodSeen>) = rest.partition(|pod| pod.ended);
    for pod in ended {
        let at = pod.created.checked_add(SHORTEST_LIFE).unwrap_or(Timestamp::MAX);
        if at > now {
            (wait, plan.next) = (true, plan.next.into_iter().chain([at]).min());
            plan.problem = Some(problem(pod));
        } else {
            plan.delete(pod, GRACE);
        }
    }
    let (in_use, candidates): (Vec<&PodSeen>, Vec<&PodSeen>) = alive.into_iter().partition(|pod| pod.in_use);
    let (right, old): (Vec<&PodSeen>, Vec<&PodSeen>) = in_use.into_iter().partition(|pod| pod.hash == wanted);
    match right.iter().max_by_key(|pod| (pod.reached, pod.ready, std::cmp::Reverse((pod.created, &pod.uid)))) {
        Some(kept) => keep(&mut plan, kept, &right, &old, &candidates),
        None => replace(&mut plan, wanted, &old, &candidates, wait),
    }
    plan
}

/// No pod is wanted any more.
pub(crate) fn remove(pods: &[PodSeen]) -> Vec<PodWrite> {
    let mut plan = PodPlan::default();
    pods.iter().filter(|pod| !pod.terminating).for_each(|pod| plan.delete(pod, GRACE));
    plan.writes
}

/// There is one as it is wanted. All others go once it is reached.
fn keep(plan: &mut PodPlan, kept: &PodSeen, right: &[&PodSeen], old: &[&PodSeen], candidates: &[&PodSeen]) {
    plan.done = kept.ready;
    plan.problem = (!kept.ready).then(|| problem(kept));
    candidates.iter().for_each(|pod| plan.take_away(pod));
    if kept.ready && kept.reached {
        right.iter().chain(old).filter(|pod| pod.uid != kept.uid).for_each(|pod| plan.take_away(pod));
    }
}

/// There is none as it is wanted.
fn replace(plan: &mut PodPlan, wanted: &str, old: &[&PodSeen], candidates: &[&PodSeen], wait: bool) {
    let (right, other): (Vec<&PodSeen>, Vec<&PodSeen>) = candidates.iter().copied().partition(|pod| pod.hash == wanted);
    other.iter().for_each(|pod| plan.take_away(pod));
    let first = right.iter().max_by_key(|pod| (pod.ready, std::cmp::Reverse((pod.created, &pod.uid))));
    match first {
        // Where nobody answers nothing is lost.
        Some(pod) if pod.ready || old.is_empty() => {
            plan.writes.push(PodWrite::Promote { name: pod.name.clone(), uid: pod.uid.clone() });
        }
        Some(pod) => plan.problem = Some(problem(pod)),
        None if wait => {}
        None => plan.writes.push(PodWrite::Create { candidate: !old.is_empty() }),
    }
}

fn problem(pod: &PodSeen) -> String {
    let cause = pod.problem.as_deref().unwrap_or(if pod.ended { "it has ended" } else { "it is not ready yet" });
    format!("pod {}: {cause}", pod.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + seconds).unwrap()
    }

    /// A pod by its name, what it was made as, and what holds of it: `use`, `ready`, `reached`, `ended`, `going`, `disrupted`.
    fn pod(name: &str, hash: &str, words: &str) -> PodSeen {
        let has = |word: &str| words.split(' ').any(|it| it == word);
        PodSeen {
            name: name.to_owned(),
            uid: name.to_owned(),
            hash: hash.to_owned(),
            images: BTreeMap::new(),
            why: None,
            in_use: has("use"),
            created: at(0),
            terminating: has("going"),
            ready: has("ready"),
            ended: has("ended"),
            disrupted: has("disrupted"),
            problem: has("stuck").then(|| "ImagePullBackOff".to_owned()),
            reached: has("reached"),
        }
    }

    /// What is done at a time, in words, for pods where `new` is wanted.
    fn done(pods: &[PodSeen], seconds: i64) -> String {
        let plan = decide("new", pods, at(seconds));
        let words = |write: &PodWrite| match write {
            PodWrite::Create { candidate: true } => "create candidate".to_owned(),
            PodWrite::Create { candidate: false } => "create".to_owned(),
            PodWrite::Promote { name, .. } => format!("promote {name}"),
            PodWrite::Retire { name, .. } => format!("retire {name}"),
            PodWrite::Delete { name, grace, .. } => format!("delete {name} in {grace}"),
        };
        let mut all: Vec<String> = plan.writes.iter().map(words).collect();
        all.extend(plan.done.then(|| "done".to_owned()));
        all.extend(plan.problem);
        all.join(", ")
    }

    #[test]
    fn pods_row_by_row() {
        for (pods, expected) in [
            // None, or only such as will not serve: one is made that is in use at once.
            (vec![], "create"),
            (vec![pod("a", "new", "use ready reached going")], "create"),
            (vec![pod("a", "new", "use ended")], "delete a in 1, create"),
            (vec![pod("a", "new", "use disrupted")], "delete a in 0, create"),
            (vec![pod("a", "new", "use disrupted going")], "delete a in 0, create"),
            // It is there.
            (vec![pod("a", "new", "use")], "pod a: it is not ready yet"),
            (vec![pod("a", "new", "use stuck")], "pod a: ImagePullBackOff"),
            (vec![pod("a", "new", "use ready reached")], "done"),
            // The image moved, or the pod was changed: the next one begins beside it.
            (vec![pod("a", "old", "use ready reached")], "create candidate"),
            (vec![pod("a", "old", "use")], "create candidate"),
            (vec![pod("a", "old", "use ready reached"), pod("b", "new", "")], "pod b: it is not ready yet"),
            (vec![pod("a", "old", "use ready reached"), pod("b", "new", "stuck")], "pod b: ImagePullBackOff"),
            (vec![pod("a", "old", "use ready reached"), pod("b", "new", "ready")], "promote b"),
            // The old one stays until the Service leads to the new one.
            (vec![pod("a", "old", "use ready reached"), pod("b", "new", "use ready")], "done"),
            (vec![pod("a", "old", "use ready reached"), pod("b", "new", "use")], "pod b: it is not ready yet"),
            (vec![pod("a", "old", "use ready reached"), pod("b", "new", "use ready reached")], "retire a, done"),
            // And from then on until the Service does not lead to it any more.
            (vec![pod("a", "old", "ready reached"), pod("b", "new", "use ready reached")], "done"),
            (vec![pod("a", "old", "ready"), pod("b", "new", "use ready reached")], "delete a in 1, done"),
            // It moved once more meanwhile, or back.
            (vec![pod("a", "old", "use ready reached"), pod("b", "older", "ready")], "delete b in 1, create candidate"),
            (vec![pod("a", "new", "use ready reached"), pod("b", "old", "ready")], "delete b in 1, done"),
            // The old one has gone before the new one was ready.
            (vec![pod("b", "new", "")], "promote b"),
            // Two processes have made one each: the older one stays.
            (vec![pod("b", "new", "use ready reached"), pod("a", "new", "use ready reached")], "retire b, done"),
            (vec![pod("a", "new", "use"), pod("b", "new", "use ready reached")], "delete a in 1, done"),
        ] {
            assert_eq!(done(&pods, 60), expected, "{pods:?}");
        }
    }

    #[test]
    fn pod_that_ends_at_once_is_not_made_anew_at_once() {
        let pods = [pod("a", "new", "use ended")];
        assert_eq!(done(&pods, 3), "pod a: it has ended");
        assert_eq!(decide("new", &pods, at(3)).next, Some(at(10)));
        assert_eq!(done(&pods, 10), "delete a in 1, create");
    }

    #[test]
    fn one_turn_after_the_other_the_pod_is_replaced_and_somebody_answers_all_the_while() {
        let (mut pods, mut count) = (vec![pod("p0", "old", "use ready reached")], 0);
        let answers = |pods: &[PodSeen]| pods.iter().any(|pod| pod.in_use && pod.ready && pod.reached);
        for turn in 0..20 {
            let plan = decide("new", &pods, at(60 + turn));
            for write in plan.writes {
                match write {
                    PodWrite::Create { candidate } => {
                        count += 1;
                        pods.push(pod(&format!("p{count}"), "new", if candidate { "" } else { "use" }));
                    }
                    PodWrite::Promote { name, .. } => {
                        pods.iter_mut().filter(|pod| pod.name == name).for_each(|pod| pod.in_use = true);
                    }
                    PodWrite::Retire { name, .. } => {
                        pods.iter_mut().filter(|pod| pod.name == name).for_each(|pod| pod.in_use = false);
                    }
                    PodWrite::Delete { name, .. } => {
                        assert!(pods.iter().all(|pod| pod.name != name || !pod.reached), "{name} is asked");
                        pods.retain(|pod| pod.name != name);
                    }
                }
                assert!(answers(&pods), "{pods:?}");
            }
            // The cluster follows a turn later, one thing at a time.
            match pods.iter_mut().find(|pod| !pod.ready) {
                Some(pod) => pod.ready = true,
                None => pods.iter_mut().for_each(|pod| pod.reached = pod.in_use),
            }
        }
        assert_eq!((pods.len(), count), (1, 1));
        assert_eq!(done(&pods, 90), "done");
    }
}
