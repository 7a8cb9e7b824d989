//! Which image each default catalog and each CatalogSource with a template will have after an update of the cluster. The functions
//! decide that will then move them.

use crate::olm::api::catalog_source::{CatalogSource, SourceType};
use crate::olm::api::keys::annotation::CATALOG_IMAGE_TEMPLATE;
use crate::olm::api::operator_hub::OperatorHub;
use crate::olm::source::CheckImage;
use crate::olm::source::hub::{self, HubDecision, HubFacts, OTHER, decide, defaults, is_default};
use crate::olm::source::template::{KubeVersion, Resolved, resolve};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The cluster as it is, and what the update changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UpdateFacts<'a> {
    /// All CatalogSources.
    pub live: &'a [CatalogSource],
    /// The data of the ConfigMap of default catalogs after the update; `None` if there will be none.
    pub release: Option<&'a BTreeMap<String, String>>,
    /// `None` where the cluster has no OperatorHub.
    pub hub: Option<&'a OperatorHub>,
    /// The namespace of the global catalogs.
    pub namespace: &'a str,
    /// Of the API server after the update, or why that is not known.
    pub version: &'a Result<KubeVersion, String>,
}

/// A catalog before and after the update.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PlannedCatalog {
    pub namespace: String,
    pub name: String,
    /// The release brings it.
    pub default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// The image that it has now; `null` if there is no such catalog.
    pub from: Option<String>,
    /// The image that it will have; `null` if there will be no such catalog.
    pub to: Option<String>,
    /// Why it does not get the image that it is to have.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub problem: String,
}

type Id = (String, String);

/// All catalogs that an update may move, by namespace and name; and what of the ConfigMap of default catalogs cannot be used.
pub(crate) fn planned(facts: &UpdateFacts<'_>, check: CheckImage<'_>) -> (Vec<PlannedCatalog>, Vec<String>) {
    // What is being deleted is made again where it is wanted.
    let live = facts.live.iter().filter(|source| source.metadata.deletion_timestamp.is_none());
    let before: BTreeMap<Id, &CatalogSource> = live.map(|source| (id(source), source)).collect();
    let global: Vec<CatalogSource> =
        before.values().filter(|source| id(source).0 == facts.namespace).map(|source| (*source).clone()).collect();
    let none = BTreeMap::new();
    let decision = decide(&HubFacts {
        release: facts.release,
        hub: facts.hub,
        live: &global,
        namespace: facts.namespace,
        failed: &none,
    });
    let of_release = facts.release.map(|data| defaults(data, facts.namespace).0).unwrap_or_default();
    let after = after(&before, &decision, facts.namespace);
    let ids: BTreeSet<&Id> = before.keys().chain(after.keys()).collect();
    let catalog = |id: &Id| {
        let (old, new) = (before.get(id).copied(), after.get(id));
        if !matches!(new.or(old)?.spec.source_type, SourceType::Grpc) {
            return None;
        }
        let brought = id.0 == facts.namespace && of_release.contains_key(&id.1);
        let is_default = new.is_none_or(|source| brought && is_default(source));
        let foreign = brought && !is_default && !hub::is_disabled(facts.hub, &id.1);
        let template = new.and_then(|source| source.metadata.annotations.as_ref()?.get(CATALOG_IMAGE_TEMPLATE));
        let (to, mut problem) = image(new, template.map(String::as_str), facts.version, check);
        if foreign {
            problem = OTHER.to_owned();
        }
        let from = old.map(|source| source.spec.image.clone()).filter(|image| !image.is_empty());
        let counts = (is_default || foreign || template.is_some()) && (from.is_some() || to.is_some());
        let (namespace, name) = id.clone();
        let (default, template) = (is_default || foreign, template.cloned());
        counts.then_some(PlannedCatalog { namespace, name, default, template, from, to, problem })
    };
    (ids.into_iter().filter_map(catalog).collect(), decision.errors)
}

/// The CatalogSources as the decision leaves them.
fn after(
    before: &BTreeMap<Id, &CatalogSource>,
    decision: &HubDecision,
    namespace: &str,
) -> BTreeMap<Id, CatalogSource> {
    let mut after: BTreeMap<Id, CatalogSource> =
        before.iter().map(|(id, source)| (id.clone(), (*source).clone())).collect();
    for (name, _) in &decision.delete {
        after.remove(&(namespace.to_owned(), name.clone()));
    }
    after.extend(decision.create.iter().chain(&decision.repair).map(|source| (id(source), source.clone())));
    after
}

/// The image that the catalog will have, and why that is not the one of its template.
fn image(
    source: Option<&CatalogSource>,
    template: Option<&str>,
    version: &Result<KubeVersion, String>,
    check: CheckImage<'_>,
) -> (Option<String>, String) {
    let own = source.map(|source| source.spec.image.clone()).filter(|image| !image.is_empty());
    match template.map(|template| resolve(template, Some(version), check)) {
        Some(Resolved::Image(image)) => (Some(image), String::new()),
        Some(Resolved::Unable(cause)) => (own, cause),
        Some(Resolved::NotYet) | None => (own, String::new()),
    }
}

