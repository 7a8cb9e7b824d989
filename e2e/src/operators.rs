//! Operators for tests: bundles of their versions in a registry, and catalogs that offer them.

use serde_json::{Map, Value, json};

use crate::catalogs;

/// One version of an operator, whose ClusterServiceVersion has one Deployment, and that brings one kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// `<package>.v<major>`
    pub name: &'static str,
    pub replaces: &'static str,
    /// The kind that it brings, in group `<package>.example.com`; empty for none.
    pub kind: &'static str,
    /// The kind that it requires, with its group; empty for none.
    pub requires: (&'static str, &'static str),
    /// The name of its Deployment; empty for `<package>-operator`.
    pub deployment: &'static str,
    /// The image of its Deployment.
    pub image: &'static str,
    /// Bytes of text in the definition of its kind, and in each of the ConfigMaps that it brings.
    pub padding: (usize, &'static [usize]),
    /// Properties of the spec of its kind beside the size.
    pub properties: usize,
    /// It may read configuration in all namespaces too.
    pub everywhere: bool,
    /// The lowest version of Kubernetes; empty for any.
    pub kubernetes: &'static str,
    /// No node takes its pods, and its Deployment soon says that they do not become ready.
    pub fails: bool,
    /// The versions that it may replace beside the one that it names; empty for none.
    pub skip_range: &'static str,
    /// Its Deployment answers a webhook, which is asked of nothing that there is.
    pub answers: bool,
}

impl Version {
    pub const fn new(name: &'static str) -> Version {
        Version {
            name,
            replaces: "",
            kind: "",
            requires: ("", ""),
            deployment: "",
            image: "registry.invalid/operator:1",
            padding: (0, &[]),
            properties: 0,
            everywhere: false,
            kubernetes: "",
            fails: false,
            skip_range: "",
            answers: false,
        }
    }

    pub fn package(&self) -> &'static str {
        self.name.split_once(".v").map_or(self.name, |(package, _)| package)
    }

    pub fn deployment(&self) -> String {
        match self.deployment {
            "" => format!("{}-operator", self.package()),
            name => name.to_owned(),
        }
    }

    fn version(&self) -> String {
        format!("{}.0.0", self.name.split_once(".v").map_or("1", |(_, version)| version))
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.package())
    }

    fn plural(&self) -> String {
        format!("{}s", self.kind.to_lowercase())
    }

    /// As its bundle has it.
    pub fn csv(&self) -> Value {
        let labels = json!({"app": self.package()});
        let container = json!({"name": "operator", "image": self.image});
        let mut pods = json!({"serviceAccountName": self.package(), "containers": [container],
            "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]});
        let mut spec = json!({"replicas": 1, "selector": {"matchLabels": labels}});
        if self.fails {
            put(&mut spec, "progressDeadlineSeconds", json!(1));
            put(&mut pods, "nodeSelector", json!({"example.com/none": "true"}));
        }
        put(&mut spec, "template", json!({"metadata": {"labels": labels}, "spec": pods}));
        let deployment = json!({"name": self.deployment(), "spec": spec});
        let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]);
        let permissions = json!([{"serviceAccountName": self.package(), "rules": rules}]);
        let cluster_permissions = if self.everywhere { permissions.clone() } else { json!([]) };
        let modes: Vec<Value> = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"]
            .map(|mode| json!({"type": mode, "supported": true}))
            .into();
        let spec = json!({"displayName": self.package(), "version": self.version(), "installModes": modes,
            "install": {"strategy": "deployment", "spec": {"deployments": [deployment],
                "permissions": permissions, "clusterPermissions": cluster_permissions}}});
        let name = format!("{}.{}", self.plural(), self.group());
        let owned = json!({"owned": [{"name": name, "version": "v1", "kind": self.kind}]});
        let more = [
            ("replaces", json!(self.replaces), self.replaces.is_empty()),
            ("minKubeVersion", json!(self.kubernetes), self.kubernetes.is_empty()),
            ("customresourcedefinitions", owned, self.kind.is_empty()),
            ("webhookdefinitions", json!([self.webhook()]), !self.answers),
        ];
        let more = more.into_iter().filter(|(_, _, is_empty)| !is_empty).map(|(key, value, _)| (key.to_owned(), value));
        let spec: Map<String, Value> = spec.as_object().cloned().unwrap_or_default().into_iter().chain(more).collect();
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": self.name}, "spec": spec})
    }

    fn webhook(&self) -> Value {
        json!({"generateName": format!("check.{}", self.group()), "type": "ValidatingAdmissionWebhook",
            "deploymentName": self.deployment(), "containerPort": 443, "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "failurePolicy": "Ignore",
            "objectSelector": {"matchLabels": {"example.com/none": "true"}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]})
    }

    /// The definition of the kind that it brings.
    pub fn definition(&self) -> Value {
        let (plural, group) = (self.plural(), self.group());
        let more = (0..self.properties).map(|number| (format!("more{number}"), json!({"type": "string"})));
        let properties: Map<String, Value> =
            std::iter::once(("size".to_owned(), json!({"type": "integer"}))).chain(more).collect();
        let schema = json!({"type": "object", "description": "\"".repeat(self.padding.0 / 2),
            "properties": {"spec": {"type": "object", "properties": properties}}});
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"plural": plural, "singular": self.kind.to_lowercase(), "kind": self.kind,
                    "listKind": format!("{}List", self.kind)},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
    }

    /// The ConfigMaps that it brings, by name.
    fn config_maps(&self) -> impl Iterator<Item = (String, String)> {
        self.padding.1.iter().enumerate().map(|(at, size)| {
            let name = format!("{}-{at}", self.package());
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"text": "x".repeat(*size)}});
            (name, map.to_string())
        })
    }

    /// The name of its image, without the registry.
    pub fn repository(&self) -> String {
        format!("bundles/{}:{}", self.package(), self.version())
    }

    /// Pushes its bundle to a registry without TLS, and returns the pull spec.
    pub async fn push(&self, registry: &str) -> anyhow::Result<String> {
        self.push_with(registry, &[]).await
    }

    /// The same with more files.
    pub async fn push_with(&self, registry: &str, more: &[(&str, &[u8])]) -> anyhow::Result<String> {
        self.push_to(registry, &self.repository(), more).await
    }

    /// The same under this name, with a tag.
    pub async fn push_to(&self, registry: &str, repository: &str, more: &[(&str, &[u8])]) -> anyhow::Result<String> {
        let csv = self.csv().to_string();
        let definition = (!self.kind.is_empty()).then(|| self.definition().to_string());
        let prefix = "operators.operatorframework.io.bundle.";
        let annotations = json!({"annotations": {
            format!("{prefix}mediatype.v1"): "registry+v1", format!("{prefix}package.v1"): self.package(),
            format!("{prefix}manifests.v1"): "manifests/", format!("{prefix}metadata.v1"): "metadata/",
            format!("{prefix}channels.v1"): "stable"}});
        let annotations = annotations.to_string();
        let mut files: Vec<(&str, &[u8])> =
            vec![("manifests/csv.yaml", csv.as_bytes()), ("metadata/annotations.yaml", annotations.as_bytes())];
        if let Some(definition) = &definition {
            files.push(("manifests/crd.yaml", definition.as_bytes()));
        }
        let maps: Vec<(String, String)> =
            self.config_maps().map(|(name, map)| (format!("manifests/{name}.yaml"), map)).collect();
        files.extend(maps.iter().map(|(path, map)| (path.as_str(), map.as_bytes())));
        files.extend(more);
        let mediatype = format!("{prefix}mediatype.v1");
        let digest = catalogs::push(registry, repository, &files, &[(mediatype.as_str(), "registry+v1")]).await?;
        let name = repository.rsplit_once(':').map_or(repository, |(name, _)| name);
        Ok(format!("{registry}/{name}@{digest}"))
    }
}

