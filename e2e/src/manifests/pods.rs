//! Pod templates: containers, probes, mounts, security, every field with a default or with two spellings.

use crate::random::{Make, SeededRandom, flag, number};
use serde_json::{Value, json};

/// What the kind of the workload determines about its pods.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Runs {
    Always,
    ToTheEnd,
}

/// A pod template with these labels.
pub(super) fn template(d: &SeededRandom, labels: &Value, runs: Runs) -> Value {
    let mut metadata = json!({"labels": labels});
    if d.chance(30) {
        metadata["annotations"] = d.entries();
    }
    if d.chance(10) {
        metadata["creationTimestamp"] = Value::Null;
    }
    json!({"metadata": metadata, "spec": pod(d, runs)})
}

fn pod(d: &SeededRandom, runs: Runs) -> Value {
    let volumes = super::volumes::volumes(d);
    let names: Vec<String> = volumes.iter().map(|v| v["name"].as_str().unwrap().to_owned()).collect();
    let mut first = d.some_of(&["setup", "wait", "sidecar"]);
    let mut main = d.some_of(&["web", "proxy", "log"]);
    if main.is_empty() {
        main.push("web".into());
    }
    if d.chance(30) {
        main.reverse();
        first.reverse();
    }
    let network = d.chance(20);
    let containers: Vec<Value> = main.iter().map(|name| container(d, name, &names, Role::Main, network)).collect();
    let first: Vec<Value> = first
        .iter()
        .map(|name| container(d, name, &names, if name == "sidecar" { Role::Sidecar } else { Role::First }, network))
        .collect();
    let mut pod = d.with(json!({"containers": containers}), POD);
    if !volumes.is_empty() || d.chance(10) {
        pod["volumes"] = json!(volumes);
    }
    if !first.is_empty() || d.chance(10) {
        pod["initContainers"] = json!(first);
    }
    if runs == Runs::ToTheEnd {
        pod["restartPolicy"] = json!(d.pick(&["Never", "OnFailure"]));
    } else if d.chance(30) {
        pod["restartPolicy"] = json!("Always");
    }
    if network {
        pod["hostNetwork"] = json!(true);
    }
    // Longer than the sleep of any hook.
    if d.chance(30) {
        pod["terminationGracePeriodSeconds"] = json!(d.pick(&[10, 30, 70]));
    }
    settle_host(d, &mut pod, network);
    if pod["dnsPolicy"] == "None" && pod["dnsConfig"]["nameservers"].get(0).is_none() {
        pod["dnsConfig"] = json!({"nameservers": ["10.0.0.1"]});
    }
    pod
}

/// Fields that exclude each other when pods share namespaces with the host.
fn settle_host(d: &SeededRandom, pod: &mut Value, network: bool) {
    match d.below(6) {
        0 => pod["hostPID"] = json!(true),
        1 => pod["hostIPC"] = json!(true),
        2 => pod["shareProcessNamespace"] = flag(d),
        3 if !network => pod["hostUsers"] = json!(false),
        4 => pod["hostUsers"] = json!(true),
        _ => {}
    }
}

