//! Pods and servers that go and come back, and images that move: who asks for packages sees nothing of it.

use cvo::testing::api::olm::catalog_source::Connection;
use e2e::until::until;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio_util::sync::CancellationToken;

use super::asking::ask_server;
use super::{LIMIT, SHOP, World, said, state};

impl World {
    pub(super) async fn delete_a_pod(&self) {
        let id = (SHOP, "deleted");
        self.push_data("catalogs/deleted:v1", "deleted", "the/catalog").await;
        self.by_pod(id.0, id.1, self.extracted("catalogs/deleted:v1")).await;
        self.until_ready(id).await;
        let (end, pod) = (CancellationToken::new(), self.pod(id).await);
        let work = async {
            let name = pod["metadata"]["name"].as_str().unwrap();
            self.kubectl(&format!("delete pod {name} -n {SHOP} --wait=false")).await;
            let away = self.until("to have no pod", id, |it| state(it) != Some(Connection::Ready)).await;
            // The connection may end before it is known that the pod does.
            let message = said(&away).1;
            assert!(
                message.is_empty() || message.contains("is served meanwhile") || message.contains("pod"),
                "{away:?}"
            );
            self.until_ready(id).await;
            assert_ne!(self.pod(id).await["metadata"]["name"], name);
            end.cancel();
        };
        let (seen, ()) = tokio::join!(self.ask_for_package("deleted", end.clone()), work);
        seen.assert("a pod is deleted", &["deleted.v1.0.0"]);
    }

    pub(super) async fn move_an_image(&self) {
        let id = (SHOP, "moved");
        self.push_on_base("catalogs/moved:v1", "moved", "1.0.0").await;
        let poll = json!({"registryPoll": {"interval": "1s"}});
        let spec = json!({"sourceType": "grpc", "image": self.named("catalogs/moved:v1"), "updateStrategy": poll});
        self.by_pod(id.0, id.1, spec).await;
        self.until_ready(id).await;
        let (end, service) = (CancellationToken::new(), self.service("moved").await);
        let before = self.pod(id).await["metadata"]["name"].clone();
        let work = async {
            self.push_on_base("catalogs/moved:v1", "moved", "1.1.0").await;
            let alone = async || {
                let pods = self.pods(id).await;
                pods.len() == 1 && pods[0].metadata.name.as_deref() != before.as_str()
            };
            until("the new pod alone", LIMIT * 3).holds(alone).await.unwrap();
            self.until_head("moved", "moved.v1.1.0").await;
            self.until_ready(id).await;
            end.cancel();
        };
        let versions = ["moved.v1.0.0", "moved.v1.1.0"];
        let (of_packages, of_server, ()) = tokio::join!(
            self.ask_for_package("moved", end.clone()),
            ask_server(&service, &versions, end.clone()),
            work
        );
        of_packages.assert("an image moves, packages", &versions);
        of_server.assert("an image moves, gRPC at the Service", &versions);
    }

    async fn until_head(&self, package: &str, head: &str) {
        let read = format!("get packagemanifest {package} -n {SHOP} -o jsonpath={{.status.channels[0].currentCSV}}");
        let is = async || self.kubectl(&read).await == head;
        until(format!("{head} to be served"), LIMIT).holds(is).await.unwrap();
    }

    /// A server that is another one's pod, by the name of its Service.
    pub(super) async fn lose_a_server(&self) {
        let (id, server) = ((SHOP, "away"), self.cluster.dir().join("images/cvo").display().to_string());
        self.push_serving("catalogs/away:v1", "away", "1.0.0", &["--binary", &server]).await;
        self.run_server().await;
        let address = format!("server.{SHOP}.svc:50051");
        e2e::olm::create(&self.client, id.0, id.1, json!({"sourceType": "grpc", "address": address})).await.unwrap();
        self.until_ready(id).await;
        self.until_metric(1).await;
        let of_pod = self.kubectl(&format!("get pod server -n {SHOP} -o jsonpath={{.status.podIP}}")).await;
        for asked in [format!("{of_pod}:50051"), self.service("server").await] {
            assert_eq!(self.health(&asked).await, json!({"status": "SERVING"}), "{asked}");
        }
        let end = CancellationToken::new();
        let work = async {
            self.kubectl(&format!("delete pod server -n {SHOP} --grace-period=1")).await;
            let gone = self.until("to be away", id, |it| state(it) == Some(Connection::TransientFailure)).await;
            assert_eq!(said(&gone).0, "RegistryServerError");
            assert!(said(&gone).1.contains(&address) && said(&gone).1.contains("is served meanwhile"), "{gone:?}");
            self.until_metric(0).await;
            self.run_server().await;
            let back = self.until_ready(id).await;
            assert_eq!(back.status.unwrap().connection_state.unwrap().address, address);
            self.until_metric(1).await;
            end.cancel();
        };
        let (seen, ()) = tokio::join!(self.ask_for_package("away", end.clone()), work);
        seen.assert("a server dies and returns", &["away.v1.0.0"]);
        let query = "max(changes(catalogsource_ready{namespace=\"shop\",name=\"away\"}[10m])) > bool 1";
        assert_eq!(self.monitoring.matches(query).await, Ok(true));
    }

    async fn until_metric(&self, value: u8) {
        let query = format!("catalogsource_ready{{namespace=\"shop\",name=\"away\"}} == bool {value}");
        let seen = async || self.monitoring.matches(&query).await.is_ok_and(|matches| matches);
        until(format!("catalogsource_ready to be {value}"), LIMIT).holds(seen).await.unwrap();
    }

    /// Starts the pod with the server, and waits until the kubelet has found it healthy.
    async fn run_server(&self) {
        let container = json!({"name": "server", "image": self.named("catalogs/away:v1"),
            "readinessProbe": {"grpc": {"port": 50051}, "periodSeconds": 1},
            "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
        let security = json!({"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}});
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "server", "namespace": SHOP, "labels": {"app": "server"}},
            "spec": {"containers": [container], "securityContext": security, "automountServiceAccountToken": false}});
        let service = json!({"apiVersion": "v1", "kind": "Service",
            "metadata": {"name": "server", "namespace": SHOP},
            "spec": {"selector": {"app": "server"}, "ports": [{"port": 50051}]}});
        self.apply("server", &[pod, service]).await;
        self.kubectl(&format!("wait pod/server -n {SHOP} --for=condition=Ready --timeout=60s")).await;
    }

    /// As grpcurl is told.
    async fn health(&self, address: &str) -> Value {
        let program = self.cluster.client_program("grpcurl").unwrap();
        let output =
            Command::new(program).args(["-plaintext", address, "grpc.health.v1.Health/Check"]).output().await.unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        serde_json::from_str(&text).unwrap_or_else(|_| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
    }
}
