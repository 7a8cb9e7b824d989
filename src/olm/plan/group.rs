//! Whose rights the steps of a plan are carried out with, which the one OperatorGroup of its namespace says.

use crate::olm::api::operator_group::OperatorGroup;

/// What all of these texts begin with, which scripts look for.
const PREFIX: &str = "attenuated service account query failed";

/// An OperatorGroup, as far as plans are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub namespace: String,
    pub name: String,
    /// Empty for none.
    pub account: String,
}

impl Group {
    pub(crate) fn of(group: &OperatorGroup) -> Group {
        Group {
            namespace: group.metadata.namespace.clone().unwrap_or_default(),
            name: group.metadata.name.clone().unwrap_or_default(),
            account: group.spec.service_account_name.clone(),
        }
    }
}

/// The ServiceAccount that the one group of a namespace names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Account {
    /// None is named.
    None,
    NotKnownYet,
    Missing,
    Exists,
}

/// Why no step is carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{PREFIX} - more than one operator group(s) are managing this namespace count={0}")]
    Many(usize),
    #[error("{PREFIX} - no operator group found that is managing this namespace")]
    None,
    #[error(
        "{PREFIX} - please make sure the service account exists. sa={account} operatorgroup={namespace}/{name}",
        account = .0.account, namespace = .0.namespace, name = .0.name
    )]
    Account(Group),
}

/// `groups`: those of the namespace of the plan.
pub(crate) fn check(groups: &[Group], account: Account) -> Result<(), Refused> {
    let [group] = groups else {
        return Err(if groups.is_empty() { Refused::None } else { Refused::Many(groups.len()) });
    };
    match account {
        Account::None | Account::Exists | Account::NotKnownYet => Ok(()),
        Account::Missing => Err(Refused::Account(group.clone())),
    }
}
