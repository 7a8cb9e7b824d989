//! Compares a live object with a desired one by the rules, and merges them where they differ. Copies a part of the live
//! object only if something in it differs.

use super::equal;
use super::rule::{
    Absent, CLOSED, ENTRIES, ENTRIES_WHOLE, Elements, Extra, Field, OPEN, Order, QUANTITIES, Rule, Shape, WHOLE_DEEP,
    WHOLE_EXACT,
};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;

/// The result of merging one live value.
#[derive(Debug, PartialEq)]
pub(super) enum Merged {
    Keep,
    Set(Value),
    Remove,
}

/// A path in the object. It is only formatted if something differs there.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Step<'a> {
    Root,
    Key(&'a str),
    Index(usize),
    Element(&'a str),
}

impl<'a> At<'a> {
    pub(super) const ROOT: At<'static> = At { parent: None, step: Step::Root };

    fn then(&'a self, step: Step<'a>) -> At<'a> {
        At { parent: Some(self), step }
    }

    fn name(&self) -> &'a str {
        if let Step::Key(name) = self.step { name } else { "" }
    }

    fn write(&self, out: &mut String) {
        if let Some(parent) = self.parent {
            parent.write(out);
        }
        // Writing into a String cannot fail.
        let _ = match self.step {
            Step::Root => Ok(()),
            Step::Key(key) if key.contains(['.', '/', '[']) => write!(out, "[{key}]"),
            Step::Key(key) if out.is_empty() => write!(out, "{key}"),
            Step::Key(key) => write!(out, ".{key}"),
            Step::Index(index) => write!(out, "[{index}]"),
            Step::Element(name) => write!(out, "[{name}]"),
        };
    }
}

/// What API servers with Go types read for null in a map of text or of quantities.
static EMPTY_TEXT: Value = Value::String(String::new());
static ZERO: LazyLock<Value> = LazyLock::new(|| Value::from("0"));

/// One comparison.
#[derive(Debug)]
pub(super) struct Walk {
    zero_is_absent: bool,
    /// Whether differences are not recorded.
    quiet: bool,
    /// Paths that differ, in the order in which they were found.
    pub differences: Vec<String>,
}

impl Walk {
    /// `zero_is_absent`: the API server omits `false`, `0` and empty strings (see [`equal::blank`]).
    pub(super) fn new(zero_is_absent: bool) -> Self {
        Walk { zero_is_absent, quiet: false, differences: Vec::new() }
    }

    fn differs(&mut self, at: &At<'_>) {
        if !self.quiet {
            let mut path = String::new();
            at.write(&mut path);
            self.differences.push(path);
        }
    }

    fn blank(&self, key: &str, value: &Value) -> bool {
        equal::blank(key, value, self.zero_is_absent)
    }

    fn equal(&mut self, rule: Rule, live: &Value, desired: &Value) -> bool {
        let before = std::mem::replace(&mut self.quiet, true);
        let merged = self.value(rule, live, desired, &At::ROOT);
        self.quiet = before;
        merged == Merged::Keep
    }

    fn replace(&mut self, desired: &Value, at: &At<'_>) -> Merged {
        self.differs(at);
        Merged::Set(desired.clone())
    }

    fn clear(&mut self, live: &Value, at: &At<'_>) -> Merged {
        if self.blank(at.name(), live) {
            return Merged::Keep;
        }
        self.differs(at);
        Merged::Remove
    }

