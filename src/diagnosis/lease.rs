//! Whether the process that holds a Lease still renews it. One look is enough: the API server stores with each renewal when that was by
//! its own clock, beside the time that the holder has written by its own.

use crate::diagnosis::Trouble;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::Lease;
use serde::{Deserialize, Serialize};

/// Annotation of a Lease: how many seconds pass between two renewals, which its spec does not say.
pub(crate) const RENEWED_EVERY: &str = "release.openshift.io/renewed-every-seconds";
/// Annotation of a Lease: since when its holder cannot write what it does, and why. It is renewed all the same.
pub(crate) const NOT_WRITTEN: &str = "release.openshift.io/not-written";

/// A renewal may be this late: it is a request that may take a while.
const SLACK: SignedDuration = SignedDuration::from_secs(8);

/// When a Lease was renewed last.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Renewal {
    /// Empty: nobody holds it.
    pub holder: String,
    /// By the clock of the holder.
    pub renewed: Option<Timestamp>,
    /// When the API server stored that, by its own clock in whole seconds; `None` if it does not say.
    pub stored: Option<Timestamp>,
    /// A holder that works renews it before this is over.
    pub period: SignedDuration,
    /// Since when the holder cannot write what it does, and why.
    pub not_written: Option<(Timestamp, String)>,
}

impl Renewal {
    pub(crate) fn of(lease: &Lease) -> Renewal {
        let annotations = lease.metadata.annotations.as_ref();
        let every = annotations.and_then(|all| all.get(RENEWED_EVERY)?.parse::<u32>().ok());
        let not_written = annotations.and_then(|all| {
            let (since, why) = all.get(NOT_WRITTEN)?.split_once(' ')?;
            Some((since.parse().ok()?, why.to_owned()))
        });
        let spec = lease.spec.clone().unwrap_or_default();
        // Without the annotation: holders renew a lease at least twice in its duration.
        let half = SignedDuration::from_secs(i64::from(spec.lease_duration_seconds.unwrap_or(60)) / 2);
        let stores = lease.metadata.managed_fields.iter().flatten().filter(|entry| {
            entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer("/f:spec/f:renewTime").is_some())
        });
        Renewal {
            holder: spec.holder_identity.unwrap_or_default(),
            renewed: spec.renew_time.map(|time| time.0),
            stored: stores.filter_map(|entry| Some(entry.time.as_ref()?.0)).max(),
            period: every.map_or(half, |seconds| SignedDuration::from_secs(i64::from(seconds))) + SLACK,
            not_written,
        }
    }

    /// By the clock of the API server, as far as it says.
    pub(crate) fn last(&self) -> Option<Timestamp> {
        self.stored.or(self.renewed)
    }

    /// How far the clock of the holder was from that of the API server at the last renewal; positive: ahead.
    pub(crate) fn apart(&self) -> Option<SignedDuration> {
        Some(self.renewed?.duration_since(self.stored?))
    }
}

/// A process that should renew its Lease, and does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Silence {
    /// Such as `lease openshift-cluster-version/version`.
    pub lease: String,
    /// When it was renewed last, by the clock of the API server as far as that is known; `null` if it never was.
    pub since: Option<Timestamp>,
    /// It is renewed: its holder works, and cannot write what it does.
    pub renewed: bool,
    pub message: String,
    pub next_step: String,
    /// Why, as far as it could be found out.
    pub causes: Vec<Trouble>,
}

/// Whose Lease it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder<'a> {
    /// Such as "the daemon".
    pub process: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    /// Of its pods, in the same namespace.
    pub deployment: &'a str,
    /// Nothing else does its work, so that its Lease has to be there.
    pub required: bool,
}

/// `None`: it is renewed as it should be. `now`: by the clock of the API server. A lease that does not exist has no renewal.
pub(crate) fn silence(of: Holder<'_>, renewal: Option<&Renewal>, now: Timestamp) -> Option<Silence> {
    let Holder { process, namespace, name, deployment, required } = of;
    let lease = format!("lease {namespace}/{name}");
    let told = |since, message| {
        let next_step = format!(
            "Unless the reason is named here, read its log: kubectl -n {namespace} logs deployment/{deployment}"
        );
        Some(Silence { lease: lease.clone(), since, renewed: false, message, next_step, causes: Vec::new() })
    };
    let Some(renewal) = renewal else {
        if !required {
            return None;
        }
        return told(None, format!("{process} does not work: {lease} does not exist, so that no process has taken it"));
    };
    let Some(last) = renewal.last() else {
        return told(None, format!("{process} does not work: no process has ever renewed {lease}"));
    };
    let old = "what is shown is as old as that";
    if now.duration_since(last) <= renewal.period {
        let (since, why) = renewal.not_written.as_ref()?;
        let at = since.strftime("%Y-%m-%dT%H:%M:%SZ");
        let told = told(
            Some(*since),
            format!("{process} works, but what it does could not be written since {at}; {old}: {why}"),
        )?;
        return Some(Silence { renewed: true, ..told });
    }
    let at = last.strftime("%Y-%m-%dT%H:%M:%SZ");
    if renewal.holder.is_empty() {
        return told(
            Some(last),
            format!("{process} does not work: {lease} was released at {at}, and no process has taken it since; {old}"),
        );
    }
    told(Some(last), format!("{process} has not renewed {lease} since {at}; {old}"))
}

/// Why a node's clock, or its kubelet, is not as it should be. What one look cannot tell apart it does not tell apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NodeLease {
    Well,
    /// The clock of the node is this far from that of the API server; positive: ahead.
    Clock(SignedDuration),
    /// Nobody has renewed it since then.
    NotRenewed(Timestamp),
    /// It was not renewed for this long, or the clock is behind by that.
    Either(SignedDuration),
}

/// `apart`: how far clocks may be from each other. `patience`: how long a kubelet that works may leave its lease.
pub(crate) fn node_lease(
    renewal: &Renewal,
    now: Timestamp,
    apart: SignedDuration,
    patience: SignedDuration,
) -> NodeLease {
    let Some(renewed) = renewal.renewed else { return NodeLease::Well };
    let late = |last: Timestamp| now.duration_since(last) > patience;
    match (renewal.stored, renewal.apart()) {
        (Some(_), Some(difference)) if difference.abs() > apart => NodeLease::Clock(difference),
        (Some(stored), _) if late(stored) => NodeLease::NotRenewed(stored),
        (Some(_), _) => NodeLease::Well,
        // Nobody renews a lease in the future.
        (None, _) if renewed.duration_since(now) > apart => NodeLease::Clock(renewed.duration_since(now)),
        (None, _) if late(renewed) => NodeLease::Either(now.duration_since(renewed)),
        (None, _) => NodeLease::Well,
    }
}

#[cfg(test)]
mod tests;
