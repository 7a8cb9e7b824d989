//! What is served of ClusterServiceVersions where their copies are not written. Which namespace sees which follows from what is followed
//! anyway. What only people look at is not among that: originals are read when somebody asks, and kept as far as there is room.

use super::live::{Live, csv_kind};
use super::roles::is_same;
use super::views::CsvView;
use crate::cluster::Objects;
use crate::cluster::followed::Views;
use crate::olm::api::olm_config;
use crate::olm::operator::copies::Rules;
use crate::olm::operator::copies::shown::{Shown, ShownCsv};
use crate::olm::packages::csvs::Body;
use crate::olm::serve::packages::CsvSource;
use crate::olm::work::follow::id;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;

/// Bytes of originals that are kept.
const KEPT: usize = 16 << 20;
/// Originals that are read at once.
const READS: usize = 4;
/// How long reading one may take, waiting for others included.
const TIMEOUT: Duration = Duration::from_secs(10);
/// For who asks: the cause may name what only the cluster should know.
const UNREAD: &str = "operators cannot be read now; try again";

/// For the server that is asked.
pub(super) struct Operators {
    live: Live,
    protected: BTreeSet<String>,
    last: Mutex<Option<Last>>,
    reader: Arc<Reader>,
}

/// What was shown last, and what it was made of.
struct Last {
    csvs: Views<CsvView>,
    unread: BTreeSet<String>,
    namespaces: BTreeSet<String>,
    rules: Rules,
    shown: Arc<Shown>,
}

impl Operators {
    /// `protected`: namespaces in which operators for all of them appear in any case.
    pub(super) fn new(live: Live, objects: Objects, protected: BTreeSet<String>) -> Self {
        let reader = Reader { objects, bodies: Mutex::default(), places: Semaphore::new(READS) };
        Operators { live, protected, last: Mutex::default(), reader: Arc::new(reader) }
    }
}

impl CsvSource for Operators {
    fn shown(&self) -> Option<Arc<Shown>> {
        let live = &self.live;
        let configs = if live.configs.is_absent() { Views::default() } else { live.configs.all()? };
        let disabled = configs.get(olm_config::NAME).is_some_and(|config| config.0.spec.disables_copies());
        let rules = Rules { disabled, protected: self.protected.clone(), ..Rules::default() };
        let csvs = live.originals()?;
        let unread: BTreeSet<String> = live.csvs.undecodable().into_keys().collect();
        let namespaces = live.namespaces.all()?;
        let namespaces = namespaces.iter().filter(|(_, it)| it.is_active);
        let namespaces: BTreeSet<String> = namespaces.map(|(name, _)| name.clone()).collect();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = &*last
            && is_same(&last.csvs, &csvs)
            && (&last.unread, &last.namespaces, &last.rules) == (&unread, &namespaces, &rules)
        {
            return Some(last.shown.clone());
        }
        let uids: BTreeSet<&str> = csvs.values().filter_map(|view| view.0.metadata.uid.as_deref()).collect();
        self.reader.bodies().retain(|uid| uids.contains(uid));
        let originals = csvs.iter().map(|(name, view)| (id(name), view.0.clone())).collect();
        let odd = unread.iter().map(|name| id(name));
        let shown = Arc::new(Shown::new(originals, odd, namespaces.clone(), rules.clone(), Timestamp::now()));
        *last = Some(Last { csvs, unread, namespaces, rules, shown: shown.clone() });
        Some(shown)
    }

    fn body(&self, csv: ShownCsv) -> BoxFuture<'static, Result<Option<Arc<Body>>, String>> {
        let reader = self.reader.clone();
        Box::pin(async move { reader.body(&csv.original.metadata).await })
    }
}

/// Reads originals, and keeps some.
struct Reader {
    objects: Objects,
    bodies: Mutex<Bodies>,
    places: Semaphore,
}

impl Reader {
    /// `metadata`: of the original as it is known. Errors are for who asks.
    async fn body(&self, metadata: &ObjectMeta) -> Result<Option<Arc<Body>>, String> {
        if let Some(body) = self.known(metadata) {
            return Ok(Some(body));
        }
        let read = tokio::time::timeout(TIMEOUT, self.read(metadata)).await;
        let read = read.unwrap_or_else(|_| Err("the API server does not answer".to_owned()));
        read.map_err(|cause| {
            let (namespace, name) = (metadata.namespace.as_deref(), metadata.name.as_deref());
            tracing::warn!(namespace, name, cause, "an operator cannot be read for who asks for it");
            UNREAD.to_owned()
        })
    }

    async fn read(&self, metadata: &ObjectMeta) -> Result<Option<Arc<Body>>, String> {
        let _place = self.places.acquire().await.map_err(|error| error.to_string())?;
        // Another one may have been waited for that reads the same.
        if let Some(body) = self.known(metadata) {
            return Ok(Some(body));
        }
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        let (namespace, name) = (text(&metadata.namespace), text(&metadata.name));
        let original = self.objects.get(&csv_kind(), &namespace, &name).await.map_err(|error| error.to_string())?;
        let body = original.map(|original| Arc::new(Body::of(&original)));
        if let Some(body) = &body {
            self.bodies().keep(body.clone());
        }
        Ok(body)
    }

    fn known(&self, metadata: &ObjectMeta) -> Option<Arc<Body>> {
        let (uid, version) = (metadata.uid.as_deref()?, metadata.resource_version.as_deref()?);
        self.bodies().get(uid, version)
    }

    fn bodies(&self) -> MutexGuard<'_, Bodies> {
        self.bodies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Originals that were read, each with its size.
#[derive(Default)]
struct Bodies {
    all: Vec<(Arc<Body>, usize)>,
    size: usize,
}

impl Bodies {
    fn get(&self, uid: &str, version: &str) -> Option<Arc<Body>> {
        let found = self.all.iter().find(|(body, _)| body.uid == uid && body.version == version);
        found.map(|(body, _)| body.clone())
    }

