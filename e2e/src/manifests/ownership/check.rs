//! Checks one rollout by the table of owners.

use super::{
    KINDS, METADATA,
    Owns::{
        self, Additive, Block, Choose, Closed, Default, Entries, Fields, FieldsIfSet, Named, NamedAndOthers, Nothing,
        Ports, Server, Set, Text, Unordered, Whole, WholeIfSet,
    },
    Table,
};
use crate::manifests::{Kind, served};
use serde_json::{Map, Value};

/// The sides of one rollout; null is absent.
#[derive(Clone, Copy, Debug)]
pub struct Sides<'a> {
    /// What the release wants.
    pub manifest: &'a Value,
    /// A new object of this manifest, as the server makes it.
    pub created: &'a Value,
    /// The object before the rollout.
    pub live: &'a Value,
    /// The object afterwards.
    pub result: &'a Value,
}

/// The paths at which the rollout did not enforce what the release owns, or changed what it does not own.
pub fn problems(kind: &Kind, sides: Sides) -> Vec<String> {
    let group = kind.api_version.split_once('/').map_or("", |(group, _)| group);
    let listed = KINDS.iter().find(|(g, k, _)| *g == group && *k == kind.kind);
    let table = listed.map_or(&[][..], |(_, _, table)| table);
    // Constraints have Go types, too.
    let typed = |k: &Kind| k.kind == kind.kind && k.kind != "Gadget";
    let built_in = kind.kind == "SecurityContextConstraints" || served().iter().any(typed);
    let mut check = Check { built_in, listed: listed.is_some(), problems: Vec::new() };
    // Moved to the data by the server.
    let mut manifest = sides.manifest.clone();
    if let Some(text) = sides.manifest["stringData"].as_object().filter(|_| kind.kind == "Secret") {
        if !manifest["data"].is_object() {
            manifest["data"] = Value::Object(Map::new());
        }
        text.iter().for_each(|(key, value)| manifest["data"][key] = value.clone());
    }
    let sides = Sides { manifest: &manifest, ..sides };
    for key in sides.keys() {
        let owns = match key.as_str() {
            "metadata" => METADATA,
            "apiVersion" | "kind" | "status" => Server,
            _ => find(table, &key).unwrap_or(Set),
        };
        check.value(owns, &key, &key, sides, sides.at(&key));
    }
    check.problems
}

fn find(table: Table, key: &str) -> Option<Owns> {
    table.iter().find(|(name, _)| *name == key).map(|(_, owns)| *owns)
}

impl<'a> Sides<'a> {
    fn all(self) -> [&'a Value; 4] {
        [self.manifest, self.created, self.live, self.result]
    }

    fn at(self, key: &str) -> Sides<'a> {
        let [manifest, created, live, result] = self.all().map(|side| side.get(key).unwrap_or(&Value::Null));
        Sides { manifest, created, live, result }
    }

    fn keys(self) -> Vec<String> {
        let mut keys: Vec<String> =
            self.all().iter().filter_map(|side| side.as_object()).flat_map(|map| map.keys().cloned()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    /// The elements of this name.
    fn named(self, key: &str, name: &str) -> Sides<'a> {
        let [manifest, created, live, result] = self.all().map(|side| {
            let mut list = side.as_array().into_iter().flatten();
            list.find(|element| name_of(element, key) == name).unwrap_or(&Value::Null)
        });
        Sides { manifest, created, live, result }
    }
}

fn name_of<'a>(element: &'a Value, key: &str) -> &'a str {
    element[key].as_str().unwrap_or_default()
}

fn names<'a>(list: &'a Value, key: &str) -> Vec<&'a str> {
    list.as_array().into_iter().flatten().map(|element| name_of(element, key)).collect()
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        _ => false,
    }
}

fn is_zero(value: &Value) -> bool {
    is_nothing(value) || value == false || value == "" || value.as_f64() == Some(0.0)
}

/// Fields whose empty or false value is not the same as none.
const MEANINGFUL: &[&str] = &[
    "additionalProperties",
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "default",
    "downwardAPI",
    "emptyDir",
    "enableServiceLinks",
    "hostUsers",
    "labelSelector",
    "namespaceSelector",
    "objectSelector",
    "podSelector",
    "projected",
    "queuing",
    "runAsNonRoot",
    "selector",
];

