//! What the ClusterOperators of catalogs, of the API of packages and of the default catalogs report, each time from all that is known.

use crate::error::{shortened, together};
use crate::object::cluster_operator::{ClusterOperatorStatus, OperandVersion, RelatedObject};
use crate::object::condition::{Condition, ConditionStatus, find};
use crate::olm::api::{GROUP, operator_hub};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

const AS_EXPECTED: &str = "AsExpected";
const STARTING: &str = "Starting";
const UPGRADEABLE: &str = "Upgradeable";
/// The operand whose version scripts look up beside `operator`.
const LIFECYCLE: &str = "operator-lifecycle-manager";
/// Most bytes of what is said of one thing.
const CAUSE: usize = 1000;

/// Whether a loop has done its work once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// All that exists was seen, and what was to be written for it is written.
    pub done: bool,
    /// What keeps failing, with the way out.
    pub errors: Vec<String>,
}

/// The aggregated API of packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Packages {
    /// The API server reaches it.
    Served,
    /// It is being started.
    Starting,
    Failed(String),
}

/// Whether operators fit the next minor version of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fit {
    /// It has not been looked at yet.
    #[default]
    Unknown,
    All,
    /// Reason and message.
    Hindered(&'static str, String),
}

/// What the loop that keeps operators tells of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lifecycle {
    /// `None` where another process keeps them.
    pub progress: Option<Progress>,
    pub fit: Fit,
}

/// Whom the report is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// The release of this process.
    pub version: &'a str,
    /// Its namespace, or for `marketplace` that of the global catalogs.
    pub namespace: &'a str,
}

/// What `operator-lifecycle-manager` reports.
pub(crate) fn lifecycle(
    before: &ClusterOperatorStatus,
    subject: Subject<'_>,
    (progress, fit): (&Progress, &Fit),
    now: Timestamp,
) -> ClusterOperatorStatus {
    let related =
        [["", "namespaces", subject.namespace], [GROUP, "clusterserviceversions", ""], [GROUP, "operatorgroups", ""]];
    let mut report = of_loop(before, subject, progress, now);
    report.also(LIFECYCLE, subject.version);
    match fit {
        // A process that begins anew does not let an update pass that another one holds.
        Fit::Unknown => report.restore(UPGRADEABLE),
        Fit::All => {}
        Fit::Hindered(reason, message) => report.set(UPGRADEABLE, false, reason, message),
    }
    report.end(&related)
}

/// What `operator-lifecycle-manager-catalog` reports. Catalogs of users that cannot be read say so themselves, and do not count.
pub(crate) fn catalog(
    before: &ClusterOperatorStatus,
    subject: Subject<'_>,
    progress: &Progress,
    now: Timestamp,
) -> ClusterOperatorStatus {
    let related = [
        ["", "namespaces", subject.namespace],
        [GROUP, "catalogsources", ""],
        [GROUP, "subscriptions", ""],
        [GROUP, "installplans", ""],
    ];
    let mut report = of_loop(before, subject, progress, now);
    report.also(LIFECYCLE, subject.version);
    report.end(&related)
}

/// What `marketplace` reports.
pub(crate) fn marketplace(
    before: &ClusterOperatorStatus,
    subject: Subject<'_>,
    progress: &Progress,
    now: Timestamp,
) -> ClusterOperatorStatus {
    let related = [["", "namespaces", subject.namespace], ["config.openshift.io", "operatorhubs", operator_hub::NAME]];
    of_loop(before, subject, progress, now).end(&related)
}

/// What `operator-lifecycle-manager-packageserver` reports. Scripts know the reasons of the ClusterServiceVersion that it is elsewhere.
pub(crate) fn package_server(
    before: &ClusterOperatorStatus,
    subject: Subject<'_>,
    packages: &Packages,
    now: Timestamp,
) -> ClusterOperatorStatus {
    let version = subject.version;
    let mut report = Report::new(before, now);
    let (not_yet, working) = ("ClusterServiceVersionNotSucceeded", format!("Working toward {version}"));
    match packages {
        Packages::Served => {
            report.set("Available", true, "ClusterServiceVersionSucceeded", "Packages can be asked for");
            report.set("Progressing", false, AS_EXPECTED, &format!("Deployed version {version}"));
            report.set("Degraded", false, AS_EXPECTED, "");
            report.versions = versions(&[("operator", version), ("packageserver", version)]);
        }
        // The process of this version begins anew.
        Packages::Starting if report.has(version) => {}
        Packages::Starting => {
            if !report.holds("Available") {
                report.set("Available", false, not_yet, &working);
            }
            report.set("Progressing", true, STARTING, &working);
            report.set("Degraded", false, AS_EXPECTED, "");
        }
        Packages::Failed(cause) => {
            let cause = shortened(cause, CAUSE);
            report.set("Available", false, not_yet, &cause);
            report.set("Progressing", false, not_yet, &format!("Failed to deploy {version}"));
            report.set("Degraded", true, not_yet, &cause);
        }
    }
    report.set(UPGRADEABLE, true, AS_EXPECTED, "Safe to upgrade");
    let service = ["apiregistration.k8s.io", "apiservices", "v1.packages.operators.coreos.com"];
    report.end(&[["", "namespaces", subject.namespace], service])
}

