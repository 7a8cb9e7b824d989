//! Finds out whether nodes that pools are updating explain that an operator is not available. Nothing is read while all operators are
//! available, and little while no node is updated; otherwise the pods of that operator are followed until it is available again.

use super::apply::Applier;
use super::health;
use super::stand_in::workloads;
use crate::cluster::task;
use crate::cluster::watcher::{self, Event, Selection, Selector};
use crate::cluster::{ApiError, Clients, Kind};
use crate::cluster_version::forecast::drained;
use crate::cluster_version::forecast::drained::{Away, Explained};
use crate::cluster_version::status::drained::Drained;
use crate::error::chain;
use crate::machine_config::summary::NodeSummary;
use crate::object::cluster_operator::{OperatorReport, RelatedObject};
use crate::object::manifest::Manifest;
use futures::future::{FutureExt, try_join_all};
use futures::stream::{self, BoxStream, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CoreEvent, Node, Pod};
use kube::api::{Api, ListParams, PartialObjectMeta};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;

/// An operator that is not available is told of as such after this time, if it is not known by then whether nodes explain it.
const FIRST_LOOK: Duration = Duration::from_secs(10);
/// Most operators, and most namespaces of each, whose pods are followed at a time.
const OPERATORS: usize = 64;
const NAMESPACES: usize = 8;
/// Objects in one page of a list.
const PAGE: u32 = 250;
/// Most nodes that are read one by one.
const NODES: usize = 20;

/// What is known of an operator.
#[derive(Debug)]
enum Answer {
    Looking,
    /// By these nodes.
    Explained(BTreeSet<String>),
    NotExplained,
}

#[derive(Debug)]
struct Followed {
    answer: Answer,
    begun: Instant,
    /// Tells the news of this follower from those of one before.
    number: u64,
    follower: AbortHandle,
}

/// The operators that are not available.
#[derive(Debug)]
pub(crate) struct DrainedOperators {
    /// `None`: each is told of at once.
    source: Option<Source>,
    followed: BTreeMap<String, Followed>,
    begun: u64,
    /// Ended when this is dropped.
    followers: JoinSet<()>,
    sender: mpsc::Sender<News>,
    news: mpsc::Receiver<News>,
}

type News = (String, u64, Answer);

/// Where everything is read.
#[derive(Clone, Debug)]
struct Source {
    applier: Arc<Applier>,
    clients: Arc<Clients>,
}

impl DrainedOperators {
    pub(crate) fn new(applier: Arc<Applier>, clients: Arc<Clients>, enabled: bool) -> DrainedOperators {
        let (sender, news) = mpsc::channel(16);
        DrainedOperators {
            source: enabled.then_some(Source { applier, clients }),
            followed: BTreeMap::new(),
            begun: 0,
            followers: JoinSet::new(),
            sender,
            news,
        }
    }

    /// These operators are not available, and no others. `homes`: the namespaces of the workloads that the release has of one.
    pub(crate) fn follow(&mut self, unavailable: &BTreeSet<String>, homes: impl Fn(&str) -> BTreeSet<String>) {
        let Some(source) = &self.source else { return };
        self.followed.retain(|name, followed| {
            let still = unavailable.contains(name);
            if !still {
                followed.follower.abort();
            }
            still
        });
        while self.followers.try_join_next().is_some() {}
        for name in unavailable {
            if self.followed.contains_key(name) || self.followed.len() >= OPERATORS {
                continue;
            }
            self.begun += 1;
            let number = self.begun;
            let follower = Follower { source: source.clone(), operator: name.clone(), homes: homes(name) };
            let (name, sender) = (name.clone(), self.sender.clone());
            let tell = Tell { operator: name.clone(), number, sender };
            let following = task::guarded("drained operators", source.applier.stop(), follower.run(tell));
            let follower = self.followers.spawn(following);
            let begun = Instant::now();
            self.followed.insert(name, Followed { answer: Answer::Looking, begun, number, follower });
        }
    }

