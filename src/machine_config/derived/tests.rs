use super::*;
use crate::machine_config::changes::FileState;
use crate::machine_config::ignition::Ignition;
use serde_json::Value;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;
const BOTH: [SourceKind; 2] = [SourceKind::ContainerRuntime, SourceKind::Kubelet];

fn metadata(kind: &str, name: &str, created: &str) -> Value {
    json!({"name": name, "uid": format!("{kind}-{name}"), "generation": 3, "creationTimestamp": created})
}

fn kubelet(name: &str, created: &str, spec: &Value) -> Source {
    let object = json!({"metadata": metadata("k", name, created), "spec": spec});
    Source::of_kubelet(&serde_json::from_value(object).unwrap())
}

fn of(selector: &Value, settings: Value) -> Value {
    json!({"machineConfigPoolSelector": {"matchLabels": selector}, "kubeletConfig": settings})
}

fn max_pods(name: &str, created: &str) -> Source {
    kubelet(name, created, &of(&json!({"pods": "many"}), json!({"maxPods": 500})))
}

fn runtime(settings: &Value) -> Source {
    let selector = json!({"matchLabels": {"pods": "many"}});
    let spec = json!({"machineConfigPoolSelector": selector, "containerRuntimeConfig": settings});
    let object = json!({"metadata": metadata("r", "limits", "2026-01-01T00:00:00Z"), "spec": spec});
    Source::of_runtime(&serde_json::from_value(object).unwrap())
}

fn pool(name: &str, labels: Value) -> MachineConfigPool {
    let mut pool = MachineConfigPool::new(name, Default::default());
    pool.metadata.labels = serde_json::from_value(labels).unwrap();
    pool
}

fn made(sources: &[&Source], live: &[MachineConfig]) -> Generated {
    let pools =
        [pool("infra", json!({"pods": "many"})), pool("worker", json!({"pods": "many"})), pool("master", json!({}))];
    generate(sources, (&pools.iter().collect::<Vec<_>>(), &BTreeMap::new()), live.iter(), "v1")
}

fn names(generated: &Generated) -> Vec<&str> {
    generated.configs.iter().map(|(_, config)| name(config)).collect()
}

fn error(settings: Value) -> String {
    let source = kubelet("a", "2026-01-01T00:00:00Z", &of(&json!({"pods": "many"}), settings));
    made(&[&source], &[]).outcomes.remove(0).expect_err("accepted")
}

