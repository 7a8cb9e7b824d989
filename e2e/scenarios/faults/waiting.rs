//! What an update waits for is looked after like everything else, and how long it was waited for is known to a process that
//! comes later.

use std::{sync::Mutex, time::Duration};

use cvo::api::{ClusterOperator, progress::Progress};
use jiff::Timestamp;
use kube::{Api, api::DeleteParams};

use crate::theatre::Theatre;

/// Far below every period of the daemon, and long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(30);
const CLOCK: &str = "clusteroperator/delta";

/// Since when the operator is waited for, if it is.
fn waits(progress: &Progress) -> Option<Timestamp> {
    let mut waiting = progress.nodes.iter().flat_map(|node| &node.waiting);
    let waits = waiting.any(|waiting| waiting.kind == "ClusterOperator" && waiting.name == "delta");
    progress.clocks.get(CLOCK).copied().filter(|_| waits && progress.release.version == "1.0.1")
}

/// Waits until it is waited for by a pass that began later than that, and returns since when.
async fn waited_for(theatre: &Theatre, later_than: Option<Timestamp>) -> Timestamp {
    let since = Mutex::new(None);
    let found = |progress: &Progress| {
        *since.lock().unwrap() = waits(progress).filter(|_| progress.pass.started > later_than);
        since.lock().unwrap().is_some()
    };
    theatre.until_progress("the operator to be waited for", found).await;
    let since = since.into_inner().unwrap();
    since.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_waited_for_is_restored_and_its_clock_goes_on() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    theatre.crew.hold("delta");
    theatre.ask_for(&releases[1]).await;
    let since = waited_for(&theatre, None).await;

    let operators: Api<ClusterOperator> = Api::all(theatre.client.clone());
    let waited = operators.get("delta").await.unwrap();
    operators.delete("delta", &DeleteParams::default()).await.unwrap();
    let anew =
        |object: Option<&ClusterOperator>| object.is_some_and(|object| object.metadata.uid != waited.metadata.uid);
    let took = theatre.until_object("the operator to be there again", operators, "delta", SOON, anew).await;
    println!("restored behind its gate within {} ms", took.as_millis());

    let crashed = Timestamp::now();
    theatre.crash().await;
    assert_eq!(waited_for(&theatre, Some(crashed)).await, since, "a restart hides no slow operator");
    theatre.crew.release("delta");
    theatre.completed(&releases[1]).await;
    theatre.close().await;
}
