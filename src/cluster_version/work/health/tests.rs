use super::*;

/// There is no endpoint of any of these Services.
#[tokio::test]
async fn webhook_outside_of_the_cluster_counts_as_one_that_answers() {
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            let path = request.uri().path().to_owned();
            let service = |type_: &str| json!({"metadata": {"name": "s"}, "spec": {"type": type_}});
            let (code, body) = match path.rsplit('/').next().unwrap_or_default() {
                "endpointslices" => (200, json!({"metadata": {}, "items": []})),
                "outside" => (200, service("ExternalName")),
                "inside" => (200, service("ClusterIP")),
                _ => (
                    404,
                    json!({"kind": "Status", "apiVersion": "v1", "code": 404, "reason": "NotFound", "message": ""}),
                ),
            };
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
        }
    });
    let webhook = |name: &str| json!({"clientConfig": {"service": {"namespace": "n", "name": name}}});
    let webhooks = [json!({"webhooks": [webhook("outside"), webhook("inside"), webhook("missing")]})];
    let found = answering(&Client::new(service, "default"), &webhooks).await.unwrap();
    assert_eq!(found, BTreeSet::from([("n".to_owned(), "outside".to_owned())]));
}
