//! The catalogs of operators in a plan: which images they will have, and whether registries have these. The update of the cluster
//! and catalogs know nothing of each other, so that they meet here, where all products are known.

use super::Cluster;
use crate::cli::plan::PlanArgs;
use crate::cluster::Kind;
use crate::cluster_version::forecast::{Blocker, Cause, Forecast, LiveObjects, LiveState, Prepare};
use crate::cluster_version::rollout::MANAGER;
use crate::images::cluster::{Images, Source, authorities};
use crate::images::credentials::{Format, of_secret};
use crate::merge::{self, Skip, Step};
use crate::net::registry::source::{Sources, parse};
use crate::object::manifest::{Manifest, ObjectId};
use crate::object::read::Read;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::operator_hub::{self, OperatorHub};
use crate::olm::api::{GLOBAL_CATALOG_NAMESPACE, GROUP};
use crate::olm::planned::{PlannedCatalog, UpdateFacts, planned};
use crate::olm::source::hub::CONFIG_MAP;
use crate::olm::source::template::KubeVersion;
use crate::release::Payload;
use crate::release::references::{BUILD_VERSIONS, KUBERNETES};
use futures::{StreamExt, stream};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Registries that are asked at the same time.
const QUESTIONS: usize = 8;
/// How long a registry may take to say whether it has an image.
const ANSWER: Duration = Duration::from_secs(30);
/// Namespace of what the cluster says of registries, and its pull secret.
pub(super) const CONFIG: &str = "openshift-config";
pub(super) const PULL_SECRET: &str = "pull-secret";

/// A catalog before and after the update, and what its registry says.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Catalog {
    #[serde(flatten)]
    pub planned: PlannedCatalog,
    /// Whether its registry has the image that it will have; `null` if it could not be asked, or if there is nothing to ask for.
    pub available: Option<bool>,
    /// Why it could not be asked.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub unasked: String,
}

/// The data of the ConfigMap of default catalogs after the update. `Absent`: the release does not write it.
pub(super) fn default_catalogs(
    manifests: &[Arc<Manifest>],
    live: &LiveObjects,
    prepared: Prepare<'_>,
) -> Read<BTreeMap<String, String>> {
    let id = ObjectId::new("", "ConfigMap", GLOBAL_CATALOG_NAMESPACE, CONFIG_MAP);
    let Some(manifest) = manifests.iter().find(|manifest| manifest.id == id) else { return Read::Absent };
    let live = match live.get(&id).map(|object| &object.state) {
        Some(LiveState::Exists(object)) => Some(&**object),
        Some(LiveState::Unreadable(cause)) => return Read::Failed(cause.clone()),
        _ => None,
    };
    match merge::step(live, manifest, MANAGER, &|| None, || prepared(manifest)) {
        Ok(Step::Create(object) | Step::Change { object, .. } | Step::Replace { object, .. }) => {
            Read::Value(texts(&object))
        }
        Ok(Step::Skip(Skip::AsDesired | Skip::CreateOnly)) => Read::Value(live.map(texts).unwrap_or_default()),
        Ok(Step::Delete | Step::Skip(Skip::Absent | Skip::Terminating)) => Read::Value(BTreeMap::new()),
        Err(error) => Read::Failed(error.to_string()),
    }
}

