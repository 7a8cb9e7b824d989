//! What is done in one turn, by what is known of the cluster at one moment: for the operators of each namespace, and for all groups
//! together. Everything that is to be written is told as an action, and whoever performs it decides nothing.

mod groups;
mod orphans;

use super::copies::{self, book};
use super::deployment::config::{Proxy, Subscriber};
use super::group::Namespaces;
use super::requirements::World;
use super::room::Room;
use super::serving::{certificate, conversion};
use super::tenancy::{self, Tenancy, Verdict};
use super::{
    Decision, Facts, Group, State, Tenant, component, condition, decide, deployment, group, is_member, is_new,
};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, ClusterServiceVersionStatus};
use crate::olm::api::operator_condition::OperatorCondition;
use crate::olm::api::operator_group::OperatorGroup;
pub(crate) use groups::of_groups;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A namespace with ClusterServiceVersions, OperatorGroups or OperatorConditions.
#[derive(Debug)]
pub(crate) struct Namespace<'a> {
    pub name: &'a str,
    pub csvs: BTreeMap<&'a str, &'a ClusterServiceVersion>,
    pub groups: Vec<Group<'a>>,
    pub conditions: BTreeMap<&'a str, &'a OperatorCondition>,
    pub deployments: BTreeMap<&'a str, &'a deployment::Live>,
    /// All of its ClusterServiceVersions can be read.
    pub is_whole: bool,
    pub subscribers: &'a [Subscriber],
}

/// What all namespaces depend on.
#[derive(Clone, Copy)]
pub(crate) struct Around<'a> {
    pub world: &'a World<'a>,
    /// Labels of namespaces that can be written into, by their names.
    pub namespaces: &'a Namespaces,
    /// There are no other groups than those that are known.
    pub has_all_groups: bool,
    /// There are no other ClusterServiceVersions either.
    pub has_all_csvs: bool,
    pub proxy: &'a Proxy,
    pub components: &'a Arc<component::Known>,
    /// Why objects cannot be written, by kind and name.
    pub refused: &'a BTreeMap<String, String>,
    /// Whether there is a ClusterRole of a name that belongs to no group.
    pub has_other_role: &'a dyn Fn(&str) -> bool,
}

/// So many copies get their label at once.
const LABELLED_AT_ONCE: usize = 32;

/// Something that is written. Patches are merge patches.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    /// Of a ClusterServiceVersion.
    Patch {
        csv: &'a ClusterServiceVersion,
        patch: Value,
    },
    Status {
        csv: &'a ClusterServiceVersion,
        /// What it becomes, one after the other.
        states: Vec<State>,
        patch: Value,
        /// Another one takes its place from now on.
        is_replaced: bool,
    },
    Delete {
        csv: &'a ClusterServiceVersion,
    },
    /// With the rights of the account; empty for those of this process.
    Deployment {
        csv: &'a ClusterServiceVersion,
        write: deployment::Write,
        account: &'a str,
    },
    Component(component::Write),
    Conversion(conversion::Write),
    Certificate {
        namespace: &'a str,
        step: certificate::Step,
    },
    Group {
        group: &'a OperatorGroup,
        patch: Value,
    },
    GroupStatus {
        group: &'a OperatorGroup,
        patch: Value,
    },
    Namespace {
        name: String,
        patch: Value,
    },
    /// The object where there is none yet, and a patch of it otherwise.
    Condition {
        csv: &'a ClusterServiceVersion,
        exists: bool,
        object: Value,
    },
    ConditionStatus {
        condition: &'a OperatorCondition,
        patch: Value,
    },
    /// It cannot be said what to write.
    Impossible {
        what: &'static str,
        error: String,
    },
}

impl Action<'_> {
    /// Whether it creates something in a namespace that takes nothing new, since it is being deleted.
    fn is_in_vain(&self, namespaces: &Namespaces) -> bool {
        let namespace = match self {
            Action::Deployment { csv, write: deployment::Write::Create { .. }, .. }
            | Action::Condition { csv, exists: false, .. } => csv.metadata.namespace.as_deref().unwrap_or_default(),
            Action::Component(component::Write::Create { id, .. }) => &id.namespace,
            Action::Certificate { namespace, step: certificate::Step::Store { version: None, .. } } => namespace,
            _ => return false,
        };
        !namespace.is_empty() && !namespaces.contains_key(namespace)
    }
}

/// Takes what is to be written.
pub(crate) type Act<'s> = dyn FnMut(Action<'_>) + 's;

