//! The life of the processes of node configuration.

use e2e::harness::Cvo;
use e2e::processes;

/// They have no cluster, so that they would try to reach one for ever.
#[tokio::test(flavor = "multi_thread")]
async fn process_that_has_only_just_begun_ends_at_once_when_it_is_told_to() {
    let controller = ["machine-config", "--release-version=1.0.0", "--listen=", "--listen-health="];
    processes::assert_ends_when_it_has_only_just_begun(|_| Cvo::new(controller)).await;
    let agent = ["node-agent", "--node-name=n"];
    processes::assert_ends_when_it_has_only_just_begun(|folder| Cvo::new(agent).flag("--root", folder)).await;
}
