//! The cluster as what an update starts from: read once, by the same lists as the daemon's, and asked what is allowed.

use super::release::{self, Given};
use super::{PlanArgs, always, own_deployment, prepare, warnings};
use crate::api::{ClusterVersion, HistoryState};
use crate::cli::status::State;
use crate::cluster::kinds::Kind;
use crate::cluster::survey::{Survey, survey};
use crate::cluster::{ApiError, Clients, Kinds, Objects, access};
use crate::daemon::enabled_gates;
use crate::graph::Mode;
use crate::merge::Owner;
use crate::payload::filter::{self, Filter};
use crate::payload::{Manifest, ObjectId, Payload};
use crate::plan::{self, Action, Blocker, Cause, Forecast, Found, Hiding, Question, Side, Sight};
use crate::updates::{self, Gates};
use crate::work::apply::identity;
use anyhow::{Context, bail};
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
    let filter = cluster.filter(args, &mut unknowns).await?;
    let payload = to.load(filter.clone())?;
    let found = cluster.look(&payload.manifests).await;
    let status = cluster.version.status.clone().unwrap_or_default();
    let name = &args.source.name;
    let errors = updates::validate(name, Gates::default(), &cluster.version.spec, &status);
    let spec = updates::clear(&cluster.version.spec, &errors);
    let hide = |manifest: &Arc<Manifest>| {
        filter::overridden(manifest, &spec.overrides).then(|| Hiding {
            by_override: true,
            reason: "spec.overrides of the ClusterVersion takes it out of the daemon's hands".to_owned(),
        })
    };
    let uid = cluster.version.metadata.uid.clone().unwrap_or_default();
    let owner = Owner { name: name.clone(), uid };
    let installed = status.history.iter().any(|entry| entry.state == HistoryState::Completed);
    let mut forecast = plan::forecast(&Question {
        from: Side { source: args.from.clone(), release: status.desired.clone() },
        to: Side { source: to.given.clone(), release: payload.release.clone() },
        mode: if installed { Mode::Update } else { Mode::Install },
        payload: &payload,
        found: &found,
        hidden: &payload.manifests.iter().map(hide).collect::<Vec<_>>(),
        prepared: &|manifest| prepare(manifest, Some(&owner)),
        own_deployment: &own_deployment(args),
        values: args.values,
    });
    let (from, version) = (&status.desired.version, &payload.release.version);
    forecast.blockers.extend(plan::conditions(&cluster.version, &cluster.state.operators, from, version));
    forecast.dropped = dropped(args, filter, &payload, &mut unknowns).await?;
    cluster.permissions(args, &mut forecast, &mut unknowns).await;
    unknowns.extend(cluster.webhooks(&forecast).await);
    unknowns.extend(to.unknowns());
    unknowns.extend(warnings(&payload));
    unknowns.extend(always());
    forecast.unknowns = unknowns;
    Ok(forecast)
}

/// What the release that runs names and the new one does not.
async fn dropped(
    args: &PlanArgs,
    filter: Filter,
    after: &Payload,
    unknowns: &mut Vec<String>,
) -> anyhow::Result<Vec<ObjectId>> {
    let Some(running) = &args.running else {
        let told =
            "Which objects of the release that runs the new one does not name any more; they stay. --running tells.";
        unknowns.push(told.to_owned());
        return Ok(Vec::new());
    };
    let before = release::read(running, None, args).await?.load(filter)?;
    let prepared = |manifest: &Manifest| prepare(manifest, None);
    Ok(plan::of_release(&before, after, &prepared, &[]).1)
}

impl Cluster {
    async fn connect(args: &PlanArgs) -> anyhow::Result<Cluster> {
        let clients = Clients::connect_as(args.kubeconfig.as_deref(), args.user.as_deref()).await?;
        // Nothing here may write.
        let objects = Objects::new(clients.call.clone(), Arc::new(|| false));
        let kinds = Kinds::default();
        kinds.refresh(&clients.call).await?;
        let state = State::gather(&clients.call, &args.source).await?;
        let Some(version) = state.cluster_version.clone() else {
            bail!(
                "this cluster has no ClusterVersion {:?}: nothing was installed yet, or --name names another one. A plan \
                 of an installation is made from a folder: --from and --to may be two releases",
                args.source.name
            );
        };
        Ok(Cluster { clients, objects, kinds, version, state })
    }

