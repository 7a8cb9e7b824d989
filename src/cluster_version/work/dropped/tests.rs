use super::*;
use crate::cluster::apply::tests::server::Server;
use crate::cluster_version::work::apply::tests::process_with;
use serde_json::json;

#[tokio::test]
async fn object_is_looked_at_when_its_kind_is_served_again() {
    let server = Server::default();
    let metadata = json!({"name": "a", "namespace": "b"});
    server.put(
        "/apis/example.org/v1/namespaces/b/gadgets/a",
        json!({"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": metadata}),
    );
    let applier = process_with(&server, Vec::new()).await;
    let id = ObjectId::new("example.org", "Gadget", "b", "a");
    let (sender, mut news) = mpsc::channel(1);
    let follower = tokio::spawn(follow(applier.clone(), id.clone(), sender));
    assert_eq!(news.recv().await, Some((id.clone(), Found::Tolerated)), "nobody can tell");
    applier.kinds().add([Kind::known("example.org", "v1", "Gadget", "gadgets", true)]);
    let seen = tokio::time::timeout(Duration::from_secs(20), news.recv()).await;
    assert_eq!(seen, Ok(Some((id, Found::Exists))));
    follower.abort();
}