/// A quantity in thousandths. Servers keep one of several ways to write it.
fn amount(value: &Value) -> Option<f64> {
    const SUFFIXES: [(&str, f64); 5] =
        [("m", 0.001), ("k", 1e3), ("M", 1e6), ("Mi", 1_048_576.0), ("Gi", 1_073_741_824.0)];
    match value {
        Value::Number(number) => number.as_f64().map(|n| n * 1000.0),
        Value::String(text) => {
            let number = text.trim_end_matches(char::is_alphabetic);
            let suffix = text.strip_prefix(number).unwrap_or_default();
            let scale = if suffix.is_empty() {
                Some(1.0)
            } else {
                SUFFIXES.iter().find(|(s, _)| *s == suffix).map(|(_, f)| *f)
            };
            number.parse::<f64>().ok().zip(scale).map(|(number, scale)| number * scale * 1000.0)
        }
        _ => None,
    }
}

struct Check {
    /// The kind is built into Kubernetes.
    built_in: bool,
    /// The table has the kind.
    listed: bool,
    problems: Vec<String>,
}

impl Check {
    /// Whether both mean the same. Empty lists and maps are absent, in built-in kinds also `false` and empty texts, and
    /// numbers are equal by value.
    fn same(&self, key: &str, a: &Value, b: &Value) -> bool {
        if MEANINGFUL.contains(&key) && a.is_null() != b.is_null() {
            return false;
        }
        let nothing = |value: &Value| is_nothing(value) || self.built_in && (value == false || value == "");
        match (a, b) {
            (Value::Object(a), Value::Object(b)) => {
                let value = |map: &Map<String, Value>, key: &str| map.get(key).cloned().unwrap_or_default();
                a.keys().chain(b.keys()).all(|key| self.same(key, &value(a, key), &value(b, key)))
            }
            (Value::Array(a), Value::Array(b)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| self.same("", a, b))
            }
            (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
            _ => a == b || nothing(a) && nothing(b) || amount(a).is_some() && amount(a) == amount(b),
        }
    }

    fn same_set(&self, a: &Value, b: &Value) -> bool {
        let list = |side: &Value| side.as_array().cloned().unwrap_or_default();
        let (a, mut left) = (list(a), list(b));
        a.len() == left.len()
            && a.iter().all(|a| match left.iter().position(|b| self.same("", a, b)) {
                Some(position) => {
                    left.remove(position);
                    true
                }
                None => false,
            })
    }

    /// Whether everything that the manifest sets is as in a new object.
    fn satisfied(&self, manifest: &Value, created: &Value, result: &Value) -> bool {
        match (manifest, created, result) {
            (Value::Array(m), Value::Array(c), Value::Array(r)) => {
                let mut elements = m.iter().zip(c).zip(r);
                c.len() == r.len() && m.len() == c.len() && elements.all(|((m, c), r)| self.satisfied(m, c, r))
            }
            (Value::Object(m), Value::Object(_), Value::Object(_)) => m.iter().all(|(key, m)| {
                let unset =
                    m.is_null() || m.as_object().is_some_and(Map::is_empty) || is_zero(m) && !is_zero(&created[key]);
                unset || self.satisfied(m, &created[key], &result[key])
            }),
            _ => self.same("", created, result),
        }
    }

    /// Whether the result has every element of the manifest's list.
    fn contained(&self, s: Sides) -> bool {
        let list = |side: &'_ Value| side.as_array().cloned().unwrap_or_default();
        let result = list(s.result);
        list(s.manifest).iter().zip(list(s.created)).all(|(m, c)| result.iter().any(|r| self.satisfied(m, &c, r)))
    }

    fn expect(&mut self, holds: bool, path: &str, what: &str, s: Sides) {
        if !holds {
            let show = |value: &Value| value.to_string().chars().take(240).collect::<String>();
            self.problems.push(format!(
                "{path} {what}:\n      manifest {}\n      created  {}\n      live     {}\n      result   {}",
                show(s.manifest),
                show(s.created),
                show(s.live),
                show(s.result)
            ));
        }
    }

    fn as_created(&mut self, key: &str, path: &str, s: Sides) {
        self.expect(self.same(key, s.created, s.result), path, "is not enforced", s);
    }

