//! Walks a live object and a manifest side by side, as the rules say, and notes where they differ. Copies nothing of
//! the live object unless something below differs.

use super::equal;
use super::rule::{
    AMOUNTS, Absent, CLOSED, ENTRIES, ENTRIES_WHOLE, Elements, Extra, Field, OPEN, Order, Rule, Shape, WHOLE_DEEP,
    WHOLE_EXACT,
};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::LazyLock;

/// What becomes of one live value.
#[derive(Debug, PartialEq)]
pub(super) enum Settled {
    Keep,
    Set(Value),
    Remove,
}

/// Where in the object we are; formatted only when something differs.
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

/// What a typed server reads for null among data: an empty text, or no amount.
static EMPTY: Value = Value::String(String::new());
static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::from("0"));

/// One comparison.
#[derive(Debug)]
pub(super) struct Walk {
    zero_is_absent: bool,
    quiet: bool,
    /// Paths that differ, in the order they were met.
    pub differences: Vec<String>,
}

impl Walk {
    /// `zero_is_absent`: the server does not write out `false`, `0` and empty strings (see [`equal::blank`]).
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

    fn alike(&mut self, rule: Rule, live: &Value, want: &Value) -> bool {
        let before = std::mem::replace(&mut self.quiet, true);
        let settled = self.value(rule, live, want, &At::ROOT);
        self.quiet = before;
        settled == Settled::Keep
    }

    fn replace(&mut self, want: &Value, at: &At<'_>) -> Settled {
        self.differs(at);
        Settled::Set(want.clone())
    }

    fn clear(&mut self, live: &Value, at: &At<'_>) -> Settled {
        if self.blank(at.name(), live) {
            return Settled::Keep;
        }
        self.differs(at);
        Settled::Remove
    }

    /// Settles a value that is on both sides.
    pub(super) fn value(&mut self, rule: Rule, live: &Value, want: &Value, at: &At<'_>) -> Settled {
        let (shape, elements) = match (rule, at.name()) {
            (Rule::Never, _) => return Settled::Keep,
            (Rule::Json, _) if equal::json(live, want) => return Settled::Keep,
            (Rule::Json, _) => return self.replace(want, at),
            (Rule::Within(rule), _) => return self.value(rule(), live, want, at),
            (Rule::Map(shape), _) => (shape, WHOLE_DEEP),
            (Rule::List(elements), _) => (OPEN, elements),
            (Rule::Deep, "limits" | "requests" | "hard" | "capacity") => return self.named(AMOUNTS, live, want, at),
            (Rule::Deep, "matchLabels" | "nodeSelector" | "parameters") => return self.named(ENTRIES, live, want, at),
            (Rule::Exact, "matchLabels") => return self.named(ENTRIES_WHOLE, live, want, at),
            (Rule::Exact | Rule::Selector, _) => (CLOSED, WHOLE_EXACT),
            // With a part of it that is not the manifest's it selects what nobody wanted.
            (Rule::Deep, _) if equal::is_selector(live, want) => return self.value(Rule::Selector, live, want, at),
            _ => (OPEN, WHOLE_DEEP),
        };
        match (live, want) {
            (Value::Object(live), Value::Object(want)) => self.map(shape, live, want, at),
            (Value::Array(live), Value::Array(want)) => self.list(elements, live, want, at),
            _ if equal::same(rule, live, want) => Settled::Keep,
            _ => self.replace(want, at),
        }
    }

    /// Some names mean the same kind of map wherever they stand.
    fn named(&mut self, rule: Rule, live: &Value, want: &Value, at: &At<'_>) -> Settled {
        match (rule, live, want) {
            (Rule::Map(shape), Value::Object(live), Value::Object(want)) => self.map(shape, live, want, at),
            (_, Value::Array(live), Value::Array(want)) => self.list(WHOLE_DEEP, live, want, at),
            _ if equal::same(Rule::Deep, live, want) => Settled::Keep,
            _ => self.replace(want, at),
        }
    }

