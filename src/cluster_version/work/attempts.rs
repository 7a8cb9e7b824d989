//! Tries what the daemon writes, as the daemon: the API server does all that it does with a write but store it. So it says itself who
//! refuses: a right, a quota, a policy, a webhook.

use crate::cluster::{ApiError, Cause, Clients};
use crate::cluster_version::health::daemon;
use crate::cluster_version::progress::CONFIG_MAP;
use crate::diagnosis::refusals::{Answer, Attempt};
use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use serde_json::{Value, json};
use std::time::Duration;

/// A webhook is given at most 30 seconds, and the daemon waits for 5.
const PATIENCE: Duration = Duration::from_secs(12);
/// Somebody else may write the object between the read and the try.
const TRIES: usize = 3;

/// An object that is written.
struct Object<'a> {
    /// As in `kubectl get`.
    kind: &'a str,
    path: String,
    namespace: &'a str,
    name: &'a str,
    subresource: Option<&'a str>,
    vital: bool,
}

/// What the daemon cannot work without: its lease, and the status of the ClusterVersion.
pub(crate) async fn vital(clients: &Clients, namespace: &str, name: &str, deployment: Option<&Value>) -> Vec<Attempt> {
    let acting = clients.acting_as(&daemon::user(namespace, deployment));
    let vital = vital_objects(namespace, name);
    futures::future::join_all(vital.iter().map(|object| update(clients, acting.as_ref(), object)))
        .await
        .into_iter()
        .flatten()
        .collect()
}

/// The same, its record and Deployment, and a pod as its Deployment makes them.
pub(crate) async fn all(clients: &Clients, namespace: &str, name: &str, deployment: Option<&Value>) -> Vec<Attempt> {
    let acting = clients.acting_as(&daemon::user(namespace, deployment));
    let mut objects = vital_objects(namespace, name);
    let of = |kind, path: &str, name| Object {
        kind,
        path: format!("{path}/namespaces/{namespace}/{kind}s"),
        namespace,
        name,
        subresource: None,
        vital: false,
    };
    objects.push(of("configmap", "/api/v1", CONFIG_MAP));
    objects.push(of("deployment", "/apis/apps/v1", crate::cluster_version::api::OWN_DEPLOYMENT));
    let updates = futures::future::join_all(objects.iter().map(|object| update(clients, acting.as_ref(), object)));
    let (updates, pod) = tokio::join!(updates, pod(&clients.call, namespace, deployment));
    updates.into_iter().chain([pod]).flatten().collect()
}

fn vital_objects<'a>(namespace: &'a str, name: &'a str) -> Vec<Object<'a>> {
    let lease = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let versions = "/apis/config.openshift.io/v1/clusterversions".to_owned();
    vec![
        Object { kind: "lease", path: lease, namespace, name, subresource: None, vital: true },
        Object {
            kind: "clusterversion",
            path: versions,
            namespace: "",
            name,
            subresource: Some("status"),
            vital: true,
        },
    ]
}

/// PUT of the object as it is. `None`: it does not exist.
async fn update(clients: &Clients, acting: Option<&Client>, object: &Object<'_>) -> Option<Attempt> {
    let place = if object.namespace.is_empty() { String::new() } else { format!("{}/", object.namespace) };
    let subresource = object.subresource.map(|it| format!("the {it} of ")).unwrap_or_default();
    let what = format!("update {subresource}{} {place}{}", object.kind, object.name);
    let attempt = |answer| {
        Some(Attempt { what: what.clone(), namespace: object.namespace.to_owned(), vital: object.vital, answer })
    };
    let mut answer = Answer::Accepted;
    for _ in 0..TRIES {
        let live = match read(&clients.call, object).await {
            Ok(live) => live,
            Err(error) if error.is_not_found() => return None,
            Err(error) => return attempt(Answer::Unknown(error.to_string())),
        };
        // Without the right to act as the daemon, what others refuse shows as well.
        answer = match acting {
            Some(acting) => match put(acting, object, &live).await {
                Err(error) if may_not_act(&error) => judged(put(&clients.call, object, &live).await, false),
                tried => judged(tried, true),
            },
            None => judged(put(&clients.call, object, &live).await, false),
        };
        if !matches!(&answer, Answer::Refused { code: 409, .. }) {
            return attempt(answer);
        }
    }
    // It is written all the time.
    attempt(if matches!(answer, Answer::Refused { code: 409, .. }) { Answer::Accepted } else { answer })
}

