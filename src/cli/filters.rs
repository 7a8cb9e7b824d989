//! Flags that describe a cluster, for commands that show which manifests of a release it includes.

use super::layout::clean;
use crate::object::manifest::Manifest;
use crate::release::api::CapabilitiesSpec;
use crate::release::capability;
use crate::release::capability::{Capabilities, CapabilityInputs, DEFAULT_BASELINE};
use crate::release::filter;
use crate::release::filter::{ApplyFilter, DEFAULT_PROFILE, Filter};
use crate::release::{Payload, Selection};
use anyhow::ensure;
use clap::{ArgMatches, Args};
use std::collections::BTreeSet;

/// The capability set without members.
const NO_CAPABILITY: &str = "None";
const INCLUDE: &str = "include.release.openshift.io/";

/// What decides in a cluster which manifests are included.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The cluster")]
pub(crate) struct FilterArgs {
    /// Cluster profile: only manifests with include.release.openshift.io/PROFILE=true are included
    #[arg(long, env = "CLUSTER_PROFILE", value_name = "PROFILE", default_value = DEFAULT_PROFILE)]
    pub profile: String,
    /// Feature set
    #[arg(long, value_name = "SET", default_value = filter::DEFAULT_FEATURE_SET, value_parser = filter::FEATURE_SETS)]
    pub feature_set: String,
    /// Enabled feature gates, separated by commas; all others are disabled
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Enabled capabilities, separated by commas; all others are disabled. One of them may be a set (None, v4.11 to v4.18,
    /// vCurrent), which stands for its members. Without this flag no manifest is excluded by capability
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = capability_or_set)]
    pub capabilities: Option<Vec<String>>,
    /// Exclude manifests with exclude.release.openshift.io/ID=true for one of these IDs, separated by commas
    #[arg(long, env = "EXCLUDE_MANIFESTS", value_name = "IDS")]
    pub exclude_manifests: Option<String>,
}

impl Default for FilterArgs {
    fn default() -> Self {
        FilterArgs {
            profile: DEFAULT_PROFILE.to_owned(),
            feature_set: filter::DEFAULT_FEATURE_SET.to_owned(),
            feature_gates: Vec::new(),
            capabilities: None,
            exclude_manifests: None,
        }
    }
}

impl FilterArgs {
    /// All filters of the cluster. `major`: the major version of the release, if it is known.
    pub(crate) fn apply_filter(&self, major: Option<u64>) -> ApplyFilter {
        let gates = words(&self.feature_gates);
        ApplyFilter {
            capabilities: self.capabilities.as_ref().map(|list| enabled(words(list), &gates)),
            overrides: Vec::new(),
            load: Filter {
                exclude_identifier: self.exclude_manifests.clone(),
                feature_set: Some(self.feature_set.clone()),
                feature_gates: Some(gates),
                major,
                profile: Some(self.profile.clone()),
            },
        }
    }

    /// Only the filter for loading.
    pub(crate) fn filter(&self, major: Option<u64>) -> Filter {
        self.apply_filter(major).load
    }

    /// Warnings about names that neither this program nor the release knows.
    pub(crate) fn unknown_capabilities<'a>(&self, release: impl IntoIterator<Item = &'a Manifest>) -> Vec<String> {
        let Some(given) = &self.capabilities else { return Vec::new() };
        let mut known = capability::names();
        known.extend(release.into_iter().flat_map(Manifest::required_capabilities));
        let unknown = words(given).into_iter().filter(|word| !is_set(word) && !known.contains(word.as_str()));
        let warning = |word: String| {
            let meant = known.iter().find(|name| name.eq_ignore_ascii_case(&word));
            let meant = meant.map(|name| format!("; did you mean {name}?")).unwrap_or_default();
            format!(
                "--capabilities {word}: neither this program nor any manifest of the release knows this capability{meant}"
            )
        };
        unknown.map(warning).collect()
    }
}

/// What is wrong with the combination of these flags, if anything.
pub(crate) fn misuse(matches: &ArgMatches) -> Option<String> {
    let given = matches.get_many::<String>("capabilities").unwrap_or_default();
    let sets: BTreeSet<&str> = given.map(|word| word.trim()).filter(|word| is_set(word)).collect();
    let several = sets.len() > 1;
    several.then(|| {
        format!(
            "--capabilities takes one set, because a cluster has one baseline, but {} are given: give the largest of them. Known \
             sets: {}",
            sets.into_iter().collect::<Vec<_>>().join(", "),
            known_sets()
        )
    })
}

/// Nothing would be shown otherwise, as if there were nothing to do.
pub(crate) fn ensure_some_included(selection: &Selection, to: &Payload, filter: &ApplyFilter) -> anyhow::Result<()> {
    let profile = filter.load.profile.as_deref().unwrap_or_default();
    let nothing = || nothing_included(profile, to.all_manifests().into_iter().map(|manifest| &**manifest));
    ensure!(!selection.manifests.is_empty(), "{}", clean(&nothing()));
    Ok(())
}

/// The message that a cluster with this profile excludes every manifest, with the profiles that the release has.
pub(crate) fn nothing_included<'a>(profile: &str, release: impl IntoIterator<Item = &'a Manifest>) -> String {
    let marked = release.into_iter().flat_map(|manifest| &manifest.annotations).filter(|(_, value)| *value == "true");
    let profiles: BTreeSet<&str> = marked.filter_map(|(key, _)| key.strip_prefix(INCLUDE)).collect();
    let hint = match (profiles.is_empty(), profiles.contains(profile)) {
        (true, _) => format!("no manifest has an annotation {INCLUDE}PROFILE=true, so every cluster excludes them all"),
        (_, true) => "`cvo payload list` says why for each manifest".to_owned(),
        (_, false) => format!(
            "its manifests are for {}; give one of these with --profile",
            profiles.into_iter().collect::<Vec<_>>().join(", ")
        ),
    };
    format!("every manifest of the release is excluded for the cluster profile {profile:?}: {hint}")
}

/// A word of `--capabilities`: refused if it looks like a set but is unknown.
fn capability_or_set(word: &str) -> Result<String, String> {
    let word = word.trim();
    let like_a_set = word.strip_prefix(['v', 'V']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || [NO_CAPABILITY, DEFAULT_BASELINE].iter().any(|set| set.eq_ignore_ascii_case(word));
    if like_a_set && !is_set(word) {
        return Err(format!("this set is unknown; known sets: {}", known_sets()));
    }
    Ok(word.to_owned())
}

fn known_sets() -> String {
    capability::baselines().collect::<Vec<_>>().join(", ")
}

fn is_set(word: &str) -> bool {
    capability::baselines().any(|set| set == word)
}

/// Given names count as known even if this program does not know them: a newer release may define them.
fn enabled(words: BTreeSet<String>, gates: &BTreeSet<String>) -> Capabilities {
    let (sets, names): (Vec<String>, Vec<String>) = words.into_iter().partition(|word| is_set(word));
    let set = sets.into_iter().next().unwrap_or_else(|| NO_CAPABILITY.to_owned());
    let spec = CapabilitiesSpec { baseline_capability_set: set, additional_enabled_capabilities: names };
    let nothing = BTreeSet::new();
    let mut capabilities =
        Capabilities::of(&CapabilityInputs { spec: &spec, before: &nothing, always: &nothing, gates });
    capabilities.known.extend(capabilities.enabled.iter().cloned());
    capabilities
}

fn words(list: &[String]) -> BTreeSet<String> {
    list.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
