use super::*;
use crate::cluster::Cause;
use futures::stream;
use serde_json::json;

const ROLE: &str = "node-role.kubernetes.io/control-plane";

fn demand() -> Demand {
    let pod = json!({"containers": [], "nodeSelector": {ROLE: ""}});
    Demand::of(&json!({"spec": {"template": {"spec": pod}}})).unwrap()
}

fn node(name: &str, labels: &serde_json::Value) -> Node {
    serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()
}

/// All verdicts that were told, in order, and whether the nodes are followed no longer.
async fn verdicts(events: Vec<Result<Event<Node>, ApiError>>) -> (Vec<Read<String>>, bool) {
    let (told, mut seen) = watch::channel(None);
    let (mut verdicts, mut events) = (Vec::new(), events.into_iter());
    let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
    let stream = stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) });
    let mut following = Box::pin(follow(demand(), stream, &told));
    loop {
        let next = events.next();
        let last = next.is_none();
        if let Some(event) = next {
            sender.send(event).unwrap();
        }
        let ended = futures::poll!(&mut following).is_ready();
        if seen.has_changed().unwrap() {
            verdicts.extend(seen.borrow_and_update().clone());
        }
        if ended || last {
            return (verdicts, ended);
        }
    }
}

#[tokio::test]
async fn nodes_are_followed_until_one_can_run_the_daemon() {
    let (worker, labelled) = (node("n1", &json!({})), node("n1", &json!({ROLE: ""})));
    let unmet = |nodes| Read::Value(demand().unmet(nodes));
    let begin = || vec![Ok(Event::Init), Ok(Event::InitApply(worker.clone())), Ok(Event::InitDone)];
    let (told, ended) = verdicts(begin()).await;
    assert_eq!((told, ended), (vec![unmet(1)], false));
    let and = |event| begin().into_iter().chain([Ok(event)]).collect();
    assert_eq!(verdicts(and(Event::Apply(labelled.clone()))).await, (vec![unmet(1), Read::Absent], true));
    assert_eq!(verdicts(and(Event::Apply(node("n2", &json!({}))))).await, (vec![unmet(1), unmet(2)], false));
    assert!(verdicts(and(Event::Delete(worker.clone()))).await.1, "without nodes nothing can be said");
    let good = vec![Ok(Event::Init), Ok(Event::InitApply(labelled)), Ok(Event::InitDone)];
    assert_eq!(verdicts(good).await, (vec![Read::Absent], true));
}

#[tokio::test]
async fn nodes_that_cannot_be_read_are_said_to_be_so_until_they_can() {
    let error = || ApiError { attempt: "watch nodes".to_owned(), cause: Cause::Timeout };
    let worker = || node("n1", &json!({}));
    let failed = Read::Failed(error().to_string());
    assert_eq!(verdicts(vec![Err(error()), Err(error())]).await, (vec![failed.clone()], false));
    let (told, _) =
        verdicts(vec![Err(error()), Ok(Event::Init), Ok(Event::InitApply(worker())), Ok(Event::InitDone)]).await;
    assert_eq!(told, [failed, Read::Value(demand().unmet(1))]);
    let gap = vec![Ok(Event::Init), Ok(Event::InitApply(worker())), Ok(Event::InitDone), Err(error()), Ok(Event::Init)];
    assert_eq!(verdicts(gap).await.0.len(), 1, "what was known stays so in a gap");
}
