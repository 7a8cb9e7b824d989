//! What a change of a node disrupts: which services are reloaded or restarted, whether pods have to leave, and whether the
//! node is rebooted. Whatever no policy covers is followed by a reboot.

mod registries;

pub use registries::is_safe;

use super::changes::{Changes, FileState};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

const CRIO: &str = "crio.service";
const KUBELET: &str = "kubelet.service";
const CA_TRUST: &str = "coreos-update-ca-trust.service";
const INTERNAL_REGISTRY: &str = "iri-registry.service";
/// Folders of units and their drop-ins, as far as files are written there.
const UNIT_FOLDERS: [&str; 2] = ["/etc/systemd/system/", "/usr/local/lib/systemd/system/"];
/// How images are found. Whether pods have to leave for a change of it depends on the change.
const REGISTRIES: &str = "/etc/containers/registries.conf";

/// What follows a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Action {
    None,
    /// Pods leave the node before it is changed.
    Drain,
    /// systemd reads its units again.
    DaemonReload,
    Reload(String),
    Restart(String),
    Reboot,
    /// CRI-O is reloaded, and pods leave the node if the change of the registries is not a safe one.
    Special,
}

/// `spec.nodeDisruptionPolicy` of a MachineConfiguration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserPolicies {
    pub files: Vec<FilePolicy>,
    pub units: Vec<UnitPolicy>,
    pub sshkey: Option<KeyPolicy>,
}

/// For a file, or all files below a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct FilePolicy {
    pub path: String,
    pub actions: Vec<UserAction>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct UnitPolicy {
    pub name: String,
    pub actions: Vec<UserAction>,
}

/// For the SSH keys and passwords of users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct KeyPolicy {
    pub actions: Vec<UserAction>,
}

/// An action as its API writes it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct UserAction {
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(default)]
    pub reload: Option<Service>,
    #[serde(default)]
    pub restart: Option<Service>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Service {
    pub service_name: String,
}

/// Why policies are not accepted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "nodeDisruptionPolicy of {of}: the action type {found:?} does not exist; \
         use Reboot, Drain, Reload, Restart, DaemonReload or None"
    )]
    Type { of: String, found: String },
    #[error("nodeDisruptionPolicy of {of}: {found} has no serviceName; name the service, such as crio.service")]
    Service { of: String, found: String },
    #[error("nodeDisruptionPolicy of {of}: {found} has other actions beside it; keep it alone, or remove it")]
    NotAlone { of: String, found: Action },
    #[error("nodeDisruptionPolicy of {of} has no action; write None if nothing is to be done")]
    NoAction { of: String },
}

/// The services that a node lacks which says this of its container runtime, such as `containerd://1.7.0`. One that says nothing may have
/// all of them.
pub(crate) fn lacking_with(runtime: &str) -> BTreeSet<String> {
    let is_other = !runtime.is_empty() && !runtime.starts_with("cri-o://");
    is_other.then(|| CRIO.to_owned()).into_iter().collect()
}

/// Built-in policies with those of the administrator laid over them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policies {
    files: BTreeMap<String, Policy>,
    units: BTreeMap<String, Policy>,
    keys: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Policy {
    actions: Vec<Action>,
    /// It assumes that a node has the services that it names, as those of OpenShift do.
    built_in: bool,
}

/// What a change of a node disrupts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Disruption {
    /// Pods leave the node before it is changed.
    pub drains: bool,
    pub reboots: bool,
    /// [`Action::DaemonReload`], then reloads and restarts, in the order in which they are done once everything is written.
    /// Empty if the node is rebooted.
    pub actions: Vec<Action>,
    /// For each thing that changes, in words, what it asks for. [`Action::Special`] is replaced by what it means.
    pub causes: Vec<(String, Vec<Action>)>,
    /// Services that the built-in policies which were used assume the node to have. What is said here is not so where it
    /// lacks one of them: it is to be asked for by [`disruption_on`] then.
    pub assumed: BTreeSet<String>,
}

impl Action {
    /// The service that it is for.
    pub(crate) fn service(&self) -> Option<&str> {
        match self {
            Action::Reload(service) | Action::Restart(service) => Some(service),
            Action::Special => Some(CRIO),
            Action::None | Action::Drain | Action::DaemonReload | Action::Reboot => None,
        }
    }
}

impl Policy {
    fn of_user(actions: Vec<Action>) -> Self {
        Policy { actions, built_in: false }
    }

    fn built_in(actions: Vec<Action>) -> Self {
        Policy { actions, built_in: true }
    }

    fn assumed(&self) -> impl Iterator<Item = &str> {
        self.actions.iter().filter(|_| self.built_in).filter_map(Action::service)
    }

