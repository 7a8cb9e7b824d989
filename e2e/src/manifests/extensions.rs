//! Kinds that extend the API: definitions with random schemas, webhooks, policies, API services, flow control; and
//! objects of definitions with defaults.

use crate::random::{Make, SeededRandom, flag, number};
use serde_json::{Map, Value, json};

/// A valid certificate, because servers parse CA bundles.
pub const BUNDLE: &str = include_str!("bundle.b64");

/// A group without resources, so that no webhook or policy applies to a request.
const NOWHERE: &str = "nowhere.example.com";

pub fn client(d: &SeededRandom) -> Value {
    let mut client = match d.below(3) {
        0 => json!({"url": "https://hook.example.com/x"}),
        1 => json!({"service": {"name": "hook", "namespace": "x"}}),
        _ => json!({"service": d.with(json!({"name": "hook", "namespace": "x"}), &[
            ("path", |_| json!("/x")),
            ("port", |d| json!(d.pick(&[443, 8443]))),
        ])}),
    };
    if d.chance(40) {
        client["caBundle"] = json!(BUNDLE.trim());
    }
    client
}

fn rules(d: &SeededRandom) -> Value {
    d.list(1, 2, |d| {
        d.with(
            json!({"apiGroups": [NOWHERE], "apiVersions": d.pick(&[["v1"], ["*"]]), "resources": ["things"], "operations": d.pick(&[vec!["CREATE"], vec!["UPDATE", "CREATE"], vec!["*"]])}),
            &[("scope", |d| json!(d.pick(&["*", "Namespaced", "Cluster"])))],
        )
    })
}

const WEBHOOK: &[(&str, Make)] = &[
    ("failurePolicy", |d| json!(d.pick(&["Fail", "Ignore"]))),
    ("matchPolicy", |d| json!(d.pick(&["Exact", "Equivalent"]))),
    ("namespaceSelector", SeededRandom::selector),
    ("objectSelector", SeededRandom::selector),
    ("timeoutSeconds", number),
    ("matchConditions", |_| json!([{"name": "c", "expression": "true"}])),
];

fn webhook(d: &SeededRandom, name: &str) -> Value {
    let base = json!({"name": format!("{name}.hook.example.com"), "sideEffects": d.pick(&["None", "NoneOnDryRun"]),
        "admissionReviewVersions": ["v1"], "clientConfig": client(d), "rules": rules(d)});
    d.with(base, WEBHOOK)
}

pub fn validating_webhooks(d: &SeededRandom) -> Value {
    let names = d.some_of(&["a", "b", "c"]);
    json!({"webhooks": names.iter().map(|name| webhook(d, name)).collect::<Vec<_>>()})
}

pub fn mutating_webhooks(d: &SeededRandom) -> Value {
    let mut made = validating_webhooks(d);
    for webhook in made["webhooks"].as_array_mut().unwrap() {
        if d.chance(40) {
            webhook["reinvocationPolicy"] = json!(d.pick(&["Never", "IfNeeded"]));
        }
    }
    made
}

fn matched(d: &SeededRandom) -> Value {
    let base = json!({"resourceRules": rules(d)});
    d.with(
        base,
        &[
            ("matchPolicy", |d| json!(d.pick(&["Exact", "Equivalent"]))),
            ("namespaceSelector", SeededRandom::selector),
            ("objectSelector", SeededRandom::selector),
            ("excludeResourceRules", rules),
        ],
    )
}

pub fn admission_policy(d: &SeededRandom) -> Value {
    let base = json!({"matchConstraints": matched(d), "validations": [d.with(json!({"expression": "true"}), &[
        ("message", |_| json!("no")),
        ("reason", |d| json!(d.pick(&["Invalid", "Forbidden"]))),
        ("messageExpression", |_| json!("'no'")),
    ])]});
    json!({"spec": d.with(base, &[
        ("failurePolicy", |d| json!(d.pick(&["Fail", "Ignore"]))),
        ("matchConditions", |_| json!([{"name": "c", "expression": "true"}])),
        ("auditAnnotations", |_| json!([{"key": "a", "valueExpression": "'x'"}])),
        ("variables", |_| json!([{"name": "v", "expression": "1"}])),
        ("paramKind", |_| json!({"apiVersion": "v1", "kind": "ConfigMap"})),
    ])})
}

