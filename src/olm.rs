//! Operators that administrators add to the platform: the catalogs that offer them, what is installed of them, and what keeps it
//! running.

pub(crate) mod api;
