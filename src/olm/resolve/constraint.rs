//! What an operator demands of others: APIs, packages, labels, rules, and combinations of them. Each is a question about one
//! operator.

pub(crate) mod scope;

use super::rule::Rule;
use crate::olm::version_range::VersionRange;
use serde_json::{Map, Value};
use std::fmt;

/// Bytes of JSON that are taken, and those that should be enough.
const MAX_BYTES: usize = 131_072;
const LARGE_BYTES: usize = 65_536;
const KINDS: [&str; 6] = ["gvk", "package", "cel", "all", "any", "not"];

/// Group, version and kind. In the order of their text, `<kind>.<version>.<group>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Api {
    pub kind: String,
    pub version: String,
    pub group: String,
}

impl Api {
    pub(crate) fn new(group: &str, version: &str, kind: &str) -> Self {
        Api { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
    }
}

/// As constraints name it: `<kind> (<group>/<version>)`.
impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}/{})", self.kind, self.group, self.version)
    }
}

impl Constraint {
    /// How many rules it has, at all depths.
    pub(crate) fn rules(&self) -> usize {
        match &self.demand {
            Demand::Cel(_) => 1,
            Demand::All(parts) | Demand::Any(parts) | Demand::Not(parts) => parts.iter().map(Constraint::rules).sum(),
            Demand::Api(_) | Demand::Package { .. } | Demand::Label(_) => 0,
        }
    }
}

/// A demand, and what its author says where it is not met.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Constraint {
    pub demand: Demand,
    pub failure_message: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Demand {
    Api(Api),
    /// With the range as it is written.
    Package {
        name: String,
        range: VersionRange,
        written: String,
    },
    Label(String),
    Cel(Rule),
    /// One operator has to meet all of these.
    All(Vec<Constraint>),
    Any(Vec<Constraint>),
    /// None of these.
    Not(Vec<Constraint>),
}

/// What is wrong with a constraint, each with its place, and what is only strange.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

impl Constraint {
    /// The value of an `olm.constraint`; everything that is wrong at any depth otherwise.
    pub(crate) fn parse(value: &Value) -> Result<Self, Vec<String>> {
        let mut findings = Findings::default();
        let parsed = parse(value, &mut findings);
        parsed.filter(|_| findings.errors.is_empty()).ok_or(findings.errors)
    }

    /// Everything that is wrong or strange with the value of an `olm.constraint`.
    pub(crate) fn judge(value: &Value) -> Findings {
        let mut findings = Findings::default();
        parse(value, &mut findings);
        findings
    }
}

impl From<Demand> for Constraint {
    fn from(demand: Demand) -> Self {
        Constraint { demand, failure_message: None }
    }
}

/// In the words that administrators know: `with package: etcd and with version in range: >3.1.0`.
impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = |list: &[Constraint], between: &str| -> String {
            list.iter().map(ToString::to_string).collect::<Vec<_>>().join(between)
        };
        match &self.demand {
            Demand::Api(Api { group, version, kind }) => {
                write!(f, "providing an API with group: {group}, version: {version}, kind: {kind}")
            }
            Demand::Package { name, written, .. } => {
                write!(f, "with package: {name} and with version in range: {written}")
            }
            Demand::Label(label) => write!(f, "with label: {label}"),
            Demand::Cel(rule) => {
                let message = self.failure_message.as_deref().unwrap_or_default();
                write!(f, "with constraint: {:?} and message: {message:?}", rule.text())
            }
            Demand::All(all) => f.write_str(&joined(all, " and ")),
            Demand::Any(any) => f.write_str(&joined(any, " or ")),
            Demand::Not(none) => f.write_str(&joined(none, " and not ")),
        }
    }
}

fn parse(value: &Value, findings: &mut Findings) -> Option<Constraint> {
    let bytes = value.to_string().len();
    if bytes > MAX_BYTES {
        findings.errors.push(format!("it has {bytes} bytes, and resolvers take {MAX_BYTES}: split it"));
        return None;
    } else if bytes > LARGE_BYTES {
        findings.warnings.push(format!("it has {bytes} bytes, and {LARGE_BYTES} are supported: split it"));
    }
    let parsed = constraint(value, "value", findings);
    if value.get("not").is_some() {
        let message = "not alone selects every other bundle there is: use it within all or any, beside what is wanted";
        findings.warnings.push(message.to_owned());
    }
    parsed
}