    /// The filter that the daemon loads the target with: profile and exclusions as its Deployment says, feature set and
    /// gates as FeatureGate says for the release that runs (payload-and-apply §2.2-§2.4).
    async fn filter(&self, args: &PlanArgs, unknowns: &mut Vec<String>) -> anyhow::Result<Filter> {
        let kind = Kind::known("config.openshift.io", "v1", "FeatureGate", "featuregates", false);
        let gate = self.objects.get(&kind, "", "cluster").await.context("which feature gates are enabled?")?;
        let gate = gate.unwrap_or(Value::Null);
        let running = self.version.status.as_ref().map(|status| status.desired.version.as_str()).unwrap_or_default();
        let own = own_deployment(args);
        let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
        let deployment = match self.objects.get(&kind, &own.namespace, &own.name).await {
            Ok(deployment) => deployment.unwrap_or(Value::Null),
            Err(error) => {
                unknowns
                    .push(format!("For which cluster profile the daemon runs ({error}); --profile is taken for it."));
                Value::Null
            }
        };
        let set = |name: &str| environment(&deployment, name);
        Ok(Filter {
            profile: Some(set("CLUSTER_PROFILE").unwrap_or_else(|| args.filters.profile.clone())),
            exclude_identifier: set("EXCLUDE_MANIFESTS").or_else(|| args.filters.exclude_manifests.clone()),
            feature_set: Some(gate.pointer("/spec/featureSet").and_then(Value::as_str).unwrap_or_default().to_owned()),
            feature_gates: Some(enabled_gates(&gate, running)),
            ..Filter::default()
        })
    }

    /// What there is of each manifest's object.
    async fn look(&self, manifests: &[Arc<Manifest>]) -> Vec<Found> {
        let resolve = |manifest: &Manifest| {
            let kind = self.kinds.get(&manifest.api_version, &manifest.id.kind)?;
            let id = identity(&kind, manifest);
            Some((kind, id))
        };
        let mut by_kind: HashMap<Kind, HashSet<ObjectId>> = HashMap::new();
        for (kind, id) in manifests.iter().filter_map(|manifest| resolve(manifest)) {
            by_kind.entry(kind).or_default().insert(id);
        }
        let surveys = futures::stream::iter(by_kind.into_iter().map(|(kind, ids)| async move {
            let found = survey(&self.objects, &kind, ids).await;
            (kind, found)
        }));
        let surveys: HashMap<Kind, Survey> = surveys.buffer_unordered(LISTS).collect().await;
        let mut sights: HashMap<(String, ObjectId), Sight> = HashMap::new();
        for (kind, survey) in surveys {
            let version = kind.api_version();
            sights.extend(survey.into_iter().map(|(id, read)| ((version.clone(), id), sight(read))));
        }
        let found = manifests.iter().map(|manifest| match resolve(manifest) {
            None => Found { id: manifest.id.clone(), sight: Sight::NotServed, reports_status: true },
            Some((_, id)) => {
                let sight = sights.get(&(manifest.api_version.clone(), id.clone())).cloned();
                Found { id, sight: sight.unwrap_or(Sight::Absent), reports_status: true }
            }
        });
        found.collect()
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

/// A variable of any container of a Deployment.
fn environment(deployment: &Value, name: &str) -> Option<String> {
    let list = |value: Option<&Value>| value.and_then(Value::as_array).cloned().unwrap_or_default();
    let containers = list(deployment.pointer("/spec/template/spec/containers"));
    let mut variables = containers.iter().flat_map(|container| list(container.get("env")));
    let variable = variables.find(|v| v.get("name").and_then(Value::as_str) == Some(name))?;
    variable.get("value").and_then(Value::as_str).map(str::to_owned)
}
