//! The cluster as what an update starts from: read once, by the same lists as the daemon's, and asked what is allowed.

use super::release::{self, Given};
use super::{PlanArgs, always, imply, own_deployment, prepare, takes_part, warnings};
use crate::api::{ClusterVersion, ClusterVersionStatus, HistoryState};
use crate::cli::reach;
use crate::cli::status::State;
use crate::cluster::kinds::Kind;
use crate::cluster::list::{self, ReadObjects};
use crate::cluster::{ApiError, Clients, Kinds, Objects, access};
use crate::graph::Mode;
use crate::merge::Owner;
use crate::merge::inject::{ClusterConfiguration, Source};
use crate::payload::capability::Wish;
use crate::payload::{ApplyFilter, Capabilities, Filter, Manifest, ObjectId, Payload};
use crate::plan::{self, Action, Blocker, Cause, Findings, Forecast, Found, Question, Side, Sight};
use crate::updates::{self, FeatureGates};
use crate::work::features;
use anyhow::{Context, bail, ensure};
use futures::StreamExt;
use serde_json::Value;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

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
pub async fn forecast(args: &PlanArgs, to: &Given) -> anyhow::Result<Forecast> {
    let cluster = Cluster::connect(args).await?;
    let mut unknowns: Vec<String> = cluster.state.remarks.clone();
    let status = cluster.version.status.clone().unwrap_or_default();
    let daemon = cluster.daemon(args, &mut unknowns).await;
    let mut by = cluster.filter(&daemon, args, to.version()?, &mut unknowns).await?;
    let payload = to.load(by.load.clone())?;
    let found = cluster.look(&payload.manifests).await;
    let before = match &args.running {
        Some(running) => Some(release::read(running, None, args).await?.load(by.load.clone())?),
        None => None,
    };
    if let Some(before) = &before {
        runs(&before.release.version, &status)?;
    }
    let implied = match &before {
        Some(before) => imply(&mut by, &payload.manifests, &before.manifests),
        None => imply(&mut by, &payload.manifests, &plan::managed(&found, &payload.manifests)),
    };
    let selection = payload.select(&by);
    takes_part(&selection, &payload, &by)?;
    let configuration = cluster.configuration(&payload, &mut unknowns).await;
    let uid = cluster.version.metadata.uid.clone().unwrap_or_default();
    let owner = Owner { name: args.source.name.clone(), uid };
    let prepared = |manifest: &Manifest| prepare(manifest, Some(&owner), &configuration);
    let installed = status.history.iter().any(|entry| entry.state == HistoryState::Completed);
    let mut forecast = plan::forecast(&Question {
        from: Side { source: args.from.clone(), release: status.desired.clone() },
        to: Side { source: to.given.clone(), release: payload.release.clone() },
        mode: if installed { Mode::Update } else { Mode::Install },
        manifests: &selection.manifests,
        left_out: plan::left_out(&selection, &by),
        found: &found,
        namespaces: Some(cluster.namespaces(&selection.manifests).await),
        prepared: &prepared,
        own_deployment: &own_deployment(args),
        values: args.values,
    });
    let (from, version) = (&status.desired.version, &payload.release.version);
    forecast.blockers.extend(plan::conditions(&cluster.version, &cluster.state.operators, from, version));
    forecast.implicit_capabilities = implied.into_iter().collect();
    match &before {
        Some(before) => forecast.dropped = plan::dropped(&before.select(&by).manifests, &selection, &forecast.excluded),
        None => unknowns.push(
            "Which objects of the release that runs the new one does not name any more; they stay. --running tells."
                .to_owned(),
        ),
    }
    cluster.permissions(args, &mut forecast, &mut unknowns).await;
    unknowns.extend(cluster.webhooks(&forecast).await);
    unknowns.push(
        "Whether the release is signed by a key that the running one trusts; the daemon verifies that before it begins."
            .to_owned(),
    );
    unknowns.extend(to.unknowns());
    unknowns.extend([before.as_ref(), Some(&payload)].into_iter().flatten().flat_map(warnings));
    unknowns.extend(always());
    forecast.unknowns = unknowns;
    Ok(forecast)
}

impl Cluster {
    async fn connect(args: &PlanArgs) -> anyhow::Result<Cluster> {
        let clients = Clients::connect_as(args.kubeconfig.as_deref(), args.user.as_deref()).await?;
        // Nothing here may write.
        let objects = Objects::new(clients.call.clone(), Arc::new(|| false));
        let kinds = Kinds::default();
        let fail = |error| reach::explain(&clients.server(), error);
        kinds.refresh(&clients.call).await.map_err(fail)?;
        let state = State::gather(&clients.call, &args.source).await.map_err(fail)?;
        let Some(version) = state.cluster_version.clone() else {
            bail!(
                "this cluster has no ClusterVersion {:?}: nothing was installed yet, or --name names another one. A plan \
                 of an installation is made from a folder: --from and --to may be two releases",
                args.source.name
            );
        };
        Ok(Cluster { clients, objects, kinds, version, state })
    }

