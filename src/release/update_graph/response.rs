//! Parses a response of the update service into available and conditional updates.

use super::{Reason, RetrievalError};
use crate::release::api::{ConditionalUpdate, ConditionalUpdateRisk, MatchingRule, PromQl, Release};
use crate::version;
use semver::Version;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of a response that are read; whole channels have a few hundred kilobytes.
pub(crate) const MAX_BODY: usize = 16 << 20;
/// What the schema of ClusterVersion accepts at most.
pub(crate) const MAX_CONDITIONAL: usize = 500;
pub(crate) const MAX_RISKS: usize = 200;
/// Most available updates that are kept.
pub(crate) const MAX_AVAILABLE: usize = 500;
/// Most bytes that either list may have as JSON: an API server refuses an object of more than about 1.5 MB, and with it
/// the whole status. Whole channels have less than 150 kB.
const MAX_LIST: usize = 512 << 10;

const MULTI: &str = "Multi";

/// The updates that the graph has for the running release.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Updates {
    /// The node of the running release.
    pub current: Release,
    /// Recommended everywhere; highest version first.
    pub available: Vec<Release>,
    /// Recommended where their risks do not apply; highest version first, conditions not evaluated yet.
    pub conditional: Vec<ConditionalUpdate>,
    /// Targets that were excluded, and why: for the log.
    pub notes: Vec<String>,
}

#[derive(Deserialize)]
struct Graph {
    #[serde(default)]
    nodes: Option<Vec<Node>>,
    #[serde(default)]
    edges: Option<Vec<[u32; 2]>>,
    #[serde(default, rename = "conditionalEdges")]
    conditional: Option<Vec<ConditionalEdges>>,
}