impl<'a> Namespace<'a> {
    /// Its groups, with their members.
    pub(crate) fn tenants(&'a self) -> impl Iterator<Item = tenancy::Tenant<'a>> {
        let is_alone = self.groups.len() == 1;
        self.groups.iter().map(move |group| {
            let members = self.csvs.values().filter(|csv| is_alone && is_member(csv, &self.groups));
            tenancy::Tenant { group, members: members.copied().collect(), is_whole: is_alone && self.is_whole }
        })
    }

    /// What the groups mean for its ClusterServiceVersions, by their names.
    pub(crate) fn verdicts(&self, tenancy: &Tenancy<'_>) -> impl Iterator<Item = (&'a str, Verdict)> {
        let group = self.groups.first();
        let of = move |csv: &ClusterServiceVersion| group.map_or(Verdict::Free, |group| tenancy.verdict(group, csv));
        self.csvs.iter().map(move |(name, csv)| (*name, of(csv)))
    }

    /// What counts for one of its ClusterServiceVersions. `copies`: its copies in the namespaces that its group selects.
    pub(crate) fn tenant<'b>(
        &self,
        csv: &ClusterServiceVersion,
        (apis, namespaces): (Verdict, &'b Namespaces),
        copies: impl FnOnce(&str, &[String]) -> book::Copies,
    ) -> Tenant<'b> {
        let copies = copies(csv.metadata.name.as_deref().unwrap_or_default(), self.targets());
        Tenant { apis, namespaces, copies }
    }

    /// The namespaces that its group selects; none where these are all of them.
    pub(crate) fn targets(&self) -> &[String] {
        let group = self.groups.first().filter(|group| !group.is_global());
        group.map(|group| group.targets.as_slice()).unwrap_or_default()
    }

    /// The account whose rights count for what is installed in it; empty for none.
    fn account(&self) -> &'a str {
        let [group] = self.groups.as_slice() else { return "" };
        &group.object.spec.service_account_name
    }

    /// Why the server does not take Deployments of it, by name.
    fn failing(&self, refused: &BTreeMap<String, String>) -> BTreeMap<String, String> {
        let prefix = format!("Deployment {}/", self.name);
        let of = refused.range(prefix.clone()..).map_while(|(key, error)| Some((key.strip_prefix(&prefix)?, error)));
        of.map(|(name, error)| (name.to_owned(), error.clone())).collect()
    }
}

