//! CustomResourceDefinition: the whole spec, after the server's defaults, with an injected CA bundle kept
//! (payload-and-apply §5.6, §5.8).

use super::metadata::ROOT;
use super::rule::{Absent, Rule, Shape, both_ways, closed, default, field, open};
use super::webhook::{injected, keep_bundle};
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
    default(
        "conversion",
        Absent::Empty,
        Rule::Map(&closed(&[
            default("strategy", Absent::Text("None"), Rule::Exact),
            both_ways("webhook", Rule::Map(&closed(&[both_ways("clientConfig", Rule::Map(CLIENT))]))),
        ])),
    ),
]);

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
        Some(bundle) if by_webhook && injected(live) && want.pointer(CLIENT).is_some_and(Value::is_object) => {
            let mut kept = want.clone();
            if let Some(client) = kept.pointer_mut(CLIENT) {
                keep_bundle(client, bundle);
            }
            Cow::Owned(kept)
        }
        _ => Cow::Borrowed(want),
    }
}
