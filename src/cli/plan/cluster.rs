//! A plan that starts from a cluster, which is read once: its objects, its configuration, and what it permits.

pub(super) mod catalogs;
mod flags;
pub(super) mod operators;
mod permissions;

use super::{Plan, PlanArgs, always, imply, own_deployment, prepare, warnings};
use crate::cli::filters::ensure_some_included;
use crate::cli::release::given::{self, Given};
use crate::cli::status::{Operators, State};
use crate::cli::{doctor, reach};
use crate::cluster::kinds::Kind;
use crate::cluster::list::{self, ReadObjects};
use crate::cluster::{ApiError, Clients, Kinds, Objects};
use crate::cluster_version::api::SignatureStore;
use crate::cluster_version::api::{ClusterVersion, ClusterVersionStatus, HistoryState};
use crate::cluster_version::forecast;
use crate::cluster_version::forecast::placement;
use crate::cluster_version::forecast::{
    Blocker, Cause, ClusterState, Forecast, LiveObject, LiveObjects, LiveState, PlanInput, Side,
};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::rollout::{MANAGER, owner};
use crate::cluster_version::status::release::same_digest;
use crate::cluster_version::updates;
use crate::cluster_version::updates::FeatureGates;
use crate::cluster_version::updates::upgradeable;
use crate::cluster_version::updates::upgradeable::NotUpgradeable;
use crate::cluster_version::work::dropped::is_to_stay;
use crate::cluster_version::work::retrieve::verify::Search;
use crate::diagnosis::parts::Parts;
use crate::machine_config::summary;
use crate::merge::inject::{ClusterConfiguration, Source};
use crate::net::http::Egress;
use crate::object::MANAGED_NAMESPACE;
use crate::object::manifest::{Manifest, ObjectId};
use crate::object::read::Read;
use crate::release::api::Release;
use crate::release::capability::CapabilityInputs;
use crate::release::work::features;
use crate::release::{ApplyFilter, Capabilities, Filter, Payload};
use crate::verify::{Digest, VerifyError};
use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::watch;

/// Kinds that are listed at the same time.
const LISTS: usize = 8;

/// A cluster to read from.
struct Cluster {
    clients: Clients,
    objects: Objects,
    kinds: Kinds,
    version: ClusterVersion,
    state: State,
}

/// Plans the update of the cluster.
pub(crate) async fn plan(args: &PlanArgs, to: &Given) -> anyhow::Result<Plan> {
    let cluster = Cluster::connect(args).await?;
    let mut unknowns: Vec<String> = cluster.state.remarks.clone();
    let daemon = cluster.daemon(args, &mut unknowns).await;
    let (mut filter, stores) = cluster.filter(&daemon, args, to.version()?, &mut unknowns).await?;
    let payload = to.load(filter.load.clone())?;
    let live = cluster.live_objects(&payload.manifests).await;
    let before = cluster.running_release(args, &filter).await?;
    let implied = match &before {
        Some(before) => imply(&mut filter, &payload.manifests, &before.manifests),
        None => imply(&mut filter, &payload.manifests, &forecast::managed(&live, &payload.manifests)),
    };
    let selection = payload.select(&filter);
    ensure_some_included(&selection, &payload, &filter)?;
    let configuration = cluster.configuration(&payload, &mut unknowns).await;
    let uid = cluster.version.metadata.uid.clone().unwrap_or_default();
    let owner = owner(&args.source.name, &uid);
    let prepared = |manifest: &Manifest| prepare(manifest, Some(&owner), &configuration);
    let (status, own) = (cluster.version.status.clone().unwrap_or_default(), own_deployment(args));
    let mut forecast = forecast::forecast(&PlanInput {
        from: Side { source: args.from.clone(), release: status.desired.clone() },
        to: Side { source: to.given.clone(), release: payload.release.clone() },
        mode: mode(&status, &payload.release.version, to.image()),
        manifests: &selection.manifests,
        excluded: forecast::excluded(&selection, &filter),
        live: &live,
        namespaces: Some(cluster.namespaces(&selection.manifests).await),
        prepared: &prepared,
        own_deployment: &own,
        manager: MANAGER,
        server: cluster.server_version(&mut unknowns).await,
        values: args.values,
    });
    let judged = judged(&payload.release, to.image(), &status, &mut unknowns);
    let parts = cluster.parts(args, &mut unknowns).await;
    let unplaced = unplaced(&selection.manifests, &own, parts.as_ref());
    forecast.blockers.extend(cluster.judge(before.as_ref(), &judged, &own, unplaced, &mut unknowns).await);
    forecast.implicit_capabilities = implied.into_iter().collect();
    if let Some(before) = &before {
        let before = before.select(&filter).manifests;
        let dropped = forecast::dropped(&before, &selection, &forecast.excluded);
        forecast.dropped = cluster.left_behind(&before, dropped).await;
    }
    match before.as_ref().zip(to.image()) {
        Some((before, image)) => {
            take_verified(image, cluster.verify(before, image, stores.as_deref()).await, &mut forecast, &mut unknowns);
        }
        None => unknowns.push(UNVERIFIED.to_owned()),
    }
    let denied = permissions::denied(&cluster, args, &daemon, &forecast, &mut unknowns).await;
    forecast.blockers.extend(denied);
    unknowns.extend(cluster.webhooks(&forecast).await);
    let defaults = catalogs::default_catalogs(&selection.manifests, &live, &prepared);
    let (catalogs, sources) = cluster.catalogs(args, &payload, defaults, &mut forecast, &mut unknowns).await;
    let operators = cluster.operators(args, &payload, (&catalogs, &sources), &mut forecast, &mut unknowns).await;
    forecast.blockers.extend(parts.iter().flat_map(|parts| forecast::findings(forecast::troubles(parts))));
    unknowns.extend(unknowns_of(to, before.as_ref(), &payload));
    forecast.unknowns = unknowns;
    Ok(Plan { forecast, catalogs, operators })
}