pub fn policy_binding(d: &SeededRandom) -> Value {
    let base = json!({"policyName": "p", "validationActions": d.pick(&[vec!["Deny"], vec!["Warn", "Audit"]])});
    json!({"spec": d.with(base, &[
        ("matchResources", |d| d.some(&[("namespaceSelector", SeededRandom::selector), ("resourceRules", rules), ("matchPolicy", |_| json!("Exact"))])),
        ("paramRef", |d| d.pick(&[
            json!({"parameterNotFoundAction": "Deny", "name": "x"}),
            json!({"parameterNotFoundAction": "Allow", "selector": {}}),
        ])),
    ])})
}

pub fn api_service(d: &SeededRandom, group: &str) -> Value {
    let mut spec =
        json!({"group": group, "version": "v1", "groupPriorityMinimum": d.pick(&[100, 2000]), "versionPriority": 10});
    spec["service"] = d.with(json!({"name": "api", "namespace": "x"}), &[("port", |d| json!(d.pick(&[443, 8443])))]);
    match d.below(3) {
        0 => spec["insecureSkipTLSVerify"] = json!(true),
        1 => spec["caBundle"] = json!(BUNDLE.trim()),
        _ => {}
    }
    json!({"spec": spec})
}

pub fn flow_schema(d: &SeededRandom) -> Value {
    let subjects = |d: &SeededRandom| match d.below(3) {
        0 => json!([{"kind": "User", "user": {"name": "nobody.example"}}]),
        1 => json!([{"kind": "Group", "group": {"name": "nobody.example"}}]),
        _ => json!([{"kind": "ServiceAccount", "serviceAccount": {"name": "nobody", "namespace": "x"}}]),
    };
    let mut rule = json!({"subjects": subjects(d)});
    if d.chance(70) {
        let mut resource = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["pods"]});
        match d.below(3) {
            0 => resource["clusterScope"] = json!(true),
            1 => {
                resource["clusterScope"] = json!(false);
                resource["namespaces"] = json!(["*"]);
            }
            _ => resource["namespaces"] = json!(["x"]),
        }
        rule["resourceRules"] = json!([resource]);
    } else {
        rule["nonResourceRules"] = json!([{"verbs": ["get"], "nonResourceURLs": ["/x"]}]);
    }
    let base = json!({"priorityLevelConfiguration": {"name": "workload-low"}, "rules": [rule]});
    json!({"spec": d.with(base, &[
        ("matchingPrecedence", |d| json!(5000 + d.below(3))),
        ("distinguisherMethod", |d| json!({"type": d.pick(&["ByUser", "ByNamespace"])})),
    ])})
}

pub fn priority_level(d: &SeededRandom) -> Value {
    const SHARES: &[(&str, Make)] = &[
        ("nominalConcurrencyShares", |d| json!(d.pick(&[0, 5, 30]))),
        ("lendablePercent", |d| json!(d.pick(&[0, 50]))),
        ("borrowingLimitPercent", |d| json!(d.pick(&[0, 50]))),
    ];
    let spec = match d.below(4) {
        0 => {
            json!({"type": "Exempt", "exempt": d.some(&[("nominalConcurrencyShares", |_| json!(1)), ("lendablePercent", |_| json!(10))])})
        }
        1 => json!({"type": "Limited", "limited": d.with(json!({"limitResponse": {"type": "Reject"}}), SHARES)}),
        2 => {
            let queuing =
                d.some(&[("queues", |_| json!(8)), ("handSize", |_| json!(2)), ("queueLengthLimit", |_| json!(20))]);
            json!({"type": "Limited", "limited": d.with(json!({"limitResponse": {"type": "Queue", "queuing": queuing}}), SHARES)})
        }
        _ => json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}),
    };
    json!({"spec": spec})
}

