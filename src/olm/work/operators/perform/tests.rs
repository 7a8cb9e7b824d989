use super::*;
use crate::olm::api::keys::label;
use kube::Client;
use kube::client::Body;
use std::sync::Mutex;

#[test]
fn event_of_a_failure_is_a_warning_and_no_other_is() {
    let warnings = [
        Phase::Pending,
        Phase::InstallReady,
        Phase::Installing,
        Phase::Succeeded,
        Phase::Replacing,
        Phase::Deleting,
        Phase::Failed,
    ]
    .map(|phase| notice(&State { phase, reason: "R", message: "m".to_owned() }))
    .map(|it| (it.warning, it.reason, it.note));
    let expected = [false, false, false, false, false, false, true].map(|it| (it, "R", "m".to_owned()));
    assert_eq!(warnings, expected);
}

/// What fails for one operator alone is told by that one, and degrades nothing else.
#[test]
fn writes_that_concern_all_operators_are_told_apart_by_their_keys() {
    let id = || ("shop".to_owned(), "a".to_owned());
    let of_all = [
        Key::Csv(id()),
        Key::Group(id()),
        Key::Namespace("shop".to_owned()),
        Key::Config("cluster".to_owned()),
        Key::Condition(id()),
        Key::ConditionStatus(id()),
    ];
    for key in of_all {
        assert!(is_of_all(&key.to_string()), "{key}");
    }
    let of_one = [
        Key::Deployment(id()),
        Key::Component(role_id()),
        Key::Secret(id()),
        Key::Conversion("widgets.example.com".to_owned()),
    ];
    for key in of_one {
        assert!(!is_of_all(&key.to_string()), "{key}");
    }
}

/// What the API server was asked: the method of each request.
type Asked = Arc<Mutex<Vec<String>>>;

/// An API server that answers with these codes and bodies, one after the other.
fn server(answers: Vec<(u16, Value)>) -> (Objects, Asked) {
    let (service, mut requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    let asked = Asked::default();
    let all = asked.clone();
    tokio::spawn(async move {
        for (code, body) in answers {
            let Some((request, respond)) = requests.next_request().await else { return };
            all.lock().unwrap().push(request.method().to_string());
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(::http::Response::builder().status(code).body(body).unwrap());
        }
    });
    (Objects::new(Client::new(service, "default"), "tests", Arc::new(|| true)), asked)
}

fn methods(asked: &Asked) -> Vec<String> {
    asked.lock().unwrap().clone()
}

fn missing() -> (u16, Value) {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "no",
        "reason": "NotFound", "code": 404});
    (404, status)
}

/// A name that an API may give to the roles of its users, and that the cluster has given to one of its own.
fn role_id() -> component::Id {
    let name = "system:aggregate-to-admin".to_owned();
    component::Id { kind: component::Kind::ClusterRole, namespace: String::new(), name }
}

fn role(labels: Value, verb: &str) -> Value {
    json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": role_id().name, "uid": "u", "resourceVersion": "7", "labels": labels},
        "rules": [{"verbs": [verb], "apiGroups": ["example.com"], "resources": ["widgets"]}]})
}

fn wanted() -> Value {
    let mut role = role(json!({label::MANAGED: "true"}), "get");
    let metadata = role["metadata"].as_object_mut().unwrap();
    metadata.retain(|key, _| ["name", "labels"].contains(&key.as_str()));
    role
}

async fn taken(answers: Vec<(u16, Value)>) -> (Result<Value, ApiError>, Vec<String>) {
    let (objects, asked) = server(answers);
    let kind = component_kind(component::Kind::ClusterRole);
    let answer = take_over(&objects, &kind, &role_id(), &wanted()).await;
    (answer, methods(&asked))
}

/// Whoever may name an API could otherwise exchange the rules of a role of the cluster.
#[tokio::test]
async fn role_of_somebody_else_is_never_written() {
    let labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults",
        "rbac.authorization.k8s.io/aggregate-to-admin": "true"});
    let (answer, asked) = taken(vec![(200, role(labels, "list")), (200, json!({}))]).await;
    let error = answer.unwrap_err().to_string();
    assert!(error.contains("exists already and was not made for an operator"), "{error}");
    assert_eq!(asked, ["GET"]);
}

#[tokio::test]
async fn role_that_was_made_before_becomes_what_it_has_to_be() {
    let former = json!({label::OWNER_KIND: "ClusterServiceVersion"});
    let (answer, asked) = taken(vec![(200, role(former, "list")), (200, json!({"answer": 1}))]).await;
    assert_eq!((answer.unwrap(), asked), (json!({"answer": 1}), ["GET", "PUT"].map(str::to_owned).into()));
    let same = role(json!({label::MANAGED: "true"}), "get");
    let (answer, asked) = taken(vec![(200, same.clone())]).await;
    assert_eq!((answer.unwrap(), asked), (same, vec!["GET".to_owned()]), "it is as it has to be");
    // It has been deleted meanwhile.
    let (answer, asked) = taken(vec![missing(), (201, json!({"answer": 2}))]).await;
    assert_eq!((answer.unwrap(), asked), (json!({"answer": 2}), ["GET", "POST"].map(str::to_owned).into()));
}

fn deployment(labels: Value, app: &str) -> Value {
    let pod = json!({"containers": [{"name": "c", "image": "i:1"}]});
    let template = json!({"metadata": {"labels": {"app": app}}, "spec": pod});
    json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "server", "namespace": "shop", "labels": labels},
        "spec": {"selector": {"matchLabels": {"app": app}}, "template": template}})
}

/// It runs, and does not have the label by which those of operators are seen.
#[tokio::test]
async fn deployment_that_is_there_is_adopted_unless_its_pods_are_others() {
    let id = ("shop".to_owned(), "server".to_owned());
    let desired = deployment(json!({label::MANAGED: "true"}), "server");
    let found = |app: &str| {
        let mut object = deployment(json!({}), app);
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!("7");
        object
    };
    let (objects, asked) = server(vec![(200, found("server")), (200, json!({"answer": 1}))]);
    let (written, answer) = adopt(&objects, &id, &desired).await.unwrap();
    assert_eq!(written["metadata"]["labels"], json!({label::MANAGED: "true"}));
    assert_eq!((&written["metadata"]["uid"], &written["metadata"]["resourceVersion"]), (&json!("u"), &json!("7")));
    assert_eq!((answer, methods(&asked)), (json!({"answer": 1}), ["GET", "PUT"].map(str::to_owned).into()));
    let (objects, asked) = server(vec![(200, found("other")), (200, json!({}))]);
    let error = adopt(&objects, &id, &desired).await.unwrap_err().to_string();
    assert!(error.contains("delete the Deployment"), "{error}");
    assert_eq!(methods(&asked), ["GET"]);
}