const UNVERIFIED: &str = "Whether the release is signed by a key that the running one trusts; the daemon verifies that before \
                          it begins. Give the running release with --running, and the new one by its image, to find out.";

/// What cannot be known of these releases. `before`: the release that runs, if it is given.
fn unknowns_of(to: &Given, before: Option<&Payload>, payload: &Payload) -> Vec<String> {
    let no_running = before.is_none().then(|| {
        "Which objects of the running release the new one does not contain any more; they stay. And whether those that the \
         running one deletes are gone; until then updates to another minor version wait. Give the running release with \
         --running to find out."
            .to_owned()
    });
    let mut unknowns: Vec<String> = no_running.into_iter().collect();
    unknowns.extend(to.unknowns());
    unknowns.extend(before.into_iter().chain([payload]).flat_map(warnings));
    unknowns.extend(always());
    unknowns
}

/// What the Deployment of the release's daemon demands of a node, if none meets it. Nodes that cannot be read are told elsewhere.
fn unplaced(manifests: &[Arc<Manifest>], own: &ObjectId, parts: Option<&Parts>) -> Read<String> {
    let deployment = manifests.iter().find(|manifest| manifest.id == *own).and_then(|manifest| manifest.object().ok());
    let unplaced = deployment.zip(parts).map(|(deployment, parts)| placement::unplaced(&deployment, &parts.nodes));
    unplaced.unwrap_or_default()
}

impl Cluster {
    async fn connect(args: &PlanArgs) -> anyhow::Result<Cluster> {
        let clients = Clients::connect_as(args.kubeconfig.as_deref(), args.user.as_deref()).await?;
        // A plan never writes.
        let objects = Objects::reader(clients.call.clone());
        let kinds = Kinds::default();
        let fail = |error| reach::explain(&clients.server(), error);
        kinds.refresh(&clients.call).await.map_err(fail)?;
        let state = State::gather(&clients.call, &args.source).await.map_err(fail)?;
        let Some(version) = state.cluster_version.clone() else {
            bail!(
                "this cluster has no ClusterVersion {:?}: nothing is installed yet, or --name is wrong. Without a cluster, \
                 --from may name a release, too",
                args.source.name
            );
        };
        Ok(Cluster { clients, objects, kinds, version, state })
    }