/// A definition called `plural.group`; only mutable fields differ between its manifests.
pub fn definition(d: &SeededRandom, group: &str) -> Value {
    let fixed = d.fixed("names");
    let scope = fixed.pick(&["Namespaced", "Cluster"]);
    let mut names = json!({"plural": "widgets", "kind": "Widget"});
    for (field, value) in [("singular", json!("widget")), ("listKind", json!("WidgetList"))] {
        if d.chance(50) {
            names[field] = value;
        }
    }
    for (field, value) in [("shortNames", json!(["wd"])), ("categories", json!(["all"]))] {
        if d.chance(25) {
            names[field] = value;
        }
    }
    let mut versions = vec![version(d, "v1", true)];
    if d.chance(30) {
        versions.push(version(d, "v1beta1", false));
    }
    let mut spec = json!({"group": group, "scope": scope, "names": names, "versions": versions});
    match d.below(5) {
        0 => spec["conversion"] = json!({"strategy": "None"}),
        1 => {
            spec["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client(d)}})
        }
        _ => {}
    }
    if d.chance(20) {
        spec["preserveUnknownFields"] = json!(false);
    }
    json!({"spec": spec})
}

fn version(d: &SeededRandom, name: &str, storage: bool) -> Value {
    let mut properties = Map::new();
    for field in ["spec", "status"] {
        properties.insert(field.into(), object_schema(d, 2));
    }
    let mut schema = json!({"type": "object", "properties": properties});
    if d.chance(40) {
        schema["description"] = json!(d.pick(&["Widgets of all kinds", "Widgets\nwith <tags> & more"]));
    }
    let base = json!({"name": name, "served": storage || d.chance(80), "storage": storage, "schema": {"openAPIV3Schema": schema}});
    let mut made = d.with(
        base,
        &[
            ("additionalPrinterColumns", |d| {
                d.list(0, 2, |d| {
                    d.with(
                        json!({"name": d.pick(&["Age", "Name"]), "type": "string", "jsonPath": ".metadata.name"}),
                        &[
                            ("priority", |d| json!(d.below(2))),
                            ("description", |_| json!("d")),
                            ("format", |_| json!("name")),
                        ],
                    )
                })
            }),
            ("subresources", |d| {
                d.some(&[
                    ("status", |_| json!({})),
                    ("scale", |_| json!({"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"})),
                ])
            }),
        ],
    );
    if d.chance(15) {
        made["deprecated"] = json!(true);
        made["deprecationWarning"] = json!("old");
    }
    made
}

fn object_schema(d: &SeededRandom, depth: usize) -> Value {
    let mut properties = Map::new();
    for name in d.some_of(&["alpha", "beta", "count", "kind", "default", "items"]) {
        properties.insert(name, schema(d, depth));
    }
    let mut made = json!({"type": "object", "properties": properties});
    if let Some(first) = made["properties"].as_object().unwrap().keys().next().cloned()
        && d.chance(30)
    {
        made["required"] = json!([first]);
    }
    made
}

fn schema(d: &SeededRandom, depth: usize) -> Value {
    let mut made = match d.below(if depth == 0 { 6 } else { 11 }) {
        0 => d.with(
            json!({"type": "string"}),
            &[
                ("default", |_| json!("")),
                ("maxLength", number),
                ("minLength", |_| json!(0)),
                ("pattern", |_| json!("^.*$")),
                ("enum", |_| json!(["", "a"])),
            ],
        ),
        1 => d.with(
            json!({"type": "integer"}),
            &[
                ("default", |_| json!(0)),
                ("minimum", |_| json!(0)),
                ("maximum", |_| json!(10.0)),
                ("exclusiveMinimum", |_| json!(false)),
                ("format", |d| json!(d.pick(&["int32", "int64"]))),
            ],
        ),
        2 => d.with(json!({"type": "boolean"}), &[("default", |_| json!(false))]),
        3 => d.with(json!({"type": "number"}), &[("default", |_| json!(1.5)), ("multipleOf", |_| json!(0.5))]),
        4 => json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
        5 => json!({"type": "string", "format": d.pick(&["date-time", "duration"])}),
        6 => json!({"type": "object", "additionalProperties": schema(d, depth - 1)}),
        7 => json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}),
        8 => {
            let mut list = json!({"type": "array", "items": schema(d, depth - 1)});
            if d.chance(40) {
                list["x-kubernetes-list-type"] = json!("atomic");
                list["maxItems"] = number(d);
            }
            list
        }
        9 => json!({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
            "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "value": schema(d, depth - 1)}}}),
        _ => {
            let mut made = object_schema(d, depth - 1);
            if d.chance(30) && made.get("required").is_none() {
                made["default"] = json!({});
            }
            made
        }
    };
    if d.chance(20) {
        made["description"] = json!(d.pick(&["", "text"]));
    }
    if d.chance(8) {
        made["x-kubernetes-validations"] = json!([{"rule": "self == self", "message": "m"}]);
    }
    if d.chance(8) {
        // The server drops this field.
        made["$comment"] = json!("x");
    }
    made
}

/// The definition behind [`custom`].
pub fn custom_definition(group: &str) -> Value {
    let port = json!({"type": "object", "required": ["port"], "properties": {
        "port": {"x-kubernetes-int-or-string": true}, "protocol": {"type": "string", "default": "TCP"}}});
    let spec = json!({"type": "object", "default": {}, "properties": {
        "replicas": {"type": "integer", "default": 1},
        "paused": {"type": "boolean", "default": false},
        "mode": {"type": "string", "default": "Auto", "enum": ["Auto", "", "Manual"]},
        "text": {"type": "string"},
        "flag": {"type": "boolean"},
        "zero": {"type": "integer"},
        "maybe": {"type": "string", "nullable": true},
        "maybeWithDefault": {"type": "string", "nullable": true, "default": "x"},
        "ratio": {"type": "number", "default": 0.5},
        "ports": {"type": "array", "items": port},
        "names": {"type": "array", "items": {"type": "string"}},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "anything": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "limits": {"type": "object", "additionalProperties": {"x-kubernetes-int-or-string": true}},
        "deep": {"type": "object", "default": {}, "properties": {
            "a": {"type": "object", "default": {"b": 7}, "properties": {"b": {"type": "integer"}, "c": {"type": "string", "default": "c"}}}}},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gadgets.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}}]},
    })
}

