//! Keeps the certificate that packages are served with: every replica follows its Secret, the holder of the lease makes it and tells
//! the API server of the authority.

pub(super) mod make;

use crate::cluster::{ApiError, Clients, Kind, Kinds, Objects, jittered, named, task};
use crate::object::read::Read;
use crate::olm::api::package_manifest::{GROUP, VERSION};
use crate::olm::certificate::{Action, Stored, Told, Usable, next};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt;
use jiff::Timestamp;
use make::{Made, MakeError, judge};
use rustls::sign::CertifiedKey;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long API servers need to learn of another authority.
const TOLD_WITHIN: Duration = Duration::from_secs(10);
/// How often it is looked whether something has to be renewed. Nobody is asked for that.
const CHECK: Duration = Duration::from_secs(6 * 3600);
/// Pauses after failures.
const PAUSES: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));

/// Keys of the Secret: chain and key of the server, then those of the authority.
const KEYS: [&str; 4] = ["tls.crt", "tls.key", "ca.crt", "ca.key"];

/// Where the certificate is kept, and for which Service it is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub namespace: String,
    pub service: String,
    pub secret: String,
}

impl Identity {
    /// The name by which API servers ask.
    fn host(&self) -> String {
        format!("{}.{}.svc", self.service, self.namespace)
    }
}

fn secrets() -> Kind {
    Kind::known("", "v1", "Secret", "secrets", true)
}

fn api_services() -> Kind {
    Kind::known("apiregistration.k8s.io", "v1", "APIService", "apiservices", false)
}

fn api_service() -> String {
    format!("{VERSION}.{GROUP}")
}

/// The Secret as it is now.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    pub stored: watch::Receiver<Stored>,
    /// The last that could be served with.
    pub key: watch::Receiver<Option<Arc<CertifiedKey>>>,
}

/// Follows the Secret until `stop`.
pub(crate) fn follow(identity: &Identity, clients: &Clients, kinds: &Arc<Kinds>, stop: &CancellationToken) -> Followed {
    let (told, stored) = watch::channel(Stored::Unknown);
    let (told_key, key) = watch::channel(None);
    let mut states = named::follow(clients, kinds.clone(), secrets(), &identity.namespace, &identity.secret);
    let host = identity.host();
    task::spawn("certificate of packages", stop, async move {
        while let Some(state) = states.next().await {
            let now = match state {
                Read::Value(secret) => {
                    let (stored, key) = judge(&secret, &host);
                    if let Some(key) = key {
                        told_key.send_replace(Some(key));
                    }
                    stored
                }
                Read::Absent => Stored::Absent,
                // What was known counts.
                Read::Failed(_) => continue,
            };
            told.send_if_modified(|last| std::mem::replace(last, now.clone()) != now);
        }
    });
    Followed { stored, key }
}

