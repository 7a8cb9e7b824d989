//! The daemon is killed again and again in the middle of an update.

use std::time::Duration;

use cvo::api::HistoryState;
use sha2::{Digest, Sha256};

use super::update::{assert_times_in_order, rows};
use crate::theatre::Theatre;

const KILLS: u32 = 10;

/// Milliseconds of life before each kill, from a seed: `CVO_SEED` repeats a run.
fn lives(seed: &str) -> impl Iterator<Item = u64> {
    (0..KILLS).map(move |number| {
        let hash = Sha256::digest(format!("{seed}/{number}"));
        u64::from(u16::from_be_bytes([hash[0], hash[1]])) % 1500
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_survives_ten_kills() {
    let seed = std::env::var("CVO_SEED").unwrap_or_else(|_| uuid::Uuid::new_v4().to_string());
    println!("CVO_SEED={seed}");
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"], None).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    // The last gate stays shut until the last kill, so that all of them hit an update under way.
    theatre.crew.hold("delta");
    theatre.ask_for(&releases[1]).await;
    for life in lives(&seed) {
        // The moment of a kill is the experiment, not a wait for something.
        tokio::time::sleep(Duration::from_millis(life)).await;
        assert!(theatre.crash().await, "there was a daemon to kill");
    }
    theatre.crew.release("delta");
    let updated = theatre.completed(&releases[1]).await;

    let expected =
        [("1.0.1".to_owned(), HistoryState::Completed, true), ("1.0.0".to_owned(), HistoryState::Completed, false)];
    assert_eq!(rows(&updated), expected);
    assert_times_in_order(&updated);
    theatre.close().await;
}
