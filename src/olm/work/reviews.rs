//! Answers questions about the Subscriptions of a namespace as they might be. The objects are read when somebody asks, so that any
//! replica answers.

use super::catalogs::{Known, Outputs};
use crate::cluster::{ApiError, Clients, Kind, Objects};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::packages::status::Status;
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::serve::packages::Reviews;
use crate::olm::solve::Limits;
use crate::olm::subscription::forecast::Hypothesis;
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, Plan};
use crate::olm::subscription::review::{self, ReviewError, ReviewSpec};
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

/// Questions that are answered at the same time. Each takes a core.
const PLACES: usize = 2;
/// How long a question waits for its place.
const WAIT: Duration = Duration::from_secs(5);
/// How long an answer is looked for.
const LIMIT: Duration = Duration::from_secs(20);
/// Objects in one page, which are in memory at the same time.
const PAGE: u32 = 50;

struct Reviewer {
    objects: Objects,
    known: watch::Receiver<Arc<Known>>,
    /// Catalogs of this namespace are seen by all.
    global: String,
    /// The release of this process.
    version: String,
    places: Arc<Semaphore>,
}

/// For the server that is asked.
pub(super) fn reviews(clients: &Clients, outputs: &Outputs, global: &str, version: &str) -> Reviews {
    let reviewer = Arc::new(Reviewer {
        objects: Objects::reader(clients.call.clone()),
        known: outputs.known.clone(),
        global: global.to_owned(),
        version: version.to_owned(),
        places: Arc::new(Semaphore::new(PLACES)),
    });
    Reviews(Arc::new(move |namespace, body| {
        let reviewer = reviewer.clone();
        Box::pin(async move { reviewer.answer(&namespace, &body).await })
    }))
}

/// Nobody waits for the answer any more.
struct Cancel(Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn refused(error: &ReviewError) -> Status {
    match error {
        ReviewError::Json(_) | ReviewError::Kind { .. } | ReviewError::Namespace { .. } => {
            Status::bad_request(error.to_string())
        }
        _ => Status::invalid(error.to_string()),
    }
}

impl Reviewer {
    async fn answer(&self, namespace: &str, body: &[u8]) -> Result<Value, Status> {
        let spec = review::read(body, namespace).map_err(|error| refused(&error))?;
        let place = tokio::time::timeout(WAIT, self.places.clone().acquire_owned()).await;
        let Ok(Ok(place)) = place else { return Err(Status::busy("too many questions are being answered; try again")) };
        let known = self.known.borrow().clone();
        let hypothesis = self.read(namespace, &known).await?;
        let cluster = ClusterVersions { kubernetes: known.kubernetes.clone(), release: self.version.clone() };
        found(place, spec, hypothesis, cluster).await
    }

    /// The namespace as it is.
    async fn read(&self, namespace: &str, known: &Known) -> Result<Hypothesis, Status> {
        let catalogs = known.catalogs.as_ref();
        let catalogs = catalogs.ok_or_else(|| Status::unavailable("catalogs have not been read yet; try again"))?;
        let sees = |of: &str| of == namespace || of == self.global;
        let subscriptions: Vec<Subscription> = self.listed(namespace).await?;
        let csvs: Vec<ClusterServiceVersion> = self.listed(namespace).await?;
        let groups: Vec<OperatorGroup> = self.listed(namespace).await?;
        let plans: Vec<InstallPlan> = self.listed(namespace).await?;
        Ok(Hypothesis {
            namespace: namespace.to_owned(),
            global: self.global.clone(),
            subscriptions: subscriptions.into_iter().map(Arc::new).collect(),
            csvs: csvs.iter().map(|csv| Arc::new(Csv::of(csv))).collect(),
            groups: groups.iter().map(|group| Arc::new(Group::of(group))).collect(),
            plans: plans.iter().map(|plan| Arc::new(Plan::of(plan))).collect(),
            catalogs: catalogs.iter().filter(|(id, _)| sees(&id.0)).map(|(id, it)| (id.clone(), it.clone())).collect(),
        })
    }

    async fn listed<K>(&self, namespace: &str) -> Result<Vec<K>, Status>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = Kind::of::<K>(true);
        let failed = |error: ApiError| {
            // The cause may name what only the cluster should know.
            tracing::warn!(%error, "a question about Subscriptions is not answered");
            Status::unavailable(format!("the {} of the namespace cannot be read now; try again", kind.plural))
        };
        let read = |object| serde_json::from_value(object).ok();
        self.objects.selected(&kind, (namespace, ""), PAGE, read).await.map_err(failed)
    }
}

/// Looks for the answer beside the other work of the process.
async fn found(
    place: OwnedSemaphorePermit,
    spec: ReviewSpec,
    hypothesis: Hypothesis,
    cluster: ClusterVersions,
) -> Result<Value, Status> {
    let limits = Limits::default();
    let _cancel = Cancel(limits.cancelled.clone());
    let looking = tokio::task::spawn_blocking(move || {
        let _place = place;
        review::answer(&spec, hypothesis, &cluster, &limits)
    });
    match tokio::time::timeout(LIMIT, looking).await {
        Ok(Ok(answer)) => answer.map_err(|error| refused(&error)),
        Ok(Err(error)) => Err(Status::internal(format!("looking for an answer has ended: {error}"))),
        Err(_) => {
            let seconds = LIMIT.as_secs();
            Err(Status::unavailable(format!(
                "there is no answer after {seconds} s: ask without toHead, or for fewer packages"
            )))
        }
    }
}
