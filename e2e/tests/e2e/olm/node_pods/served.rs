//! Images with a server of their own, and such whose content is taken out, in both modes of pod security.

use serde_json::{Value, json};

use super::{OPEN, SHOP, World, said};

impl World {
    /// The catalog in another folder than usual, of an image that has no program.
    pub(super) fn extracted(&self, image: &str) -> Value {
        let extract = json!({"catalogDir": "/the/catalog", "cacheDir": "/tmp/cache"});
        json!({"sourceType": "grpc", "image": self.named(image), "grpcPodConfig": {"extractContent": extract}})
    }

    pub(super) async fn serve_in_both_modes(&self) {
        self.push_data("catalogs/extracted:v1", "extracted", "the/catalog").await;
        let serving = json!({"sourceType": "grpc", "image": self.named("catalogs/serving:v1")});
        let extracted = self.extracted("catalogs/extracted:v1");
        let legacy = |spec: &Value| {
            let mut spec = spec.clone();
            spec["grpcPodConfig"]["securityContextConfig"] = json!("legacy");
            spec
        };
        let all = [
            (SHOP, "serving", serving.clone()),
            (SHOP, "extracted", extracted.clone()),
            (OPEN, "serving", legacy(&serving)),
            (OPEN, "extracted", legacy(&extracted)),
        ];
        for (namespace, name, spec) in &all {
            self.by_pod(namespace, name, spec.clone()).await;
        }
        self.by_pod(SHOP, "refused", legacy(&serving)).await;
        for (namespace, name, _) in &all {
            self.until_ready((namespace, name)).await;
            let pod = self.pod((namespace, name)).await;
            assert_is_as_in(&pod["spec"], *namespace == SHOP, *name == "extracted");
        }
        // What is not let in is told.
        let refused =
            |told: (String, String)| told.0 == "RegistryServerError" && told.1.contains("violates PodSecurity");
        let source = self.until("to be refused", (SHOP, "refused"), |it| refused(said(it))).await;
        assert!(said(&source).1.starts_with("the pod cannot be made: violates"), "{source:?}");
        self.kubectl(&format!("delete catalogsource refused -n {SHOP}")).await;
    }
}

fn assert_is_as_in(spec: &Value, restricted: bool, extracts: bool) {
    let of_pod = &spec["securityContext"];
    let expected = json!({"seccompProfile": {"type": "RuntimeDefault"}, "runAsNonRoot": true, "runAsUser": 1001});
    assert_eq!(*of_pod, if restricted { expected } else { json!({}) });
    let init = spec["initContainers"].as_array().cloned().unwrap_or_default();
    let names: Vec<&Value> = init.iter().map(|container| &container["name"]).collect();
    assert_eq!(names, if extracts { vec!["extract-utilities", "extract-content"] } else { vec![] });
    for container in init.iter().chain(spec["containers"].as_array().unwrap()) {
        let security = &container["securityContext"];
        assert_eq!(security["readOnlyRootFilesystem"], extracts);
        assert_eq!(security["allowPrivilegeEscalation"] == json!(false), restricted);
        assert_eq!(security["capabilities"] == json!({"drop": ["ALL"]}), restricted);
    }
}
