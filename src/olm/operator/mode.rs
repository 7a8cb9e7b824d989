//! Whether an operator can work for the namespaces that its OperatorGroup selects.

use crate::olm::api::cluster_service_version::{InstallMode, InstallModeType, reason};
use std::collections::BTreeSet;

/// All namespaces, where it is the only target.
pub(crate) const ALL: &str = "";

/// Reason and message if it cannot. `targets` are sorted and without doubles. A mode that is not named is not supported.
pub(super) fn check(modes: &[InstallMode], own: &str, targets: &[String]) -> Result<(), (&'static str, String)> {
    let mut known = BTreeSet::new();
    if let Some(twice) = modes.iter().map(|mode| name(&mode.type_)).find(|name| !known.insert(*name)) {
        let message = format!("spec.installModes names {twice} twice; name each install mode once");
        return Err((reason::INVALID_INSTALL_MODES, message));
    }
    let lacks = |type_: InstallModeType| !modes.iter().any(|mode| mode.type_ == type_ && mode.supported);
    let unsupported = |type_: InstallModeType, what: &str| {
        let message = format!("{} InstallModeType not supported, cannot configure to watch {what}", name(&type_));
        Err((reason::UNSUPPORTED_OPERATOR_GROUP, message))
    };
    let invalid = |what: &str| {
        let message = format!("operatorgroup has invalid selected namespaces, {what}");
        Err((reason::UNSUPPORTED_OPERATOR_GROUP, message))
    };
    use InstallModeType::{AllNamespaces, MultiNamespace, OwnNamespace, SingleNamespace};
    match targets {
        [] => invalid("cannot configure to watch zero namespaces"),
        [only] if only == own && lacks(OwnNamespace) => unsupported(OwnNamespace, "own namespace"),
        [only] if only == ALL && lacks(AllNamespaces) => unsupported(AllNamespaces, "all namespaces"),
        [only] if only != own && only != ALL && lacks(SingleNamespace) => unsupported(SingleNamespace, "one namespace"),
        [_] => Ok(()),
        several if several.iter().any(|target| target == ALL) => {
            invalid("NamespaceAll found when |selected namespaces| > 1")
        }
        several if lacks(MultiNamespace) => unsupported(MultiNamespace, &format!("{} namespaces", several.len())),
        several if several.iter().any(|target| target == own) && lacks(OwnNamespace) => {
            unsupported(OwnNamespace, "own namespace")
        }
        _ => Ok(()),
    }
}

fn name(type_: &InstallModeType) -> &str {
    match type_ {
        InstallModeType::OwnNamespace => "OwnNamespace",
        InstallModeType::SingleNamespace => "SingleNamespace",
        InstallModeType::MultiNamespace => "MultiNamespace",
        InstallModeType::AllNamespaces => "AllNamespaces",
        InstallModeType::Other(text) => text,
    }
}