    /// Waits until something is new. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        let end = self.followed.values().filter_map(Followed::end).min();
        tokio::select! {
            // There is always a sender, so this never ends without news.
            Some((name, number, answer)) = self.news.recv() => {
                if let Some(followed) = self.followed.get_mut(&name).filter(|followed| followed.number == number) {
                    followed.answer = answer;
                }
            }
            // Whatever has become of the follower.
            () = tokio::time::sleep_until(end.unwrap_or_else(Instant::now)), if end.is_some() => {
                let now = Instant::now();
                for (operator, followed) in &mut self.followed {
                    if followed.end().is_some_and(|end| end <= now) {
                        tracing::info!(operator, "not available, and it is not known any more that an update of nodes explains it");
                        followed.answer = Answer::NotExplained;
                    }
                }
            }
        }
    }

    /// Those that nodes explain, or perhaps will in a moment.
    pub(crate) fn explained(&self) -> Drained {
        let explained = self.followed.iter().filter_map(|(name, followed)| match &followed.answer {
            Answer::Looking => Some((name.clone(), BTreeSet::new())),
            Answer::Explained(nodes) => Some((name.clone(), nodes.clone())),
            Answer::NotExplained => None,
        });
        explained.collect()
    }
}

/// The namespaces of the workloads that the release has in the component of an operator.
pub(crate) fn homes(manifests: &[Arc<Manifest>], operator: &str) -> BTreeSet<String> {
    let is = |manifest: &&Arc<Manifest>| manifest.id.kind == super::operators::KIND && manifest.id.name == operator;
    let operators = manifests.iter().filter(is);
    operators
        .flat_map(|operator| workloads(manifests, operator))
        .map(|workload| workload.id.namespace.clone())
        .collect()
}

impl Followed {
    /// When the answer does not count any more.
    fn end(&self) -> Option<Instant> {
        let limit = Duration::try_from(drained::LIMIT).unwrap_or_default();
        match self.answer {
            Answer::Looking => Some(self.begun + FIRST_LOOK),
            Answer::Explained(_) => Some(self.begun + limit),
            Answer::NotExplained => None,
        }
    }
}

/// Tells what is known of one operator.
struct Tell {
    operator: String,
    number: u64,
    sender: mpsc::Sender<News>,
}

impl Tell {
    async fn tell(&self, answer: Answer) {
        let _ended = self.sender.send((self.operator.clone(), self.number, answer)).await;
    }

    async fn not_explained(&self, cause: &str) {
        tracing::info!(operator = self.operator, cause, "not available, and no update of nodes explains it");
        self.tell(Answer::NotExplained).await;
    }
}

struct Follower {
    source: Source,
    operator: String,
    homes: BTreeSet<String>,
}

/// What has been read, and goes on being followed.
struct Known {
    pods: Pods,
    /// Names of nodes that were being updated at some time.
    updated: BTreeSet<String>,
}

impl Follower {
    /// Runs until nodes can explain nothing any more.
    async fn run(self, tell: Tell) {
        match self.begin().await {
            Ok(known) => self.follow(known, &tell).await,
            // Whoever has found that it is not available will find that, too, and asks no more.
            Err(_) if self.report().is_some_and(|report| drained::is_available(&report)) => {}
            Err(cause) => tell.not_explained(&cause).await,
        }
    }

    fn report(&self) -> Option<Arc<OperatorReport>> {
        self.source.applier.operators().current().get(&self.operator).cloned()
    }

    fn client(&self) -> Client {
        self.source.applier.objects().client().clone()
    }

    /// Reads everything once. Without a node that is updated, only the nodes.
    async fn begin(&self) -> Result<Known, String> {
        let report = self.report().ok_or("its report is not known")?;
        let since = drained::since(&report, Timestamp::now()).ok_or("it does not say that it is not available")?;
        let nodes = nodes(&self.client(), &ListParams::default()).await.map_err(|error| chain(&error))?;
        let updated = drained::updating(&nodes, since);
        if updated.is_empty() {
            return Err("no node is being updated".to_owned());
        }
        let mut namespaces = self.related().await.map_err(|error| chain(&error))?;
        namespaces.extend(self.homes.iter().cloned());
        if namespaces.is_empty() || namespaces.len() > NAMESPACES {
            return Err(format!("it names {} namespaces", namespaces.len()));
        }
        let mut pods = Pods::follow(&self.source.clients, namespaces).map_err(|error| chain(&error))?;
        while !pods.are_known() {
            pods.next().await;
        }
        Ok(Known { pods, updated })
    }

