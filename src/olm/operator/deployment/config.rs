//! What a Subscription and the proxy of the cluster change of the Deployments of an operator.
//!
//! What a Subscription says stays when it is deleted, for that must restart nothing: the Deployment remembers it in an annotation.

use super::{Live, member, put};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::annotation::SUBSCRIPTION_CONFIG;
use crate::olm::api::subscription::SubscriptionConfig;
use serde_json::{Map, Value, json};

/// Variables that say how a network is reached.
const PROXY: [&str; 3] = ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"];

/// A Subscription as far as it counts here.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Subscriber {
    pub name: String,
    pub package: String,
    pub current_csv: String,
    pub installed_csv: String,
    pub config: Option<SubscriptionConfig>,
}

/// The proxy of the cluster, in the order of [`PROXY`]; what is empty is not set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Proxy {
    pub http: String,
    pub https: String,
    pub none: String,
}

impl Proxy {
    /// As the Proxy of the cluster says it.
    pub(crate) fn of(object: &Value) -> Proxy {
        let text = |key: &str| {
            let text = object.get("status").and_then(|status| status.get(key)?.as_str());
            text.unwrap_or_default().trim().to_owned()
        };
        Proxy { http: text("httpProxy"), https: text("httpsProxy"), none: text("noProxy") }
    }
}

/// What is changed of the Deployments of one ClusterServiceVersion.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Config {
    /// `None` where no Subscription names it.
    pub subscription: Option<SubscriptionConfig>,
    pub proxy: Proxy,
}

impl Config {
    /// That of the Subscription which has this one installed, or else has chosen it: so the first Deployment has it already. Of several
    /// the first by name.
    pub(crate) fn of(csv: &str, subscribers: &[Subscriber], proxy: &Proxy) -> Config {
        let first = |names: fn(&Subscriber) -> &String| {
            let named = subscribers.iter().filter(|it| names(it) == csv);
            named.min_by_key(|it| &it.name)
        };
        let named = first(|it| &it.installed_csv).or_else(|| first(|it| &it.current_csv));
        let subscription = named.map(|it| it.config.clone().unwrap_or_default());
        Config { subscription, proxy: proxy.clone() }
    }

    /// Where no Subscription names it, what the Deployment was given last counts, if it is one of this version.
    pub(crate) fn remembered(mut self, csv: &ClusterServiceVersion, live: Option<&Live>) -> Config {
        let own = csv.metadata.uid.as_deref();
        let is_own = |live: &&Live| {
            let owners = live.object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            owners.into_iter().flatten().any(|it| own.is_some() && it.get("uid").and_then(Value::as_str) == own)
        };
        let text = live.filter(is_own).and_then(|live| {
            let annotations = live.object.pointer("/metadata/annotations")?;
            annotations.get(SUBSCRIPTION_CONFIG)?.as_str()
        });
        if self.subscription.is_none() {
            // What somebody has made unreadable is nothing.
            self.subscription = text.and_then(|text| serde_json::from_str(text).ok());
        }
        self
    }

    /// Changes the spec of a Deployment, and returns annotations of its own.
    pub(super) fn apply(&self, spec: &mut Value) -> Map<String, Value> {
        let none = SubscriptionConfig::default();
        let config = self.subscription.as_ref().unwrap_or(&none);
        let template = member(spec, "template");
        let annotations = member(member(template, "metadata"), "annotations");
        for (key, value) in &config.annotations {
            if annotations.get(key).is_none() {
                put(annotations, key, value.as_str().into());
            }
        }
        let pod = member(template, "spec");
        change_pod(pod, config);
        let is_said = |name: &&str| config.env.iter().any(|it| it.get("name").and_then(Value::as_str) == Some(*name));
        let proxy = if PROXY.iter().any(is_said) { Vec::new() } else { self.variables() };
        let containers = pod.get_mut("containers").and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            set_elements(container, "env", "name", proxy.iter().chain(&config.env));
            append(container, "envFrom", &config.env_from);
            set_elements(container, "volumeMounts", "name", &config.volume_mounts);
            if let Some(resources) = &config.resources {
                put(container, "resources", resources.clone());
            }
        }
        let mut own: Map<String, Value> =
            config.annotations.iter().map(|(key, value)| (key.clone(), value.as_str().into())).collect();
        if *config != none
            && let Ok(text) = serde_json::to_string(config)
        {
            own.insert(SUBSCRIPTION_CONFIG.to_owned(), text.into());
        }
        own
    }

    fn variables(&self) -> Vec<Value> {
        let values = PROXY.into_iter().zip([&self.proxy.http, &self.proxy.https, &self.proxy.none]);
        let set = values.filter(|(_, value)| !value.is_empty());
        set.map(|(name, value)| json!({"name": name, "value": value})).collect()
    }
}

fn change_pod(pod: &mut Value, config: &SubscriptionConfig) {
    append(pod, "tolerations", &config.tolerations);
    set_elements(pod, "volumes", "name", &config.volumes);
    if let Some(selector) = &config.node_selector {
        put(pod, "nodeSelector", json!(selector));
    }
    // What is there replaces, what is empty removes, and what is not said stays.
    for part in ["nodeAffinity", "podAffinity", "podAntiAffinity"] {
        let Some(said) = config.affinity.as_ref().and_then(|it| it.get(part)).filter(|it| !it.is_null()) else {
            continue;
        };
        let is_empty = said.as_object().is_some_and(Map::is_empty);
        let known = pod.get("affinity").is_some_and(Value::is_object);
        match pod.get_mut("affinity").and_then(Value::as_object_mut) {
            Some(affinity) if is_empty => drop(affinity.remove(part)),
            Some(affinity) => drop(affinity.insert(part.to_owned(), said.clone())),
            None if is_empty || known => {}
            None => put(pod, "affinity", json!({part: said})),
        }
    }
}

/// A list of the object, which is empty if there is none.
fn list<'a>(object: &'a mut Value, key: &str) -> Option<&'a mut Vec<Value>> {
    let list = member(object, key);
    if list.is_null() {
        *list = json!([]);
    }
    list.as_array_mut()
}

/// Elements that are not there yet.
fn append(object: &mut Value, key: &str, elements: &[Value]) {
    if elements.is_empty() {
        return;
    }
    let Some(list) = list(object, key) else { return };
    for element in elements {
        if !list.contains(element) {
            list.push(element.clone());
        }
    }
}

/// Elements that take the place of those of the same name.
fn set_elements<'a>(object: &mut Value, key: &str, name: &str, elements: impl IntoIterator<Item = &'a Value>) {
    let mut elements = elements.into_iter().peekable();
    if elements.peek().is_none() {
        return;
    }
    let Some(list) = list(object, key) else { return };
    for element in elements {
        match list.iter_mut().find(|it| it.get(name) == element.get(name)) {
            Some(known) => known.clone_from(element),
            None => list.push(element.clone()),
        }
    }
}
