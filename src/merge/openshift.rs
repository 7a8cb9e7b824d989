//! Kinds of OpenShift: SecurityContextConstraints, ImageStream and OperatorGroup.

use super::metadata::ROOT;
use super::rule::{Absent, Elements, Extra, NAMES, Order, Rule, Shape, both_ways, closed, default, field, open};
use serde_json::{Value, json};
use std::borrow::Cow;

/// Users, groups and permissions that an administrator adds are removed, since they would grant privileges.
pub(super) const CONSTRAINTS: &Shape = &Shape {
    base: ROOT,
    ..open(&[
        both_ways("priority", Rule::Deep),
        default("allowHostDirVolumePlugin", Absent::Bool(false), Rule::Deep),
        default("allowHostIPC", Absent::Bool(false), Rule::Deep),
        default("allowHostNetwork", Absent::Bool(false), Rule::Deep),
        default("allowHostPID", Absent::Bool(false), Rule::Deep),
        default("allowHostPorts", Absent::Bool(false), Rule::Deep),
        default("allowPrivilegedContainer", Absent::Bool(false), Rule::Deep),
        default("readOnlyRootFilesystem", Absent::Bool(false), Rule::Deep),
        default("allowPrivilegeEscalation", Absent::Bool(true), Rule::Deep),
        both_ways("defaultAllowPrivilegeEscalation", Rule::Deep),
        both_ways("allowedCapabilities", NAMES),
        both_ways("defaultAddCapabilities", NAMES),
        both_ways("requiredDropCapabilities", NAMES),
        both_ways("allowedFlexVolumes", NAMES),
        both_ways("users", NAMES),
        both_ways("groups", NAMES),
        both_ways("seccompProfiles", NAMES),
        both_ways("allowedUnsafeSysctls", NAMES),
        both_ways("forbiddenSysctls", NAMES),
        // If the manifest omits them, the API server derives them from the other fields.
        field("volumes", NAMES),
        field("seLinuxContext", Rule::Exact),
        field("runAsUser", Rule::Exact),
        default("fsGroup", Absent::Empty, GROUPS),
        default("supplementalGroups", Absent::Empty, GROUPS),
    ])
};

const GROUPS: Rule = Rule::Map(&closed(&[default("type", Absent::Text("RunAsAny"), Rule::Exact)]));

/// The API server adds `hostPath` to the volumes if host directories are allowed, and removes it otherwise.
pub(super) fn imply_host_path<'a>(_live: &Value, desired: &'a Value) -> Cow<'a, Value> {
    let allowed = desired.get("allowHostDirVolumePlugin").and_then(Value::as_bool) == Some(true);
    let Some(volumes) = desired.get("volumes").and_then(Value::as_array) else {
        return Cow::Borrowed(desired);
    };
    let listed = volumes.iter().any(|name| *name == json!("hostPath"));
    if allowed == listed || volumes.iter().any(|name| *name == json!("*")) {
        return Cow::Borrowed(desired);
    }
    let mut implied = desired.clone();
    if let Some(volumes) = implied.get_mut("volumes").and_then(Value::as_array_mut) {
        if allowed {
            volumes.push(json!("hostPath"));
        } else {
            volumes.retain(|name| *name != json!("hostPath"));
        }
    }
    Cow::Owned(implied)
}

pub(super) const IMAGE_STREAM: &Shape = &Shape {
    base: ROOT,
    // A manifest without a spec means an empty one.
    ..open(&[default(
        "spec",
        Absent::Empty,
        Rule::Map(&Shape {
            others: Rule::Never,
            ..open(&[
                default(
                    "lookupPolicy",
                    Absent::Empty,
                    Rule::Map(&closed(&[default("local", Absent::Bool(false), Rule::Exact)])),
                ),
                field(
                    "tags",
                    Rule::List(&Elements::Keyed {
                        key: "name",
                        rule: Rule::Map(&Shape { others: Rule::Never, ..open(TAG) }),
                        extra: Extra::Keep,
                        order: Order::Live,
                    }),
                ),
            ])
        }),
    )])
};

const TAG: &[super::rule::Field] = &[
    both_ways("from", Rule::Exact),
    default(
        "importPolicy",
        Absent::Empty,
        Rule::Map(&closed(&[default("importMode", Absent::Text("Legacy"), Rule::Exact)])),
    ),
];

pub(super) const OPERATOR_GROUP: &Shape = &Shape {
    base: ROOT,
    ..open(&[default(
        "spec",
        Absent::Empty,
        Rule::Map(&open(&[
            both_ways("selector", Rule::Exact),
            both_ways("targetNamespaces", Rule::Exact),
            default("staticProvidedAPIs", Absent::Bool(false), Rule::Deep),
            default("upgradeStrategy", Absent::Text("Default"), Rule::Deep),
        ])),
    )])
};