pub fn custom(d: &SeededRandom) -> Value {
    const SPEC: &[(&str, Make)] = &[
        ("replicas", |d| json!(d.below(3))),
        ("paused", flag),
        ("mode", |d| json!(d.pick(&["Auto", "", "Manual"]))),
        ("text", |d| json!(d.pick(&["", "a"]))),
        ("flag", flag),
        ("zero", |d| json!(d.below(2))),
        ("maybe", |d| d.pick(&[json!(null), json!(""), json!("m")])),
        ("maybeWithDefault", |d| d.pick(&[json!(null), json!("m")])),
        ("ratio", |d| d.pick(&[json!(1), json!(0.5), json!(0)])),
        ("ports", |d| {
            d.list(0, 2, |d| {
                d.with(json!({"port": d.pick(&[json!(80), json!("http")])}), &[("protocol", |_| json!("UDP"))])
            })
        }),
        ("names", |d| json!(d.some_of(&["b", "a", ""]))),
        ("labels", SeededRandom::entries),
        ("anything", |d| {
            d.some(&[("x", |_| json!({})), ("y", |_| json!([])), ("z", |_| json!({"q": [1, {"r": ""}]}))])
        }),
        ("limits", |d| d.some(&[("cpu", |d| d.pick(&[json!("1000m"), json!(1), json!("1")]))])),
        ("deep", |d| d.some(&[("a", |d| d.some(&[("b", number), ("c", |_| json!("d"))]))])),
    ];
    if d.chance(10) { json!({}) } else { json!({"spec": d.some(SPEC)}) }
}
