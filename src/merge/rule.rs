//! The types of the rules. Constant tables of them say which parts of a live object a manifest owns.

use serde_json::{Map, Value};

/// How one desired value is merged into the live object.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// Not owned: neither set nor removed, whatever the manifest says.
    Never,
    /// What the manifest sets is enforced: maps key by key, lists as a whole except for defaults inside their elements. What
    /// the manifest omits stays.
    Deep,
    /// Owned as a whole: what the manifest omits is removed.
    Exact,
    /// Like `Exact`, for a label selector: an empty one selects everything, while none selects nothing.
    Selector,
    /// Like `Exact`, for arbitrary JSON: `0`, an empty text and an empty map differ from an absent value.
    Json,
    /// One resource quantity, compared by value.
    Quantity,
    /// A number, or a string that may contain one.
    IntOrString,
    /// Bytes in base64. Whitespace is ignored.
    Base64,
    Map(&'static Shape),
    List(&'static Elements),
    /// The rule depends on the other fields that the manifest sets in the same map.
    Choose(fn(&Map<String, Value>) -> Rule),
    /// A rule that contains itself.
    Within(fn() -> Rule),
}

/// How a map is merged.
#[derive(Debug)]
pub(super) struct Shape {
    /// Fields that several kinds share. They take precedence over `fields`.
    pub base: &'static [Field],
    pub fields: &'static [Field],
    /// The rule for all other keys.
    pub others: Rule,
    /// What happens to live keys that are neither in the manifest nor among the fields.
    pub extra: Extra,
    /// Keys are data, not field names: the API server stores every entry, even with an empty value.
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
    /// What it means if the manifest omits the field.
    pub absent: Absent,
    pub rule: Rule,
}

/// What it means if the manifest omits a field. If the live object lacks the field as well there is no difference, since the
/// API server fills in defaults.
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
    /// A default that depends on the other fields of the manifest. With `None` the live value stays.
    Infer(fn(&Map<String, Value>) -> Option<Value>),
    /// Like `Infer`, but with `None` the live value is removed.
    Derive(fn(&Map<String, Value>) -> Option<Value>),
    /// A live value equal to this stays, any other is removed.
    Tolerate(fn(&Map<String, Value>) -> Option<Value>),
}

impl Field {
    /// Whether the field has a default that is not a map or list.
    pub(crate) fn has_scalar_default(&self) -> bool {
        let known = !matches!(self.absent, Absent::Leave | Absent::Clear | Absent::Empty | Absent::Tolerate(_));
        known && !matches!(self.rule, Rule::Map(_) | Rule::List(_))
    }
}

/// How a list is merged.
#[derive(Debug)]
pub(super) enum Elements {
    /// Replaced as a whole, compared position by position.
    Whole(Rule),
    /// Replaced as a whole, compared in any order.
    Unordered(Rule),
    /// Missing elements are appended, others stay. Repetitions of an element of the manifest are removed.
    Additive(Rule),
    /// Elements are matched by the value of `key`, which is empty if absent.
    Keyed { key: &'static str, rule: Rule, extra: Extra, order: Order },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// As in the live object, with new elements at the end.
    Live,
    /// As in the manifest, with extra elements at the end.
    Manifest,
}

/// A field that stays if the manifest omits it.
pub(super) const fn field(name: &'static str, rule: Rule) -> Field {
    Field { name, absent: Absent::Leave, rule }
}

/// A field that is removed if the manifest omits it.
pub(super) const fn both_ways(name: &'static str, rule: Rule) -> Field {
    Field { name, absent: Absent::Clear, rule }
}

/// A text that stays if the manifest omits it or sets it to an empty one.
pub(super) const fn if_set(name: &'static str) -> Field {
    Field { name, absent: Absent::Infer(|_| None), rule: Rule::Deep }
}

/// A field with a default.
pub(super) const fn default(name: &'static str, absent: Absent, rule: Rule) -> Field {
    Field { name, absent, rule }
}

/// A map of which the payload owns the fields that the manifest sets.
pub(super) const fn open(fields: &'static [Field]) -> Shape {
    Shape { base: &[], fields, others: Rule::Deep, extra: Extra::Keep, verbatim: false }
}

/// A map that the payload owns as a whole.
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

/// Labels, annotations and ConfigMap data: key by key, other keys stay.
pub(super) const ENTRIES: Rule = Rule::Map(&entries(Extra::Keep));
/// Selectors, and data that the manifest owns: the map as a whole.
pub(super) const ENTRIES_WHOLE: Rule = Rule::Map(&entries(Extra::Remove));
/// Bytes by key; other keys stay.
pub(super) const BYTES: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: Rule::Base64, extra: Extra::Keep, verbatim: true });
/// Quantities by resource name; other names stay.
pub(super) const QUANTITIES: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: Rule::Quantity, extra: Extra::Keep, verbatim: true });
/// Quantities by resource name, the map as a whole.
pub(super) const QUANTITIES_WHOLE: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: Rule::Quantity, extra: Extra::Remove, verbatim: true });
/// A list of names in any order.
pub(super) const NAMES: Rule = Rule::List(&Elements::Unordered(Rule::Exact));
/// A list to which missing elements are added.
pub(super) const ADDITIVE: Rule = Rule::List(&Elements::Additive(Rule::Exact));
