//! Images in a repository that wants a password, which a Secret of the namespace of the catalog has, or that the node alone may read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::conditions::Conditions;
use e2e::olm;
use serde_json::json;

use super::{SHOP, World, said, state};

impl World {
    pub(super) async fn read_private_images(&self) {
        self.push_on_base("private/serving:v1", "hidden", "1.0.0").await;
        self.push_data("private/data:v1", "secret", "configs").await;
        let (user, password) = self.cluster.registry_login();
        let login = STANDARD.encode(format!("{user}:{password}"));
        let known = json!({"auths": {(self.cluster.registry_for_pods()): {"auth": login}}});
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pull", "namespace": SHOP},
            "type": "kubernetes.io/dockerconfigjson",
            "stringData": {".dockerconfigjson": known.to_string()}});
        self.apply("secret", &[secret]).await;
        let spec = |image: &str, secrets: &[&str]| json!({"sourceType": "grpc", "image": self.named(image), "secrets": secrets});
        olm::create(&self.client, SHOP, "denied", spec("private/data:v1", &[])).await.unwrap();
        olm::create(&self.client, SHOP, "read", spec("private/data:v1", &["pull"])).await.unwrap();
        self.by_pod(SHOP, "by-pod", spec("private/serving:v1", &["pull"])).await;

        self.until_ready((SHOP, "read")).await;
        assert!(self.pods((SHOP, "read")).await.is_empty(), "it is read here");
        self.until_ready((SHOP, "by-pod")).await;
        assert_eq!(self.pod((SHOP, "by-pod")).await["spec"]["imagePullSecrets"], json!([{"name": "pull"}]));
        for package in ["secret", "hidden"] {
            self.kubectl(&format!("get packagemanifest {package} -n {SHOP}")).await;
        }
        // The node may read it, and the process may not.
        self.push_data("node/data:v1", "vaulted", "configs").await;
        olm::create(&self.client, SHOP, "of-node", spec("node/data:v1", &[])).await.unwrap();
        // The process goes on asking, since it does not see otherwise that the image moves, and tells what it is answered.
        let served = |it: &CatalogSource| state(it) == Some(Connection::Ready) && it.has("ContentLoaded=True");
        self.until("to be ready", (SHOP, "of-node"), served).await;
        assert_eq!(self.pods((SHOP, "of-node")).await.len(), 1, "a pod has read it");
        self.kubectl(&format!("get packagemanifest vaulted -n {SHOP}")).await;
        // Neither the process nor the node may read it.
        let denied = |told: (String, String)| told.0 == "RegistryServerError" && told.1.contains("private/data");
        self.until("to be denied", (SHOP, "denied"), |it| denied(said(it))).await;
        self.kubectl(&format!("delete catalogsource denied -n {SHOP}")).await;
    }
}
