//! The status of a CatalogSource, derived anew from all that is known. Of the status before only times are kept, and what another
//! process serves while this one still reads it.

use super::content::{Content, Subject};
use super::spec::{Wanted, service_name};
use super::template::Resolved;
use super::turn::{Plan, Turn, seconds};
use super::{Serve, server};
use crate::error::{shortened, together};
use crate::object::read::Read;
use crate::olm::api::catalog_source::{
    CatalogSourceStatus, ConfigMapReference, Connection, ConnectionState, RegistryService, condition,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

/// The port of the Services of catalogs.
pub(crate) const PORT: &str = "50051";
const PROTOCOL: &str = "grpc";
/// Most bytes of the message of a condition: the limit of the API is 32 KiB.
const MESSAGE: usize = 16 << 10;

/// `wanted`: where the catalog comes from, unless the spec is wrong.
pub(super) fn status(turn: &Turn<'_>, plan: &Plan, wanted: Option<&Wanted>, serve: Serve) -> CatalogSourceStatus {
    let reason = plan.problems.iter().map(|(reason, _)| *reason).find(|reason| !reason.is_empty());
    let texts: Vec<&str> = plan.problems.iter().map(|(_, text)| text.as_str()).collect();
    let said = Said { turn, plan, wanted, serve };
    CatalogSourceStatus {
        message: together(&texts, "; "),
        reason: reason.unwrap_or_default().to_owned(),
        latest_image_registry_poll: said.latest_poll(),
        config_map_reference: said.config_map(),
        registry_service: said.registry_service(),
        connection_state: said.connection(),
        conditions: said.conditions(),
    }
}

struct Said<'a> {
    turn: &'a Turn<'a>,
    plan: &'a Plan,
    wanted: Option<&'a Wanted>,
    serve: Serve,
}