async fn read(client: &Client, object: &Object<'_>) -> Result<Value, ApiError> {
    let request = Request::new(object.path.clone()).get(object.name, &Default::default());
    send(client, &format!("read {} {}", object.kind, object.name), request).await
}

async fn put(client: &Client, object: &Object<'_>, live: &Value) -> Result<Value, ApiError> {
    let (params, body) = (PostParams { dry_run: true, ..PostParams::default() }, live.to_string().into_bytes());
    let request = match object.subresource {
        None => Request::new(object.path.clone()).replace(object.name, &params, body),
        Some(subresource) => {
            Request::new(object.path.clone()).replace_subresource(subresource, object.name, &params, body)
        }
    };
    send(client, "try", request).await
}

/// A pod as the daemon's Deployment makes them: the controllers of Kubernetes make pods, so that their rights are not tried.
async fn pod(client: &Client, namespace: &str, deployment: Option<&Value>) -> Option<Attempt> {
    let template = deployment?.pointer("/spec/template")?;
    let labels = template.pointer("/metadata/labels").cloned().unwrap_or_default();
    let name = format!("{}-", crate::cluster_version::api::OWN_DEPLOYMENT);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": name, "namespace": namespace, "labels": labels}, "spec": template.get("spec")?});
    let params = PostParams { dry_run: true, ..PostParams::default() };
    let request =
        Request::new(format!("/api/v1/namespaces/{namespace}/pods")).create(&params, pod.to_string().into_bytes());
    let answer = judged(send(client, "try", request).await, false);
    Some(Attempt {
        what: format!("have another pod in namespace {namespace}"),
        namespace: namespace.to_owned(),
        vital: false,
        answer,
    })
}

async fn send(
    client: &Client,
    attempt: &str,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<Value, ApiError> {
    let sent = async { client.request::<Value>(request.map_err(kube::Error::BuildRequest)?).await };
    match tokio::time::timeout(PATIENCE, sent).await {
        Ok(answer) => answer.map_err(|error| ApiError::of(attempt, error)),
        Err(_) => Err(ApiError { attempt: attempt.to_owned(), cause: Cause::Timeout }),
    }
}

/// This client may not act as another user.
fn may_not_act(error: &ApiError) -> bool {
    matches!(&error.cause, Cause::Server { code: 403, message, .. } if message.contains("cannot impersonate"))
}

/// `as_daemon`: with its rights. A right that only this client lacks says nothing of the daemon.
fn judged(tried: Result<Value, ApiError>, as_daemon: bool) -> Answer {
    let Err(error) = tried else { return Answer::Accepted };
    match error.cause {
        Cause::Server { code: 403, message, .. } if !as_daemon && message.contains("is forbidden: User ") => {
            Answer::Unknown(format!("it cannot be tried with the rights of this kubeconfig: {message}"))
        }
        Cause::Server { message, .. } if message.contains("does not support dry run") => {
            Answer::Unknown(format!("it cannot be tried: {message}"))
        }
        Cause::Server { code, message, .. } => Answer::Refused { code, message },
        Cause::Timeout => Answer::Refused { code: 0, message: format!("no answer within {} s", PATIENCE.as_secs()) },
        cause => Answer::Unknown(cause.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(code: u16, message: &str) -> Result<Value, ApiError> {
        let cause = Cause::Server { code, reason: String::new(), message: message.to_owned() };
        Err(ApiError { attempt: "try".into(), cause })
    }

    #[test]
    fn right_that_only_the_reader_lacks_says_nothing_of_the_daemon() {
        let forbidden = r#"leases "version" is forbidden: User "me" cannot update"#;
        assert!(matches!(judged(server(403, forbidden), false), Answer::Unknown(_)));
        assert!(matches!(judged(server(403, forbidden), true), Answer::Refused { code: 403, .. }));
        let quota = "pods \"x\" is forbidden: exceeded quota: q, requested: pods=1";
        assert!(matches!(judged(server(403, quota), false), Answer::Refused { .. }), "a quota is not about rights");
        let dry = "admission webhook \"a\" does not support dry run";
        assert!(matches!(judged(server(400, dry), true), Answer::Unknown(_)));
        let lost = Err(ApiError { attempt: "try".into(), cause: Cause::Transport("refused".into()) });
        assert!(matches!(judged(lost, true), Answer::Unknown(_)), "the API server itself is not reached");
        assert_eq!(judged(Ok(Value::Null), true), Answer::Accepted);
        assert!(may_not_act(
            &server(403, "serviceaccounts \"x\" is forbidden: User \"me\" cannot impersonate resource").unwrap_err()
        ));
    }
}
