//! Whether a CustomResourceDefinition may be changed to what a plan says, and what it becomes.

use super::schema::Schema;
use crate::olm::api::keys::annotation;
use crate::olm::bundle::definition;
use serde_json::Value;
use std::collections::BTreeMap;

pub(crate) const KIND: (&str, &str) = definition::KIND;
/// On a live definition: checks of its objects only warn. For one that a single operator owns.
const SAFETY: &str = "olm.operatorframework.io/crd-safety";
/// So many objects that do not fit are named.
const EXAMPLES: usize = 10;

/// Something that would be lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Risk {
    pub text: String,
    /// The administrator may take it.
    pub may_be_taken: bool,
}

/// The annotation that says with which ClusterServiceVersion a definition came.
pub(crate) fn installed_alongside(namespace: &str, csv: &str) -> (String, String) {
    let value = format!("{namespace}/{csv}");
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    let hash = value.bytes().fold(0xcbf2_9ce4_8422_2325, mix);
    (format!("{}{hash:x}", annotation::INSTALLED_ALONGSIDE), value)
}

fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The versions of a definition by name.
fn versions(definition: &Value) -> BTreeMap<&str, &Value> {
    let all = definition.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    all.filter_map(|version| Some((version.get("name")?.as_str()?, version))).collect()
}

fn is_served(version: &Value) -> bool {
    version.get("served").and_then(Value::as_bool) == Some(true)
}

/// What the change itself would lose, without a look at objects.
pub(crate) fn risks(live: &Value, new: &Value) -> Vec<Risk> {
    let name = text(live, "/metadata/name");
    let mut risks = Vec::new();
    let mut add = |may_be_taken: bool, text: String| risks.push(Risk { text, may_be_taken });
    for (field, pointer) in [("scope", "/spec/scope"), ("group", "/spec/group"), ("kind", "/spec/names/kind")] {
        let (old, new) = (text(live, pointer), text(new, pointer));
        if old != new {
            add(
                false,
                format!("updating {name:?} would change its {field} from {old} to {new}, which cannot be changed"),
            );
        }
    }
    let (old, new) = (versions(live), versions(new));
    let stored = live.pointer("/status/storedVersions").and_then(Value::as_array).into_iter().flatten();
    for version in stored.filter_map(Value::as_str).filter(|version| !new.contains_key(version)) {
        add(
            false,
            format!(
                "risk of data loss updating {name:?}: new CRD removes version {version} that is listed as a stored version on \
                 the existing CRD"
            ),
        );
    }
    for (version, _) in old.into_iter().filter(|(_, version)| is_served(version)) {
        // One that stays and is not served any more is on its way out, as authors are told to do it.
        if !new.contains_key(version) {
            add(
                true,
                format!("updating {name:?} would remove its version {version}, which is served and clients may use"),
            );
        }
    }
    risks
}

/// The versions that are served before and after whose objects might not fit any more, each with its new schema.
pub(crate) fn stricter(live: &Value, new: &Value) -> Vec<(String, Schema)> {
    let old = versions(live);
    let schema = |version: &Value| version.pointer("/schema/openAPIV3Schema").cloned();
    let changed = versions(new).into_iter().filter_map(|(name, version)| {
        let before = old.get(name).filter(|before| is_served(before) && is_served(version))?;
        let wanted = schema(version)?;
        (schema(before).as_ref() != Some(&wanted)).then(|| (name.to_owned(), Schema::new(wanted)))
    });
    changed.collect()
}

/// Whether a webhook converts objects between versions. Then only that webhook knows what becomes of an object.
pub(crate) fn is_converted(definition: &Value) -> bool {
    text(definition, "/spec/conversion/strategy") == "Webhook"
}

/// Whether risks that may be taken are.
pub(crate) fn is_lenient(live: &Value) -> bool {
    let annotations = live.pointer("/metadata/annotations");
    annotations.and_then(|all| all.get(SAFETY)).and_then(Value::as_str) == Some("warn")
}

/// The new definition with the live conversion, which the installation of a ClusterServiceVersion writes: a bundle cannot know where
/// the webhook will be.
pub(crate) fn with_live_conversion(live: &Value, mut new: Value) -> Value {
    let conversion = live.pointer("/spec/conversion").cloned();
    if let (Some(conversion), Some(spec)) = (conversion, new.get_mut("spec").and_then(Value::as_object_mut)) {
        spec.insert("conversion".to_owned(), conversion);
    }
    new
}

/// Adds those of the objects that do not fit, each with what is wrong; whether there is room for more examples.
pub(crate) fn add_unfit(invalid: &mut Vec<String>, schema: &Schema, objects: &[Value]) -> bool {
    for object in objects {
        let faults = schema.faults(object);
        if faults.is_empty() {
            continue;
        }
        if invalid.len() == EXAMPLES {
            return false;
        }
        let namespace = match text(object, "/metadata/namespace") {
            "" => String::new(),
            namespace => format!("{namespace}/"),
        };
        invalid.push(format!("{namespace}{}: {}", text(object, "/metadata/name"), faults.join(", ")));
    }
    true
}

/// What is said of objects that do not fit. `invalid`: `namespace/name: field: why`.
pub(crate) fn too_restrictive(name: &str, version: &str, invalid: &[String], is_all: bool) -> String {
    let more = if is_all { "" } else { "; there may be more" };
    format!(
        "error validating existing CRs against new CRD's schema for {name:?}: version {version}: {}{more}: updated validation is too \
         restrictive",
        invalid.join("; ")
    )
}
