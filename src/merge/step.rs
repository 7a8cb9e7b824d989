//! What has to happen to the object of one manifest, decided from what is there: the same function for the pass that
//! does it and for the plan that foretells it (payload-and-apply §5.2, §5.11).

use super::{MergeError, Outcome, initial, merge};
use crate::api::object_meta;
use crate::payload::Manifest;
use serde_json::Value;

/// What is to be done about one manifest's object.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    Leave(Left),
    /// POST.
    Create(Value),
    /// PUT: see [`Outcome::Changed`].
    Change {
        object: Value,
        fields: Vec<String>,
    },
    /// DELETE, then POST: see [`Outcome::Replace`].
    Replace {
        object: Value,
        fields: Vec<String>,
    },
    Delete,
}

/// Why nothing is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    AsWanted,
    /// It is there, and the release only wants it to have been created once.
    CreateOnly,
    /// To be deleted, and not there.
    Gone,
    /// To be deleted, and on its way: finalizers are somebody else's business.
    Going,
}

/// Decides for one manifest. `live`: the freshest known state of its object. `prepared` makes the object that is wanted
/// (see [`super::prepare`]); it is not asked where the answer does not depend on it.
///
/// # Errors
/// Those of [`merge`] and of `prepared`, and an annotation for deleting with another value than `true`.
pub fn step<E: From<MergeError>>(
    live: Option<&Value>,
    manifest: &Manifest,
    prepared: impl FnOnce() -> Result<Value, E>,
) -> Result<Step, E> {
    let delete = manifest.delete().map_err(MergeError::Manifest)?;
    Ok(match live {
        None if delete => Step::Leave(Left::Gone),
        Some(live) if delete && object_meta::is_terminating(live) => Step::Leave(Left::Going),
        Some(_) if delete => Step::Delete,
        None => Step::Create(initial(prepared()?)),
        Some(_) if manifest.create_only() => Step::Leave(Left::CreateOnly),
        Some(live) => match merge(live, &prepared()?)? {
            Outcome::Same => Step::Leave(Left::AsWanted),
            Outcome::Changed { object, fields } => Step::Change { object, fields },
            Outcome::Replace { object, fields } => Step::Replace { object, fields },
        },
    })
}