    /// Looks for the signatures of the image as the daemon will, but not through the proxy of the cluster.
    async fn verify(
        &self,
        before: &Payload,
        image: &str,
        stores: Option<&[SignatureStore]>,
    ) -> Result<(), VerifyError> {
        let way = watch::channel(Some(Ok(Egress::default()))).1;
        let search = Search { objects: &self.objects, way, own: before, as_of: &std::sync::OnceLock::new() };
        search.run(&Digest::of_pull_spec(image)?, stores).await.map(drop)
    }

    /// What is read of the cluster to find what would hinder any update. `None` with the rights of the daemon, by which most of it
    /// cannot be read.
    async fn parts(&self, args: &PlanArgs, unknowns: &mut Vec<String>) -> Option<Parts> {
        if args.user.is_some() {
            unknowns.push(
                "What in the cluster would hinder any update, and whether a node can run the daemon of the release."
                    .to_owned(),
            );
            return None;
        }
        Some(doctor::read(&self.clients, &args.source, &self.state, unknowns).await)
    }

    /// What is said against an update to this release, whatever is in it. `before`: the release that runs, if it is given.
    async fn judge(
        &self,
        before: Option<&Payload>,
        to: &Release,
        own: &ObjectId,
        unplaced: Read<String>,
        unknowns: &mut Vec<String>,
    ) -> Vec<Blocker> {
        let state = ClusterState { unplaced, ..self.preconditions(before, unknowns).await };
        let mut blockers = forecast::preconditions(&self.version, &state, to, own);
        blockers.extend(forecast::conditions(&self.version));
        blockers.extend(summary::quorum(&self.state.pools, &self.state.nodes).map(forecast::quorum));
        blockers
    }

    /// What the preconditions depend on. `before`: the release that runs, if it is given.
    async fn preconditions(&self, before: Option<&Payload>, unknowns: &mut Vec<String>) -> ClusterState {
        let operators = refusals(&self.state.operators);
        let deleted = before.into_iter().flat_map(|before| &before.manifests);
        let deleted: Vec<_> = deleted.filter(|manifest| manifest.delete() == Ok(true)).cloned().collect();
        let deletions = still_there(&self.live_objects(&deleted).await, unknowns);
        let (gates, acks) = (self.data(MANAGED_NAMESPACE, "admin-gates"), self.data("openshift-config", "admin-acks"));
        let (gates, acks) = tokio::join!(gates, acks);
        ClusterState { operators, gates, acks, deletions, unplaced: Read::Absent }
    }

    /// The data of a ConfigMap.
    async fn data(&self, namespace: &str, name: &str) -> Read<BTreeMap<String, String>> {
        let kind = Kind::config_map();
        match self.objects.get(&kind, namespace, name).await {
            Ok(Some(map)) => Read::Value(
                map.get("data").and_then(|data| serde::Deserialize::deserialize(data).ok()).unwrap_or_default(),
            ),
            Ok(None) => Read::Absent,
            Err(error) => Read::Failed(error.to_string()),
        }
    }

    /// The minor version of the API server.
    async fn server_version(&self, unknowns: &mut Vec<String>) -> Option<u64> {
        let read = self.clients.call.apiserver_version().await;
        let version = read.map_err(|error| ApiError::of("read the version of the API server", error).to_string());
        // Some distributions append a plus sign.
        let minor =
            version.and_then(|v| v.minor.trim_end_matches('+').parse().map_err(|_| format!("it is {}", v.minor)));
        minor.map_err(|why| unknowns.push(format!("Whether the API server is too old for the release: {why}."))).ok()
    }

    /// The daemon's Deployment, which shows how it is configured; null if it cannot be read.
    async fn daemon(&self, args: &PlanArgs, unknowns: &mut Vec<String>) -> Value {
        let own = own_deployment(args);
        let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
        found(self.objects.get(&kind, &own.namespace, &own.name).await, &own).unwrap_or_else(|why| {
            unknowns.push(format!("How the daemon is configured: {why}. The flags of this command are used instead."));
            Value::Null
        })
    }

