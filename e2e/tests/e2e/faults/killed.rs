//! The daemon is killed again and again in the middle of an update.

use std::time::Duration;

use cvo::api::HistoryState;
use sha2::{Digest, Sha256};

use super::update::{assert_times_in_order, rows};
use e2e::theatre::Theatre;

const KILLS: usize = 10;

/// Up to this kill the update is kept before the hand-over, ...
const BEFORE_HAND_OVER: usize = 5;
/// ... and up to this one before its last gate.
const BEFORE_THE_END: usize = 8;

/// Life before each kill, up to a second and a half, from a seed.
fn lives(seed: &str) -> impl Iterator<Item = Duration> {
    (0..KILLS).map(move |number| {
        let hash = Sha256::digest(format!("{seed}/{number}"));
        let share = f64::from(u16::from_be_bytes([hash[0], hash[1]])) / 65536.0;
        Duration::from_millis(1500).mul_f64(share)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_survives_ten_kills() {
    let seed = std::env::var("CVO_SEED").unwrap_or_else(|_| uuid::Uuid::new_v4().to_string());
    println!("to repeat this run: CVO_SEED={seed}");
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    releases[1].obstruct();
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    theatre.crew.hold("delta");
    theatre.ask_for(&releases[1]).await;
    for (number, life) in lives(&seed).enumerate() {
        match number {
            BEFORE_HAND_OVER => theatre.clear_the_way().await,
            BEFORE_THE_END => theatre.crew.release("delta"),
            _ => {}
        }
        // The moment of a kill is the experiment, not a wait for something.
        tokio::time::sleep(life).await;
        let image = theatre.crash().await;
        let killed = releases.iter().find(|release| release.image == image).unwrap();
        println!("killed {} after {} ms", killed.version, life.as_millis());
        assert!(number >= BEFORE_HAND_OVER || killed.version == "1.0.0", "nothing was handed over yet");
    }
    let updated = theatre.completed(&releases[1]).await;

    let row = |version: &str, verified| (version.to_owned(), HistoryState::Completed, verified);
    assert_eq!(rows(&updated), [row("1.0.1", true), row("1.0.0", false)]);
    assert_times_in_order(&updated);
    let images: Vec<&str> = releases.iter().map(|release| release.image.as_str()).collect();
    assert_eq!(theatre.past_pods().await, images, "a killed process is started again in its pod");
    theatre.close().await;
}
