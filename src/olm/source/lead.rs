//! What the holder of the lease does: it decides which content is served, and says so.

use super::content::{Content, Subject, record};
use super::held::Work;
use super::spec::{Wanted, collision, interval, wanted};
use super::template::{Resolved, resolve};
use super::turn::{CAUSE, Plan, Turn};
use super::{CheckImage, ConfigMapSeen, Decision, Facts, serve, server, status};
use crate::error::shortened;
use crate::object::read::Read;
use crate::olm::api::catalog_source::{CatalogSourceSpec, CatalogSourceStatus, Connection, SourceType, reason};
use crate::olm::api::keys::annotation::CATALOG_IMAGE_TEMPLATE;
use jiff::Timestamp;

pub(super) fn decide(facts: &Facts<'_>, check: CheckImage<'_>, now: Timestamp) -> Decision {
    let (object, none) = (facts.object, CatalogSourceStatus::default());
    let before = object.status.as_ref().unwrap_or(&none);
    let template = object.metadata.annotations.as_ref().and_then(|all| all.get(CATALOG_IMAGE_TEMPLATE));
    let template = template.map(|template| resolve(template, facts.version, check));
    let (every, interval) = interval(&object.spec);
    let record = record(before).filter(|record| !server::is_lost(facts, record));
    let turn = Turn { facts, now, before, record, template, every };
    let mut plan = Plan::default();
    let wanted = turn.wanted(check);
    match &wanted {
        None => turn.restore(&mut plan, None),
        Some(Err(cause)) => {
            plan.problems.push((reason::SPEC_INVALID, cause.clone()));
            turn.restore(&mut plan, None);
        }
        Some(Ok(Wanted::Image { image, directory })) => turn.image(&mut plan, image, directory),
        Some(Ok(Wanted::ConfigMap(name))) => turn.config_map(&mut plan, name),
        Some(Ok(Wanted::Address(address))) => turn.address(&mut plan, address),
        Some(Ok(Wanted::Pod { image, why })) => turn.pod(&mut plan, image, *why),
    }
    if matches!(&wanted, Some(Ok(Wanted::Image { .. } | Wanted::Address(_) | Wanted::ConfigMap(_)))) {
        turn.without_pods(&mut plan);
    }
    if matches!(&wanted, Some(Ok(Wanted::Image { .. } | Wanted::ConfigMap(_) | Wanted::Pod { .. }))) {
        let cause = facts.service.map(|cause| shortened(cause, CAUSE));
        let text = cause.map(|cause| format!("clients do not reach the catalog by its Service: {cause}"));
        plan.problems.extend(text.map(|text| (reason::REGISTRY_SERVER, text)));
    }
    plan.problems.extend(interval.map(|cause| (reason::INVALID_INTERVAL, cause)));
    let notes = facts.held.loaded.as_ref().map(|loaded| loaded.notes.clone()).filter(|notes| !notes.is_empty());
    plan.problems.extend(notes.map(|notes| ("", notes)));
    let image = match &turn.template {
        Some(Resolved::Image(image)) => Some(image.clone()).filter(|image| *image != object.spec.image),
        _ => None,
    };
    let dial = match &wanted {
        Some(Ok(Wanted::Address(address))) => Some(address.clone()),
        Some(Ok(Wanted::Pod { .. })) => Some(turn.own_address()),
        _ => None,
    };
    let serve = serve(facts);
    let status = wanted.as_ref().map(|wanted| status::status(&turn, &plan, wanted.as_ref().ok(), serve));
    let status = status.filter(|status| status != before);
    let (adopt, pod, pod_writes) = (plan.adopt, plan.pod.take(), std::mem::take(&mut plan.pod_writes));
    let (work, next) = plan.first_due(now);
    Decision { image, status, adopt, work, pod, pod_writes, dial, serve, next }
}

