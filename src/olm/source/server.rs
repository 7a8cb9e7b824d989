//! What is done for a catalog that another server has. Each process reads it by itself, because it cannot be read when the server is
//! away, and reads it again whenever it has connected anew: a server that was replaced may have another catalog.

use super::content::{Content, Record};
use super::held::{Trouble, Work};
use super::{Channel, Facts};
use crate::olm::api::catalog_source::Connection;
use jiff::Timestamp;

/// The connection to this address.
pub(super) fn channel<'a>(facts: &Facts<'a>, address: &str) -> Option<&'a Channel> {
    facts.channel.filter(|channel| channel.address == address)
}

/// To read the catalog, and when. `again`: when it may be tried again.
pub(super) fn reading(
    facts: &Facts<'_>,
    address: &str,
    again: impl Fn(&Trouble) -> Timestamp,
) -> Option<(Timestamp, Work)> {
    let ready = channel(facts, address).filter(|channel| channel.state == Connection::Ready)?;
    let work = Work::ReadServer { address: address.to_owned(), connected: ready.since };
    let at = facts.held.trouble(&work.subject()).map_or(Timestamp::MIN, again);
    (facts.held.heard != Some(ready.since)).then_some((at, work))
}

/// Whether this was served, and cannot be any more: it is not on this disk, and what the server says now is another matter.
pub(super) fn is_lost(facts: &Facts<'_>, record: &Record) -> bool {
    let is_of_server = matches!(record.content, Content::Server { .. }) && facts.held.loaded.is_none();
    is_of_server && facts.held.trouble(&Work::read(&record.content).subject()).is_some()
}

/// To take what was served before this process began from its disk: it is tried once, because it is there or it is not.
pub(super) fn taking(facts: &Facts<'_>, record: Option<&Record>) -> Option<Work> {
    let record = record.filter(|record| matches!(record.content, Content::Server { .. }))?;
    let work = Work::read(&record.content);
    (facts.held.loaded.is_none() && facts.held.trouble(&work.subject()).is_none()).then_some(work)
}
