//! Environment variables of containers: the proxy, and setting variables without duplicates.

use serde_json::{Value, json};

/// The proxy that pods use. At least one setting is not empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Proxy {
    pub http: String,
    pub https: String,
    /// Hosts and networks, separated by commas.
    pub none: String,
}

impl Proxy {
    /// The settings in the status of the Proxy object, which are the effective ones; `None` if all are empty.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let text = |field: &str| {
            let value = object.pointer(&format!("/status/{field}")).and_then(Value::as_str);
            value.unwrap_or_default().trim().to_owned()
        };
        let proxy = Proxy { http: text("httpProxy"), https: text("httpsProxy"), none: text("noProxy") };
        (!proxy.http.is_empty() || !proxy.https.is_empty() || !proxy.none.is_empty()).then_some(proxy)
    }
}

/// Sets the variables in the containers named in the comma-separated list. Whitespace around a name is ignored. The error is
/// the name of a container that does not exist.
pub(super) fn inject(object: &mut Value, names: &str, proxy: &Proxy) -> Result<(), String> {
    for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let found =
            set(object, name, &[("HTTP_PROXY", &proxy.http), ("HTTPS_PROXY", &proxy.https), ("NO_PROXY", &proxy.none)]);
        if !found {
            return Err(name.to_owned());
        }
    }
    Ok(())
}

/// Sets variables of the container or init container of this name; false if there is none. An existing variable keeps its
/// position, and duplicates of it are removed.
pub(super) fn set(object: &mut Value, container: &str, variables: &[(&str, &str)]) -> bool {
    let mut found = false;
    for list in ["containers", "initContainers"] {
        let containers = object.pointer_mut(&format!("/spec/template/spec/{list}")).and_then(Value::as_array_mut);
        let named = |value: &&mut Value| value.get("name").and_then(Value::as_str) == Some(container);
        for map in containers.into_iter().flatten().filter(named).filter_map(Value::as_object_mut) {
            found = true;
            let environment = map.entry("env").or_insert_with(|| json!([]));
            if environment.is_null() {
                *environment = json!([]);
            }
            // Loading a release refuses anything but a list.
            let Some(environment) = environment.as_array_mut() else { continue };
            for (name, value) in variables {
                set_one(environment, name, value);
            }
        }
    }
    found
}

fn set_one(environment: &mut Vec<Value>, name: &str, value: &str) {
    let variable = json!({ "name": name, "value": value });
    let is_it = |entry: &Value| entry.get("name").and_then(Value::as_str) == Some(name);
    let Some(place) = environment.iter().position(is_it) else {
        return environment.push(variable);
    };
    let mut index = 0;
    environment.retain(|entry| {
        index += 1;
        index - 1 <= place || !is_it(entry)
    });
    if let Some(entry) = environment.get_mut(place) {
        *entry = variable;
    }
}
