//! What is done for a catalog that a pod serves: the pod and what belongs to it are kept as they are wanted, and the process reads the
//! catalog from it as from any other server.

use super::content::{Content, Subject};
use super::held::Work;
use super::pod::decide::{PodSeen, decide, remove};
use super::pod::{Objects, PodInput, Pods, images, pod_hash};
use super::spec::{Wanted, service_address};
use super::turn::{Plan, Turn};
use crate::olm::api::catalog_source::reason;
use crate::olm::api::keys::annotation::CATALOG_SERVING;

/// The value of the annotation by which somebody wants a pod.
const POD: &str = "pod";

impl Turn<'_> {
    /// The same, by a pod where one is to serve the image.
    pub(super) fn by_pod(&self, wanted: Wanted) -> Wanted {
        let Wanted::Image { image, .. } = &wanted else { return wanted };
        let annotations = self.facts.object.metadata.annotations.as_ref();
        let asked = annotations.and_then(|all| all.get(CATALOG_SERVING)).is_some_and(|value| value == POD);
        // A process that has only just begun knows it by the pod.
        let by_pod = |pod: &PodSeen| pod.only_serves.as_ref() == Some(image);
        let pods = self.facts.pods;
        let only_serves = self.facts.held.only_serves.as_ref() == Some(image)
            || pods.is_some_and(|pods| pods.seen.iter().any(by_pod));
        match asked || only_serves || pods.is_some_and(|pods| pods.always) {
            true => Wanted::Pod { image: image.clone(), only_serves },
            false => wanted,
        }
    }

    pub(super) fn own_address(&self) -> String {
        service_address(self.namespace(), self.name())
    }

    pub(super) fn pod(&self, plan: &mut Plan, image: &str, only_serves: bool) {
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
        if let Some(pods) = self.facts.pods {
            let source = self.facts.object;
            let objects = Objects::of(&PodInput { source, named: image, image: &exact, only_serves, pods });
            // Until the registry was asked, pods are left as they are.
            if is_pinned || digest.is_some() || trouble.is_some() {
                self.pods(plan, &objects, pods);
            }
            plan.pod = Some(objects);
        }
        self.address(plan, &self.own_address());
    }

    fn pods(&self, plan: &mut Plan, objects: &Objects, pods: &Pods<'_>) {
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
        if let Some(problem) = decided.problem.filter(|_| !decided.done) {
            plan.problems.push((reason::REGISTRY_SERVER, problem));
        }
        (plan.pod_writes, plan.again) = (decided.writes, decided.next);
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