    /// The daemon's Deployment, which says how it was set up.
    async fn daemon(&self, args: &PlanArgs, unknowns: &mut Vec<String>) -> Value {
        let own = own_deployment(args);
        let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
        match self.objects.get(&kind, &own.namespace, &own.name).await {
            Ok(deployment) => deployment.unwrap_or(Value::Null),
            Err(error) => {
                unknowns
                    .push(format!("How the daemon was set up, {error}; the flags of this command are taken for it."));
                Value::Null
            }
        }
    }

    /// What the daemon will filter the release `to` by: profile and exclusions as its Deployment says, feature set and
    /// gates as FeatureGate, capabilities and overrides as ClusterVersion says (payload-and-apply §2.2-§2.8).
    async fn filter(
        &self,
        daemon: &Value,
        args: &PlanArgs,
        to: String,
        unknowns: &mut Vec<String>,
    ) -> anyhow::Result<ApplyFilter> {
        let features = features::read(&self.objects).await.context("which feature gates are enabled?")?;
        let status = self.version.status.clone().unwrap_or_default();
        let running = status.desired.version.as_str();
        if !features.gates.is_empty() && !features.gates.contains_key(&to) {
            unknowns.push(format!("Which feature gates {to} will have; those of {running} are taken for it."));
        }
        let history = status.history.iter().map(|entry| entry.version.as_str());
        let versions = [to.as_str(), running].into_iter().chain(history);
        let gates = features.enabled(versions).cloned().unwrap_or_default();
        let errors = updates::validate(&args.source.name, FeatureGates::default(), &self.version.spec, &status);
        let spec = updates::clear(&self.version.spec, &errors);
        let wanted = spec.capabilities.unwrap_or_default();
        let before = status.capabilities.enabled_capabilities.iter().cloned().collect();
        let always = flag(daemon, "--always-enable-capabilities").unwrap_or_default();
        let always = always.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        let wish = Wish { spec: &wanted, before: &before, always: &always, gates: &gates };
        let capabilities = Some(Capabilities::of(&wish));
        let set = |name: &str| environment(daemon, name);
        let load = Filter {
            profile: Some(set("CLUSTER_PROFILE").unwrap_or_else(|| args.filters.profile.clone())),
            exclude_identifier: set("EXCLUDE_MANIFESTS").or_else(|| args.filters.exclude_manifests.clone()),
            feature_set: Some(features.set),
            feature_gates: Some(gates),
            ..Filter::default()
        };
        Ok(ApplyFilter { load, capabilities, overrides: spec.overrides })
    }

    /// What of the cluster's configuration goes into manifests.
    async fn configuration(&self, payload: &Payload, unknowns: &mut Vec<String>) -> ClusterConfiguration {
        let mut configuration = ClusterConfiguration::default();
        let needed: BTreeSet<Source> = payload.manifests.iter().flat_map(|manifest| Source::of(manifest)).collect();
        for source in needed {
            let Some(kind) = self.kinds.get(Source::API_VERSION, source.kind()) else { continue };
            match self.objects.get(&kind, "", Source::NAME).await {
                Ok(object) => {
                    configuration.take(source, object.as_ref());
                }
                Err(error) => unknowns.push(format!("What {} puts into objects, {error}.", source.kind())),
            }
        }
        configuration
    }

    /// What there is of each manifest's object.
    async fn look(&self, manifests: &[Arc<Manifest>]) -> Findings {
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
        let mut sights: HashMap<(String, ObjectId), Sight> = HashMap::new();
        for (kind, objects) in reads {
            let version = kind.api_version();
            sights.extend(objects.into_iter().map(|(id, read)| ((version.clone(), id), sight(read))));
        }
        let found = |manifest: &Manifest| match resolve(manifest) {
            None => Found { id: manifest.id.clone(), sight: Sight::NotServed, reports_status: true },
            Some((kind, id)) => {
                let sight = sights.get(&(kind.api_version(), id.clone())).cloned().unwrap_or(Sight::Absent);
                let sight = if kind.api_version() == manifest.api_version { sight } else { of_another(sight, &kind) };
                Found { id, sight, reports_status: true }
            }
        };
        manifests.iter().map(|manifest| (manifest.id.clone(), found(manifest))).collect()
    }

    /// The namespaces of these manifests that are there, or of which that is not known.
    async fn namespaces(&self, manifests: &[Arc<Manifest>]) -> HashSet<String> {
        let kind = Kind::known("", "v1", "Namespace", "namespaces", false);
        let names = manifests.iter().map(|manifest| manifest.id.namespace.as_str()).filter(|name| !name.is_empty());
        let ids = names.map(|name| ObjectId::new("", "Namespace", "", name)).collect();
        let found = list::read(&self.objects, &kind, ids).await.into_iter();
        found.filter(|(_, read)| !matches!(read, Ok(None))).map(|(id, _)| id.name).collect()
    }

