//! Who takes part (payload-and-apply §2).

use std::collections::BTreeSet;

/// Load-time filters (§2.2). Capabilities and overrides are not filtered on load.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// `EXCLUDE_MANIFESTS`.
    pub exclude_identifier: Option<String>,
    /// Empty means `Default`; `None` switches the filter off.
    pub feature_set: Option<String>,
    /// Enabled gates; `None` switches the filter off.
    pub feature_gates: Option<BTreeSet<String>>,
    /// Major version of the payload being loaded; filled in by `load`.
    pub major: Option<u64>,
}
