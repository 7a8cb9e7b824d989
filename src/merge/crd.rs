//! CustomResourceDefinition: the payload owns the whole spec, except for an injected CA bundle.

use super::ca_bundle::{CLIENT_CONFIG, is_injected, set_bundle};
use super::metadata::ROOT;
use super::rule::{Absent, Elements, Extra, Field, Rule, Shape, both_ways, closed, default, field, open};

use serde_json::{Map, Value};
use std::borrow::Cow;

pub(super) const CRD: &Shape = &Shape { base: ROOT, ..open(&[field("spec", Rule::Map(SPEC))]) };

const SPEC: &Shape = &closed(&[
    field(
        "names",
        Rule::Map(&closed(&[
            default("singular", Absent::Infer(singular), Rule::Exact),
            default("listKind", Absent::Infer(list_kind), Rule::Exact),
        ])),
    ),
    both_ways("versions", Rule::List(&Elements::Whole(VERSION))),
    default(
        "conversion",
        Absent::Empty,
        Rule::Map(&closed(&[
            default("strategy", Absent::Text("None"), Rule::Exact),
            both_ways("webhook", Rule::Map(&closed(&[both_ways("clientConfig", Rule::Map(CLIENT_CONFIG))]))),
        ])),
    ),
]);

const VERSION: Rule = Rule::Map(&closed(&[
    both_ways("schema", Rule::Map(&closed(&[both_ways("openAPIV3Schema", SCHEMA)]))),
    // The status subresource is an empty map.
    both_ways("subresources", Rule::Map(&closed(&[both_ways("status", Rule::Json)]))),
]));

/// Schemas by the name of a property.
const BY_NAME: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: SCHEMA, extra: Extra::Remove, verbatim: true });
const SCHEMAS: Rule = Rule::List(&Elements::Whole(SCHEMA));

/// The keywords that the API server stores. It drops all others, so they are not a difference.
const SCHEMA: Rule = Rule::Within(|| {
    const KEPT: &Shape = &Shape { others: Rule::Never, ..closed(KEYWORDS) };
    Rule::Map(KEPT)
});

const KEYWORDS: &[Field] = &[
    both_ways("additionalItems", SCHEMA),
    both_ways("additionalProperties", SCHEMA),
    both_ways("allOf", SCHEMAS),
    both_ways("anyOf", SCHEMAS),
    both_ways("default", Rule::Json),
    both_ways("definitions", BY_NAME),
    both_ways("dependencies", Rule::Exact),
    both_ways("description", Rule::Exact),
    both_ways("enum", Rule::Exact),
    both_ways("example", Rule::Json),
    both_ways("exclusiveMaximum", Rule::Exact),
    both_ways("exclusiveMinimum", Rule::Exact),
    both_ways("externalDocs", Rule::Exact),
    both_ways("format", Rule::Exact),
    both_ways("id", Rule::Exact),
    both_ways("items", SCHEMA),
    both_ways("maxItems", Rule::Json),
    both_ways("maxLength", Rule::Json),
    both_ways("maxProperties", Rule::Json),
    both_ways("maximum", Rule::Json),
    both_ways("minItems", Rule::Json),
    both_ways("minLength", Rule::Json),
    both_ways("minProperties", Rule::Json),
    both_ways("minimum", Rule::Json),
    both_ways("multipleOf", Rule::Json),
    both_ways("not", SCHEMA),
    both_ways("nullable", Rule::Exact),
    both_ways("oneOf", SCHEMAS),
    both_ways("pattern", Rule::Exact),
    both_ways("patternProperties", BY_NAME),
    both_ways("properties", BY_NAME),
    both_ways("required", Rule::Exact),
    both_ways("title", Rule::Exact),
    both_ways("type", Rule::Exact),
    both_ways("uniqueItems", Rule::Exact),
    both_ways("x-kubernetes-embedded-resource", Rule::Exact),
    both_ways("x-kubernetes-int-or-string", Rule::Exact),
    both_ways("x-kubernetes-list-map-keys", Rule::Exact),
    both_ways("x-kubernetes-list-type", Rule::Exact),
    both_ways("x-kubernetes-map-type", Rule::Exact),
    both_ways("x-kubernetes-preserve-unknown-fields", Rule::Exact),
    both_ways("x-kubernetes-validations", Rule::Exact),
];

fn kind(names: &Map<String, Value>) -> Option<&str> {
    names.get("kind").and_then(Value::as_str)
}

fn singular(names: &Map<String, Value>) -> Option<Value> {
    kind(names).map(|kind| Value::from(kind.to_lowercase()))
}

fn list_kind(names: &Map<String, Value>) -> Option<Value> {
    kind(names).map(|kind| Value::from(format!("{kind}List")))
}

/// If the CA bundle of the conversion webhook is injected, the live bundle becomes part of the desired object.
pub(super) fn keep_conversion_bundle<'a>(live: &Value, desired: &'a Value) -> Cow<'a, Value> {
    const STRATEGY: &str = "/spec/conversion/strategy";
    const CLIENT: &str = "/spec/conversion/webhook/clientConfig";
    let converts = desired.pointer(STRATEGY).and_then(Value::as_str) == Some("Webhook");
    let bundle = live.pointer(CLIENT).and_then(|client| client.get("caBundle"));
    match bundle {
        Some(bundle)
            if converts && is_injected(live, desired) && desired.pointer(CLIENT).is_some_and(Value::is_object) =>
        {
            let mut adapted = desired.clone();
            if let Some(client) = adapted.pointer_mut(CLIENT) {
                set_bundle(client, bundle);
            }
            Cow::Owned(adapted)
        }
        _ => Cow::Borrowed(desired),
    }
}