#[derive(Deserialize)]
struct Node {
    version: String,
    #[serde(default)]
    payload: String,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// The three keys that are used.
#[derive(Deserialize, Default)]
struct Metadata {
    url: Option<Value>,
    #[serde(rename = "release.openshift.io/architecture")]
    architecture: Option<Value>,
    #[serde(rename = "io.openshift.upgrades.graph.release.channels")]
    channels: Option<Value>,
}

#[derive(Deserialize)]
struct ConditionalEdges {
    #[serde(default)]
    edges: Option<Vec<ConditionalEdge>>,
    #[serde(default)]
    risks: Option<Vec<Risk>>,
}

#[derive(Deserialize)]
struct ConditionalEdge {
    from: String,
    to: String,
}

#[derive(Deserialize)]
struct Risk {
    #[serde(default)]
    url: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    message: String,
    #[serde(default, rename = "matchingRules")]
    rules: Option<Vec<Rule>>,
}

#[derive(Deserialize)]
struct Rule {
    #[serde(default, rename = "type")]
    type_: String,
    /// Of any shape, because an unknown type of rule may use it otherwise.
    #[serde(default)]
    promql: Option<Value>,
}

fn invalid(message: impl Into<String>) -> RetrievalError {
    RetrievalError::new(Reason::ResponseInvalid, message)
}

/// Parses a response. `own` is the running release (version, and `Multi` as architecture if it is that), `channel` the one
/// in the request, `desired_architecture` `Multi` or empty: from a single architecture to `Multi` the only update is to
/// the same version.
///
/// A graph that contradicts itself is refused as a whole with `ResponseInvalid`. A target with invalid data is excluded
/// from both lists with a note: one bad node must not hide the good ones, nor may one bad risk make the API server refuse
/// the whole status.
pub fn parse_updates(
    body: &[u8],
    own: &Release,
    channel: &str,
    desired_architecture: &str,
) -> Result<Updates, RetrievalError> {
    if body.len() > MAX_BODY {
        return Err(invalid(format!("The response has {} bytes, more than the {MAX_BODY} that are read", body.len())));
    }
    if body.trim_ascii_start().first() != Some(&b'{') {
        return Err(invalid("The response is not a JSON object: is this the URL of an update service?"));
    }
    let graph: Graph =
        serde_json::from_slice(body).map_err(|e| invalid(format!("The response is not an update graph: {e}")))?;
    let nodes = graph.nodes.unwrap_or_default();
    let versions = parse_versions(&nodes)?;
    let (own_index, own_node) = find_own(&nodes, &versions, own, channel)?;
    let current =
        release_of(own_node).map_err(|problem| invalid(format!("Node {own_index}, the running release: {problem}")))?;
    let mut updates = Updates { current: current.clone(), ..Updates::default() };
    let edges = graph.edges.unwrap_or_default();
    let destinations = destinations(&edges, own_index, nodes.len())?;
    if desired_architecture == MULTI && own.architecture != MULTI {
        updates.available = vec![current];
        return Ok(updates);
    }
    let mut conditional = conditional_of(graph.conditional.unwrap_or_default(), &nodes, own, &mut updates.notes)?;
    let is_conditional: BTreeSet<String> = conditional.iter().map(|u| u.release.image.clone()).collect();
    let mut images = BTreeSet::new();
    for index in destinations {
        let Some(node) = nodes.get(index) else { continue };
        match target_of(node) {
            Ok(release) if is_conditional.contains(&release.image) => {}
            Ok(release) if !images.insert(release.image.clone()) => {}
            Ok(release) => updates.available.push(release),
            Err(problem) => updates.notes.push(format!("update to {}: {problem}: excluded", node.version)),
        }
    }
    // Before any is excluded: a target whose risks are listed twice must not be offered with one of the lists unevaluated.
    drop_contradictions(&mut conditional, &mut updates.notes);
    conditional.retain(|update| match unusable_risk(&update.risks) {
        None => true,
        Some(problem) => {
            updates.notes.push(format!("conditional update to {}: {problem}: excluded", update.release.version));
            false
        }
    });
    updates.conditional = conditional;
    sort(&mut updates, &nodes, &versions);
    Ok(updates)
}

fn parse_versions(nodes: &[Node]) -> Result<Vec<Version>, RetrievalError> {
    let parse = |(index, node): (usize, &Node)| {
        version::parse(&node.version).map_err(|problem| invalid(format!("Node {index}: {problem}")))
    };
    nodes.iter().enumerate().map(parse).collect()
}

/// The first node with the running version. Build metadata is ignored.
fn find_own<'a>(
    nodes: &'a [Node],
    versions: &[Version],
    own: &Release,
    channel: &str,
) -> Result<(usize, &'a Node), RetrievalError> {
    let version = version::parse(&own.version).map_err(|problem| {
        RetrievalError::new(Reason::InvalidCurrentVersion, format!("The running release: {problem}"))
    })?;
    let same = |(_, (_, v)): &(usize, (&Node, &Version))| version::precedence(v, &version) == Ordering::Equal;
    let found = nodes.iter().zip(versions).enumerate().find(same);
    found.map(|(index, (node, _))| (index, node)).ok_or_else(|| {
        let message = format!(
            "Version {} is not in the update graph of channel {channel:?}, so no updates are known: this is normal for channels \
             that do not carry it, and spec.channel can name another one",
            own.version
        );
        RetrievalError::new(Reason::VersionNotFound, message)
    })
}

/// Where edges lead from `own`. Every index is checked, also of edges that do not matter here, so that whether a graph is
/// accepted does not depend on the running version.
fn destinations(edges: &[[u32; 2]], own: usize, nodes: usize) -> Result<BTreeSet<usize>, RetrievalError> {
    let mut found = BTreeSet::new();
    for (position, [from, to]) in edges.iter().enumerate() {
        let index = |n: u32| usize::try_from(n).ok().filter(|n| *n < nodes);
        let (Some(origin), Some(destination)) = (index(*from), index(*to)) else {
            return Err(invalid(format!("Edge {position} [{from}, {to}] points outside the {nodes} nodes")));
        };
        if origin == own && destination != own {
            found.insert(destination);
        }
    }
    Ok(found)
}