    /// How the daemon will filter the release `to`: by profile and exclusions from its Deployment, feature set and gates from
    /// FeatureGate, capabilities and overrides from ClusterVersion. And the signature stores that ClusterVersion names.
    async fn filter(
        &self,
        daemon: &Value,
        args: &PlanArgs,
        to: String,
        unknowns: &mut Vec<String>,
    ) -> anyhow::Result<(ApplyFilter, Option<Vec<SignatureStore>>)> {
        let features =
            features::read(&self.objects).await.context("cannot find out which feature gates are enabled")?;
        let status = self.version.status.clone().unwrap_or_default();
        let running = status.desired.version.as_str();
        if !features.gates.is_empty() && !features.gates.contains_key(&to) {
            unknowns.push(format!("Which feature gates {to} will have; those of {running} are used instead."));
        }
        let history = status.history.iter().map(|entry| entry.version.as_str());
        let versions = [to.as_str(), running].into_iter().chain(history);
        let gates = features.enabled(versions).cloned().unwrap_or_default();
        let errors = updates::validate(
            &args.source.name,
            FeatureGates::of(features.enabled([running])),
            &self.version.spec,
            &status,
        );
        let spec = updates::clear(&self.version.spec, &errors);
        let wanted = spec.capabilities.unwrap_or_default();
        let before = status.capabilities.enabled_capabilities.iter().cloned().collect();
        let always =
            flags::given(daemon, "--always-enable-capabilities").into_iter().flat_map(|names| names.split(','));
        let always = always.filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let wish = CapabilityInputs { spec: &wanted, before: &before, always: &always, gates: &gates };
        let capabilities = Some(Capabilities::of(&wish));
        let mut set = |flag: &str, variable: &str| {
            flags::value(daemon, flag, variable).unwrap_or_else(|why| {
                unknowns.push(format!("How {flag} of the daemon is set: {why}. That of this command is used instead."));
                None
            })
        };
        let load = Filter {
            profile: Some(set("--profile", "CLUSTER_PROFILE").unwrap_or_else(|| args.filters.profile.clone())),
            exclude_identifier: set("--exclude-manifests", "EXCLUDE_MANIFESTS")
                .or_else(|| args.filters.exclude_manifests.clone()),
            feature_set: Some(features.set),
            feature_gates: Some(gates),
            ..Filter::default()
        };
        Ok((ApplyFilter { load, capabilities, overrides: spec.overrides }, spec.signature_stores))
    }

    /// The release that runs, if --running gives it: checked against the history.
    async fn running_release(&self, args: &PlanArgs, filter: &ApplyFilter) -> anyhow::Result<Option<Payload>> {
        let Some(running) = &args.running else { return Ok(None) };
        let before = given::read(running, None, &args.image).await?.load(filter.load.clone())?;
        let status = self.version.status.as_ref();
        status.map_or(Ok(()), |status| check_running(&before.release.version, status))?;
        Ok(Some(before))
    }

    /// The cluster configuration that is injected into manifests.
    async fn configuration(&self, payload: &Payload, unknowns: &mut Vec<String>) -> ClusterConfiguration {
        let mut configuration = ClusterConfiguration::default();
        let needed: BTreeSet<Source> = payload.manifests.iter().flat_map(|manifest| Source::of(manifest)).collect();
        for source in needed {
            let Some(kind) = self.kinds.get(Source::API_VERSION, source.kind()) else { continue };
            match self.objects.get(&kind, "", Source::NAME).await {
                Ok(object) => {
                    configuration.update(source, object.as_ref());
                }
                Err(error) => unknowns.push(format!("What is injected into objects from {}: {error}.", source.kind())),
            }
        }
        configuration
    }

