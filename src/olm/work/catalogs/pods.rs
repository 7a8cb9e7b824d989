//! Pods that serve catalogs, and what belongs to them.

use super::live::{Live, account_kind, all, policy_kind};
use super::perform::{Key, of_answer, write};
use super::settings::PodSettings;
use super::views::NamespaceView;
use crate::cluster::writer::Writer;
use crate::cluster::{ApiError, Kind, Objects};
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::keys::label;
use crate::olm::endpoints::{Id, SERVICE_LABEL, Seen, changes, label_of};
use crate::olm::source::pod::decide::{PodSeen, PodWrite};
use crate::olm::source::pod::{self, Pods};
use crate::olm::source::spec::service_name;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All that is known of pods of catalogs, at one moment.
pub(super) struct Known {
    /// By the uids of their CatalogSources, each with its addresses.
    pods: BTreeMap<String, Vec<(PodSeen, Vec<IpAddr>)>>,
    /// Where Services lead to.
    reached: BTreeMap<Id, BTreeSet<IpAddr>>,
    namespaces: BTreeMap<String, Arc<NamespaceView>>,
    /// What keeps failing of what is written.
    failures: BTreeMap<String, String>,
}

impl Known {
    /// `None` before all of it is known. `failures`: what keeps failing of what is written, by its key.
    pub(super) fn of(live: &Live, failures: BTreeMap<String, String>) -> Option<Known> {
        let namespaces = all(&live.namespaces)?.into_iter().map(|((_, name), namespace)| (name, namespace)).collect();
        let mut known = Known { pods: BTreeMap::new(), reached: BTreeMap::new(), namespaces, failures };
        for pod in all(&live.catalog_pods)?.into_values() {
            let all = known.pods.entry(pod.owner.clone()).or_default();
            all.push((pod.seen.clone(), pod.addresses.clone()));
        }
        for ((namespace, _), slice) in all(&live.slices)? {
            let labels = slice.0.object.pointer("/metadata/labels");
            let service = labels.and_then(|labels| labels.get(SERVICE_LABEL)?.as_str()).unwrap_or_default();
            known.reached.entry((namespace, service.to_owned())).or_default().extend(&slice.1.addresses);
        }
        Some(known)
    }

    /// What concerns one catalog.
    pub(super) fn pods<'a>(&'a self, source: &CatalogSource, settings: &'a PodSettings) -> Pods<'a> {
        let metadata = &source.metadata;
        let (namespace, name) = (metadata.namespace.clone().unwrap_or_default(), metadata.name.as_deref());
        let id = (namespace.clone(), name.unwrap_or_default().to_owned());
        let service = (namespace.clone(), service_name(&id.1));
        let of_namespace = self.namespaces.get(&namespace);
        let reached = self.reached.get(&service);
        let of_catalog = self.pods.get(metadata.uid.as_deref().unwrap_or_default());
        let seen = of_catalog.into_iter().flatten().map(|(pod, addresses)| {
            let is_reached = |address| reached.is_some_and(|reached| reached.contains(address));
            PodSeen { reached: addresses.iter().any(is_reached), ..pod.clone() }
        });
        Pods {
            always: settings.always,
            access: settings.access,
            enforced: of_namespace.and_then(|namespace| namespace.enforced.as_deref()),
            has_users: of_namespace.is_some_and(|namespace| namespace.has_users),
            set_user: settings.set_user,
            refused: self.failures.get(&Key::NewPod(id).to_string()).cloned(),
            server_image: &settings.server_image,
            seen: seen.collect(),
        }
    }
}

