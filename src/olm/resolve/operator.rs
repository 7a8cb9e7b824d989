//! An operator as a resolver knows it: a bundle of a catalog, or one that is installed, by its properties.

use super::constraint::scope::Scope;
use super::constraint::{Api, Constraint, Demand};
use super::rule::{ClusterVersions, Properties};
use crate::olm::names::property::{
    CONSTRAINT, CONSTRAINT_SCOPE, DEPRECATED, GVK, GVK_REQUIRED, LABEL, LABEL_REQUIRED, PACKAGE, PACKAGE_REQUIRED,
};
use crate::olm::version_range::VersionRange;
use crate::version::parse_tolerant;
use semver::Version;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Operator {
    /// Of its ClusterServiceVersion.
    pub name: String,
    /// Empty if it is not known.
    pub package: String,
    pub version: Option<Version>,
    pub provides: BTreeSet<Api>,
    /// In the order of its properties.
    pub requires: Vec<Constraint>,
    pub labels: BTreeSet<String>,
    pub deprecated: bool,
    /// Why it can never be installed: a property that cannot be read.
    pub unreadable: Option<String>,
    properties: Vec<(String, Value)>,
    cluster: ClusterVersions,
    seen_by_rules: OnceLock<Properties>,
}

impl Operator {
    /// Values of its properties of this type.
    pub(crate) fn values(&self, kind: &str) -> impl Iterator<Item = &Value> {
        self.properties.iter().filter(move |(of, _)| of == kind).map(|(_, value)| value)
    }

    /// Of type and value of each property. Types that nobody knows are seen by rules only. A property of a known type that cannot be
    /// read makes the operator one that cannot be installed; it is named.
    pub(crate) fn new(name: &str, properties: Vec<(String, Value)>, cluster: &ClusterVersions) -> Self {
        let mut operator = Operator {
            name: name.to_owned(),
            package: String::new(),
            version: None,
            provides: BTreeSet::new(),
            requires: Vec::new(),
            labels: BTreeSet::new(),
            deprecated: false,
            unreadable: None,
            properties,
            cluster: cluster.clone(),
            seen_by_rules: OnceLock::new(),
        };
        let properties = std::mem::take(&mut operator.properties);
        let mut scope = Scope::default();
        for (number, (kind, value)) in properties.iter().enumerate() {
            let read = match kind.as_str() {
                CONSTRAINT_SCOPE => Scope::parse(value).map(|found| scope = found),
                _ => operator.read(kind, value),
            };
            if let Err(cause) = read {
                let text = format!("parse {kind} (properties[{number}]): {cause}");
                operator.unreadable.get_or_insert(text);
            }
        }
        if scope == Scope::Set {
            operator.split_requirements();
        }
        operator.properties = properties;
        operator
    }

    /// Splits what it requires into what different operators may meet.
    fn split_requirements(&mut self) {
        let mut parts = Vec::new();
        for constraint in std::mem::take(&mut self.requires) {
            match constraint.parts() {
                Ok(found) => parts.extend(found),
                Err(cause) => {
                    self.unreadable.get_or_insert(format!("parse {CONSTRAINT}: {cause}"));
                }
            }
        }
        self.requires = parts;
    }

    fn read(&mut self, kind: &str, value: &Value) -> Result<(), String> {
        match kind {
            PACKAGE => {
                let [name, version] = texts(value, ["packageName", "version"])?;
                name.clone_into(&mut self.package);
                self.version = Some(parse_tolerant(version).map_err(|error| error.to_string())?);
            }
            GVK => {
                self.provides.insert(api(value)?);
            }
            GVK_REQUIRED => self.requires.push(Demand::Api(api(value)?).into()),
            PACKAGE_REQUIRED => {
                let [name, written] = texts(value, ["packageName", "versionRange"])?;
                let range =
                    VersionRange::parse(written).map_err(|error| format!("{written:?} is no range: {error}"))?;
                let demand = Demand::Package { name: name.to_owned(), range, written: written.to_owned() };
                self.requires.push(demand.into());
            }
            LABEL => {
                let [label] = texts(value, ["label"])?;
                self.labels.insert(label.to_owned());
            }
            LABEL_REQUIRED => {
                let [label] = texts(value, ["label"])?;
                self.requires.push(Demand::Label(label.to_owned()).into());
            }
            CONSTRAINT => self.requires.push(Constraint::parse(value).map_err(|errors| errors.join("; "))?),
            DEPRECATED => self.deprecated = true,
            _ => {}
        }
        Ok(())
    }

