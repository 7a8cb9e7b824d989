//! The vocabulary of the rules: what a manifest owns of a live object, written down as tables of constants.

use serde_json::{Map, Value};

/// How one value of the manifest is brought into the live object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Not the payload's: neither set nor removed, whatever the manifest says.
    Never,
    /// What the manifest sets is enforced: maps key by key, lists whole (what the server filled in inside an element
    /// is tolerated). What it leaves out stays.
    Deep,
    /// The manifest's value is the whole truth: what it leaves out is removed.
    Exact,
    /// The same for a label selector: the empty one selects everything, none selects nothing.
    Selector,
    /// Any JSON, of which the manifest's is the whole truth: `0`, an empty text or map say something else than nothing.
    Json,
    /// One resource quantity, compared by value.
    Quantity,
    /// A number, or a string that may hold one.
    IntOrString,
    /// Bytes in base64; white space between does not count.
    Base64,
    Map(&'static Shape),
    List(&'static Elements),
    /// The rule depends on what else the manifest sets in the same map.
    Choose(fn(&Map<String, Value>) -> Rule),
    /// A rule that contains itself.
    Within(fn() -> Rule),
}

/// How a map is merged.
#[derive(Debug)]
pub(super) struct Shape {
    /// Looked up before `fields`: what several kinds share.
    pub base: &'static [Field],
    pub fields: &'static [Field],
    /// Rule for keys that no field names.
    pub others: Rule,
    /// What happens to live keys that neither the manifest nor a field names.
    pub extra: Extra,
    /// Keys are data, not field names: the server keeps every entry, an empty value included.
    pub verbatim: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extra {
    Keep,
    Remove,
}

#[derive(Debug)]
pub(super) struct Field {
    pub name: &'static str,
    /// What it means that the manifest leaves the field out.
    pub absent: Absent,
    pub rule: Rule,
}

/// What a field that the manifest leaves out stands for. None of these makes a difference where the live object has
/// no such field either: a default is for the server to fill in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Absent {
    /// Nothing: the live value stays.
    Leave,
    /// The live value is removed.
    Clear,
    /// An empty map: the defaults of the fields below it are enforced.
    Empty,
    Text(&'static str),
    Int(i64),
    Bool(bool),
    /// A default that depends on the other fields of the manifest; `None` leaves the live value.
    Infer(fn(&Map<String, Value>) -> Option<Value>),
    /// The same, but `None` removes the live value.
    Derive(fn(&Map<String, Value>) -> Option<Value>),
    /// A live value equal to this may stay, any other is removed.
    Tolerate(fn(&Map<String, Value>) -> Option<Value>),
}

impl Field {
    /// Whether the server fills in a word or a number that is known here.
    pub fn has_scalar_default(&self) -> bool {
        let known = !matches!(self.absent, Absent::Leave | Absent::Clear | Absent::Empty | Absent::Tolerate(_));
        known && !matches!(self.rule, Rule::Map(_) | Rule::List(_))
    }
}

/// How a list is merged.
#[derive(Debug)]
pub(super) enum Elements {
    /// Replaced whole, compared position by position.
    Whole(Rule),
    /// Replaced whole, compared in any order.
    Unordered(Rule),
    /// Missing elements are appended, the others stay; repetitions of an element of the manifest are removed.
    Additive(Rule),
    /// Matched by the value of `key` (absent counts as empty).
    Keyed { key: &'static str, rule: Rule, extra: Extra, order: Order },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As in the live object; missing ones at the end.
    Live,
    /// As in the manifest; extra ones at the end.
    Manifest,
}

/// A field with its rule; absent means nothing.
pub(super) const fn field(name: &'static str, rule: Rule) -> Field {
    Field { name, absent: Absent::Leave, rule }
}

/// A field that is removed when the manifest leaves it out.
pub(super) const fn both_ways(name: &'static str, rule: Rule) -> Field {
    Field { name, absent: Absent::Clear, rule }
}

/// A field with a default.
pub(super) const fn default(name: &'static str, absent: Absent, rule: Rule) -> Field {
    Field { name, absent, rule }
}

/// A map of which the payload owns what the manifest sets.
pub(super) const fn open(fields: &'static [Field]) -> Shape {
    Shape { base: &[], fields, others: Rule::Deep, extra: Extra::Keep, verbatim: false }
}

/// A map that the payload owns whole.
pub(super) const fn closed(fields: &'static [Field]) -> Shape {
    Shape { base: &[], fields, others: Rule::Exact, extra: Extra::Remove, verbatim: false }
}

/// A map whose keys are data.
const fn entries(extra: Extra) -> Shape {
    Shape { base: &[], fields: &[], others: Rule::Deep, extra, verbatim: true }
}

pub(super) const OPEN: &Shape = &open(&[]);
pub(super) const CLOSED: &Shape = &closed(&[]);
pub(super) const WHOLE_DEEP: &Elements = &Elements::Whole(Rule::Deep);
pub(super) const WHOLE_EXACT: &Elements = &Elements::Whole(Rule::Exact);

/// Labels, annotations, ConfigMap data: key by key, foreign keys stay.
pub(super) const ENTRIES: Rule = Rule::Map(&entries(Extra::Keep));
/// Selectors: the whole map.
pub(super) const ENTRIES_WHOLE: Rule = Rule::Map(&entries(Extra::Remove));
/// Bytes by key, foreign keys stay.
pub(super) const BYTES: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: Rule::Base64, extra: Extra::Keep, verbatim: true });
/// Amounts by resource name, foreign names stay.
pub(super) const AMOUNTS: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: Rule::Quantity, extra: Extra::Keep, verbatim: true });
/// Amounts by resource name, the whole map.
pub(super) const AMOUNTS_WHOLE: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: Rule::Quantity, extra: Extra::Remove, verbatim: true });
/// A list of names in which order says nothing.
pub(super) const NAMES: Rule = Rule::List(&Elements::Unordered(Rule::Exact));
/// Only what is missing is added.
pub(super) const ADDITIVE: Rule = Rule::List(&Elements::Additive(Rule::Exact));
