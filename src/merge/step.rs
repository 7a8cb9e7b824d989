//! Decides what to do with the object of a manifest. Rollouts and plans use the same function. It only depends on the live
//! object, so that every mode decides alike, and a process that was restarted too.

use super::{Manager, MergeError, Outcome, ReadSchema, initial, merge_with};
use crate::object::manifest::Manifest;
use crate::object::metadata;
use serde_json::Value;

/// What to do with the object of a manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    Skip(Skip),
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

/// What came of applying one manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Applied {
    /// Already as desired.
    Unchanged,
    Created,
    /// Dotted paths of what differed, and the field manager that wrote last before us, if the object names one.
    Updated {
        fields: Vec<String>,
        by: Option<String>,
    },
    Deleted,
}

/// Why there is nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    AsDesired,
    /// It exists, and the release only creates it.
    CreateOnly,
    /// It is to be deleted and does not exist.
    Absent,
    /// It is to be deleted and terminating already. Its finalizers are left to their controllers.
    Terminating,
}

/// Decides for one manifest. `live` is the latest known state of its object. `desired` returns the desired object (see
/// [`super::desired()`]), and `schema` the defaults of its kind; both are only called if the decision depends on them.
///
/// # Errors
/// Those of [`super::merge`] and of `desired`, and an invalid value of the annotation for deletion.
pub(crate) fn step<E: From<MergeError>>(
    live: Option<&Value>,
    manifest: &Manifest,
    manager: Manager,
    schema: ReadSchema<'_>,
    desired: impl FnOnce() -> Result<Value, E>,
) -> Result<Step, E> {
    let delete = manifest.delete().map_err(MergeError::Manifest)?;
    Ok(match live {
        None if delete => Step::Skip(Skip::Absent),
        Some(live) if delete && metadata::is_terminating(live) => Step::Skip(Skip::Terminating),
        Some(_) if delete => Step::Delete,
        None => Step::Create(initial(desired()?)),
        Some(_) if manifest.create_only() => Step::Skip(Skip::CreateOnly),
        Some(live) => match merge_with(live, &desired()?, manager, schema)? {
            Outcome::Same => Step::Skip(Skip::AsDesired),
            Outcome::Changed { object, fields } => Step::Change { object, fields },
            Outcome::Replace { object, fields } => Step::Replace { object, fields },
        },
    })
}
