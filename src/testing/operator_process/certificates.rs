//! Certificates with which Deployments of operators serve: texts that only say what they are for and until when, as nobody checks them.

use super::{Api, Failure, OperatorProcess, Write};
use crate::cluster::followed::View;
use crate::olm::certificate::{Stored, Usable};
use crate::olm::operator::serving::certificate::{AUTHORITIES, DAYS, Known, Next, Step};
use crate::olm::work::operators::live::Live;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

type Id = (String, String);

const CERTIFICATE: &str = "tls.crt";

#[derive(Default)]
pub(super) struct Certificates {
    secrets: BTreeMap<Id, Secret>,
    /// Tells authorities of processes apart.
    process: u64,
    made: u64,
}

#[derive(Default)]
struct Secret {
    hosts: Vec<String>,
    read: Option<(String, Stored, Arc<Value>)>,
    next: Option<Made>,
}

#[derive(Clone)]
struct Made {
    authority: String,
    until: Timestamp,
    hosts: Vec<String>,
    told: Option<Timestamp>,
}

impl Certificates {
    pub(super) fn of(process: u64) -> Certificates {
        Certificates { process, ..Certificates::default() }
    }

    pub(super) fn want(&mut self, wanted: BTreeMap<Id, Vec<String>>, live: &Live) {
        self.secrets.retain(|id, _| wanted.contains_key(id));
        for (id, hosts) in wanted {
            let version = version(live, &id);
            let secret = self.secrets.entry(id).or_default();
            if secret.hosts != hosts || secret.read.as_ref().is_some_and(|(of, ..)| *of != version) {
                secret.read = None;
            }
            secret.hosts = hosts;
        }
    }

    pub(super) fn known(&self, namespace: &str, live: &Live) -> BTreeMap<String, Known> {
        let of = self.secrets.range((namespace.to_owned(), String::new())..).take_while(|((of, _), _)| of == namespace);
        let known = of.filter_map(|(id, secret)| {
            let (_, stored, metadata) = secret.read.as_ref().filter(|(of, ..)| *of == version(live, id))?;
            let next = secret.next.as_ref().map(|it| Next { authority: it.authority.clone(), told: it.told });
            Some((id.1.clone(), Known { stored: stored.clone(), metadata: metadata.clone(), next }))
        });
        known.collect()
    }

    pub(super) fn step(&mut self, namespace: &str, step: Step, now: Timestamp) -> Option<Write> {
        let id = (namespace.to_owned(), step.secret().to_owned());
        let secret = self.secrets.get_mut(&id)?;
        match step {
            Step::Make { hosts, .. } => {
                self.made += 1;
                let number = format!("{}.{}", self.process, self.made);
                let authority = format!("-----BEGIN CERTIFICATE-----\n{number}\n-----END CERTIFICATE-----\n");
                // Certificates know no fractions of seconds.
                let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
                let until = now.checked_add(SignedDuration::from_hours(24 * DAYS)).unwrap_or(Timestamp::MAX);
                secret.next = Some(Made { authority, until, hosts, told: None });
                None
            }
            Step::Told { .. } => {
                secret.next.iter_mut().for_each(|next| next.told = Some(now));
                None
            }
            Step::Store { metadata, before, version, .. } => {
                let made = secret.next.clone()?;
                let certificate = json!({"until": made.until, "hosts": made.hosts}).to_string();
                let authorities = format!("{}{before}", made.authority);
                let data =
                    json!({CERTIFICATE: STANDARD.encode(certificate), AUTHORITIES: STANDARD.encode(authorities)});
                let part = |key: &str| metadata.get(key).cloned().unwrap_or_default();
                let (object, exists) = match version {
                    None => (json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}), false),
                    Some(version) => {
                        let metadata = json!({"resourceVersion": version, "labels": part("labels"),
                            "annotations": part("annotations")});
                        (json!({"data": data, "metadata": metadata}), true)
                    }
                };
                Some(Write::of_certificate(id, object, exists, Some(made.authority)))
            }
            Step::Patch { patch, .. } => Some(Write::of_certificate(id, patch, true, None)),
            Step::Delete { uid, .. } => Some(Write::of_left_over_secret(id, uid)),
        }
    }

    pub(super) fn written(&mut self, id: &Id, answer: &Value, made: Option<&str>) {
        let Some(secret) = self.secrets.get_mut(id) else { return };
        let version = answer.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default();
        secret.take(version.to_owned(), Some(answer));
        secret.next.take_if(|next| made == Some(next.authority.as_str()));
    }

    pub(super) fn unread(&mut self, id: &Id) {
        self.secrets.get_mut(id).into_iter().for_each(|secret| secret.read = None);
    }
}

impl Secret {
    fn take(&mut self, version: String, found: Option<&Value>) {
        let stored = found.map_or(Stored::Absent, |secret| stored(secret, &self.hosts));
        let metadata = found.and_then(|secret| secret.get("metadata")).cloned().unwrap_or_default();
        self.read = Some((version, stored, Arc::new(metadata)));
    }
}

fn stored(secret: &Value, hosts: &[String]) -> Stored {
    let version = secret.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let text = |key: &str| {
        let text = secret.get("data")?.get(key)?.as_str()?;
        String::from_utf8(STANDARD.decode(text).ok()?).ok()
    };
    let certificate = text(CERTIFICATE).and_then(|text| serde_json::from_str::<Value>(&text).ok());
    let until = certificate.as_ref().and_then(|it| it.get("until")?.as_str()?.parse::<Timestamp>().ok());
    let is_of_hosts = certificate.as_ref().is_some_and(|it| it.get("hosts") == Some(&json!(hosts)));
    match (until.filter(|_| is_of_hosts), text(AUTHORITIES)) {
        (Some(until), Some(authorities)) => {
            Stored::Usable(Usable { authorities, certificate_until: until, authority_until: until, version })
        }
        _ => Stored::Unusable { cause: "it cannot be read".to_owned(), version },
    }
}

/// The resourceVersion of a Secret that has the label, empty for any other one.
fn version(live: &Live, (namespace, name): &Id) -> String {
    let view = live.secrets.get(&format!("{namespace}/{name}"));
    view.map(|view| view.version().to_owned()).unwrap_or_default()
}

impl OperatorProcess {
    /// Reads the Secrets that are not known as they are now. Returns whether there were any.
    pub fn read_secrets(&mut self, api: &mut dyn Api) -> Result<bool, Failure> {
        let mut any = false;
        for (id, secret) in self.certificates.secrets.iter_mut().filter(|(_, secret)| secret.read.is_none()) {
            let version = version(&self.live, id);
            let found = api.get("Secret", &id.0, &id.1)?;
            secret.take(version, found.as_ref());
            any = true;
        }
        Ok(any)
    }
}