/// What is done in a namespace. `tenants`: what its group means for its ClusterServiceVersions, in their order. Returns whether something
/// is or waits for others, and when to look again although nothing has changed.
pub(crate) fn of_namespace(
    namespace: &Namespace<'_>,
    (tenants, certificates): (&[Tenant<'_>], &BTreeMap<String, certificate::Known>),
    (around, room): (Around<'_>, &mut Room),
    now: Timestamp,
    act: &mut Act<'_>,
) -> (bool, Option<Timestamp>) {
    let (mut acts, mut next, mut waits) = (false, None::<Timestamp>, false);
    let act = &mut |action: Action<'_>| {
        if !action.is_in_vain(around.namespaces) {
            acts = true;
            act(action);
        }
    };
    status_of_groups(namespace, around, now, act);
    let failing = namespace.failing(around.refused);
    for (csv, tenant) in namespace.csvs.values().zip(tenants) {
        if !room.has_for(csv, now) {
            waits = true;
            next = next.into_iter().chain(room.until()).min();
            continue;
        }
        let facts = Facts {
            csv,
            tenant,
            siblings: &namespace.csvs,
            groups: &namespace.groups,
            world: around.world,
            deployments: &namespace.deployments,
            subscribers: namespace.subscribers,
            proxy: around.proxy,
            conditions: &namespace.conditions,
            failing: &failing,
            components: around.components,
            refused: around.refused,
            certificates,
        };
        let decision = decide(&facts, now);
        next = next.into_iter().chain(decision.next).min();
        room.take(csv, !decision.is_nothing());
        of_csv(namespace, csv, decision, act);
    }
    of_conditions(namespace, around, act);
    (acts || waits, next)
}

fn status_of_groups(namespace: &Namespace<'_>, around: Around<'_>, now: Timestamp, act: &mut Act<'_>) {
    for Group { object, targets } in &namespace.groups {
        let account = (namespace.name.to_owned(), object.spec.service_account_name.clone());
        let facts = group::GroupFacts {
            group: object,
            targets,
            has_others: namespace.groups.len() > 1,
            account_exists: around.world.accounts.contains_key(&account),
        };
        if let Some(status) = group::status_patch(&facts, now) {
            let patch = json!({"metadata": {"resourceVersion": object.metadata.resource_version}, "status": status});
            act(Action::GroupStatus { group: object, patch });
        }
    }
}

fn of_csv(namespace: &Namespace<'_>, csv: &ClusterServiceVersion, decision: Decision, act: &mut Act<'_>) {
    for step in decision.certificates {
        act(Action::Certificate { namespace: namespace.name, step });
    }
    decision.components.into_iter().for_each(|write| act(Action::Component(write)));
    decision.conversions.into_iter().for_each(|write| act(Action::Conversion(write)));
    let account = namespace.account();
    for write in decision.deployments {
        act(Action::Deployment { csv, write, account });
    }
    if let Some(patch) = decision.patch {
        act(Action::Patch { csv, patch });
    } else if let Some((states, status)) = decision.status {
        act(Action::Status { csv, states, patch: status_patch(csv, &status), is_replaced: decision.is_replaced });
    } else if decision.delete {
        act(Action::Delete { csv });
    }
    // What brings one that has only been created may still be writing.
    if csv.metadata.deletion_timestamp.is_none() && !is_new(csv) {
        let live = namespace.conditions.get(csv.metadata.name.as_deref().unwrap_or_default()).copied();
        if let Some(object) = condition::object(csv, live) {
            act(Action::Condition { csv, exists: live.is_some(), object });
        }
    }
}

/// What was in the status and is not any more is removed.
fn status_patch(csv: &ClusterServiceVersion, status: &ClusterServiceVersionStatus) -> Value {
    let (before, mut after) = (json!(csv.status), json!(status));
    if let (Some(before), Some(after)) = (before.as_object(), after.as_object_mut()) {
        for key in before.keys() {
            after.entry(key.clone()).or_insert(Value::Null);
        }
    }
    json!({"metadata": {"resourceVersion": csv.metadata.resource_version}, "status": after})
}

/// What lets operators write their OperatorConditions, and what these say.
fn of_conditions(namespace: &Namespace<'_>, around: Around<'_>, act: &mut Act<'_>) {
    for condition in namespace.conditions.values() {
        // Whatever is there by these names.
        match component::writes(condition::components(condition).into(), [], around.components) {
            Ok(writes) => writes.into_iter().for_each(|write| act(Action::Component(write))),
            Err(error) => {
                act(Action::Impossible { what: "an OperatorCondition cannot be written by its operator", error });
            }
        }
        if let Some(status) = condition::status(condition) {
            let patch = json!({"metadata": {"resourceVersion": condition.metadata.resource_version}, "status": status});
            act(Action::ConditionStatus { condition, patch });
        }
    }
}

/// Copies that lack the label by which they are known get it. Then they are kept, or deleted, as all others are.
/// Those that the API server turns down come after all others.
pub(crate) fn of_copies<'a>(
    unlabelled: impl Iterator<Item = &'a ClusterServiceVersion>,
    refused: &BTreeMap<String, String>,
    act: &mut Act<'_>,
) {
    let is_refused = |csv: &&ClusterServiceVersion| {
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&csv.metadata.namespace), text(&csv.metadata.name));
        refused.contains_key(&format!("ClusterServiceVersion {namespace}/{name}"))
    };
    let (refused, others): (Vec<_>, Vec<_>) = unlabelled.partition(is_refused);
    let patches = others.into_iter().chain(refused).filter_map(|csv| Some((csv, copies::labelled(csv)?)));
    patches.take(LABELLED_AT_ONCE).for_each(|(csv, patch)| act(Action::Patch { csv, patch }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_created_in_a_namespace_that_is_being_deleted() {
        let csv = json!({"metadata": {"name": "a.v1", "namespace": "going"}, "spec": {}});
        let csv: ClusterServiceVersion = serde_json::from_value(csv).unwrap();
        let id = |namespace: &str| component::Id {
            kind: component::Kind::Role,
            namespace: namespace.to_owned(),
            name: "a".to_owned(),
        };
        let create =
            |namespace: &str| Action::Component(component::Write::Create { id: id(namespace), object: json!({}) });
        let stays = Namespaces::from([("stays".to_owned(), BTreeMap::new())]);
        let deployment = |write: deployment::Write| Action::Deployment { csv: &csv, write, account: "" };
        let condition = |exists: bool| Action::Condition { csv: &csv, exists, object: json!({}) };
        let (name, uid) = ("d".to_owned(), "u".to_owned());
        for action in [
            create("going"),
            condition(false),
            deployment(deployment::Write::Create { name: name.clone(), object: json!({}) }),
        ] {
            assert!(action.is_in_vain(&stays), "{action:?}");
        }
        // What is not in a namespace, what is in another one, and what ends what is there.
        for action in [
            create(""),
            create("stays"),
            Action::Component(component::Write::Delete { id: id("going"), uid: uid.clone() }),
            condition(true),
            deployment(deployment::Write::Delete { name, uid }),
            Action::Delete { csv: &csv },
        ] {
            assert!(!action.is_in_vain(&stays), "{action:?}");
        }
    }

    #[test]
    fn what_is_not_in_the_status_any_more_is_removed() {
        let csv = json!({"metadata": {"resourceVersion": "7"}, "spec": {},
            "status": {"phase": "Pending", "requirementStatus": [], "message": "m", "certsLastUpdated": "2026-01-01T00:00:00Z"}});
        let csv: ClusterServiceVersion = serde_json::from_value(csv).unwrap();
        let status = serde_json::from_value(json!({"phase": "Failed", "reason": "r"})).unwrap();
        let patch = status_patch(&csv, &status);
        assert_eq!(patch["metadata"], json!({"resourceVersion": "7"}));
        assert_eq!(patch["status"]["phase"], "Failed");
        assert_eq!(patch["status"]["certsLastUpdated"], Value::Null);
        assert!(patch["status"].as_object().unwrap().contains_key("message"));
    }
}
