//! What is chosen for generated namespaces, by this project and by the controller of catalogs of operator-lifecycle-manager: each on
//! an API server of its own, with the same catalogs from the same kind of server.

mod worlds;

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE as GLOBAL_NAMESPACE;
use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use cvo::testing::api::olm::subscription::Subscription;
use e2e::harness::{Cluster, Cvo, Launch, Options};
use e2e::olm::{self, PROCESS};
use e2e::random::SeededRandom;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{apply, state};
use worlds::{CATALOGS, GLOBAL, World};

/// Names the folder with the peer's programs, and how many namespaces are generated.
const PROGRAMS: &str = "OLM_PEER";
const COUNT: &str = "OLM_PEER_WORLDS";
const USUAL_COUNT: usize = 50;
const PEER: &str = "peer";
/// For all namespaces together.
const LIMIT: Duration = Duration::from_secs(600);

/// What came of the Subscriptions of a namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Outcome {
    /// What the plan brings: each version with its catalog, and each Subscription that is made with its channel.
    Chosen(BTreeSet<String>),
    /// Nothing fits, or something is not offered.
    Nothing,
}

/// Outcomes by namespace, and what was said where there is none.
type Outcomes = BTreeMap<String, (Outcome, String)>;

/// The choice is the peer's in each namespace.
#[tokio::test(flavor = "multi_thread")]
async fn generated_namespaces_get_what_the_peer_chooses_for_them() {
    let Some(programs) = env::var_os(PROGRAMS).map(PathBuf::from) else {
        return println!("skipped: no peer (set {PROGRAMS} to the folder of its programs)");
    };
    let count = env::var(COUNT).map_or(USUAL_COUNT, |count| count.parse().unwrap());
    let seed = SeededRandom::seed();
    let worlds: Vec<World> = (0..count).map(|number| World::generate(seed, number)).collect();
    let (ours, peers) = tokio::join!(outcomes(&worlds, None), outcomes(&worlds, Some(&programs)));
    let mut differences = Vec::new();
    for world in &worlds {
        let ((ours, we_said), (peers, they_said)) = (&ours[&world.namespace], &peers[&world.namespace]);
        if ours != peers {
            let said = format!("ours: {ours:?} {we_said}\npeer: {peers:?} {they_said}");
            differences.push(format!("{}: {said}\n{}", world.namespace, world.told()));
        }
    }
    let chosen = ours.values().filter(|(outcome, _)| *outcome != Outcome::Nothing).count();
    let different = differences.len();
    println!("{count} namespaces, seed {seed}: {chosen} with a choice, {different} differ");
    assert!(chosen * 4 > count, "too few namespaces with a choice: {chosen}");
    assert!(differences.is_empty(), "{}", differences.join("\n\n"));
}

/// `peer`: the folder of its programs, where it is the peer that chooses.
async fn outcomes(worlds: &[World], peer: Option<&Path>) -> Outcomes {
    let cluster = Cluster::up(Options::default()).await.unwrap();
    olm::prepare(&cluster).await.unwrap();
    let addresses = serve(&cluster, worlds);
    let mut sources = vec![worlds::source(GLOBAL_NAMESPACE, GLOBAL, &addresses[2], 0)];
    sources.extend(worlds.iter().flat_map(|world| world.sources(&addresses)));
    apply(&cluster, &sources).await;
    let processes = match peer {
        Some(programs) => {
            let user = cluster.kubeconfig_as(PEER, PEER, &["system:masters"]).unwrap();
            let arguments = [format!("--kubeconfig={}", user.display()), format!("--namespace={GLOBAL_NAMESPACE}")];
            cluster.spawn(Launch::new(PEER, &programs.join("catalog"), arguments)).unwrap();
            [PEER]
        }
        None => {
            let ports = olm::catalog_ports(&cluster, 1).unwrap();
            let process = olm::process(&cluster, PROCESS, "127.0.0.1", &ports).unwrap();
            cluster.spawn(process.flag("--secure-port", "0").launch(PROCESS).unwrap()).unwrap();
            [PROCESS]
        }
    };
    let client = cluster.client().await.unwrap();
    let wait = cluster.until("all catalogs to be ready", &processes).within(LIMIT);
    wait.answer(async || unready(&client).await).await.unwrap();
    // Nothing is looked for before there is a group, and then for all Subscriptions of its namespace.
    apply(&cluster, &worlds.iter().flat_map(|world| world.subscriptions.clone()).collect::<Vec<_>>()).await;
    apply(&cluster, &worlds.iter().map(World::group).collect::<Vec<_>>()).await;
    let wait = cluster.until("an outcome in each namespace", &processes).within(LIMIT);
    let found = wait.answer(async || settled(&client, worlds).await).await.unwrap();
    cluster.down().await.unwrap();
    found
}

