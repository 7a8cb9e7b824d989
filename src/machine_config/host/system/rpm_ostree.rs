//! Operating systems that `rpm-ostree` updates. What is staged is locked, so that no restart boots it, until the node
//! is drained and its files are written.
//!
//! On such a node /etc belongs to the deployment: the next one gets it as it is when the node goes down, and going back
//! to the former one brings back its /etc as it was then, journal included. That the update was given up is in /var, which
//! is the same for all, so that an agent that finds itself there goes on with the way back.

use super::{KUBELET_AUTH, Size, Step, SystemError, auth_file, is_image, root_file, wrong_image};
use crate::machine_config::api::machine_config::MachineConfigSpec;
use crate::machine_config::changes::{Changes, kernel_arguments};
use crate::machine_config::host::commands::Commands;
use crate::machine_config::host::record::Repairs;
use crate::machine_config::host::root::{HostError, Root, State};
use serde::Deserialize;
use std::collections::BTreeSet;

/// Packages of each extension.
const EXTENSIONS: [(&str, &[&str]); 7] = [
    ("ipsec", &["NetworkManager-libreswan", "libreswan"]),
    ("kerberos", &["krb5-workstation", "libkadm5"]),
    ("kernel-devel", &["kernel-devel", "kernel-headers"]),
    ("sandboxed-containers", &["kata-containers"]),
    ("sysstat", &["sysstat"]),
    ("two-node-ha", &["pacemaker", "pcs", "fence-agents-all"]),
    ("usbguard", &["usbguard"]),
];
const DEFAULT_KERNEL: [&str; 5] =
    ["kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-modules-extra"];
/// Packages that take the place of those of [`DEFAULT_KERNEL`].
const KERNELS: [(&str, &[&str]); 2] = [
    (
        "realtime",
        &["kernel-rt-core", "kernel-rt-modules", "kernel-rt-modules-core", "kernel-rt-modules-extra", "kernel-rt-kvm"],
    ),
    ("64k-pages", &["kernel-64k-core", "kernel-64k-modules", "kernel-64k-modules-core", "kernel-64k-modules-extra"]),
];
/// Credentials that ostree pulls images with.
const OSTREE_AUTH: &str = "/run/ostree/auth.json";
const OWN_OSTREE_AUTH: &str = "/etc/ostree/auth.json";
/// Where packages of the extensions image are while a deployment is staged.
const PACKAGES: &str = "/run/machine-config-extensions";
const PACKAGES_CONTAINER: &str = "machine-config-extensions";
/// The only thing below /etc that staging writes; it is gone when staging ends.
const REPOSITORY: &str = "/etc/yum.repos.d/coreos-extensions.repo";

/// What `rpm-ostree status --json` prints, as far as it is needed. The first deployment is what is booted next, unless it
/// is locked.
#[derive(Debug, Deserialize)]
struct Status {
    deployments: Vec<Deployment>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct Deployment {
    booted: bool,
    staged: bool,
    finalization_locked: bool,
    checksum: String,
    /// With the transport before the name, such as `ostree-unverified-registry:`.
    container_image_reference: Option<String>,
    container_image_reference_digest: Option<String>,
    /// Packages that were asked for, and packages that were added.
    requested_packages: Vec<String>,
    packages: Vec<String>,
}

impl Status {
    fn booted(&self) -> Result<&Deployment, SystemError> {
        let booted = self.deployments.iter().find(|deployment| deployment.booted);
        booted.ok_or_else(|| SystemError::NotBooted { command: status().command.join(" ") })
    }

    fn staged(&self) -> Option<&Deployment> {
        self.deployments.iter().find(|deployment| deployment.staged)
    }
}

impl Deployment {
    /// Without the transport.
    fn image(&self) -> Option<&str> {
        let reference = self.container_image_reference.as_deref()?;
        let (transport, mut name) = reference.split_once(':')?;
        // `ostree-remote-registry:fedora:quay.io/a` names the remote whose keys verify it.
        if transport.starts_with("ostree-remote-") {
            name = name.split_once(':')?.1;
        }
        let transports = ["docker://", "registry:", "containers-storage:"];
        Some(transports.iter().find_map(|transport| name.strip_prefix(transport)).unwrap_or(name))
    }

    fn is(&self, wanted: &str) -> bool {
        self.image().is_some_and(|name| is_image(wanted, name, self.container_image_reference_digest.as_deref()))
    }

    fn name(&self) -> String {
        self.image().map_or_else(|| format!("none (the commit {})", self.checksum), ToOwned::to_owned)
    }

    fn has_package(&self, name: &str) -> bool {
        self.requested_packages.iter().chain(&self.packages).any(|found| found == name)
    }

