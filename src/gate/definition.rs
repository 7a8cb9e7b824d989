//! CustomResourceDefinition: established with its names accepted, in every mode (payload-and-apply §6.5a).

use super::Verdict;
use super::observed::{Observed, Seen};
use crate::graph::Mode;
use crate::status::failure::{Effect, Reason, UpdateError};

/// Names that another definition holds are a failure; anything else that is missing comes by itself. In reconciling
/// that wait is not reported, since every report is a failure there (§4.7) and it usually ends within a second.
pub fn judge(want: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    let id = want.id();
    let waits = |reason: &str, message: String| {
        let report = (mode != Mode::Reconcile).then(|| UpdateError {
            effect: Effect::Wait,
            names: vec![want.name().to_owned()],
            ..UpdateError::new(Reason::DefinitionNotEstablished, message.clone())
        });
        Verdict::Waiting { reason: reason.into(), message, report }
    };
    let Some(live) = live else { return waits("NotFound", format!("{id} is not there yet")) };
    if live.is_deleting() {
        return waits("Deleting", format!("{id} is being deleted, and all its objects with it"));
    }
    if let Some(names) = live.condition("NamesAccepted").filter(|seen| seen.status == "False") {
        let message = format!("the API server does not accept the names of {id}: {}", names.told());
        return Verdict::Failing(UpdateError {
            names: vec![want.name().to_owned()],
            nested: vec![UpdateError::new(Reason::Other(names.reason.to_owned()), names.message)],
            ..UpdateError::new(Reason::Failed, message)
        });
    }
    if Seen::is(live.condition("Established"), "True") {
        return Verdict::Ready;
    }
    waits("NotEstablished", format!("{id} is not served by the API server yet"))
}

/// In every mode.
pub fn awaits(_want: &Observed, _mode: Mode) -> Option<String> {
    Some("to be established".to_owned())
}
