//! The same with a real release's manifests.

use cvo::api::{ClusterVersion, HistoryState, NAME};
use e2e::{
    fire::{
        faults::{Chance, Faults},
        order::Stages,
        proxy::Proxy,
    },
    harness::{Programs, audit},
    real_payload::{
        Release, lay_out_all, manifests,
        signer::Signer,
        simulated::{DAEMON_USER, SimulatedCluster},
    },
};
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use std::time::Duration;

/// Generous: other things may run on the machine. What it takes is printed.
const LIMIT: Duration = Duration::from_secs(600);

const VERSIONS: [(&str, &str); 5] =
    [("5.0.0", "1.36.0"), ("5.0.1", "1.36.1"), ("5.0.2", "1.36.2"), ("5.0.3", "1.36.3"), ("5.0.4", "1.36.4")];

/// 33 writes change the release; the server is killed while these are under way.
const AT_WRITE: [usize; 5] = [1, 8, 15, 22, 29];

/// What an update is put through.
enum Fire {
    None,
    Faults(Faults),
    Restarts,
}

struct Play {
    stage: SimulatedCluster,
    proxy: Proxy,
    done: Vec<Release>,
}

impl Play {
    /// Updates to the release, judges, and returns what it took.
    async fn update(&mut self, release: &Release, fire: Fire) -> Duration {
        self.proxy.set(if let Fire::Faults(faults) = fire { faults } else { Faults::default() });
        let versions: Api<ClusterVersion> = Api::all(self.stage.client.clone());
        let patch = Patch::Merge(json!({"spec": {"desiredUpdate": {"image": release.image}}}));
        let asked = Timestamp::now();
        versions.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
        if let Fire::Restarts = fire {
            for write in AT_WRITE {
                self.proxy.until("the next write", LIMIT, |tally| tally.writes >= write).await;
                self.stage.cluster.restart_apiserver().await.unwrap();
            }
        }
        let version = self.stage.completed(release, LIMIT).await.unwrap();
        let took = Timestamp::now().duration_since(asked).unsigned_abs();
        self.done.insert(0, release.clone());
        let history = &version.status.as_ref().unwrap().history;
        let entries: Vec<_> =
            history.iter().map(|e| (e.state, e.image.as_str(), e.completion_time.is_some())).collect();
        let expected: Vec<_> = self.done.iter().map(|r| (HistoryState::Completed, r.image.as_str(), true)).collect();
        assert_eq!(entries, expected);
        let log = audit::everything(&self.stage.cluster.audit_log()).unwrap();
        let found = Stages::of(&release.folder, &release.image).unwrap().judge(&log, DAEMON_USER, asked);
        assert_eq!(found.wrong, Vec::<String>::new());
        // 33 writes, of which a killed server may not have logged a few.
        assert!(
            found.writes >= 25 && found.gates >= 50 && found.stages.len() >= 8,
            "too little to say anything: {found:?}"
        );
        println!("{}: {:.1} s, {:?}", release.version, took.as_secs_f64(), self.proxy.tally());
        took
    }
}

/// Install, and four updates: undisturbed, requests refused, watches cut, API server restarted.
async fn real_release_under_fire(delay: Duration) {
    let Some(manifests) = manifests() else { return };
    let programs = Programs::find().unwrap();
    let seed = Chance::seed();
    let stage = SimulatedCluster::build(programs.clone()).await.unwrap();
    let signer = Signer::new(&stage.cluster.dir(), &programs.cvo).unwrap();
    let releases = lay_out_all(&manifests, &stage.store(), &signer, &VERSIONS).unwrap();
    let proxy = Proxy::start(&stage.cluster, &seed).await.unwrap();
    proxy.stand_before(&stage.cluster.dir().join("daemon.kubeconfig")).unwrap();
    stage.install(&releases[0]).await.unwrap();
    stage.start(&releases, delay).unwrap();
    stage.completed(&releases[0], LIMIT).await.unwrap();

    let mut play = Play { stage, proxy, done: vec![releases[0].clone()] };
    let quiet = play.update(&releases[1], Fire::None).await;
    let refused = Fire::Faults(Faults { refuse_one_in: 10, ..Faults::default() });
    let cut = Fire::Faults(Faults { watch_life: Some(Duration::from_secs(1)), ..Faults::default() });
    let fires = [
        ("10 % of requests refused", refused),
        ("watches cut every second", cut),
        ("API server restarted", Fire::Restarts),
    ];
    for (release, (what, fire)) in releases[2..].iter().zip(fires) {
        let took = play.update(release, fire).await;
        println!(
            "{what}: {:.1} s, undisturbed {:.1} s, {:.1} times as long",
            took.as_secs_f64(),
            quiet.as_secs_f64(),
            took.div_duration_f64(quiet)
        );
    }
    let Play { stage, .. } = play;
    stage.stop().await.unwrap();
    stage.cluster.down().await.unwrap();
}

/// Operators report at once: as many requests in as little time as there can be.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_release_is_updated_under_fire() {
    real_release_under_fire(Duration::ZERO).await;
}

/// Each operator takes five seconds, as real ones do or longer: this is where the time under fire is compared.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes several minutes"]
async fn a_real_release_with_slow_operators_is_updated_under_fire() {
    real_release_under_fire(Duration::from_secs(5)).await;
}