    /// The live object of each manifest.
    async fn live_objects(&self, manifests: &[Arc<Manifest>]) -> LiveObjects {
        let resolve = |manifest: &Manifest| {
            self.kinds.resolve(manifest).or_else(|| self.kinds.resolve_in_another_version(manifest))
        };
        let mut by_kind: HashMap<Kind, HashSet<ObjectId>> = HashMap::new();
        for (kind, id) in manifests.iter().filter_map(|manifest| resolve(manifest)) {
            by_kind.entry(kind).or_default().insert(id);
        }
        let reads = futures::stream::iter(by_kind.into_iter().map(|(kind, ids)| async move {
            let found = list::read(&self.objects, &kind, ids).await;
            (kind, found)
        }));
        let reads: HashMap<Kind, ReadObjects> = reads.buffer_unordered(LISTS).collect().await;
        let mut states: HashMap<(String, ObjectId), LiveState> = HashMap::new();
        for (kind, objects) in reads {
            let version = kind.api_version();
            states.extend(objects.into_iter().map(|(id, read)| ((version.clone(), id), state(read))));
        }
        let live = |manifest: &Manifest| match resolve(manifest) {
            None => LiveObject { id: manifest.id.clone(), state: LiveState::NotServed, has_status: true },
            Some((kind, id)) => {
                let found = states.get(&(kind.api_version(), id.clone())).cloned().unwrap_or(LiveState::Absent);
                let same = kind.api_version() == manifest.api_version;
                let state = if same { found } else { in_other_version(found, &kind) };
                LiveObject { id, state, has_status: true }
            }
        };
        manifests.iter().map(|manifest| (manifest.id.clone(), live(manifest))).collect()
    }

    /// Of the objects that the release drops those that exist or could not be read, without those that are to stay.
    async fn left_behind(&self, before: &[Arc<Manifest>], mut dropped: Vec<ObjectId>) -> Vec<ObjectId> {
        let manifests: Vec<_> = before.iter().filter(|manifest| dropped.contains(&manifest.id)).cloned().collect();
        let live = self.live_objects(&manifests).await;
        dropped.retain(|id| match live.get(id).map(|object| &object.state) {
            Some(LiveState::Exists(object)) => !is_to_stay(object),
            state => matches!(state, Some(LiveState::OtherVersion(_) | LiveState::Unreadable(_))),
        });
        dropped
    }

    /// The namespaces of these manifests that exist or could not be read.
    async fn namespaces(&self, manifests: &[Arc<Manifest>]) -> HashSet<String> {
        let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
        let names = manifests.iter().map(|manifest| manifest.id.namespace.as_str()).filter(|name| !name.is_empty());
        let ids = names.map(|name| ObjectId::new("", "Namespace", "", name)).collect();
        let found = list::read(&self.objects, &kind, ids).await.into_iter();
        found.filter(|(_, read)| !matches!(read, Ok(None))).map(|(id, _)| id.name).collect()
    }

    /// Webhooks that are called for the writes.
    async fn webhooks(&self, forecast: &Forecast) -> Vec<String> {
        let group = "admissionregistration.k8s.io";
        let table = [
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "may change"),
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "may refuse"),
        ];
        let plural = |api_version: &str, kind: &str| self.kinds.get(api_version, kind).map(|kind| kind.plural);
        let mut remarks = Vec::new();
        for (kind, resource, what) in table {
            let kind = Kind::known(group, "v1", kind, resource, false);
            match self.objects.all(&kind).await {
                Ok(all) => {
                    let found = forecast::webhooks(&all, forecast, plural);
                    remarks.extend(found.iter().map(|webhook| {
                        format!(
                            "Webhooks of {} {what} {} of the objects that are written.",
                            webhook.name, webhook.writes
                        )
                    }));
                }
                Err(error) => remarks.push(format!("Which webhooks {what} objects that are written: {error}.")),
            }
        }
        remarks
    }
}

/// How the daemon rolls the release out. An install goes on until it has completed, and every other release waits for that.
/// `image`: its pull spec, if that is known.
fn mode(status: &ClusterVersionStatus, version: &str, image: Option<&str>) -> Mode {
    let desired = &status.desired;
    let installed = status.history.iter().any(|entry| entry.state == HistoryState::Completed);
    let same = image.map_or(desired.version == version, |image| same_digest(&desired.image, image));
    if !installed && (status.history.is_empty() || same) { Mode::Install } else { Mode::Update }
}

/// The release that the preconditions are about. Of one whose image is not known: with the image that the update service offers
/// under its version, or with none if it offers none or several.
fn judged(
    release: &Release,
    image: Option<&str>,
    status: &ClusterVersionStatus,
    unknowns: &mut Vec<String>,
) -> Release {
    if image.is_some() {
        return release.clone();
    }
    let available = status.available_updates.iter().flatten();
    let offers = available.chain(status.conditional_updates.iter().map(|update| &update.release));
    let same = offers.filter(|offer| offer.version == release.version && !offer.image.is_empty());
    let images: BTreeSet<&str> = same.map(|offer| offer.image.as_str()).collect();
    let one = images.first().filter(|_| images.len() == 1).map(|image| (*image).to_owned());
    unknowns.push(match &one {
        Some(image) => format!(
            "Whether {} is the release that the update service offers under this version: what is said of {image} is said of it.",
            release.version
        ),
        None => format!("Whether the update service recommends {}: its pull spec is not known.", release.version),
    });
    Release { image: one.unwrap_or_default(), ..release.clone() }
}

