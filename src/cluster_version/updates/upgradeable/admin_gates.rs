//! Gates that a release sets before the next minor version, each to be acknowledged by an administrator. The key of a gate
//! is `ack-<major>.<minor>-<name>`; it counts while the cluster is at that minor version, and until the same key of the
//! administrator's ConfigMap says `true`.

use crate::cluster_version::status::Risk;
use crate::object::read::Read;
use crate::version;
use serde::Serialize;
use std::collections::BTreeMap;

/// Where the gates of a release are, and where an administrator acknowledges them.
pub(super) const GATES: &str = "openshift-config-managed/admin-gates";
pub(super) const ACKS: &str = "openshift-config/admin-acks";

/// The majors that gates may be for.
const MAJORS: [u64; 2] = [4, 5];

type Data = BTreeMap<String, String>;

/// A gate of the present minor version, or one that counts at any because its key names none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Gate {
    pub name: String,
    /// What it asks for.
    pub text: String,
    pub acknowledged: bool,
    /// Why it cannot be acknowledged: the release has to be corrected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub invalid: Option<String>,
}

/// All gates that count at the present minor version, by name, or why they are not known.
pub(crate) fn gates(current: &str, gates: &Read<Data>, acks: &Read<Data>) -> Result<Vec<Gate>, String> {
    let minor = version::minor(current)
        .ok_or_else(|| format!("the version of the cluster, {current:?}, is not a semantic version"))?;
    let gates = match gates {
        Read::Value(gates) => gates,
        Read::Absent => return Err(format!("ConfigMap {GATES} of the release does not exist")),
        Read::Failed(cause) => return Err(format!("ConfigMap {GATES} cannot be read: {cause}")),
    };
    let counting = gates.iter().filter(|(key, _)| minor_of(key).is_none_or(|of| of == minor));
    let gate = |(key, text): (&String, &String)| Gate {
        name: key.clone(),
        text: text.clone(),
        acknowledged: gate(key, text, minor, acks).is_none(),
        invalid: problem(key, text),
    };
    Ok(counting.map(gate).collect())
}

/// The gates that are not acknowledged, by name.
pub(super) fn risks(current: &str, gates: &Read<Data>, acks: &Read<Data>, url: &str) -> Vec<Risk> {
    let unknown = |cause: String| {
        let message = format!("Which updates wait for the acknowledgement of an administrator is not known: {cause}");
        vec![Risk { name: "AdminAckUnknown".to_owned(), message, url: url.to_owned() }]
    };
    let gates = match gates {
        Read::Value(gates) => gates,
        Read::Absent => return unknown(format!("ConfigMap {GATES} of the release does not exist")),
        Read::Failed(cause) => return unknown(format!("ConfigMap {GATES} cannot be read: {cause}")),
    };
    let Some(minor) = version::minor(current) else {
        return unknown(format!("the version of the cluster, {current:?}, is not a semantic version"));
    };
    let open = gates.iter().filter_map(|(key, text)| {
        let (reason, link) = gate(key, text, minor, acks)?;
        let url = link.map_or_else(|| url.to_owned(), str::to_owned);
        Some(Risk { name: format!("AdminAck-{key}"), message: reason, url })
    });
    open.collect()
}

/// Why the gate is not passed, and the address in its text; `None` if it is passed or does not count at this minor version.
fn gate<'a>(key: &str, text: &'a str, current: (u64, u64), acks: &Read<Data>) -> Option<(String, Option<&'a str>)> {
    if minor_of(key).is_some_and(|minor| minor != current) {
        return None;
    }
    if let Some(problem) = problem(key, text) {
        return Some((problem, None));
    }
    let way_out = match acks {
        Read::Value(acks) => match acks.get(key).map(String::as_str) {
            Some("true") => return None,
            Some(other) => format!("ConfigMap {ACKS} says {other:?} for {key}, and only \"true\" counts"),
            None => format!("to acknowledge it, set {key} to \"true\" in ConfigMap {ACKS}"),
        },
        Read::Absent => format!("to acknowledge it, create ConfigMap {ACKS} with {key}: \"true\""),
        Read::Failed(cause) => format!("whether it is acknowledged in ConfigMap {ACKS} is not known: {cause}"),
    };
    Some((format!("{text} ({way_out})"), address(text)))
}

/// Why nobody can pass the gate.
fn problem(key: &str, text: &str) -> Option<String> {
    if minor_of(key).is_none() {
        let form = "ack-<major>.<minor>-<name>, with the major version 4 or 5";
        return Some(format!("ConfigMap {GATES}: the gate {key:?} is invalid, its key must be {form}"));
    }
    text.is_empty().then(|| format!("ConfigMap {GATES}: the gate {key} has no text, it must say what it asks for"))
}

/// The minor version in the key of a gate.
fn minor_of(key: &str) -> Option<(u64, u64)> {
    let (version, name) = key.strip_prefix("ack-")?.split_once('-')?;
    let (major, minor) = version.split_once('.')?;
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse::<u64>().ok()).flatten();
    let (major, minor) = (number(major)?, number(minor)?);
    (MAJORS.contains(&major) && !name.is_empty() && !name.starts_with('-')).then_some((major, minor))
}

/// The first `https://` address in a text.
fn address(text: &str) -> Option<&str> {
    let from = text.get(text.find("https://")?..)?;
    from.split_whitespace().next()
}
