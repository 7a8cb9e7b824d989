//! What a write would change: the fields, and what expressions say of them.

pub(crate) mod expressions;
pub(crate) mod field;
