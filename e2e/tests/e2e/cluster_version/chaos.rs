//! A short run of `hack/chaos`: everything fails that it lets fail, only less often.

use e2e::random::SeededRandom;

/// Four installations and updates, a kill each second, and two restarts of everything else.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn updates_complete_whatever_is_killed_frozen_and_restarted() {
    e2e::chaos::updates(SeededRandom::seed(), 10).await.unwrap();
}
