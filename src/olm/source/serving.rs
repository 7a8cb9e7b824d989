//! What is done for a catalog that a pod serves: the pod and what belongs to it are kept as they are wanted, and the process reads the
//! catalog from it as from any other server.

use super::content::{Content, Subject};
use super::held::Work;
use super::pod::decide::{PodSeen, PodWrite, decide, remove};
use super::pod::{ImageAccess, Objects, PodInput, Pods, images, pod_hash};
use super::server;
use super::spec::{Wanted, Why, service_address};
use super::turn::{CAUSE, Plan, Turn};
use crate::error::shortened;
use crate::olm::api::catalog_source::reason;
use crate::olm::api::keys::annotation::CATALOG_SERVING;

/// How often a registry refuses us or does not answer before the image is read through a node.
const DENIED: u32 = 2;
/// The value of the annotation by which somebody wants a pod.
const POD: &str = "pod";

impl Turn<'_> {
    /// The same, by a pod where one is to serve the image.
    pub(super) fn by_pod(&self, wanted: Wanted) -> Wanted {
        let Wanted::Image { image, .. } = &wanted else { return wanted };
        let annotations = self.facts.object.metadata.annotations.as_ref();
        let asked = annotations.and_then(|all| all.get(CATALOG_SERVING)).is_some_and(|value| value == POD);
        let held = self.facts.held;
        let why = match self.facts.pods {
            _ if asked => Some(Why::Asked),
            Some(Pods { always: true, .. }) => Some(Why::Asked),
            // A process that has only just begun knows it by the pod.
            pods if held.only_serves.as_ref() == Some(image) || has(pods, image, Why::OnlyServes) => {
                Some(Why::OnlyServes)
            }
            Some(Pods { access: ImageAccess::Pod, .. }) => Some(Why::Access),
            Some(Pods { access: ImageAccess::Auto, .. }) if self.is_denied(image) => Some(Why::Access),
            Some(_) | None => None,
        };
        why.map_or(wanted.clone(), |why| Wanted::Pod { image: image.clone(), why })
    }

    /// Whether the registry of the image does not let this process in, and has not since.
    fn is_denied(&self, image: &str) -> bool {
        let held = self.facts.held;
        let trouble = held.trouble(&Subject::Image(image.to_owned()));
        let denied = trouble.is_some_and(|trouble| trouble.no_access && trouble.count >= DENIED);
        held.digest_of(image).is_none() && (denied || has(self.facts.pods, image, Why::Access))
    }

    pub(super) fn own_address(&self) -> String {
        service_address(self.namespace(), self.name())
    }

    pub(super) fn pod(&self, plan: &mut Plan, image: &str, why: Why) {
        let held = self.facts.held;
        let trouble = held.trouble(&Subject::Image(image.to_owned()));
        let again = trouble.map_or(self.now, |trouble| self.again(trouble));
        let (is_pinned, digest) = (image.contains('@'), held.digest_of(image));
        let ask = || Work::Ask { image: image.to_owned() };
        match (digest, self.every) {
            _ if is_pinned => {}
            (None, _) => plan.due.push((again, ask())),
            (Some(_), every) => plan.due.extend(every.map(|every| (self.poll(image, every).max(again), ask()))),
        }
        // Nodes may reach a registry that refuses us. Then it is not seen that the image moves.
        plan.problems.extend(trouble.map(|trouble| ("", self.text(trouble))));
        let exact = match digest {
            Some(digest) if !is_pinned => format!("{image}@{digest}"),
            Some(_) | None => image.to_owned(),
        };
        let (own, mut done) = (self.own_address(), true);
        if let Some(pods) = self.facts.pods {
            let source = self.facts.object;
            let objects = Objects::of(&PodInput { source, named: image, image: &exact, why, pods });
            // Until the registry was asked, pods are left as they are.
            if is_pinned || digest.is_some() || trouble.is_some() {
                done = self.pods(plan, &objects, pods);
            }
            plan.pod = Some(objects);
        }
        // As long as there is no pod it is no news that none answers.
        if done {
            return self.address(plan, &own);
        }
        plan.due.extend(server::reading(self.facts, &own, |trouble| self.again(trouble)));
        self.restore(plan, None);
    }

    /// Whether there is one that is ready.
    fn pods(&self, plan: &mut Plan, objects: &Objects, pods: &Pods<'_>) -> bool {
        let wanted = images(&objects.pod);
        let seen: Vec<PodSeen> = pods
            .seen
            .iter()
            .map(|pod| {
                let mut pod = pod.clone();
                if wanted.iter().any(|(name, image)| pod.images.get(*name).is_none_or(|known| known != image)) {
                    pod.hash.clear();
                }
                pod
            })
            .collect();
        let decided = decide(pod_hash(&objects.pod), &seen, self.now);
        let makes = decided.writes.iter().any(|write| matches!(write, PodWrite::Create { .. }));
        let refused = pods.refused.as_ref().filter(|_| makes).map(|cause| refused(cause));
        if let Some(problem) = refused.or(decided.problem).filter(|_| !decided.done) {
            plan.problems.push((reason::REGISTRY_SERVER, problem));
        }
        (plan.pod_writes, plan.again) = (decided.writes, decided.next);
        decided.done
    }

    /// Pods that are left over once something else is served.
    pub(super) fn without_pods(&self, plan: &mut Plan) {
        let of_pod =
            |content: &Content| matches!(content, Content::Server { address, .. } if *address == self.own_address());
        let replaced = self.loaded().is_some_and(|content| !of_pod(content));
        if let Some(pods) = self.facts.pods.filter(|_| replaced) {
            plan.pod_writes = remove(&pods.seen);
        }
    }
}

/// What the API server says of a pod that it does not take. The name is another one each time.
fn refused(cause: &str) -> String {
    let cause = cause.split_once(" is forbidden: ").map_or(cause, |(_, cause)| cause);
    format!("the pod cannot be made: {}", shortened(cause, CAUSE))
}

/// Whether there is a pod of the image for this reason.
fn has(pods: Option<&Pods<'_>>, image: &str, why: Why) -> bool {
    let is_it = |pod: &PodSeen| pod.why.as_ref().is_some_and(|(of, because)| of == image && *because == why);
    pods.is_some_and(|pods| pods.seen.iter().any(is_it))
}