/// What is known of the signature now. That nobody could look everywhere is no refusal.
fn take_verified(image: &str, verified: Result<(), VerifyError>, forecast: &mut Forecast, unknowns: &mut Vec<String>) {
    let Err(error) = verified else { return forecast.verified = Some(true) };
    let message = format!("{error}. What the cluster reaches through its proxy may differ");
    if error.is_unknown() {
        return unknowns.push(format!(
            "Whether the release is signed by a key that the running one trusts, because not everything could be read: {message}."
        ));
    }
    forecast.verified = Some(false);
    forecast.blockers.push(Blocker::new(Cause::Signature, image, "Unverified", message));
}

/// Of the objects that the running release deletes those that exist.
fn still_there(live: &LiveObjects, unknowns: &mut Vec<String>) -> Vec<String> {
    let (mut there, mut unread) = (Vec::new(), Vec::new());
    for LiveObject { id, state, .. } in live.values() {
        match state {
            LiveState::Exists(_) | LiveState::OtherVersion(_) => there.push(id.to_string()),
            LiveState::Unreadable(why) => unread.push(format!(
                "Whether {id}, which the running release deletes, is gone: {why}. As long as it exists, updates to another minor \
                 version wait."
            )),
            LiveState::Absent | LiveState::NotServed => {}
        }
    }
    there.sort();
    unread.sort();
    unknowns.extend(unread);
    there
}

/// The daemon's Deployment, or why it is not known.
fn found(read: Result<Option<Value>, ApiError>, own: &ObjectId) -> Result<Value, String> {
    let missing = || format!("Deployment {}/{} does not exist", own.namespace, own.name);
    read.map_err(|error| error.to_string())?.ok_or_else(missing)
}

/// Refuses a release that the cluster does not run. A cluster in the middle of an update runs two.
fn check_running(running: &str, status: &ClusterVersionStatus) -> anyhow::Result<()> {
    let parts = status.history.iter().position(|entry| entry.state == HistoryState::Completed).map_or(0, |at| at + 1);
    let mut run = vec![status.desired.version.as_str()];
    run.extend(status.history.iter().take(parts).map(|entry| entry.version.as_str()));
    run.retain(|version| !version.is_empty());
    run.dedup();
    ensure!(
        run.is_empty() || run.contains(&running),
        "--running is release {running}, but the cluster runs {}: give that release",
        run.join(" or ")
    );
    Ok(())
}

/// Operators that could not be listed are not taken for none.
fn refusals(operators: &Operators) -> Read<Vec<NotUpgradeable>> {
    let found = match operators {
        Read::Value(operators) => operators.as_slice(),
        Read::Absent => &[],
        Read::Failed(error) => return Read::Failed(error.clone()),
    };
    Read::Value(upgradeable::refusals(found.iter().map(|operator| {
        let conditions = operator.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        (operator.metadata.name.as_deref().unwrap_or_default(), conditions)
    })))
}

fn state(read: Result<Option<Value>, ApiError>) -> LiveState {
    match read {
        Ok(Some(object)) => LiveState::Exists(Arc::new(object)),
        Ok(None) => LiveState::Absent,
        Err(error) => LiveState::Unreadable(error.to_string()),
    }
}

/// The state of an object that was read in another version of its kind than its manifest names.
fn in_other_version(state: LiveState, kind: &Kind) -> LiveState {
    match state {
        LiveState::Exists(_) => LiveState::OtherVersion(format!(
            "it exists as {} {}; the version that the release uses is not served yet",
            kind.api_version(),
            kind.kind
        )),
        LiveState::Absent => LiveState::NotServed,
        other => other,
    }
}

#[cfg(test)]
mod tests;
