//! A process that is killed whatever it is doing.

use std::collections::BTreeSet;
use std::time::Duration;

use e2e::conditions::Conditions;
use e2e::random::SeededRandom;
use serde_json::json;

use super::{LIMIT, PROCESS, World, catalog, push};

/// How often the process is killed.
const KILLS: usize = 20;
/// How long it may work before.
const LIFE: Duration = Duration::from_millis(900);
/// Packages of the catalog: reading it takes a good part of that time.
const PACKAGES: usize = 1500;

/// Killed while it pulls, reads and writes, it never serves anything but a whole content, leaves nothing behind, and comes to the
/// last content.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn process_that_is_killed_twenty_times_serves_whole_contents_and_leaves_nothing_behind() {
    let seed = SeededRandom::seed();
    let random = SeededRandom::new(seed, 0, 0);
    let world = World::up().await;
    let content = |version: &str| {
        (0..PACKAGES).map(|number| catalog(&format!("p{number}"), version)).collect::<Vec<_>>().join("\n")
    };
    let put = async |version: &str| {
        let text = content(version);
        push(&world.cluster.registry(), "catalogs/many:v1", &[("configs/c.json", text.as_bytes())], &[]).await
    };
    let mut digests = BTreeSet::from([put("1.0.0").await]);
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/many:v1"),
        "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    world.create("shop", "many", spec).await;
    let mut last = String::new();
    for kill in 1..=KILLS {
        world.start();
        tokio::time::sleep(random.duration(LIFE)).await;
        world.cluster.kill(PROCESS).unwrap();
        let source = world.sources("shop").get("many").await.unwrap();
        // What is named is a content that was pushed.
        if let Some(loaded) = source.condition("ContentLoaded=True") {
            assert!(digests.iter().any(|digest| loaded.message.ends_with(digest)), "{}", loaded.message);
        }
        if kill % 3 == 0 {
            last = put(&format!("1.{kill}.0")).await;
            digests.insert(last.clone());
        }
    }
    world.start();
    world.until("the last content", ("shop", "many"), |it| it.says("ContentLoaded=True", &[&last])).await;
    // What is on disk is one folder for each content that was read, and nothing that was begun.
    let cache = world.cluster.dir().join(format!("{PROCESS}-cache"));
    let names = || {
        let names = std::fs::read_dir(&cache).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != "lock").collect::<BTreeSet<_>>()
    };
    let wait = world.cluster.until("only contents on disk", &[PROCESS]).within(LIMIT);
    wait.holds(async || names().iter().all(|name| !name.starts_with("aside-"))).await.unwrap();
    let names = names();
    assert!(!names.is_empty() && names.len() <= digests.len(), "{names:?}");
    // The next process has it from there.
    world.cluster.kill("registry").unwrap();
    world.cluster.kill(PROCESS).unwrap();
    world.start();
    let wait = world.cluster.until("the process to be ready", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.is_ready(PROCESS).await).await.unwrap();
    world.cluster.down().await.unwrap();
}