/// What is reached once stays so while the next process begins: nothing changes because a process is restarted.
fn of_loop<'a>(
    before: &'a ClusterOperatorStatus,
    subject: Subject<'_>,
    progress: &Progress,
    now: Timestamp,
) -> Report<'a> {
    let version = subject.version;
    let mut report = Report::new(before, now);
    if progress.done || report.has(version) {
        report.set("Available", true, AS_EXPECTED, "");
        report.set("Progressing", false, AS_EXPECTED, &format!("Deployed {version}"));
        report.set(UPGRADEABLE, true, AS_EXPECTED, "");
        report.versions = versions(&[("operator", version)]);
    } else {
        report.keep("Available");
        report.set("Progressing", true, STARTING, &format!("Waiting to see update {version} succeed"));
        report.keep(UPGRADEABLE);
    }
    let errors: Vec<_> = progress.errors.iter().map(|error| shortened(error, CAUSE)).collect();
    let reason = if errors.is_empty() { AS_EXPECTED } else { "WorkFails" };
    report.set("Degraded", !errors.is_empty(), reason, &together(&errors, "; "));
    report
}

fn versions(all: &[(&str, &str)]) -> Vec<OperandVersion> {
    all.iter().map(|(name, version)| OperandVersion { name: (*name).into(), version: (*version).into() }).collect()
}

struct Report<'a> {
    before: &'a ClusterOperatorStatus,
    now: Timestamp,
    conditions: Vec<Condition>,
    /// Reached once, they stay until others are.
    versions: Vec<OperandVersion>,
}

impl<'a> Report<'a> {
    fn new(before: &'a ClusterOperatorStatus, now: Timestamp) -> Report<'a> {
        let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
        Report { before, now, conditions: before.conditions.clone(), versions: before.versions.clone() }
    }

    fn set(&mut self, type_: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        let since = find(&self.conditions, type_).filter(|condition| condition.status == status);
        let last_transition_time = since.map_or(Time(self.now), |condition| condition.last_transition_time.clone());
        let (type_, reason, message) = (type_.to_owned(), reason.to_owned(), message.to_owned());
        let condition = Condition { type_, status, last_transition_time, reason, message };
        match self.conditions.iter_mut().find(|known| known.type_ == condition.type_) {
            Some(place) => *place = condition,
            None => self.conditions.push(condition),
        }
    }

    /// What another version has reached is not lost while this one begins.
    fn keep(&mut self, type_: &str) {
        if !self.holds(type_) {
            self.set(type_, false, STARTING, "");
        }
    }

    /// An operand that has come with the operator, once this version is reached.
    fn also(&mut self, operand: &str, version: &str) {
        if self.has(version) {
            self.versions = versions(&[("operator", version), (operand, version)]);
        }
    }

    /// As it was before, if it was said.
    fn restore(&mut self, type_: &str) {
        let before = find(&self.before.conditions, type_).cloned();
        let place = self.conditions.iter_mut().find(|known| known.type_ == type_);
        if let (Some(before), Some(place)) = (before, place) {
            *place = before;
        }
    }

    fn holds(&self, type_: &str) -> bool {
        find(&self.conditions, type_).is_some_and(|condition| condition.status == ConditionStatus::True)
    }

    /// Whether this version was reached.
    fn has(&self, version: &str) -> bool {
        self.holds("Available") && self.versions.iter().any(|it| it.name == "operator" && it.version == version)
    }

    fn end(self, related_objects: &[[&str; 3]]) -> ClusterOperatorStatus {
        let related = |[group, resource, name]: &[&str; 3]| RelatedObject {
            group: (*group).to_owned(),
            resource: (*resource).to_owned(),
            namespace: String::new(),
            name: (*name).to_owned(),
        };
        ClusterOperatorStatus {
            conditions: self.conditions,
            versions: self.versions,
            related_objects: related_objects.iter().map(related).collect(),
            extension: self.before.extension.clone(),
        }
    }
}

#[cfg(test)]
mod tests;