/// The release of a node, with its metadata checked.
fn release_of(node: &Node) -> Result<Release, String> {
    let mut release = Release { version: node.version.clone(), image: node.payload.clone(), ..Release::default() };
    let Some(metadata) = &node.metadata else { return Ok(release) };
    if let Some(value) = &metadata.url {
        let url = value.as_str().ok_or_else(|| format!("its url {value} is not a string"))?;
        if let Some(problem) = super::uri_problem(url) {
            return Err(format!("its url {url:?} is not a URL: {problem}"));
        }
        release.url = url.to_owned();
    }
    if let Some(value) = &metadata.architecture {
        if value.as_str() != Some("multi") {
            return Err(format!("its architecture {value} is unknown; only \"multi\" is allowed"));
        }
        release.architecture = MULTI.to_owned();
    }
    if let Some(value) = &metadata.channels {
        let list = value.as_str().ok_or_else(|| format!("its channels {value} are not a string"))?;
        let channels: BTreeSet<&str> = list.split(',').collect();
        if channels.contains("") {
            return Err(format!("its channels {list:?} have an empty item"));
        }
        release.channels = channels.into_iter().map(str::to_owned).collect();
    }
    Ok(release)
}

/// The release of a node that can be updated to: it has an image.
fn target_of(node: &Node) -> Result<Release, String> {
    match release_of(node)? {
        release if release.image.is_empty() => Err("it has no image".into()),
        release => Ok(release),
    }
}

/// All conditional updates from the running version. Versions are compared as text here, so build metadata counts.
fn conditional_of(
    groups: Vec<ConditionalEdges>,
    nodes: &[Node],
    own: &Release,
    notes: &mut Vec<String>,
) -> Result<Vec<ConditionalUpdate>, RetrievalError> {
    let by_version: BTreeMap<&str, &Node> = nodes.iter().rev().map(|node| (node.version.as_str(), node)).collect();
    let mut found = Vec::new();
    for group in groups {
        let risks: Vec<ConditionalUpdateRisk> = group.risks.unwrap_or_default().into_iter().map(risk_of).collect();
        for edge in group.edges.unwrap_or_default().into_iter().filter(|edge| edge.from == own.version) {
            let Some(node) = by_version.get(edge.to.as_str()) else {
                let message = format!("The conditional edge from {} to {} leads to no node", edge.from, edge.to);
                return Err(invalid(message));
            };
            match target_of(node) {
                Ok(release) => found.push(ConditionalUpdate {
                    release,
                    risks: risks.clone(),
                    conditions: Vec::new(),
                    risk_names: Vec::new(),
                }),
                Err(problem) => notes.push(format!("conditional update to {}: {problem}: excluded", node.version)),
            }
        }
    }
    Ok(found)
}

/// The risk with the rules that can be evaluated.
fn risk_of(risk: Risk) -> ConditionalUpdateRisk {
    ConditionalUpdateRisk {
        url: risk.url,
        name: risk.name,
        message: risk.message,
        matching_rules: risk.rules.unwrap_or_default().into_iter().filter_map(rule_of).collect(),
        conditions: Vec::new(),
    }
}

/// A rule of a known type that is complete: `PromQL` needs a query, `Always` must not have one.
fn rule_of(rule: Rule) -> Option<MatchingRule> {
    let query = rule.promql.as_ref().and_then(|p| p.get("promql")).and_then(Value::as_str).unwrap_or("");
    let promql = match rule.type_.as_str() {
        "Always" if rule.promql.is_none() => None,
        "PromQL" if !query.is_empty() => Some(PromQl { promql: query.to_owned() }),
        _ => return None,
    };
    Some(MatchingRule { type_: rule.type_, promql })
}

