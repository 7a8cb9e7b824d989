//! Small kinds of the core, networking, RBAC and storage groups.

use crate::random::{Make, SeededRandom, flag};
use serde_json::{Value, json};

pub(super) fn nothing(_: &SeededRandom) -> Value {
    json!({})
}

pub(super) fn config_map(d: &SeededRandom) -> Value {
    d.some(&[
        ("data", |d| d.some(&[("a", |_| json!("1")), ("b.yaml", |_| json!("x: 1\n")), ("empty", |_| json!(""))])),
        ("binaryData", |d| d.some(&[("bin", |d| json!(d.pick(&["AAEC", "AAED"]))), ("none", |_| json!(""))])),
    ])
}

pub(super) fn secret(d: &SeededRandom) -> Value {
    let mut made = d.some(&[
        ("data", |d| d.some(&[("a", |d| json!(d.pick(&["YQ==", "Yg=="]))), ("none", |_| json!(""))])),
        ("stringData", |d| d.some(&[("a", |_| json!("text")), ("t", |_| json!("")), ("u", |_| json!("ü"))])),
    ]);
    if d.fixed("type").chance(50) {
        made["type"] = json!(d.fixed("type of its own").pick(&["Opaque", "example.com/own"]));
    }
    made
}

pub(super) fn service_account(d: &SeededRandom) -> Value {
    d.some(&[
        ("automountServiceAccountToken", flag),
        ("secrets", |_| json!([{"name": "s"}])),
        ("imagePullSecrets", |_| json!([{"name": "p"}])),
    ])
}

pub(super) fn service(d: &SeededRandom) -> Value {
    const FIELDS: &[(&str, Make)] = &[
        ("selector", SeededRandom::entries),
        ("sessionAffinity", |d| json!(d.pick(&["None", "ClientIP"]))),
        ("publishNotReadyAddresses", flag),
        ("internalTrafficPolicy", |d| json!(d.pick(&["Cluster", "Local"]))),
        ("ipFamilyPolicy", |_| json!("SingleStack")),
        ("trafficDistribution", |_| json!("PreferClose")),
        ("externalIPs", |d| d.pick(&[json!([]), json!(["192.0.2.7"])])),
    ];
    // Whether a service has a cluster IP cannot change.
    let headless = d.fixed("address").chance(25);
    let mut spec = d.some(FIELDS);
    if headless {
        spec["clusterIP"] = json!("None");
        // Without a selector the server makes the service dual-stack, and it stays so.
        spec["selector"] = json!({"app": d.pick(&["a", "b"])});
    } else {
        match d.below(6) {
            0 => spec["type"] = json!("NodePort"),
            1 => {
                spec["type"] = json!("LoadBalancer");
                if d.chance(30) {
                    spec["allocateLoadBalancerNodePorts"] = flag(d);
                }
            }
            2 => spec["type"] = json!("ClusterIP"),
            _ => {}
        }
        if matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer")) && d.chance(40) {
            spec["externalTrafficPolicy"] = json!(d.pick(&["Local", "Cluster"]));
        }
    }
    let names = d.some_of(&["http", "https", "metrics"]);
    let port = |(index, name): (usize, &String)| {
        let mut port = json!({"name": name, "port": 80 + index});
        if d.chance(50) {
            port["targetPort"] = d.pick(&[json!("web"), json!(8080), json!(80 + index)]);
        }
        if d.chance(40) {
            port["protocol"] = json!(d.pick(&["TCP", "UDP"]));
        }
        if d.chance(20) {
            port["appProtocol"] = json!("http");
        }
        port
    };
    let mut ports: Vec<Value> = names.iter().enumerate().map(port).collect();
    if ports.is_empty() {
        ports.push(json!({"port": 53}));
    }
    spec["ports"] = json!(ports);
    json!({"spec": spec})
}

