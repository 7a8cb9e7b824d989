//! CustomResourceDefinition: established and its names accepted.

use super::observed::{Condition, Observed};
use super::{Reason, Verdict};

/// Names that another definition has taken are a failure; the API server brings everything else about by itself, usually
/// within a second.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>) -> Verdict {
    let id = desired.id();
    let Some(live) = live else {
        return Verdict::waiting(Reason::NotFound, format!("{id} is not there yet"));
    };
    if live.is_deleting() {
        let message = format!(
            "{id} is being deleted, and all its objects with it; if that does not end, remove the finalizers of the objects \
             that are left"
        );
        return Verdict::waiting(Reason::Deleting, message);
    }
    if let Some(names) = live.condition("NamesAccepted").filter(|condition| condition.status == "False") {
        let message = format!("the API server does not accept the names of {id}: {}", names.text());
        return Verdict::failing(Reason::NamesNotAccepted, &message, Some(names.into()));
    }
    if Condition::is(live.condition("Established"), "True") {
        return Verdict::Ready;
    }
    let message = format!("{id} is not served by the API server yet");
    Verdict::waiting(Reason::NotEstablished, message)
}

pub(crate) fn awaits(_desired: &Observed) -> String {
    "to be established".to_owned()
}
