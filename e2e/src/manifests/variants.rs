//! Changes manifests and objects at random: values become null, empty or absent, and two objects become one, as another
//! client may leave it.

use super::Kind;
use crate::random::{SeededRandom, empty};
use serde_json::{Map, Value, json};

/// Fields of existing objects that the server does not let change, or that it sets, by kind.
const FIXED: &[(&str, &[&str])] = &[
    ("Secret", &["/type"]),
    ("Service", &["/spec/clusterIP", "/spec/clusterIPs", "/spec/ipFamilies"]),
    ("Deployment", &["/spec/selector"]),
    ("DaemonSet", &["/spec/selector"]),
    (
        "StatefulSet",
        &["/spec/selector", "/spec/serviceName", "/spec/podManagementPolicy", "/spec/volumeClaimTemplates"],
    ),
    (
        "Job",
        &[
            "/spec/template",
            "/spec/selector",
            "/spec/manualSelector",
            "/spec/completions",
            "/spec/completionMode",
            "/spec/podFailurePolicy",
            "/spec/podReplacementPolicy",
            "/spec/backoffLimitPerIndex",
        ],
    ),
    ("PersistentVolumeClaim", &["/spec"]),
    ("ResourceQuota", &["/spec/scopes"]),
    ("RoleBinding", &["/roleRef"]),
    ("ClusterRoleBinding", &["/roleRef"]),
    ("PriorityClass", &["/value", "/preemptionPolicy"]),
    ("StorageClass", &["/provisioner", "/parameters", "/reclaimPolicy", "/volumeBindingMode"]),
    ("CSIDriver", &["/spec/attachRequired", "/spec/volumeLifecycleModes"]),
    ("RuntimeClass", &["/handler"]),
    ("IngressClass", &["/spec/controller"]),
    ("PriorityLevelConfiguration", &["/spec/type"]),
    ("CustomResourceDefinition", &["/spec/group", "/spec/scope", "/spec/names"]),
];

fn fixed(kind: &Kind) -> &'static [&'static str] {
    FIXED.iter().find(|(name, _)| *name == kind.kind).map_or(&[], |(_, fields)| fields)
}

/// The manifest with some of its values null, empty or absent.
pub fn incomplete(d: &SeededRandom, kind: &Kind, mut manifest: Value) -> Value {
    for _ in 0..d.pick(&[0, 1, 1, 2, 4]) {
        let mut places = Vec::new();
        fields(&manifest, "", &mut places);
        let kept = |place: &String| {
            let of_release = !kind.is_made() && place.starts_with("/metadata");
            let always = ["/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"];
            let fixed = fixed(kind);
            !of_release && !always.contains(&place.as_str())
                && !fixed.iter().any(|field| place.starts_with(field) || field.starts_with(place.as_str()))
                // Which element it is.
                && !["/name", "/mountPath", "/ip"].iter().any(|key| place.ends_with(key))
        };
        places.retain(kept);
        let Some(place) = d.one_of(&places) else { break };
        let (parent, key) = place.rsplit_once('/').unwrap();
        let key = unescaped(key);
        let Some(map) = manifest.pointer_mut(parent).and_then(Value::as_object_mut) else { continue };
        let Some(value) = map.remove(&key) else { continue };
        match d.below(3) {
            0 => {}
            1 => drop(map.insert(key, Value::Null)),
            _ => drop(map.insert(key, empty(&value))),
        }
    }
    manifest
}

fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

/// Pointers to the fields of all maps.
fn fields(value: &Value, here: &str, all: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let here = format!("{here}/{}", key.replace('~', "~0").replace('/', "~1"));
                fields(value, &here, all);
                all.push(here);
            }
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(index, value)| fields(value, &format!("{here}/{index}"), all));
        }
        _ => {}
    }
}

/// Sets the fields that the server does not let change to those of an existing object.
pub fn keep_fixed(kind: &Kind, object: &mut Value, existing: &Value) {
    for field in fixed(kind) {
        let (parent, key) = field.rsplit_once('/').unwrap();
        if let Some(map) = object.pointer_mut(parent).and_then(Value::as_object_mut) {
            match existing.pointer(field) {
                Some(value) => drop(map.insert(key.to_owned(), value.clone())),
                None => drop(map.remove(key)),
            }
        }
    }
}

/// The existing object `live` as another client may have changed it: each part is that of `a` or that of `b`.
pub fn changed(d: &SeededRandom, kind: &Kind, live: &Value, a: &Value, b: &Value) -> Value {
    let mut object = mixed(d, a, b);
    keep_fixed(kind, &mut object, live);
    if d.chance(50) {
        object["metadata"]["ownerReferences"] = json!([]);
    }
    add(d, &mut object, ADDED_ANYWHERE, 60);
    let kinds = ADDED.iter().filter(|(kinds, _)| kinds.contains(&kind.kind.as_str()));
    for (_, added) in kinds {
        add(d, &mut object, added, 25);
    }
    object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
    object
}