pub(super) fn network_policy(d: &SeededRandom) -> Value {
    let mut spec = d.some(&[("ingress", traffic), ("egress", traffic)]);
    if d.chance(80) {
        spec["podSelector"] = d.selector();
    }
    match d.below(4) {
        0 => spec["policyTypes"] = json!(["Ingress"]),
        1 => spec["policyTypes"] = json!(["Egress", "Ingress"]),
        _ => {}
    }
    // Renamed in the rules of both directions.
    let text = spec.to_string();
    let egress = text.contains("\"egress\"");
    if let (true, Some(rules)) = (egress, spec["egress"].as_array_mut()) {
        for rule in rules {
            if let Some(peers) = rule.as_object_mut().and_then(|rule| rule.remove("from")) {
                rule["to"] = peers;
            }
        }
    }
    json!({"spec": spec})
}

fn traffic(d: &SeededRandom) -> Value {
    d.list(0, 2, |d| {
        d.some(&[
            ("ports", |d| {
                d.list(0, 2, |d| match d.below(4) {
                    0 => json!({"port": 443}),
                    1 => json!({"protocol": "UDP", "port": "dns"}),
                    2 => json!({"protocol": "TCP", "port": 30000, "endPort": 30010}),
                    _ => json!({}),
                })
            }),
            ("from", |d| {
                d.list(0, 2, |d| match d.below(3) {
                    0 => json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}),
                    1 => json!({"namespaceSelector": d.selector()}),
                    _ => json!({"podSelector": d.selector(), "namespaceSelector": {}}),
                })
            }),
        ])
    })
}

pub(super) fn ingress(d: &SeededRandom) -> Value {
    let backend = json!({"service": {"name": "web", "port": {"number": 80}}});
    let mut spec = d.some(&[
        ("ingressClassName", |_| json!("shop")),
        ("tls", |_| json!([{"hosts": ["a.example"], "secretName": "tls"}, {}])),
    ]);
    spec["defaultBackend"] = backend.clone();
    if d.chance(60) {
        let kind = d.pick(&["Prefix", "ImplementationSpecific"]);
        spec["rules"] =
            json!([{"host": "a.example", "http": {"paths": [{"path": "/x", "pathType": kind, "backend": backend}]}}]);
    }
    json!({"spec": spec})
}

pub(super) fn ingress_class(d: &SeededRandom) -> Value {
    let mut spec = json!({"controller": d.fixed("controller").pick(&["example.com/a", "example.com/b"])});
    if d.chance(50) {
        spec["parameters"] = d.pick(&[
            json!({"kind": "Thing", "name": "x"}),
            json!({"apiGroup": "example.com", "kind": "Thing", "name": "x", "scope": "Cluster"}),
            json!({"kind": "Thing", "name": "x", "scope": "Namespace", "namespace": "y"}),
        ]);
    }
    json!({"spec": spec})
}

fn verbs(d: &SeededRandom) -> Value {
    d.pick(&[json!(["get", "list"]), json!(["*"]), json!(["watch"])])
}

fn namespaced_rule(d: &SeededRandom) -> Value {
    d.with(json!({"apiGroups": d.pick(&[vec![""], vec!["apps", ""], vec!["*"]]), "resources": ["pods"], "verbs": verbs(d)}), &[
        ("resourceNames", |d| d.pick(&[json!(["a"]), json!([])])),
    ])
}

pub(super) fn role(d: &SeededRandom) -> Value {
    d.some(&[("rules", |d| d.list(0, 3, namespaced_rule))])
}

pub(super) fn cluster_role(d: &SeededRandom) -> Value {
    match d.below(4) {
        0 => {
            json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"example.com/merge": d.pick(&["a", "b"])}}]}, "rules": []})
        }
        1 => json!({"aggregationRule": {"clusterRoleSelectors": [d.selector()]}}),
        2 => d.some(&[("rules", |d| d.list(1, 2, |d| json!({"nonResourceURLs": ["/metrics"], "verbs": verbs(d)})))]),
        _ => d.some(&[("rules", |d| d.list(0, 3, namespaced_rule))]),
    }
}

