//! What the pod of the controller tells of its settings.

use k8s_openapi::api::core::v1::{Container, Pod};

/// The namespace and the label of the controller's pod.
pub(crate) const NAMESPACE: &str = "openshift-machine-config-operator";
const LABEL: (&str, &str) = ("k8s-app", "machine-config-operator");

/// Settings of the controller that change what it does; those of a cluster whose controller is no pod are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Controller {
    /// Where it runs, which is updated after the other nodes of its pool.
    pub node: Option<String>,
    /// How many nodes of all pools together may be unavailable.
    pub ceiling: Option<usize>,
    pub release: Option<String>,
    pub os_image: Option<String>,
}

impl Controller {
    /// `None` if the pod is another one, or has ended.
    pub(crate) fn of(pod: &Pod) -> Option<Controller> {
        let labelled = pod.metadata.labels.as_ref()?.get(LABEL.0).is_some_and(|value| value == LABEL.1);
        let running = pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running");
        if pod.metadata.namespace.as_deref() != Some(NAMESPACE) || !labelled || !running {
            return None;
        }
        let spec = pod.spec.as_ref()?;
        let setting = |flag, variable| spec.containers.iter().find_map(|it| setting(it, flag, variable));
        Some(Controller {
            node: spec.node_name.clone(),
            ceiling: setting("--max-unavailable", "").and_then(|number| number.parse().ok()),
            release: setting("--release-version", "RELEASE_VERSION"),
            os_image: setting("--os-image", "OS_IMAGE"),
        })
    }
}

/// The flag counts before the variable of the environment.
fn setting(container: &Container, flag: &str, variable: &str) -> Option<String> {
    let mut arguments = container.args.iter().chain(&container.command).flatten().peekable();
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(flag) {
            Some("") => return arguments.peek().map(|value| (*value).clone()),
            Some(value) if value.starts_with('=') => return value.strip_prefix('=').map(str::to_owned),
            _ => {}
        }
    }
    let variable = container.env.iter().flatten().find(|it| it.name == variable)?;
    variable.value.clone().filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(args: &Value, env: &Value, phase: &str) -> Option<Controller> {
        let container = json!({"name": "c", "args": args, "env": env});
        let metadata = json!({"namespace": NAMESPACE, "labels": {"k8s-app": "machine-config-operator"}});
        let spec = json!({"nodeName": "n1", "containers": [container]});
        let pod = json!({"metadata": metadata, "spec": spec, "status": {"phase": phase}});
        Controller::of(&serde_json::from_value(pod).unwrap())
    }

    #[test]
    fn settings_are_flags_or_variables() {
        let args = json!(["machine-config", "--release-version=1.2.3", "--max-unavailable", "4"]);
        let env = json!([{"name": "OS_IMAGE", "value": "os@sha256:1"}, {"name": "RELEASE_VERSION", "value": "0"}]);
        let expected = Controller {
            node: Some("n1".into()),
            ceiling: Some(4),
            release: Some("1.2.3".into()),
            os_image: Some("os@sha256:1".into()),
        };
        assert_eq!(pod(&args, &env, "Running"), Some(expected));
        assert_eq!(pod(&args, &env, "Succeeded"), None);
        assert_eq!(Controller::of(&Pod::default()), None);
    }
}
