//! The blobs of a catalog: per bundle seven APIs and 18.6 KB of YAML (28 KB of JSON as the tools indent it), per package 2.4
//! channels, 2 % of the bundles with dependencies, 14 % of the entries with a skipRange.

use e2e::random::SeededRandom;
use serde_json::{Map, Value, json};

/// APIs of a bundle.
const KINDS: [&str; 7] = ["Main", "Backup", "Restore", "User", "Topic", "Policy", "Monitor"];
/// Channels of five packages.
const CHANNELS: [usize; 5] = [1, 2, 2, 3, 4];
const WORDS: &str = "a the of and to in is for with on that be as by it this are or an can from operator cluster resource \
    deployment custom controller namespace user install configuration storage database service network policy replica backup \
    version upgrade status condition secret volume container image registry pod node label annotation request limit default \
    enable disable monitor alert metric dashboard endpoint certificate token permission role subscription channel catalog";

/// A package and its bundles.
pub(super) struct Content {
    pub name: String,
    bundles: usize,
    channels: usize,
    random: SeededRandom,
}

impl Content {
    /// The packages of a catalog, with all of its bundles.
    pub(super) fn packages(seed: u64, packages: usize, bundles: usize) -> impl Iterator<Item = Content> {
        let (each, rest) = (bundles / packages, bundles % packages);
        (0..packages).map(move |number| {
            // Two packages together have twice the average, so some have many bundles and some few.
            let more = SeededRandom::new(seed, (number / 2) as u64, 1).below(each);
            let more = if number + 1 == packages && number % 2 == 0 { 0 } else { more };
            let bundles = if number % 2 == 0 { each + more } else { each - more };
            let random = SeededRandom::new(seed, number as u64, 0);
            let names = ["stream", "data", "mesh", "vault", "cache", "queue", "graph", "trace"];
            Content {
                name: format!("{}-{}-{number}", random.pick(&names), random.pick(&names)),
                bundles: bundles + usize::from(number < rest),
                channels: CHANNELS.get(number % CHANNELS.len()).copied().unwrap_or(1),
                random,
            }
        })
    }

    /// Calls `write` with each blob.
    pub(super) fn blobs(&self, write: &mut impl FnMut(Value) -> anyhow::Result<()>) -> anyhow::Result<()> {
        write(json!({
            "schema": "olm.package",
            "name": self.name,
            "defaultChannel": "stable",
            "description": self.text(600),
            "icon": {"base64data": "PHN2ZyB4bWxucz0i".repeat(self.random.below(600) + 40), "mediatype": "image/svg+xml"},
        }))?;
        for channel in 0..self.channels {
            write(self.channel(channel))?;
        }
        // Versions of an operator are alike: most of a bundle is the same in all of a package.
        let metadata = self.metadata();
        for number in 0..self.bundles {
            write(self.bundle(number, &metadata))?;
        }
        if self.random.below(30) == 0 {
            let reference = json!({"schema": "olm.bundle", "name": self.bundle_name(0)});
            let entries = [json!({"reference": reference, "message": self.text(80)})];
            write(json!({"schema": "olm.deprecations", "package": self.name, "entries": entries}))?;
        }
        Ok(())
    }

    fn version(number: usize) -> String {
        format!("1.{}.{}", number / 10, number % 10)
    }

    fn bundle_name(&self, number: usize) -> String {
        format!("{}.v{}", self.name, Self::version(number))
    }

    /// The first channel has all bundles, the others every second, third and so on.
    fn channel(&self, channel: usize) -> Value {
        let mut entries = Vec::new();
        let mut before: Option<usize> = None;
        for number in (0..self.bundles).filter(|number| number % (channel + 1) == 0) {
            let mut entry = Map::from_iter([("name".to_owned(), self.bundle_name(number).into())]);
            if let Some(before) = before {
                entry.insert("replaces".into(), self.bundle_name(before).into());
                if self.random.chance(14) {
                    entry.insert("skipRange".into(), format!(">=1.0.0 <{}", Self::version(number)).into());
                }
            }
            before = Some(number);
            entries.push(Value::Object(entry));
        }
        let name = if channel == 0 { "stable".to_owned() } else { format!("stable-{channel}") };
        json!({"schema": "olm.channel", "package": self.name, "name": name, "entries": entries})
    }

    fn group(&self) -> String {
        format!("{}.example.com", self.name)
    }