fn subject(d: &SeededRandom) -> Value {
    d.pick(&[
        json!({"kind": "ServiceAccount", "name": "a", "namespace": "x"}),
        json!({"kind": "ServiceAccount", "name": "a", "namespace": "x", "apiGroup": ""}),
        json!({"kind": "User", "name": "u"}),
        json!({"kind": "Group", "name": "g", "apiGroup": "rbac.authorization.k8s.io"}),
    ])
}

pub(super) fn cluster_binding(d: &SeededRandom) -> Value {
    binding(d, &["ClusterRole"])
}

pub(super) fn role_binding(d: &SeededRandom) -> Value {
    binding(d, &["ClusterRole", "Role"])
}

fn binding(d: &SeededRandom, kinds: &[&str]) -> Value {
    let mut role = json!({"kind": d.pick(kinds), "name": d.pick(&["view", "edit"])});
    if d.chance(70) {
        role["apiGroup"] = json!("rbac.authorization.k8s.io");
    }
    d.with(json!({"roleRef": role}), &[("subjects", |d| d.list(0, 2, subject)), ("userNames", |_| json!(["old"]))])
}

pub(super) fn priority_class(d: &SeededRandom) -> Value {
    let fixed = d.fixed("value");
    let mut made = d.with(
        json!({"value": fixed.below(3) * 1000}),
        &[("description", |d| json!(d.pick(&["a", "b"]))), ("globalDefault", |_| json!(false))],
    );
    if fixed.chance(40) {
        made["preemptionPolicy"] = json!(fixed.pick(&["Never", "PreemptLowerPriority"]));
    }
    made
}

pub(super) fn storage_class(d: &SeededRandom) -> Value {
    let fixed = d.fixed("class");
    let mut made = fixed.with(
        json!({"provisioner": "csi.example.com"}),
        &[
            ("parameters", |d| d.some(&[("type", |_| json!("fast")), ("none", |_| json!(""))])),
            ("reclaimPolicy", |d| json!(d.pick(&["Delete", "Retain"]))),
            ("volumeBindingMode", |d| json!(d.pick(&["Immediate", "WaitForFirstConsumer"]))),
        ],
    );
    made = d.with(made, &[("allowVolumeExpansion", flag), ("mountOptions", |d| d.pick(&[json!([]), json!(["ro"])]))]);
    made
}

pub(super) fn csi_driver(d: &SeededRandom) -> Value {
    let fixed = d.fixed("driver");
    let spec = fixed.some(&[
        ("attachRequired", flag),
        ("volumeLifecycleModes", |d| json!(d.pick(&[vec!["Persistent"], vec!["Persistent", "Ephemeral"]]))),
    ]);
    let spec = d.with(
        spec,
        &[
            ("podInfoOnMount", flag),
            ("storageCapacity", flag),
            ("fsGroupPolicy", |d| json!(d.pick(&["File", "None"]))),
            ("requiresRepublish", flag),
            ("seLinuxMount", flag),
            ("tokenRequests", |_| json!([{"audience": ""}])),
        ],
    );
    json!({"spec": spec})
}

pub(super) fn runtime_class(d: &SeededRandom) -> Value {
    d.with(
        json!({"handler": d.fixed("handler").pick(&["runc", "kata"])}),
        &[
            ("overhead", |_| json!({"podFixed": {"cpu": "0.1", "memory": "1024Ki"}})),
            ("scheduling", |d| {
                d.some(&[
                    ("nodeSelector", SeededRandom::entries),
                    ("tolerations", |_| json!([{"key": "a", "operator": "Exists"}])),
                ])
            }),
        ],
    )
}

pub(super) fn lease(d: &SeededRandom) -> Value {
    json!({"spec": d.some(&[
        ("holderIdentity", |d| json!(d.pick(&["a", "b"]))),
        ("leaseDurationSeconds", |_| json!(30)),
        ("acquireTime", |_| json!("2026-01-01T00:00:00.000000Z")),
    ])})
}
