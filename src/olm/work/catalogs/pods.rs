//! Pods that serve catalogs, and what belongs to them.

use super::live::{Live, account_kind, all, policy_kind};
use super::perform::{Key, of_answer, write};
use super::settings::PodSettings;
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
    enforced: BTreeMap<String, String>,
}

impl Known {
    /// `None` before all of it is known.
    pub(super) fn of(live: &Live) -> Option<Known> {
        let mut known = Known { pods: BTreeMap::new(), reached: BTreeMap::new(), enforced: BTreeMap::new() };
        for pod in all(&live.catalog_pods)?.into_values() {
            let all = known.pods.entry(pod.owner.clone()).or_default();
            all.push((pod.seen.clone(), pod.addresses.clone()));
        }
        for ((namespace, _), slice) in all(&live.slices)? {
            let labels = slice.0.object.pointer("/metadata/labels");
            let service = labels.and_then(|labels| labels.get(SERVICE_LABEL)?.as_str()).unwrap_or_default();
            known.reached.entry((namespace, service.to_owned())).or_default().extend(&slice.1.addresses);
        }
        for ((_, name), namespace) in all(&live.namespaces)? {
            known.enforced.extend(namespace.enforced.clone().map(|enforced| (name, enforced)));
        }
        Some(known)
    }

    /// What concerns one catalog.
    pub(super) fn pods<'a>(&'a self, source: &CatalogSource, settings: &'a PodSettings) -> Pods<'a> {
        let metadata = &source.metadata;
        let (namespace, name) = (metadata.namespace.clone().unwrap_or_default(), metadata.name.as_deref());
        let service = (namespace.clone(), service_name(name.unwrap_or_default()));
        let reached = self.reached.get(&service);
        let of_catalog = self.pods.get(metadata.uid.as_deref().unwrap_or_default());
        let seen = of_catalog.into_iter().flatten().map(|(pod, addresses)| {
            let is_reached = |address| reached.is_some_and(|reached| reached.contains(address));
            PodSeen { reached: pod.in_use && addresses.iter().any(is_reached), ..pod.clone() }
        });
        Pods {
            always: settings.always,
            enforced: self.enforced.get(&namespace).map(String::as_str),
            set_user: settings.set_user,
            server_image: &settings.server_image,
            seen: seen.collect(),
        }
    }
}

/// Brings accounts and policies to what is wanted for these catalogs. What belongs to none of them is removed.
pub(super) fn bring<'a>(
    wanted: impl Iterator<Item = &'a pod::Objects> + Clone,
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
    for change in changes(wanted.clone().map(account).collect(), &accounts) {
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
                writer.begin(key, seen, Duration::ZERO, promote(objects, live, id, (name, uid)));
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

async fn promote(
    objects: Objects,
    live: Live,
    (namespace, catalog): Id,
    (name, uid): (String, String),
) -> Result<(), ApiError> {
    let labels = json!({label::CATALOG_SOURCE: label_of(&catalog), label::CATALOG_UPDATE: null});
    let patch = json!({"metadata": {"uid": uid, "labels": labels}});
    let written: Pod = objects.merge_patch(&Kind::pod(), &namespace, &name, &patch).await?;
    live.catalog_pods.on_written(written);
    Ok(())
}
