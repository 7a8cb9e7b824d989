//! What leads the API server to a Deployment now, and the authorities that it has.

use super::{Facts, conversion};
use crate::olm::api::keys::label;
use crate::olm::operator::component::{self, Id, Kind, Owner};
use crate::olm::operator::requirements::Definition;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// Kinds of objects that lead the API server somewhere.
const KINDS: [Kind; 3] = [Kind::ApiService, Kind::MutatingWebhookConfiguration, Kind::ValidatingWebhookConfiguration];

/// All that leads to one Service.
#[derive(Debug)]
pub(super) struct Live<'a> {
    namespace: String,
    service: String,
    objects: Vec<(&'a Id, &'a Value)>,
    definitions: Vec<(&'a String, &'a Definition)>,
}

/// What an object says of the programs that it leads to.
fn clients(object: &Value) -> Vec<&Value> {
    let webhooks = object.get("webhooks").and_then(Value::as_array).into_iter().flatten();
    let of_webhooks = webhooks.filter_map(|it| it.get("clientConfig"));
    of_webhooks.chain(object.get("spec")).collect()
}

fn clients_mut(object: &mut Value) -> Vec<&mut Value> {
    let Some(object) = object.as_object_mut() else { return Vec::new() };
    let mut all = Vec::new();
    for (key, value) in object {
        match key.as_str() {
            "webhooks" => {
                let webhooks = value.as_array_mut().into_iter().flatten();
                all.extend(webhooks.filter_map(|it| it.get_mut("clientConfig")));
            }
            "spec" => all.push(value),
            _ => {}
        }
    }
    all
}

fn leads_to(client: &Value, namespace: &str, service: &str) -> bool {
    let text = |pointer: &str| client.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    text("/service/namespace") == namespace && text("/service/name") == service
}

fn bundle(client: &Value) -> &str {
    client.get("caBundle").and_then(Value::as_str).unwrap_or_default()
}

/// PEM, empty where it is none.
fn decoded(bundle: &str) -> String {
    let bytes = STANDARD.decode(bundle).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

impl<'a> Live<'a> {
    pub(super) fn of(facts: &Facts<'a>, owners: &[Owner], service: &str) -> Live<'a> {
        let namespace = facts.csv.metadata.namespace.as_deref().unwrap_or_default();
        let all = owners.iter().flat_map(|owner| facts.components.of_owner(owner));
        let leads = |object: &Value| clients(object).into_iter().any(|it| leads_to(it, namespace, service));
        let objects = all.filter(|(id, object)| KINDS.contains(&id.kind) && leads(object));
        let owned = facts.csv.spec.custom_resource_definitions.owned.iter().map(|it| &it.name);
        let definitions = owned.filter_map(|name| facts.world.definitions.get_key_value(name));
        let converted = definitions.filter(|(_, it)| conversion::live_bundle(it, (namespace, service)).is_some());
        Live {
            objects: objects.collect(),
            definitions: converted.collect(),
            namespace: namespace.to_owned(),
            service: service.to_owned(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.definitions.is_empty()
    }

    fn raw_bundles(&self) -> impl Iterator<Item = &str> {
        let clients = self.objects.iter().flat_map(|(_, object)| clients(object));
        let of_objects = clients.filter(|it| leads_to(it, &self.namespace, &self.service)).map(bundle);
        let of = |definition| conversion::live_bundle(definition, (&self.namespace, &self.service));
        of_objects.chain(self.definitions.iter().filter_map(move |(_, definition)| of(definition)))
    }

    /// All bundles, PEM.
    pub(super) fn bundles(&self) -> Vec<String> {
        self.raw_bundles().map(decoded).collect()
    }

    /// Whether all have these authorities, and perhaps more.
    pub(super) fn have(&self, authorities: Option<&str>) -> bool {
        authorities.is_none_or(|authorities| self.raw_bundles().all(|it| decoded(it).contains(authorities)))
    }

    /// The writes after which all have exactly these authorities.
    pub(super) fn with(&self, authorities: &str) -> (Vec<component::Write>, Vec<conversion::Write>) {
        let wanted = STANDARD.encode(authorities);
        let components = self.objects.iter().filter_map(|(id, object)| {
            let mut object = (*object).clone();
            let mut fields = Vec::new();
            for client in clients_mut(&mut object) {
                if leads_to(client, &self.namespace, &self.service) && bundle(client) != wanted {
                    client["caBundle"] = wanted.as_str().into();
                    fields = vec!["caBundle".to_owned()];
                }
            }
            (!fields.is_empty()).then(|| component::Write::Replace { id: (*id).clone(), object, fields })
        });
        let service = (self.namespace.as_str(), self.service.as_str());
        let differs = self.definitions.iter().filter(|(_, it)| conversion::live_bundle(it, service) != Some(&wanted));
        let conversions = differs.map(|(name, definition)| conversion::with_bundle(name, definition, &wanted));
        (components.collect(), conversions.collect())
    }
}

/// The configuration that belongs to a description of the version, or of one before: its name. `label`: what its label says.
pub(super) fn configuration(facts: &Facts<'_>, owners: &[Owner], kind: &str, label: &str) -> Option<String> {
    let is = |object: &Value| {
        let labels = object.pointer("/metadata/labels");
        labels.and_then(|it| it.get(label::WEBHOOK_GENERATE_NAME)?.as_str()) == Some(label)
    };
    let mut all = owners.iter().flat_map(|owner| facts.components.of_owner(owner));
    let found = all.find(|(id, object)| id.kind.names().1 == kind && is(object));
    found.map(|(id, _)| id.name.clone())
}

/// All registrations of the version itself, which is the first of the owners.
pub(super) fn of_owner(facts: &Facts<'_>, owners: &[Owner]) -> impl Iterator<Item = Id> {
    let all = owners.first().into_iter().flat_map(|owner| facts.components.of_owner(owner));
    all.map(|(id, _)| id.clone()).filter(|id| KINDS.contains(&id.kind))
}

/// Whether writes change authorities and nothing else.
pub(super) fn lose_bundles_alone(writes: &[component::Write]) -> bool {
    writes.iter().all(|write| match write {
        component::Write::Replace { fields, .. } => fields.iter().all(|field| field.ends_with("caBundle")),
        component::Write::Create { .. } | component::Write::Delete { .. } => false,
    })
}
