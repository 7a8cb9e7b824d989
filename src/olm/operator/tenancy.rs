//! Which APIs the OperatorGroups of a cluster provide: no two of them provide the same one in one namespace. All groups are decided on
//! together, so that two of them never wait for each other.

use super::apis::{self, Apis};
use super::state::phase;
use super::{Group, State};
use crate::olm::api::cluster_service_version::{ClusterServiceVersion, Phase, reason};
use crate::olm::api::keys::annotation::PROVIDED_APIS;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// An OperatorGroup that is the only one of its namespace, with its members.
#[derive(Clone, Debug)]
pub(crate) struct Tenant<'a> {
    pub group: &'a Group<'a>,
    pub members: Vec<&'a ClusterServiceVersion>,
    /// All ClusterServiceVersions of the namespace can be read, so that what none of them provides is surplus.
    pub is_whole: bool,
}

/// Whether two states of a ClusterServiceVersion are the same for the groups, their APIs and the roles of these.
pub(crate) fn is_same_for_groups(one: &ClusterServiceVersion, other: &ClusterServiceVersion) -> bool {
    let of = |csv: &ClusterServiceVersion| {
        let phase = phase(csv);
        let (is_new, runs) = (matches!(phase, Phase::None | Phase::Pending), phase == Phase::Succeeded);
        (csv.metadata.uid.clone(), csv.metadata.deletion_timestamp.is_some(), is_new, runs)
    };
    of(one) == of(other)
        && one.metadata.labels == other.metadata.labels
        && one.metadata.annotations == other.metadata.annotations
        && one.spec == other.spec
}

/// What follows for a ClusterServiceVersion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Free,
    /// Its group has to name its APIs first.
    Waits,
    /// It must not run.
    Refused(State),
}

/// What a group names.
struct Claim<'a> {
    tenant: &'a Tenant<'a>,
    today: Apis,
    /// From now on.
    apis: Apis,
    /// Others that are for one of the same namespaces.
    near: BTreeSet<usize>,
}

/// All groups, the oldest one first.
pub(crate) struct Tenancy<'a> {
    claims: Vec<Claim<'a>>,
    /// Which of them name an API.
    holders: BTreeMap<String, BTreeSet<usize>>,
    /// By namespace and name of their groups.
    places: BTreeMap<(&'a str, &'a str), usize>,
}

impl<'a> Tenancy<'a> {
    /// `others`: groups that are not alone in their namespace; what they name counts all the same.
    pub(crate) fn new(tenants: &'a [Tenant<'a>]) -> Tenancy<'a> {
        let mut claims: Vec<Claim<'a>> = tenants.iter().map(Claim::of).collect();
        claims.sort_by(|one, other| one.age().cmp(&other.age()));
        let near = near(&claims);
        claims.iter_mut().zip(near).for_each(|(claim, near)| claim.near = near);
        let mut holders: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
        for (at, claim) in claims.iter().enumerate() {
            for api in &claim.apis {
                holders.entry(api.clone()).or_default().insert(at);
            }
        }
        let places = claims.iter().enumerate().map(|(at, claim)| (claim.tenant.group.id(), at)).collect();
        let mut all = Tenancy { claims, holders, places };
        let count = all.claims.len();
        (0..count).for_each(|at| all.prune(at));
        // Whoever was there first keeps what it has.
        (0..count).rev().for_each(|at| all.give_up(at));
        (0..count).for_each(|at| all.claim(at));
        all
    }

    /// What no member provides any more, unless one has only begun.
    fn prune(&mut self, at: usize) {
        let Some(Claim { tenant, apis, .. }) = self.claims.get(at) else { return };
        let is_new = |csv: &&ClusterServiceVersion| matches!(phase(csv), Phase::None | Phase::Pending);
        if !tenant.is_whole || tenant.is_static() || tenant.members.iter().any(is_new) {
            return;
        }
        let provided: Apis = tenant.members.iter().flat_map(|csv| apis::provided(csv)).collect();
        let surplus = apis.difference(&provided).cloned().collect();
        self.remove(at, &surplus);
    }

    /// What others provide too.
    fn give_up(&mut self, at: usize) {
        let Some(tenant) = self.claims.get(at).map(|claim| claim.tenant).filter(|it| !it.is_static()) else { return };
        for csv in tenant.present() {
            let provided = apis::provided(csv);
            let named = self.claims.get(at).is_some_and(|claim| provided.is_subset(&claim.apis));
            if named && self.rival(at, &provided).is_some() {
                self.remove(at, &provided);
            }
        }
    }

    /// What its members provide and nobody else does.
    fn claim(&mut self, at: usize) {
        let Some(tenant) = self.claims.get(at).map(|claim| claim.tenant).filter(|it| !it.is_static()) else { return };
        for csv in tenant.present() {
            let provided = apis::provided(csv);
            if self.rival(at, &provided).is_some() {
                continue;
            }
            for api in provided {
                self.holders.entry(api.clone()).or_default().insert(at);
                if let Some(claim) = self.claims.get_mut(at) {
                    claim.apis.insert(api);
                }
            }
        }
    }

    fn remove(&mut self, at: usize, surplus: &Apis) {
        for api in surplus {
            if let Some(holders) = self.holders.get_mut(api) {
                holders.remove(&at);
            }
            if let Some(claim) = self.claims.get_mut(at) {
                claim.apis.remove(api);
            }
        }
    }

    /// One of these APIs that another group names which is for one of the same namespaces, and that group.
    fn rival<'b>(&'b self, at: usize, apis: &'b Apis) -> Option<(&'b str, &'a Tenant<'a>)> {
        let near = &self.claims.get(at)?.near;
        apis.iter().find_map(|api| {
            let holders = self.holders.get(api)?;
            // There may be a group with the same API in each namespace, and none of them is near.
            let other = match near.len() < holders.len() {
                true => near.iter().find(|other| holders.contains(other)),
                false => holders.iter().find(|other| near.contains(other)),
            };
            Some((api.as_str(), self.claims.get(*other?)?.tenant))
        })
    }

    fn find(&self, group: &Group<'_>) -> Option<(usize, &Claim<'a>)> {
        let at = *self.places.get(&group.id())?;
        Some((at, self.claims.get(at)?))
    }

    /// A merge patch of the group with the APIs that it names; `None` if it names them.
    pub(crate) fn patch(&self, group: &Group<'_>) -> Option<Value> {
        let (_, claim) = self.find(group).filter(|(_, claim)| claim.apis != claim.today)?;
        // Also where there are none left: programs look for the annotation.
        let text = apis::to_text(&claim.apis);
        let version = &group.object.metadata.resource_version;
        Some(json!({"metadata": {"resourceVersion": version, "annotations": {PROVIDED_APIS: text}}}))
    }

    /// The APIs that the group names from now on.
    pub(crate) fn apis(&self, group: &Group<'_>) -> Apis {
        self.find(group).map(|(_, claim)| claim.apis.clone()).unwrap_or_default()
    }

    pub(crate) fn verdict(&self, group: &Group<'_>, csv: &ClusterServiceVersion) -> Verdict {
        let Some((at, claim)) = self.find(group) else { return Verdict::Free };
        let provided = apis::provided(csv);
        let named = provided.is_subset(&claim.today);
        let (namespace, name) = group.id();
        let is_static = claim.tenant.is_static();
        match self.rival(at, &provided) {
            None if named => Verdict::Free,
            None if !is_static => Verdict::Waits,
            None => {
                let missing: Vec<&str> = provided.difference(&claim.today).map(String::as_str).collect();
                Verdict::Refused(unchangeable(&format!(
                    "OperatorGroup {namespace}/{name} has spec.staticProvidedAPIs and does not name {}; add it to its annotation \
                     {PROVIDED_APIS}",
                    missing.join(", ")
                )))
            }
            Some((api, other)) => {
                let (of, it) = other.group.id();
                let both = format!(
                    "OperatorGroups {namespace}/{name} and {of}/{it}, which share namespaces, both provide {api}; select other \
                     namespaces in one of them, or delete the operator of one"
                );
                Verdict::Refused(match named && is_static {
                    true => unchangeable(&both),
                    false => {
                        let message = format!("intersecting operatorgroups provide the same apis: {both}");
                        State::failed(reason::INTER_OPERATOR_GROUP_OWNER_CONFLICT, message)
                    }
                })
            }
        }
    }
}