    /// The namespaces that the operator names.
    async fn related(&self) -> Result<BTreeSet<String>, ApiError> {
        let kind = Kind::known("config.openshift.io", "v1", super::operators::KIND, "clusteroperators", false);
        let object = self.source.applier.objects().get(&kind, "", &self.operator).await?;
        let related = object.as_ref().and_then(|object| object.pointer("/status/relatedObjects")?.as_array());
        let related = related.into_iter().flatten().filter_map(|object| RelatedObject::deserialize(object).ok());
        Ok(drained::namespaces(&related.collect::<Vec<_>>()))
    }

    async fn follow(&self, mut known: Known, tell: &Tell) {
        let mut reports = self.source.applier.operators().changes();
        let mut told: Option<Result<BTreeSet<String>, String>> = None;
        loop {
            reports.mark_unchanged();
            let Some(report) = self.report() else { return };
            if drained::is_available(&report) {
                // See above; until then what was told counts.
                if reports.changed().await.is_err() {
                    return;
                }
                continue;
            }
            let now = Timestamp::now();
            let end = drained::since(&report, now).and_then(|since| since.checked_add(drained::LIMIT).ok());
            let mut until = end.unwrap_or(now);
            match self.look(&report, &mut known).await {
                Ok(found) => {
                    until = found.as_ref().map_or(until, |explained| explained.until);
                    let found = found.map(|explained| explained.nodes);
                    if told.as_ref() != Some(&found) {
                        match &found {
                            Ok(nodes) => {
                                tracing::info!(
                                    operator = self.operator,
                                    ?nodes,
                                    "not available while nodes are updated"
                                );
                                tell.tell(Answer::Explained(nodes.clone())).await;
                            }
                            Err(cause) => tell.not_explained(cause).await,
                        }
                        told = Some(found);
                    }
                }
                // What was known counts until the limit; without anything known nothing is explained.
                Err(error) if told.is_none() => tell.not_explained(&chain(&error)).await,
                Err(error) => tracing::debug!(operator = self.operator, %error, "not read again"),
            }
            if end.is_none_or(|end| end <= now) {
                return;
            }
            let pause = Duration::try_from(until.duration_since(now)).unwrap_or_default() + Duration::from_millis(100);
            tokio::select! {
                () = known.pods.next() => {}
                changed = reports.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(pause) => {}
            }
            // Whatever else has happened meanwhile is taken in before looking once.
            while known.pods.next().now_or_never().is_some() {}
        }
    }

    async fn look(&self, report: &OperatorReport, known: &mut Known) -> Result<Result<Explained, String>, kube::Error> {
        let now = Timestamp::now();
        let since = drained::since(report, now).unwrap_or(now);
        let client = self.client();
        let cordoned = ListParams::default().fields("spec.unschedulable=true");
        let lists = known.pods.namespaces().map(|namespace| events(&client, namespace));
        let (read, events) = tokio::try_join!(nodes(&client, &cordoned), try_join_all(lists))?;
        let mut updating = drained::updating(&read, since);
        // Those that are not cordoned any more, and whose pods come back.
        let others = known.updated.iter().filter(|name| !read.iter().any(|node| node.name == **name)).take(NODES);
        let others = try_join_all(others.map(|name| node(&client, name))).await?;
        let others: Vec<NodeSummary> = others.into_iter().flatten().collect();
        updating.extend(drained::updating(&others, since));
        known.updated.extend(updating.iter().cloned());
        let (pods, events) = (known.pods.all(), events.concat());
        Ok(drained::explained(&Away { report, pods: &pods, events: &events, nodes: &updating, now }))
    }
}

/// What the annotations of nodes say.
async fn nodes(client: &Client, which: &ListParams) -> kube::Result<Vec<NodeSummary>> {
    let api: Api<Node> = Api::all(client.clone());
    let (mut params, mut found) = (which.clone().limit(PAGE), Vec::new());
    loop {
        let page = api.list_metadata(&params).await?;
        found.extend(page.items.into_iter().map(facts));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(found),
        }
    }
}

/// `None` if it has gone.
async fn node(client: &Client, name: &str) -> kube::Result<Option<NodeSummary>> {
    let api: Api<Node> = Api::all(client.clone());
    Ok(api.get_metadata_opt(name).await?.map(facts))
}