    fn stays(&mut self, key: &str, path: &str, s: Sides) {
        // Where nothing was, the server may have filled in what it fills into a new object.
        let filled = s.live.is_null() && self.same(key, s.created, s.result);
        self.expect(filled || self.same(key, s.live, s.result), path, "does not stay", s);
    }

    fn value(&mut self, owns: Owns, key: &str, path: &str, parent: Sides, s: Sides) {
        let unset = is_nothing(s.manifest);
        match owns {
            Server => {}
            Choose(choose) => self.value(choose(parent.manifest), key, path, parent, s),
            Whole => self.as_created(key, path, s),
            Unordered => self.expect(self.same_set(s.created, s.result), path, "is not enforced", s),
            Ports => {
                let [created, result] = [s.created, s.result].map(|side| {
                    let mut list = side.clone();
                    for port in
                        list.as_array_mut().into_iter().flatten().filter(|p| p["hostPort"] == p["containerPort"])
                    {
                        port.as_object_mut().unwrap().remove("hostPort");
                    }
                    list
                });
                self.expect(self.same_set(&created, &result), path, "is not enforced", s);
            }
            Default(json) => {
                let default: Value = serde_json::from_str(json).unwrap();
                let none = |side: &Value| side.is_null() || side == "";
                let [created, result] = [s.created, s.result].map(|side| if none(side) { &default } else { side });
                self.expect(self.same(key, created, result), path, "is not enforced", s);
            }
            Nothing => self.stays(key, path, s),
            WholeIfSet if s.manifest.is_null() => self.stays(key, path, s),
            WholeIfSet => self.as_created(key, path, s),
            Text if s.manifest.is_null() || s.manifest == "" => self.stays(key, path, s),
            Text => self.as_created(key, path, s),
            Set => self.set(key, path, s),
            Entries => self.entries(path, s),
            Block(_) if s.manifest.is_null() => self.as_created(key, path, s),
            FieldsIfSet(_) if s.manifest.is_null() => self.stays(key, path, s),
            Fields(table) | Block(table) | FieldsIfSet(table) => self.fields(table, Set, path, s),
            Closed(table) => self.fields(table, Whole, path, s),
            Additive if unset => self.stays(key, path, s),
            Additive => self.additive(path, s),
            Named(name, owns) => self.named(name, *owns, false, path, s),
            NamedAndOthers(_, _) if unset => self.stays(key, path, s),
            NamedAndOthers(name, owns) => self.named(name, *owns, true, path, s),
        }
    }

    fn fields(&mut self, table: Table, others: Owns, path: &str, s: Sides) {
        for key in s.keys() {
            let owns = find(table, &key).unwrap_or(others);
            self.value(owns, &key, &format!("{path}.{key}"), s, s.at(&key));
        }
    }

    fn set(&mut self, key: &str, path: &str, s: Sides) {
        let selector = |side: &Value| {
            let keys = ["matchLabels", "matchExpressions"];
            side.as_object().is_some_and(|map| !map.is_empty() && map.keys().all(|key| keys.contains(&key.as_str())))
        };
        match s.manifest {
            Value::Null => self.stays(key, path, s),
            // A mix of two selectors would select something else.
            Value::Object(_) if selector(s.manifest) || selector(s.live) => self.as_created(key, path, s),
            Value::Object(map) if map.is_empty() => self.stays(key, path, s),
            Value::Object(_) => self.fields(&[], Set, path, s),
            // Of kinds that the table does not have, others may own elements of a list with keys.
            Value::Array(list) if !self.listed && list.iter().all(Value::is_object) => {
                self.expect(self.contained(s), path, "is not enforced", s);
            }
            Value::Array(list) if !list.is_empty() => {
                self.expect(self.satisfied(s.manifest, s.created, s.result), path, "is not enforced", s);
            }
            // An empty value that the server fills in is the same as none.
            empty if is_zero(empty) && !is_zero(s.created) => {
                let holds = self.same(key, s.created, s.result) || self.same(key, s.live, s.result);
                self.expect(holds, path, "is neither enforced nor left", s);
            }
            _ => self.as_created(key, path, s),
        }
    }

