//! What plans refer to: the content of bundles, read again if it has to be.

use crate::cluster::{Kind, Objects};
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::bundle::{Bundle, read};
use crate::olm::plan::reference::{Found, Reference, Unpacked};
use crate::olm::plan::{is_final, is_waiting};
use crate::olm::resolve::answer::Id;
use crate::olm::work::bundles::{Bundles, Failure, Origin, Source};
use crate::olm::work::catalogs::Known;
use k8s_openapi::api::core::v1::ConfigMap;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long it may take until it is known how images are reached, and until a bundle is read.
const KNOWN: Duration = Duration::from_secs(30);
const READ: Duration = Duration::from_secs(300);

#[derive(Clone)]
pub(super) struct Contents {
    pub known: watch::Receiver<Arc<Known>>,
    pub bundles: Arc<Bundles>,
}

impl Contents {
    /// What the steps that are left refer to.
    pub(super) async fn of(&self, objects: &Objects, plan: &InstallPlan) -> Found {
        let mut found = Found::default();
        let Some(status) = &plan.status else { return found };
        let left = || status.plan.iter().filter(|step| !is_final(&step.status) && !is_waiting(step));
        let references = left().filter_map(|step| Reference::of(&step.resource.manifest));
        let mut by_bundle: BTreeMap<Source, BTreeSet<Reference>> = BTreeMap::new();
        for reference in references {
            by_bundle.entry(source(&reference)).or_default().insert(reference);
        }
        let namespace = plan.metadata.namespace.as_deref().unwrap_or_default();
        for reference in left().filter_map(|step| Unpacked::of(&step.resource.manifest)).collect::<BTreeSet<_>>() {
            let read = self.unpacked(objects, &reference).await;
            found.add_unpacked(reference, namespace, read);
        }
        for (source, references) in by_bundle {
            match self.bundle(&source).await {
                Ok(bundle) => found.add(&bundle, namespace, status, &references),
                Err(failure) => found.fail(&references, &failure.cause),
            }
        }
        found
    }

    /// What another program has unpacked.
    async fn unpacked(&self, objects: &Objects, reference: &Unpacked) -> Result<Bundle, String> {
        let kind = Kind::of::<ConfigMap>(true);
        let map = objects.get(&kind, &reference.namespace, &reference.name).await.map_err(|error| error.to_string())?;
        let missing = "it does not exist any more; delete the plan, so that another one is made";
        read::unpacked(&map.ok_or(missing)?)
    }

    async fn bundle(&self, source: &Source) -> Result<Arc<Bundle>, Failure> {
        let mut known = self.known.clone();
        let is_known = |known: &Arc<Known>| {
            let catalogs = known.catalogs.as_ref();
            catalogs.is_some_and(|all| !all.contains_key(&source.catalog) || is_reached(known, source))
        };
        let told = tokio::time::timeout(KNOWN, known.wait_for(is_known)).await;
        let told = told.ok().and_then(Result::ok).map(|known| known.clone());
        let known = told.unwrap_or_else(|| self.known.borrow().clone());
        let (namespace, name) = &source.catalog;
        if known.catalogs.as_ref().is_none_or(|all| !all.contains_key(&source.catalog)) {
            return Err(Failure::passing(format!(
                "its catalog {namespace}/{name} does not exist any more, which says how its image is reached: create it again, or \
                 delete the plan"
            )));
        }
        let fetched = tokio::time::timeout(READ, self.bundles.fetch(source, Origin::of(source, &known))).await;
        fetched.unwrap_or_else(|_| Err(Failure::passing(format!("it took longer than {READ:?}"))))
    }
}

fn is_reached(known: &Known, source: &Source) -> bool {
    match source.image.is_empty() {
        true => known.catalogs.as_ref().and_then(|all| all.get(&source.catalog)).is_some_and(|it| it.content.is_some()),
        false => known.reach.contains_key(&source.catalog),
    }
}

fn source(reference: &Reference) -> Source {
    let catalog: Id = (reference.catalog_source_namespace.clone(), reference.catalog_source_name.clone());
    Source { catalog, package: reference.package.clone(), name: reference.name.clone(), image: reference.image.clone() }
}