    fn map<'a>(
        &mut self,
        shape: &Shape,
        live: &'a Map<String, Value>,
        want: &'a Map<String, Value>,
        at: &At<'_>,
    ) -> Settled {
        let mut changes = Vec::new();
        for (key, value) in want {
            let read = shape.verbatim && self.zero_is_absent;
            let text = |value: &'a Value| -> &'a Value {
                match (value, shape.others) {
                    (Value::Null, Rule::Quantity) if read => &NOTHING,
                    (Value::Null, _) if read => &EMPTY,
                    _ => value,
                }
            };
            if self.says(shape, key, text(value)) {
                let rule = shape.rule(key, want);
                let live = live.get(key).map(text);
                let settled = self.entry(shape, rule, live, text(value), &at.then(Step::Key(key)));
                changes.push((key.as_str(), settled));
            }
        }
        for field in shape.fields() {
            if want.get(field.name).is_some_and(|value| self.says(shape, field.name, value)) {
                continue;
            }
            // Null or empty is what absent looks like in an object that no server has normalised.
            if let Some(value) = live.get(field.name).filter(|value| self.says(shape, field.name, value)) {
                let settled = self.unset(field, value, want, &at.then(Step::Key(field.name)));
                changes.push((field.name, settled));
            }
        }
        if shape.extra == Extra::Remove {
            for (key, value) in live {
                if shape.field(key).is_none() && !want.contains_key(key) {
                    let at = at.then(Step::Key(key));
                    let settled = if shape.verbatim {
                        self.differs(&at);
                        Settled::Remove
                    } else {
                        self.clear(value, &at)
                    };
                    changes.push((key.as_str(), settled));
                }
            }
        }
        applied(live, changes)
    }

    /// Whether an object says anything by this value: null says nothing, nor does an empty value that a typed server
    /// takes for a field left out and fills in.
    fn says(&self, shape: &Shape, key: &str, value: &Value) -> bool {
        if shape.verbatim || !self.zero_is_absent {
            return !value.is_null();
        }
        let defaulted = shape.field(key).is_some_and(Field::has_scalar_default);
        !value.is_null() && !equal::filled(key, value, defaulted)
    }

    fn entry(&mut self, shape: &Shape, rule: Rule, live: Option<&Value>, want: &Value, at: &At<'_>) -> Settled {
        match live {
            _ if matches!(rule, Rule::Never) => Settled::Keep,
            _ if matches!((rule, live), (Rule::Selector | Rule::Json, None)) => self.replace(want, at),
            None | Some(Value::Null) if !shape.verbatim && self.blank(at.name(), want) => Settled::Keep,
            None => self.replace(want, at),
            Some(live) => self.value(rule, live, want, at),
        }
    }

    /// Settles a field that only the live object has.
    fn unset(&mut self, field: &Field, live: &Value, want: &Map<String, Value>, at: &At<'_>) -> Settled {
        let default = match field.absent {
            Absent::Leave => return Settled::Keep,
            Absent::Clear => None,
            Absent::Empty => Some(Value::Object(Map::new())),
            Absent::Text(text) => Some(Value::from(text)),
            Absent::Int(number) => Some(Value::from(number)),
            Absent::Bool(set) => Some(Value::from(set)),
            Absent::Infer(infer) => match infer(want) {
                None => return Settled::Keep,
                inferred => inferred,
            },
            Absent::Derive(derive) => derive(want),
            Absent::Tolerate(tolerate) => match tolerate(want) {
                Some(value) if equal::same(field.rule, live, &value) => return Settled::Keep,
                _ => None,
            },
        };
        match default {
            Some(default) => self.value(field.rule.resolved(want), live, &default, at),
            None if matches!(field.rule, Rule::Selector | Rule::Json) => {
                self.differs(at);
                Settled::Remove
            }
            None => self.clear(live, at),
        }
    }

    fn list(&mut self, elements: &Elements, live: &[Value], want: &[Value], at: &At<'_>) -> Settled {
        match elements {
            Elements::Whole(rule) => self.whole(*rule, live, want, at),
            Elements::Unordered(rule) => self.unordered(*rule, live, want, at),
            Elements::Additive(rule) => self.additive(*rule, live, want, at),
            Elements::Keyed { key, rule, extra, order } => {
                let names: BTreeSet<&str> = want.iter().map(|element| name_of(element, key)).collect();
                if names.len() < want.len() {
                    // Two elements of one name cannot be matched by name.
                    return self.whole(Rule::Exact, live, want, at);
                }
                self.keyed(&Keyed { key, rule: *rule, extra: *extra, order: *order }, live, want, at)
            }
        }
    }

    fn whole(&mut self, rule: Rule, live: &[Value], want: &[Value], at: &At<'_>) -> Settled {
        if live.len() != want.len() {
            self.differs(at);
            return Settled::Set(Value::Array(want.to_vec()));
        }
        let mut changed = false;
        let mut list = Vec::new();
        for (index, (live, want)) in live.iter().zip(want).enumerate() {
            let kept = self.value(rule, live, want, &at.then(Step::Index(index))) == Settled::Keep;
            changed |= !kept;
            // Another element may stand here now: what the server filled in belongs to the old one.
            list.push(if kept { live } else { want });
        }
        if changed { Settled::Set(list.into_iter().cloned().collect()) } else { Settled::Keep }
    }

    fn unordered(&mut self, rule: Rule, live: &[Value], want: &[Value], at: &At<'_>) -> Settled {
        let mut left: Vec<&Value> = live.iter().collect();
        for value in want {
            match left.iter().position(|live| self.alike(rule, live, value)) {
                Some(position) => drop(left.swap_remove(position)),
                None => return self.replace(&Value::Array(want.to_vec()), at),
            }
        }
        if left.is_empty() { Settled::Keep } else { self.replace(&Value::Array(want.to_vec()), at) }
    }

    fn additive(&mut self, rule: Rule, live: &[Value], want: &[Value], at: &At<'_>) -> Settled {
        let mut list: Vec<&Value> = live.iter().collect();
        for value in want {
            // As many of a kind stay as the manifest has, other repetitions go.
            let wanted = want.iter().filter(|other| self.alike(rule, other, value)).count();
            let mut seen = 0;
            list.retain(|live| {
                let same = self.alike(rule, live, value);
                seen += usize::from(same);
                !same || seen <= wanted
            });
            if seen == 0 {
                list.push(value);
            }
        }
        if list.len() == live.len() && list.iter().zip(live).all(|(a, b)| std::ptr::eq(*a, b)) {
            return Settled::Keep;
        }
        self.differs(at);
        Settled::Set(list.into_iter().cloned().collect())
    }

    fn keyed(&mut self, how: &Keyed, live: &[Value], want: &[Value], at: &At<'_>) -> Settled {
        let wanted = |name: &str| want.iter().position(|value| name_of(value, how.key) == name);
        let before = self.differences.len();
        let mut changed = false;
        let mut seen = BTreeSet::new();
        // (place in the manifest, element)
        let mut list: Vec<(Option<usize>, Value)> = Vec::new();
        for element in live {
            let name = name_of(element, how.key);
            let here = at.then(Step::Element(name));
            let place = wanted(name);
            let value = place.and_then(|place| want.get(place));
            let settled = match value {
                Some(value) if seen.insert(name) => self.value(how.rule, element, value, &here),
                None if how.extra == Extra::Keep => Settled::Keep,
                _ => {
                    self.differs(&here);
                    Settled::Remove
                }
            };
            changed |= settled != Settled::Keep;
            match settled {
                Settled::Keep => list.push((place, element.clone())),
                Settled::Set(value) => list.push((place, value)),
                Settled::Remove => {}
            }
        }
        for (place, value) in want.iter().enumerate() {
            let name = name_of(value, how.key);
            if !seen.contains(name) {
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
        if changed { Settled::Set(list.into_iter().map(|(_, value)| value).collect()) } else { Settled::Keep }
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

    pub(super) fn rule(&self, name: &str, want: &Map<String, Value>) -> Rule {
        self.field(name).map_or(self.others, |field| field.rule).resolved(want)
    }
}

impl Rule {
    /// The rule that holds beside these fields of the manifest.
    fn resolved(self, want: &Map<String, Value>) -> Rule {
        if let Rule::Choose(choose) = self { choose(want) } else { self }
    }
}

fn name_of<'a>(element: &'a Value, key: &str) -> &'a str {
    element.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// The live map with the changes made; untouched if there are none.
fn applied(live: &Map<String, Value>, changes: Vec<(&str, Settled)>) -> Settled {
    if changes.iter().all(|(_, settled)| *settled == Settled::Keep) {
        return Settled::Keep;
    }
    let mut merged = live.clone();
    for (key, settled) in changes {
        match settled {
            Settled::Keep => {}
            Settled::Set(value) => drop(merged.insert(key.to_owned(), value)),
            Settled::Remove => drop(merged.remove(key)),
        }
    }
    Settled::Set(Value::Object(merged))
}
