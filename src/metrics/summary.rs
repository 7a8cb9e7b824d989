//! How long something took, as it is scraped.

/// Quantiles in seconds of what ended lately, and the number and sum of all.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Summary {
    /// None of them if nothing has ended lately.
    pub quantiles: Vec<(&'static str, f64)>,
    pub count: u64,
    pub sum: f64,
}