fn facts(node: PartialObjectMeta<Node>) -> NodeSummary {
    NodeSummary::of(&Node { metadata: node.metadata, ..Node::default() })
}

async fn events(client: &Client, namespace: &str) -> kube::Result<Vec<CoreEvent>> {
    health::pages(Api::namespaced(client.clone(), namespace), PAGE, Some).await
}

/// The pods of some namespaces as they are and as they change.
struct Pods {
    events: BoxStream<'static, (String, Result<Event<Pod>, ApiError>)>,
    namespaces: BTreeMap<String, Namespace>,
}

/// By name.
#[derive(Default)]
struct Namespace {
    /// `None` before all have been read once.
    pods: Option<BTreeMap<String, Pod>>,
    /// What has come since everything began to be read again.
    listed: BTreeMap<String, Pod>,
}

impl Pods {
    fn follow(clients: &Clients, namespaces: BTreeSet<String>) -> Result<Pods, crate::cluster::ClientError> {
        let client = clients.for_watch()?;
        let events = namespaces.iter().map(|namespace| {
            let selection = Selection::new(Kind::pod(), namespace, Selector::All);
            let namespace = namespace.clone();
            watcher::events(client.clone(), selection).map(move |event| (namespace.clone(), event)).boxed()
        });
        let events = stream::select_all(events.collect::<Vec<_>>()).boxed();
        let namespaces = namespaces.into_iter().map(|namespace| (namespace, Namespace::default())).collect();
        Ok(Pods { events, namespaces })
    }

    /// Whether all that exist have been read once.
    fn are_known(&self) -> bool {
        self.namespaces.values().all(|namespace| namespace.pods.is_some())
    }

    fn namespaces(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    fn all(&self) -> Vec<Pod> {
        self.namespaces
            .values()
            .flat_map(|namespace| namespace.pods.iter().flat_map(BTreeMap::values))
            .cloned()
            .collect()
    }

    /// Takes in the next event. Cancel safe.
    async fn next(&mut self) {
        let Some((namespace, event)) = self.events.next().await else { return std::future::pending().await };
        match (self.namespaces.get_mut(&namespace), event) {
            (Some(namespace), Ok(event)) => namespace.on_event(event),
            (_, Err(error)) => tracing::debug!(%error, "pods not read; trying again"),
            (None, Ok(_)) => {}
        }
    }
}

impl Namespace {
    fn on_event(&mut self, event: Event<Pod>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => drop(self.listed.insert(pod.name_any(), trimmed(pod))),
            Event::InitDone => self.pods = Some(std::mem::take(&mut self.listed)),
            Event::Apply(pod) => {
                self.pods.as_mut().map(|pods| pods.insert(pod.name_any(), trimmed(pod)));
            }
            Event::Delete(pod) => {
                self.listed.remove(&pod.name_any());
                self.pods.as_mut().map(|pods| pods.remove(&pod.name_any()));
            }
        }
    }
}

/// Without what nothing looks at.
fn trimmed(mut pod: Pod) -> Pod {
    pod.metadata.managed_fields = None;
    pod.metadata.annotations = None;
    if let Some(spec) = &mut pod.spec {
        let node_name = spec.node_name.take();
        *spec = k8s_openapi::api::core::v1::PodSpec { node_name, ..Default::default() };
    }
    pod
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::{Kinds, Objects};
    use crate::cluster_version::rollout::MANAGER;
    use tokio_util::sync::CancellationToken;

    #[tokio::test]
    async fn operators_that_are_away_are_told_of_at_once_where_nodes_may_not_explain_it() {
        let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let clients = Arc::new(Clients::new(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap());
        let objects = Objects::reader(clients.call.clone());
        let applier =
            Applier::new(clients.clone(), objects, MANAGER, Arc::new(Kinds::default()), CancellationToken::new());
        let applier = Arc::new(applier);
        for enabled in [true, false] {
            let mut drained = DrainedOperators::new(applier.clone(), clients.clone(), enabled);
            drained.follow(&BTreeSet::from(["network".to_owned()]), |_| BTreeSet::new());
            assert_eq!(drained.explained().contains_key("network"), enabled, "it may be, until somebody has looked");
        }
    }
}
