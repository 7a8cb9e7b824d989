//! Reads bundles: from the image of each, or from the catalog that has their manifests. Those that were read last are kept for whoever
//! wants them next, since what is planned is carried out soon.

mod nodes;

use crate::error::chain;
use crate::net::registry::{RegistryError, source as registry};
use crate::olm::bundle::{Bundle, read};
use crate::olm::catalog::objects::manifests;
use crate::olm::catalog::served::Content;
use crate::olm::net::bundle;
use crate::olm::net::pull::open;
use crate::olm::net::store::Store;
use crate::olm::resolve::answer::Id;
use crate::olm::work::catalogs::{Known, Nodes, ToTry, Way};
pub(crate) use nodes::NodePods;
use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Packed bytes of the bundles that are kept. Those of a plan with 12 MB of manifests have some 2 MB.
const KEPT: usize = 4 << 20;

/// Where a bundle is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Source {
    pub catalog: Id,
    pub package: String,
    /// Of its ClusterServiceVersion.
    pub name: String,
    /// Empty if the catalog itself has its manifests.
    pub image: String,
}

/// By what a bundle is reached.
#[derive(Clone, Debug, Default)]
pub(crate) struct Origin {
    /// For bundles whose manifests are in the catalog.
    content: Option<Arc<Content>>,
    /// For those with an image.
    way: Option<Way>,
    /// For those where a pod may read it.
    nodes: Option<Nodes>,
}

impl Origin {
    pub(crate) fn of(source: &Source, known: &Known) -> Origin {
        if source.image.is_empty() {
            let visible = known.catalogs.as_ref().and_then(|all| all.get(&source.catalog));
            let content = visible.and_then(|visible| visible.content.clone());
            return Origin { content, ..Origin::default() };
        }
        let nodes = known.nodes.get(&source.catalog).cloned();
        Origin { content: None, way: known.reach.get(&source.catalog).cloned(), nodes }
    }

    pub(crate) fn is_same(&self, other: &Origin) -> bool {
        fn same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
            one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
        }
        same(self.content.as_ref(), other.content.as_ref())
            && same(self.way.as_ref(), other.way.as_ref())
            && self.nodes == other.nodes
    }
}

/// Why the content is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub cause: String,
    /// The bundle itself is wrong.
    pub of_content: bool,
}

impl Failure {
    pub(crate) fn passing(cause: String) -> Failure {
        Failure { cause, of_content: false }
    }

    fn of_content(cause: String) -> Failure {
        Failure { cause, of_content: true }
    }
}

/// Reads bundles.
#[derive(Debug)]
pub(crate) struct Bundles {
    store: Arc<Store>,
    nodes: Option<Arc<NodePods>>,
    recent: Mutex<Recent>,
}

impl Bundles {
    /// `nodes`: by what images are read that only nodes can read.
    pub(crate) fn new(store: Arc<Store>, nodes: Option<Arc<NodePods>>) -> Bundles {
        Bundles { store, nodes, recent: Mutex::default() }
    }

    pub(crate) async fn fetch(&self, source: &Source, origin: Origin) -> Result<Arc<Bundle>, Failure> {
        // Only what a digest names is the same the next time, and only for who has it from the same catalog.
        let is_fixed = source.image.contains('@');
        let recent = || self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = recent().get(source).filter(|_| is_fixed) {
            return Ok(known);
        }
        let found = match source.image.is_empty() {
            true => of_catalog(source, origin.content).await?,
            false => self.of_image(source, origin).await?,
        };
        found.expect_name(&source.name).map_err(|error| Failure::of_content(error.to_string()))?;
        let found = Arc::new(found);
        if is_fixed {
            recent().keep(source, &found, KEPT);
        }
        Ok(found)
    }

    /// From the registry, or else through a node.
    async fn of_image(&self, source: &Source, origin: Origin) -> Result<Bundle, Failure> {
        let nodes = self.nodes.as_ref().zip(origin.nodes.as_ref());
        let refused = match nodes {
            Some((_, nodes)) if nodes.to_try() == ToTry::Only => None,
            _ => match of_registry(&self.store, source, origin.way).await {
                Err(Refused::NoAccess(cause)) => Some(cause),
                Err(Refused::Failed(failure)) => return Err(failure),
                Ok(bundle) => return Ok(bundle),
            },
        };
        let with_cause = |text: &str| refused.as_ref().map_or_else(|| text.to_owned(), |it| format!("{text}; {it}"));
        let Some((pods, nodes)) = nodes else { return Err(Failure::passing(refused.unwrap_or_default())) };
        let files = pods.read(source, nodes).await.map_err(|it| Failure { cause: with_cause(&it.cause), ..it })?;
        let contents = read::read(&files, &BTreeMap::new());
        let bundle = contents.and_then(|contents| contents.bundle());
        bundle.map_err(|error| Failure::of_content(error.to_string()))
    }
}

