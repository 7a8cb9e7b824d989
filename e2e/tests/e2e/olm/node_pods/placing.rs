//! Where pods of catalogs run and as what: each field of `grpcPodConfig` is in the pod, and does what it is for.

use std::collections::BTreeSet;
use std::fs;

use e2e::until::until;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use serde_json::{Value, json};

use super::{LIMIT, SHOP, World, said};

/// What no node has, and what the node gets in the end.
const NOT_PLACED: &str = "didn't match Pod's node affinity/selector";
/// 80Mi.
const TARGET: &str = "GOMEMLIMIT=83886080B";

impl World {
    pub(super) async fn place(&self) {
        let node = self.cluster.node_name();
        self.kubectl(&format!("label node {node} disk=fast")).await;
        self.kubectl(&format!("taint node {node} kept=catalogs:NoSchedule")).await;
        let class = json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": "catalogs"}, "value": 1234});
        self.apply("class", &[class]).await;
        let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]});
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [term]}}});
        let tolerations = json!([{"key": "kept", "operator": "Equal", "value": "catalogs", "effect": "NoSchedule"}]);
        let config = json!({"nodeSelector": {"disk": "fast"}, "tolerations": tolerations, "affinity": affinity,
            "priorityClassName": "catalogs", "securityContextConfig": "restricted", "memoryTarget": "80Mi"});
        let spec = json!({"sourceType": "grpc", "image": self.named("catalogs/serving:v1")});
        let with = |config: &Value| {
            let mut spec = spec.clone();
            spec["grpcPodConfig"] = config.clone();
            spec
        };
        self.by_pod(SHOP, "placed", with(&config)).await;
        let elsewhere = json!({"nodeSelector": {"disk": "slow"}, "tolerations": tolerations});
        self.by_pod(SHOP, "elsewhere", with(&elsewhere)).await;
        for name in ["placed", "elsewhere"] {
            self.until("to have no node", (SHOP, name), |it| said(it).1.contains(NOT_PLACED)).await;
        }
        // The affinity holds now as well, and what the node does not let in the pod tolerates.
        self.kubectl(&format!("label node {node} zone=a")).await;
        let name = self.pod((SHOP, "placed")).await["metadata"]["name"].as_str().unwrap().to_owned();
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), SHOP);
        let has_node = |pod: &Pod| pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        until("the pod to have a node", LIMIT).existing(pods, &name, has_node).await.unwrap();
        self.kubectl(&format!("taint node {node} kept-")).await;
        self.until_ready((SHOP, "placed")).await;
        let pod = self.pod((SHOP, "placed")).await;
        assert_eq!(pod["metadata"]["name"], name);
        self.assert_as_configured(&pod["spec"], &config);
        assert_eq!(said(&self.until("to wait", (SHOP, "elsewhere"), |_| true).await).0, "RegistryServerError");
        self.kubectl(&format!("delete catalogsource elsewhere -n {SHOP}")).await;
    }

    fn assert_as_configured(&self, spec: &Value, config: &Value) {
        for field in ["nodeSelector", "affinity", "priorityClassName"] {
            assert_eq!(spec[field], config[field]);
        }
        assert!(spec["tolerations"].as_array().unwrap().contains(&config["tolerations"][0]), "{spec}");
        assert_eq!(spec["priority"], 1234);
        let container = &spec["containers"][0];
        assert_eq!(container["resources"]["requests"]["memory"], "80Mi");
        let server = ["cvo", "catalog", "serve"];
        let about = |id: i32, file: &str| fs::read_to_string(format!("/proc/{id}/{file}")).unwrap_or_default();
        let all = self.cluster.processes_in_pods(&server);
        // It is told once for each hierarchy of control groups.
        let ids = all.iter().map(|it| it.pid).filter(|id| about(*id, "environ").contains(TARGET));
        let ids: BTreeSet<i32> = ids.collect();
        assert_eq!(ids.len(), 1, "{all:?}");
        let status = about(*ids.first().unwrap(), "status");
        let has = |name: &str, value: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
            assert!(line.split_whitespace().next() == Some(value), "{name} {line}");
        };
        // Not root, without rights of root, and no way to get any; system calls are filtered.
        has("Uid:", "1001");
        has("CapEff:", "0000000000000000");
        has("CapBnd:", "0000000000000000");
        has("NoNewPrivs:", "1");
        has("Seccomp:", "2");
    }
}