/// Brings accounts and policies to what is wanted for these catalogs. What belongs to none of them is removed. An account that
/// somebody else has made under the name of a catalog stays as it is; `absent` says that there is none.
pub(super) fn bring<'a>(
    wanted: impl Iterator<Item = &'a pod::Objects> + Clone,
    absent: impl Fn(&Id) -> bool,
    (objects, live): (&Objects, &Live),
    writer: &Arc<Writer<Key>>,
    seen: Instant,
) {
    let (Some(accounts), Some(policies)) = (all(&live.accounts), all(&live.policies)) else { return };
    let accounts: BTreeMap<Id, Seen> = accounts.into_iter().map(|(id, view)| (id, view.0.clone())).collect();
    let policies: BTreeMap<Id, Seen> = policies.into_iter().map(|(id, view)| (id, view.0.clone())).collect();
    let by_id = |object: &Value| (id(object), object.clone());
    let account = |it: &pod::Objects| {
        let id = id(&it.account);
        let live = accounts.get(&id).map(|seen| &seen.object).unwrap_or(&Value::Null);
        (id, pod::account_with(it.account.clone(), live))
    };
    let ours = |(id, _): &(Id, Value)| accounts.contains_key(id) || absent(id);
    for change in changes(wanted.clone().map(account).filter(ours).collect(), &accounts) {
        let (objects, live, key) = (objects.clone(), live.clone(), Key::Account(change.id().clone()));
        writer.begin(key, seen, Duration::ZERO, async move {
            let written: Option<ServiceAccount> = write(&objects, &account_kind(), change).await?;
            written.into_iter().for_each(|written| live.accounts.on_written(written));
            Ok(())
        });
    }
    for change in changes(wanted.flat_map(|it| it.policies.iter().map(by_id)).collect(), &policies) {
        let (objects, live, key) = (objects.clone(), live.clone(), Key::Policy(change.id().clone()));
        writer.begin(key, seen, Duration::ZERO, async move {
            let written: Option<NetworkPolicy> = write(&objects, &policy_kind(), change).await?;
            written.into_iter().for_each(|written| live.policies.on_written(written));
            Ok(())
        });
    }
}

fn id(object: &Value) -> Id {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}

/// Begins what was decided for the pods of a catalog.
pub(super) fn begin(
    catalog: &Id,
    made: Option<&pod::Objects>,
    writes: Vec<PodWrite>,
    (objects, live): (&Objects, &Live),
    writer: &Arc<Writer<Key>>,
    seen: Instant,
) {
    for change in writes {
        let (objects, live, id) = (objects.clone(), live.clone(), catalog.clone());
        match change {
            PodWrite::Create { candidate } => {
                let Some(made) = made else { continue };
                let pod = if candidate { made.candidate.clone() } else { made.pod.clone() };
                writer.begin(Key::NewPod(id.clone()), seen, Duration::ZERO, create(objects, live, id.0, pod));
            }
            PodWrite::Promote { name, uid } => {
                let key = Key::Pod((id.0.clone(), name.clone()));
                let labels = json!({label::CATALOG_SOURCE: label_of(&id.1), label::CATALOG_UPDATE: null});
                writer.begin(key, seen, Duration::ZERO, set_labels(objects, live, id.0, (name, uid), labels));
            }
            PodWrite::Retire { name, uid } => {
                let key = Key::Pod((id.0.clone(), name.clone()));
                let labels = json!({label::CATALOG_SOURCE: ""});
                writer.begin(key, seen, Duration::ZERO, set_labels(objects, live, id.0, (name, uid), labels));
            }
            PodWrite::Delete { name, uid, grace } => {
                let key = Key::Pod((id.0.clone(), name.clone()));
                writer.begin(key, seen, Duration::ZERO, async move {
                    objects.delete_within(&Kind::pod(), &id.0, &name, &uid, grace).await.map(drop)
                });
            }
        }
    }
}

async fn create(objects: Objects, live: Live, namespace: String, pod: Value) -> Result<(), ApiError> {
    let written: Option<Pod> = of_answer(objects.create(&Kind::pod(), &namespace, &pod).await?);
    written.into_iter().for_each(|written| live.catalog_pods.on_written(written));
    Ok(())
}

async fn set_labels(
    objects: Objects,
    live: Live,
    namespace: String,
    (name, uid): (String, String),
    labels: Value,
) -> Result<(), ApiError> {
    let patch = json!({"metadata": {"uid": uid, "labels": labels}});
    let written: Pod = objects.merge_patch(&Kind::pod(), &namespace, &name, &patch).await?;
    live.catalog_pods.on_written(written);
    Ok(())
}
