//! A cluster with updates of every kind: recommended, not recommended, and such whose risks are not known.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use cvo::testing::api::ClusterVersion;
use serde_json::{Value, json};

use e2e::administrator::VERSION;
use e2e::conditions::Conditions;
use e2e::services::{monitoring::Monitoring, update_service::UpdateService};
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::releases::Release;
use e2e::simulator::sample::config_kind;

use super::checklist::Recording;

/// Channels of all releases, as they are published: in order.
pub(super) const CHANNELS: [&str; 2] = ["fast-1.0", "stable-1.0"];
/// What can be updated to: 1.0.1 and 1.1.0 without risks, 1.0.2 with one that applies, 1.0.3 with one that nothing is
/// known of, 1.0.4 with one that does not apply.
pub(super) const VERSIONS: [&str; 6] = ["1.0.0", "1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0"];
const PLAIN: [&str; 2] = ["1.0.1", "1.1.0"];
/// By version: name of the risk and its rule.
const RISKS: [(&str, &str, Option<&str>); 3] =
    [("1.0.2", "Broken", None), ("1.0.3", "Puzzling", Some("vector(7)")), ("1.0.4", "Elsewhere", Some("vector(0)"))];

pub(super) struct Scenario {
    pub cluster: SimulatedCluster,
    pub releases: Vec<Release>,
    pub service: UpdateService,
    pub recording: Recording,
    _monitoring: Monitoring,
}

pub(super) fn url(version: &str) -> String {
    format!("https://errata.invalid/{version}")
}

impl Scenario {
    /// 1.0.0 is installed; no update service can be reached yet.
    pub(super) async fn installed() -> anyhow::Result<Self> {
        let (mut cluster, releases) = SimulatedCluster::with_samples(&VERSIONS).await?;
        for release in &releases {
            let definition = config_kind("FeatureGate", "featuregates").to_string();
            release.put("0000_10_alpha_03_featuregates.json", &definition)?;
        }
        let monitoring = Monitoring::start(&cluster.control_plane).await?;
        cluster.add_arguments(monitoring.arguments())?;
        let service = UpdateService::start(Ipv4Addr::LOCALHOST.into(), None, None, PathBuf::new()).await?;
        service.answer(graph(&releases));
        let recording = Recording::start(cluster.client.clone());
        cluster.run_daemon(&releases[0]).await?;
        cluster.completed(&releases[0]).await?;
        Ok(Self { cluster, releases, service, recording, _monitoring: monitoring })
    }

    pub(super) fn release(&self, version: &str) -> &Release {
        self.releases.iter().find(|release| release.version == version).unwrap()
    }

    /// Names the update service; the channel stays as it is.
    pub(super) async fn name_update_service(&self) {
        let upstream = format!("http://{}/graph", self.service.address);
        self.cluster.patch(json!({"spec": {"upstream": upstream}})).await.unwrap();
    }

    /// Waits until all updates of the running release are judged.
    pub(super) async fn until_judged(&self) -> ClusterVersion {
        let judged = |object: &ClusterVersion| {
            let Some(status) = &object.status else { return false };
            let running = &status.desired.version;
            let settled = RISKS.iter().filter(|(to, ..)| is_later(to, running)).all(|(to, ..)| {
                let update = status.conditional_updates.iter().find(|update| update.release.version == *to);
                let condition = update.and_then(|update| update.condition("Recommended"));
                let expected = match *to {
                    "1.0.2" => ("False", "Broken"),
                    "1.0.3" => ("Unknown", "EvaluationFailed"),
                    _ => ("True", "NotExposedToRisks"),
                };
                condition.is_some_and(|c| (c.status.as_str(), c.reason.as_str()) == expected)
            });
            settled && object.has("RetrievedUpdates=True")
        };
        self.cluster.until("the updates to be judged", judged).await.unwrap()
    }

    /// The ClusterVersion as it is stored.
    pub(super) async fn version(&self) -> Value {
        let request = http::Request::get(VERSION).body(Vec::new()).unwrap();
        self.cluster.client.request(request).await.unwrap()
    }

    /// Lets risks be accepted in all releases.
    pub(super) async fn let_risks_be_accepted(&self) {
        let gates: Vec<Value> = VERSIONS
            .iter()
            .map(|version| json!({"version": version, "enabled": [{"name": "ClusterUpdateAcceptRisks"}]}))
            .collect();
        let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "FeatureGate",
            "metadata": {"name": "cluster"}, "spec": {}, "status": {"featureGates": gates}});
        let request = http::Request::post("/apis/config.openshift.io/v1/featuregates").body(object.to_string().into());
        self.cluster.client.request::<Value>(request.unwrap()).await.unwrap();
    }

    /// A release that nobody has signed.
    pub(super) fn unsigned(&self, version: &str) -> Release {
        self.cluster.lay_out_sample(version).unwrap()
    }
}

fn is_later(one: &str, other: &str) -> bool {
    // All have one digit in each place.
    one > other
}

/// Every release can be updated to every later one, in the way that its version has.
pub(super) fn graph(releases: &[Release]) -> Value {
    let nodes: Vec<Value> = releases
        .iter()
        .map(|release| {
            json!({"version": release.version, "payload": release.image, "metadata": {
                "url": url(&release.version),
                "io.openshift.upgrades.graph.release.channels": "stable-1.0,fast-1.0",
            }})
        })
        .collect();
    let pairs = || {
        let from = releases.iter().enumerate();
        from.flat_map(|from| releases.iter().enumerate().skip(from.0 + 1).map(move |to| (from, to)))
    };
    let edges: Vec<Value> = pairs()
        .filter(|(_, (_, to))| PLAIN.contains(&to.version.as_str()))
        .map(|((from, _), (to, _))| json!([from, to]))
        .collect();
    let conditional: Vec<Value> = RISKS
        .iter()
        .map(|(version, name, query)| {
            let rule = match query {
                None => json!({"type": "Always"}),
                Some(query) => json!({"type": "PromQL", "promql": {"promql": query}}),
            };
            let from = releases.iter().filter(|release| is_later(version, &release.version));
            let edges: Vec<Value> = from.map(|r| json!({"from": r.version, "to": version})).collect();
            json!({"edges": edges, "risks": [{"name": name, "message": format!("{name} is what it is."),
                "url": format!("https://risks.invalid/{name}"), "matchingRules": [rule]}]})
        })
        .collect();
    json!({"nodes": nodes, "edges": edges, "conditionalEdges": conditional})
}