const POD: &[(&str, Make)] = &[
    ("dnsPolicy", |d| json!(d.pick(&["ClusterFirst", "Default", "None", "ClusterFirstWithHostNet"]))),
    ("dnsConfig", |d| {
        d.some(&[
            ("nameservers", |_| json!(["10.0.0.1", "10.0.0.2"])),
            ("searches", |_| json!(["a.example"])),
            ("options", |_| json!([{"name": "ndots", "value": "2"}, {"name": "edns0"}])),
        ])
    }),
    ("nodeSelector", SeededRandom::entries),
    ("tolerations", |d| d.list(0, 2, toleration)),
    ("affinity", |d| {
        d.some(&[("nodeAffinity", node_affinity), ("podAffinity", pod_affinity), ("podAntiAffinity", pod_affinity)])
    }),
    ("topologySpreadConstraints", |d| {
        let mut spread = json!({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "x"}}});
        if d.chance(40) {
            spread["nodeAffinityPolicy"] = json!(d.pick(&["Honor", "Ignore"]));
        }
        json!([spread])
    }),
    ("schedulerName", |d| json!(d.pick(&["default-scheduler", "other"]))),
    ("priorityClassName", |d| json!(d.pick(&["system-cluster-critical", "shop"]))),
    ("runtimeClassName", |_| json!("gvisor")),
    ("serviceAccountName", |d| json!(d.pick(&["default", "web"]))),
    ("automountServiceAccountToken", flag),
    ("imagePullSecrets", |d| json!(d.pick(&[json!([{"name": "pull"}]), json!([{"name": "a"}, {"name": "b"}])]))),
    (
        "hostAliases",
        |d| json!([{"ip": d.pick(&["10.0.0.9", "10.0.0.8"]), "hostnames": d.pick(&[vec!["a.example", "b.example"], vec!["b.example"]])}]),
    ),
    ("enableServiceLinks", flag),
    ("preemptionPolicy", |d| json!(d.pick(&["Never", "PreemptLowerPriority"]))),
    ("readinessGates", |_| json!([{"conditionType": "example.com/ready"}])),
    ("setHostnameAsFQDN", flag),
    ("hostname", |_| json!("web")),
    ("subdomain", |_| json!("shop")),
    ("os", |_| json!({"name": "linux"})),
    ("overhead", |_| json!({"cpu": "0.25", "memory": "16Mi"})),
    ("securityContext", |d| {
        d.some(&[
            ("runAsUser", |d| json!(d.pick(&[0, 1000]))),
            ("runAsGroup", |d| json!(d.pick(&[0, 1000]))),
            ("fsGroup", |d| json!(d.pick(&[0, 2000]))),
            ("fsGroupChangePolicy", |d| json!(d.pick(&["Always", "OnRootMismatch"]))),
            ("runAsNonRoot", flag),
            ("seccompProfile", profile),
            ("appArmorProfile", profile),
            ("seLinuxOptions", |d| json!(d.pick(&[json!({"level": "s0:c1,c2"}), json!({"type": "spc_t"})]))),
            ("supplementalGroups", |d| json!(d.pick(&[[1, 2], [2, 3]]))),
            ("sysctls", |d| json!([{"name": d.pick(&["vm.a", "vm.b"]), "value": d.pick(&["1", "2"])}])),
            ("supplementalGroupsPolicy", |d| json!(d.pick(&["Merge", "Strict"]))),
        ])
    }),
];

fn profile(d: &SeededRandom) -> Value {
    match d.below(3) {
        0 => json!({"type": "RuntimeDefault"}),
        1 => json!({"type": "Localhost", "localhostProfile": "a.json"}),
        _ => json!({"type": "Unconfined"}),
    }
}

fn toleration(d: &SeededRandom) -> Value {
    d.pick(&[
        json!({"operator": "Exists"}),
        json!({"key": "role", "operator": "Exists", "effect": "NoSchedule"}),
        json!({"key": "a", "value": "b"}),
        json!({"key": "a", "operator": "Equal", "value": "b"}),
        json!({"key": "node", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 120}),
        json!({"key": "node", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}),
    ])
}

fn node_affinity(d: &SeededRandom) -> Value {
    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a", "b"]}]});
    match d.below(2) {
        0 => json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}),
        _ => json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": term}]}),
    }
}

