//! What changes on nodes that have one configuration and get another one, and what that disrupts.

use crate::machine_config::api::machine_config::MachineConfig;
use crate::machine_config::changes::{Changes, FileChange, ListChange, UnitChange, changes};
use crate::machine_config::disruption::{Action, disruption_on};
use crate::machine_config::ignition::Owner;
use crate::machine_config::reconcile;
use crate::machine_config::render::{Rendered, name};
use crate::machine_config::rollout::PoolFacts;
use crate::machine_config::settings::Settings;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Transition {
    /// The rendered MachineConfig that nodes have.
    pub from: String,
    /// Which nodes: by name.
    pub nodes: Vec<String>,
    pub changes: Vec<ChangeLine>,
    /// Pods leave the node before it is changed.
    pub drains: bool,
    /// The node is restarted.
    pub reboots: bool,
    /// What is done with services instead, in this order.
    pub actions: Vec<String>,
    /// Why these nodes cannot follow.
    pub error: Option<String>,
    /// The operating system, the kernel or packages change.
    #[serde(skip)]
    pub changes_system: bool,
}

/// Something that changes, and what follows from that.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ChangeLine {
    /// Such as `file /etc/motd`.
    pub what: String,
    /// Such as `added, 12 bytes, mode 644`. Contents may be secret, and are never shown.
    pub how: String,
    /// Such as `Reboot` or `Restart crio.service`.
    pub follows: Vec<String>,
}

/// Services that nodes lack, by the nodes.
pub(super) type Lacking = BTreeMap<String, BTreeSet<String>>;

/// Once for each configuration that nodes of the pool have, and for what else makes a difference of them; the pool's own comes first, also
/// without nodes.
pub(super) fn transitions(
    from: &str,
    pool: &PoolFacts,
    to: &Rendered,
    (configs, lacking): (&[MachineConfig], &Lacking),
    settings: &Settings,
) -> Vec<Transition> {
    let none = BTreeSet::new();
    let mut groups: BTreeMap<(&str, &BTreeSet<String>), Vec<String>> = BTreeMap::new();
    for node in pool.nodes.iter().filter(|node| node.is_managed() && node.current != pool.target) {
        let lacks = lacking.get(&node.name).unwrap_or(&none);
        groups.entry((node.current.config.as_str(), lacks)).or_default().push(node.name.clone());
    }
    if groups.is_empty() && !from.is_empty() {
        groups.insert((from, &none), Vec::new());
    }
    let (own, others): (Vec<_>, Vec<_>) = groups.into_iter().partition(|((config, _), _)| *config == from);
    let mut found: Vec<(Transition, Vec<String>)> = Vec::new();
    for ((from, lacks), nodes) in own.into_iter().chain(others) {
        let next = transition(from, to, (configs, lacks), settings);
        // What nodes lack matters for few changes.
        match found.iter_mut().find(|(known, _)| *known == next) {
            Some((_, known)) => known.extend(nodes),
            None => found.push((next, nodes)),
        }
    }
    let with_nodes = |(transition, mut nodes): (Transition, Vec<String>)| {
        nodes.sort_unstable();
        Transition { nodes, ..transition }
    };
    found.into_iter().map(with_nodes).collect()
}

/// Those of these services that the configuration does not bring either.
fn still_lacking(lacking: &BTreeSet<String>, to: &Rendered) -> BTreeSet<String> {
    let units = to.spec.config.pointer("/systemd/units").and_then(Value::as_array);
    let text = |unit: &Value, field: &str| unit.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let brings = |name: &str| {
        let mut units = units.into_iter().flatten();
        units.any(|unit| text(unit, "name") == name && !text(unit, "contents").is_empty())
    };
    lacking.iter().filter(|name| !brings(name)).cloned().collect()
}