    /// Takes the place of what was read of the same object before. Where there is no room those that there are stay: lists go through all
    /// of them again and again, and would find none if the next one took the place of the first.
    fn keep(&mut self, body: Arc<Body>) {
        self.all.retain(|(known, _)| known.uid != body.uid);
        let size = body.size();
        self.size = self.all.iter().map(|(_, size)| size).sum();
        if self.size + size <= KEPT {
            self.all.push((body, size));
            self.size += size;
        }
    }

    /// Those of objects that are not there any more go.
    fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.all.retain(|(body, _)| is_there(&body.uid));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::followed::Followed;
    use crate::olm::api::cluster_service_version::ClusterServiceVersion;
    use crate::olm::api::olm_config::OLMConfig;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::client::Body as HttpBody;
    use serde_json::{Value, json};
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// An operator of the namespace `shop` for all of them, at this version of the object.
    fn operator(version: &str) -> Value {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"namespace": "shop", "name": "a", "uid": "u", "resourceVersion": version,
                "annotations": {"olm.targetNamespaces": ""}},
            "spec": {"displayName": "A", "description": "For people."},
            "status": {"phase": "Succeeded", "reason": "InstallSucceeded"}})
    }

    /// With an API server that has the object at version 1, and counts how often it is read.
    fn operators(disabled: bool, protected: &[&str]) -> (Operators, Arc<AtomicUsize>) {
        let (mock, mut requests) = tower_test::mock::pair::<::http::Request<HttpBody>, ::http::Response<HttpBody>>();
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        tokio::spawn(async move {
            while let Some((_, respond)) = requests.next_request().await {
                counted.fetch_add(1, Ordering::SeqCst);
                let body = HttpBody::from(serde_json::to_vec(&operator("1")).unwrap());
                respond.send_response(::http::Response::builder().status(200).body(body).unwrap());
            }
        });
        let config = json!({"metadata": {"name": "cluster"}, "spec": {"features": {"disableCopiedCSVs": disabled}}});
        let config: OLMConfig = serde_json::from_value(config).unwrap();
        let csv: ClusterServiceVersion = serde_json::from_value(operator("1")).unwrap();
        let namespace =
            |name: &str| -> Namespace { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
        let live = Live {
            csvs: Followed::with([csv]),
            configs: Followed::with([config]),
            namespaces: Followed::with(["mall", "park", "shop"].map(namespace)),
            ..Live::detached()
        };
        let objects = Objects::reader(kube::Client::new(mock, "default"));
        (Operators::new(live, objects, protected.iter().map(|name| (*name).to_owned()).collect()), asked)
    }

    fn sees(operators: &Operators, namespace: &str) -> bool {
        operators.shown().unwrap().get(namespace, "a").is_some()
    }

    #[tokio::test]
    async fn what_is_followed_says_which_namespaces_see_an_operator() {
        let (on, _) = operators(false, &[]);
        assert_eq!(["mall", "shop", "other"].map(|name| sees(&on, name)), [true, true, false]);
        let (off, _) = operators(true, &["park"]);
        assert_eq!(["mall", "park", "shop"].map(|name| sees(&off, name)), [false, true, true]);
        assert!(Arc::ptr_eq(&on.shown().unwrap(), &on.shown().unwrap()), "nothing has changed");
        on.live.csvs.on_answer(operator("2"));
        on.live.namespaces.on_deleted("mall", "");
        assert_eq!(["mall", "park"].map(|name| sees(&on, name)), [false, true]);
        let detached = Operators::new(Live::detached(), on.reader.objects.clone(), BTreeSet::new());
        assert!(detached.shown().is_none(), "nothing is known yet");
    }

    #[tokio::test]
    async fn original_is_read_once_for_all_namespaces() {
        let (operators, asked) = operators(false, &[]);
        for namespace in ["mall", "park", "shop"] {
            let csv = operators.shown().unwrap().get(namespace, "a").unwrap();
            let body = operators.body(csv).await.unwrap().unwrap();
            let mut written = Vec::new();
            body.write(namespace, &mut written).unwrap();
            let written: Value = serde_json::from_slice(&written).unwrap();
            assert_eq!(written["spec"], operator("1")["spec"]);
            assert_eq!(written["metadata"]["namespace"], namespace);
        }
        assert_eq!(asked.load(Ordering::SeqCst), 1);
        operators.live.csvs.on_answer(operator("2"));
        let csv = operators.shown().unwrap().get("mall", "a").unwrap();
        operators.body(csv).await.unwrap().unwrap();
        assert_eq!(asked.load(Ordering::SeqCst), 2, "there is another version of it");
    }

    #[test]
    fn what_is_kept_of_originals_is_bounded() {
        let mut bodies = Bodies::default();
        let large = |uid: &str| {
            let mut object = operator("1");
            object["metadata"]["uid"] = json!(uid);
            object["spec"]["description"] = json!("x".repeat(KEPT / 2 - (1 << 10)));
            Arc::new(Body::of(&object))
        };
        for uid in ["a", "b", "b", "c"] {
            bodies.keep(large(uid));
        }
        assert_eq!(["a", "b", "c"].map(|uid| bodies.get(uid, "1").is_some()), [true, true, false]);
        assert!(bodies.size <= KEPT);
        assert!(bodies.get("b", "2").is_none());
        bodies.retain(|uid| uid == "b");
        bodies.keep(large("c"));
        assert_eq!(["a", "b", "c"].map(|uid| bodies.get(uid, "1").is_some()), [false, true, true]);
    }
}