fn pod_affinity(d: &SeededRandom) -> Value {
    let mut term = json!({"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "x"}}});
    if d.chance(40) {
        term["namespaceSelector"] = json!({});
    }
    match d.below(2) {
        0 => json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]}),
        _ => json!({"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]}),
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Role {
    Main,
    First,
    Sidecar,
}

fn container(d: &SeededRandom, name: &str, volumes: &[String], role: Role, host_network: bool) -> Value {
    let image = d.pick(&["r.example/a", "r.example/a:latest", "r.example/a:1", "r.example/a@sha256:0123"]);
    let image = if image.contains('@') { format!("{}{:060}", image, 7) } else { image.to_owned() };
    let mut made = d.with(json!({"name": name, "image": image}), CONTAINER);
    if role != Role::First {
        for (field, make) in
            [("livenessProbe", liveness as Make), ("startupProbe", liveness), ("readinessProbe", readiness)]
        {
            if d.chance(30) {
                made[field] = make(d);
            }
        }
        if d.chance(25) {
            made["lifecycle"] = d.some(&[("preStop", hook), ("postStart", hook)]);
        }
    }
    if role == Role::Sidecar {
        made["restartPolicy"] = json!("Always");
    }
    if d.chance(40) {
        made["ports"] = ports(d, host_network);
    }
    let mounts: Vec<Value> =
        volumes.iter().filter(|_| d.chance(50)).cloned().collect::<Vec<_>>().iter().map(|v| mount(d, v)).collect();
    if !mounts.is_empty() {
        made["volumeMounts"] = json!(mounts);
    }
    made
}

const CONTAINER: &[(&str, Make)] = &[
    ("imagePullPolicy", |d| json!(d.pick(&["Always", "IfNotPresent"]))),
    ("command", |d| json!(d.pick(&[json!(["run"]), json!(["sh", "-c", ""])]))),
    ("args", |d| json!(d.pick(&[json!(["--v=2"]), json!(["a", "", "b"])]))),
    ("workingDir", |_| json!("/tmp")),
    ("env", |d| {
        let names = d.some_of(&["A", "B", "C", "D"]);
        names.iter().map(|name| variable(d, name)).collect()
    }),
    ("envFrom", |d| {
        d.list(0, 2, |d| match d.below(2) {
            0 => json!({"configMapRef": {"name": "settings"}}),
            _ => json!({"prefix": "P_", "secretRef": {"name": "login", "optional": d.chance(50)}}),
        })
    }),
    ("resources", |d| {
        d.some(&[
            ("requests", |d| {
                d.some(&[("cpu", small_cpu), ("memory", |d| json!(d.pick(&["50Mi", "0.05Gi", "52428800"])))])
            }),
            ("limits", |d| d.some(&[("cpu", large_cpu), ("memory", crate::random::quantity)])),
        ])
    }),
    ("terminationMessagePath", |_| json!("/dev/other")),
    ("terminationMessagePolicy", |d| json!(d.pick(&["File", "FallbackToLogsOnError"]))),
    ("stdin", flag),
    ("tty", flag),
    ("securityContext", security),
];

fn small_cpu(d: &SeededRandom) -> Value {
    d.pick(&[json!("10m"), json!("0.1"), json!(0.1), json!("100m"), json!("0.010")])
}

fn large_cpu(d: &SeededRandom) -> Value {
    d.pick(&[json!(1), json!("1"), json!("1000m"), json!("1.50"), json!(2), json!("2e0")])
}

fn security(d: &SeededRandom) -> Value {
    let mut made = d.some(&[
        ("runAsUser", |d| json!(d.pick(&[0, 1000]))),
        ("runAsGroup", |d| json!(d.pick(&[0, 1000]))),
        ("runAsNonRoot", flag),
        ("readOnlyRootFilesystem", flag),
        ("seccompProfile", profile),
        ("appArmorProfile", profile),
        ("procMount", |_| json!("Default")),
        ("seLinuxOptions", |d| json!(d.pick(&[json!({"level": "s0"}), json!({"type": "spc_t", "user": "u"})]))),
    ]);
    match d.below(4) {
        0 => made["privileged"] = json!(true),
        1 => {
            made["allowPrivilegeEscalation"] = json!(false);
            made["capabilities"] = json!({"drop": ["ALL"]});
        }
        2 => {
            made["capabilities"] =
                json!({"add": d.some_of(&["NET_BIND_SERVICE", "NET_RAW"]), "drop": d.some_of(&["KILL", "CHOWN"])})
        }
        _ => {}
    }
    made
}

fn variable(d: &SeededRandom, name: &str) -> Value {
    match d.below(7) {
        0 => json!({"name": name}),
        1 => json!({"name": name, "value": ""}),
        2 => json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}),
        3 => json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "spec.nodeName"}}}),
        4 => {
            json!({"name": name, "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "containerName": "web"}}})
        }
        5 => json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "login", "key": "k", "optional": true}}}),
        _ => json!({"name": name, "value": d.pick(&["a", "b", "true"])}),
    }
}