impl Turn<'_> {
    /// Where the catalog comes from, or what is wrong with the spec. `None`: that is known once the version of the API server is.
    fn wanted(&self, check: CheckImage<'_>) -> Option<Result<Wanted, String>> {
        let object = self.facts.object;
        let spec = &object.spec;
        let image = match &self.template {
            Some(Resolved::Image(image)) => image,
            Some(Resolved::NotYet) if is_of_image(spec) => return None,
            Some(Resolved::Unable(cause)) if spec.image.is_empty() && needs_image(&spec.source_type, &spec.address) => {
                return Some(Err(cause.clone()));
            }
            Some(Resolved::NotYet | Resolved::Unable(_)) | None => &spec.image,
        };
        let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
        Some(wanted(spec, image, check).and_then(|wanted| match &wanted {
            Wanted::Address(_) => Ok(wanted),
            Wanted::Image { .. } | Wanted::ConfigMap(_) | Wanted::Pod { .. } => {
                collision(self.name(), created, self.facts.siblings).map_or(Ok(self.by_pod(wanted)), Err)
            }
        }))
    }

    /// Where nothing is served here, reads again what was served before. `wanted`: what is to be served, as far as that is known.
    pub(super) fn restore(&self, plan: &mut Plan, wanted: Option<&Content>) {
        let Some(record) = &self.record else { return };
        if self.loaded().is_some() || wanted == Some(&record.content) {
            return;
        }
        if matches!(record.content, Content::Server { .. }) {
            let taking = server::taking(self.facts, Some(record));
            plan.restoring |= taking.is_some();
            return taking.into_iter().for_each(|work| plan.due.insert(0, (self.now, work)));
        }
        let work = Work::read(&record.content);
        let trouble = self.facts.held.trouble(&work.subject());
        plan.restoring |= trouble.is_none();
        plan.failing |= trouble.is_some();
        if trouble.is_none_or(|trouble| trouble.refused.is_none()) {
            plan.due.insert(0, (trouble.map_or(self.now, |trouble| self.again(trouble)), work));
        }
        if let Some(trouble) = trouble {
            let of = if matches!(record.content, Content::Image { .. }) {
                reason::REGISTRY_SERVER
            } else {
                reason::CONFIG_MAP
            };
            plan.problems.push((of, self.text(trouble)));
        }
    }

    fn image(&self, plan: &mut Plan, image: &str, directory: &str) {
        let held = self.facts.held;
        let subject = Subject::Image(image.to_owned());
        let trouble = held.trouble(&subject);
        let again = trouble.map_or(self.now, |trouble| self.again(trouble));
        let is_pinned = image.contains('@');
        let (mut told, mut recorded) = (None, None);
        // What the registry has told this process comes before what another process has said.
        if held.loaded.as_ref().is_none_or(|loaded| loaded.told) {
            let is_of = |content: &&Content| **content == Content::of_image(image, content.digest(), directory);
            recorded = self.record.as_ref().map(|record| &record.content).filter(is_of);
            told = recorded.or(self.loaded().filter(is_of)).map(Content::digest);
        }
        let digest = held.digest_of(image).or(told).or(is_pinned.then_some(""));
        let target = digest.map(|digest| Content::of_image(image, digest, directory));
        let is_target = |content: Option<&Content>| target.is_some() && content == target.as_ref();
        let refused = trouble.and_then(|trouble| trouble.refused.as_ref());
        if is_target(self.loaded()) {
            let poll = self.every.filter(|_| !is_pinned).map(|every| self.poll(image, every).max(again));
            plan.due.extend(poll.map(|at| (at, Work::Ask { image: image.to_owned() })));
        } else if is_target(refused.map(|(content, _)| content)) {
            let at = match self.every.map(|every| self.poll(image, every)) {
                Some(poll) if self.loaded().is_some() => poll.max(again),
                Some(poll) => poll.min(again),
                None => again,
            };
            plan.due.extend((!is_pinned).then(|| (at, Work::Ask { image: image.to_owned() })));
        } else {
            let first = trouble.is_none();
            plan.restoring |= first && is_target(recorded) && held.digest_of(image).is_none();
            // What could not be read may not be there any more.
            let digest = digest.filter(|_| first && !is_pinned).map(str::to_owned);
            let (image, directory) = (image.to_owned(), directory.to_owned());
            plan.due.push((again, Work::Pull { image, digest, directory }));
        }
        plan.failing |= trouble.is_some();
        plan.problems.extend(trouble.map(|trouble| (reason::REGISTRY_SERVER, self.text(trouble))));
        self.restore(plan, target.as_ref());
    }

    fn config_map(&self, plan: &mut Plan, name: &str) {
        let namespace = self.namespace();
        let Some(state) = self.facts.config_map else { return self.restore(plan, None) };
        let cause = match &state.read {
            Read::Value(seen) => return self.config_map_seen(plan, name, seen),
            Read::Absent => {
                format!("ConfigMap {namespace}/{name} does not exist: create it, or correct spec.configMap")
            }
            Read::Failed(cause) => format!("ConfigMap {namespace}/{name} cannot be read: {}", shortened(cause, CAUSE)),
        };
        plan.failing = true;
        plan.problems.push((reason::CONFIG_MAP, self.since(&cause, state.since)));
        self.restore(plan, None);
    }

    fn config_map_seen(&self, plan: &mut Plan, name: &str, seen: &ConfigMapSeen) {
        let target = Content::ConfigMap { name: name.to_owned(), digest: seen.digest.clone() };
        let work = Work::read(&target);
        let trouble = self.facts.held.trouble(&work.subject());
        plan.adopt = !seen.adopted;
        plan.failing = trouble.is_some();
        plan.problems.extend(trouble.map(|trouble| (reason::CONFIG_MAP, self.text(trouble))));
        if self.loaded() != Some(&target) && trouble.is_none_or(|trouble| trouble.refused.is_none()) {
            let told = self.record.as_ref().is_some_and(|record| record.content == target);
            plan.restoring |= trouble.is_none() && told;
            plan.due.push((trouble.map_or(self.now, |trouble| self.again(trouble)), work));
        }
        self.restore(plan, Some(&target));
    }

    pub(super) fn address(&self, plan: &mut Plan, address: &str) {
        let channel = server::channel(self.facts, address);
        let trouble = self.facts.held.trouble(&Subject::Server(address.to_owned()));
        if let Some(channel) = channel.filter(|channel| channel.state == Connection::TransientFailure) {
            let cause = channel.error.as_deref().unwrap_or("the connection was lost");
            let text = format!("the server at {address} does not answer: {}", shortened(cause, CAUSE));
            plan.failing = true;
            plan.problems.push((reason::REGISTRY_SERVER, self.since(&text, channel.since)));
        } else if let Some(trouble) = trouble {
            plan.failing = true;
            plan.problems.push((reason::REGISTRY_SERVER, self.text(trouble)));
        }
        plan.due.extend(server::reading(self.facts, address, |trouble| self.again(trouble)));
        self.restore(plan, None);
    }
}

/// Whether the catalog comes from an image, as far as that does not depend on what the template stands for.
fn is_of_image(spec: &CatalogSourceSpec) -> bool {
    needs_image(&spec.source_type, &spec.address) || spec.source_type == SourceType::Grpc && !spec.image.is_empty()
}

fn needs_image(source_type: &SourceType, address: &str) -> bool {
    !matches!(source_type, SourceType::ConfigMap | SourceType::Internal) && address.is_empty()
}
