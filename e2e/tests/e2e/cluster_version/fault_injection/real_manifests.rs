//! The same with the manifests of a real release.

use cvo::testing::api::HistoryState;
use e2e::{
    faults::{order::Stages, proxy::Proxy, source::Faults},
    random::SeededRandom,
    real_payload::{lay_out_all, manifests},
    simulator::{
        cluster::{InitialEvents, SimulatedCluster},
        releases::Release,
        requests::DAEMON,
        simulation::Workloads,
    },
};
use jiff::Timestamp;
use std::time::Duration;

/// Generous, because other programs may run on the machine. The time it takes is printed.
const LIMIT: Duration = Duration::from_secs(600);

const VERSIONS: [(&str, &str); 5] =
    [("5.0.0", "1.36.0"), ("5.0.1", "1.36.1"), ("5.0.2", "1.36.2"), ("5.0.3", "1.36.3"), ("5.0.4", "1.36.4")];

/// 33 writes change the release; the server is killed while these are in flight.
const AT_WRITE: [usize; 5] = [1, 8, 15, 22, 29];

/// What happens during an update.
enum Disturbance {
    None,
    Faults(Faults),
    Restarts,
}

struct Updates {
    cluster: SimulatedCluster,
    proxy: Proxy,
    /// Newest first.
    completed: Vec<Release>,
}

impl Updates {
    /// Updates to the release, checks what happened, and returns how long it took.
    async fn update(&mut self, release: &Release, disturbance: Disturbance) -> Duration {
        self.proxy.set(if let Disturbance::Faults(faults) = disturbance { faults } else { Faults::default() });
        let asked = Timestamp::now();
        self.cluster.request(release).await.unwrap();
        if let Disturbance::Restarts = disturbance {
            for write in AT_WRITE {
                self.proxy.until("the next write", LIMIT, |tally| tally.writes >= write).await;
                self.cluster.control_plane.restart_apiserver().await.unwrap();
            }
        }
        let version = self.cluster.completed(release).await.unwrap();
        let took = Timestamp::now().duration_since(asked).unsigned_abs();
        self.completed.insert(0, release.clone());
        let history = &version.status.as_ref().unwrap().history;
        let entries: Vec<_> =
            history.iter().map(|e| (e.state, e.image.as_str(), e.completion_time.is_some())).collect();
        let expected: Vec<_> =
            self.completed.iter().map(|r| (HistoryState::Completed, r.image.as_str(), true)).collect();
        assert_eq!(entries, expected);
        let log = self.cluster.all_requests().unwrap();
        let found = Stages::of(&release.load().unwrap()).check(&log, DAEMON, asked);
        assert_eq!(found.violations, Vec::<String>::new());
        // 33 writes, of which a killed server may not have logged a few.
        assert!(
            found.writes >= 25 && found.gates >= 50 && found.stages.len() >= 8,
            "too few writes to say anything: {found:?}"
        );
        let tally = self.proxy.tally();
        println!("{}: {:.1} s, {tally:?}", release.version, took.as_secs_f64());
        if let Disturbance::Faults(faults) = disturbance {
            let happened = (faults.refuse_one_in == 0 || !tally.refused.is_empty())
                && (faults.watch_life.is_none() || tally.watches_cut >= 10);
            assert!(happened, "no fault was injected: {tally:?}");
        }
        took
    }
}

/// Install, and four updates: undisturbed, requests refused, watches cut, API server restarted.
async fn update_with_faults(initial_events: InitialEvents, delay: Duration) {
    let Some(manifests) = manifests() else { return };
    let seed = SeededRandom::seed();
    let mut cluster = SimulatedCluster::start_on(initial_events, Workloads::Simulated).await.unwrap();
    let releases = lay_out_all(&manifests, &cluster, &VERSIONS).await.unwrap();
    let proxy = cluster.proxy(seed).await.unwrap();
    cluster.install(&releases[0]).await.unwrap();
    cluster.simulate(&releases, delay).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();

    let mut updates = Updates { cluster, proxy, completed: vec![releases[0].clone()] };
    let quiet = updates.update(&releases[1], Disturbance::None).await;
    let refused = Disturbance::Faults(Faults { refuse_one_in: 10, ..Faults::default() });
    let cut = Disturbance::Faults(Faults { watch_life: Some(Duration::from_secs(1)), ..Faults::default() });
    let disturbances = [
        ("10 % of requests refused", refused),
        ("watches cut every second", cut),
        ("API server restarted", Disturbance::Restarts),
    ];
    for (release, (what, disturbance)) in releases[2..].iter().zip(disturbances) {
        let took = updates.update(release, disturbance).await;
        println!(
            "{what}: {:.1} s, undisturbed {:.1} s, {:.1} times as long",
            took.as_secs_f64(),
            quiet.as_secs_f64(),
            took.div_duration_f64(quiet)
        );
    }
    updates.cluster.stop_daemon().await.unwrap();
    updates.cluster.close().await.unwrap();
}

/// Operators report at once: as many requests in as short a time as possible.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn real_release_is_updated_despite_faults() {
    update_with_faults(InitialEvents::Sent, Duration::ZERO).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the same on other API servers"]
async fn real_release_is_updated_despite_faults_without_initial_events() {
    update_with_faults(InitialEvents::Disabled, Duration::ZERO).await;
    update_with_faults(InitialEvents::RefusedFor("configmaps"), Duration::ZERO).await;
}

/// Each operator takes five seconds, as real ones do or longer: here the time with faults can be compared.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes several minutes"]
async fn real_release_with_slow_operators_is_updated_despite_faults() {
    update_with_faults(InitialEvents::Sent, Duration::from_secs(5)).await;
}
