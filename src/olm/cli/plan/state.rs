//! What is read of a namespace before its plan is made.

use super::reader::{CLUSTER, Reader};
use super::{ClusterArgs, PlanArgs};
use crate::cli::release::ImageSource;
use crate::object::read::Read;
use crate::olm::api::catalog_source::{CatalogSource, condition};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::keys::label;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::api::subscription::Subscription;
use crate::olm::catalog::served::Content;
use crate::olm::cli::input;
use crate::olm::forecast::known::{Key, Known};
use crate::olm::net::store;
use crate::olm::resolve::answer::Id;
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::subscription::Visible;
use crate::olm::subscription::forecast::Hypothesis;
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, Plan};
use anyhow::{Context, bail};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

pub(super) struct State {
    pub reader: Reader,
    pub hypothesis: Hypothesis,
    pub cluster: ClusterVersions,
    pub groups: Vec<OperatorGroup>,
    /// Those of other namespaces.
    pub others: Vec<OperatorGroup>,
    pub plans: Vec<InstallPlan>,
    /// With the ClusterServiceVersions.
    pub known: Known,
}

/// The namespace as it is. `given`: contents of catalogs by name; `None` where catalogs do not matter. `from`: the cluster or a folder.
pub(super) async fn read(
    (namespace, from): (&str, &str),
    given: Option<&BTreeMap<&str, &str>>,
    args: &ClusterArgs,
) -> anyhow::Result<State> {
    let reader = match from {
        CLUSTER => Reader::connect(args.kubeconfig.as_deref()).await?,
        folder => Reader::folder(Path::new(folder))?,
    };
    let here = Some(namespace);
    let subscriptions: Vec<Subscription> = reader.listed(here).await?;
    let groups: Vec<OperatorGroup> = reader.listed(here).await?;
    let plans: Vec<InstallPlan> = reader.listed(here).await?;
    let (csvs, mut known) = csvs(&reader, namespace).await?;
    let others = others(&reader, namespace, &mut known).await;
    let mut hypothesis = Hypothesis {
        namespace: namespace.to_owned(),
        global: args.global_namespace.clone(),
        subscriptions: subscriptions.into_iter().map(Arc::new).collect(),
        csvs,
        groups: groups.iter().map(|group| Arc::new(Group::of(group))).collect(),
        plans: plans.iter().map(|plan| Arc::new(Plan::of(plan))).collect(),
        catalogs: BTreeMap::new(),
    };
    if let Some(given) = given {
        hypothesis.catalogs = catalogs(&reader, namespace, given, args).await?;
    }
    let cluster = ClusterVersions { kubernetes: reader.kubernetes().await?, release: String::new() };
    Ok(State { reader, hypothesis, cluster, groups, others, plans, known })
}

/// Those that the namespace sees, and those that are only given.
async fn catalogs(
    reader: &Reader,
    namespace: &str,
    given: &BTreeMap<&str, &str>,
    args: &ClusterArgs,
) -> anyhow::Result<BTreeMap<Id, Visible>> {
    let mut sources: Vec<CatalogSource> = reader.listed(Some(namespace)).await?;
    if namespace != args.global_namespace {
        sources.extend(reader.listed(Some(&args.global_namespace)).await?);
    }
    let mut catalogs = BTreeMap::new();
    for source in &sources {
        let (id, visible) = visible(source, given, &args.source).await;
        catalogs.insert(id, visible);
    }
    for (name, place) in given {
        if !catalogs.keys().any(|(_, known)| known == name) {
            let id = (namespace.to_owned(), (*name).to_owned());
            let content = content(place, &args.source).await?;
            let visible = Visible { health: Some(Ok(())), content: Some(content), ..Visible::default() };
            catalogs.insert(id, visible);
        }
    }
    Ok(catalogs)
}

/// The groups of other namespaces: none of them may have operators with the same APIs for the same namespaces.
async fn others(reader: &Reader, namespace: &str, known: &mut Known) -> Vec<OperatorGroup> {
    match reader.listed::<OperatorGroup>(None).await {
        Ok(mut all) => {
            all.retain(|group| group.metadata.namespace.as_deref() != Some(namespace));
            all
        }
        Err(error) => {
            known.unread.push(format!(
                "Whether groups of other namespaces provide the same APIs: their OperatorGroups could not be read: {error:#}"
            ));
            Vec::new()
        }
    }
}

