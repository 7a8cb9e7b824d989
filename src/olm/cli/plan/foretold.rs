//! What a round would write: its bundles are fetched, and the objects are read that they are about.

use super::reader::Tried;
use super::state::State;
use crate::cli::release::ImageSource;
use crate::object::read::Read;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::subscription::Subscription;
use crate::olm::bundle::{Bundle, read};
use crate::olm::catalog::objects::manifests;
use crate::olm::cli::input;
use crate::olm::forecast::known::{Key, Known};
use crate::olm::forecast::{
    Forecast, Premise, ReadStep, Unfit, belonging, forecast, kinds, looked_at, replaced, steps, stricter, users,
};
use crate::olm::operator::deployment::config::Subscriber;
use crate::olm::plan::reference::{Found, Reference, Unpacked as Unpacks};
use crate::olm::plan::step::Action;
use crate::olm::resolve::answer::New;
use crate::olm::subscription::Unpacked;
use crate::olm::subscription::forecast::{Hypothesis, PlannedPlan, Round};
use crate::version::parse_tolerant;
use anyhow::Context;
use futures::StreamExt;
use futures::stream;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Requests side by side.
const AT_ONCE: usize = 8;
/// What a plan is called whose name depends on what does not exist yet.
const UNNAMED: &str = "install-*";
const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A round, and what it would write.
#[derive(Debug)]
pub(super) struct Foretold {
    pub round: Round,
    pub forecast: Forecast,
}

/// How objects are shown, and whether the round is the first one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Showing<'a> {
    pub values: bool,
    pub is_first: bool,
    pub images: &'a ImageSource,
}

/// `now`: the namespace before the round. `known` is afterwards what the cluster would be.
pub(super) async fn foretell(
    state: &State,
    (now, round): (&Hypothesis, &Round),
    known: &mut Known,
    showing: Showing<'_>,
) -> anyhow::Result<Forecast> {
    let wanted = now.planned(round, &|_| Unpacked::Pending(String::new())).wanted;
    let (mut bundles, mut failed) = (BTreeMap::new(), Vec::new());
    for new in &wanted {
        match fetched(new, now, showing.images).await {
            Ok(bundle) => drop(bundles.insert(new.name.clone(), Arc::new(bundle))),
            Err(error) => failed.push(format!("bundle {} cannot be fetched from here: {error:#}", new.name)),
        }
    }
    let unpacked =
        |new: &New| bundles.get(&new.name).map_or(Unpacked::Pending(String::new()), |it| Unpacked::Done(it.clone()));
    let planned = now.planned(round, &unpacked);
    if !failed.is_empty() {
        return Ok(Forecast { held: failed, ..Forecast::default() });
    }
    let subscribers = subscribers(now, &wanted);
    let (mut all, mut superseded) = (Forecast::default(), planned.superseded);
    let kubernetes = parse_tolerant(&state.cluster.kubernetes)
        .map_err(|_| "the version of the API server is not known from here".to_owned());
    for planned in planned.plans {
        match object(state, planned, showing.is_first && !now.is_supposed())? {
            Err(cause) => all.held.push(cause),
            Ok((plan, is_new)) => {
                let contents = contents(state, &plan, &bundles, showing.images).await;
                let unfit = look(state, &plan, &contents, known).await?;
                let premise = Premise {
                    namespace: &now.namespace,
                    plan: &plan,
                    contents: &contents,
                    is_new,
                    superseded: &superseded,
                    groups: &state.groups,
                    others: &state.others,
                    subscribers: &subscribers,
                    unfit: &unfit,
                    kubernetes: kubernetes.as_ref().map_err(String::as_str),
                    values: showing.values,
                };
                let mut told = forecast(&premise, known);
                if showing.is_first && told.held.is_empty() {
                    try_out(state, &mut told).await;
                }
                all.extend(told);
                superseded.clear();
            }
        }
    }
    Ok(all)
}