    /// What keeps it from being what the configuration asks for, apart from kernel arguments.
    fn deviation(&self, config: &MachineConfigSpec) -> Option<String> {
        let wanted = &config.os_image_url;
        if !wanted.is_empty() && !self.is(wanted) {
            return Some(wrong_image(&self.name(), wanted));
        }
        let missing = kernel_packages(kernel(config)).into_iter().chain(packages(&config.extensions));
        let missing = missing.filter(|name| !self.has_package(name)).collect::<Vec<_>>();
        (!missing.is_empty()).then(|| {
            format!("the packages {} of extensions or kernelType are not in the operating system", missing.join(", "))
        })
    }
}

fn kernel(config: &MachineConfigSpec) -> &str {
    if config.kernel_type.is_empty() { "default" } else { &config.kernel_type }
}

fn kernel_packages(kernel: &str) -> Vec<&'static str> {
    KERNELS.iter().find(|(name, _)| *name == kernel).map(|(_, packages)| packages.to_vec()).unwrap_or_default()
}

fn packages(extensions: &[String]) -> BTreeSet<&'static str> {
    let known = EXTENSIONS.iter().filter(|(name, _)| extensions.iter().any(|wanted| wanted == name));
    known.flat_map(|(_, packages)| packages.iter().copied()).collect()
}

/// Something is to be deployed. The extensions image alone is only where packages come from.
pub(super) fn deploys(changes: &Changes) -> bool {
    changes.os_image.is_some()
        || changes.kernel_arguments.is_some()
        || changes.kernel_type.is_some()
        || changes.extensions.is_some()
}

/// Packages are taken from the image of the release; without one, from the repositories of the node.
fn takes_packages(changes: &Changes, new: &MachineConfigSpec) -> bool {
    let uses = !new.extensions.is_empty() || kernel(new) != "default";
    deploys(changes) && uses && !new.base_os_extensions_container_image.is_empty()
}

pub(super) fn refusal(changes: &Changes, new: &MachineConfigSpec) -> Option<String> {
    let unknown = |name: &&String| !EXTENSIONS.iter().any(|(known, _)| known == name);
    if changes.extensions.is_some()
        && let Some(name) = new.extensions.iter().find(unknown)
    {
        let known = EXTENSIONS.map(|(name, _)| name).join(", ");
        return Some(format!("extensions of the MachineConfig names {name}, which does not exist; use one of {known}"));
    }
    let kernel = kernel(new);
    (changes.kernel_type.is_some() && kernel != "default" && kernel_packages(kernel).is_empty()).then(|| {
        format!("kernelType of the MachineConfig is {kernel}; write default, realtime or 64k-pages, or leave it out")
    })
}

pub(super) fn programs(changes: &Changes, new: &MachineConfigSpec) -> Vec<&'static str> {
    let podman = takes_packages(changes, new).then_some("podman");
    let own = deploys(changes).then_some(["rpm-ostree", "ostree"]);
    own.into_iter().flatten().chain(podman).collect()
}

fn status() -> Step {
    Step::new(Size::Quick, ["rpm-ostree", "status", "--json"])
}

/// The arguments of the kernel that runs. `rpm-ostree kargs` would show those of what is staged.
fn command_line() -> Step {
    Step::new(Size::Quick, ["cat", "/proc/cmdline"])
}

fn cleanup() -> Step {
    Step::new(Size::Quick, ["rpm-ostree", "cleanup", "--pending"])
}

/// `rpm-ostree finalize-deployment` would restart the node at the same moment.
fn unlock() -> Step {
    Step::new(Size::Quick, ["ostree", "admin", "lock-finalization", "--unlock"])
}

fn rollback() -> Step {
    Step::new(Size::Quick, ["rpm-ostree", "rollback"])
}

