//! Webhooks and APIs of operators.

mod certificates;
mod descriptions;
mod faults;
mod life;
mod objects;
mod pods;
mod published;

use super::*;
use crate::olm::certificate::{Stored, Usable};
use crate::olm::operator::serving::certificate::{Known, Next, Step};
use crate::olm::operator::{component, deployment};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::SignedDuration;

const SECRET: &str = "server-service-cert";

/// As far as anybody looks at it.
fn pem(name: &str) -> String {
    format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----\n")
}

/// The names in a bundle in base64.
fn names(bundle: &Value) -> Vec<String> {
    let text = String::from_utf8(STANDARD.decode(bundle.as_str().unwrap()).unwrap()).unwrap();
    text.lines().filter(|line| !line.starts_with('-')).map(str::to_owned).collect()
}

fn webhook(name: &str, type_: &str) -> Value {
    json!({"generateName": name, "type": type_, "deploymentName": "server", "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["widgets"]}]})
}

fn validating() -> Value {
    webhook("check.example.com", "ValidatingAdmissionWebhook")
}

fn api() -> Value {
    json!({"name": "gears", "group": "gears.example.com", "version": "v1", "kind": "Gear", "deploymentName": "server"})
}

/// A version with these webhooks that has been looked at.
fn with_webhooks(name: &str, webhooks: Value) -> Value {
    let mut csv = csv(name, "Pending", "RequirementsUnknown");
    csv["spec"]["webhookdefinitions"] = webhooks;
    csv
}

fn with_api(name: &str) -> Value {
    let mut csv = csv(name, "Pending", "RequirementsUnknown");
    csv["spec"]["apiservicedefinitions"] = json!({"owned": [api()]});
    csv
}

/// A version that converts the objects of a definition of its own.
fn with_conversion(name: &str) -> Value {
    let mut webhook = webhook("convert.example.com", "ConversionWebhook");
    webhook["conversionCRDs"] = json!(["widgets.example.com"]);
    let mut csv = with_webhooks(name, json!([webhook]));
    csv["spec"]["installModes"] = json!([{"type": "AllNamespaces", "supported": true}]);
    csv["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]});
    csv
}

fn definition() -> Definition {
    Definition {
        uid: "u".to_owned(),
        version: "3".to_owned(),
        served: ["v1".to_owned()].into(),
        is_available: true,
        ..Definition::default()
    }
}

/// A Secret with a certificate for so long, of the first of these authorities.
fn stored(authorities: &[&str], until: Timestamp) -> Known {
    let authorities: String = authorities.iter().map(|name| pem(name)).collect();
    let usable = Usable { authorities, certificate_until: until, authority_until: until, version: "1".to_owned() };
    Known { stored: Stored::Usable(usable), metadata: Arc::default(), next: None }
}

impl Cluster {
    /// With this version, whose OperatorGroup selects all namespaces where it must, and a Secret that nobody has made.
    fn serving(csv: Value) -> Cluster {
        let mut cluster = Cluster::new([csv]);
        if cluster.csvs[0]["spec"]["installModes"].as_array().unwrap().len() == 1 {
            cluster.groups[0]["spec"] = json!({});
        }
        cluster.groups[0]["metadata"]["uid"] = json!("group-uid");
        let absent = Known { stored: Stored::Absent, metadata: Arc::default(), next: None };
        cluster.certificates.insert(SECRET.to_owned(), absent);
        cluster.definitions.insert("widgets.example.com".to_owned(), definition());
        cluster.named()
    }

    /// The same once it is installed.
    fn served(csv: Value) -> Cluster {
        let mut cluster = Cluster::serving(csv);
        cluster.settle(&mut at(10));
        assert_eq!(cluster.csvs[0]["status"]["phase"], "Succeeded", "{}", cluster.csvs[0]["status"]);
        cluster
    }

    /// Does what is decided for each version, as the API server and the pods would, until nothing is left to do. `now` moves on where
    /// somebody waits for less than a minute. Returns what happened.
    fn settle(&mut self, now: &mut Timestamp) -> Vec<String> {
        let mut lines = Vec::new();
        for _ in 0..100 {
            let names: Vec<String> =
                self.csvs.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect();
            let mut next = None;
            let before = lines.len();
            for name in names {
                let decision = self.decide_at(&name, *now);
                next = next.into_iter().chain(decision.next).min();
                self.carry_out(&name, decision, *now, &mut lines);
            }
            if lines.len() == before {
                match next {
                    Some(next) if next.duration_since(*now) < SignedDuration::from_mins(1) => *now = next,
                    _ => return lines,
                }
            }
        }
        panic!("it never ends: {lines:#?}")
    }

    fn carry_out(&mut self, name: &str, decision: Decision, now: Timestamp, lines: &mut Vec<String>) {
        if let Some(patch) = decision.patch {
            lines.push(format!("{name}: marked"));
            merge(self.csv_mut(name), &patch);
            let goes = self.csv(name)["metadata"]["finalizers"] == json!([])
                && self.csv(name)["metadata"]["deletionTimestamp"].is_string();
            if goes {
                self.csvs.retain(|it| it["metadata"]["name"] != name);
            }
            return;
        }
        decision.components.into_iter().for_each(|write| self.component(write, lines));
        decision.certificates.into_iter().for_each(|step| self.certificate(step, now, lines));
        for write in decision.conversions {
            lines.push(format!("convert {}", write.name));
            let mut spec = json!({"conversion": self.definitions[&write.name].conversion});
            merge(&mut spec, &write.patch["spec"]);
            if let Some(client) = spec.pointer_mut("/conversion/webhook/clientConfig").and_then(Value::as_object_mut) {
                client.retain(|_, value| !value.is_null());
            }
            self.definitions.get_mut(&write.name).unwrap().conversion = spec["conversion"].take();
        }
        for write in decision.deployments {
            match write {
                deployment::Write::Create { name, mut object }
                | deployment::Write::Replace { name, mut object, .. } => {
                    lines.push(format!("write Deployment {name}"));
                    object["metadata"]["uid"] = json!(format!("uid-{name}"));
                    object["metadata"]["resourceVersion"] = json!("9");
                    object["metadata"]["generation"] = json!(1);
                    object["status"] = ready();
                    self.deployments.insert(name, Live { object: Arc::new(object), ..Live::default() });
                }
                deployment::Write::Delete { name, .. } => {
                    lines.push(format!("remove Deployment {name}"));
                    self.deployments.remove(&name);
                }
            }
        }
        if let Some((states, status)) = decision.status {
            lines.extend(states.iter().map(|it| format!("{name}: {:?}/{}", it.phase, it.reason)));
            self.csv_mut(name)["status"] = json!(*status);
        }
        if decision.delete {
            lines.push(format!("{name}: deleted"));
            self.csv_mut(name)["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
    }

    fn component(&mut self, write: component::Write, lines: &mut Vec<String>) {
        let is = |object: &Value| component::Id::of(object).as_ref() == Some(write.id());
        self.components.retain(|object| !is(object));
        let line = match &write {
            component::Write::Create { id, .. } => format!("create {id}"),
            component::Write::Replace { id, .. } => format!("replace {id}"),
            component::Write::Delete { id, .. } => format!("delete {id}"),
        };
        lines.push(line);
        if let Some(object) = write.object() {
            let mut object = object.clone();
            object["metadata"]["uid"] = json!("u");
            object["metadata"]["resourceVersion"] = json!("7");
            if object["kind"] == "APIService" {
                let api =
                    ApiService { is_available: true, owner: component::Owner::of(&object), ..ApiService::default() };
                self.services.insert(object["metadata"]["name"].as_str().unwrap().to_owned(), api);
            }
            self.components.push(object);
        }
    }

    fn certificate(&mut self, step: Step, now: Timestamp, lines: &mut Vec<String>) {
        let secret = self.certificates.get_mut(step.secret()).unwrap();
        match step {
            Step::Make { hosts, .. } => {
                lines.push(format!("make for {}", hosts[0]));
                let authority = pem(&format!("made-{}", now.as_second()));
                secret.next = Some(Next { authority, told: None });
            }
            Step::Told { .. } => {
                lines.push("told".to_owned());
                secret.next.as_mut().unwrap().told = Some(now);
            }
            Step::Store { metadata, before, version, .. } => {
                lines.push(format!("store, {}", if version.is_some() { "in its place" } else { "new" }));
                let next = secret.next.take().unwrap();
                let authorities = format!("{}{before}", next.authority);
                let until = now + SignedDuration::from_hours(24 * 730);
                let (certificate_until, authority_until) = (until, until);
                let usable = Usable { authorities, certificate_until, authority_until, version: "5".to_owned() };
                secret.stored = Stored::Usable(usable);
                let mut object = (*secret.metadata).clone();
                match version {
                    None => object = metadata,
                    Some(_) => merge(
                        &mut object,
                        &json!({"labels": metadata["labels"], "annotations": metadata["annotations"]}),
                    ),
                }
                object["uid"] = json!("uid-secret");
                secret.metadata = Arc::new(object);
            }
            Step::Delete { uid, .. } => {
                lines.push(format!("delete Secret {uid}"));
                *secret = Known { stored: Stored::Absent, metadata: Arc::default(), next: None };
            }
            Step::Patch { patch, .. } => {
                lines.push("patch Secret".to_owned());
                let mut object = json!({"metadata": *secret.metadata});
                merge(&mut object, &json!({"metadata": patch["metadata"]}));
                secret.metadata = Arc::new(object["metadata"].take());
                if let (Stored::Usable(usable), Some(bundle)) = (&mut secret.stored, patch.pointer("/data/olmCAKey")) {
                    usable.authorities = names(bundle).iter().map(|name| pem(name)).collect();
                }
            }
        }
    }

    /// The one object of this kind whose name begins so.
    fn object(&self, kind: &str, name: &str) -> &Value {
        let is = |it: &&Value| it["kind"] == kind && it["metadata"]["name"].as_str().unwrap().starts_with(name);
        let found: Vec<&Value> = self.components.iter().filter(is).collect();
        assert_eq!(found.len(), 1, "{kind} {name}: {found:?}");
        found[0]
    }

    fn authorities(&self) -> Vec<String> {
        let Stored::Usable(usable) = &self.certificates[SECRET].stored else { panic!("a certificate") };
        names(&json!(STANDARD.encode(&usable.authorities)))
    }
}
