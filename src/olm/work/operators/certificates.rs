//! The certificates with which Deployments of operators serve: what is known of their Secrets, and those that are made and not written
//! yet. Of a Secret nothing is kept but the authorities, and until when the certificate is valid.

use super::live::{Live, secret_kind};
use super::perform::{Key, Perform};
use crate::cluster::followed::View;
use crate::cluster::{ApiError, Clients, Objects, jittered, task};
use crate::olm::certificate::Stored;
use crate::olm::operator::serving::certificate::{Known, Next, Step};
use crate::olm::work::certificate::make::{Serving, judge_serving};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Pauses after failures.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

type Id = (String, String);

pub(super) struct Certificates {
    reader: Objects,
    changed: Arc<Notify>,
    stop: CancellationToken,
    secrets: Arc<Mutex<BTreeMap<Id, Secret>>>,
}

#[derive(Default)]
struct Secret {
    /// For which hosts its certificate has to be.
    hosts: Vec<String>,
    /// As it was at this resourceVersion; empty where it does not have the label by which Secrets are followed.
    read: Option<(String, Stored, Arc<Value>)>,
    reading: Option<(String, AbortOnDropHandle<()>)>,
    next: Option<(Arc<Serving>, Option<Timestamp>)>,
}

impl Certificates {
    pub(super) fn new(clients: &Clients, changed: Arc<Notify>, stop: CancellationToken) -> Certificates {
        Certificates { reader: Objects::reader(clients.call.clone()), changed, stop, secrets: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, Secret>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads those of these Secrets that are not known as they are now, and forgets all others. With each: for which hosts its certificate
    /// has to be.
    pub(super) fn want(&self, wanted: BTreeMap<Id, Vec<String>>, live: &Live) {
        let mut secrets = self.lock();
        secrets.retain(|id, _| wanted.contains_key(id));
        for (id, hosts) in wanted {
            let version = version(live, &id);
            let secret = secrets.entry(id.clone()).or_default();
            let is_read = secret.read.as_ref().is_some_and(|(of, ..)| *of == version) && secret.hosts == hosts;
            let is_asked =
                secret.reading.as_ref().is_some_and(|(of, reading)| *of == version && !reading.is_finished());
            secret.hosts = hosts;
            if !is_read && !is_asked {
                secret.reading = Some((version.clone(), self.read(id, version)));
            }
        }
    }

    /// Until it could be read.
    fn read(&self, id: Id, version: String) -> AbortOnDropHandle<()> {
        let (reader, secrets, changed) = (self.reader.clone(), self.secrets.clone(), self.changed.clone());
        let reading = async move {
            let mut failures = 0;
            let found = loop {
                match reader.get(&secret_kind(), &id.0, &id.1).await {
                    Ok(found) => break found,
                    Err(error) => {
                        failures += 1;
                        tracing::warn!(%error, "the Secret of a Deployment cannot be read; trying again");
                        tokio::time::sleep(jittered(PAUSES.0, failures, PAUSES.1)).await;
                    }
                }
            };
            if let Some(secret) = secrets.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&id) {
                secret.take(version, found);
            }
            changed.notify_one();
        };
        AbortOnDropHandle::new(tokio::spawn(task::guarded("certificates of operators", &self.stop, reading)))
    }

    /// Those of a namespace by name, as far as they are known as they are now.
    pub(super) fn known(&self, namespace: &str, live: &Live) -> BTreeMap<String, Known> {
        let secrets = self.lock();
        let of = secrets.range((namespace.to_owned(), String::new())..).take_while(|((of, _), _)| of == namespace);
        let known = of.filter_map(|(id, secret)| {
            let (_, stored, metadata) = secret.read.as_ref().filter(|(of, ..)| *of == version(live, id))?;
            let next = secret.next.as_ref().map(|(made, told)| Next { authority: made.authority.clone(), told: *told });
            Some((id.1.clone(), Known { stored: stored.clone(), metadata: metadata.clone(), next }))
        });
        known.collect()
    }

    /// Does a step for a Secret of this namespace.
    pub(super) fn step(&self, namespace: &str, step: Step, perform: &Perform<'_>, now: Timestamp) {
        let id = |secret: String| (namespace.to_owned(), secret);
        match step {
            Step::Make { secret, hosts, organization } => self.make(&id(secret), (&hosts, &organization), now),
            Step::Told { secret } => {
                if let Some((_, told)) = self.lock().get_mut(&id(secret)).and_then(|secret| secret.next.as_mut()) {
                    *told = Some(now);
                }
                self.changed.notify_one();
            }
            Step::Store { secret, metadata, before, version } => {
                let made = self.lock().get(&id(secret.clone())).and_then(|it| Some(it.next.as_ref()?.0.clone()));
                let Some(made) = made else { return };
                let data = made.data(&before);
                let write = match version {
                    None => Write::Create(json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
                        "metadata": metadata, "data": data})),
                    Some(version) => {
                        let part = |key: &str| metadata.get(key).cloned().unwrap_or_default();
                        Write::Patch(json!({"data": data, "metadata": {"resourceVersion": version,
                            "labels": part("labels"), "annotations": part("annotations")}}))
                    }
                };
                self.write(id(secret), write, Some(made), perform);
            }
            Step::Patch { secret, patch } => self.write(id(secret), Write::Patch(patch), None, perform),
            Step::Delete { secret, uid, version } => self.delete(id(secret), (uid, version), perform),
        }
    }

    fn delete(&self, id: Id, (uid, version): (String, String), perform: &Perform<'_>) {
        let (objects, secrets) = (perform.objects.clone(), self.secrets.clone());
        perform.begin(Key::Secret(id.clone()), async move {
            let done = objects.delete_version(&secret_kind(), &id.0, &id.1, (&uid, &version)).await;
            {
                let mut secrets = secrets.lock().unwrap_or_else(PoisonError::into_inner);
                // Nothing tells that it is gone where it does not have the label.
                if let Some(secret) = secrets.get_mut(&id) {
                    secret.read = None;
                }
            }
            done.map(drop)
        });
    }

    fn make(&self, id: &Id, (hosts, organization): (&[String], &str), now: Timestamp) {
        match Serving::new(hosts, organization, now) {
            Ok(made) => {
                let (namespace, name) = id;
                tracing::info!(namespace, name, "a new certificate of an operator");
                if let Some(secret) = self.lock().get_mut(id) {
                    secret.next = Some((Arc::new(made), None));
                }
                self.changed.notify_one();
            }
            Err(error) => tracing::error!(%error, "cannot make the certificate of an operator"),
        }
    }

    /// `made`: what it has afterwards.
    fn write(&self, id: Id, write: Write, made: Option<Arc<Serving>>, perform: &Perform<'_>) {
        let (objects, live, secrets) = (perform.objects.clone(), perform.live.clone(), self.secrets.clone());
        perform.begin(Key::Secret(id.clone()), async move {
            let kind = secret_kind();
            let answer: Result<Value, ApiError> = match write {
                Write::Create(object) => objects.create(&kind, &id.0, &object).await,
                Write::Patch(patch) => objects.merge_patch(&kind, &id.0, &id.1, &patch).await,
            };
            {
                let mut secrets = secrets.lock().unwrap_or_else(PoisonError::into_inner);
                match (secrets.get_mut(&id), &answer) {
                    (None, _) => {}
                    // Nothing tells of a change by somebody else as long as it does not have the label.
                    (Some(secret), Err(_)) => secret.read = None,
                    (Some(secret), Ok(answer)) => {
                        let version = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str);
                        secret.take(version.unwrap_or_default().to_owned(), Some(answer.clone()));
                        secret.next.take_if(|(next, _)| made.is_some_and(|made| Arc::ptr_eq(next, &made)));
                    }
                }
            }
            let answer = answer?;
            live.secrets.on_answer(answer);
            Ok::<(), ApiError>(())
        });
    }
}

enum Write {
    Create(Value),
    Patch(Value),
}

impl Secret {
    /// What the API server has answered; `None` if it does not exist. `version`: what was known of it when it was asked for.
    fn take(&mut self, version: String, found: Option<Value>) {
        let stored = found.as_ref().map_or(Stored::Absent, |secret| judge_serving(secret, &self.hosts));
        let mut metadata = found.and_then(|mut secret| Some(secret.get_mut("metadata")?.take())).unwrap_or_default();
        if let Some(metadata) = metadata.as_object_mut() {
            metadata.remove("managedFields");
        }
        self.read = Some((version, stored, Arc::new(metadata)));
    }
}

/// The resourceVersion of a Secret that has the label, empty for any other one.
fn version(live: &Live, (namespace, name): &Id) -> String {
    let view = live.secrets.get(&format!("{namespace}/{name}"));
    view.map(|view| view.version().to_owned()).unwrap_or_default()
}
