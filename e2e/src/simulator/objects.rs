//! Objects as JSON, and the two kinds of writes that the simulation makes.

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// Namespace and name.
pub(super) type Key = (String, String);

pub(super) fn key(object: &Value) -> Key {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}

/// Creates an object with its status, or gives an existing object its status.
#[derive(Clone, Debug)]
pub struct Write {
    kind: GroupVersionKind,
    create: bool,
    pub object: Value,
    /// The operator and the version that it reports by this.
    pub reports: Option<(String, String)>,
}

/// Why a write was not carried out.
#[derive(Debug)]
pub struct Refused {
    pub cause: String,
    /// It would be refused again and again.
    pub is_final: bool,
}

impl Write {
    pub fn create(group: &str, kind: &str, object: Value) -> Write {
        Write { kind: GroupVersionKind::gvk(group, "v1", kind), create: true, object, reports: None }
    }

    pub fn status(group: &str, kind: &str, key: &Key, status: Value) -> Write {
        let (namespace, name) = key;
        let object = json!({"metadata": {"namespace": namespace, "name": name}, "status": status});
        Write { kind: GroupVersionKind::gvk(group, "v1", kind), create: false, object, reports: None }
    }

    /// Sends it. An object that exists already is left as it is; one that is deleted meanwhile needs no status.
    pub async fn send(&self, client: &Client) -> Result<(), Refused> {
        let resource = ApiResource::from_gvk(&self.kind);
        let (namespace, name) = key(&self.object);
        let api: Api<DynamicObject> = match namespace.as_str() {
            "" => Api::all_with(client.clone(), &resource),
            namespace => Api::namespaced_with(client.clone(), namespace, &resource),
        };
        let named = |error: &dyn std::fmt::Display| format!("{} {namespace}/{name}: {error}", self.kind.kind);
        let is = |error: &kube::Error, code: u16| matches!(error, kube::Error::Api(status) if status.code == code);
        let failed =
            |error: kube::Error| Refused { cause: named(&error), is_final: is(&error, 400) || is(&error, 422) };
        if self.create {
            let mut object = self.object.clone();
            if let Some(map) = object.as_object_mut() {
                map.insert("apiVersion".into(), resource.api_version.clone().into());
                map.insert("kind".into(), resource.kind.clone().into());
            }
            let object: DynamicObject =
                serde_json::from_value(object).map_err(|error| Refused { cause: named(&error), is_final: true })?;
            match api.create(&PostParams::default(), &object).await {
                Err(error) if !is(&error, 409) => return Err(failed(error)),
                _ => {}
            }
        }
        let Some(status) = self.object.get("status") else { return Ok(()) };
        let patch = Patch::Merge(json!({ "status": status }));
        match api.patch_status(&name, &PatchParams::default(), &patch).await {
            Err(error) if !is(&error, 404) => Err(failed(error)),
            _ => Ok(()),
        }
    }
}
