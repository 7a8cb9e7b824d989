//! Whether a catalog is healthy, and whether new content may take the place of what is served.

use super::turn::{MEANWHILE, SINCE};
use crate::error::{listed, shortened};
use crate::olm::api::catalog_source::{CatalogSource, Connection};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Bytes of one fault, and of all that is said of a catalog.
const FAULT: usize = 500;
const NOTES: usize = 4 << 10;

/// Whether the catalog can be asked, and what is wrong if not. A registry that is away does not make it ill while its content is
/// served.
pub(crate) fn health(source: &CatalogSource) -> Result<(), String> {
    let status = source.status.as_ref();
    match status.and_then(|status| status.connection_state.as_ref()).map(|connection| &connection.last_observed_state) {
        Some(Connection::Ready) => return Ok(()),
        Some(Connection::Connecting) => {}
        None | Some(_) => {
            if let Some(message) = status.map(|status| &status.message).filter(|message| !message.is_empty()) {
                return Err(message.clone());
            }
        }
    }
    Err("its content is not there yet".to_owned())
}

/// Since when what is served is not what is wanted, as the message of the status says it.
pub(crate) fn stale_since(source: &CatalogSource) -> Option<Timestamp> {
    let (text, _) = source.status.as_ref()?.message.split_once(MEANWHILE)?;
    let (_, text) = text.rsplit_once(SINCE)?;
    text.split_once(',')?.0.parse().ok()
}

/// What was found while a catalog was read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Found {
    /// Packages that can be served.
    pub packages: usize,
    /// Packages that cannot be served. There may be more of them than are named.
    pub sick: Vec<String>,
    pub sick_count: usize,
    /// What is wrong, each with file and line.
    pub faults: Vec<String>,
    /// What is wrong with packages that are served all the same, each with file and line.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What is to be said of the content if it may be served, else why it may not: it has no package, or would take one away that
/// `is_served` at present.
pub(crate) fn judge(found: &Found, is_served: impl Fn(&str) -> bool) -> Result<String, String> {
    let told = |texts: &[String], limit: usize| {
        let texts: Vec<_> = texts.iter().map(|text| shortened(text, FAULT)).collect();
        listed(&texts, "; ", limit, |rest| format!("and {rest} more"))
    };
    let faults = told(&found.faults, NOTES);
    if found.packages == 0 {
        return Err(match faults.is_empty() {
            true => "it has no package: is it the right image, folder or server?".to_owned(),
            false => format!("none of its packages can be served: {faults}"),
        });
    }
    let lost: Vec<&String> = found.sick.iter().filter(|package| is_served(package)).collect();
    if !lost.is_empty() {
        let lost = listed(&lost, ", ", FAULT, |rest| format!("and {rest} more"));
        return Err(format!("what is served at present cannot be served of it ({lost}): {faults}"));
    }
    let left_out = match (found.sick_count, faults.is_empty()) {
        (0, true) => None,
        (0, false) => Some(format!("some of its files are left out: {faults}")),
        (count, _) => Some(format!("{count} of its {} packages are not served: {faults}", found.packages + count)),
    };
    let tolerated = told(&found.notes, NOTES);
    let tolerated =
        (!tolerated.is_empty()).then(|| format!("served, though a file-based catalog may not have it: {tolerated}"));
    Ok(left_out.into_iter().chain(tolerated).collect::<Vec<_>>().join("; "))
}

#[cfg(test)]
mod tests;