    /// What is done on a node that lacks these services.
    fn on(&self, lacking: &BTreeSet<String>) -> Vec<Action> {
        let is_for_crio = |action: &Action| match action {
            Action::Reload(service) => service == CRIO,
            other => *other == Action::Special,
        };
        match () {
            () if !self.assumed().any(|service| lacking.contains(service)) => self.actions.clone(),
            // Nothing else that runs reads such files: containerd has others, and podman and its like read them each time.
            () if self.actions.iter().all(is_for_crio) => vec![Action::None],
            // Whatever takes the place of the service takes over the change when it starts.
            () => vec![Action::Reboot],
        }
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Reload(service) => write!(f, "Reload {service}"),
            Action::Restart(service) => write!(f, "Restart {service}"),
            other => fmt::Debug::fmt(other, f),
        }
    }
}

fn reload(service: &str) -> Action {
    Action::Reload(service.to_owned())
}

fn restart(service: &str) -> Action {
    Action::Restart(service.to_owned())
}

impl Default for Policies {
    /// The built-in ones.
    fn default() -> Self {
        let crio = || vec![reload(CRIO)];
        let registry = || vec![restart(INTERNAL_REGISTRY)];
        let files = [
            ("/var/lib/kubelet/config.json", vec![Action::None]),
            ("/etc/nmstate/openshift", vec![Action::None]),
            ("/etc/machine-config-daemon/no-reboot/containers-gpg.pub", crio()),
            ("/etc/containers/policy.json", crio()),
            ("/etc/containers/registries.d", crio()),
            ("/etc/crio/policies", crio()),
            (REGISTRIES, vec![Action::Special]),
            (
                "/etc/pki/ca-trust/source/anchors/openshift-config-user-ca-bundle.crt",
                vec![restart(CA_TRUST), restart(CRIO)],
            ),
            ("/etc/pki/ca-trust/source/anchors/iri-root-ca.crt", vec![restart(CA_TRUST)]),
            ("/etc/kubernetes/credential-providers", vec![restart(KUBELET)]),
            (
                "/etc/systemd/system/kubelet.service.d/40-kubelet-crio-image-credential-provider.conf",
                vec![Action::DaemonReload, restart(KUBELET)],
            ),
            ("/etc/iri-registry", registry()),
            ("/usr/local/bin/load-registry-image.sh", registry()),
        ];
        Policies {
            files: files.into_iter().map(|(path, actions)| (path.to_owned(), Policy::built_in(actions))).collect(),
            units: [(INTERNAL_REGISTRY.to_owned(), Policy::built_in(vec![restart(INTERNAL_REGISTRY)]))].into(),
            keys: Policy::built_in(vec![Action::None]),
        }
    }
}

impl Policies {
    /// A policy of the administrator for the same path or name replaces the built-in one.
    pub fn new(user: &UserPolicies) -> Result<Self, PolicyError> {
        let mut policies = Policies::default();
        for policy in &user.files {
            let path = match policy.path.trim_end_matches('/') {
                "" => "/",
                path => path,
            };
            let actions = actions(&format!("path {path}"), &policy.actions)?;
            policies.files.insert(path.to_owned(), Policy::of_user(actions));
        }
        for policy in &user.units {
            let of = format!("unit {}", policy.name);
            policies.units.insert(policy.name.clone(), Policy::of_user(actions(&of, &policy.actions)?));
        }
        if let Some(policy) = &user.sshkey {
            policies.keys = Policy::of_user(actions("sshkey", &policy.actions)?);
        }
        Ok(policies)
    }

    /// The policy of the longest path that is this one or a folder above it.
    fn of_path(&self, path: &str) -> Policy {
        let above = path.match_indices('/').rev().filter_map(|(at, _)| path.get(..at.max(1)));
        let found = std::iter::once(path).chain(above).find_map(|path| self.files.get(path));
        found.cloned().unwrap_or_else(|| Policy::built_in(vec![Action::Reboot]))
    }

    fn of_unit(&self, name: &str) -> Policy {
        self.units.get(name).cloned().unwrap_or_else(|| Policy::built_in(vec![Action::Reboot]))
    }
}

/// Actions of an administrator's policy; `of` names it in errors.
fn actions(of: &str, given: &[UserAction]) -> Result<Vec<Action>, PolicyError> {
    let of = of.to_owned();
    let mut actions = Vec::new();
    for action in given {
        let service = |service: &Option<Service>| match service {
            Some(service) if !service.service_name.is_empty() => Ok(service.service_name.clone()),
            _ => Err(PolicyError::Service { of: of.clone(), found: action.type_.clone() }),
        };
        actions.push(match action.type_.as_str() {
            "None" => Action::None,
            "Drain" => Action::Drain,
            "DaemonReload" => Action::DaemonReload,
            "Reload" => Action::Reload(service(&action.reload)?),
            "Restart" => Action::Restart(service(&action.restart)?),
            "Reboot" => Action::Reboot,
            _ => return Err(PolicyError::Type { of, found: action.type_.clone() }),
        });
    }
    let alone = actions.iter().find(|action| matches!(action, Action::None | Action::Reboot));
    match alone {
        _ if actions.is_empty() => Err(PolicyError::NoAction { of }),
        Some(found) if actions.len() > 1 => Err(PolicyError::NotAlone { of, found: found.clone() }),
        _ => Ok(actions),
    }
}