/// What is staged on top of each other, each of it locked; empty if nothing is deployed.
fn staging(changes: &Changes, new: &MachineConfigSpec) -> Vec<Step> {
    if !deploys(changes) {
        return Vec::new();
    }
    let mut steps = vec![cleanup()];
    let lock = "--lock-finalization";
    let (kernel_before, kernel) = match &changes.kernel_type {
        Some(change) => (change.old.as_str(), change.new.as_str()),
        None => (kernel(new), kernel(new)),
    };
    let kernel_moves = changes.os_image.is_some() || changes.kernel_type.is_some();
    let option = |name: &str, packages: &[&str]| packages.iter().map(|it| format!("--{name}={it}")).collect::<Vec<_>>();
    let mut run = |before: &[&str], options: &[String], last: &[&str]| {
        let options = options.iter().map(String::as_str);
        steps.push(Step::new(Size::Large, before.iter().copied().chain(options).chain(last.iter().copied())));
    };
    if kernel_moves && kernel_before != "default" {
        let uninstall = option("uninstall", &kernel_packages(kernel_before));
        run(&["rpm-ostree", "override", "reset", lock], &uninstall, &DEFAULT_KERNEL);
    }
    if let Some(image) = &changes.os_image {
        let reference = format!("ostree-unverified-registry:{}", image.new);
        run(&["rpm-ostree", "rebase", "--experimental", lock], &[], &[reference.as_str()]);
    }
    if let Some(change) = &changes.kernel_arguments {
        let wanted = kernel_arguments(&new.kernel_arguments);
        let before = wanted.iter().filter(|argument| !change.added.contains(argument)).chain(&change.removed);
        // All of them are appended anew, so that their order is that of the configuration.
        let options = before.map(|it| format!("--delete-if-present={it}"));
        let options = options.chain(wanted.iter().map(|it| format!("--append={it}"))).collect::<Vec<_>>();
        run(&["rpm-ostree", "kargs", lock], &options, &[]);
    }
    if kernel_moves && kernel != "default" {
        run(&["rpm-ostree", "override", "remove", lock], &option("install", &kernel_packages(kernel)), &DEFAULT_KERNEL);
    }
    if let Some(change) = &changes.extensions {
        let kept = packages(&new.extensions);
        let removed = packages(&change.removed).difference(&kept).copied().collect::<Vec<_>>();
        let added = packages(&change.added).into_iter().collect::<Vec<_>>();
        match added.is_empty() {
            true if removed.is_empty() => {}
            true => run(&["rpm-ostree", "uninstall", lock], &[], &removed),
            false => run(&["rpm-ostree", "install", lock], &option("uninstall", &removed), &added),
        }
    }
    steps
}

/// Puts the packages of an image where rpm-ostree finds them.
fn unpacking(image: &str, auth_file: Option<&str>) -> Vec<Step> {
    let name = format!("--name={PACKAGES_CONTAINER}");
    let from = format!("{PACKAGES_CONTAINER}:/usr/share/rpm-ostree/extensions");
    let create = ["podman", "create", "--quiet", "--replace", "--net=none", &name];
    vec![
        Step::new(Size::Quick, ["rm", "-rf", PACKAGES]),
        Step::new(Size::Large, create.into_iter().chain(auth_file).chain([image, "none"])),
        Step::new(Size::Large, ["podman", "cp", &from, PACKAGES]),
        Step::new(Size::Quick, ["podman", "rm", "--force", PACKAGES_CONTAINER]),
    ]
}

fn repository(root: &Root) -> Result<State, HostError> {
    let text = format!(
        "[coreos-extensions]\nname=coreos-extensions\nenabled=1\nmetadata_expire=1m\nbaseurl=file://{PACKAGES}\n\
         gpgcheck=0\nskip_if_unavailable=False\n"
    );
    root_file(root, &text)
}

/// ostree has credentials of its own, or uses those of the kubelet.
fn share_credentials(root: &Root) -> Result<(), HostError> {
    if root.exists(OWN_OSTREE_AUTH) || root.exists(OSTREE_AUTH) || !root.exists(KUBELET_AUTH) {
        return Ok(());
    }
    root.put(OSTREE_AUTH, &State::Link { to: KUBELET_AUTH.as_bytes().to_vec() })
}

pub(super) async fn stage(
    root: &Root,
    commands: &Commands,
    changes: &Changes,
    new: &MachineConfigSpec,
) -> Result<(), SystemError> {
    if !deploys(changes) {
        return Ok(());
    }
    share_credentials(root)?;
    let staged = deploy(root, commands, changes, new).await;
    let removed = root.put(REPOSITORY, &State::Absent);
    if takes_packages(changes, new) {
        Step::new(Size::Quick, ["rm", "-rf", PACKAGES]).attempt(commands).await;
    }
    if staged.is_err() {
        cleanup().attempt(commands).await;
    }
    staged.and(removed.map_err(SystemError::from))
}

async fn deploy(
    root: &Root,
    commands: &Commands,
    changes: &Changes,
    new: &MachineConfigSpec,
) -> Result<(), SystemError> {
    if takes_packages(changes, new) {
        for step in unpacking(&new.base_os_extensions_container_image, auth_file(root).as_deref()) {
            step.run(commands).await?;
        }
        root.put(REPOSITORY, &repository(root)?)?;
    }
    for step in staging(changes, new) {
        step.run(commands).await?;
    }
    let status: Status = status().read(commands).await?;
    match status.staged() {
        Some(staged) if !staged.finalization_locked => Err(SystemError::NotLocked),
        Some(staged) => staged.deviation(new).map_or(Ok(()), |deviation| Err(SystemError::Staged(deviation))),
        None => is_booted_already(commands, new).await,
    }
}

