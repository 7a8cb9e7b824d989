//! The operators that were installed on a cluster, which are not those of its release: how many there are, which need somebody, and which
//! stand in the way of updates of the cluster. `cvo olm status` says all of each.

use crate::cli::layout::{Colour, Page, clean, line, next_step, paragraph};
use crate::cluster_version::api::{ClusterVersion, HistoryState};
use crate::olm::cli::status::{Objects, Row};
use crate::olm::fits::{PlannedOperator, in_the_way, next_minor};
use crate::version::parse_tolerant;
use serde::Serialize;

/// Operators of a kind that are named in text; JSON has all.
const SHOWN: usize = 5;

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstalledOperators {
    pub installed: usize,
    /// Those of them that work, and of which nothing has to be mended.
    pub well: usize,
    /// Those of which somebody has to mend something, or may approve a plan.
    pub to_do: Vec<ToDo>,
    /// Those that do not support a version which the cluster may be updated to.
    pub in_the_way: Vec<PlannedOperator>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ToDo {
    pub namespace: String,
    pub name: String,
    pub what_to_do: String,
    /// Something is wrong.
    pub needs_somebody: bool,
}

impl InstalledOperators {
    /// `None`: there are none. `rows`: what the objects say.
    pub(super) fn of(rows: &[Row], objects: &Objects, version: Option<&ClusterVersion>) -> Option<InstalledOperators> {
        if rows.is_empty() {
            return None;
        }
        let to_do = |row: &Row| ToDo {
            namespace: row.namespace.clone(),
            name: row.name.clone(),
            what_to_do: row.what_to_do.clone(),
            needs_somebody: row.needs_somebody,
        };
        let (mut in_the_way, waiting) = (held(objects, version), rows.iter().filter(|row| row.waits_for_approval()));
        for row in waiting {
            let same = |it: &&mut PlannedOperator| (&it.namespace, &it.subscription) == (&row.namespace, &row.name);
            if let (Some(held), Some(next)) = (in_the_way.iter_mut().find(same), &row.next) {
                held.help = format!("{}, and {} is what its plan installs", held.help, next.name);
            }
        }
        Some(InstalledOperators {
            installed: rows.iter().filter(|row| row.installed.is_some()).count(),
            well: rows.iter().filter(|row| row.is_well()).count(),
            to_do: rows.iter().filter(|row| row.needs_somebody || row.waits_for_approval()).map(to_do).collect(),
            in_the_way,
        })
    }
}

/// Those that do not support the next minor version, the release that is asked for, or one that is offered.
fn held(objects: &Objects, version: Option<&ClusterVersion>) -> Vec<PlannedOperator> {
    let status = version.and_then(|version| version.status.as_ref());
    let Some((version, status)) = version.zip(status) else { return Vec::new() };
    let completed = status.history.iter().find(|entry| entry.state == HistoryState::Completed);
    let Some(runs) = completed.map(|entry| entry.version.as_str()) else { return Vec::new() };
    let offered =
        status.available_updates.iter().flatten().chain(status.conditional_updates.iter().map(|it| &it.release));
    let wanted = version.spec.desired_update.iter().map(|update| &update.version);
    let all = wanted.chain([&status.desired.version]).chain(offered.map(|release| &release.version));
    let all = next_minor(runs).into_iter().chain(all.cloned());
    let mut releases: Vec<_> = all.filter_map(|text| Some((parse_tolerant(&text).ok()?, text))).collect();
    releases.sort();
    let releases: Vec<String> = releases.into_iter().map(|(_, text)| text).collect();
    in_the_way(runs, &releases, &objects.versions, &objects.subscriptions)
}

/// A sentence for each that is told of, and what to do where that is not said in it.
type Said<'a> = (String, Colour, &'a str);

fn counted(operators: &InstalledOperators) -> Said<'_> {
    let InstalledOperators { installed, well, .. } = operators;
    let colour = if well == installed { Colour::Good } else { Colour::Busy };
    (format!("{installed} installed, {well} of them well"), colour, "")
}

fn to_do(it: &ToDo) -> Said<'_> {
    let colour = if it.needs_somebody { Colour::Bad } else { Colour::Busy };
    (format!("{}/{}: {}", it.namespace, it.name, it.what_to_do), colour, "")
}

fn held_by(it: &PlannedOperator) -> Said<'_> {
    let why = it.hindrances.join("; ");
    (format!("{}/{} stands in the way of updates: {why}", it.namespace, it.name), Colour::Busy, &it.help)
}

pub(super) fn write(operators: &InstalledOperators, page: &Page, out: &mut String) {
    line(page, out, "\nInstalled operators", Colour::Strong);
    let InstalledOperators { to_do: all_to_do, in_the_way, .. } = operators;
    let shown = all_to_do.iter().take(SHOWN).map(to_do).chain(in_the_way.iter().take(SHOWN).map(held_by));
    for (text, colour, step) in std::iter::once(counted(operators)).chain(shown) {
        paragraph(page, out, "  ", &clean(&text), colour);
        next_step(step, page, out);
    }
    let more = all_to_do.len().saturating_sub(SHOWN) + in_the_way.len().saturating_sub(SHOWN);
    if more > 0 {
        line(page, out, &format!("  and {more} more: cvo olm status, cvo status -o json"), Colour::Faint);
    }
}

/// What is told now and was not before, a line each.
pub(super) fn changes(before: Option<&InstalledOperators>, after: Option<&InstalledOperators>) -> Vec<String> {
    let lines = |operators: Option<&InstalledOperators>| -> Vec<String> {
        let Some(operators) = operators else { return Vec::new() };
        let all = operators.to_do.iter().map(to_do).chain(operators.in_the_way.iter().map(held_by));
        let all = std::iter::once(counted(operators)).chain(all);
        all.map(|(text, ..)| format!("installed operators: {}", clean(&text))).collect()
    };
    let known = lines(before);
    let gone = before.filter(|_| after.is_none()).map(|_| "installed operators: none any more".to_owned());
    lines(after).into_iter().filter(|line| !known.contains(line)).chain(gone).collect()
}

#[cfg(test)]
mod tests;
