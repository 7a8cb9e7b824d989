//! Environment variables of containers: the proxy (payload-and-apply §5.10), and setting one without doubling it.

use serde_json::{Value, json};

/// The proxy that pods are to use. Settings may be empty, but not all of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proxy {
    pub http: String,
    pub https: String,
    /// Hosts and networks, separated by commas.
    pub none: String,
}

impl Proxy {
    /// What the Proxy object says is in force; `None` if it asks for no proxy.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let text = |field: &str| {
            let value = object.pointer(&format!("/status/{field}")).and_then(Value::as_str);
            value.unwrap_or_default().trim().to_owned()
        };
        let proxy = Proxy { http: text("httpProxy"), https: text("httpsProxy"), none: text("noProxy") };
        (!proxy.http.is_empty() || !proxy.https.is_empty() || !proxy.none.is_empty()).then_some(proxy)
    }
}

/// Sets the variables in the named containers; `names` is separated by commas, blanks around a name do not count.
/// The error is the name of a container that is not there.
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

/// Sets variables of the container or init container of that name; false if there is none. A variable that is there
/// keeps its place and is not doubled.
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
            // Anything but a list is refused when the release is loaded.
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
