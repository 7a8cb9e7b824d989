//! Catalogs. The names that begin with `olm_` are ours; all others, with their labels, are those of the upstream operators.

use crate::metrics::encoder::{Text, count};
use crate::metrics::process;
use crate::metrics::process::ProcessFigures;
use crate::metrics::summary::Summary;
use std::collections::BTreeMap;

/// A CatalogSource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CatalogFigures {
    pub namespace: String,
    pub name: String,
    /// Its content is there and can be asked for.
    pub ready: bool,
    /// How often this process has read another content of it.
    pub snapshots: u64,
}

/// A ClusterServiceVersion; no copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CsvFigures {
    pub namespace: String,
    pub name: String,
    pub version: String,
    pub succeeded: bool,
    pub phase: String,
    pub reason: String,
}

/// Subscriptions that say the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SubscriptionLabels {
    pub name: String,
    /// The ClusterServiceVersion that is installed; empty for none.
    pub installed: String,
    pub channel: String,
    pub package: String,
    pub approval: String,
}

/// Everything that one scrape shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct OperatorsSnapshot {
    /// `None` before all CatalogSources are known.
    pub catalogs: Option<Vec<CatalogFigures>>,
    /// How many Subscriptions and InstallPlans there are; `None` before all of them are known.
    pub planned: Option<(usize, usize)>,
    /// How often Subscriptions were looked at, in this process.
    pub syncs: BTreeMap<SubscriptionLabels, u64>,
    /// How long it took to find what is to be installed in a namespace, by outcome.
    pub resolutions: Vec<(&'static str, Summary)>,
    /// `None` before all ClusterServiceVersions are known.
    pub csvs: Option<Vec<CsvFigures>>,
    /// How often one was replaced by another.
    pub upgrades: u64,
    /// How often the API server has warned of what an InstallPlan creates or changes.
    pub plan_warnings: u64,
    /// Objects that are left out because they do not have the form of their kind: kind, namespace and name.
    pub undecodable: Vec<(&'static str, String, String)>,
    /// Requests to the API server by verb and status code.
    pub requests: BTreeMap<(&'static str, String), u64>,
    pub process: ProcessFigures,
}

/// The samples as text.
pub(crate) fn text(snapshot: &OperatorsSnapshot) -> String {
    write(snapshot).finish()
}

/// Name and meaning of each metric.
pub(crate) fn described() -> BTreeMap<String, String> {
    write(&OperatorsSnapshot::default()).described()
}

fn write(snapshot: &OperatorsSnapshot) -> Text {
    let mut text = Text::default();
    let catalogs = || snapshot.catalogs.iter().flatten();
    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    let number = |number: usize| number as f64;
    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    let counted = |number: u64| number as f64;
    text.gauge("catalog_source_count", "CatalogSources of the cluster.", |samples| {
        if let Some(catalogs) = &snapshot.catalogs {
            samples.add(&[], number(catalogs.len()));
        }
    });
    let help = "Whether the content of a CatalogSource is there and can be asked for.";
    text.gauge("catalogsource_ready", help, |samples| {
        for catalog in catalogs() {
            let ready = f64::from(u8::from(catalog.ready));
            samples.add(&[("namespace", &catalog.namespace), ("name", &catalog.name)], ready);
        }
    });
    let help = "How often this process has read another content of a CatalogSource.";
    text.counter("catalog_source_snapshots_total", help, |samples| {
        for catalog in catalogs() {
            let labels = [("namespace", catalog.namespace.as_str()), ("name", catalog.name.as_str())];
            samples.add(&labels, counted(catalog.snapshots));
        }
    });
    for (name, help, count) in [
        ("subscription_count", "Subscriptions of the cluster.", snapshot.planned.map(|(count, _)| count)),
        ("install_plan_count", "InstallPlans of the cluster.", snapshot.planned.map(|(_, count)| count)),
    ] {
        text.gauge(name, help, |samples| count.into_iter().for_each(|count| samples.add(&[], number(count))));
    }
    subscriptions(&mut text, snapshot);
    operators(&mut text, snapshot);
    let help = "How often the API server has warned of what an InstallPlan creates or changes.";
    text.counter("installplan_warnings_total", help, |samples| samples.add(&[], counted(snapshot.plan_warnings)));
    let help = "1 for each object that is left out because it does not have the form of its kind.";
    text.gauge("olm_undecodable_object", help, |samples| {
        for (kind, namespace, name) in &snapshot.undecodable {
            samples.add(&[("kind", *kind), ("namespace", namespace), ("name", name)], 1.0);
        }
    });
    process::requests(&mut text, "olm_api_requests_total", &snapshot.requests);
    process::write(&mut text, &snapshot.process);
    text
}

fn subscriptions(text: &mut Text, snapshot: &OperatorsSnapshot) {
    let help = "How often a Subscription was looked at because it had changed, by what it says and what is installed.";
    text.counter("subscription_sync_total", help, |samples| {
        for (labels, number) in &snapshot.syncs {
            let labels = [
                ("name", labels.name.as_str()),
                ("installed", &labels.installed),
                ("channel", &labels.channel),
                ("package", &labels.package),
                ("approval", &labels.approval),
            ];
            samples.add(&labels, count(*number));
        }
    });
    let help = "How long it took to find what is to be installed in a namespace, by outcome; quantiles of the last ten minutes.";
    text.summary("olm_resolution_duration_seconds", help, |samples| {
        for (outcome, summary) in &snapshot.resolutions {
            samples.add_summary(&[("outcome", outcome)], summary);
        }
    });
}

fn operators(text: &mut Text, snapshot: &OperatorsSnapshot) {
    let csvs = || snapshot.csvs.iter().flatten();
    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    text.gauge("csv_count", "ClusterServiceVersions of the cluster, without copies.", |samples| {
        if let Some(csvs) = &snapshot.csvs {
            samples.add(&[], csvs.len() as f64);
        }
    });
    text.gauge("csv_succeeded", "Whether a ClusterServiceVersion is in the phase Succeeded.", |samples| {
        for csv in csvs() {
            let labels = [("namespace", csv.namespace.as_str()), ("name", &csv.name), ("version", &csv.version)];
            samples.add(&labels, f64::from(u8::from(csv.succeeded)));
        }
    });
    text.gauge(
        "csv_abnormal",
        "1 for each ClusterServiceVersion that is in another phase than Succeeded.",
        |samples| {
            for csv in csvs().filter(|csv| !csv.succeeded) {
                let labels = [
                    ("namespace", csv.namespace.as_str()),
                    ("name", &csv.name),
                    ("version", &csv.version),
                    ("phase", &csv.phase),
                    ("reason", &csv.reason),
                ];
                samples.add(&labels, 1.0);
            }
        },
    );
    let help = "How often a ClusterServiceVersion was replaced by another since this process began.";
    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    text.counter("csv_upgrade_count", help, |samples| samples.add(&[], snapshot.upgrades as f64));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog(name: &str, ready: bool, snapshots: u64) -> CatalogFigures {
        CatalogFigures { namespace: "olm".to_owned(), name: name.to_owned(), ready, snapshots }
    }

    fn samples(catalogs: Option<Vec<CatalogFigures>>) -> Vec<String> {
        let text = text(&OperatorsSnapshot { catalogs, ..OperatorsSnapshot::default() });
        text.lines().filter(|line| line.starts_with("catalog")).map(str::to_owned).collect()
    }

    #[test]
    fn each_catalog_has_its_series_and_one_that_is_gone_has_none() {
        let both = samples(Some(vec![catalog("a", true, 2), catalog("b", false, 0)]));
        assert_eq!(
            both,
            [
                "catalog_source_count 2",
                "catalogsource_ready{namespace=\"olm\",name=\"a\"} 1",
                "catalogsource_ready{namespace=\"olm\",name=\"b\"} 0",
                "catalog_source_snapshots_total{namespace=\"olm\",name=\"a\"} 2",
                "catalog_source_snapshots_total{namespace=\"olm\",name=\"b\"} 0",
            ]
        );
        assert_eq!(samples(Some(vec![])), ["catalog_source_count 0"]);
        // A process that has only just begun knows nothing.
        assert_eq!(samples(None), [""; 0]);
    }

    #[test]
    fn version_that_has_not_succeeded_has_a_series_with_its_phase_and_no_other() {
        let csv = |name: &str, succeeded: bool, phase: &str, reason: &str| CsvFigures {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            succeeded,
            phase: phase.to_owned(),
            reason: reason.to_owned(),
        };
        let csvs = vec![csv("a", true, "Succeeded", "InstallSucceeded"), csv("b", false, "Failed", "OwnerConflict")];
        let text = text(&OperatorsSnapshot { csvs: Some(csvs), upgrades: 3, ..OperatorsSnapshot::default() });
        let samples: Vec<&str> = text.lines().filter(|line| line.starts_with("csv_")).collect();
        let labels = |name: &str| format!("namespace=\"shop\",name=\"{name}\",version=\"1.0.0\"");
        let expected = [
            "csv_count 2".to_owned(),
            format!("csv_succeeded{{{}}} 1", labels("a")),
            format!("csv_succeeded{{{}}} 0", labels("b")),
            format!("csv_abnormal{{{},phase=\"Failed\",reason=\"OwnerConflict\"}} 1", labels("b")),
            "csv_upgrade_count 3".to_owned(),
        ];
        assert_eq!(samples, expected);
    }

    #[test]
    fn subscriptions_and_plans_are_counted_once_they_are_known() {
        let lines = |planned| -> Vec<String> {
            let text = text(&OperatorsSnapshot { planned, ..OperatorsSnapshot::default() });
            let counts =
                text.lines().filter(|line| line.starts_with("subscription_count") || line.starts_with("install_plan"));
            counts.map(ToOwned::to_owned).collect()
        };
        assert_eq!(lines(Some((2, 5))), ["subscription_count 2", "install_plan_count 5"]);
        assert!(lines(None).is_empty());
    }

    #[test]
    fn looks_at_subscriptions_and_resolutions_are_counted() {
        let labels = SubscriptionLabels {
            name: "ink".to_owned(),
            installed: "ink.v1".to_owned(),
            channel: "stable".to_owned(),
            package: "ink".to_owned(),
            approval: "Manual".to_owned(),
        };
        let took = Summary { quantiles: vec![("0.99", 0.5)], count: 3, sum: 0.75 };
        let snapshot = OperatorsSnapshot {
            syncs: BTreeMap::from([(labels, 4)]),
            resolutions: vec![("succeeded", took)],
            ..OperatorsSnapshot::default()
        };
        let text = text(&snapshot);
        let lines: Vec<&str> =
            text.lines().filter(|line| line.contains("subscription_sync") || line.contains("resolution")).collect();
        let samples: Vec<&str> = lines.into_iter().filter(|line| !line.starts_with("# HELP")).collect();
        assert_eq!(
            samples,
            [
                "# TYPE subscription_sync_total counter",
                "subscription_sync_total{name=\"ink\",installed=\"ink.v1\",channel=\"stable\",package=\"ink\",\
                 approval=\"Manual\"} 4",
                "# TYPE olm_resolution_duration_seconds summary",
                "olm_resolution_duration_seconds_count{outcome=\"succeeded\"} 3",
                "olm_resolution_duration_seconds_sum{outcome=\"succeeded\"} 0.75",
                "olm_resolution_duration_seconds{outcome=\"succeeded\",quantile=\"0.99\"} 0.5",
            ]
        );
    }

    #[test]
    fn warnings_of_plans_are_counted() {
        let text = text(&OperatorsSnapshot { plan_warnings: 3, ..OperatorsSnapshot::default() });
        assert!(text.lines().any(|line| line == "installplan_warnings_total 3"), "{text}");
    }

    #[test]
    fn object_that_is_left_out_has_a_series() {
        let undecodable = vec![("CatalogSource", "olm".to_owned(), "a".to_owned())];
        let text = text(&OperatorsSnapshot { undecodable, ..OperatorsSnapshot::default() });
        let expected = "olm_undecodable_object{kind=\"CatalogSource\",namespace=\"olm\",name=\"a\"} 1";
        assert!(text.lines().any(|line| line == expected), "{text}");
    }
}