/// rpm-ostree stages nothing where everything is so already, as kernel arguments that somebody has added by hand.
async fn is_booted_already(commands: &Commands, new: &MachineConfigSpec) -> Result<(), SystemError> {
    match deviation(commands, new).await? {
        None => Ok(()),
        Some(deviation) => Err(SystemError::Staged(format!("nothing is staged, and {deviation}"))),
    }
}

pub(super) async fn drop_staged(commands: &Commands) -> Result<(), SystemError> {
    commands.stop_left().await;
    Ok(cleanup().run(commands).await.map(drop)?)
}

pub(super) async fn activate(
    commands: &Commands,
    changes: &Changes,
    new: &MachineConfigSpec,
) -> Result<(), SystemError> {
    if !deploys(changes) {
        return Ok(());
    }
    let found: Status = status().read(commands).await?;
    let Some(staged) = found.staged() else { return is_booted_already(commands, new).await };
    if !staged.finalization_locked {
        return Ok(());
    }
    unlock().run(commands).await?;
    let found: Status = status().read(commands).await?;
    match found.staged() {
        Some(staged) if !staged.finalization_locked => Ok(()),
        Some(_) => Err(SystemError::StillLocked),
        None => Err(SystemError::Staged("it is gone since it was released".to_owned())),
    }
}

pub(super) async fn give_back(
    commands: &Commands,
    changes: &Changes,
    new: &MachineConfigSpec,
    restarted: bool,
) -> Result<bool, SystemError> {
    if !deploys(changes) {
        return Ok(false);
    }
    let found: Status = status().read(commands).await?;
    let is_new = restarted && meets(commands, found.booted()?, changes, new).await?;
    let step = match found.deployments.first() {
        // A second call would take it back.
        Some(first) if is_new => first.booted.then(rollback),
        _ => Some(cleanup()),
    };
    if let Some(step) = step {
        step.run(commands).await?;
    }
    Ok(is_new)
}

/// Whether what is booted is what the changes lead to, and not what was there before.
async fn meets(
    commands: &Commands,
    booted: &Deployment,
    changes: &Changes,
    new: &MachineConfigSpec,
) -> Result<bool, SystemError> {
    let arguments = kernel_arguments(&[command_line().run(commands).await?]);
    let as_changed = changes.kernel_arguments.as_ref().is_none_or(|change| {
        let wanted = kernel_arguments(&new.kernel_arguments);
        change.added.iter().all(|argument| arguments.contains(argument))
            && change.removed.iter().all(|argument| wanted.contains(argument) || !arguments.contains(argument))
    });
    Ok(as_changed && booted.deviation(new).is_none())
}

pub(super) async fn deviation(commands: &Commands, config: &MachineConfigSpec) -> Result<Option<String>, SystemError> {
    if asks_for_deployment(config) {
        let found: Status = status().read(commands).await?;
        if let Some(deviation) = found.booted()?.deviation(config) {
            return Ok(Some(deviation));
        }
    }
    let missing = missing_arguments(commands, config).await?.into_iter().next();
    Ok(missing.map(|argument| format!("the kernel was booted without the argument {argument}, which should be there")))
}

pub(super) async fn repairs(commands: &Commands, config: &MachineConfigSpec) -> Result<Repairs, SystemError> {
    let arguments = missing_arguments(commands, config).await?;
    let mut repairs = Repairs { kernel_arguments: arguments, ..Repairs::default() };
    if asks_for_deployment(config) {
        let found: Status = status().read(commands).await?;
        let (booted, wanted) = (found.booted()?, &config.os_image_url);
        repairs.image = (!wanted.is_empty() && !booted.is(wanted)).then(|| booted.name());
        repairs.kernel = kernel_packages(kernel(config)).iter().any(|name| !booted.has_package(name));
        let lacks = |extension: &&String| {
            packages(std::slice::from_ref(*extension)).iter().any(|name| !booted.has_package(name))
        };
        repairs.extensions = config.extensions.iter().filter(lacks).cloned().collect();
    }
    Ok(repairs)
}

fn asks_for_deployment(config: &MachineConfigSpec) -> bool {
    !config.os_image_url.is_empty() || !config.extensions.is_empty() || kernel(config) != "default"
}

/// What the kernel that runs was booted without.
async fn missing_arguments(commands: &Commands, config: &MachineConfigSpec) -> Result<Vec<String>, SystemError> {
    let wanted = kernel_arguments(&config.kernel_arguments);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let found = kernel_arguments(&[command_line().run(commands).await?]);
    Ok(wanted.into_iter().filter(|argument| !found.contains(argument)).collect())
}

#[cfg(test)]
mod tests;
