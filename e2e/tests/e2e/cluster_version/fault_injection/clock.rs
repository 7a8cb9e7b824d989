//! The clock is an hour ahead for a while. What is written down in that hour lies in the future once the clock is set back, and
//! nobody may wait for that.

use super::super::update::assert_times_in_order;
use super::{VERSIONS, goes_on, hold_in_the_update, process, request_and_hold, whole_again};
use cvo::testing::api::HistoryState;
use e2e::faults::clock::{self, Ahead};
use e2e::simulator::{
    cluster::{LONG_LEASE, SimulatedCluster},
    history::history,
};
use jiff::Timestamp;
use std::time::{Duration, Instant};

const HOUR: Duration = Duration::from_secs(3600);
/// Set where nothing else runs that would mind.
const ALLOWED: &str = "CVO_SET_CLOCK";

/// What the clock has shown at one moment.
struct Reading(Timestamp, Instant);

impl Reading {
    fn now() -> Self {
        Self(Timestamp::now(), Instant::now())
    }

    /// By how many seconds the clock was set ahead since.
    fn ahead(&self) -> f64 {
        Timestamp::now().duration_since(self.0).as_secs_f64() - self.1.elapsed().as_secs_f64()
    }
}

/// The clock goes ahead in one update, which is completed; it is set back in the next one, which therefore has begun in an hour.
/// API server, etcd and controllers have the same clock as the daemon.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "sets the clock of this machine"]
async fn update_survives_a_clock_an_hour_ahead_that_is_set_back() {
    if std::env::var_os(ALLOWED).is_none() {
        return println!("skipped: it sets the clock of this machine; run it alone, with {ALLOWED}=1");
    }
    if !clock::may_be_set() {
        return println!("skipped: this process may not set the clock (CAP_SYS_TIME)");
    }
    let (mut cluster, releases) = SimulatedCluster::with_samples(&VERSIONS).await.unwrap();
    cluster.set_arguments(&LONG_LEASE).unwrap();
    hold_in_the_update(&mut cluster, &releases).await;
    let (daemon, reading) = (process(&cluster).await, Reading::now());
    let ahead = Ahead::by(HOUR).unwrap();
    goes_on(&cluster).await;
    assert_eq!(process(&cluster).await, daemon, "it was started again");
    whole_again(&cluster, &releases).await;

    request_and_hold(&cluster, &releases[2]).await;
    let daemon = process(&cluster).await;
    goes_on(&cluster).await;
    let seconds = reading.ahead();
    println!("{seconds:.1} s ahead");
    assert!((seconds - HOUR.as_secs_f64()).abs() < 5.0, "somebody else sets this clock too: {seconds:.1} s ahead");
    ahead.set_back().unwrap();
    println!("{:.3} s ahead after it was set back", reading.ahead());
    goes_on(&cluster).await;
    let updated = whole_again(&cluster, &releases[1..]).await;
    assert_eq!(process(&cluster).await, daemon, "it was started again");

    let row = |version: &str, signed: bool| (version.to_owned(), HistoryState::Completed, signed);
    assert_eq!(history(&updated), [row(VERSIONS[2], true), row(VERSIONS[1], true), row(VERSIONS[0], false)]);
    assert_times_in_order(&updated);
    let newest = &updated.status.as_ref().unwrap().history[0];
    assert!(newest.started_time.0 > Timestamp::now(), "it has begun in an hour: {newest:?}");
    cluster.close().await.unwrap();
}
