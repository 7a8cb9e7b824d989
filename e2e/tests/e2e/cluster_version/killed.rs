//! The daemon is killed again and again in the middle of an update.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use cvo::testing::api::{ClusterVersion, HistoryState};
use futures::StreamExt;
use kube::{Api, runtime::watcher};

use super::update::assert_times_in_order;
use e2e::{
    conditions::Conditions,
    random::SeededRandom,
    simulator::{cluster::SimulatedCluster, history::history, sample},
    until::changes,
};

const KILLS: usize = 10;

/// The first kill after which the update may be handed over.
const HAND_OVER: usize = 5;
/// The first kill after which the update may be completed.
const COMPLETION: usize = 8;

/// The longest time from a start to the next kill.
const LONGEST_LIFE: Duration = Duration::from_millis(1500);

/// Every message of `Progressing` that people could have read.
async fn collect_messages(versions: Api<ClusterVersion>, messages: Arc<Mutex<BTreeSet<String>>>) {
    let mut objects = changes(versions, watcher::Config::default());
    while let Some(object) = objects.next().await {
        messages.lock().unwrap().extend(object.condition("Progressing").map(|condition| condition.message));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn update_survives_ten_kills() {
    let random = SeededRandom::new(SeededRandom::seed(), 0, 0);
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    sample::block(&releases[1]).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let messages = Arc::<Mutex<BTreeSet<String>>>::default();
    let collecting = tokio::spawn(collect_messages(cluster.versions(), messages.clone()));
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    for number in 0..KILLS {
        match number {
            HAND_OVER => sample::unblock(&cluster.client).await.unwrap(),
            COMPLETION => cluster.simulation.release("delta"),
            _ => {}
        }
        // The moment of a kill is random: this does not wait for anything.
        let life = random.duration(LONGEST_LIFE);
        tokio::time::sleep(life).await;
        let image = cluster.node.crash().await.unwrap();
        let killed = releases.iter().find(|release| release.image == image).unwrap();
        println!("killed {} after {} ms", killed.version, life.as_millis());
        assert!(number >= HAND_OVER || killed.version == "1.0.0", "there was no hand-over yet");
    }
    let updated = cluster.completed(&releases[1]).await.unwrap();

    collecting.abort();
    let messages = messages.lock().unwrap().clone();
    let unnamed: Vec<&String> = messages.iter().filter(|message| message.contains("unknown")).collect();
    assert_eq!(unnamed, Vec::<&String>::new(), "a new process knows what it continues");
    assert!(messages.iter().any(|message| message.contains("Working towards 1.0.1")), "{messages:?}");

    let row = |version: &str, verified| (version.to_owned(), HistoryState::Completed, verified);
    assert_eq!(history(&updated), [row("1.0.1", true), row("1.0.0", false)]);
    assert_times_in_order(&updated);
    let images: Vec<&str> = releases.iter().map(|release| release.image.as_str()).collect();
    assert_eq!(cluster.node.images().await, images, "a killed process is started again in its pod");
    cluster.close().await.unwrap();
}
