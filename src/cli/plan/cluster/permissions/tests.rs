use super::*;
use crate::object::manifest::ObjectId;
use kube::client::Body;
use serde_json::json;

/// An API server that allows what the function says of the attributes.
fn allowing(allowed: impl Fn(&Value) -> bool + Send + 'static) -> Client {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            let body: Value = serde_json::from_slice(&request.into_body().collect_bytes().await.unwrap()).unwrap();
            assert_eq!(body["spec"]["user"], "system:serviceaccount:own:daemon");
            let groups = ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:own"];
            assert_eq!(body["spec"]["groups"], json!(groups), "as the API server sees a service account");
            let allowed = allowed(&body["spec"]["resourceAttributes"]);
            let answer = json!({"spec": {}, "status": {"allowed": allowed}}).to_string();
            respond.send_response(http::Response::builder().status(201).body(Body::from(answer.into_bytes())).unwrap());
        }
    });
    Client::new(service, "default")
}

fn step(kind: &str, namespace: &str, name: &str, action: Action) -> Step {
    let object = ObjectId::new("", kind, namespace, name);
    Step { object, api_version: "v1".into(), file: "f.yaml".into(), index: 0, action, gate: None }
}

#[test]
fn rights_are_needed_for_the_objects_that_are_written() {
    let steps = [
        step("ConfigMap", "a", "x", Action::Change { fields: Vec::new() }),
        step("ConfigMap", "b", "y", Action::Create),
        step("ConfigMap", "b", "z", Action::Leave { why: "as desired" }),
        step("Namespace", "", "n", Action::Delete),
    ];
    let needed = needed(steps.iter());
    let of = |kind: &str, verb: &'static str| needed.get(&("v1".to_owned(), kind.to_owned(), verb)).cloned();
    let object = |namespace: &str, name: &str| Some(Objects::from([(namespace.to_owned(), name.to_owned())]));
    assert_eq!(of("ConfigMap", "list"), Some(Objects::new()), "all of the kind");
    assert_eq!(of("ConfigMap", "update"), object("a", "x"));
    assert_eq!(of("ConfigMap", "create"), object("b", ""));
    assert_eq!(of("Namespace", "delete"), object("", "n"));
    assert_eq!(needed.len(), 7, "list and watch of both, and three verbs");
}

#[tokio::test]
async fn right_for_each_object_is_as_good_as_one_for_all_of_them() {
    let by_name = |attributes: &Value| {
        let place = (attributes["namespace"].as_str(), attributes["name"].as_str());
        attributes["verb"] == "update" && matches!(place, (Some("a"), Some("x" | "y")))
            || attributes["verb"] == "create" && place == (Some("a"), None)
            || attributes["verb"] == "delete" && place == (None, Some("n"))
    };
    let client = allowing(by_name);
    let asker = Asker { client: &client, user: "system:serviceaccount:own:daemon", acts: false };
    let kind = Kind::config_map();
    let table = [
        ("update", &[("a", "x"), ("a", "y")][..], None),
        ("update", &[("a", "x"), ("a", "z"), ("b", "x")], Some("a/z, b/x")),
        ("create", &[("a", "")], None),
        ("create", &[("a", ""), ("b", "")], Some("in namespace b")),
        ("create", &[("", "")], Some("in the whole cluster")),
        ("delete", &[("", "n")], None),
        ("delete", &[("", "m")], Some("m")),
        ("list", &[], Some("in the whole cluster")),
    ];
    for (verb, objects, expected) in table {
        let objects: Objects =
            objects.iter().map(|(namespace, name)| ((*namespace).to_owned(), (*name).to_owned())).collect();
        let refused = asker.refused(verb, &kind, &objects).await.unwrap();
        assert_eq!(refused.as_deref(), expected, "{verb} {objects:?}");
    }
    let client = allowing(|attributes| attributes.get("namespace").is_none() && attributes.get("name").is_none());
    let asker = Asker { client: &client, user: "system:serviceaccount:own:daemon", acts: false };
    let object = Objects::from([("a".to_owned(), "x".to_owned())]);
    assert_eq!(asker.refused("update", &kind, &object).await.unwrap(), None, "of the whole kind");
}