    /// Merges a value that exists on both sides.
    pub(super) fn value(&mut self, rule: Rule, live: &Value, desired: &Value, at: &At<'_>) -> Merged {
        let (shape, elements) = match (rule, at.name()) {
            (Rule::Never, _) => return Merged::Keep,
            (Rule::Json, _) if equal::json(live, desired) => return Merged::Keep,
            (Rule::Json, _) => return self.replace(desired, at),
            (Rule::Within(rule), _) => return self.value(rule(), live, desired, at),
            (Rule::Map(shape), _) => (shape, WHOLE_DEEP),
            (Rule::List(elements), _) => (OPEN, elements),
            (Rule::Deep, "limits" | "requests" | "hard" | "capacity") => {
                return self.named(QUANTITIES, live, desired, at);
            }
            (Rule::Deep, "matchLabels" | "nodeSelector" | "parameters") => {
                return self.named(ENTRIES, live, desired, at);
            }
            (Rule::Exact, "matchLabels") => return self.named(ENTRIES_WHOLE, live, desired, at),
            (Rule::Exact | Rule::Selector, _) => (CLOSED, WHOLE_EXACT),
            // A mix of the live and the desired selector would select the wrong objects.
            (Rule::Deep, _) if equal::is_selector(live, desired) => {
                return self.value(Rule::Selector, live, desired, at);
            }
            _ => (OPEN, WHOLE_DEEP),
        };
        match (live, desired) {
            (Value::Object(live), Value::Object(desired)) => self.map(shape, live, desired, at),
            (Value::Array(live), Value::Array(desired)) => self.list(elements, live, desired, at),
            _ if equal::same(rule, live, desired) => Merged::Keep,
            _ => self.replace(desired, at),
        }
    }

    /// Merges a field whose name means the same kind of map in every object.
    fn named(&mut self, rule: Rule, live: &Value, desired: &Value, at: &At<'_>) -> Merged {
        match (rule, live, desired) {
            (Rule::Map(shape), Value::Object(live), Value::Object(desired)) => self.map(shape, live, desired, at),
            (_, Value::Array(live), Value::Array(desired)) => self.list(WHOLE_DEEP, live, desired, at),
            _ if equal::same(Rule::Deep, live, desired) => Merged::Keep,
            _ => self.replace(desired, at),
        }
    }

