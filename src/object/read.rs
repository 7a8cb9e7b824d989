//! What came of reading something: what could not be read is neither absent nor empty.

/// An object in the cluster that was read, or why it was not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Read<T> {
    Value(T),
    /// It does not exist.
    #[default]
    Absent,
    Failed(String),
}
