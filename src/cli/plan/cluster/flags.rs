//! Flags of the daemon as its Deployment sets them.

use serde_json::Value;

/// The value of a flag, or of the environment variable that stands in for it: the flag comes first, as for the daemon itself. The
/// error says why the Deployment does not tell it.
pub(super) fn value(deployment: &Value, flag: &str, variable: &str) -> Result<Option<String>, String> {
    if let Some(given) = given(deployment, flag).first() {
        return Ok(Some((*given).to_owned()));
    }
    let mut variables = containers(deployment).flat_map(|container| list(container, "env"));
    let Some(found) = variables.find(|it| it.get("name").and_then(Value::as_str) == Some(variable)) else {
        return Ok(None);
    };
    if found.get("valueFrom").is_some_and(|from| !from.is_null()) {
        return Err(format!("the variable {variable} of its Deployment takes its value from elsewhere (valueFrom)"));
    }
    Ok(found.get("value").and_then(Value::as_str).map(str::to_owned))
}

/// The values of a flag of any container, written as `--name=value` or as two words.
pub(super) fn given<'a>(deployment: &'a Value, flag: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    for container in containers(deployment) {
        let mut words = list(container, "command").chain(list(container, "args")).filter_map(Value::as_str);
        while let Some(word) = words.next() {
            match word.split_once('=') {
                Some((name, value)) if name == flag => found.push(value),
                None if word == flag => found.extend(words.next()),
                _ => {}
            }
        }
    }
    found
}

fn containers(deployment: &Value) -> impl Iterator<Item = &Value> {
    deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array).into_iter().flatten()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn deployment(words: Value, variables: Value) -> Value {
        let containers =
            json!([{"name": "beside", "args": ["--profile"]}, {"command": ["cvo"], "args": words, "env": variables}]);
        json!({"spec": {"template": {"spec": {"containers": containers}}}})
    }

    #[test]
    fn flags_are_read_as_the_daemon_reads_them() {
        let variable = json!([{"name": "CLUSTER_PROFILE", "value": "of-variable"}]);
        let table = [
            (json!(["start", "--profile=a"]), Some("a")),
            (json!(["start", "--profile", "b", "--name=x"]), Some("b")),
            (json!(["start", "--profile=a=b"]), Some("a=b")),
            (json!(["start", "--profiles=a", "profile"]), Some("of-variable")),
        ];
        for (words, expected) in table {
            let found = value(&deployment(words.clone(), variable.clone()), "--profile", "CLUSTER_PROFILE");
            assert_eq!(found.unwrap().as_deref(), expected, "{words}");
        }
        let none = deployment(json!([]), json!([]));
        assert_eq!(value(&none, "--profile", "CLUSTER_PROFILE"), Ok(None));
        assert_eq!(value(&Value::Null, "--profile", "CLUSTER_PROFILE"), Ok(None));
        let elsewhere =
            json!([{"name": "CLUSTER_PROFILE", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k"}}}]);
        let said = value(&deployment(json!([]), elsewhere.clone()), "--profile", "CLUSTER_PROFILE").unwrap_err();
        assert!(said.contains("CLUSTER_PROFILE") && said.contains("valueFrom"), "{said}");
        let flag = deployment(json!(["--profile", "a"]), elsewhere);
        assert_eq!(value(&flag, "--profile", "CLUSTER_PROFILE").unwrap().as_deref(), Some("a"));
        let several =
            deployment(json!(["--always-enable-capabilities=A,B", "--always-enable-capabilities", "C"]), json!([]));
        assert_eq!(given(&several, "--always-enable-capabilities"), ["A,B", "C"]);
    }
}