fn constraint(value: &Value, place: &str, findings: &mut Findings) -> Option<Constraint> {
    if value.is_null() {
        let message = "constraint is empty: what stands beside value does not count, so indent it below value";
        findings.errors.push(format!("{place}: {message}"));
        return None;
    }
    let Value::Object(map) = value else {
        findings.errors.push(format!("{place}: constraint is no mapping: write one such as {{gvk: …}}"));
        return None;
    };
    for key in map.keys().filter(|key| !KINDS.contains(&key.as_str()) && *key != "failureMessage") {
        findings.errors.push(format!("{place}.{key}: unknown key: there are failureMessage, {}", KINDS.join(", ")));
    }
    let message = map.get("failureMessage");
    if message.is_some_and(|message| !message.is_string() && !message.is_null()) {
        findings.errors.push(format!("{place}.failureMessage: it must be a text"));
    }
    let failure_message = message.and_then(Value::as_str).map(ToOwned::to_owned);
    let kinds: Vec<(&str, &Value)> = KINDS
        .into_iter()
        .filter_map(|kind| map.get(kind).filter(|value| !value.is_null()).map(|value| (kind, value)))
        .collect();
    match kinds.as_slice() {
        [] => findings.errors.push(format!("{place}: constraint is empty: write one of {}", KINDS.join(", "))),
        [(kind, Value::Object(inner))] => {
            let demand = of_kind(kind, inner, &format!("{place}.{kind}"), findings)?;
            return Some(Constraint { demand, failure_message });
        }
        [(kind, _)] => findings.errors.push(format!("{place}.{kind}: it must be a mapping")),
        several => {
            let names: Vec<&str> = several.iter().map(|(kind, _)| *kind).collect();
            findings.errors.push(format!(
                "{place}: {} are given, and only one may be: combine them with all or any",
                names.join(" and ")
            ));
        }
    }
    None
}

fn of_kind(kind: &str, map: &Map<String, Value>, place: &str, findings: &mut Findings) -> Option<Demand> {
    let known: &[&str] = match kind {
        "gvk" => &["group", "version", "kind"],
        "package" => &["packageName", "name", "versionRange"],
        "cel" => &["rule"],
        _ => &["constraints"],
    };
    for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
        findings.errors.push(format!("{place}.{key}: unknown key: there are {}", known.join(", ")));
    }
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    match kind {
        "gvk" => {
            for key in known.iter().filter(|key| text(key).is_empty()) {
                findings.errors.push(format!("{place}.{key}: it must be set"));
            }
            if text("kind").starts_with(|first: char| first.is_lowercase()) {
                let message = "kinds begin with a capital letter, so that nothing provides this one";
                findings.warnings.push(format!("{place}.kind: {:?}: {message}", text("kind")));
            }
            Some(Demand::Api(Api::new(text("group"), text("version"), text("kind"))))
        }
        "package" => package([text("packageName"), text("name"), text("versionRange")], place, findings),
        "cel" => {
            let rule = Rule::compile(text("rule"));
            rule.map(Demand::Cel).map_err(|error| findings.errors.push(format!("{place}.rule: {error}"))).ok()
        }
        _ => {
            let list = of_list(map.get("constraints"), place, findings)?;
            match kind {
                "all" => Some(Demand::All(list)),
                "any" => Some(Demand::Any(list)),
                _ => Some(Demand::Not(list)),
            }
        }
    }
}

fn package([name, alias, range]: [&str; 3], place: &str, findings: &mut Findings) -> Option<Demand> {
    if name.is_empty() && alias.is_empty() {
        findings.errors.push(format!("{place}.packageName: it must be set"));
    } else if name.is_empty() {
        findings.warnings.push(format!("{place}.name: others than this program know only packageName: write that"));
    }
    let name = if name.is_empty() { alias } else { name };
    match VersionRange::parse(range) {
        Ok(parsed) => Some(Demand::Package { name: name.to_owned(), range: parsed, written: range.to_owned() }),
        Err(error) => {
            findings.errors.push(format!("{place}.versionRange: {range:?} is no range: {error}"));
            None
        }
    }
}

fn of_list(list: Option<&Value>, place: &str, findings: &mut Findings) -> Option<Vec<Constraint>> {
    let Some(list) = list.and_then(Value::as_array).filter(|list| !list.is_empty()) else {
        findings.errors.push(format!("{place}.constraints: it must be a list that is not empty"));
        return None;
    };
    let each = list.iter().enumerate();
    let parsed: Vec<_> =
        each.map(|(number, inner)| constraint(inner, &format!("{place}.constraints[{number}]"), findings)).collect();
    parsed.into_iter().collect()
}

#[cfg(test)]
mod tests;