fn ports(d: &SeededRandom, host_network: bool) -> Value {
    let names = d.some_of(&["http", "metrics", ""]);
    let mut number = 8000;
    let port = |name: &String| {
        number += 1 + d.below(3);
        let mut port = json!({"containerPort": number});
        if !name.is_empty() {
            port["name"] = json!(name);
        }
        if d.chance(40) {
            port["protocol"] = json!(d.pick(&["TCP", "UDP"]));
        }
        if host_network && d.chance(30) {
            port["hostPort"] = json!(number);
        }
        port
    };
    names.iter().map(port).collect()
}

fn mount(d: &SeededRandom, volume: &str) -> Value {
    let mut mount = json!({"name": volume, "mountPath": format!("/{}/{volume}", d.pick(&["mnt", "var"]))});
    match d.below(5) {
        0 => mount["readOnly"] = flag(d),
        1 => mount["subPath"] = json!("a"),
        2 => mount["mountPropagation"] = json!(d.pick(&["HostToContainer", "None"])),
        3 => {
            mount["readOnly"] = json!(true);
            mount["recursiveReadOnly"] = json!("Disabled");
        }
        _ => {}
    }
    mount
}

fn handler(d: &SeededRandom) -> Value {
    match d.below(4) {
        0 => json!({"exec": {"command": ["check", "it"]}}),
        1 => json!({"tcpSocket": {"port": d.pick(&[json!(8080), json!("http")])}}),
        2 => {
            let mut get = json!({"port": d.pick(&[json!(8080), json!("http")])});
            if d.chance(50) {
                get["path"] = json!(d.pick(&["/healthz", "/"]));
            }
            if d.chance(40) {
                get["scheme"] = json!(d.pick(&["HTTP", "HTTPS"]));
            }
            if d.chance(20) {
                get["httpHeaders"] = json!([{"name": "A", "value": ""}]);
            }
            json!({"httpGet": get})
        }
        _ => d.pick(&[
            json!({"grpc": {"port": 9000}}),
            json!({"grpc": {"port": 9000, "service": "x"}}),
            json!({"exec": {"command": ["x"]}}),
        ]),
    }
}

fn probe(d: &SeededRandom) -> Value {
    let handler = handler(d);
    d.with(
        handler,
        &[
            ("initialDelaySeconds", number),
            ("timeoutSeconds", number),
            ("periodSeconds", number),
            ("failureThreshold", number),
            ("successThreshold", |_| json!(1)),
        ],
    )
}

fn liveness(d: &SeededRandom) -> Value {
    let mut probe = probe(d);
    if d.chance(20) {
        probe["terminationGracePeriodSeconds"] = number(d);
    }
    probe
}

fn readiness(d: &SeededRandom) -> Value {
    let mut probe = probe(d);
    if d.chance(20) {
        probe["successThreshold"] = number(d);
    }
    probe
}

fn hook(d: &SeededRandom) -> Value {
    match d.below(3) {
        0 => json!({"exec": {"command": ["stop"]}}),
        1 => json!({"sleep": {"seconds": 3}}),
        _ => d.pick(&[
            json!({"httpGet": {"port": 80}}),
            json!({"httpGet": {"port": "http", "path": "/x", "scheme": "HTTPS"}}),
        ]),
    }
}
