//! What a ClusterServiceVersion requires, in a cluster with many roles: for measurements.

use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase};
use crate::olm::api::keys::CLEANUP_FINALIZER;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::copies::book::Copies;
use crate::olm::operator::requirements::{Account, World};
use crate::olm::operator::rights::{Binding, Rights, Rules};
use crate::olm::operator::{Facts, Group, Tenant, component, decide, identified, tenancy};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// Roles, and an account in a namespace with a group of its own.
#[derive(Debug)]
pub struct Cluster {
    rights: Rights,
    accounts: BTreeMap<(String, String), Account>,
    group: OperatorGroup,
    namespace: String,
}

/// What a look at an operator has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Everything that is required is there.
    pub met: bool,
    /// Rules that were looked at.
    pub rules: usize,
}

impl Cluster {
    /// `account`: its namespace and name.
    pub fn new(
        roles: Vec<Value>,
        bindings: Vec<Value>,
        (namespace, account): (&str, &str),
    ) -> serde_json::Result<Cluster> {
        let id = |metadata: &ObjectMeta| {
            (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
        };
        let mut rules: BTreeMap<(String, String), Rules> = BTreeMap::new();
        for role in roles {
            let role: Role = serde_json::from_value(role)?;
            rules.insert(id(&role.metadata), role.rules.unwrap_or_default().into());
        }
        let bindings = bindings.into_iter().map(serde_json::from_value).collect::<Result<Vec<RoleBinding>, _>>()?;
        let bindings = bindings.iter().map(|it| Binding {
            namespace: it.metadata.namespace.as_deref().unwrap_or_default(),
            role: &it.role_ref,
            subjects: it.subjects.as_deref().unwrap_or_default(),
        });
        let rights = Rights::new(bindings, |of, name| rules.get(&(of.to_owned(), name.to_owned())).cloned());
        let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "one", "namespace": namespace}, "spec": {"targetNamespaces": [namespace]}});
        let accounts = BTreeMap::from([((namespace.to_owned(), account.to_owned()), Account::default())]);
        Ok(Cluster { rights, accounts, group: serde_json::from_value(group)?, namespace: namespace.to_owned() })
    }

    /// The object as it is looked at: it is marked, and waits for what it requires.
    pub fn marked(&self, csv: Value) -> serde_json::Result<ClusterServiceVersion> {
        let mut csv: ClusterServiceVersion = serde_json::from_value(csv)?;
        csv.metadata.namespace = Some(self.namespace.clone());
        csv.metadata.finalizers = Some(vec![CLEANUP_FINALIZER.to_owned()]);
        csv.status.get_or_insert_default().phase = Phase::Pending;
        Ok(identified(&csv, &self.groups()))
    }

    fn groups(&self) -> [Group<'_>; 1] {
        [Group { object: &self.group, targets: vec![self.namespace.clone()] }]
    }

    /// Decides for one that waits.
    pub fn look(&self, csv: &ClusterServiceVersion) -> Found {
        let (definitions, services, served) = (BTreeMap::new(), BTreeMap::new(), BTreeSet::new());
        let version = semver::Version::new(1, 30, 0);
        let world = World {
            kubernetes: Ok(&version),
            definitions: &definitions,
            services: &services,
            served: &served,
            accounts: &self.accounts,
            rights: &self.rights,
        };
        let namespaces = BTreeMap::from([(self.namespace.clone(), BTreeMap::new())]);
        let tenant = Tenant { apis: tenancy::Verdict::Free, namespaces: &namespaces, copies: Copies::default() };
        let facts = Facts {
            csv,
            siblings: &BTreeMap::from([(csv.metadata.name.as_deref().unwrap_or_default(), csv)]),
            groups: &self.groups(),
            tenant: &tenant,
            world: &world,
            deployments: &BTreeMap::new(),
            subscribers: &[],
            proxy: &Default::default(),
            conditions: &BTreeMap::new(),
            failing: &BTreeMap::new(),
            components: &component::Known::default(),
            refused: &BTreeMap::new(),
            certificates: &BTreeMap::new(),
        };
        let decision = decide(&facts, Timestamp::UNIX_EPOCH);
        let Some((states, status)) = decision.status else { return Found { met: false, rules: 0 } };
        let met = states.iter().any(|state| state.phase == Phase::InstallReady);
        Found { met, rules: status.requirement_status.iter().map(|line| line.dependents.len()).sum() }
    }
}