/// Subscriptions with what they have chosen, or would choose in this round.
pub(super) fn subscribers(now: &Hypothesis, wanted: &[New]) -> Vec<Subscriber> {
    let of = |subscription: &Arc<Subscription>| {
        let name = subscription.metadata.name.clone().unwrap_or_default();
        let status = subscription.status.as_ref();
        let new = wanted.iter().find(|new| new.subscriptions.contains(&name)).map(|new| new.name.clone());
        Subscriber {
            current_csv: new.or_else(|| status.map(|it| it.current_csv.clone())).unwrap_or_default(),
            installed_csv: status.map(|it| it.installed_csv.clone()).unwrap_or_default(),
            config: subscription.spec.config.clone(),
            package: subscription.spec.name.clone(),
            name,
        }
    };
    now.subscriptions.iter().map(of).collect()
}

/// Asks the API server about all that would be written, without writing it, by the rights of who asks.
pub(super) async fn try_out(state: &State, told: &mut Forecast) {
    let trials = std::mem::take(&mut told.trials);
    let tried = trials.iter().map(|trial| async move { (&trial.key, state.reader.try_out(trial).await) });
    let tried: Vec<_> = stream::iter(tried.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
    let mut not_allowed = Vec::new();
    for (key, tried) in tried {
        match tried {
            Tried::Refused(cause) => told.held.push(format!("{key}: the API server would refuse it: {cause}")),
            Tried::NotAllowed(cause) => not_allowed.push(cause),
            Tried::NoObjection => {}
        }
    }
    if let Some(first) = not_allowed.first() {
        told.unknown.push(format!(
            "Whether the API server takes {} of the objects: a dry run is not allowed to who asks, who needs the rights to write them: {first}",
            not_allowed.len()
        ));
    }
}

/// A plan with its steps and whether it is still to be made, or why there is none.
fn object(state: &State, planned: PlannedPlan, is_named: bool) -> anyhow::Result<Result<(InstallPlan, bool), String>> {
    Ok(match planned {
        PlannedPlan::Held(cause) => Err(cause),
        PlannedPlan::Exists(name) => {
            let found = state.plans.iter().find(|plan| plan.metadata.name.as_deref() == Some(&name));
            Ok((found.cloned().with_context(|| format!("InstallPlan {name} is gone: try again"))?, false))
        }
        PlannedPlan::New(new) => match new.object(&BTreeMap::new()) {
            Err(error) => Err(error.to_string()),
            Ok((mut plan, status)) => {
                plan.status = Some(status);
                if !is_named {
                    plan.metadata.name = Some(UNNAMED.to_owned());
                }
                Ok((plan, true))
            }
        },
    })
}

/// What the steps of a plan refer to. `bundles`: those that were fetched already, by name.
pub(super) async fn contents(
    state: &State,
    plan: &InstallPlan,
    bundles: &BTreeMap<String, Arc<Bundle>>,
    images: &ImageSource,
) -> Found {
    let mut found = Found::default();
    let Some(status) = &plan.status else { return found };
    let namespace = state.hypothesis.namespace.as_str();
    let manifests = || status.plan.iter().map(|step| step.resource.manifest.as_str());
    let mut by_bundle: BTreeMap<(String, String), BTreeSet<Reference>> = BTreeMap::new();
    for reference in manifests().filter_map(Reference::of) {
        by_bundle.entry((reference.name.clone(), reference.image.clone())).or_default().insert(reference);
    }
    for ((name, image), references) in by_bundle {
        let read = match bundles.get(&name) {
            Some(bundle) => Ok(bundle.clone()),
            None => of_image(&image, images).await.map(Arc::new),
        };
        match read {
            Ok(bundle) => found.add(&bundle, namespace, status, &references),
            Err(error) => found.fail(&references, &format!("it cannot be read from here: {error:#}")),
        }
    }
    for reference in manifests().filter_map(Unpacks::of).collect::<BTreeSet<_>>() {
        let key = Key::new(("", "ConfigMap"), &reference.namespace, &reference.name);
        let bundle = match state.reader.get("v1", &key).await {
            Read::Value(map) => read::unpacked(&map),
            Read::Absent => Err("it does not exist any more".to_owned()),
            Read::Failed(cause) => Err(cause),
        };
        found.add_unpacked(reference, namespace, bundle);
    }
    found
}

async fn of_image(image: &str, images: &ImageSource) -> anyhow::Result<Bundle> {
    Ok(input::bundle(image, images).await?.0.bundle()?)
}

/// The content of a bundle.
async fn fetched(new: &New, now: &Hypothesis, images: &ImageSource) -> anyhow::Result<Bundle> {
    let bundle = if new.image.is_empty() {
        let content = now.catalogs.get(&new.catalog).and_then(|it| it.content.as_ref());
        let content = content.context("its catalog has no content")?;
        let found = content.index.package(&new.package).and_then(|package| package.bundle(&new.name));
        let manifests = manifests(content, found.context("its catalog does not have it")?)?;
        read::manifests(&new.name, &manifests)?
    } else {
        of_image(&new.image, images).await?
    };
    bundle.expect_name(&new.name)?;
    Ok(bundle)
}

/// Reads the objects that are not known yet, each with its apiVersion.
pub(super) async fn look_at(state: &State, all: impl IntoIterator<Item = (String, Key)>, known: &mut Known) {
    let open = all.into_iter().filter(|(_, key)| !known.has(key));
    let reads = open.map(|(version, key)| async move {
        let read = state.reader.get(&version, &key).await;
        (key, read)
    });
    let read: Vec<(Key, Read<_>)> = stream::iter(reads.collect::<Vec<_>>()).buffered(AT_ONCE).collect().await;
    read.into_iter().for_each(|(key, read)| known.add(key, read));
}

/// Reads all that the steps of the plan are about and that is not known yet. Returns which objects do not fit new schemas.
pub(super) async fn look(
    state: &State,
    plan: &InstallPlan,
    contents: &Found,
    known: &mut Known,
) -> anyhow::Result<Unfit> {
    let (reader, namespace) = (&state.reader, state.hypothesis.namespace.as_str());
    let steps = steps(plan, contents);
    for (api_version, kind) in kinds(&steps) {
        if !known.knows_kind(&api_version, &kind) {
            known.add_kind(&api_version, &kind, reader.scope(&api_version, &kind).await?);
        }
    }
    let of_groups = state.groups.iter().flat_map(users::of_group);
    let all = looked_at(&steps, namespace, known).into_iter().chain(of_groups);
    look_at(state, all, known).await;
    for csv in replaced(&steps) {
        look_for_roles(state, csv, known).await;
    }
    unfit(state, &steps, known).await
}

/// What belongs to a ClusterServiceVersion of the namespace and has no namespace.
pub(super) async fn look_for_roles(state: &State, csv: &str, known: &mut Known) {
    let labels = belonging(csv, &state.hypothesis.namespace);
    for kind in ["ClusterRole", "ClusterRoleBinding"] {
        match state.reader.labelled(RBAC, kind, &labels).await {
            Ok(all) => all.into_iter().for_each(|object| {
                let name = object.pointer("/metadata/name").and_then(|name| name.as_str()).unwrap_or_default();
                let key = Key::new(("rbac.authorization.k8s.io", kind), "", name);
                if !known.has(&key) {
                    known.add(key, Read::Value(object));
                }
            }),
            Err(cause) => {
                known.unread.push(format!("Which {kind}s go with {csv}: they could not be read: {cause}"));
            }
        }
    }
}

async fn unfit(state: &State, steps: &[ReadStep], known: &Known) -> anyhow::Result<Unfit> {
    let mut unfit = Unfit::new();
    for item in steps.iter().flatten().filter(|item| item.action == Action::Define) {
        let Some(live) = known.object(&Key::new((&item.group, &item.kind), "", &item.name)) else { continue };
        for (version, schema) in stricter(&live, item) {
            let invalid = state.reader.invalid(&live, &version, &schema).await;
            unfit.insert((item.name.clone(), version), invalid);
        }
    }
    Ok(unfit)
}