    /// Whether it is what a constraint demands. A rule without a verdict does not hold.
    pub(crate) fn meets(&self, constraint: &Constraint) -> bool {
        match &constraint.demand {
            Demand::Api(api) => self.provides.contains(api),
            Demand::Package { name, range, .. } => {
                self.package == *name && self.version.as_ref().is_some_and(|version| range.contains(version))
            }
            Demand::Label(label) => self.labels.contains(label),
            Demand::Cel(rule) => rule.holds(self.seen_by_rules()) == Ok(true),
            Demand::All(all) => all.iter().all(|it| self.meets(it)),
            Demand::Any(any) => any.iter().any(|it| self.meets(it)),
            Demand::Not(none) => !none.iter().any(|it| self.meets(it)),
        }
    }

    /// Type and value of each.
    pub(crate) fn properties(&self) -> &[(String, Value)] {
        &self.properties
    }

    /// Its properties for rules, made when the first one asks.
    fn seen_by_rules(&self) -> &Properties {
        let properties = || self.properties.iter().map(|(kind, value)| (kind.as_str(), value));
        self.seen_by_rules.get_or_init(|| Properties::new(properties(), &self.cluster))
    }
}

fn api(value: &Value) -> Result<Api, String> {
    texts(value, ["group", "version", "kind"]).map(|[group, version, kind]| Api::new(group, version, kind))
}