fn id(source: &CatalogSource) -> Id {
    (source.metadata.namespace.clone().unwrap_or_default(), source.metadata.name.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::api::operator_hub::OperatorHubSpec;
    use serde_json::json;

    const MARKET: &str = "market";

    fn source(namespace: &str, name: &str, image: &str, annotations: &[(&str, &str)]) -> CatalogSource {
        let annotations: BTreeMap<_, _> = annotations.iter().copied().collect();
        let metadata = json!({"namespace": namespace, "name": name, "annotations": annotations});
        let spec = json!({"sourceType": "grpc", "image": image});
        serde_json::from_value(json!({"metadata": metadata, "spec": spec})).unwrap()
    }

    fn own(name: &str, image: &str) -> CatalogSource {
        source(MARKET, name, image, &[(hub::DEFAULT_CATALOG, name)])
    }

    fn release(sources: &[CatalogSource]) -> BTreeMap<String, String> {
        let manifest = |source: &CatalogSource| {
            let mut manifest = json!(source);
            manifest["apiVersion"] = "operators.coreos.com/v1alpha1".into();
            manifest["kind"] = "CatalogSource".into();
            (source.metadata.name.clone().unwrap(), manifest.to_string())
        };
        sources.iter().map(manifest).collect()
    }

    /// Each catalog as `name: from -> to`, with a `*` at one that the release brings, and with what is wrong.
    fn said(live: &[CatalogSource], release: Option<&[CatalogSource]>, hub: Option<OperatorHubSpec>) -> Vec<String> {
        let release = release.map(self::release);
        let hub = hub.map(|spec| OperatorHub::new("cluster", spec));
        let version = Ok(KubeVersion::of("", "", "v1.36.2").unwrap());
        let facts =
            UpdateFacts { live, release: release.as_ref(), hub: hub.as_ref(), namespace: MARKET, version: &version };
        let check = |image: &str| if image.contains(' ') { Err("a blank".to_owned()) } else { Ok(()) };
        let (catalogs, errors) = planned(&facts, &check);
        assert!(errors.is_empty(), "{errors:?}");
        let text = |catalog: &PlannedCatalog| {
            let image = |image: &Option<String>| image.clone().unwrap_or_else(|| "none".to_owned());
            let star = if catalog.default { "*" } else { "" };
            let problem = catalog.problem.split(':').next().unwrap_or_default();
            let text = format!("{}{star}: {} -> {} {problem}", catalog.name, image(&catalog.from), image(&catalog.to));
            text.trim_end().to_owned()
        };
        catalogs.iter().map(text).collect()
    }

    #[test]
    fn default_catalogs_are_moved_made_and_removed_with_the_release() {
        let live = [own("moved", "r/m:v1"), own("same", "r/s:v1"), own("gone", "r/g:v1")];
        let next =
            [source("", "moved", "r/m:v2", &[]), source("", "same", "r/s:v1", &[]), source("", "new", "r/n:v2", &[])];
        assert_eq!(
            said(&live, Some(&next), None),
            ["gone*: r/g:v1 -> none", "moved*: r/m:v1 -> r/m:v2", "new*: none -> r/n:v2", "same*: r/s:v1 -> r/s:v1"]
        );
        assert!(said(&live, None, None).is_empty(), "without the ConfigMap nothing is moved");
    }

    #[test]
    fn operator_hub_is_obeyed_and_catalogs_of_others_are_left_alone() {
        let live =
            [own("off", "r/o:v1"), source(MARKET, "theirs", "r/t:v1", &[]), source("shop", "new", "r/x:v1", &[])];
        let next = ["off", "theirs", "new"].map(|name| source("", name, "r/d:v2", &[]));
        let off = json!({"sources": [{"name": "off", "disabled": true}]});
        let hub = |spec| Some(serde_json::from_value(spec).unwrap());
        assert_eq!(
            said(&live, Some(&next), hub(off)),
            [
                "new*: none -> r/d:v2",
                "off*: r/o:v1 -> none",
                "theirs*: r/t:v1 -> r/t:v1 there is another CatalogSource of this name, which is not that of the release"
            ]
        );
        assert_eq!(
            said(&live, Some(&next), hub(json!({"disableAllDefaultSources": true}))),
            ["off*: r/o:v1 -> none"],
            "one that is disabled may have the name of another"
        );
    }

    #[test]
    fn templates_have_the_version_of_the_target() {
        let template = |text: &'static str| [(CATALOG_IMAGE_TEMPLATE, text)];
        let version = template("r/c:v{kube_major_version}.{kube_minor_version}.{kube_patch_version}");
        let live = [
            source("shop", "a", "r/c:v1.35.0", &version),
            source("shop", "b", "r/b:1", &template("r/{other}")),
            source("shop", "c", "", &version),
            source("shop", "plain", "r/p:1", &[]),
        ];
        let next = [source("", "d", "r/d:v1", &version)];
        assert_eq!(
            said(&live, Some(&next), None),
            [
                "d*: none -> r/c:v1.36.2",
                "a: r/c:v1.35.0 -> r/c:v1.36.2",
                "b: r/b:1 -> r/b:1 cannot make an image of the template \"r/{other}\"",
                "c: none -> r/c:v1.36.2",
            ]
        );
        // What the cluster has now is kept, and follows the version of the server and not that of the release.
        let mut default = own("d", "r/c:v1.35.0");
        default.metadata.annotations.as_mut().unwrap().insert(version[0].0.into(), version[0].1.into());
        assert_eq!(said(&[default], Some(&next), None), ["d*: r/c:v1.35.0 -> r/c:v1.36.2"]);
    }

    #[test]
    fn only_images_are_planned() {
        let mut address = source("shop", "a", "", &[(CATALOG_IMAGE_TEMPLATE, "r/{other}")]);
        address.spec.address = "a.example:1".to_owned();
        let mut config_map = source("shop", "b", "r/b:0", &[(CATALOG_IMAGE_TEMPLATE, "r/b:1")]);
        config_map.spec.source_type = SourceType::ConfigMap;
        let mut leaving = own("gone", "r/g:v1");
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert!(said(&[address, config_map, leaving], Some(&[]), None).is_empty());
    }
}
