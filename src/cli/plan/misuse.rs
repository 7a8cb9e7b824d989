//! Flags of `cvo plan` that contradict each other or would have no effect.

use super::{CLUSTER, Output};
use crate::cli::filters;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::path::Path;

/// Flags that have an effect in only one of the two ways to plan: name in the program, and on the command line.
type Flags = &'static [(&'static str, &'static str)];

/// Flags about the cluster.
const OF_CLUSTER: Flags =
    &[("running", "--running"), ("kubeconfig", "--kubeconfig"), ("user", "--as"), ("name", "--name")];
/// Flags about settings that are otherwise read from the cluster. The other two filter flags are used with a cluster whose
/// Deployment cannot be read.
const OF_RELEASES: Flags = &[
    ("feature_set", "--feature-set"),
    ("feature_gates", "--feature-gates"),
    ("capabilities", "--capabilities"),
    ("from_image", "--from-image"),
];

/// What is wrong with a combination of flags that are valid one by one.
pub(crate) fn misuse(given: &ArgMatches) -> Option<String> {
    let text = |name: &str| given.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let (from, to) = (text("from"), text("to"));
    if to == CLUSTER {
        return Some("--to must name a release, as a folder or an image; only --from may be a cluster".into());
    }
    let on_the_line = |name: &str| given.value_source(name) == Some(ValueSource::CommandLine);
    let never_counts = if from == CLUSTER { OF_RELEASES } else { OF_CLUSTER };
    if let Some((_, flag)) = never_counts.iter().find(|(name, _)| on_the_line(name)) {
        return Some(if from == CLUSTER {
            format!(
                "{flag} has no effect with --from {CLUSTER}, where it is read from the cluster; use it with --from DIR or IMAGE"
            )
        } else {
            format!("{flag} has an effect only with --from {CLUSTER}: with --from {from} no cluster is read")
        });
    }
    for (name, flag, place) in [("from_image", "--from", from), ("to_image", "--to", to)] {
        if on_the_line(name) && !Path::new(place).is_dir() {
            return Some(format!(
                "{flag}-image is for a folder in {flag}, whose pull spec is not known otherwise; {place} is not a folder"
            ));
        }
    }
    if given.get_flag("all") && given.get_one("output") != Some(&Output::Text) {
        return Some("--all has an effect only with -o text: the other formats are always complete".to_owned());
    }
    if given.get_flag("values") && given.get_one("output") == Some(&Output::Dot) {
        return Some("--values has no effect with -o dot, which shows no fields".to_owned());
    }
    filters::misuse(given)
}
