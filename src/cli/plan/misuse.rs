//! Flags of `cvo plan` that contradict each other, or that would never count.

use super::{CLUSTER, Output};
use crate::cli::filters;
use crate::net::registry::parse_reference;
use clap::ArgMatches;
use clap::parser::ValueSource;
use std::path::Path;

/// Flags that count in one of the two ways to plan only: name in the program, and on the command line.
type Flags = &'static [(&'static str, &'static str)];

/// Of the cluster that is asked.
const OF_CLUSTER: Flags =
    &[("running", "--running"), ("kubeconfig", "--kubeconfig"), ("user", "--as"), ("name", "--name")];
/// Which a cluster says itself. The two others of who takes part stand in where its Deployment cannot be read.
const OF_RELEASES: Flags = &[
    ("feature_set", "--feature-set"),
    ("feature_gates", "--feature-gates"),
    ("capabilities", "--capabilities"),
    ("from_image", "--from-image"),
];

/// A pull spec as it was given, if it is one.
pub fn pull_spec(given: &str) -> Result<String, String> {
    parse_reference(given).map(|_| given.to_owned()).map_err(|error| error.to_string())
}

/// What is wrong with flags that are right one by one.
pub fn misuse(given: &ArgMatches) -> Option<String> {
    let text = |name: &str| given.get_one::<String>(name).map(String::as_str).unwrap_or_default();
    let (from, to) = (text("from"), text("to"));
    if to == CLUSTER {
        return Some(
            "--to must name a release, a folder or an image; a cluster is only what an update starts from".into(),
        );
    }
    let on_the_line = |name: &str| given.value_source(name) == Some(ValueSource::CommandLine);
    let never_counts = if from == CLUSTER { OF_RELEASES } else { OF_CLUSTER };
    if let Some((_, flag)) = never_counts.iter().find(|(name, _)| on_the_line(name)) {
        return Some(if from == CLUSTER {
            format!(
                "{flag} cannot go with --from {CLUSTER}: the cluster says that itself. It is for --from DIR or IMAGE"
            )
        } else {
            format!("{flag} goes with --from {CLUSTER} only: with --from {from} no cluster is asked")
        });
    }
    for (name, flag, place) in [("from_image", "--from", from), ("to_image", "--to", to)] {
        if on_the_line(name) && !Path::new(place).is_dir() {
            return Some(format!(
                "{flag}-image goes with a folder in {flag}, which does not say its pull spec; {place} is no folder"
            ));
        }
    }
    if given.get_flag("all") && given.get_one("output") != Some(&Output::Text) {
        return Some("--all goes with -o text only: the other forms leave nothing out".to_owned());
    }
    if given.get_flag("values") && given.get_one("output") == Some(&Output::Dot) {
        return Some("--values does not go with -o dot: a drawing has no fields".to_owned());
    }
    filters::misuse(given)
}