/// Why the registry has not given an image.
enum Refused {
    /// It refuses this process, or cannot be reached by it.
    NoAccess(String),
    Failed(Failure),
}

impl From<Failure> for Refused {
    fn from(failure: Failure) -> Refused {
        Refused::Failed(failure)
    }
}

/// The newest last.
#[derive(Debug, Default)]
struct Recent(VecDeque<(Source, Arc<Bundle>, usize)>);

impl Recent {
    fn get(&self, source: &Source) -> Option<Arc<Bundle>> {
        self.0.iter().find(|(of, ..)| of == source).map(|(_, bundle, _)| bundle.clone())
    }

    /// Within so many bytes.
    fn keep(&mut self, source: &Source, bundle: &Arc<Bundle>, limit: usize) {
        self.0.retain(|(of, ..)| of != source);
        let size = bundle.objects.iter().map(|object| object.raw.stored_length()).sum();
        self.0.push_back((source.clone(), bundle.clone(), size));
        while self.0.iter().map(|(.., size)| size).sum::<usize>() > limit {
            self.0.pop_front();
        }
    }
}

/// The bundle whose manifests are in the catalog.
async fn of_catalog(source: &Source, content: Option<Arc<Content>>) -> Result<Bundle, Failure> {
    let missing = || Failure::passing("the catalog does not have it any more".to_owned());
    let content = content.ok_or_else(missing)?;
    let (package, name) = (source.package.clone(), source.name.clone());
    let read = tokio::task::spawn_blocking(move || {
        let bundle = content.index.package(&package).and_then(|package| package.bundle(&name)).ok_or_else(missing)?;
        let manifests = manifests(&content, bundle).map_err(|error| Failure::passing(chain(&error)))?;
        read::manifests(&name, &manifests).map_err(|error| Failure::of_content(error.to_string()))
    });
    read.await.unwrap_or_else(|error| Err(Failure::passing(error.to_string())))
}

async fn of_registry(store: &Arc<Store>, source: &Source, way: Option<Way>) -> Result<Bundle, Refused> {
    let way = way.ok_or_else(|| Failure::passing("it is not known yet how images are reached".to_owned()))?;
    let reach = way.as_ref().as_ref().map_err(|cause| Failure::passing(cause.clone()))?;
    let failed = |error: &RegistryError| match error.has_no_access() {
        true => Refused::NoAccess(reach.explained(error)),
        false => Refused::Failed(Failure::passing(reach.explained(error))),
    };
    let image = registry::parse(&source.image).map_err(|error| Failure::of_content(error.to_string()))?;
    let opened = open(&reach.sources, &image, None).await.map_err(|error| failed(&error))?;
    let aside = store.aside().map_err(|error| Failure::passing(error.to_string()))?;
    let contents = match bundle::image(&opened, &aside.files()).await {
        Ok(contents) => contents,
        Err(bundle::BundleFilesError::Registry(error)) => return Err(failed(&error)),
        Err(error) => return Err(Failure::of_content(chain(&error)).into()),
    };
    Ok(contents.bundle().map_err(|error| Failure::of_content(error.to_string()))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use sha2::Digest;

    /// Of so many bytes that do not shrink.
    fn bundle(size: usize) -> Arc<Bundle> {
        let text: String = (0..size / 64).map(|at| hex::encode(sha2::Sha256::digest(at.to_string()))).collect();
        let csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": "a"},
            "spec": {"description": text}});
        Arc::new(read::manifests("a", &[csv.to_string()]).unwrap())
    }

    fn source(image: &str) -> Source {
        let [package, name, image] = ["a", "a.v1", image].map(ToOwned::to_owned);
        Source { catalog: ("olm".to_owned(), "main".to_owned()), package, name, image }
    }

    #[test]
    fn bundles_that_were_read_last_are_kept_within_a_limit() {
        let (bundle, mut recent) = (bundle(64_000), Recent::default());
        let size = bundle.objects[0].raw.stored_length();
        assert!(size > 30_000, "{size}");
        for at in 0..5 {
            recent.keep(&source(&at.to_string()), &bundle, 3 * size);
        }
        let kept: Vec<usize> = (0..5).filter(|at| recent.get(&source(&at.to_string())).is_some()).collect();
        assert_eq!(kept, [2, 3, 4]);
        // The same one is kept once, and counts as new.
        recent.keep(&source("2"), &bundle, 3 * size);
        recent.keep(&source("5"), &bundle, 3 * size);
        let kept: Vec<usize> = (0..6).filter(|at| recent.get(&source(&at.to_string())).is_some()).collect();
        assert_eq!(kept, [2, 4, 5]);
        // What another catalog has is asked for there: who may read one may not read the other.
        let other = Source { catalog: ("olm".to_owned(), "other".to_owned()), ..source("5") };
        assert!(recent.get(&other).is_none());
        recent.keep(&source("large"), &bundle, size - 1);
        assert!(recent.0.is_empty());
    }
}
