//! The ServiceAccount that an OperatorGroup names: what is installed in its namespace is written with the rights of the account, so
//! that who may fill the namespace gains no more than its administrator gave.

use super::Facts;
use crate::olm::permissions::rule_text;
use k8s_openapi::api::rbac::v1::PolicyRule;

/// What an installation needs.
fn needed() -> PolicyRule {
    let texts = |all: &[&str]| all.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    PolicyRule {
        verbs: texts(&["create", "update", "delete"]),
        api_groups: Some(texts(&["apps"])),
        resources: Some(texts(&["deployments"])),
        ..PolicyRule::default()
    }
}

/// Why the account of the one group cannot install Deployments; `None` if it can, or none is named.
pub(super) fn hindrance(facts: &Facts<'_>) -> Option<String> {
    let [group] = facts.groups else { return None };
    let account = group.object.spec.service_account_name.as_str();
    if account.is_empty() {
        return None;
    }
    let (namespace, name) = group.id();
    let said = format!("OperatorGroup {name} names ServiceAccount {account} in spec.serviceAccountName");
    let known = facts.world.accounts.contains_key(&(namespace.to_owned(), account.to_owned()));
    if !known {
        return Some(format!("{said}, which does not exist: create it, or remove the field"));
    }
    let rule = needed();
    let allowed = facts.world.rights.allow((namespace, account), namespace, &rule);
    (!allowed).then(|| {
        format!(
            "{said}, which may not do all that an installation needs: give it the right {} in namespace {namespace}",
            rule_text(&rule)
        )
    })
}