fn texts(object: &Value) -> BTreeMap<String, String> {
    let data = object.get("data").and_then(Value::as_object).into_iter().flatten();
    data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// The version of Kubernetes that the release brings, or why that is not known.
pub(super) fn kubernetes(payload: &Payload) -> Result<KubeVersion, String> {
    let declared: Vec<&String> = payload.versions.get(KUBERNETES).into_iter().flatten().collect();
    match declared.as_slice() {
        [] => Err(format!("none of its images has the annotation {BUILD_VERSIONS} with {KUBERNETES}=VERSION")),
        [version] => KubeVersion::of("", "", version).ok_or_else(|| format!("{version:?} is no version")),
        several => {
            Err(format!("its images say several: {}", several.iter().map(|it| &***it).collect::<Vec<_>>().join(", ")))
        }
    }
}

impl Cluster {
    /// Which images catalogs will have. What is wrong with them is a warning: it does not stop the update. `defaults`: see
    /// [`default_catalogs`]. Returns the CatalogSources of the cluster, too.
    pub(super) async fn catalogs(
        &self,
        args: &PlanArgs,
        payload: &Payload,
        defaults: Read<BTreeMap<String, String>>,
        forecast: &mut Forecast,
        unknowns: &mut Vec<String>,
    ) -> (Vec<Catalog>, Vec<CatalogSource>) {
        let Some(live) = self.catalog_sources(unknowns).await else { return Default::default() };
        let (release, hub) = self.wanted(defaults, unknowns).await;
        let (version, assumed) = match kubernetes(payload) {
            Ok(version) => (Ok(version), None),
            Err(cause) => (self.kubernetes().await, Some(cause)),
        };
        let facts = UpdateFacts {
            live: &live,
            release: release.as_ref(),
            hub: hub.as_ref(),
            namespace: GLOBAL_CATALOG_NAMESPACE,
            version: &version,
        };
        let (planned, errors) = planned(&facts, &|image| parse(image).map(drop).map_err(|error| error.to_string()));
        let object = format!("configmap \"{GLOBAL_CATALOG_NAMESPACE}/{CONFIG_MAP}\"");
        forecast
            .blockers
            .extend(errors.into_iter().map(|error| Blocker::new(Cause::Refused, &object, "", error).warns()));
        if let Some(cause) = assumed.filter(|_| planned.iter().any(|catalog| catalog.template.is_some())) {
            unknowns.push(format!(
                "Which Kubernetes {} brings, by which templates of catalogs choose their images: {cause}. The version that the API \
                 server has now is used instead.",
                payload.release.version
            ));
        }
        let catalogs = self.asked(args, planned, &live, unknowns).await;
        forecast.blockers.extend(catalogs.iter().filter_map(warning));
        unknowns.extend(catalogs.iter().filter_map(unknown));
        (catalogs, live)
    }

    /// `None` if they cannot be listed. There are none where the kind is not served.
    async fn catalog_sources(&self, unknowns: &mut Vec<String>) -> Option<Vec<CatalogSource>> {
        let kind = Kind::known(GROUP, "v1alpha1", "CatalogSource", "catalogsources", true);
        let all = match self.objects.all(&kind).await {
            Ok(all) => all,
            Err(error) if error.is_not_found() => Vec::new(),
            Err(error) => {
                unknowns.push(format!("Which images catalogs of operators will have: {error}."));
                return None;
            }
        };
        let read = readable(all, unknowns, |place, error| {
            format!("Which image CatalogSource {place} will have: it cannot be read: {error}. Correct the field.")
        });
        Some(read)
    }

    /// The default catalogs after the update, and what OperatorHub says of them. If one of both is not known, no default catalog is
    /// planned.
    async fn wanted(
        &self,
        defaults: Read<BTreeMap<String, String>>,
        unknowns: &mut Vec<String>,
    ) -> (Option<BTreeMap<String, String>>, Option<OperatorHub>) {
        let mut unknown = |cause: &str| {
            unknowns.push(format!("Which images default catalogs of operators will have: {cause}."));
            (None, None)
        };
        let defaults = match defaults {
            Read::Absent => self.data(GLOBAL_CATALOG_NAMESPACE, CONFIG_MAP).await,
            known => known,
        };
        let defaults = match defaults {
            Read::Value(data) => Some(data),
            Read::Absent => None,
            Read::Failed(cause) => return unknown(&cause),
        };
        let kind = Kind::known("config.openshift.io", "v1", "OperatorHub", "operatorhubs", false);
        match self.objects.get(&kind, "", operator_hub::NAME).await {
            Ok(None) => (defaults, None),
            Ok(Some(hub)) => match serde_json::from_value(hub) {
                Ok(hub) => (defaults, Some(hub)),
                Err(error) => unknown(&format!("OperatorHub {} cannot be read: {error}", operator_hub::NAME)),
            },
            Err(error) => unknown(&error.to_string()),
        }
    }

    /// The version of the API server as it is now.
    async fn kubernetes(&self) -> Result<KubeVersion, String> {
        let info = self.clients.call.apiserver_version().await.map_err(|error| error.to_string())?;
        let version = KubeVersion::of(&info.major, &info.minor, &info.git_version);
        version.ok_or_else(|| format!("it calls its version {:?}, which is none", info.git_version))
    }

    /// Asks registries whether they have the images: directly, and with the credentials of the command line and of the cluster.
    async fn asked(
        &self,
        args: &PlanArgs,
        planned: Vec<PlannedCatalog>,
        live: &[CatalogSource],
        unknowns: &mut Vec<String>,
    ) -> Vec<Catalog> {
        if planned.is_empty() {
            return Vec::new();
        }
        let sources = &self.sources(args, unknowns).await;
        let global = &self.credentials(CONFIG, PULL_SECRET).await;
        let ask = |planned: PlannedCatalog| async move {
            let asked = match (&planned.to, sources) {
                (None, _) => Ok(None),
                (Some(_), Err(cause)) => Err(cause.clone()),
                (Some(image), Ok(sources)) => self.has(image, &planned, (sources, global), live).await.map(Some),
            };
            let (available, unasked) = match asked {
                Ok(available) => (available, String::new()),
                Err(cause) => (None, cause),
            };
            Catalog { planned, available, unasked }
        };
        stream::iter(planned).map(ask).buffered(QUESTIONS).collect().await
    }

    /// The credentials in a Secret. Without them the registry refuses, which is told.
    pub(super) async fn credentials(&self, namespace: &str, name: &str) -> Vec<(Format, Vec<u8>)> {
        let kind = Kind::known("", "v1", "Secret", "secrets", true);
        let secret = self.objects.get(&kind, namespace, name).await.ok().flatten();
        secret.as_ref().map(of_secret).unwrap_or_default()
    }

    async fn has(
        &self,
        image: &str,
        planned: &PlannedCatalog,
        (sources, global): (&Sources, &[(Format, Vec<u8>)]),
        live: &[CatalogSource],
    ) -> Result<bool, String> {
        let sources = self.sources_of((&planned.namespace, &planned.name), (sources, global), live).await;
        let image = parse(image).map_err(|error| error.to_string())?;
        match tokio::time::timeout(ANSWER, sources.has(&image)).await {
            Ok(has) => has.map_err(|error| error.to_string()),
            Err(_) => Err(format!("no answer within {} s", ANSWER.as_secs())),
        }
    }

    /// How the image of a catalog is reached, with its own credentials.
    pub(super) async fn sources_of(
        &self,
        (namespace, name): (&str, &str),
        (sources, global): (&Sources, &[(Format, Vec<u8>)]),
        live: &[CatalogSource],
    ) -> Sources {
        let source = named(live, namespace, name);
        let mut sources = sources.clone();
        let mut add = |(namespace, name): (&str, &str), found: &[(Format, Vec<u8>)]| {
            for (form, content) in found {
                let _ = sources.access.credentials.add(content, *form, &format!("Secret {namespace}/{name}"));
            }
        };
        for name in source.into_iter().flat_map(|source| &source.spec.secrets) {
            add((namespace, name), &self.credentials(namespace, name).await);
        }
        add((CONFIG, PULL_SECRET), global);
        sources.policy = sources.policy.of_namespace(namespace);
        sources
    }

    /// How images are reached from here: what the cluster says of mirrors, policies and authorities, and the flags.
    pub(super) async fn sources(&self, args: &PlanArgs, unknowns: &mut Vec<String>) -> Result<Sources, String> {
        let mut access = args.image.registry.access().map_err(|error| format!("{error:#}"))?;
        let mut images = Images::default();
        for source in Source::ALL {
            let (group, version, kind, plural) = source.kind();
            let kind = Kind::known(group, version, kind, plural, source.is_namespaced());
            match self.objects.all(&kind).await {
                Ok(all) => all.iter().for_each(|object| images.add(source, object)),
                Err(error) if error.is_not_found() => {}
                Err(error) => unknowns.push(format!(
                    "What the cluster says of images in {plural}, by which images of catalogs are looked for: {error}."
                )),
            }
        }
        if let Some(trusted) = &images.trusted
            && let Read::Value(data) = self.data(CONFIG, trusted).await
        {
            access.registry_ca = authorities(&data);
        }
        Ok(Sources { access, mirrors: images.mirrors, policy: images.policy })
    }
}

/// Those that can be read. `unreadable`: what is not known because of another one, by its place.
pub(super) fn readable<K: DeserializeOwned>(
    objects: Vec<Value>,
    unknowns: &mut Vec<String>,
    unreadable: impl Fn(&str, &serde_json::Error) -> String,
) -> Vec<K> {
    let mut read = Vec::new();
    for object in objects {
        let text = |key: &str| object.pointer(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let place = format!("{}/{}", text("/metadata/namespace"), text("/metadata/name"));
        match serde_json::from_value(object) {
            Ok(object) => read.push(object),
            Err(error) => unknowns.push(unreadable(&place, &error)),
        }
    }
    read
}

/// The CatalogSource of this name.
pub(super) fn named<'a>(live: &'a [CatalogSource], namespace: &str, name: &str) -> Option<&'a CatalogSource> {
    let id = (Some(namespace), Some(name));
    live.iter().find(|it| (it.metadata.namespace.as_deref(), it.metadata.name.as_deref()) == id)
}