/// Those of the namespace, and all of the cluster if they may be read: which definitions others own counts too.
async fn csvs(reader: &Reader, namespace: &str) -> anyhow::Result<(Vec<Arc<Csv>>, Known)> {
    let mut known = Known::default();
    let all = match reader.raw::<ClusterServiceVersion>(None).await {
        Ok(all) => all,
        Err(error) => {
            known.unread.push(format!(
                "Whether operators of other namespaces own the same definitions: their ClusterServiceVersions could not be read: {error:#}"
            ));
            reader.raw::<ClusterServiceVersion>(Some(namespace)).await?
        }
    };
    let has_label =
        |csv: &Value| csv.pointer("/metadata/labels").is_some_and(|it| it.get(label::COPIED_FROM).is_some());
    let mut csvs = Vec::new();
    for csv in all {
        let (key, typed) = (Key::of(&csv), serde_json::from_value::<ClusterServiceVersion>(csv.clone()).ok());
        if let Some(typed) = typed.as_ref().filter(|_| key.namespace == namespace) {
            csvs.push(Arc::new(Csv::of(typed)));
        }
        if !typed.map_or_else(|| has_label(&csv), |typed| typed.is_copy()) {
            known.add(key, Read::Value(csv));
        }
    }
    Ok((csvs, known))
}

/// A catalog with its content, as far as that can be read from here.
async fn visible(source: &CatalogSource, given: &BTreeMap<&str, &str>, images: &ImageSource) -> (Id, Visible) {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let id = (text(&source.metadata.namespace), text(&source.metadata.name));
    let loaded = source.status.iter().flat_map(|status| &status.conditions);
    let loaded =
        loaded.filter(|it| it.type_ == condition::CONTENT_LOADED && it.status == "True").map(|it| it.message.as_str());
    let image =
        loaded.filter(|it| it.contains("@sha256:")).chain([source.spec.image.as_str()]).find(|it| !it.is_empty());
    let place = given.get(id.1.as_str()).copied().or(image);
    let read = match place {
        Some(place) => content(place, images)
            .await
            .map_err(|error| format!("{error:#}; give its content by --catalog {}=DIR", id.1)),
        None => {
            Err(format!("it has no image that could be read from here: give its content by --catalog {}=DIR", id.1))
        }
    };
    let visible = Visible {
        uid: text(&source.metadata.uid),
        priority: source.spec.priority,
        health: Some(read.as_ref().map(drop).map_err(Clone::clone)),
        content: read.ok(),
        ..Visible::default()
    };
    (id, visible)
}

async fn content(place: &str, images: &ImageSource) -> anyhow::Result<Arc<Content>> {
    let catalog = input::catalog(place, images).await?;
    Ok(store::content(&catalog.folder, None)?.content)
}

/// Contents of catalogs by name.
pub(super) fn given(catalogs: &[String]) -> anyhow::Result<BTreeMap<&str, &str>> {
    let given = catalogs.iter().map(|it| it.split_once('=').context("--catalog must be NAME=DIR or NAME=IMAGE"));
    given.collect()
}

/// As if that were so what the flags say.
pub(super) fn supposed(hypothesis: &mut Hypothesis, args: &PlanArgs) -> anyhow::Result<()> {
    for name in &args.remove {
        if !hypothesis.remove(name) {
            bail!("there is no Subscription {}/{name}: kubectl get subscriptions -n {0}", args.namespace);
        }
    }
    for wanted in &args.subscribe {
        let (catalog, package) = wanted.split_once('/').context("--subscribe must be CATALOG/PACKAGE[:CHANNEL]")?;
        let (package, channel) = package.split_once(':').unwrap_or((package, ""));
        let own = (args.namespace.clone(), catalog.to_owned());
        let global = (args.cluster.global_namespace.clone(), catalog.to_owned());
        let place = if hypothesis.catalogs.contains_key(&own) { own } else { global };
        hypothesis.subscribe(&place, package, channel);
    }
    Ok(())
}