fn put(object: &mut Value, key: &str, value: Value) {
    if let Some(object) = object.as_object_mut() {
        object.insert(key.to_owned(), value);
    }
}

/// The catalog of these versions, each with the pull spec of its bundle: one channel `stable` for each package.
pub fn catalog(versions: &[(Version, String)]) -> String {
    let mut packages: Vec<&str> = versions.iter().map(|(version, _)| version.package()).collect();
    packages.dedup();
    let mut blobs = Vec::new();
    for package in packages {
        let of_package = || versions.iter().filter(|(version, _)| version.package() == package);
        let entry = |version: &Version| {
            let mut entry = json!({"name": version.name});
            for (key, text) in [("replaces", version.replaces), ("skipRange", version.skip_range)] {
                if !text.is_empty() {
                    put(&mut entry, key, json!(text));
                }
            }
            entry
        };
        let entries: Vec<Value> = of_package().map(|(version, _)| entry(version)).collect();
        blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        blobs.push(json!({"schema": "olm.channel", "package": package, "name": "stable", "entries": entries}));
        blobs.extend(of_package().map(|(version, image)| blob(version, image)));
    }
    blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")
}

fn blob(version: &Version, image: &str) -> Value {
    let api = |kind: &str, group: &str, of: &str| json!({"type": kind, "value": {"group": group, "version": "v1", "kind": of}});
    let identity = json!({"type": "olm.package",
        "value": {"packageName": version.package(), "version": version.version()}});
    let mut properties = vec![identity];
    if !version.kind.is_empty() {
        properties.push(api("olm.gvk", &version.group(), version.kind));
    }
    if !version.requires.0.is_empty() {
        properties.push(api("olm.gvk.required", version.requires.1, version.requires.0));
    }
    json!({"schema": "olm.bundle", "package": version.package(), "name": version.name, "image": image,
        "properties": properties})
}
