//! Updates under fire: whatever happens between daemon and API server, an update completes, its history is right, and
//! no gate is passed early, which the API server's audit log proves. What it costs is printed beside an undisturbed
//! update of the same cluster; the bench is where it is judged.

mod real_release;

use cvo::api::{HistoryState, progress::NodeState};
use jiff::Timestamp;
use std::time::Duration;

use super::faults::update::{assert_times_in_order, rows};
use e2e::{
    fire::{
        faults::{Chance, Faults, Tally},
        order::Stages,
        proxy::Proxy,
    },
    harness::audit,
    theatre::{PATIENCE, Theatre, release::Release},
};

/// Installed, then updated undisturbed, then under fire.
const VERSIONS: [&str; 3] = ["1.0.0", "1.0.1", "1.0.2"];

/// A theatre whose daemon speaks through the proxy, at the second version; and what the undisturbed update took.
async fn at_the_second(seed: &str) -> (Theatre, Proxy, Vec<Release>, Duration) {
    let (mut theatre, releases) = Theatre::open(&VERSIONS).await;
    let proxy = theatre.proxy(seed).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    let asked = Timestamp::now();
    theatre.ask_for(&releases[1]).await;
    theatre.completed(&releases[1]).await;
    let quiet = Timestamp::now().duration_since(asked).unsigned_abs();
    assert_in_order(&theatre, &releases[1], asked, 0);
    (theatre, proxy, releases, quiet)
}

/// Waits for the update that was asked for then, and judges it.
/// `unheard`: writes that may have been made by a server that was killed before it could log them.
async fn ends_well(
    what: &str,
    theatre: &Theatre,
    releases: &[Release],
    asked: Timestamp,
    quiet: Duration,
    unheard: usize,
) {
    let last = releases.last().unwrap();
    let updated = theatre.completed(last).await;
    let took = Timestamp::now().duration_since(asked).unsigned_abs();
    println!(
        "{what}: {:.1} s, undisturbed {:.1} s, {:.1} times as long",
        took.as_secs_f64(),
        quiet.as_secs_f64(),
        took.div_duration_f64(quiet)
    );
    let row = |version: &str| (version.to_owned(), HistoryState::Completed, version != VERSIONS[0]);
    assert_eq!(rows(&updated), VERSIONS.iter().rev().map(|version| row(version)).collect::<Vec<_>>());
    assert_times_in_order(&updated);
    let mut images = theatre.past_pods().await;
    images.dedup();
    assert_eq!(images, releases.iter().map(|release| release.image.as_str()).collect::<Vec<_>>());
    assert_in_order(theatre, last, asked, unheard);
    // A refused request may make it late, not wrong.
    theatre
        .until_progress("the record to say that all is done", |progress| {
            progress.release.image == last.image && progress.nodes.iter().all(|node| node.state == NodeState::Done)
        })
        .await;
}

fn assert_in_order(theatre: &Theatre, release: &Release, asked: Timestamp, unheard: usize) {
    let stages = Stages::of(&release.root, &release.image).unwrap();
    let found = stages.judge(&theatre.everything(), audit::DAEMON, asked);
    assert_eq!(found.wrong, Vec::<String>::new());
    // Own Deployment; settings, Widget and Deployment of alpha; settings and Deployment of the others.
    assert!(found.writes + unheard >= 10 && found.stages.len() >= 3, "too few writes to say anything: {found:?}");
    assert!(found.gates >= 8, "each component has a Deployment and a ClusterOperator to wait for: {found:?}");
}

async fn under(what: &str, faults: Faults, happened: impl Fn(&Tally) -> bool) {
    let (theatre, proxy, releases, quiet) = at_the_second(&Chance::seed()).await;
    proxy.set(faults);
    let asked = Timestamp::now();
    theatre.ask_for(&releases[2]).await;
    ends_well(what, &theatre, &releases, asked, quiet, 0).await;
    let tally = proxy.tally();
    println!("{tally:?}");
    assert!(happened(&tally), "there was no fire: {tally:?}");
    theatre.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_survives_refused_requests() {
    // Ten writes at least: of one in four refused the second is with 500, which nothing below the node tries again.
    let faults = Faults { refuse_one_in: 4, ..Faults::default() };
    let all = |tally: &Tally| {
        tally.refused_writes >= 2 && [409, 429, 500].iter().all(|code| tally.refused.contains_key(code))
    };
    under("one request in 4 refused", faults, all).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_survives_watches_cut_every_second() {
    let faults = Faults { watch_life: Some(Duration::from_secs(1)), ..Faults::default() };
    under("watches cut every second", faults, |tally| tally.watches_cut >= 10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_survives_lost_answers_and_a_slow_network() {
    let faults = Faults { lose_one_in: 25, delay: Duration::from_millis(200), ..Faults::default() };
    under("one answer in 25 lost, up to 200 ms late", faults, |tally| tally.lost >= 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_survives_five_restarts_of_the_api_server() {
    /// The server is killed while this write of the update is under way: the own Deployment's, and four on the way to
    /// the last of ten.
    const AT_WRITE: [usize; 5] = [1, 3, 5, 7, 9];

    let (theatre, proxy, releases, quiet) = at_the_second(&Chance::seed()).await;
    proxy.set(Faults::default());
    let asked = Timestamp::now();
    theatre.ask_for(&releases[2]).await;
    for write in AT_WRITE {
        proxy.until("the next write", PATIENCE, |tally| tally.writes >= write).await;
        theatre.restart_apiserver().await;
        println!("restarted at {:?}", proxy.tally());
    }
    ends_well("API server restarted five times", &theatre, &releases, asked, quiet, AT_WRITE.len()).await;
    theatre.close().await;
}