    fn bundle(&self, number: usize, metadata: &Value) -> Value {
        let mut properties: Vec<Value> = (0..KINDS.len())
            .map(|api| {
                let value = json!({"group": self.group(), "kind": Self::kind(api), "version": "v1"});
                json!({"type": "olm.gvk", "value": value})
            })
            .collect();
        let version = Self::version(number);
        properties.push(json!({"type": "olm.package", "value": {"packageName": self.name, "version": version}}));
        if self.random.chance(2) {
            let (kind, value) = match self.random.chance(50) {
                true => ("olm.package.required", json!({"packageName": "cert-manager", "versionRange": ">=1.0.0"})),
                false => {
                    let value = json!({"group": "cert-manager.io", "kind": "Certificate", "version": "v1"});
                    ("olm.gvk.required", value)
                }
            };
            properties.push(json!({"type": kind, "value": value}));
        }
        let mut metadata = metadata.clone();
        if let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) {
            annotations.insert("createdAt".into(), format!("2026-01-{:02}T00:00:00Z", number % 28 + 1).into());
            annotations.insert("containerImage".into(), self.image(number).into());
        }
        properties.push(json!({"type": "olm.csv.metadata", "value": metadata}));
        let images: Vec<Value> = (0..4)
            .map(|other| json!({"name": format!("image-{other}"), "image": self.image(number * 5 + other + 1)}))
            .collect();
        json!({
            "schema": "olm.bundle",
            "name": self.bundle_name(number),
            "package": self.name,
            "image": self.image(number),
            "properties": properties,
            "relatedImages": images,
        })
    }

    fn image(&self, number: usize) -> String {
        let digest = self.random.fixed(&number.to_string());
        let words: String = (0..4).map(|_| format!("{:016x}", digest.next())).collect();
        format!("registry.example.com/{}/operator@sha256:{words}", self.name)
    }

    fn kind(api: usize) -> String {
        format!("{}Resource", KINDS.get(api).unwrap_or(&"Other"))
    }

    /// What a ClusterServiceVersion says of itself.
    fn metadata(&self) -> Value {
        let owned: Vec<Value> = (0..KINDS.len())
            .map(|api| {
                let kind = Self::kind(api);
                let descriptor = |name: &str| {
                    json!({
                        "description": self.text(150),
                        "displayName": name,
                        "path": name,
                        "x-descriptors": [format!("urn:alm:descriptor:com.tectonic.ui:{name}")],
                    })
                };
                json!({
                    "description": self.text(220),
                    "displayName": kind,
                    "kind": kind,
                    "name": format!("{}s.{}", kind.to_lowercase(), self.group()),
                    "resources": [{"kind": "Deployment", "name": "", "version": "v1"}],
                    "specDescriptors": [descriptor("replicas"), descriptor("resourceRequirements")],
                    "version": "v1",
                })
            })
            .collect();
        let mut annotations = Map::new();
        annotations.insert("alm-examples".into(), self.examples().into());
        for name in ["capabilities", "categories", "description", "repository", "support"] {
            annotations.insert(name.into(), self.text(30).into());
        }
        let mode = |kind: &str| json!({"type": kind, "supported": kind == "AllNamespaces"});
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"].map(mode);
        let paragraphs: Vec<String> = (0..6).map(|part| format!("## Part {part}\n\n{}\n", self.text(400))).collect();
        json!({
            "annotations": annotations,
            "apiServiceDefinitions": {},
            "crdDescriptions": {"owned": owned},
            "description": paragraphs.join("\n"),
            "displayName": self.name,
            "installModes": modes,
            "keywords": ["data", "storage", "network", "operator"],
            "labels": {"operatorframework.io/arch.amd64": "supported", "operatorframework.io/os.linux": "supported"},
            "links": [{"name": "Documentation", "url": format!("https://{}/docs", self.group())}],
            "maintainers": [{"email": format!("team@{}", self.group()), "name": "Team"}],
            "maturity": "stable",
            "provider": {"name": "Example", "url": format!("https://{}", self.group())},
        })
    }

    /// Objects as text, as the annotation has them.
    fn examples(&self) -> String {
        let objects: Vec<Value> = (0..KINDS.len())
            .map(|api| {
                json!({
                    "apiVersion": format!("{}/v1", self.group()),
                    "kind": Self::kind(api),
                    "metadata": {"name": "example", "labels": {"app": self.name}},
                    "spec": {"replicas": self.random.below(9), "storage": {"size": "10Gi", "class": self.text(12)}, "note": self.text(90)},
                })
            })
            .collect();
        serde_json::to_string_pretty(&objects).unwrap_or_default()
    }

    /// Words of about this many bytes.
    fn text(&self, bytes: usize) -> String {
        let words: Vec<&str> = WORDS.split_whitespace().collect();
        let mut text = String::new();
        while text.len() < bytes {
            text.push_str(self.random.one_of(&words).copied().unwrap_or_default());
            text.push(if self.random.chance(10) { '.' } else { ' ' });
        }
        text.trim().to_owned()
    }
}
