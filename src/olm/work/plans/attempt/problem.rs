//! What is wrong with the steps of a plan.

use crate::cluster::ApiError;
use crate::error::{listed, shortened};
use crate::olm::plan::Trouble;
use crate::olm::plan::step::{Item, StepError, not_found};

/// Bytes of what is said of all steps together, and of one.
const MESSAGE: usize = 32 << 10;
const ONE: usize = 8 << 10;

/// What is wrong with a step.
#[derive(Clone, Debug)]
pub(super) struct Problem {
    text: String,
    is_forbidden: bool,
    /// The text says which object it is about.
    names_object: bool,
}

impl Problem {
    pub(super) fn new(text: String) -> Problem {
        Problem { text, is_forbidden: false, names_object: false }
    }

    pub(super) fn of_api(error: &ApiError) -> Problem {
        Problem { is_forbidden: error.is_forbidden(), ..Problem::new(error.whole()) }
    }

    pub(super) fn of_step(error: &StepError) -> Problem {
        let names_object = matches!(error, StepError::OtherGroup { .. });
        Problem { names_object, ..Problem::new(error.to_string()) }
    }

    pub(super) fn unknown_kind(item: &Item) -> Problem {
        let (version, kind, name) = (&item.api_version, &item.kind, &item.name);
        let text = format!(
            "{}; the API may have been removed from this version of Kubernetes, or what defines it is to be installed first",
            not_found((version, kind), name)
        );
        Problem { names_object: true, ..Problem::new(text) }
    }

    /// Of an object that is there, but not for long.
    pub(super) fn going() -> Problem {
        Problem::new(
            "it is being deleted, and is created again once it is gone; if that takes long, metadata.finalizers name what holds it".to_owned(),
        )
    }

    pub(super) fn of(mut self, kind: &str, name: &str) -> Problem {
        let place = if self.names_object { String::new() } else { format!("{kind} {name}: ") };
        self.text = format!("{place}{}", shortened(&self.text, ONE));
        self
    }
}

pub(super) fn together(problems: &[Problem]) -> Option<Trouble> {
    let texts: Vec<&str> = problems.iter().map(|it| it.text.as_str()).collect();
    let rest = |count: usize| format!("and {count} more");
    let text = match texts.as_slice() {
        [] => return None,
        [one] => (*one).to_owned(),
        all => format!("{} steps cannot be carried out: {}", all.len(), listed(all, "; ", MESSAGE, rest)),
    };
    Some(Trouble { text, is_forbidden: problems.iter().all(|it| it.is_forbidden) })
}