fn transition(
    from: &str,
    to: &Rendered,
    (configs, lacking): (&[MachineConfig], &BTreeSet<String>),
    settings: &Settings,
) -> Transition {
    let failed = |error: String| Transition { from: from.to_owned(), error: Some(error), ..Transition::default() };
    let Some(old) = configs.iter().find(|config| name(config) == from) else {
        return failed(format!(
            "MachineConfig {from} does not exist any more, so that what changes is not known; a node tells in its \
             annotations whether it can follow"
        ));
    };
    let inputs = [to.object()];
    let check = reconcile::check((from, &old.spec), (&to.name, &to.spec), &inputs, &settings.overrides);
    if let Err(error) = check {
        return failed(error.to_string());
    }
    let changes = match changes(&old.spec, &to.spec) {
        Ok(changes) => changes,
        Err(error) => return failed(error.to_string()),
    };
    let disruption = disruption_on(&still_lacking(lacking, to), &changes, &settings.policies, false);
    let how = how(&changes);
    let line = |(what, actions): &(String, Vec<Action>)| ChangeLine {
        what: what.clone(),
        how: how.get(what).cloned().unwrap_or_else(|| "changed".to_owned()),
        follows: actions.iter().filter(|action| **action != Action::None).map(Action::to_string).collect(),
    };
    Transition {
        from: from.to_owned(),
        nodes: Vec::new(),
        changes: disruption.causes.iter().map(line).collect(),
        drains: disruption.drains,
        reboots: disruption.reboots,
        actions: disruption.actions.iter().map(Action::to_string).collect(),
        error: None,
        changes_system: changes.os_image.is_some()
            || changes.kernel_arguments.is_some()
            || changes.kernel_type.is_some()
            || changes.extensions.is_some()
            || changes.extensions_image.is_some(),
    }
}

/// How each thing changes, by the words that [`disruption_on`] has for it.
fn how(changes: &Changes) -> BTreeMap<String, String> {
    let files = changes.files.iter().map(|change| (format!("file {}", change.path), file(change)));
    let links = changes.links_removed.iter().map(|path| (format!("link {path}"), "removed".to_owned()));
    let units = changes.units.iter().map(|change| (format!("unit {}", change.name), unit(change)));
    let arrow = |old: &str, new: &str| {
        let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { text.to_owned() };
        format!("{} → {}", or_none(old), or_none(new))
    };
    let os = changes.os_image.as_ref().map(|it| arrow(&it.old, &it.new));
    let image = changes.extensions_image.as_ref().map(|it| arrow(&it.old, &it.new));
    let kernel = changes.kernel_type.as_ref().map(|it| arrow(&it.old, &it.new));
    let fips = changes.fips.as_ref().map(|it| format!("{} → {}", it.old, it.new));
    let keys = changes.ssh_keys.as_ref().map(|it| format!("{} → {}", it.old.len(), it.new.len()));
    let single = [
        ("the operating system", os),
        ("the extensions image", image),
        ("kernel arguments", changes.kernel_arguments.as_ref().map(list)),
        ("FIPS mode", fips),
        ("the kernel type", kernel),
        ("extensions", changes.extensions.as_ref().map(list)),
        ("SSH keys", keys),
    ];
    let single = single.into_iter().filter_map(|(what, how)| Some((what.to_owned(), how?)));
    files.chain(links).chain(units).chain(single).collect()
}

fn file(change: &FileChange) -> String {
    match (&change.old, &change.new) {
        (_, None) => "removed".to_owned(),
        (None, Some(new)) => format!("added, {} bytes, mode {:o}", new.contents.len(), new.mode),
        (Some(old), Some(new)) => {
            let owner =
                |owner: &Owner| owner.name.clone().or_else(|| owner.id.map(|id| id.to_string())).unwrap_or_default();
            let contents = (old.contents != new.contents)
                .then(|| format!("{} → {} bytes", old.contents.len(), new.contents.len()));
            let mode = (old.mode != new.mode).then(|| format!("mode {:o} → {:o}", old.mode, new.mode));
            let user = (old.user != new.user).then(|| format!("user {} → {}", owner(&old.user), owner(&new.user)));
            let group =
                (old.group != new.group).then(|| format!("group {} → {}", owner(&old.group), owner(&new.group)));
            Vec::from_iter([contents, mode, user, group].into_iter().flatten()).join(", ")
        }
    }
}

fn unit(change: &UnitChange) -> String {
    let how = match (&change.old, &change.new) {
        (None, _) => "added",
        (_, None) => "removed",
        _ => "changed",
    };
    let enabled = change.new.as_ref().and_then(|unit| unit.enabled).filter(|_| change.enablement_changes());
    match enabled {
        Some(true) => format!("{how}, enabled"),
        Some(false) => format!("{how}, disabled"),
        None => how.to_owned(),
    }
}

fn list(change: &ListChange) -> String {
    let removed = change.removed.iter().map(|item| format!("-{item}"));
    let all: Vec<String> = removed.chain(change.added.iter().map(|item| format!("+{item}"))).collect();
    if all.is_empty() { "in another order".to_owned() } else { all.join(" ") }
}
