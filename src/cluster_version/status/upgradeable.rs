//! `Upgradeable`: whether the cluster may be updated to another minor version. It is only ever written as `False`; without
//! the condition nothing is known that speaks against it.

use super::failure::MESSAGE;
use crate::error::listed;
use crate::version;

/// One reason against updates to another minor version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Risk {
    /// Such as `AdminAck-<gate>` or `ClusterOperatorUpgradeable-<operator>`.
    pub name: String,
    /// What it is, and how it is removed.
    pub message: String,
    /// More about it.
    pub url: String,
}

/// The reason of the condition, which names the risk if there is only one; `None` without risks. Names of operators and gates
/// have characters that a reason may not have.
pub(crate) fn reason(risks: &[Risk]) -> Option<String> {
    match risks {
        [] => None,
        [risk] => Some(camel_case(&risk.name)),
        _ => Some("MultipleReasons".to_owned()),
    }
}

fn camel_case(name: &str) -> String {
    let words = name.split(|c: char| !c.is_ascii_alphanumeric());
    let capital = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_ascii_uppercase().to_string() + letters.as_str()).unwrap_or_default()
    };
    words.map(capital).collect()
}

/// Reason and message of the condition for a cluster at this version; `None` without risks. The message of a single risk is
/// that of the condition: clients that show both, with an update that the risk concerns, recognize it by that.
pub(super) fn text(risks: &[Risk], current: &str) -> Option<(String, String)> {
    let message = match risks {
        [risk] => risk.message.clone(),
        _ => {
            let unaffected = match version::minor(current) {
                Some((major, minor)) => format!("Updates within {major}.{minor} are not affected."),
                None => "Updates within the minor version are not affected.".to_owned(),
            };
            const LEAD: &str = "The cluster should not be updated to another minor version:";
            let texts: Vec<&str> = risks.iter().map(|risk| risk.message.as_str()).collect();
            let room = MESSAGE - LEAD.len() - unaffected.len() - 4;
            format!("{LEAD}\n* {}\n{unaffected}", listed(&texts, "\n* ", room, |n| format!("and {n} more")))
        }
    };
    reason(risks).map(|reason| (reason, message))
}
