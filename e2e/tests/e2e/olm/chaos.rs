//! A short run of what `hack/chaos` does to operators.

use e2e::random::SeededRandom;

/// Operators are installed, updated and deleted in four namespaces, while what looks after them is killed and frozen.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes"]
async fn operators_end_as_they_should_whatever_is_killed_frozen_and_restarted() {
    e2e::chaos::operators(SeededRandom::seed(), 6).await.unwrap();
}