/// Members of a mapping that have to be texts. The group of an API may be empty.
fn texts<'a, const N: usize>(value: &'a Value, keys: [&str; N]) -> Result<[&'a str; N], String> {
    let text = |key: &str| {
        let text = value.get(key).and_then(Value::as_str);
        text.filter(|text| !text.is_empty() || key == "group")
    };
    match keys.iter().find(|key| text(key).is_none()) {
        None => Ok(keys.map(|key| text(key).unwrap_or_default())),
        Some(key) => Err(format!("value.{key} must be set, as a text")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn operator(properties: &[(&str, Value)]) -> Operator {
        let properties = properties.iter().map(|(kind, value)| ((*kind).to_owned(), value.clone())).collect();
        Operator::new("a.v1", properties, &ClusterVersions::default())
    }

    #[test]
    fn properties_say_what_an_operator_is_and_requires() {
        let found = operator(&[
            ("olm.package", json!({"packageName": "a", "version": "1.0.0"})),
            ("olm.gvk", json!({"group": "example.com", "version": "v1", "kind": "A"})),
            ("olm.gvk", json!({"group": "", "version": "v1", "kind": "Core"})),
            ("olm.label", json!({"label": "certified"})),
            ("olm.gvk.required", json!({"group": "example.com", "version": "v1", "kind": "B"})),
            ("olm.package.required", json!({"packageName": "c", "versionRange": ">1.0.0"})),
            ("olm.label.required", json!({"label": "stable"})),
            ("olm.constraint", json!({"gvk": {"group": "example.com", "version": "v1", "kind": "D"}})),
            ("olm.deprecated", json!({})),
            ("unknown", json!(5)),
        ]);
        assert_eq!((found.package.as_str(), found.unreadable.as_deref()), ("a", None));
        assert_eq!(found.version, Some(Version::new(1, 0, 0)));
        let provided: Vec<String> = found.provides.iter().map(ToString::to_string).collect();
        assert_eq!(provided, ["A (example.com/v1)", "Core (/v1)"]);
        let required: Vec<String> = found.requires.iter().map(ToString::to_string).collect();
        assert_eq!(
            required,
            [
                "providing an API with group: example.com, version: v1, kind: B",
                "with package: c and with version in range: >1.0.0",
                "with label: stable",
                "providing an API with group: example.com, version: v1, kind: D",
            ]
        );
        assert!(found.labels.contains("certified") && found.deprecated);
        assert!(!operator(&[("olm.label", json!({"label": "x"}))]).deprecated);
    }

    fn with(package: &str, version: &str, kinds: &[&str]) -> Operator {
        let mut all = vec![("olm.package", json!({"packageName": package, "version": version}))];
        all.extend(kinds.iter().map(|kind| ("olm.gvk", json!({"group": "g", "version": "v1", "kind": kind}))));
        all.push((version, json!(null)));
        operator(&all)
    }

    #[test]
    fn operator_meets_what_all_parts_of_a_constraint_demand_of_it() {
        let gvk = |kind: &str| json!({"gvk": {"group": "g", "version": "v1", "kind": kind}});
        let package = |range: &str| json!({"package": {"packageName": "x", "versionRange": range}});
        let cel = |kind: &str| json!({"cel": {"rule": format!("properties.exists(p, p.type == {kind:?})")}});
        for (constraint, met, not_met) in [
            (gvk("K"), vec![with("x", "1.0.0", &["K"])], vec![with("x", "1.0.0", &["L"])]),
            (package(">=1.0.0"), vec![with("x", "1.0.0", &[])], vec![with("x", "0.9.0", &[]), with("y", "1.0.0", &[])]),
            (cel("1.0.0"), vec![with("x", "1.0.0", &[])], vec![with("x", "1.0.1", &[])]),
            (json!({"cel": {"rule": "nothing"}}), vec![], vec![with("x", "1.0.0", &[])]),
            (
                json!({"all": {"constraints": [package(">=1.0.0"), gvk("K")]}}),
                vec![with("x", "1.0.0", &["K"])],
                vec![with("x", "0.9.0", &["K"]), with("x", "1.0.0", &[])],
            ),
            (
                json!({"any": {"constraints": [gvk("K"), gvk("L")]}}),
                vec![with("x", "1.0.0", &["K"]), with("y", "1.0.0", &["L"])],
                vec![with("x", "1.0.0", &["M"])],
            ),
            (
                json!({"all": {"constraints": [gvk("K"), {"not": {"constraints": [package("1.0.1"), cel("red")]}}]}}),
                vec![with("x", "1.0.0", &["K"])],
                vec![with("x", "1.0.1", &["K"]), with("x", "1.0.0", &[])],
            ),
        ] {
            let constraint = Constraint::parse(&constraint).unwrap();
            assert!(met.iter().all(|operator| operator.meets(&constraint)), "{constraint}");
            assert!(!not_met.iter().any(|operator| operator.meets(&constraint)), "{constraint}");
        }
    }

    #[test]
    fn property_that_cannot_be_read_excludes_its_operator_and_is_named() {
        for (kind, value, expected) in [
            ("olm.package", json!({"packageName": "a"}), "parse olm.package (properties[0]): value.version"),
            ("olm.package", json!({"packageName": "a", "version": "one"}), "\"one\""),
            ("olm.gvk", json!({"group": "a", "version": "v1"}), "value.kind"),
            ("olm.gvk.required", json!([]), "value.group"),
            ("olm.package.required", json!({"packageName": "a", "versionRange": "~1"}), "\"~1\" is no range"),
            ("olm.label.required", json!({"label": 5}), "value.label"),
            ("olm.constraint", json!({"labels": {}}), "value.labels: unknown key"),
            ("olm.constraint", json!(null), "constraint is empty"),
            ("olm.constraint", json!([]), "constraint is no mapping"),
            ("olm.constraint.scope", json!("all"), "value must be set"),
        ] {
            let found = operator(&[(kind, value)]);
            let cause = found.unreadable.unwrap();
            assert!(cause.contains(expected), "{cause}");
        }
    }
}
