//! A question about a namespace as it might be, and the answer: which operators would be installed, or why one is not. It is an object
//! that is created and never stored, so that whoever may create it may ask.

use super::Visible;
use super::forecast::{Hypothesis, Rounds};
use crate::olm::api::package_manifest::{GROUP, VERSION};
use crate::olm::catalog::text::content;
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) const KIND: &str = "SubscriptionReview";
pub(crate) const PLURAL: &str = "subscriptionreviews";
pub(crate) const SINGULAR: &str = "subscriptionreview";
/// Bytes of a question.
pub(crate) const MAX_QUESTION: usize = 2 << 20;
/// Bytes of an answer.
pub(crate) const MAX_ANSWER: usize = 1 << 20;
/// Elements of each list of a question.
const MOST: usize = 20;
/// Versions that are named in what is not known.
const NAMED: usize = 20;
/// Rounds of one answer.
const ROUNDS: usize = 100;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct ReviewSpec {
    /// As if these Subscriptions existed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub subscribe: Vec<Wanted>,
    /// As if the Subscriptions of these names were deleted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<String>,
    /// As if catalogs had this content.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub catalogs: Vec<Given>,
    /// All rounds until the heads of all channels are reached.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub to_head: bool,
    /// Instead of what would be installed: why this is not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why_not: Option<Asked>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Wanted {
    /// The package.
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// The catalog, and its namespace: the one that is asked about, or the global one.
    pub source: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source_namespace: String,
    #[serde(rename = "startingCSV", skip_serializing_if = "String::is_empty")]
    pub starting_csv: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Given {
    pub name: String,
    /// Blobs of a file-based catalog, as JSON or YAML. The answer does not repeat it.
    #[serde(skip_serializing)]
    pub content: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(crate) struct Asked {
    pub subscription: String,
    #[serde(rename = "clusterServiceVersion")]
    pub csv: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Written {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
    #[serde(default)]
    spec: ReviewSpec,
}

#[derive(Debug, Default, Deserialize)]
struct Metadata {
    #[serde(default)]
    namespace: String,
}

/// What is wrong with a question.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ReviewError {
    #[error("the body is no {KIND}: {0}")]
    Json(String),
    #[error("the body is a {found}, and here a {KIND} of {GROUP}/{VERSION} is created")]
    Kind { found: String },
    #[error("metadata.namespace is {found:?}, and the address names {asked:?}")]
    Namespace { found: String, asked: String },
    #[error("spec.{0} has more than {MOST} elements: ask several times")]
    Many(&'static str),
    #[error("spec.{0} must be set")]
    Missing(String),
    #[error("spec.catalogs ({name}): {cause}; correct the content")]
    Catalog { name: String, cause: String },
    #[error("there is no Subscription {0} in the namespace")]
    NoSubscription(String),
}

/// Reads a question about this namespace.
pub(crate) fn read(body: &[u8], namespace: &str) -> Result<ReviewSpec, ReviewError> {
    let written: Written = serde_json::from_slice(body).map_err(|error| ReviewError::Json(error.to_string()))?;
    let Written { api_version, kind, metadata, spec } = written;
    if kind != KIND || api_version != format!("{GROUP}/{VERSION}") {
        return Err(ReviewError::Kind { found: format!("{kind:?} of {api_version:?}") });
    }
    if !metadata.namespace.is_empty() && metadata.namespace != namespace {
        return Err(ReviewError::Namespace { found: metadata.namespace, asked: namespace.to_owned() });
    }
    let lengths =
        [("subscribe", spec.subscribe.len()), ("remove", spec.remove.len()), ("catalogs", spec.catalogs.len())];
    if let Some((list, _)) = lengths.into_iter().find(|(_, length)| *length > MOST) {
        return Err(ReviewError::Many(list));
    }
    let missing = |place: &str, text: &str| text.is_empty().then(|| ReviewError::Missing(place.to_owned()));
    let of_wanted = spec.subscribe.iter().enumerate().find_map(|(at, it)| {
        let place = |key: &str| format!("subscribe[{at}].{key}");
        missing(&place("name"), &it.name).or_else(|| missing(&place("source"), &it.source))
    });
    let of_given = || {
        let mut all = spec.catalogs.iter().enumerate();
        all.find_map(|(at, it)| missing(&format!("catalogs[{at}].name"), &it.name))
    };
    let of_asked = || {
        let asked = spec.why_not.as_ref()?;
        let csv = missing("whyNot.clusterServiceVersion", &asked.csv);
        missing("whyNot.subscription", &asked.subscription).or(csv)
    };
    match of_wanted.or_else(of_given).or_else(of_asked) {
        Some(error) => Err(error),
        None => Ok(spec),
    }
}

/// The object with its answer. It may take seconds.
pub(crate) fn answer(
    spec: &ReviewSpec,
    mut hypothesis: Hypothesis,
    cluster: &ClusterVersions,
    limits: &Limits,
) -> Result<Value, ReviewError> {
    let namespace = hypothesis.namespace.clone();
    suppose(spec, &mut hypothesis)?;
    let status = match &spec.why_not {
        Some(Asked { subscription, csv }) => {
            let found = hypothesis.why_not(subscription, csv, cluster, limits);
            json!({"whyNot": found.ok_or_else(|| ReviewError::NoSubscription(subscription.clone()))?})
        }
        None => rounds(spec, hypothesis, cluster, limits),
    };
    Ok(json!({"apiVersion": format!("{GROUP}/{VERSION}"), "kind": KIND,
        "metadata": {"namespace": namespace, "creationTimestamp": null}, "spec": spec, "status": status}))
}

fn suppose(spec: &ReviewSpec, hypothesis: &mut Hypothesis) -> Result<(), ReviewError> {
    for Given { name, content: text } in &spec.catalogs {
        let read =
            content(text).map_err(|error| ReviewError::Catalog { name: name.clone(), cause: error.to_string() })?;
        // One that the namespace sees under this name, else a new one of its own.
        let own = (hypothesis.namespace.clone(), name.clone());
        let global = (hypothesis.global.clone(), name.clone());
        let id = if hypothesis.catalogs.contains_key(&own) || !hypothesis.catalogs.contains_key(&global) {
            own
        } else {
            global
        };
        let visible = hypothesis.catalogs.entry(id).or_default();
        *visible = Visible { health: Some(Ok(())), content: Some(Arc::new(read)), ..visible.clone() };
    }
    for name in &spec.remove {
        if !hypothesis.remove(name) {
            return Err(ReviewError::NoSubscription(name.clone()));
        }
    }
    for Wanted { name, channel, source, source_namespace, starting_csv } in &spec.subscribe {
        let own = (hypothesis.namespace.clone(), source.clone());
        let catalog = match source_namespace.as_str() {
            "" if hypothesis.catalogs.contains_key(&own) => own,
            "" => (hypothesis.global.clone(), source.clone()),
            namespace => (namespace.to_owned(), source.clone()),
        };
        hypothesis.subscribe_from(&catalog, name, channel, starting_csv);
    }
    Ok(())
}

fn rounds(spec: &ReviewSpec, hypothesis: Hypothesis, cluster: &ClusterVersions, limits: &Limits) -> Value {
    let mut next = Rounds::of(hypothesis, if spec.to_head { ROUNDS } else { 1 });
    let (mut told, mut bytes, mut is_cut) = (Vec::new(), 0, false);
    let mut installs = BTreeSet::new();
    while let Some(round) = next.next(cluster, limits) {
        let one = round.told();
        bytes += one.to_string().len();
        if bytes > MAX_ANSWER && !told.is_empty() {
            is_cut = true;
            break;
        }
        installs.extend(round.installs().iter().map(|new| new.name.clone()));
        told.push(one);
    }
    let mut status = json!({"rounds": told, "truncated": is_cut});
    if let Some(status) = status.as_object_mut().filter(|_| !installs.is_empty()) {
        status.insert("unknown".to_owned(), json!(unknown(&installs)));
    }
    status
}

/// What the answer does not look at.
fn unknown(installs: &BTreeSet<String>) -> [String; 1] {
    let mut names: Vec<&str> = installs.iter().map(String::as_str).take(NAMED).collect();
    let more = installs.len() - names.len();
    let rest = format!("{more} more");
    names.extend((more > 0).then_some(rest.as_str()));
    [format!(
        "Bundles are not fetched for an answer: whether those of {} can be, which objects they would write, whether the API server takes \
         these and the definitions of kinds may change, and whether the cluster has what they require. `cvo olm plan` looks at that.",
        names.join(", ")
    )]
}
