//! Objects that CatalogSources name: each is followed as long as one of them does.

use crate::cluster::task;
use crate::cluster::{Clients, Kind, Kinds, named};
use crate::images::credentials::{Format, of_secret};
use crate::object::read::Read;
use crate::olm::api::keys::label;
use futures::StreamExt;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Secret,
    Account,
    /// A ConfigMap with a catalog.
    ConfigMap,
    /// A ConfigMap with authorities of registries.
    Authorities,
}

/// An object by kind, namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    pub what: What,
    pub namespace: String,
    pub name: String,
}

impl Name {
    pub(super) fn new(what: What, namespace: &str, name: &str) -> Name {
        Name { what, namespace: namespace.to_owned(), name: name.to_owned() }
    }

    fn kind(&self) -> Kind {
        match self.what {
            What::Secret => Kind::known("", "v1", "Secret", "secrets", true),
            What::Account => Kind::known("", "v1", "ServiceAccount", "serviceaccounts", true),
            What::ConfigMap | What::Authorities => Kind::config_map(),
        }
    }
}

/// What is kept of an object.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Seen {
    /// Credentials in their forms.
    Secret(Vec<(Format, Vec<u8>)>),
    /// Names of its pull secrets.
    Account(Vec<String>),
    ConfigMap(ConfigMapView),
    /// By the keys of the ConfigMap.
    Authorities(BTreeMap<String, String>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ConfigMapView {
    pub uid: String,
    pub resource_version: String,
    pub digest: String,
    /// uids of its owners.
    pub owners: BTreeSet<String>,
    /// It has the label of ConfigMaps with catalogs.
    pub labelled: bool,
}

/// An object as it was seen, and since when it is so.
pub(super) type State = (Arc<Read<Seen>>, Timestamp);

pub(super) struct Watched {
    clients: Arc<Clients>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    all: BTreeMap<Name, Following>,
}

/// It is followed until this is dropped.
struct Following {
    known: Arc<Mutex<Option<State>>>,
    _task: AbortOnDropHandle<()>,
}

impl Watched {
    pub(super) fn new(clients: Arc<Clients>, changed: Arc<Notify>, stop: CancellationToken) -> Watched {
        Watched { clients, changed, stop, all: BTreeMap::new() }
    }

    /// From now on these are followed, and no others.
    pub(super) fn want(&mut self, names: BTreeSet<Name>) {
        self.all.retain(|name, _| names.contains(name));
        for name in names {
            if !self.all.contains_key(&name) {
                let following = follow(&name, &self.clients, &self.changed, &self.stop);
                self.all.insert(name, following);
            }
        }
    }

    /// `None` before anything is known of it.
    pub(super) fn get(&self, name: &Name) -> Option<State> {
        let known = &self.all.get(name)?.known;
        known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn follow(name: &Name, clients: &Clients, changed: &Arc<Notify>, stop: &CancellationToken) -> Following {
    let mut states = named::follow(clients, Arc::new(Kinds::default()), name.kind(), &name.namespace, &name.name);
    let known = Arc::new(Mutex::new(None));
    let (told, changed, what) = (known.clone(), changed.clone(), name.what);
    let following = async move {
        while let Some(state) = states.next().await {
            let now = match state {
                Read::Value(object) => Read::Value(seen(what, &object)),
                Read::Absent => Read::Absent,
                Read::Failed(cause) => Read::Failed(cause),
            };
            if take(&mut told.lock().unwrap_or_else(PoisonError::into_inner), now) {
                changed.notify_one();
            }
        }
    };
    let task = tokio::spawn(task::guarded("an object of a catalog", stop, following));
    Following { known, _task: AbortOnDropHandle::new(task) }
}

/// Takes over the state, and returns whether it is another one. What was known stays as long as it cannot be read.
fn take(known: &mut Option<State>, now: Read<Seen>) -> bool {
    let stays = known.as_ref().is_some_and(|(before, _)| {
        **before == now || matches!(now, Read::Failed(_)) && !matches!(**before, Read::Failed(_))
    });
    if !stays {
        *known = Some((Arc::new(now), Timestamp::now()));
    }
    !stays
}

fn seen(what: What, object: &Value) -> Seen {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    match what {
        What::Secret => Seen::Secret(of_secret(object)),
        What::Account => {
            let secrets = object.get("imagePullSecrets").and_then(Value::as_array);
            let name = |secret: &Value| secret.get("name")?.as_str().map(str::to_owned);
            Seen::Account(secrets.into_iter().flatten().filter_map(name).collect())
        }
        What::Authorities => Seen::Authorities(data(object)),
        What::ConfigMap => {
            let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
            let uid = |owner: &Value| owner.get("uid")?.as_str().map(str::to_owned);
            let labels = object.pointer("/metadata/labels");
            Seen::ConfigMap(ConfigMapView {
                uid: text("/metadata/uid"),
                resource_version: text("/metadata/resourceVersion"),
                digest: digest(&data(object)),
                owners: owners.into_iter().flatten().filter_map(uid).collect(),
                labelled: labels.and_then(|labels| labels.get(label::MANAGED)?.as_str()) == Some("false"),
            })
        }
    }
}

/// The texts of a ConfigMap by their keys.
pub(super) fn data(object: &Value) -> BTreeMap<String, String> {
    let data = object.get("data").and_then(Value::as_object);
    let entry = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    data.into_iter().flatten().filter_map(entry).collect()
}

/// `sha256:…` of the data of a ConfigMap.
pub(super) fn digest(data: &BTreeMap<String, String>) -> String {
    let mut hash = Sha256::new();
    for text in data.iter().flat_map(|(key, value)| [key, value]) {
        hash.update((text.len() as u64).to_be_bytes());
        hash.update(text);
    }
    format!("sha256:{}", hex::encode(hash.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::json;

    #[test]
    fn what_was_known_stays_while_it_cannot_be_read() {
        let mut known = None;
        assert!(take(&mut known, Read::Failed("no answer".to_owned())));
        assert!(take(&mut known, Read::Value(Seen::Account(vec!["a".to_owned()]))));
        assert!(!take(&mut known, Read::Failed("no answer".to_owned())));
        assert!(!take(&mut known, Read::Value(Seen::Account(vec!["a".to_owned()]))));
        assert!(take(&mut known, Read::Absent));
    }

    #[test]
    fn secrets_have_credentials_in_both_forms() {
        let secret = |key: &str| json!({"data": {key: STANDARD.encode("{}"), "other": STANDARD.encode("x")}});
        let forms = |key: &str| match seen(What::Secret, &secret(key)) {
            Seen::Secret(forms) => forms,
            _ => panic!("it is a Secret"),
        };
        assert_eq!(forms(".dockerconfigjson"), [(Format::DockerConfigJson, b"{}".to_vec())]);
        assert_eq!(forms(".dockercfg"), [(Format::DockerCfg, b"{}".to_vec())]);
        assert_eq!(forms("password"), []);
    }

    #[test]
    fn digest_of_a_config_map_tells_other_data_apart_and_nothing_else() {
        let of = |data: Value| digest(&super::data(&json!({"data": data})));
        let one = of(json!({"a": "bc", "d": ""}));
        assert_eq!(one, of(json!({"d": "", "a": "bc"})));
        for other in [json!({"ab": "c", "d": ""}), json!({"a": "bc"}), json!({"a": "b", "d": "c"})] {
            assert_ne!(one, of(other));
        }
        assert!(one.starts_with("sha256:") && one.len() == 71, "{one}");
    }
}
