//! The floor: how long the API server needs to accept the objects of the release from a loop that does nothing else.

use super::figures::{Measured, Row, SECONDS};
use super::{cluster::BenchCluster, machine};
use anyhow::{Context, bail, ensure};
use cvo::testing::api::{FIELD_MANAGER, NAME};
use cvo::testing::cluster::{Clients, Kinds};
use cvo::testing::merge::{self, Owner};
use cvo::testing::payload::{DefinedKind, Manifest};
use e2e::until::until;
use jiff::Timestamp;
use kube::Client;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

pub(super) static ROW: Row = Row {
    name: "floor",
    about: "a bare loop that creates the objects, 32 requests at a time",
    needs: &[],
    targets: &[],
};

/// Requests at a time.
const IN_FLIGHT: usize = 32;
/// Before a refused request is repeated: its kind is not served yet, or its namespace does not exist.
const PAUSE: Duration = Duration::from_millis(50);
const LIMIT: Duration = Duration::from_secs(120);

/// A request that is ready to be sent.
struct Post {
    what: String,
    path: String,
    body: Vec<u8>,
}

/// Shared by all requests.
struct Loop {
    client: Client,
    permits: Semaphore,
}

/// Namespaces and CustomResourceDefinitions first, then the rest. The same objects that the daemon creates, as the daemon's user, on a
/// cluster that is prepared as for an install; everything is encoded before the clock starts.
pub(super) async fn measure(cluster: &BenchCluster) -> anyhow::Result<Measured> {
    let config = cluster.daemon_config().await?;
    let client = Clients::new(config)?.call;
    let owner = cluster.owner().await?;
    let (early, late) = prepare(&client, &owner, &cluster.facts.manifests).await?;
    let objects = early.len() + late.len();
    let work = Arc::new(Loop { client, permits: Semaphore::new(IN_FLIGHT) });
    // Not part of the release: on a real cluster they exist.
    let others = cluster.facts.namespaces.iter().map(|name| namespace(name)).collect();
    send_all(&work, others).await?;
    let busy = machine::quiet().await;
    let start = Timestamp::now();
    let sent = until("the floor", LIMIT).end_of(async {
        send_all(&work, early).await?;
        send_all(&work, late).await
    });
    sent.await??;
    let end = Timestamp::now();
    let requests = cluster.requests(start, end).await?;
    ensure!(
        requests.iter().all(|r| r.verb == "create"),
        "another client used the daemon's user while the floor was measured"
    );
    let mut measured = Measured::default();
    measured.add(SECONDS, end.duration_since(start).as_secs_f64());
    measured.add("objects", objects as f64);
    measured.add_creations(&requests, start);
    measured.add_requests(&requests);
    measured.add("machine busy before", busy);
    Ok(measured)
}

fn namespace(name: &str) -> Post {
    let body = serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    Post { what: format!("namespace {name}"), path: "/api/v1/namespaces".to_owned(), body: body.to_string().into() }
}

/// The requests of both steps. All kinds must be served, or defined by the release.
async fn prepare(
    client: &Client,
    owner: &Owner,
    manifests: &[Arc<Manifest>],
) -> anyhow::Result<(Vec<Post>, Vec<Post>)> {
    let kinds = Kinds::default();
    kinds.refresh(client).await?;
    for definition in manifests.iter().filter(|m| m.id.kind == "CustomResourceDefinition") {
        kinds.add(Kinds::of_definition(&DefinedKind::of_manifest(definition)?));
    }
    let (mut early, mut late) = (Vec::new(), Vec::new());
    let mut seen = BTreeSet::new();
    for manifest in manifests {
        let id = &manifest.id;
        let kind = kinds.get(&manifest.api_version, &id.kind).with_context(|| format!("{id}: is not served"))?;
        let namespace = if id.namespace.is_empty() { "default" } else { &id.namespace };
        let object = merge::initial(merge::prepare(manifest.object()?, Some(owner), manifest.create_only()));
        let post = Post {
            what: id.to_string(),
            path: format!("{}?fieldManager={FIELD_MANAGER}", kind.path(namespace)),
            body: serde_json::to_vec(&object)?,
        };
        ensure!(seen.insert(id.clone()), "{id} is in the release twice");
        let first = matches!(id.kind.as_str(), "Namespace" | "CustomResourceDefinition");
        if first { early.push(post) } else { late.push(post) }
    }
    Ok((early, late))
}

/// Sends all of them and waits until each was accepted.
async fn send_all(work: &Arc<Loop>, posts: Vec<Post>) -> anyhow::Result<()> {
    let mut tasks = JoinSet::new();
    for post in posts {
        let work = work.clone();
        tasks.spawn(async move { work.send(&post).await });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    Ok(())
}

impl Loop {
    async fn send(&self, post: &Post) -> anyhow::Result<()> {
        loop {
            let permit = self.permits.acquire().await?;
            let request = http::Request::post(&post.path)
                .header(http::header::CONTENT_TYPE, "application/json")
                .body(post.body.clone())?;
            let answer = self.client.request_text(request).await;
            drop(permit);
            match answer {
                Ok(_) => return Ok(()),
                Err(kube::Error::Api(status)) => match status.code {
                    // It was created for the daemon already.
                    409 => return Ok(()),
                    403 | 404 | 429 | 500.. => {}
                    code => bail!("{}: {code} {}", post.what, status.message),
                },
                Err(error) => bail!("{}: {error}", post.what),
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl BenchCluster {
    /// The ClusterVersion as the owner of the objects, as the daemon sets it.
    async fn owner(&self) -> anyhow::Result<Owner> {
        let versions: kube::Api<cvo::testing::api::ClusterVersion> = kube::Api::all(self.simulated.client.clone());
        let uid = versions.get(NAME).await?.metadata.uid.context("the ClusterVersion has no uid")?;
        Ok(merge::owner(NAME, &uid))
    }
}