fn object(catalog: &Catalog) -> String {
    let PlannedCatalog { namespace, name, .. } = &catalog.planned;
    format!("catalogsource.{GROUP} \"{namespace}/{name}\"")
}

/// What is wrong with a catalog.
fn warning(catalog: &Catalog) -> Option<Blocker> {
    let PlannedCatalog { default, template, to, problem, .. } = &catalog.planned;
    let warning = |reason: &str, message: String| Blocker::new(Cause::Image, object(catalog), reason, message).warns();
    if !problem.is_empty() {
        return Some(warning("", problem.clone()));
    }
    let image = to.as_ref().filter(|_| catalog.available == Some(false))?;
    let way_out = match (template, default) {
        (Some(_), _) => "push or mirror it before the update, or correct the template",
        (None, true) => "push or mirror it before the update, or disable the catalog in OperatorHub cluster",
        (None, false) => "push or mirror it, or correct spec.image",
    };
    let message = format!(
        "its registry has no image {image}, which the catalog will have after the update; until it does, the catalog offers what it \
         offers now: {way_out}"
    );
    Some(warning("ImageMissing", message))
}

/// What could not be found out about a catalog.
fn unknown(catalog: &Catalog) -> Option<String> {
    let PlannedCatalog { namespace, name, to, .. } = &catalog.planned;
    let image = to.as_ref().filter(|_| !catalog.unasked.is_empty())?;
    Some(format!(
        "Whether there is the image {image} that catalog {namespace}/{name} will have: its registry could not be asked: {}.",
        catalog.unasked.trim_end_matches('.')
    ))
}

#[cfg(test)]
mod tests;