    fn map<'a>(
        &mut self,
        shape: &Shape,
        live: &'a Map<String, Value>,
        desired: &'a Map<String, Value>,
        at: &At<'_>,
    ) -> Merged {
        let mut changes = Vec::new();
        let null_is_zero = shape.verbatim && self.zero_is_absent;
        let decoded = |value: &'a Value| -> &'a Value {
            match (value, shape.others) {
                (Value::Null, Rule::Quantity) if null_is_zero => &ZERO,
                (Value::Null, _) if null_is_zero => &EMPTY_TEXT,
                _ => value,
            }
        };
        for (key, value) in desired {
            if self.is_set(shape, key, decoded(value)) {
                let rule = shape.rule(key, desired);
                let live = live.get(key).map(decoded);
                let merged = self.entry(shape, rule, live, decoded(value), &at.then(Step::Key(key)));
                changes.push((key.as_str(), merged));
            }
        }
        for field in shape.fields() {
            if desired.get(field.name).is_some_and(|value| self.is_set(shape, field.name, value)) {
                continue;
            }
            // In an object that no API server has normalised a field that is not set may be null or empty.
            if let Some(value) = live.get(field.name).filter(|value| self.is_set(shape, field.name, value)) {
                let merged = self.unset(field, value, desired, &at.then(Step::Key(field.name)));
                changes.push((field.name, merged));
            }
        }
        if shape.extra == Extra::Remove {
            for (key, value) in live {
                // A null of the manifest means that it has no such key.
                let wanted = desired.get(key).is_some_and(|value| !decoded(value).is_null());
                if shape.field(key).is_none() && !wanted && !decoded(value).is_null() {
                    let at = at.then(Step::Key(key));
                    let merged = if shape.verbatim {
                        self.differs(&at);
                        Merged::Remove
                    } else {
                        self.clear(value, &at)
                    };
                    changes.push((key.as_str(), merged));
                }
            }
        }
        applied(live, changes)
    }

    /// Whether a field with this value is set. It is not if the value is null, or empty and an API server with Go types would
    /// replace it by a default.
    fn is_set(&self, shape: &Shape, key: &str, value: &Value) -> bool {
        if shape.verbatim || !self.zero_is_absent {
            return !value.is_null();
        }
        let defaulted = shape.field(key).is_some_and(Field::has_scalar_default);
        !value.is_null() && !equal::filled(key, value, defaulted)
    }

    fn entry(&mut self, shape: &Shape, rule: Rule, live: Option<&Value>, desired: &Value, at: &At<'_>) -> Merged {
        match live {
            _ if matches!(rule, Rule::Never) => Merged::Keep,
            _ if matches!((rule, live), (Rule::Selector | Rule::Json, None)) => self.replace(desired, at),
            None | Some(Value::Null) if !shape.verbatim && self.blank(at.name(), desired) => Merged::Keep,
            None => self.replace(desired, at),
            Some(live) => self.value(rule, live, desired, at),
        }
    }

    /// Merges a field that is only set in the live object.
    fn unset(&mut self, field: &Field, live: &Value, desired: &Map<String, Value>, at: &At<'_>) -> Merged {
        let default = match field.absent {
            Absent::Leave => return Merged::Keep,
            Absent::Clear => None,
            Absent::Empty => Some(Value::Object(Map::new())),
            Absent::Text(text) => Some(Value::from(text)),
            Absent::Int(number) => Some(Value::from(number)),
            Absent::Bool(set) => Some(Value::from(set)),
            Absent::Infer(infer) => match infer(desired) {
                None => return Merged::Keep,
                inferred => inferred,
            },
            Absent::Derive(derive) => derive(desired),
            Absent::Tolerate(tolerate) => match tolerate(desired) {
                Some(value) if equal::same(field.rule, live, &value) => return Merged::Keep,
                _ => None,
            },
        };
        match default {
            Some(default) => self.value(field.rule.resolved(desired), live, &default, at),
            None if matches!(field.rule, Rule::Selector | Rule::Json) => {
                self.differs(at);
                Merged::Remove
            }
            None => self.clear(live, at),
        }
    }

    fn list(&mut self, elements: &Elements, live: &[Value], desired: &[Value], at: &At<'_>) -> Merged {
        match elements {
            Elements::Whole(rule) => self.whole(*rule, live, desired, at),
            Elements::Unordered(rule) => self.unordered(*rule, live, desired, at),
            Elements::Additive(rule) => self.additive(*rule, live, desired, at),
            Elements::Keyed { key, rule, extra, order } => {
                let names: BTreeSet<&str> = desired.iter().map(|element| name_of(element, key)).collect();
                if names.len() < desired.len() {
                    // Elements of the same name cannot be matched by name.
                    return self.whole(Rule::Exact, live, desired, at);
                }
                self.keyed(&Keyed { key, rule: *rule, extra: *extra, order: *order }, live, desired, at)
            }
        }
    }

    fn whole(&mut self, rule: Rule, live: &[Value], desired: &[Value], at: &At<'_>) -> Merged {
        if live.len() != desired.len() {
            self.differs(at);
            return Merged::Set(Value::Array(desired.to_vec()));
        }
        let mut changed = false;
        let mut list = Vec::new();
        for (index, (live, desired)) in live.iter().zip(desired).enumerate() {
            let same = self.value(rule, live, desired, &at.then(Step::Index(index))) == Merged::Keep;
            changed |= !same;
            // The live element is not merged, since the defaults in it may belong to a different element.
            list.push(if same { live } else { desired });
        }
        if changed { Merged::Set(list.into_iter().cloned().collect()) } else { Merged::Keep }
    }

    fn unordered(&mut self, rule: Rule, live: &[Value], desired: &[Value], at: &At<'_>) -> Merged {
        let mut unmatched: Vec<&Value> = live.iter().collect();
        for value in desired {
            match unmatched.iter().position(|live| self.equal(rule, live, value)) {
                Some(position) => drop(unmatched.swap_remove(position)),
                None => return self.replace(&Value::Array(desired.to_vec()), at),
            }
        }
        if unmatched.is_empty() { Merged::Keep } else { self.replace(&Value::Array(desired.to_vec()), at) }
    }

    fn additive(&mut self, rule: Rule, live: &[Value], desired: &[Value], at: &At<'_>) -> Merged {
        let mut list: Vec<&Value> = live.iter().collect();
        for value in desired {
            // As many repetitions stay as the manifest has.
            let count = desired.iter().filter(|other| self.equal(rule, other, value)).count();
            let mut found = 0;
            list.retain(|live| {
                let same = self.equal(rule, live, value);
                found += usize::from(same);
                !same || found <= count
            });
            if found == 0 {
                list.push(value);
            }
        }
        if list.len() == live.len() && list.iter().zip(live).all(|(a, b)| std::ptr::eq(*a, b)) {
            return Merged::Keep;
        }
        self.differs(at);
        Merged::Set(list.into_iter().cloned().collect())
    }

    fn keyed(&mut self, how: &Keyed, live: &[Value], desired: &[Value], at: &At<'_>) -> Merged {
        let position = |name: &str| desired.iter().position(|value| name_of(value, how.key) == name);
        let before = self.differences.len();
        let mut changed = false;
        let mut matched = BTreeSet::new();
        // (position in the manifest, element)
        let mut list: Vec<(Option<usize>, Value)> = Vec::new();
        for element in live {
            let name = name_of(element, how.key);
            let here = at.then(Step::Element(name));
            let place = position(name);
            let value = place.and_then(|place| desired.get(place));
            let merged = match value {
                Some(value) if matched.insert(name) => self.value(how.rule, element, value, &here),
                None if how.extra == Extra::Keep => Merged::Keep,
                _ => {
                    self.differs(&here);
                    Merged::Remove
                }
            };
            changed |= merged != Merged::Keep;
            match merged {
                Merged::Keep => list.push((place, element.clone())),
                Merged::Set(value) => list.push((place, value)),
                Merged::Remove => {}
            }
        }
        for (place, value) in desired.iter().enumerate() {
            let name = name_of(value, how.key);
            if !matched.contains(name) {
                self.differs(&at.then(Step::Element(name)));
                changed = true;
                list.push((Some(place), value.clone()));
            }
        }
        if how.order == Order::Manifest && !list.is_sorted_by_key(|(place, _)| place.unwrap_or(usize::MAX)) {
            list.sort_by_key(|(place, _)| place.unwrap_or(usize::MAX));
            changed = true;
            if self.differences.len() == before {
                self.differs(at);
            }
        }
        if changed { Merged::Set(list.into_iter().map(|(_, value)| value).collect()) } else { Merged::Keep }
    }
}