/// Why a list of risks cannot be used. A target with one risk that cannot be evaluated is not offered at all, which is the
/// safe side.
fn unusable_risk(risks: &[ConditionalUpdateRisk]) -> Option<String> {
    if risks.is_empty() || risks.len() > MAX_RISKS {
        return Some(format!("it has {} risks, and 1 to {MAX_RISKS} are allowed", risks.len()));
    }
    let mut names = BTreeSet::new();
    risks.iter().find_map(|risk| {
        let problem = if risk.name.is_empty() {
            "has no name"
        } else if risk.message.is_empty() {
            "has no message"
        } else if !is_uri(&risk.url) {
            "has no valid url"
        } else if risk.matching_rules.is_empty() {
            "has no rule that can be evaluated"
        } else if !names.insert(&risk.name) {
            "is listed twice"
        } else {
            return None;
        };
        Some(format!("its risk {:?} {problem}", risk.name))
    })
}

/// An absolute URL that the API server accepts too. Its parser is stricter than the one here, and it would refuse the
/// whole status because of one URL.
pub(crate) fn is_uri(text: &str) -> bool {
    let host = text.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?']).next().unwrap_or_default());
    let plain = |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-._~:[]@!$&'()*+,;=".contains(c);
    url::Url::parse(text).is_ok()
        && super::uri_problem(text).is_none()
        && text.trim() == text
        && host.chars().all(plain)
}

/// Excludes targets with several lists of risks, because nothing says which of them counts.
fn drop_contradictions(conditional: &mut Vec<ConditionalUpdate>, notes: &mut Vec<String>) {
    let mut lists: BTreeMap<String, usize> = BTreeMap::new();
    for update in conditional.iter() {
        *lists.entry(update.release.image.clone()).or_default() += 1;
    }
    lists.retain(|_, count| *count > 1);
    notes.extend(lists.iter().map(|(image, n)| format!("conditional update to {image}: {n} lists of risks: excluded")));
    conditional.retain(|update| !lists.contains_key(&update.release.image));
}

/// Sorts by version, highest first, and equal versions by image so that the order is stable; then cuts to what status can
/// hold.
fn sort(updates: &mut Updates, nodes: &[Node], versions: &[Version]) {
    let parsed: BTreeMap<&str, &Version> = nodes.iter().map(|n| n.version.as_str()).zip(versions).collect();
    let order = |a: &Release, b: &Release| {
        let by_version = match (parsed.get(b.version.as_str()), parsed.get(a.version.as_str())) {
            (Some(b), Some(a)) => version::precedence(b, a),
            _ => Ordering::Equal,
        };
        by_version.then_with(|| a.image.cmp(&b.image))
    };
    updates.available.sort_by(order);
    updates.conditional.sort_by(|a, b| order(&a.release, &b.release));
    let notes = [
        fit(&mut updates.available, MAX_AVAILABLE, MAX_LIST, "updates"),
        fit(&mut updates.conditional, MAX_CONDITIONAL, MAX_LIST, "conditional updates"),
    ];
    updates.notes.extend(notes.into_iter().flatten());
}

/// Keeps the first items that fit into status, at most `most` with `bytes` bytes as JSON, and returns a note about the others.
pub(crate) fn fit<T: Serialize>(list: &mut Vec<T>, most: usize, bytes: usize, what: &str) -> Option<String> {
    let mut free = bytes;
    let fits = |item: &T| {
        let bytes = serde_json::to_vec(item).map_or(usize::MAX, |json| json.len());
        free.checked_sub(bytes).map(|left| free = left).is_some()
    };
    let kept = list.iter().take(most).map(fits).take_while(|fits| *fits).count();
    let beyond = list.len() - kept;
    list.truncate(kept);
    (beyond > 0).then(|| format!("{beyond} {what} of the lowest versions: excluded, {kept} fit"))
}

#[cfg(test)]
mod tests;