fn mixed(d: &SeededRandom, a: &Value, b: &Value) -> Value {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let mut map = Map::new();
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let value = match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => mixed(d, a, b),
                    (Some(one), None) | (None, Some(one)) if d.chance(60) => one.clone(),
                    _ => continue,
                };
                map.insert(key.clone(), value);
            }
            Value::Object(map)
        }
        _ => d.pick(&[a, b]).clone(),
    }
}

/// What other clients add: a pointer, and the value; `-` appends to a list.
type Added = (&'static str, &'static str);

const ADDED_ANYWHERE: &[Added] = &[
    ("/metadata/labels/other.example~1who", r#""x""#),
    ("/metadata/annotations/other.example~1why", r#""""#),
    ("/metadata/finalizers/-", r#""other.example/hold""#),
    (
        "/metadata/ownerReferences/-",
        r#"{"apiVersion":"v1","kind":"Node","name":"other","uid":"0b4d2c5e-0000-4000-8000-00000000000a"}"#,
    ),
];

const ADDED: &[(&[&str], &[Added])] = &[
    (
        &["Deployment", "DaemonSet", "StatefulSet"],
        &[
            ("/spec/template/metadata/annotations/other.example~1restarted", r#""now""#),
            ("/spec/template/spec/containers/-", r#"{"name":"spy","image":"other.example/spy"}"#),
            ("/spec/template/spec/containers/0/securityContext/capabilities/add/-", r#""SYS_ADMIN""#),
            ("/spec/template/spec/containers/0/securityContext/seLinuxOptions/type", r#""spc_t""#),
            ("/spec/template/spec/containers/0/securityContext/privileged", "true"),
            ("/spec/template/spec/containers/0/env/-", r#"{"name":"SPY","value":"x"}"#),
            ("/spec/template/spec/containers/0/workingDir", r#""/other""#),
            ("/spec/template/spec/securityContext/seLinuxOptions/type", r#""spc_t""#),
            ("/spec/template/spec/securityContext/sysctls/-", r#"{"name":"vm.other","value":"1"}"#),
            ("/spec/template/spec/securityContext/supplementalGroups/-", "77"),
            ("/spec/template/spec/imagePullSecrets/-", r#"{"name":"other"}"#),
            ("/spec/template/spec/hostAliases/-", r#"{"ip":"10.9.9.9","hostnames":["other.example"]}"#),
            ("/spec/template/spec/tolerations/-", r#"{"key":"other","operator":"Exists"}"#),
            ("/spec/template/spec/nodeSelector/other", r#""x""#),
            ("/spec/template/spec/volumes/-", r#"{"name":"spy","emptyDir":{}}"#),
        ],
    ),
    (&["ConfigMap"], &[("/data/other", r#""x""#), ("/binaryData/others", r#""eA==""#)]),
    (&["Secret"], &[("/data/other", r#""eA==""#)]),
    (&["ServiceAccount"], &[("/secrets/-", r#"{"name":"other"}"#), ("/imagePullSecrets/-", r#"{"name":"other"}"#)]),
    (&["ResourceQuota"], &[("/spec/hard/count~1secrets", r#""7""#)]),
    (&["Role", "ClusterRole"], &[("/rules/-", r#"{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}"#)]),
    (&["RoleBinding", "ClusterRoleBinding"], &[("/subjects/-", r#"{"kind":"User","name":"other"}"#)]),
    (&["NetworkPolicy"], &[("/spec/ingress/-", "{}")]),
    (&["Service"], &[("/spec/selector/other", r#""x""#), ("/spec/ports/-", r#"{"name":"other","port":7}"#)]),
    (&["SecurityContextConstraints"], &[("/users/-", r#""other""#)]),
    (&["OperatorGroup"], &[("/spec/targetNamespaces/-", r#""other""#)]),
];

/// Makes some of the additions.
fn add(d: &SeededRandom, object: &mut Value, added: &[Added], percent: usize) {
    for (pointer, json) in added {
        if d.chance(percent) {
            let value = serde_json::from_str(json).unwrap();
            let steps: Vec<String> = pointer.split('/').skip(1).map(unescaped).collect();
            set(object, &steps, value);
        }
    }
}

/// Sets a value and makes the maps and lists on the way to it.
fn set(target: &mut Value, steps: &[String], value: Value) {
    let Some((step, rest)) = steps.split_first() else {
        *target = value;
        return;
    };
    if target.is_null() {
        *target = if step == "-" { json!([]) } else { json!({}) };
    }
    match target {
        Value::Object(map) => set(map.entry(step.clone()).or_insert(Value::Null), rest, value),
        Value::Array(list) if step == "-" => list.push(value),
        Value::Array(list) => {
            if let Some(element) = step.parse().ok().and_then(|index: usize| list.get_mut(index)) {
                set(element, rest, value);
            }
        }
        _ => {}
    }
}