    fn entries(&mut self, path: &str, s: Sides) {
        for key in s.keys() {
            // The server marks the pods of a job, and counts templates.
            if ["controller-uid", "job-name", "template.generation"].iter().any(|end| key.ends_with(end)) {
                continue;
            }
            let (entry, path) = (s.at(&key), format!("{path}[{key}]"));
            let same = |a: &Value, b: &Value| a == b || amount(a).is_some() && amount(a) == amount(b);
            if s.manifest.get(&key).is_some() {
                // The server makes an empty text of a null, but only of a built-in kind the release owns it.
                let left = entry.manifest.is_null() && !self.built_in && same(entry.live, entry.result);
                self.expect(left || same(entry.created, entry.result), &path, "is not enforced", entry);
            } else {
                self.expect(same(entry.live, entry.result), &path, "does not stay", entry);
            }
        }
    }

    fn additive(&mut self, path: &str, s: Sides) {
        let [created, live, result] =
            [s.created, s.live, s.result].map(|side| side.as_array().cloned().unwrap_or_default());
        let count = |list: &[Value], value: &Value| list.iter().filter(|other| self.same("", other, value)).count();
        let once = created.iter().all(|value| (1..=count(&created, value)).contains(&count(&result, value)));
        let kept = live.iter().all(|value| count(&result, value) > 0);
        let known = result.iter().all(|value| count(&created, value) + count(&live, value) > 0);
        self.expect(once, path, "has an element of the manifest not once", s);
        self.expect(kept, path, "lost what others added", s);
        self.expect(known, path, "has an element of nobody", s);
    }

    fn named(&mut self, key: &str, owns: Owns, others: bool, path: &str, s: Sides) {
        let wanted = names(s.manifest, key);
        if wanted.iter().any(|name| wanted.iter().filter(|other| *other == name).count() > 1) {
            // Elements of the same name cannot be known by it.
            return self.expect(self.same_set(s.created, s.result), path, "is not enforced", s);
        }
        let mut all = [names(s.live, key), names(s.result, key), wanted.clone()].concat();
        all.sort_unstable();
        all.dedup();
        for name in all {
            let (element, path) = (s.named(key, name), format!("{path}[{name}]"));
            if wanted.contains(&name) {
                self.expect(element.result.is_object(), &path, "is missing", element);
                self.value(owns, "", &path, element, element);
            } else if others {
                self.expect(self.same("", element.live, element.result), &path, "does not stay", element);
            } else {
                self.expect(element.result.is_null(), &path, "is not removed", element);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn problems_of(kind: &str, [manifest, created, live, result]: [Value; 4]) -> Vec<String> {
        let kind = crate::manifests::served().into_iter().find(|k| k.kind == kind).unwrap();
        let sides = Sides { manifest: &manifest, created: &created, live: &live, result: &result };
        problems(&kind, sides).iter().map(|text| text.lines().next().unwrap().to_owned()).collect()
    }

    #[test]
    fn what_is_not_enforced_or_does_not_stay_is_found() {
        let [a, b] = ["a", "b"].map(|v| json!({"data": {"own": v}}));
        let foreign = json!({"data": {"own": "b", "foreign": "x"}});
        let both = json!({"data": {"own": "a", "foreign": "x"}});
        for (live, result, expected) in [
            (&b, &a, vec![]),
            (&foreign, &both, vec![]),
            (&b, &b, vec!["data[own] is not enforced:"]),
            (&foreign, &a, vec!["data[foreign] does not stay:"]),
        ] {
            assert_eq!(problems_of("ConfigMap", [a.clone(), a.clone(), live.clone(), result.clone()]), expected);
        }
    }

    #[test]
    fn privileges_without_a_block_of_the_manifest_are_found() {
        let pod = |context: Value| json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "securityContext": context}]}}}});
        let granted = json!({"capabilities": {"add": ["SYS_ADMIN"]}});
        let path = "spec.template.spec.containers[c].securityContext.capabilities";
        for (manifest, result, expected) in [
            (json!({}), json!({}), vec![]),
            (json!({"capabilities": {}}), granted.clone(), vec![]),
            (json!({}), granted.clone(), vec![format!("{path} is not enforced:")]),
            (
                json!({"capabilities": {"drop": ["KILL"]}}),
                json!({"capabilities": {"drop": ["KILL"]}}),
                vec![format!("{path}.add does not stay:")],
            ),
        ] {
            let sides = [pod(manifest.clone()), pod(manifest), pod(granted.clone()), pod(result)];
            assert_eq!(problems_of("Deployment", sides), expected);
        }
    }
}