/// Why a turn has failed.
#[derive(Debug, thiserror::Error)]
enum KeepError {
    #[error("cannot make a certificate for packages: {0}")]
    Make(#[from] MakeError),
    #[error(transparent)]
    Api(#[from] ApiError),
}

/// Makes, renews and tells until `stop`, as the holder of the lease.
pub(crate) async fn keep(
    identity: Identity,
    objects: Objects,
    mut stored: watch::Receiver<Stored>,
    (clients, kinds): (&Clients, &Arc<Kinds>),
    stop: CancellationToken,
) {
    let mut states = named::follow(clients, kinds.clone(), api_services(), "", &api_service());
    let keeper = Keeper { identity, objects };
    let (mut told, mut failures, mut repeats) = (Told::Unknown, 0, Repeats::default());
    loop {
        let (now, at) = (stored.borrow_and_update().clone(), Timestamp::now());
        let tells = matches!(next(&now, &told, at), Action::Tell(_));
        let turn = keeper.turn(&now, &told, at);
        let Some(done) = stop.run_until_cancelled(turn).await else { return };
        if tells && done.is_ok() {
            let rest = tokio::time::sleep(repeats.rest(Instant::now()));
            if stop.run_until_cancelled(rest).await.is_none() {
                return;
            }
        }
        let pause = match done {
            Ok(()) => {
                failures = 0;
                CHECK
            }
            Err(error) => {
                failures += 1;
                tracing::warn!(%error, "the certificate of packages is not kept; trying again");
                jittered(PAUSES.0, failures, PAUSES.1)
            }
        };
        tokio::select! {
            state = states.next() => match state {
                Some(Read::Failed(_)) => {}
                Some(Read::Value(object)) => told = keeper.told(&object),
                Some(Read::Absent) | None => told = Told::Unknown,
            },
            changed = stored.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => return,
        }
    }
}

/// How often the API server was told the same lately: a program that takes it back each time would be answered as fast as it is.
#[derive(Debug, Default)]
struct Repeats {
    /// When it was told last, and could be told again.
    last: Option<Instant>,
    count: u32,
}

impl Repeats {
    /// How long to rest after it was told now.
    fn rest(&mut self, now: Instant) -> Duration {
        let is_soon = self.last.is_some_and(|last| now.saturating_duration_since(last) < PAUSES.1);
        self.count = if is_soon { self.count.saturating_add(1) } else { 0 };
        let rest = if is_soon { jittered(PAUSES.0, self.count, PAUSES.1) } else { Duration::ZERO };
        self.last = Some(now + rest);
        rest
    }
}

struct Keeper {
    identity: Identity,
    objects: Objects,
}

impl Keeper {
    /// What an APIService says.
    fn told(&self, object: &Value) -> Told {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let service = (text("/spec/service/namespace"), text("/spec/service/name"));
        if service != (self.identity.namespace.as_str(), self.identity.service.as_str()) {
            return Told::Other;
        }
        let bundle = STANDARD.decode(text("/spec/caBundle")).unwrap_or_default();
        Told::Bundle(String::from_utf8_lossy(&bundle).into_owned())
    }

    async fn turn(&self, stored: &Stored, told: &Told, now: Timestamp) -> Result<(), KeepError> {
        match next(stored, told, now) {
            Action::None => Ok(()),
            Action::Tell(authorities) => {
                tracing::info!("telling the API server which authority signs the certificate of packages");
                self.tell(&authorities).await
            }
            Action::Make { before, version } => {
                if let Stored::Unusable { cause, .. } = stored {
                    tracing::warn!(cause, secret = self.identity.secret, "the certificate of packages is made anew");
                }
                self.replace(&before, version.as_deref(), told, now).await
            }
            Action::Sign { version } => {
                let Stored::Usable(Usable { authorities, .. }) = stored else { return Ok(()) };
                match self.signed(now).await? {
                    Some(made) => self.write(made, Some(&version)).await,
                    // The authority cannot sign any more.
                    None => self.replace(authorities, Some(&version), told, now).await,
                }
            }
        }
    }

    /// Makes an authority and a certificate. The API server trusts both authorities before the new one is used.
    async fn replace(&self, before: &str, version: Option<&str>, told: &Told, now: Timestamp) -> Result<(), KeepError> {
        let made = Made::new(&self.identity.host(), before, now)?;
        if !before.is_empty() && matches!(told, Told::Bundle(_)) {
            self.tell(&made.authorities).await?;
            tokio::time::sleep(TOLD_WITHIN).await;
        }
        self.write(made, version).await
    }

    /// A certificate by the authority in the Secret; `None` if its key cannot be used.
    async fn signed(&self, now: Timestamp) -> Result<Option<Made>, KeepError> {
        let Identity { namespace, secret, .. } = &self.identity;
        let found = self.objects.get(&secrets(), namespace, secret).await?.unwrap_or_default();
        match Made::signed(&self.identity.host(), &found, now) {
            Ok(made) => Ok(Some(made)),
            Err(error) => {
                tracing::warn!(%error, "the authority of packages is made anew");
                Ok(None)
            }
        }
    }

    /// Writes the Secret, if it has not changed since it had this version.
    async fn write(&self, made: Made, version: Option<&str>) -> Result<(), KeepError> {
        let Identity { namespace, secret, .. } = &self.identity;
        tracing::info!(secret, "a new certificate of packages");
        let values = [made.certificate, made.key, made.authorities, made.authority_key];
        let data: serde_json::Map<String, Value> =
            KEYS.into_iter().zip(values).map(|(key, value)| (key.to_owned(), json!(STANDARD.encode(value)))).collect();
        let labels = json!({crate::olm::api::keys::label::MANAGED: "true"});
        match version {
            Some(version) => {
                let patch = json!({"metadata": {"resourceVersion": version, "labels": labels}, "data": data});
                let _written: Value = self.objects.merge_patch(&secrets(), namespace, secret, &patch).await?;
            }
            None => {
                let object = json!({
                    "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls", "data": data,
                    "metadata": {"namespace": namespace, "name": secret, "labels": labels},
                });
                let _created = self.objects.create(&secrets(), namespace, &object).await?;
            }
        }
        Ok(())
    }

    async fn tell(&self, authorities: &str) -> Result<(), KeepError> {
        // Both together are refused.
        let spec = json!({"caBundle": STANDARD.encode(authorities), "insecureSkipTLSVerify": null});
        let patch = json!({"spec": spec});
        let _written: Value = self.objects.merge_patch(&api_services(), "", &api_service(), &patch).await?;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
