//! The flags that say what a cluster is like, for commands that show who of a release takes part there.

use crate::payload::filter::{self, Filter};
use crate::payload::{Capabilities, DEFAULT_PROFILE, Manifest};
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
    /// Capabilities that are enabled, separated by commas; no other one is (empty: none). Without this flag capabilities
    /// leave nothing out
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pub capabilities: Option<Vec<String>>,
    /// Leave out what has exclude.release.openshift.io/ID=true
    #[arg(long, env = "EXCLUDE_MANIFESTS", value_name = "ID")]
    pub exclude_manifests: Option<String>,
}

impl FilterArgs {
    /// The filter of loading. `major` is that of the release, if it is known.
    pub fn filter(&self, major: Option<u64>) -> Filter {
        Filter {
            exclude_identifier: self.exclude_manifests.clone(),
            feature_set: Some(self.feature_set.clone()),
            feature_gates: Some(words(&self.feature_gates)),
            major,
            profile: Some(self.profile.clone()),
        }
    }

    /// The enabled capabilities; `None` without the flag.
    pub fn enabled_capabilities(&self) -> Option<BTreeSet<String>> {
        Some(words(self.capabilities.as_ref()?))
    }

    /// Why capabilities leave a manifest out, if they do (§2.7).
    pub fn without_capability(&self, manifest: &Manifest) -> Option<String> {
        let enabled = self.enabled_capabilities()?;
        let known = enabled.iter().map(String::as_str).chain(filter::required_capabilities(manifest));
        let known = known.map(str::to_owned).collect();
        Capabilities { known, enabled, ..Capabilities::default() }.check(manifest).err()
    }
}

fn words(list: &[String]) -> BTreeSet<String> {
    list.iter().map(|word| word.trim()).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}
