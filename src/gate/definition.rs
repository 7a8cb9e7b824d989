//! CustomResourceDefinition: established and its names accepted, in every mode.

use super::Verdict;
use super::observed::{Condition, Observed};
use crate::graph::Mode;
use crate::status::failure::{Effect, Reason, UpdateError};

/// Names that another definition has taken are a failure; the API server brings everything else about by itself, usually
/// within a second, so that it is given some time before it is a failure.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>, _mode: Mode) -> Verdict {
    let id = desired.id();
    let waits = |reason: &str, message: String| {
        let report = UpdateError {
            effect: Effect::Wait,
            names: vec![UpdateError::name_of(&id)],
            ..UpdateError::new(Reason::DefinitionNotEstablished, message.clone())
        };
        Verdict::Waiting { reason: reason.into(), message, report: Some(report) }
    };
    let Some(live) = live else { return waits("NotFound", format!("{id} is not there yet")) };
    if live.is_deleting() {
        let message = format!(
            "{id} is being deleted, and all its objects with it; if that does not end, remove the finalizers of the objects \
             that are left"
        );
        return waits("Deleting", message);
    }
    if let Some(names) = live.condition("NamesAccepted").filter(|condition| condition.status == "False") {
        let message = format!("the API server does not accept the names of {id}: {}", names.text());
        return Verdict::Failing(UpdateError {
            names: vec![desired.name().to_owned()],
            nested: vec![UpdateError::new(Reason::Other(names.reason.to_owned()), names.message)],
            ..UpdateError::new(Reason::Failed, message)
        });
    }
    if Condition::is(live.condition("Established"), "True") {
        return Verdict::Ready;
    }
    waits("NotEstablished", format!("{id} is not served by the API server yet"))
}

pub(crate) fn awaits(_desired: &Observed, _mode: Mode) -> Option<String> {
    Some("to be established".to_owned())
}
