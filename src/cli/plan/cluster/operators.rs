//! The operators of the cluster in a plan: whether they fit the release, by what they say themselves and by what their catalogs will have.

use super::Cluster;
use super::catalogs::{CONFIG, Catalog, PULL_SECRET, kubernetes, named, readable};
use crate::cli::plan::PlanArgs;
use crate::cluster::{ApiError, Kind};
use crate::cluster_version::forecast::{Action, Blocker, Cause, Forecast, Step};
use crate::images::platform::Platform;
use crate::net::registry::source::parse;
use crate::olm::api::GROUP;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::label::COPIED_FROM;
use crate::olm::api::subscription::Subscription;
use crate::olm::bundle::definition;
use crate::olm::catalog::served::Content;
use crate::olm::cli::input;
use crate::olm::fits::{PlannedOperator, Target, operators};
use crate::olm::net::store;
use crate::release::Payload;
use anyhow::anyhow;
use kube::Resource;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Objects in one page of a list.
const PAGE: u32 = 250;
/// How long it may take to fetch a catalog.
const FETCH: Duration = Duration::from_secs(180);

/// Namespace, name and image of a catalog.
type Key = (String, String, String);

impl Cluster {
    /// Whether the operators fit the release. One that does not stops the update; what it will miss is a warning.
    pub(super) async fn operators(
        &self,
        args: &PlanArgs,
        payload: &Payload,
        (catalogs, live): (&[Catalog], &[CatalogSource]),
        forecast: &mut Forecast,
        unknowns: &mut Vec<String>,
    ) -> Vec<PlannedOperator> {
        let csvs = self.listed::<ClusterServiceVersion>(unknowns).await;
        let (csvs, subscriptions) = match (csvs, self.listed::<Subscription>(unknowns).await) {
            (Ok(mut csvs), Ok(subscriptions)) => {
                csvs.retain(|csv| !csv.is_copy());
                (csvs, subscriptions)
            }
            (Err(error), _) | (_, Err(error)) => {
                unknowns.push(format!("Whether the operators of the cluster fit the release: {error}."));
                return Vec::new();
            }
        };
        let is_deleted = |step: &&Step| step.action == Action::Delete && step.object.kind == definition::KIND.1;
        let deletes: BTreeSet<String> =
            forecast.steps().filter(is_deleted).map(|step| step.object.name.clone()).collect();
        let kubernetes = kubernetes(payload).ok().map(|version| version.number());
        let (from, to) = (forecast.from.release.version.clone(), payload.release.version.clone());
        let target = Target { from: &from, to: &to, kubernetes: kubernetes.as_ref(), deletes: &deletes };
        let mut all = operators(&target, &csvs, &subscriptions);
        let images: Vec<[Option<Key>; 2]> = all.iter().map(|operator| images(operator, catalogs, live)).collect();
        let contents = self.contents(args, images.iter().flatten().flatten().collect(), live, unknowns).await;
        for (operator, [now, after]) in all.iter_mut().zip(&images) {
            let content = |key: &Option<Key>| key.as_ref().and_then(|key| contents.get(key));
            if let Some(content) = content(after) {
                operator.will_have(content);
            }
            if let Some(content) = content(now) {
                operator.look_for_help(&target, content);
            }
        }
        forecast.blockers.extend(all.iter().flat_map(blockers));
        all
    }

    /// Fetches these catalogs.
    async fn contents(
        &self,
        args: &PlanArgs,
        wanted: BTreeSet<&Key>,
        live: &[CatalogSource],
        unknowns: &mut Vec<String>,
    ) -> BTreeMap<Key, Arc<Content>> {
        let mut contents = BTreeMap::new();
        if wanted.is_empty() {
            return contents;
        }
        // What could not be read of the cluster has been told with the images of catalogs.
        let (sources, global) =
            (self.sources(args, &mut Vec::new()).await, self.credentials(CONFIG, PULL_SECRET).await);
        for key in wanted {
            let (namespace, name, image) = key;
            let fetched = async {
                let sources = sources.as_ref().map_err(|cause| anyhow!("{cause}"))?;
                let sources = self.sources_of((namespace, name), (sources, &global), live).await;
                let opened = sources.open(&parse(image)?, Platform::Preferred(&args.image.architecture)).await?;
                let catalog = input::catalog_of(&opened).await?;
                let read = tokio::task::spawn_blocking(move || store::content(&catalog.folder, None));
                anyhow::Ok(read.await??.content)
            };
            let fetched = tokio::time::timeout(FETCH, fetched).await;
            match fetched.unwrap_or_else(|_| Err(anyhow!("it takes longer than {} s", FETCH.as_secs()))) {
                Ok(content) => drop(contents.insert(key.clone(), content)),
                Err(error) => unknowns.push(format!(
                    "What image {image} of catalog {namespace}/{name} has for the operators of the cluster: it could not be fetched: \
                     {error:#}."
                )),
            }
        }
        contents
    }

    /// All of a kind of operators that can be read, without what has the label of copies; none where the kind is not served.
    async fn listed<K>(&self, unknowns: &mut Vec<String>) -> Result<Vec<K>, ApiError>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned,
    {
        let kind = Kind::of::<K>(true);
        let all = match self.objects.selected(&kind, ("", &format!("!{COPIED_FROM}")), PAGE, Some).await {
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            all => all?,
        };
        let unreadable = |place: &str, error: &serde_json::Error| {
            format!("Whether {} {place} fits the release: it cannot be read: {error}.", kind.kind)
        };
        Ok(readable(all, unknowns, unreadable))
    }
}

/// The images of its catalog whose contents count: as it is now, for an operator that is held, and as it will be, where that is another
/// one that its registry has.
fn images(operator: &PlannedOperator, catalogs: &[Catalog], live: &[CatalogSource]) -> [Option<Key>; 2] {
    let (namespace, name) = &operator.catalog;
    let key = |image: &String| (namespace.clone(), name.clone(), image.clone());
    let now = named(live, namespace, name).map(|source| &source.spec.image).filter(|image| !image.is_empty());
    let moved = catalogs.iter().find(|it| (&it.planned.namespace, &it.planned.name) == (namespace, name));
    let after = moved.filter(|it| it.available == Some(true)).and_then(|it| it.planned.to.as_ref());
    [now.filter(|_| operator.is_held()).map(key), after.filter(|image| Some(*image) != now).map(key)]
}

fn blockers(operator: &PlannedOperator) -> impl Iterator<Item = Blocker> {
    let PlannedOperator { namespace, name, hindrances, warnings, help, .. } = operator;
    let object = format!("clusterserviceversion.{GROUP} \"{namespace}/{name}\"");
    let blocker = |message: String| Blocker::new(Cause::Operator, &object, "", message);
    let help = if help.is_empty() { "update or remove it" } else { help };
    let held = (!hindrances.is_empty()).then(|| blocker(format!("{}; {help}", hindrances.join("; "))));
    let warned: Vec<Blocker> = warnings.iter().map(|it| blocker(it.clone()).warns()).collect();
    held.into_iter().chain(warned)
}
