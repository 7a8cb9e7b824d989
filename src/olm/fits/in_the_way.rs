//! Which of the installed operators stand in the way of releases that the cluster may be updated to, by what they say themselves: without
//! their catalogs, and without the releases.

use super::{PlannedOperator, Target, operators};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::subscription::Subscription;
use crate::olm::operator::compatibility::Minor;
use crate::version::parse_tolerant;
use std::collections::BTreeSet;

/// The minor version that follows that of a release; `None` if its version cannot be read.
pub(crate) fn next_minor(release: &str) -> Option<String> {
    let version = parse_tolerant(release).ok()?;
    Some(Minor(version.major, version.minor).next().to_string())
}

/// The operators that do not support one of these releases, each with the first one that it does not support, and what is known of what
/// would help without looking into catalogs. `from`: the release that runs. `csvs`: without copies.
pub(crate) fn in_the_way(
    from: &str,
    releases: &[String],
    csvs: &[ClusterServiceVersion],
    subscriptions: &[Subscription],
) -> Vec<PlannedOperator> {
    let nothing = BTreeSet::new();
    let mut found: Vec<PlannedOperator> = Vec::new();
    for to in releases {
        let target = Target { from, to, kubernetes: None, deletes: &nothing };
        for mut held in operators(&target, csvs, subscriptions).into_iter().filter(PlannedOperator::is_held) {
            if found.iter().any(|it| (&it.namespace, &it.name) == (&held.namespace, &held.name)) {
                continue;
            }
            held.help = match held.subscription.is_empty() {
                true => "update or remove it".to_owned(),
                false => format!("cvo plan says which version of its catalog supports {to}"),
            };
            found.push(held);
        }
    }
    found.sort_by(|one, other| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::api::keys::annotation::PROPERTIES;
    use crate::olm::names::property::MAX_CLUSTER_VERSION;
    use serde_json::json;

    fn csv(name: &str, maximum: &str) -> ClusterServiceVersion {
        let properties = json!({"properties": [{"type": MAX_CLUSTER_VERSION, "value": maximum}]}).to_string();
        let metadata = json!({"name": name, "namespace": "n", "annotations": {PROPERTIES: properties}});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"version": "1.0.0"}})).unwrap()
    }

    #[test]
    fn operator_is_named_once_with_the_first_release_that_it_does_not_support() {
        let status = json!({"installedCSV": "b.v1", "lastUpdated": "2026-01-01T00:00:00Z"});
        let spec = json!({"name": "b", "source": "main", "sourceNamespace": "m"});
        let of_b = json!({"metadata": {"name": "b", "namespace": "n"}, "spec": spec, "status": status});
        let of_b: Subscription = serde_json::from_value(of_b).unwrap();
        let csvs = [csv("b.v1", "1.1"), csv("a.v1", "1.0"), csv("fits", "1.9"), csv("odd", "x")];
        let found = |releases: &[&str]| {
            let releases: Vec<String> = releases.iter().map(|it| (*it).to_owned()).collect();
            let found = in_the_way("1.0.3", &releases, &csvs, std::slice::from_ref(&of_b));
            let line = |it: PlannedOperator| {
                format!("{} ({:?}): {}; {}", it.name, it.maximum, it.hindrances.join("; "), it.help)
            };
            found.into_iter().map(line).collect::<Vec<_>>()
        };
        let last = "the last version of the cluster that it supports is";
        let wrong = "is no version; write a minor version of the cluster such as \"4.9\"";
        let a = format!("a.v1 (Some(\"1.0\")): {last} 1.0, not 1.1; update or remove it");
        let b = format!(
            "b.v1 (Some(\"1.1\")): {last} 1.1, not 1.2; cvo plan says which version of its catalog supports 1.2.0"
        );
        let odd = format!(
            "odd (None): whether it supports 1.1 cannot be told from {MAX_CLUSTER_VERSION}: \"x\" {wrong}; update or remove it"
        );
        assert_eq!(found(&["1.1", "1.1.0", "1.2.0", "1.3.0"]), [a.clone(), b, odd.clone()]);
        assert_eq!(found(&["1.1"]), [a, odd]);
        assert_eq!(found(&["1.0.4"]), Vec::<String>::new(), "patches of a release are for all operators");
    }

    #[test]
    fn next_minor_version_is_known_under_the_name_that_counts() {
        for (release, expected) in
            [("1.0.3", Some("1.1")), ("4.22.0-rc.1", Some("5.0")), ("4.23.1", Some("5.1")), ("latest", None)]
        {
            assert_eq!(next_minor(release).as_deref(), expected, "{release}");
        }
    }
}
