//! The history of a ClusterVersion, as tests compare it.

use cvo::testing::api::{ClusterVersion, HistoryEntry, HistoryState};

/// Version, state and whether it was signed, of all entries, newest first.
pub fn history(object: &ClusterVersion) -> Vec<(String, HistoryState, bool)> {
    let entries = object.status.iter().flat_map(|status| &status.history);
    entries.map(|entry| (entry.version.clone(), entry.state, is_signed(entry))).collect()
}

/// The release's signature was found: it is verified, or would be if its manifests did not come from a folder.
pub fn is_signed(entry: &HistoryEntry) -> bool {
    entry.verified
        || entry.accepted_risks.starts_with("The release is signed, but its manifests were read from a folder")
}