struct Keyed {
    key: &'static str,
    rule: Rule,
    extra: Extra,
    order: Order,
}

impl Shape {
    fn fields(&self) -> impl Iterator<Item = &'static Field> + use<> {
        self.base.iter().chain(self.fields)
    }

    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.name == name)
    }

    pub(super) fn rule(&self, name: &str, desired: &Map<String, Value>) -> Rule {
        self.field(name).map_or(self.others, |field| field.rule).resolved(desired)
    }
}

impl Rule {
    /// The rule that applies beside these fields of the manifest.
    fn resolved(self, desired: &Map<String, Value>) -> Rule {
        if let Rule::Choose(choose) = self { choose(desired) } else { self }
    }
}

fn name_of<'a>(element: &'a Value, key: &str) -> &'a str {
    element.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The live map with these changes.
fn applied(live: &Map<String, Value>, changes: Vec<(&str, Merged)>) -> Merged {
    if changes.iter().all(|(_, change)| *change == Merged::Keep) {
        return Merged::Keep;
    }
    let mut merged = live.clone();
    for (key, change) in changes {
        match change {
            Merged::Keep => {}
            Merged::Set(value) => drop(merged.insert(key.to_owned(), value)),
            Merged::Remove => drop(merged.remove(key)),
        }
    }
    Merged::Set(Value::Object(merged))
}
