//! The flags that say what a cluster is like, for commands that show who of a release takes part there.

use crate::api::cluster_version::CapabilitiesSpec;
use crate::payload::Manifest;
use crate::payload::capability::{self, Capabilities, DEFAULT_BASELINE, Wish};
use crate::payload::filter::{self, ApplyFilter, DEFAULT_PROFILE, Filter};
use clap::{ArgMatches, Args};
use std::collections::BTreeSet;

/// The set that holds nothing.
const NO_CAPABILITY: &str = "None";
const INCLUDE: &str = "include.release.openshift.io/";

/// What the cluster is like that a release is looked at for (payload-and-apply §2).
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "The cluster")]
pub struct FilterArgs {
    /// Cluster profile: only manifests with include.release.openshift.io/PROFILE=true take part
    #[arg(long, env = "CLUSTER_PROFILE", value_name = "PROFILE", default_value = DEFAULT_PROFILE)]
    pub profile: String,
    /// Feature set
    #[arg(long, value_name = "SET", default_value = filter::DEFAULT_FEATURE_SET, value_parser = filter::FEATURE_SETS)]
    pub feature_set: String,
    /// Feature gates that are enabled, separated by commas; no other one is
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub feature_gates: Vec<String>,
    /// Capabilities that are enabled, separated by commas; no other one is. Among them may be one set (None, v4.11 to
    /// v4.18, vCurrent) for all its members. Without this flag capabilities leave nothing out
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = capability_or_set)]
    pub capabilities: Option<Vec<String>>,
    /// Leave out what has exclude.release.openshift.io/ID=true
    #[arg(long, env = "EXCLUDE_MANIFESTS", value_name = "ID")]
    pub exclude_manifests: Option<String>,
}

impl FilterArgs {
    /// All that the cluster filters by. `major` is that of the release, if it is known.
    pub fn apply_filter(&self, major: Option<u64>) -> ApplyFilter {
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

    /// The filter of loading alone.
    pub fn filter(&self, major: Option<u64>) -> Filter {
        self.apply_filter(major).load
    }

    /// The enabled capabilities; `None` without the flag.
    pub fn enabled_capabilities(&self) -> Option<BTreeSet<String>> {
        self.apply_filter(None).capabilities.map(|capabilities| capabilities.enabled)
    }

    /// Warnings about given names that mean nothing to this program and to the release.
    pub fn unknown_capabilities<'a>(&self, release: impl IntoIterator<Item = &'a Manifest>) -> Vec<String> {
        let Some(given) = &self.capabilities else { return Vec::new() };
        let mut known = capability::names();
        known.extend(release.into_iter().flat_map(filter::required_capabilities));
        let unknown = words(given).into_iter().filter(|word| !is_set(word) && !known.contains(word.as_str()));
        let told = |word: String| {
            let meant = known.iter().find(|name| name.eq_ignore_ascii_case(&word));
            let meant = meant.map(|name| format!("; there is {name}")).unwrap_or_default();
            format!(
                "--capabilities {word}: neither this program nor a manifest of the release knows that capability{meant}"
            )
        };
        unknown.map(told).collect()
    }
}

/// What is wrong with these flags together, if anything is.
pub fn misuse(matches: &ArgMatches) -> Option<String> {
    let given = matches.get_many::<String>("capabilities").unwrap_or_default();
    let sets: BTreeSet<&str> = given.map(|word| word.trim()).filter(|word| is_set(word)).collect();
    let several = sets.len() > 1;
    several.then(|| {
        format!(
            "--capabilities takes one set, and {} are given: a cluster has one baseline. Give the largest of them; those \
             that are known are {}",
            sets.into_iter().collect::<Vec<_>>().join(", "),
            known_sets()
        )
    })
}

/// Says that nothing takes part, and which profiles there are; for a cluster with that profile.
pub fn nothing_takes_part<'a>(profile: &str, release: impl IntoIterator<Item = &'a Manifest>) -> String {
    let marked = release.into_iter().flat_map(|manifest| &manifest.annotations).filter(|(_, value)| *value == "true");
    let profiles: BTreeSet<&str> = marked.filter_map(|(key, _)| key.strip_prefix(INCLUDE)).collect();
    let way_out = match (profiles.is_empty(), profiles.contains(profile)) {
        (true, _) => format!("no manifest has an annotation {INCLUDE}PROFILE=true, so none does anywhere"),
        (_, true) => "cvo payload list says of each manifest why".to_owned(),
        (_, false) => format!(
            "its manifests are for {}; give one of these with --profile",
            profiles.into_iter().collect::<Vec<_>>().join(", ")
        ),
    };
    format!("nothing of the release takes part for the cluster profile {profile:?}: {way_out}")
}

/// A word of `--capabilities`: refused if it looks like a set that nobody knows.
fn capability_or_set(word: &str) -> Result<String, String> {
    let word = word.trim();
    let like_a_set = word.strip_prefix(['v', 'V']).is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        || [NO_CAPABILITY, DEFAULT_BASELINE].iter().any(|set| set.eq_ignore_ascii_case(word));
    if like_a_set && !is_set(word) {
        return Err(format!("no such set is known; those that are known are {}", known_sets()));
    }
    Ok(word.to_owned())
}

fn known_sets() -> String {
    capability::baselines().collect::<Vec<_>>().join(", ")
}

fn is_set(word: &str) -> bool {
    capability::baselines().any(|set| set == word)
}

/// Names that are given count as known even where this program does not know them: a release made later may.
fn enabled(words: BTreeSet<String>, gates: &BTreeSet<String>) -> Capabilities {
    let (sets, names): (Vec<String>, Vec<String>) = words.into_iter().partition(|word| is_set(word));
    let set = sets.into_iter().next().unwrap_or_else(|| NO_CAPABILITY.to_owned());
    let spec = CapabilitiesSpec { baseline_capability_set: set, additional_enabled_capabilities: names };
    let nothing = BTreeSet::new();
    let mut capabilities = Capabilities::of(&Wish { spec: &spec, before: &nothing, always: &nothing, gates });
    capabilities.known.extend(capabilities.enabled.iter().cloned());
    capabilities
}

fn words(list: &[String]) -> BTreeSet<String> {
    list.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests;