impl<'a> Claim<'a> {
    fn of(tenant: &'a Tenant<'a>) -> Claim<'a> {
        let annotations = tenant.group.object.metadata.annotations.as_ref();
        let today = annotations.and_then(|all| all.get(PROVIDED_APIS)).map(|text| apis::of_text(text));
        let today = today.unwrap_or_default();
        Claim { tenant, apis: today.clone(), today, near: BTreeSet::new() }
    }

    fn age(&self) -> (Option<jiff::Timestamp>, (&'a str, &'a str)) {
        let group = self.tenant.group;
        (group.object.metadata.creation_timestamp.as_ref().map(|time| time.0), group.id())
    }
}

impl<'a> Tenant<'a> {
    fn is_static(&self) -> bool {
        self.group.object.spec.static_provided_apis
    }

    /// Its own, and those that its group selects.
    fn namespaces(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let group = self.group;
        std::iter::once(group.id().0).chain(group.targets.iter().map(String::as_str))
    }

    /// Members that are not being deleted.
    fn present(&self) -> impl Iterator<Item = &'a ClusterServiceVersion> + use<'a> {
        let members: Vec<&'a ClusterServiceVersion> = self.members.clone();
        members.into_iter().filter(|csv| csv.metadata.deletion_timestamp.is_none())
    }
}

fn unchangeable(why: &str) -> State {
    let message = format!("static provided api operatorgroup cannot be modified by these apis: {why}");
    State::failed(reason::CANNOT_MODIFY_STATIC_OPERATOR_GROUP, message)
}

/// For each group, the places of others that are for one of the same namespaces. That of a group itself counts, unless it is for all
/// of them.
fn near(claims: &[Claim<'_>]) -> Vec<BTreeSet<usize>> {
    let mut here: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    let mut everywhere = Vec::new();
    for (at, claim) in claims.iter().enumerate() {
        match claim.tenant.group.is_global() {
            true => everywhere.push(at),
            false => claim.tenant.namespaces().for_each(|name| here.entry(name).or_default().push(at)),
        }
    }
    let others = |(at, claim): (usize, &Claim<'_>)| {
        let mut near: BTreeSet<usize> = match claim.tenant.group.is_global() {
            true => (0..claims.len()).collect(),
            false => {
                let near = claim.tenant.namespaces().filter_map(|name| here.get(name)).flatten();
                near.chain(&everywhere).copied().collect()
            }
        };
        near.remove(&at);
        near
    };
    claims.iter().enumerate().map(others).collect()
}
