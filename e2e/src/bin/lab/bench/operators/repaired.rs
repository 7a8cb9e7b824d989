//! Deployments of operators that somebody deletes or changes: how long until each is as it has to be.

use super::installed::{MANY_COUNT, namespace};
use crate::bench::figures::{self, Measured};
use crate::bench::machine;
use crate::bench::world::{LIMIT, World};
use anyhow::ensure;
use e2e::olm::PROCESS;
use e2e::until::changes;
use futures::{Stream, StreamExt};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use serde_json::json;
use std::time::Instant;

pub(super) const P50: &str = "Deployment back, p50, seconds";
pub(super) const P99: &str = "Deployment back, p99, seconds";

const NAME: &str = "widgets-operator";
const OTHER: &str = "registry.invalid/other:1";

/// Every second one is changed, and the others are deleted. None is touched twice, because what is changed again and again rests.
pub(super) async fn measure(world: &World, number: usize, measured: &mut Measured) -> anyhow::Result<()> {
    ensure!((1..=MANY_COUNT).contains(&number), "there are {MANY_COUNT} Deployments, not {number}");
    let all: Api<Deployment> = Api::all(world.client.clone());
    let mut events = changes(all, Config::default().labels("olm.managed=true"));
    // All that exist are told first.
    let first = world.cluster.until("the Deployments to be told of", &[PROCESS]).within(LIMIT);
    let mut told = 0;
    first
        .event(&mut events, |_| {
            told += 1;
            (told >= MANY_COUNT).then_some(())
        })
        .await?;
    machine::quiet().await;
    let mut times = Vec::new();
    for at in 0..number {
        times.push(back(world, &mut events, &namespace(at), at % 2 == 0).await?);
    }
    times.sort_by(f64::total_cmp);
    measured.add_known(P50, figures::percentile(&times, 0.50));
    measured.add_known(P99, figures::percentile(&times, 0.99));
    measured.add_known("Deployment back, max, seconds", times.last().copied());
    Ok(())
}

async fn back(
    world: &World,
    events: &mut (impl Stream<Item = Deployment> + Unpin),
    namespace: &str,
    is_deleted: bool,
) -> anyhow::Result<f64> {
    let api: Api<Deployment> = Api::namespaced(world.client.clone(), namespace);
    let uid = api.get(NAME).await?.metadata.uid;
    let disturb = async {
        match is_deleted {
            true => drop(api.delete(NAME, &Default::default()).await?),
            false => {
                let container = json!({"name": "operator", "image": OTHER});
                let patch = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
                api.patch(NAME, &PatchParams::default(), &Patch::Strategic(&patch)).await?;
            }
        }
        anyhow::Ok(Instant::now())
    };
    let mut was_other = false;
    let is_back = |it: &Deployment| {
        if it.metadata.namespace.as_deref() != Some(namespace) {
            return None;
        }
        let containers = it.spec.iter().flat_map(|spec| &spec.template.spec).flat_map(|spec| &spec.containers);
        let is_other = containers.into_iter().any(|it| it.image.as_deref() == Some(OTHER));
        was_other |= is_other;
        let is_back = if is_deleted { it.metadata.uid != uid } else { was_other && !is_other };
        is_back.then(Instant::now)
    };
    let wait = world.cluster.until("the Deployment to be back", &[PROCESS]).within(LIMIT);
    let (disturbed, back) = tokio::join!(disturb, wait.event(events.by_ref(), is_back));
    // The watch may show it before the other is answered.
    Ok(back?.saturating_duration_since(disturbed?).as_secs_f64())
}
