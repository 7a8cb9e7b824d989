//! What is decided by the spec of a CatalogSource and by OperatorHub, by functions of plain types.

use crate::net::registry::source as images;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::operator_hub::OperatorHub;
use crate::olm::source::held::Held;
use crate::olm::source::hub::{self, HubDecision, HubFacts};
use crate::olm::source::pod::Pods;
use crate::olm::source::template::KubeVersion;
use crate::olm::source::{self, Decision, Facts};
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;

fn check(image: &str) -> Result<(), String> {
    images::parse(image).map(drop).map_err(|error| error.to_string())
}

/// What is done at first for a CatalogSource of which nothing has been read.
#[derive(Clone, Debug)]
pub struct First {
    /// Its spec again, with the image that is written into it.
    pub image: Option<String>,
    /// Reason and message.
    pub said: (String, String),
    /// Objects of a pod.
    pub pod: Vec<Value>,
    /// Whether something is read or dialled.
    pub works: bool,
}

/// Decides for an object as the API server has stored it; `version`: of that server.
pub fn first(object: &CatalogSource, version: &str, now: Timestamp) -> First {
    let version = KubeVersion::of("", "", version).ok_or_else(|| "unknown".to_owned());
    let pods = Pods { always: true, server_image: "r/cvo", ..Pods::default() };
    let mut pod = Vec::new();
    let decide = |pods: &Pods<'_>| {
        let facts = Facts {
            object,
            siblings: &[],
            version: Some(&version),
            leading: true,
            held: &Held::default(),
            config_map: None,
            channel: None,
            pods: Some(pods),
            service: None,
        };
        source::decide(&facts, &check, now)
    };
    if let Some(objects) = decide(&pods).pod {
        let [one, other] = objects.policies;
        pod.extend([objects.account, one, other, objects.service, objects.pod, objects.candidate]);
    }
    let Decision { image, status, work, dial, .. } = decide(&Pods { always: false, ..pods });
    let status = status.or_else(|| object.status.clone()).unwrap_or_default();
    let works = work.is_some() || dial.is_some();
    First { image, said: (status.reason, status.message), pod, works }
}

/// What OperatorHub and the default catalogs of a release make of the catalogs that there are: those that there are then, the
/// OperatorHub with its status, and what was wrong.
#[derive(Clone, Debug)]
pub struct Made {
    pub sources: Vec<CatalogSource>,
    pub hub: OperatorHub,
    pub errors: Vec<String>,
    pub changes: usize,
}

/// Does once what is to be done.
pub fn hub(release: &BTreeMap<String, String>, hub: &OperatorHub, live: &[CatalogSource], namespace: &str) -> Made {
    let facts = HubFacts { release: Some(release), hub: Some(hub), live, namespace, failed: &BTreeMap::new() };
    let HubDecision { create, repair, delete, status, errors } = hub::decide(&facts);
    let changes = create.len() + repair.len() + delete.len() + usize::from(status.is_some());
    let name = |source: &CatalogSource| source.metadata.name.clone().unwrap_or_default();
    let mut sources: BTreeMap<String, CatalogSource> = live.iter().map(|it| (name(it), it.clone())).collect();
    delete.iter().for_each(|(gone, _)| drop(sources.remove(gone)));
    sources.extend(create.into_iter().chain(repair).map(|source| (name(&source), source)));
    let mut hub = hub.clone();
    hub.status = status.or(hub.status);
    Made { sources: sources.into_values().collect(), hub, errors, changes }
}