impl Said<'_> {
    fn service(&self) -> String {
        service_name(self.turn.name())
    }

    /// Of the whole life of the object, so that whoever goes on knows when it is due. A poll that has found another content counts
    /// once that is served or was tried in vain: whoever goes on before asks again.
    fn latest_poll(&self) -> Option<Time> {
        let before = self.turn.before.latest_image_registry_poll.clone();
        let Some(Wanted::Image { image, .. } | Wanted::Pod { image, .. }) = self.wanted else { return before };
        let held = self.turn.facts.held;
        // What a pod serves is not read here.
        let is_of_pod = matches!(self.wanted, Some(Wanted::Pod { .. }));
        let is_served = |digest: &str| self.turn.loaded().is_some_and(|content| content.digest() == digest);
        let has_failed = || held.trouble(&Subject::Image(image.clone())).is_some();
        let is_over = |digest: &str| is_of_pod || is_served(digest) || has_failed();
        let asked = held.asked.as_ref().filter(|asked| asked.image == *image && self.turn.every.is_some());
        let asked = asked.filter(|asked| is_over(&asked.digest)).map(|asked| Time(seconds(asked.at)));
        // One that is still to come is that of a clock which was wrong.
        let past = before.clone().filter(|before| before.0 <= self.turn.now);
        past.max(asked).or(before)
    }

    fn config_map(&self) -> Option<ConfigMapReference> {
        let (facts, before) = (self.turn.facts, self.turn.before.config_map_reference.as_ref());
        let kept =
            || before.filter(|_| self.plan.restoring || matches!(self.turn.loaded(), Some(Content::ConfigMap { .. })));
        let (Some(Wanted::ConfigMap(name)), Some(state)) = (self.wanted, facts.config_map) else {
            return kept().cloned();
        };
        let Read::Value(seen) = &state.read else { return kept().cloned() };
        let target = Content::ConfigMap { name: name.clone(), digest: seen.digest.clone() };
        if self.turn.loaded() != Some(&target) {
            return kept().cloned();
        }
        let mut reference = ConfigMapReference {
            name: name.clone(),
            namespace: self.turn.namespace().to_owned(),
            uid: seen.uid.clone(),
            resource_version: seen.resource_version.clone(),
            last_update_time: before.and_then(|before| before.last_update_time.clone()),
        };
        if before != Some(&reference) || reference.last_update_time.is_none() {
            // Who has changed it twice waits for a later time each time, also within one second.
            let later = reference.last_update_time.map(|last| a_second_after(last.0));
            let now = seconds(self.turn.now);
            reference.last_update_time = Some(Time(later.map_or(now, |later| now.max(later))));
        }
        Some(reference)
    }

    fn registry_service(&self) -> Option<RegistryService> {
        let before = self.turn.before.registry_service.as_ref();
        let mut service = match self.wanted {
            None => return before.filter(|_| self.turn.loaded().is_some() || self.plan.restoring).cloned(),
            Some(Wanted::Address(_)) => RegistryService { protocol: PROTOCOL.to_owned(), ..RegistryService::default() },
            Some(Wanted::Image { .. } | Wanted::Pod { .. } | Wanted::ConfigMap(_)) => RegistryService {
                protocol: PROTOCOL.to_owned(),
                service_name: self.service(),
                service_namespace: self.turn.namespace().to_owned(),
                port: PORT.to_owned(),
                created_at: None,
            },
        };
        service.created_at = before.and_then(|before| before.created_at.clone());
        if before != Some(&service) || service.created_at.is_none() {
            service.created_at = Some(Time(seconds(self.turn.now)));
        }
        Some(service)
    }

    /// There is one notion of health: the content is there, and can be asked for.
    fn connection(&self) -> Option<ConnectionState> {
        let own = self.turn.own_address();
        let before = self.turn.before.connection_state.as_ref();
        let of_server = matches!(self.turn.loaded(), None | Some(Content::Server { .. }));
        let server = match self.wanted {
            Some(Wanted::Address(address)) => Some(address),
            Some(Wanted::Pod { .. }) => Some(&own),
            _ => None,
        };
        let (address, state, since) = match (self.serve, server.filter(|_| of_server), self.wanted) {
            (_, Some(address), _) => match self.server(address) {
                Some((state, since)) => (address.clone(), state, since),
                None if before.is_some_and(|before| before.address == *address) => return before.cloned(),
                None => (address.clone(), Connection::Connecting, self.turn.now),
            },
            (Serve::Content, ..) => (own, Connection::Ready, self.turn.now),
            _ if self.plan.restoring && before.is_some() => return before.cloned(),
            _ if self.plan.failing => (own, Connection::TransientFailure, self.turn.now),
            (_, _, Some(_)) => (own, Connection::Connecting, self.turn.now),
            (_, _, None) if self.plan.restoring => (own, Connection::Connecting, self.turn.now),
            (_, _, None) => return None,
        };
        let same = before.filter(|before| (&before.address, &before.last_observed_state) == (&address, &state));
        let connected =
            same.and_then(|before| before.last_connect.as_ref()).map_or_else(|| seconds(since), |time| time.0);
        let connected = if state == Connection::Ready { self.content_since(connected) } else { connected };
        Some(ConnectionState { address, last_observed_state: state, last_connect: Some(Time(connected)) })
    }

    /// Clients that have changed a ConfigMap wait for a connection that is later than the change: where a pod serves it, that is a new
    /// one each time. Times are of whole seconds, and serving it takes less than one.
    fn content_since(&self, connected: Timestamp) -> Timestamp {
        let config_map = self.config_map().filter(|_| matches!(self.wanted, Some(Wanted::ConfigMap(_))));
        match config_map.and_then(|it| it.last_update_time) {
            Some(updated) if updated.0 >= connected => a_second_after(updated.0),
            _ => connected,
        }
    }

    /// The state of the connection to a server, and since when. One that is connected is ready once its content is there. `None`: it
    /// is not known, and may be as it was.
    fn server(&self, address: &str) -> Option<(Connection, Timestamp)> {
        let channel = server::channel(self.turn.facts, address)?;
        let has_content = matches!(self.turn.loaded(), Some(Content::Server { address: of, .. }) if of == address);
        Some(match (&channel.state, has_content) {
            (Connection::Ready, false) if self.plan.restoring => return None,
            (Connection::Ready, false) if self.plan.failing => (Connection::TransientFailure, self.turn.now),
            (Connection::Ready, false) => (Connection::Connecting, channel.since),
            (state, _) => (state.clone(), channel.since),
        })
    }

    fn conditions(&self) -> Vec<Condition> {
        let mut conditions = self.turn.before.conditions.clone();
        let mut set = |type_: &str, wanted: Option<(bool, &str, String)>| {
            set(&mut conditions, type_, wanted, self.turn.now);
        };
        let (resolved, image) = match &self.turn.template {
            None => (None, None),
            Some(Resolved::NotYet) => return conditions,
            Some(Resolved::Image(image)) => {
                let reason = condition::ALL_TEMPLATES_RESOLVED;
                let message = "all variables have a value".to_owned();
                (Some((true, reason, message)), Some((true, reason, image.clone())))
            }
            Some(Resolved::Unable(cause)) => {
                let unable = || Some((false, condition::UNABLE_TO_RESOLVE, cause.clone()));
                (unable(), unable())
            }
        };
        set(condition::TEMPLATES_HAVE_RESOLVED, resolved);
        set(condition::RESOLVED_IMAGE, image);
        if !self.plan.restoring {
            set(condition::CONTENT_LOADED, self.content_loaded());
        }
        conditions
    }

    /// What the other processes read it from. What was served once stays named until something else is.
    fn content_loaded(&self) -> Option<(bool, &'static str, String)> {
        if let (Serve::Content, Some(content)) = (self.serve, self.turn.loaded()) {
            return Some((true, condition::LOADED, content.to_string()));
        }
        let wanted = match self.wanted {
            Some(Wanted::Image { image, .. } | Wanted::Pod { image, .. }) => image.clone(),
            Some(Wanted::ConfigMap(name)) => format!("ConfigMap {name}"),
            Some(Wanted::Address(address)) => format!("server {address}"),
            None => String::new(),
        };
        let problem = self.plan.problems.first().map(|(_, text)| text.as_str()).unwrap_or_default();
        Some(match (&self.turn.record, self.plan.failing) {
            (Some(record), true) => (false, condition::FAILED, format!("{}: {problem}", record.content)),
            // It failed before, and nothing speaks against it any more.
            (Some(record), false) => (false, condition::FAILED, format!("{}: {wanted} is being read", record.content)),
            (None, _) if self.wanted.is_none() => return None,
            (None, true) => (false, condition::FAILED, format!("{wanted}: {problem}")),
            (None, false) => (false, condition::LOADING, wanted),
        })
    }
}

/// Times in a status are of whole seconds.
fn a_second_after(time: Timestamp) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(1)).unwrap_or(time)
}

/// Sets a condition, or removes it.
fn set(conditions: &mut Vec<Condition>, type_: &str, wanted: Option<(bool, &str, String)>, now: Timestamp) {
    let Some((holds, reason, message)) = wanted else {
        return conditions.retain(|condition| condition.type_ != type_);
    };
    let status = if holds { "True" } else { "False" };
    let known = conditions.iter_mut().find(|condition| condition.type_ == type_);
    let since = known.as_ref().filter(|known| known.status == status).map(|known| known.last_transition_time.clone());
    let condition = Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: shortened(&message, MESSAGE).into_owned(),
        last_transition_time: since.unwrap_or(Time(seconds(now))),
        observed_generation: None,
    };
    match known {
        Some(known) => *known = condition,
        None => conditions.push(condition),
    }
}