/// What these changes disrupt. `forced` is whether an administrator has asked for everything to be written anew, which ends
/// with a reboot.
pub fn disruption(changes: &Changes, policies: &Policies, forced: bool) -> Disruption {
    disruption_on(&BTreeSet::new(), changes, policies, forced)
}

/// The same on a node that lacks these services.
pub fn disruption_on(lacking: &BTreeSet<String>, changes: &Changes, policies: &Policies, forced: bool) -> Disruption {
    let mut causes = reboots(changes, forced);
    let mut assumed = BTreeSet::new();
    let mut on = |policy: &Policy| {
        assumed.extend(policy.assumed().map(ToOwned::to_owned));
        policy.on(lacking)
    };
    for change in &changes.files {
        let is_safe = || is_safe(contents(&change.old), contents(&change.new));
        let actions = resolved(on(&policies.of_path(&change.path)), is_safe);
        let is_unit = UNIT_FOLDERS.iter().any(|folder| change.path.starts_with(folder));
        let actions = if is_unit { with_units_read(actions) } else { actions };
        causes.push((format!("file {}", change.path), actions));
    }
    for path in &changes.links_removed {
        causes.push((format!("link {path}"), resolved(on(&policies.of_path(path)), || false)));
    }
    for unit in &changes.units {
        causes.push((format!("unit {}", unit.name), with_units_read(on(&policies.of_unit(&unit.name)))));
    }
    let keys = [("SSH keys", changes.ssh_keys.is_some()), ("a password", changes.password)];
    causes.extend(keys.into_iter().filter(|(_, is)| *is).map(|(what, _)| (what.to_owned(), on(&policies.keys))));
    let mut all = Vec::new();
    for action in causes.iter().flat_map(|(_, actions)| actions) {
        if !all.contains(&action) {
            all.push(action);
        }
    }
    let reboots = all.contains(&&Action::Reboot);
    let drains = reboots || all.contains(&&Action::Drain);
    // A service that is assumed and lacking can only lead to a restart, which comes anyway.
    let assumed = if reboots { BTreeSet::new() } else { assumed };
    Disruption { drains, reboots, actions: ordered(&all, reboots), causes, assumed }
}

/// systemd goes by what it has read of a unit until it is told to read it again.
fn with_units_read(mut actions: Vec<Action>) -> Vec<Action> {
    if !actions.contains(&Action::Reboot) && !actions.contains(&Action::DaemonReload) {
        actions.retain(|action| *action != Action::None);
        actions.insert(0, Action::DaemonReload);
    }
    actions
}

/// Absent and removed are both `None`, which are no registries at all.
fn contents(state: &Option<FileState>) -> &[u8] {
    state.as_ref().map_or(&[], |state| &state.contents)
}

/// Changes that a running system cannot take over.
fn reboots(changes: &Changes, forced: bool) -> Vec<(String, Vec<Action>)> {
    let parts = [
        ("the force file", forced),
        ("the operating system", changes.os_image.is_some()),
        ("the extensions image", changes.extensions_image.is_some()),
        ("kernel arguments", changes.kernel_arguments.is_some()),
        ("FIPS mode", changes.fips.is_some()),
        ("the kernel type", changes.kernel_type.is_some()),
        ("extensions", changes.extensions.is_some()),
    ];
    let changed = parts.into_iter().filter(|(_, is)| *is);
    changed.map(|(what, _)| (what.to_owned(), vec![Action::Reboot])).collect()
}

/// Replaces [`Action::Special`] by what it means for this change.
fn resolved(actions: Vec<Action>, is_safe: impl Fn() -> bool) -> Vec<Action> {
    let mut resolved = Vec::new();
    for action in actions {
        match action {
            Action::Special if is_safe() => resolved.push(reload(CRIO)),
            Action::Special => resolved.extend([Action::Drain, reload(CRIO)]),
            action => resolved.push(action),
        }
    }
    resolved
}

/// What is done after everything is written: units are read again before the first service is restarted, which would
/// otherwise start as it was before, and a service that is restarted need not be reloaded.
fn ordered(all: &[&Action], reboots: bool) -> Vec<Action> {
    if reboots {
        return Vec::new();
    }
    let units = all.iter().filter(|action| matches!(action, Action::DaemonReload));
    let services = all.iter().filter(|action| match action {
        Action::Reload(service) => !all.contains(&&Action::Restart(service.clone())),
        Action::Restart(_) => true,
        _ => false,
    });
    units.chain(services).map(|action| (*action).clone()).collect()
}

#[cfg(test)]
mod tests;
