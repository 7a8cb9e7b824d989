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

/// By the names of the Subscriptions that are not part of an outcome, what they say.
type Said = BTreeMap<String, String>;
/// By namespace.
type Outcomes = BTreeMap<String, (Outcome, Said)>;

/// Why the outcomes may differ: a rule of ours that the peer does not have. Whatever the rule, each Subscription that does not say why
/// it has nothing has a version.
fn rule(world: &World, (ours, said): &(Outcome, Said), peers: &Outcome) -> Option<&'static str> {
    let Outcome::Chosen(ours) = ours else { return None };
    let versions = world.versions(ours);
    if !versions.iter().all(|(name, version)| *version > 0 || said.contains_key(*name)) {
        return None;
    }
    match peers {
        Outcome::Nothing if !said.is_empty() => Some(
            "what has nothing to do with each other is solved apart, so that one Subscription does not hold all others",
        ),
        Outcome::Chosen(peers) if said.is_empty() && versions > world.versions(peers) => Some(
            "after a way back the first choices of other Subscriptions count again, which the peer leaves to its solver",
        ),
        _ => None,
    }
}

/// The choice is the peer's in each namespace, or a rule says why not.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn generated_namespaces_get_what_the_peer_chooses_for_them() {
    let Some(programs) = env::var_os(PROGRAMS).map(PathBuf::from) else {
        return println!("skipped: no peer (set {PROGRAMS} to the folder of its programs)");
    };
    let count = env::var(COUNT).map_or(USUAL_COUNT, |count| count.parse().unwrap());
    let seed = SeededRandom::seed();
    let worlds: Vec<World> = (0..count).map(|number| World::generate(seed, number)).collect();
    let (ours, peers) = tokio::join!(outcomes(&worlds, None), outcomes(&worlds, Some(&programs)));
    let (mut equal, mut by_rule, mut unknown) = (0, BTreeMap::<&str, usize>::new(), Vec::new());
    for world in &worlds {
        let (our, (peer, they_said)) = (&ours[&world.namespace], &peers[&world.namespace]);
        if our.0 == *peer {
            equal += 1;
            continue;
        }
        println!("{}: ours: {our:?}\n  peer: {peer:?} {they_said:?}", world.namespace);
        match rule(world, our, peer) {
            Some(rule) => *by_rule.entry(rule).or_default() += 1,
            None => unknown.push(format!("{}:\n{}", world.namespace, world.told())),
        }
    }
    let chosen = ours.values().filter(|(outcome, _)| *outcome != Outcome::Nothing).count();
    println!("{count} namespaces, seed {seed}: {chosen} with a choice, {equal} equal, by rule: {by_rule:#?}");
    assert!(chosen * 4 > count, "too few namespaces with a choice: {chosen}");
    assert!(unknown.is_empty(), "differ without a rule: {}", unknown.join("\n\n"));
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
            cluster.spawn(Launch::new(PEER, programs.join("catalog"), arguments)).unwrap();
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
        let own = || subscriptions.iter().filter(|it| here(&it.metadata.namespace));
        let has_plan = |it: &Subscription| it.status.as_ref().is_some_and(|status| status.install_plan_ref.is_some());
        if !own().all(|it| has_plan(it) || refused(it).is_some()) {
            continue;
        }
        let said = own().filter_map(|it| Some((it.metadata.name.clone()?, refused(it)?))).collect();
        let planned = plans.iter().filter(|it| here(&it.metadata.namespace)).find_map(chosen);
        let outcome = match planned {
            Some(planned) => Outcome::Chosen(planned),
            // A plan that is not there yet.
            None if own().any(has_plan) => continue,
            None => Outcome::Nothing,
        };
        outcomes.insert(world.namespace.clone(), (outcome, said));
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
