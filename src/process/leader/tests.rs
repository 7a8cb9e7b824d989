use super::*;
use crate::cluster::objects::tests::answering;
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn topology_is_asked_for_until_the_server_has_answered() {
    let failure = |code: u16| {
        (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": "", "message": ""}),
        )
    };
    let infrastructure = json!({"metadata": {"name": "cluster"}, "status": {"controlPlaneTopology": "SingleReplica"}});
    for (answers, expected) in [
        (vec![failure(503), failure(500), (200, infrastructure)], Some("SingleReplica")),
        (vec![failure(503), failure(404)], None),
        // Nobody ever will.
        (vec![failure(403)], None),
    ] {
        let found = topology(&Objects::reader(answering(answers)), &CancellationToken::new()).await;
        assert_eq!(found, Some(expected.map(ToOwned::to_owned)));
    }
    let stop = CancellationToken::new();
    stop.cancel();
    assert_eq!(topology(&Objects::reader(answering(vec![failure(503)])), &stop).await, None);
}
