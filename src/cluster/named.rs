//! Follows one object by its name.

use super::backoff::WatchBackoff;
use super::client::Clients;
use super::kinds::{Kind, Kinds};
use super::watcher::{self, Event, Selection, Selector};
use crate::object::read::Read;
use futures::stream::{self, BoxStream, StreamExt};
use kube::Client;
use serde_json::Value;
use std::sync::Arc;

/// The states of the object, from the present one on, as long as the stream is polled: its content, that it does not exist,
/// or why it could not be read. It does not exist either as long as its kind is not served. States that a watch has missed
/// are left out, but the last one never is; a state may come twice.
pub(crate) fn follow(
    clients: &Clients,
    kinds: Arc<Kinds>,
    kind: Kind,
    namespace: &str,
    name: &str,
) -> BoxStream<'static, Read<Value>> {
    follow_with(clients, kinds, kind, (namespace, name), WatchBackoff::default())
}

/// The same with these pauses.
pub(crate) fn follow_with(
    clients: &Clients,
    kinds: Arc<Kinds>,
    kind: Kind,
    id: (&str, &str),
    backoff: WatchBackoff,
) -> BoxStream<'static, Read<Value>> {
    let client = clients.for_watch().unwrap_or_else(|error| {
        tracing::error!(kind = kind.kind, %error, "no other connection for a watch; using that of all other requests");
        clients.call.clone()
    });
    states(client, kinds, kind, id, backoff)
}

fn states(
    client: Client,
    kinds: Arc<Kinds>,
    kind: Kind,
    (namespace, name): (&str, &str),
    backoff: WatchBackoff,
) -> BoxStream<'static, Read<Value>> {
    let selection = Selection::new(kind.clone(), namespace, Selector::Name(name.to_owned()));
    let events = watcher::events_with(client, selection, backoff).boxed();
    let named = Named { kinds, kind, events, listed: None, unserved: false };
    stream::unfold(named, |mut named| async move { Some((named.next().await, named)) }).boxed()
}

struct Named {
    kinds: Arc<Kinds>,
    kind: Kind,
    events: BoxStream<'static, Result<Event<Value>, super::ApiError>>,
    /// What is told to exist, until everything has been told.
    listed: Option<Value>,
    /// The kind is not served, which has been told.
    unserved: bool,
}

impl Named {
    async fn next(&mut self) -> Read<Value> {
        let (version, kind) = (self.kind.api_version(), self.kind.kind.clone());
        if !self.unserved && self.kinds.lacks(&version, &kind) {
            self.unserved = true;
            return Read::Absent;
        }
        if std::mem::take(&mut self.unserved) {
            self.kinds.served(&version, &kind).await;
        }
        loop {
            match self.events.next().await {
                Some(Ok(Event::Init)) => self.listed = None,
                Some(Ok(Event::InitApply(object))) => self.listed = Some(object),
                Some(Ok(Event::InitDone)) => return self.listed.take().map_or(Read::Absent, Read::Value),
                Some(Ok(Event::Apply(object))) => return Read::Value(object),
                Some(Ok(Event::Delete(_))) => {
                    self.listed = None;
                    return Read::Absent;
                }
                Some(Err(error)) if error.is_not_found() => {
                    self.unserved = true;
                    return Read::Absent;
                }
                Some(Err(error)) => {
                    tracing::debug!(kind = self.kind.kind, %error, "object not followed; trying again");
                    return Read::Failed(error.to_string());
                }
                // Never: the stream has no end.
                None => std::future::pending().await,
            }
        }
    }
}

#[cfg(test)]
mod tests;
