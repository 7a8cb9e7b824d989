//! What a process does that does not hold the lease: it reads what the holder says is served.

use super::content::{Content, Record, record};
use super::held::{Trouble, Work};
use super::{Decision, Facts, serve, server, spread};
use crate::olm::api::catalog_source::SourceType;
use jiff::Timestamp;

pub(super) fn decide(facts: &Facts<'_>, now: Timestamp) -> Decision {
    let spec = &facts.object.spec;
    let is_address = spec.source_type == SourceType::Grpc && spec.image.is_empty() && !spec.address.is_empty();
    let address = is_address.then(|| spec.address.clone());
    let status = facts.object.status.as_ref();
    let told = status.and_then(record).filter(|record| record.served);
    // A pod may serve it.
    let of_pod = told.as_ref().and_then(|told| match &told.content {
        Content::Server { address, .. } if !spec.image.is_empty() => Some(address.clone()),
        _ => None,
    });
    let mut decision = Decision { serve: serve(facts), dial: address.or(of_pod), ..Decision::default() };
    let due = match &decision.dial {
        Some(address) => of_server(facts, told.as_ref(), address, now),
        None => told.and_then(|told| of_told(facts, told, now)),
    };
    match due {
        Some((at, _)) if at > now => decision.next = Some(at),
        Some((_, work)) => decision.work = Some(work),
        None => {}
    }
    decision
}

/// What the holder reads of a server this process reads as well.
fn of_server(facts: &Facts<'_>, told: Option<&Record>, address: &str, now: Timestamp) -> Option<(Timestamp, Work)> {
    let taking = server::taking(facts, told).map(|work| (Timestamp::MIN, work));
    taking.or_else(|| server::reading(facts, address, |trouble| again(facts, trouble, now)))
}

fn of_told(facts: &Facts<'_>, told: Record, now: Timestamp) -> Option<(Timestamp, Work)> {
    let held = facts.held.loaded.as_ref().map(|loaded| &loaded.content);
    if held == Some(&told.content) {
        return None;
    }
    let work = Work::read(&told.content);
    let trouble = facts.held.trouble(&work.subject());
    // What a server answered is on this disk or nowhere.
    let lasting = trouble.is_some() && matches!(told.content, Content::Server { .. });
    let refused = trouble.and_then(|trouble| trouble.refused.as_ref());
    if lasting || refused.is_some_and(|(refused, _)| *refused == told.content) {
        return None;
    }
    Some((trouble.map_or(Timestamp::MIN, |trouble| again(facts, trouble, now)), work))
}

fn again(facts: &Facts<'_>, trouble: &Trouble, now: Timestamp) -> Timestamp {
    let name = facts.object.metadata.name.as_deref().unwrap_or_default();
    trouble.again(spread([name, &trouble.last.to_string()]), now)
}
