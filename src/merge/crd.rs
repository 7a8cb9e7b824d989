//! CustomResourceDefinition: the whole spec, after the server's defaults, with an injected CA bundle kept
//! (payload-and-apply §5.6, §5.8).

use super::metadata::ROOT;
use super::rule::{Absent, Elements, Extra, Field, Rule, Shape, both_ways, closed, default, field, open};
use super::webhook::{asked_for, keep_bundle};
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
            both_ways("webhook", Rule::Map(&closed(&[both_ways("clientConfig", Rule::Map(CLIENT))]))),
        ])),
    ),
]);

const VERSION: Rule = Rule::Map(&closed(&[
    both_ways("schema", Rule::Map(&closed(&[both_ways("openAPIV3Schema", SCHEMA)]))),
    // The status subresource is an empty map.
    both_ways("subresources", Rule::Map(&closed(&[both_ways("status", Rule::Json)]))),
]));

/// A schema in a schema, by the name of a property.
const BY_NAME: Rule =
    Rule::Map(&Shape { base: &[], fields: &[], others: SCHEMA, extra: Extra::Remove, verbatim: true });
const SCHEMAS: Rule = Rule::List(&Elements::Whole(SCHEMA));

/// The keywords that an API server keeps. It drops all others, so that one more in a manifest is no difference.
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

/// How the API server reaches a webhook.
pub(super) const CLIENT: &Shape = &closed(&[
    both_ways("caBundle", Rule::Base64),
    both_ways("service", Rule::Map(&closed(&[default("port", Absent::Int(443), Rule::Exact)]))),
]);

fn kind(names: &Map<String, Value>) -> Option<&str> {
    names.get("kind").and_then(Value::as_str)
}

fn singular(names: &Map<String, Value>) -> Option<Value> {
    kind(names).map(|kind| Value::from(kind.to_lowercase()))
}

fn list_kind(names: &Map<String, Value>) -> Option<Value> {
    kind(names).map(|kind| Value::from(format!("{kind}List")))
}

/// The live bundle of the conversion webhook becomes part of the manifest where an injector is asked for.
pub(super) fn keep_conversion_bundle<'a>(live: &Value, want: &'a Value) -> Cow<'a, Value> {
    const STRATEGY: &str = "/spec/conversion/strategy";
    const CLIENT: &str = "/spec/conversion/webhook/clientConfig";
    let by_webhook = want.pointer(STRATEGY).and_then(Value::as_str) == Some("Webhook");
    let bundle = live.pointer(CLIENT).and_then(|client| client.get("caBundle"));
    match bundle {
        Some(bundle) if by_webhook && asked_for(live, want) && want.pointer(CLIENT).is_some_and(Value::is_object) => {
            let mut kept = want.clone();
            if let Some(client) = kept.pointer_mut(CLIENT) {
                keep_bundle(client, bundle);
            }
            Cow::Owned(kept)
        }
        _ => Cow::Borrowed(want),
    }
}
