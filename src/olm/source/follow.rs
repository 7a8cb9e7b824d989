//! What a process does that does not hold the lease: it reads what the holder says is served.

use super::content::record;
use super::held::Work;
use super::{Decision, Facts, serve, spec, spread};
use crate::olm::api::catalog_source::SourceType;
use jiff::Timestamp;

pub(super) fn decide(facts: &Facts<'_>, now: Timestamp) -> Decision {
    let spec = &facts.object.spec;
    let is_address = spec.source_type == SourceType::Grpc && spec.image.is_empty() && !spec.address.is_empty();
    let address = is_address.then(|| spec.address.clone());
    let mut decision = Decision { serve: serve(facts, address.as_deref()), dial: address, ..Decision::default() };
    let status = facts.object.status.as_ref();
    let told = status.and_then(|status| record(status, spec::directory(spec))).filter(|record| record.served);
    let held = facts.held.loaded.as_ref().map(|loaded| &loaded.content);
    let Some(told) = told.filter(|told| held != Some(&told.content)) else { return decision };
    let work = Work::read(&told.content);
    let trouble = facts.held.trouble(&work.subject());
    if trouble.and_then(|trouble| trouble.refused.as_ref()).is_some_and(|(refused, _)| *refused == told.content) {
        return decision;
    }
    let name = facts.object.metadata.name.as_deref().unwrap_or_default();
    match trouble.map(|trouble| trouble.again(spread([name, &trouble.last.to_string()]))).filter(|again| *again > now) {
        Some(again) => decision.next = Some(again),
        None => decision.work = Some(work),
    }
    decision
}