/// Serves the catalogs, and returns their addresses.
fn serve(cluster: &Cluster, worlds: &[World]) -> Vec<String> {
    let serve = |(number, name): (usize, &&str)| {
        let folder = cluster.dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("catalog.json"), worlds::catalog(worlds, number)).unwrap();
        let address = format!("127.0.0.1:{}", cluster.port(&format!("served {name}")));
        let server = Cvo::new(["catalog", "serve"]).args([&folder]).flag("--listen", &address);
        cluster.spawn(server.launch(&format!("catalog-{name}")).unwrap()).unwrap();
        address
    };
    CATALOGS.iter().enumerate().map(serve).collect()
}

async fn unready(client: &Client) -> Result<(), String> {
    let all = Api::<CatalogSource>::all(client.clone()).list(&Default::default()).await;
    let all = all.map_err(|error| error.to_string())?.items;
    let unready = all.iter().filter(|it| state(it) != Some(Connection::Ready)).count();
    if unready == 0 { Ok(()) } else { Err(format!("{unready} of {} catalogs are not ready", all.len())) }
}

/// The outcomes, once there is one in each namespace.
async fn settled(client: &Client, worlds: &[World]) -> Result<Outcomes, String> {
    let plans = Api::<InstallPlan>::all(client.clone()).list(&Default::default()).await;
    let plans = plans.map_err(|error| error.to_string())?.items;
    let subscriptions = Api::<Subscription>::all(client.clone()).list(&Default::default()).await;
    let subscriptions = subscriptions.map_err(|error| error.to_string())?.items;
    let mut outcomes = Outcomes::new();
    for world in worlds {
        let here = |namespace: &Option<String>| namespace.as_ref() == Some(&world.namespace);
        let planned = plans.iter().filter(|it| here(&it.metadata.namespace)).find_map(chosen);
        let refused = subscriptions.iter().filter(|it| here(&it.metadata.namespace)).find_map(refused);
        let outcome = planned.map(|it| (Outcome::Chosen(it), String::new()));
        outcomes.extend(outcome.or(refused.map(|it| (Outcome::Nothing, it))).map(|it| (world.namespace.clone(), it)));
    }
    let missing = worlds.len() - outcomes.len();
    if missing == 0 { Ok(outcomes) } else { Err(format!("{missing} namespaces have no outcome")) }
}

/// What a plan brings that waits for its approval.
fn chosen(plan: &InstallPlan) -> Option<BTreeSet<String>> {
    let status = plan.status.as_ref().filter(|it| it.phase == InstallPlanPhase::RequiresApproval)?;
    let told = |step: &Value| {
        let resource = &step["resource"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let from = format!("{}/{}", text(&resource["sourceNamespace"]), text(&resource["sourceName"]));
        match resource["kind"].as_str()? {
            "ClusterServiceVersion" => Some(format!("{} of {from}", text(&resource["name"]))),
            "Subscription" => {
                let object: Value = serde_json::from_str(resource["manifest"].as_str()?).ok()?;
                let spec = &object["spec"];
                let [name, channel] = ["name", "channel"].map(|key| text(&spec[key]));
                Some(format!("Subscription to {name}/{channel} of {}", text(&spec["source"])))
            }
            _ => None,
        }
    };
    Some(json!(status.plan).as_array()?.iter().filter_map(told).collect())
}

/// Why there is no answer.
fn refused(subscription: &Subscription) -> Option<String> {
    let (_, message) = super::subscriptions::condition(subscription, "ResolutionFailed")?;
    // That is so before there is a group.
    (!message.contains("operatorGroups")).then_some(message)
}
