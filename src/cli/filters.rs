//! The flags that say what a cluster is like, for commands that show who of a release takes part there.

use crate::api::cluster_version::CapabilitiesSpec;
use crate::payload::capability::{Capabilities, DEFAULT_BASELINE, Wish};
use crate::payload::filter::{self, ApplyFilter, DEFAULT_PROFILE, Filter};
use clap::Args;
use std::collections::BTreeSet;

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
    /// Capabilities that are enabled, separated by commas; no other one is. Among them may be a set (None, v4.11 to v4.18,
    /// vCurrent) for all its members. Without this flag capabilities leave nothing out
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
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
}

/// Names that are given count as known even where this program does not know them: a release made later may.
fn enabled(words: BTreeSet<String>, gates: &BTreeSet<String>) -> Capabilities {
    let is_set = |word: &String| word == "None" || word == DEFAULT_BASELINE || word.starts_with("v4.");
    let (sets, names): (Vec<String>, Vec<String>) = words.into_iter().partition(is_set);
    let set = sets.into_iter().next_back().unwrap_or_else(|| "None".to_owned());
    let spec = CapabilitiesSpec { baseline_capability_set: set, additional_enabled_capabilities: names };
    let nothing = BTreeSet::new();
    let mut capabilities = Capabilities::of(&Wish { spec: &spec, before: &nothing, always: &nothing, gates });
    capabilities.known.extend(capabilities.enabled.iter().cloned());
    capabilities
}

fn words(list: &[String]) -> BTreeSet<String> {
    list.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
