//! Namespaces that come and go while copies are written everywhere.

use super::LIMIT;
use crate::bench::world::World;
use anyhow::ensure;
use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion;
use e2e::harness::audit::Request;
use e2e::olm::PROCESS;
use e2e::until::changes;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::runtime::watcher::Config;
use std::collections::BTreeMap;

/// How many, one after the other.
const COUNT: usize = 10;
/// What their names begin with: others come after them.
const PREFIX: &str = "passing-";

/// Each is deleted once it has a copy.
pub(super) async fn come_and_go(world: &World) -> anyhow::Result<()> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    for number in 0..COUNT {
        let name = format!("{PREFIX}{number}");
        world.bare_namespace(&name).await?;
        let copies: Api<ClusterServiceVersion> = Api::namespaced(world.client.clone(), &name);
        let wait = world.cluster.until("a copy in a namespace that goes", &[PROCESS]).within(LIMIT);
        wait.event(changes(copies, Config::default()), |_| Some(())).await?;
        namespaces.delete(&name, &Default::default()).await?;
    }
    for number in 0..COUNT {
        let wait = world.cluster.until("namespaces to be gone", &[PROCESS]).within(LIMIT);
        wait.object(namespaces.clone(), &format!("{PREFIX}{number}"), |it| it.is_none()).await?;
    }
    Ok(())
}

/// Whether the namespace is one of them.
pub(super) fn has(namespace: &str) -> bool {
    namespace.starts_with(PREFIX)
}

/// Each copy is written once and its status once, in whichever order namespaces come and go.
pub(super) fn ensure_once(requests: &[Request]) -> anyhow::Result<()> {
    let mut written: BTreeMap<_, usize> = BTreeMap::new();
    // Those in a namespace that goes are deleted.
    for request in requests.iter().filter(|request| request.verb != "delete") {
        *written.entry((&request.namespace, &request.name, request.resource_path())).or_default() += 1;
    }
    let doubled: Vec<_> = written.iter().filter(|(_, count)| **count > 1).take(5).collect();
    ensure!(doubled.is_empty(), "written more than once: {doubled:?}");
    Ok(())
}