#[test]
fn each_pool_that_is_selected_gets_a_machine_config() {
    let source = max_pods("pods", "2026-01-01T00:00:00Z");
    let generated = made(&[&source], &[]);
    assert_eq!(generated.outcomes, [Ok(String::new())]);
    assert_eq!(names(&generated), ["99-infra-generated-kubelet", "99-worker-generated-kubelet"]);
    let (pool, config) = &generated.configs[1];
    assert_eq!(pool, "worker");
    assert_eq!(config.metadata.labels.as_ref().unwrap()[ROLE_LABEL], "worker");
    assert_eq!(config.metadata.annotations.as_ref().unwrap()[GENERATED_BY], "v1");
    let owner = &config.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.uid.as_str(), owner.controller), ("KubeletConfig", "k-pods", Some(true)));
    let read = Ignition::read(&config.spec.config).unwrap();
    assert!(read.warnings.is_empty(), "{:?}", read.warnings);
    let files = &read.ignition.config().storage.files;
    let [file] = files.as_slice() else { panic!("{files:?}") };
    let state = FileState::of(file).unwrap();
    assert_eq!((file.path.as_str(), state.mode), ("/etc/kubernetes/kubelet.conf.d/50-pods.conf", 0o644));
    let contents: Value = serde_json::from_slice(&state.contents).unwrap();
    let expected =
        json!({"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "maxPods": 500});
    assert_eq!(contents, expected);
}

#[test]
fn names_stay_and_the_next_one_gets_the_next_number() {
    let (first, second) = (max_pods("z", "2026-01-01T00:00:00Z"), max_pods("a", "2026-01-02T00:00:00Z"));
    let both = made(&[&second, &first], &[]);
    let of_worker = |generated: &Generated, source: &Source| {
        let of =
            |(pool, config): &&(String, MachineConfig)| pool == "worker" && made_of(config).unwrap().1 == source.uid;
        generated.configs.iter().find(of).map(|(_, config)| name(config).to_owned())
    };
    assert_eq!(of_worker(&both, &first).as_deref(), Some("99-worker-generated-kubelet"), "the older one");
    assert_eq!(of_worker(&both, &second).as_deref(), Some("99-worker-generated-kubelet-1"));
    let live: Vec<MachineConfig> = both.configs.iter().map(|(_, config)| config.clone()).collect();
    // The first one is deleted, and a third one comes: nobody's name changes.
    let third = max_pods("c", "2026-01-03T00:00:00Z");
    let now = made(&[&second, &third], &live);
    assert_eq!(of_worker(&now, &second).as_deref(), Some("99-worker-generated-kubelet-1"));
    assert_eq!(of_worker(&now, &third).as_deref(), Some("99-worker-generated-kubelet"), "what was the first one's");
    let same = made(&[&second], &live);
    let unwanted: Vec<&str> = unwanted(&[&second], &same, &BOTH, live.iter()).into_iter().map(name).collect();
    assert_eq!(unwanted, ["99-infra-generated-kubelet", "99-worker-generated-kubelet"]);
    assert!(live.iter().any(|config| is_current(config, &same.configs[0].1)));
}

#[test]
fn what_people_have_made_is_not_overwritten_and_ten_are_enough() {
    let theirs = MachineConfig::new("99-worker-generated-kubelet", Default::default());
    let source = max_pods("pods", "2026-01-01T00:00:00Z");
    let generated = made(&[&source], std::slice::from_ref(&theirs));
    assert_eq!(names(&generated), ["99-infra-generated-kubelet", "99-worker-generated-kubelet-1"]);
    assert!(unwanted(&[&source], &generated, &BOTH, [&theirs].into_iter()).is_empty());
    let many: Vec<Source> = (0..11).map(|n| max_pods(&format!("p{n:02}"), "2026-01-01T00:00:00Z")).collect();
    let generated = made(&many.iter().collect::<Vec<_>>(), &[]);
    assert!(generated.outcomes[..10].iter().all(Result::is_ok), "{:?}", generated.outcomes);
    let error = generated.outcomes[10].as_ref().unwrap_err();
    assert!(error.contains("99-infra-generated-kubelet to 99-infra-generated-kubelet-9 all exist"), "{error}");
}

#[test]
fn what_cannot_be_made_anew_stays_as_it_was() {
    let good = max_pods("pods", "2026-01-01T00:00:00Z");
    let live: Vec<MachineConfig> = made(&[&good], &[]).configs.into_iter().map(|(_, config)| config).collect();
    let bad = kubelet("pods", "2026-01-01T00:00:00Z", &of(&json!({"pods": "many"}), json!({"maxPods": "500"})));
    let generated = made(&[&bad], &live);
    assert_eq!(generated.outcomes[0].as_ref().unwrap_err(), "kubeletConfig.maxPods is \"500\": set a whole number");
    assert!(unwanted(&[&bad], &generated, &BOTH, live.iter()).is_empty(), "nodes keep what they have");
    let none = made(&[], &live);
    assert_eq!(unwanted(&[], &none, &BOTH, live.iter()).len(), 2, "once it is deleted they are removed");
    assert!(unwanted(&[], &none, &[SourceKind::ContainerRuntime], live.iter()).is_empty(), "its kind is not served");
}

#[test]
fn fields_that_would_keep_a_kubelet_from_starting_are_refused() {
    for (settings, expected) in [
        (json!({"maxPodz": 1}), "kubeletConfig.maxPodz is no field that is known here"),
        (json!({"clusterDNS": ["10.0.0.1"]}), "kubeletConfig.clusterDNS is a setting of the cluster as a whole"),
        (json!({"nodeStatusUpdateFrequency": "10"}), "kubeletConfig.nodeStatusUpdateFrequency is \"10\": set a time"),
        (json!({"nodeStatusUpdateFrequency": 10}), "kubeletConfig.nodeStatusUpdateFrequency is 10: set a time"),
        (json!({"maxPods": 1.5}), "kubeletConfig.maxPods is 1.5: set a whole number"),
        (json!({"systemReserved": {"cpu": 1}}), "kubeletConfig.systemReserved is {\"cpu\":1}: set names with texts"),
        (json!({"featureGates": {"A": "true"}}), "kubeletConfig.featureGates is {\"A\":\"true\"}: set names with true"),
        (json!({}), "it sets nothing"),
    ] {
        let error = error(settings.clone());
        assert!(error.starts_with(expected), "{settings}: {error}");
    }
    for time in ["10s", "1m30s", "0", "1.5h", "-1s", "100ms", "5µs"] {
        assert!(kubelet::is_time(&json!(time)), "{time}");
    }
    for time in ["", "s", "10", "1x", "1.2.3s", ".s", "1m 30s"] {
        assert!(!kubelet::is_time(&json!(time)), "{time}");
    }
}

#[test]
fn log_level_and_tls_profile_become_fields() {
    let spec = json!({
        "machineConfigPoolSelector": {"matchLabels": {"pods": "many"}}, "logLevel": 4,
        "tlsSecurityProfile": {"type": "Modern"}, "kubeletConfig": {"logging": {"format": "json"}},
    });
    let source = kubelet("a", "2026-01-01T00:00:00Z", &spec);
    let contents: Value = serde_json::from_str(&source.file.unwrap().1).unwrap();
    assert_eq!(contents["logging"], json!({"format": "json", "verbosity": 4}));
    assert_eq!(contents["tlsMinVersion"], "VersionTLS13");
    assert_eq!(contents["tlsCipherSuites"].as_array().unwrap().len(), 3);
    let mut twice = spec.clone();
    twice["kubeletConfig"] = json!({"tlsMinVersion": "VersionTLS12"});
    let error = kubelet("a", "2026-01-01T00:00:00Z", &twice).file.unwrap_err();
    assert!(error.contains("both say it"), "{error}");
    let sized = json!({"autoSizingReserved": true, "kubeletConfig": {"maxPods": 1}});
    assert!(kubelet("a", "2026-01-01T00:00:00Z", &sized).file.unwrap_err().contains("systemReserved"));
}

#[test]
fn settings_of_the_container_runtime() {
    let all = json!({"pidsLimit": 2048, "logLevel": "debug", "logSizeMax": "50Mi", "defaultRuntime": "crun"});
    let (path, contents) = runtime(&all).file.unwrap();
    assert_eq!(path, "/etc/crio/crio.conf.d/01-ctrcfg-limits.conf");
    let lines = "pids_limit = 2048\nlog_level = \"debug\"\nlog_size_max = 52428800\ndefault_runtime = \"crun\"\n";
    assert_eq!(contents, format!("[crio.runtime]\n{lines}"));
    assert!(
        runtime(&json!({"pidsLimit": -1, "logSizeMax": -5})).file.unwrap().1.ends_with("= -1\nlog_size_max = -1\n")
    );
    let generated = made(&[&runtime(&all)], &[]);
    assert_eq!(names(&generated), ["99-infra-generated-containerruntime", "99-worker-generated-containerruntime"]);
    for (settings, expected) in [
        (json!({"pidsLimit": 19}), "pidsLimit is 19: set 20 or more"),
        (json!({"logLevel": "loud"}), "logLevel is \"loud\": set one of trace"),
        (json!({"logLevel": "debug\"\n"}), "logLevel is \"debug\\\"\\n\""),
        (json!({"logSizeMax": "1Ki"}), "logSizeMax is \"1Ki\": set a whole number of bytes, 8192 or more"),
        (json!({"logSizeMax": "100000m"}), "logSizeMax is \"100000m\""),
        (json!({"defaultRuntime": "kata"}), "defaultRuntime is \"kata\": set one of crun, runc"),
        (json!({"overlaySize": "8Gi"}), "overlaySize is a setting of /etc/containers/storage.conf"),
        (json!({"additionalLayerStores": [{"path": "/a"}]}), "additionalLayerStores is a setting of"),
        (json!({}), "spec.containerRuntimeConfig sets nothing"),
    ] {
        let error = runtime(&settings).file.unwrap_err();
        assert!(error.starts_with(expected), "{settings}: {error}");
    }
}

#[test]
fn status_says_what_has_come_of_it_once() {
    let source = max_pods("pods", "2026-01-01T00:00:00Z");
    let said = source.status(&Ok(String::new()), NOW).unwrap();
    let last = said.conditions.last().unwrap();
    assert_eq!((said.observed_generation, last.type_.as_str()), (3, "Success"));
    let mut source = source;
    source.status = said;
    assert_eq!(source.status(&Ok(String::new()), NOW), None);
    let failed = source.status(&Err("because".into()), NOW).unwrap();
    assert_eq!(
        failed.conditions.last().map(|it| (it.type_.as_str(), it.message.as_str())),
        Some(("Failure", "because"))
    );
    source.generation = 4;
    assert!(source.status(&Ok(String::new()), NOW).is_some(), "another generation was looked at");
    let none = kubelet("none", "2026-01-01T00:00:00Z", &of(&json!({"pods": "none"}), json!({"maxPods": 5})));
    let error = made(&[&none], &[]).outcomes.remove(0).unwrap_err();
    assert!(error.starts_with("no MachineConfigPool has labels that"), "{error}");
    let empty = kubelet("empty", "2026-01-01T00:00:00Z", &json!({"kubeletConfig": {"maxPods": 5}}));
    assert!(made(&[&empty], &[]).outcomes[0].is_err(), "an absent selector selects nothing");
}

/// Nodes would be drained and restarted, and nothing would have changed.
#[test]
fn settings_that_no_kubelet_reads_reach_no_node() {
    let source = max_pods("pods", "2026-01-01T00:00:00Z");
    let pools = [pool("worker", json!({"pods": "many"}))];
    let node = |(name, folder): &(&str, Option<&str>)| NodeFacts {
        name: (*name).to_owned(),
        current: crate::machine_config::node::Target::new("v1"),
        kubelet_config_dir: folder.map(str::to_owned),
        ..NodeFacts::default()
    };
    let of = |nodes: &[(&str, Option<&str>)]| {
        let kubelets = [("worker".to_owned(), Kubelets::of(&nodes.iter().map(node).collect::<Vec<_>>()))].into();
        let mut generated = generate(&[&source], (&pools.iter().collect::<Vec<_>>(), &kubelets), [].iter(), "v1");
        (generated.outcomes.remove(0), generated.configs.len())
    };
    let folder = Some("/etc/kubernetes/kubelet.conf.d");
    let (none, made) = of(&[("a", Some("none")), ("b", Some("/etc/other")), ("c", None)]);
    let error = none.unwrap_err();
    assert!(error.starts_with("no kubelet of pool worker reads /etc/kubernetes/kubelet.conf.d, so that"), "{error}");
    assert!(error.ends_with("--config-dir=/etc/kubernetes/kubelet.conf.d, such as those of a, b"), "{error}");
    assert_eq!(made, 0);
    let (some, made) = of(&[("a", Some("none")), ("b", folder)]);
    assert!(some.unwrap().starts_with("in pool worker the kubelets of a do not read"));
    assert_eq!(made, 1);
    assert_eq!(
        of(&[("a", folder), ("b", None), ("c", Some("/etc/kubernetes/kubelet.conf.d/"))]),
        (Ok(String::new()), 1)
    );
    let (unknown, made) = of(&[("a", None)]);
    assert!(unknown.unwrap().starts_with("not verified: no agent of pool worker has told"));
    assert_eq!((made, of(&[])), (1, (Ok(String::new()), 1)));
}
