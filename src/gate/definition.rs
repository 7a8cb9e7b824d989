//! CustomResourceDefinition: established and its names accepted, in every mode.

use super::Verdict;
use super::observed::{Condition, Observed};
use crate::graph::Mode;
use crate::status::failure::{Effect, Reason, UpdateError};

/// Names that another definition has taken are a failure; the API server brings everything else about by itself. While
/// reconciling that wait is not reported, since conditions would show it as a failure although it usually ends within a
/// second.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    let id = desired.id();
    let waits = |reason: &str, message: String| {
        let report = (mode != Mode::Reconcile).then(|| UpdateError {
            effect: Effect::Wait,
            names: vec![desired.name().to_owned()],
            ..UpdateError::new(Reason::DefinitionNotEstablished, message.clone())
        });
        Verdict::Waiting { reason: reason.into(), message, report }
    };
    let Some(live) = live else { return waits("NotFound", format!("{id} is not there yet")) };
    if live.is_deleting() {
        return waits("Deleting", format!("{id} is being deleted, and all its objects with it"));
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