    /// Adds what is not allowed of what the update needs to the blockers.
    async fn permissions(&self, args: &PlanArgs, forecast: &mut Forecast, unknowns: &mut Vec<String>) {
        let client = &self.clients.call;
        if args.user.is_none() {
            let own = own_deployment(args);
            unknowns.push(format!(
                "Whether the daemon's own rights suffice: those of this kubeconfig were asked for. \
                 --as system:serviceaccount:{}:{} asks for the daemon's.",
                own.namespace, own.name
            ));
        }
        match access::may_everything(client).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => return unknowns.push(format!("Whether the rights suffice: {error}.")),
        }
        let mut needs: BTreeSet<(String, String, &'static str)> = BTreeSet::new();
        for step in forecast.steps() {
            let verbs: &[&'static str] = match step.action {
                Action::Create => &["create"],
                Action::Change { .. } => &["update"],
                Action::Replace { .. } => &["delete", "create"],
                Action::Delete => &["delete"],
                _ => &[],
            };
            let all = ["list", "watch"].iter().chain(verbs);
            needs.extend(all.map(|verb| (step.api_version.clone(), step.object.kind.clone(), *verb)));
        }
        for (api_version, kind, verb) in needs {
            let Some(kind) = self.kinds.get(&api_version, &kind) else { continue };
            let object =
                if kind.group.is_empty() { kind.plural.clone() } else { format!("{}.{}", kind.plural, kind.group) };
            match access::may(client, verb, &kind).await {
                Ok(true) => {}
                Ok(false) => {
                    let message = format!("{} may not {verb} {object} in the whole cluster", who(args));
                    forecast.blockers.push(Blocker::of(Cause::Permission, object, "Forbidden", message));
                }
                Err(error) => unknowns.push(format!("Whether the rights suffice: {error}.")),
            }
        }
    }

    /// Who else has a say in what is stored.
    async fn webhooks(&self, forecast: &Forecast) -> Vec<String> {
        let group = "admissionregistration.k8s.io";
        let table = [
            ("MutatingWebhookConfiguration", "mutatingwebhookconfigurations", "may change"),
            ("ValidatingWebhookConfiguration", "validatingwebhookconfigurations", "may refuse"),
        ];
        let plural = |api_version: &str, kind: &str| self.kinds.get(api_version, kind).map(|kind| kind.plural);
        let mut told = Vec::new();
        for (kind, resource, what) in table {
            let kind = Kind::known(group, "v1", kind, resource, false);
            match self.objects.page(&kind, None).await {
                Ok(page) => {
                    let found = plan::webhooks(&page.items, forecast, plural);
                    told.extend(found.iter().map(|webhook| {
                        format!(
                            "Webhooks of {} {what} {} of the objects that are written.",
                            webhook.name, webhook.writes
                        )
                    }));
                }
                Err(error) => told.push(format!("Which webhooks {what} what is written: {error}.")),
            }
        }
        told
    }
}

/// Refuses a release that the cluster does not come from. An update that is not complete comes from two.
fn runs(running: &str, status: &ClusterVersionStatus) -> anyhow::Result<()> {
    let parts = status.history.iter().position(|entry| entry.state == HistoryState::Completed).map_or(0, |at| at + 1);
    let mut run = vec![status.desired.version.as_str()];
    run.extend(status.history.iter().take(parts).map(|entry| entry.version.as_str()));
    run.retain(|version| !version.is_empty());
    run.dedup();
    ensure!(
        run.is_empty() || run.contains(&running),
        "--running is release {running}, but the cluster runs {}: give that one",
        run.join(" or ")
    );
    Ok(())
}

fn who(args: &PlanArgs) -> String {
    args.user.clone().unwrap_or_else(|| "the user of the kubeconfig".to_owned())
}

fn sight(read: Result<Option<Value>, ApiError>) -> Sight {
    match read {
        Ok(Some(object)) => Sight::There(Arc::new(object)),
        Ok(None) => Sight::Absent,
        Err(error) => Sight::Unread(error.to_string()),
    }
}

/// What was seen of an object by a version of its kind that its manifest does not use, since that one is not served yet.
fn of_another(sight: Sight, kind: &Kind) -> Sight {
    match sight {
        Sight::There(_) => Sight::Otherwise(format!(
            "it is there, as {} {}; the version that the release uses is not served yet",
            kind.api_version(),
            kind.kind
        )),
        Sight::Absent => Sight::NotServed,
        other => other,
    }
}

fn containers(deployment: &Value) -> impl Iterator<Item = &Value> {
    deployment.pointer("/spec/template/spec/containers").and_then(Value::as_array).into_iter().flatten()
}

fn list<'a>(value: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> + use<'a> {
    value.get(key).and_then(Value::as_array).into_iter().flatten()
}

/// A variable of any container of a Deployment.
fn environment(deployment: &Value, name: &str) -> Option<String> {
    let mut variables = containers(deployment).flat_map(|container| list(container, "env"));
    let variable = variables.find(|v| v.get("name").and_then(Value::as_str) == Some(name))?;
    variable.get("value").and_then(Value::as_str).map(str::to_owned)
}

/// The value of a flag `--name=value` of any container.
fn flag(deployment: &Value, name: &str) -> Option<String> {
    let words =
        containers(deployment).flat_map(|c| list(c, "command").chain(list(c, "args"))).filter_map(Value::as_str);
    words.filter_map(|word| word.split_once('=')).find(|(flag, _)| *flag == name).map(|(_, value)| value.to_owned())
}
