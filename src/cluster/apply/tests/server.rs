//! An API server in memory: objects, resource versions, lists, watches with initial events, finalizers, and a mutating
//! webhook. It sets no defaults, and a watch cannot go on where another was cut off. Every request is counted.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use futures::stream;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::mpsc;

/// Changes an object before it is stored.
pub(crate) type Webhook = Box<dyn Fn(&mut Value) + Send>;

#[derive(Default)]
struct Store {
    version: u64,
    /// By collection (`apps/v1/deployments`), namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    watches: Vec<(String, mpsc::UnboundedSender<String>)>,
    /// Verb and path.
    requests: Vec<(String, String)>,
    /// The field manager of each write, and the user that it was made as.
    writers: Vec<String>,
    webhook: Option<Webhook>,
    /// The answer to watches that ask for initial events.
    no_initial_events: Option<u16>,
    /// Collections, and the answer to lists and watches of them.
    closed: BTreeMap<String, (u16, &'static str)>,
    refuses_apply: bool,
    /// The kinds in discovery: `example.com/v1`, kind and plural, all of them namespaced.
    served: Vec<(String, String, String)>,
    /// Groups with version that are served by another server, which is away.
    away: Vec<String>,
    /// Collections that are not served, whatever discovery says.
    gone: Vec<String>,
    /// What another client creates the moment that an object is deleted.
    recreated: Option<Value>,
}

#[derive(Clone, Default)]
pub(crate) struct Server {
    store: Arc<Mutex<Store>>,
}

/// What a path names.
struct Place {
    collection: String,
    namespace: String,
    name: String,
    status: bool,
}

impl Place {
    fn of(path: &str) -> Place {
        let (group, rest) = match path.strip_prefix("/apis/") {
            Some(rest) => {
                let parts: Vec<&str> = rest.splitn(3, '/').collect();
                (format!("{}/{}", parts[0], parts[1]), parts[2])
            }
            None => ("v1".to_owned(), path.strip_prefix("/api/v1/").unwrap()),
        };
        let mut parts: Vec<&str> = rest.split('/').collect();
        let namespaced = parts[0] == "namespaces" && parts.len() > 2;
        let namespace = if namespaced { parts.drain(..2).nth(1).unwrap() } else { "" };
        Place {
            collection: format!("{group}/{}", parts[0]),
            namespace: namespace.into(),
            name: parts.get(1).copied().unwrap_or_default().into(),
            status: parts.get(2) == Some(&"status"),
        }
    }

    fn key(&self) -> (String, String, String) {
        (self.collection.clone(), self.namespace.clone(), self.name.clone())
    }
}

impl Server {
    /// Starts to serve and returns its address.
    pub(crate) async fn start(&self) -> Uri {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let router = Router::new().fallback(answer).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        address.parse().unwrap()
    }

    fn lock(&self) -> MutexGuard<'_, Store> {
        self.store.lock().unwrap()
    }

    /// Stores an object as another client would; `path` is that of the object.
    pub(crate) fn put(&self, path: &str, object: Value) {
        let place = Place::of(path);
        self.lock().store(&place, object);
    }

    /// Changes an object as another client would.
    pub(crate) fn edit(&self, path: &str, change: impl FnOnce(&mut Value)) {
        let mut object = self.get(path).unwrap();
        change(&mut object);
        self.put(path, object);
    }

    pub(crate) fn get(&self, path: &str) -> Option<Value> {
        self.lock().objects.get(&Place::of(path).key()).cloned()
    }

    pub(crate) fn remove(&self, path: &str) {
        self.lock().remove(&Place::of(path));
    }

    /// Adds this kind to discovery.
    pub(crate) fn serve(&self, version: &str, kind: &str, plural: &str) {
        let mut store = self.lock();
        store.away.retain(|away| away != version);
        store.served.push((version.into(), kind.into(), plural.into()));
    }

    /// The server of this group and version is away until it is served.
    pub(crate) fn set_away(&self, version: &str) {
        self.lock().away.push(version.into());
    }

    /// From now on this collection, such as `example.com/v1/widgets`, is not served.
    pub(crate) fn stop_serving(&self, collection: &str) {
        self.lock().gone.push(collection.into());
    }

    /// Another client creates this the moment that the next object is deleted.
    pub(crate) fn recreate(&self, object: Value) {
        self.lock().recreated = Some(object);
    }

    /// From now on it changes every object that is written.
    pub(crate) fn set_webhook(&self, webhook: Webhook) {
        self.lock().webhook = Some(webhook);
    }

    /// From now on watches cannot begin with initial events.
    pub(crate) fn refuse_initial_events(&self, code: u16) {
        self.lock().no_initial_events = Some(code);
    }

    /// From now on lists and watches of a collection, such as `apps/v1/deployments`, are answered so; its watches end.
    pub(crate) fn close(&self, collection: &str, code: u16, reason: &'static str) {
        let mut store = self.lock();
        store.closed.insert(collection.to_owned(), (code, reason));
        store.watches.retain(|(watched, _)| watched != collection);
    }

    /// Lists and watches of the collection are answered again.
    pub(crate) fn open(&self, collection: &str) {
        self.lock().closed.remove(collection);
    }

    /// Removes an object while no watch of its kind is there to see it.
    pub(crate) fn lose(&self, path: &str) {
        let place = Place::of(path);
        let mut store = self.lock();
        store.watches.retain(|(watched, _)| *watched != place.collection);
        store.remove(&place);
    }

    /// From now on it answers to every apply as to a manifest with a field that is in no schema.
    pub(crate) fn refuse_apply(&self) {
        self.lock().refuses_apply = true;
    }

    /// Requests since the last time, as `POST /api/v1/…`.
    pub(crate) fn requests(&self) -> Vec<String> {
        let all = std::mem::take(&mut self.lock().requests);
        all.into_iter().map(|(verb, path)| format!("{verb} {path}")).collect()
    }

    /// The same, writes only.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.requests().into_iter().filter(|r| !r.starts_with("GET") && !r.starts_with("WATCH")).collect()
    }

    /// The field manager of each write so far, and the user, as `manager as user`; the user is empty if it is the process itself.
    pub(crate) fn writers(&self) -> Vec<String> {
        self.lock().writers.clone()
    }
}

impl Store {
    fn store(&mut self, place: &Place, mut object: Value) -> Value {
        self.version += 1;
        let before = self.objects.get(&place.key());
        let metadata = object["metadata"].as_object_mut().unwrap();
        metadata.insert("resourceVersion".into(), json!(self.version.to_string()));
        if place.namespace.is_empty() {
            metadata.remove("namespace");
        }
        metadata.entry("uid").or_insert(json!(format!("uid-{}", self.version)));
        let generation = before.map_or(0, |before| before["metadata"]["generation"].as_i64().unwrap_or(0));
        let changed = before.is_none_or(|before| before.get("spec") != object.get("spec"));
        object["metadata"]["generation"] = json!(generation + i64::from(changed));
        let event = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.objects.insert(place.key(), object.clone());
        let held = object["metadata"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
        if object["metadata"]["deletionTimestamp"].is_string() && !held {
            self.remove(place);
        } else {
            self.send(place, event, &object);
        }
        object
    }

    fn remove(&mut self, place: &Place) {
        let Some(mut object) = self.objects.remove(&place.key()) else { return };
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.send(place, "DELETED", &object);
    }

    fn note(&mut self, method: &Method, uri: &Uri, watch: bool, headers: &HeaderMap) {
        let query = uri.query().unwrap_or_default();
        self.requests.push((if watch { "WATCH".into() } else { method.to_string() }, uri.path().to_owned()));
        if method != Method::GET {
            let manager = query.split('&').find_map(|part| part.strip_prefix("fieldManager=")).unwrap_or_default();
            let user = headers.get("impersonate-user").map_or("", |user| user.to_str().unwrap());
            self.writers.push(format!("{manager} as {user}"));
        }
    }

    fn delete(&mut self, place: &Place) {
        self.remove(place);
        if let Some(object) = self.recreated.take() {
            self.store(place, object);
        }
    }

    fn send(&mut self, place: &Place, event: &str, object: &Value) {
        let event = line(event, object);
        self.watches.retain(|(collection, watch)| *collection != place.collection || watch.send(event.clone()).is_ok());
    }

    fn watch(&mut self, place: &Place, initial: bool) -> mpsc::UnboundedReceiver<String> {
        let (sender, receiver) = mpsc::unbounded_channel();
        if initial {
            for ((_, _, _), object) in self.objects.iter().filter(|((c, _, _), _)| *c == place.collection) {
                sender.send(line("ADDED", object)).unwrap();
            }
            let metadata = json!({"resourceVersion": self.version.to_string(),
                "annotations": {"k8s.io/initial-events-end": "true"}});
            let bookmark = json!({"apiVersion": "v1", "kind": "X", "metadata": metadata});
            sender.send(line("BOOKMARK", &bookmark)).unwrap();
        }
        self.watches.push((place.collection.clone(), sender));
        receiver
    }

    /// One page of a list; the token is the number of the first object.
    fn list(&self, place: &Place, query: &str) -> Value {
        let parameter = |name: &str| query.split('&').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let number = |name: &str, other: usize| parameter(name).and_then(|text| text.parse().ok()).unwrap_or(other);
        let all: Vec<&Value> =
            self.objects.iter().filter(|(key, _)| key.0 == place.collection).map(|(_, o)| o).collect();
        let (from, limit) = (number("continue", 0), number("limit", usize::MAX));
        let items: Vec<_> = all.iter().skip(from).take(limit).collect();
        let next = from + items.len();
        let mut metadata = json!({"resourceVersion": self.version.to_string()});
        if next < all.len() {
            metadata["continue"] = json!(next.to_string());
            metadata["remainingItemCount"] = json!(all.len() - next);
        }
        json!({"apiVersion": "v1", "kind": "List", "metadata": metadata, "items": items})
    }

    /// Why a list or watch is not answered.
    fn refusal(&self, place: &Place, query: &str) -> Option<(u16, &'static str)> {
        let initial = query.contains("sendInitialEvents=true");
        let unknown = self.no_initial_events.filter(|_| initial).map(|code| (code, "Invalid"));
        self.closed.get(&place.collection).copied().filter(|_| place.name.is_empty()).or(unknown)
    }

    /// Whether a watch wants to go on from an older version than the present one.
    fn is_old(&self, query: &str) -> bool {
        let from = query.split('&').find_map(|part| part.strip_prefix("resourceVersion="));
        from.is_some_and(|from| !from.is_empty() && from != self.version.to_string())
    }

    fn request(&mut self, method: &Method, place: &Place, body: &Bytes) -> Result<Value, (u16, &'static str)> {
        let read = || serde_json::from_slice::<Value>(body).unwrap();
        if self.gone.contains(&place.collection) {
            return Err((404, "NotFound"));
        }
        let known = self.objects.get(&place.key()).cloned();
        match (method.as_str(), known) {
            ("POST", _) => {
                let mut object = read();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                let place =
                    Place { name, collection: place.collection.clone(), namespace: place.namespace.clone(), ..*place };
                if self.objects.contains_key(&place.key()) {
                    return Err((409, "AlreadyExists"));
                }
                self.webhook.iter().for_each(|webhook| webhook(&mut object));
                Ok(self.store(&place, object))
            }
            ("PATCH", _) if self.refuses_apply => Err((500, "failed to create typed patch object")),
            // Apply; it does not keep managedFields, so it only adds.
            ("PATCH", known) => {
                let applied = read();
                let version = &applied["metadata"]["resourceVersion"];
                if known.as_ref().is_some_and(|live| live["metadata"]["resourceVersion"] != *version) {
                    return Err((409, "Conflict"));
                }
                let before = known.clone().unwrap_or_else(|| json!({}));
                let mut object = before.clone();
                set(&mut object, applied.clone());
                self.webhook.iter().for_each(|webhook| webhook(&mut object));
                Ok(if object == before { before } else { self.store(place, object) })
            }
            (_, None) => Err((404, "NotFound")),
            ("GET", Some(object)) => Ok(object),
            ("PUT", Some(live)) => {
                let mut object = read();
                if object["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"] {
                    return Err((409, "Conflict"));
                }
                if place.status {
                    let status = object["status"].take();
                    object = live.clone();
                    object["status"] = status;
                }
                self.webhook.iter().for_each(|webhook| webhook(&mut object));
                Ok(if object == live { live } else { self.store(place, object) })
            }
            ("DELETE", Some(mut live)) => {
                if read().pointer("/preconditions/uid").is_some_and(|uid| *uid != live["metadata"]["uid"]) {
                    return Err((409, "Conflict"));
                }
                if live["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty) {
                    self.delete(place);
                    return Ok(json!({"apiVersion": "v1", "kind": "Status", "status": "Success"}));
                }
                live["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
                Ok(self.store(place, live))
            }
            (other, _) => panic!("{other} is not served"),
        }
    }
}

/// Sets every field of `applied`.
fn set(object: &mut Value, applied: Value) {
    match (object, applied) {
        (Value::Object(object), Value::Object(applied)) => {
            applied.into_iter().for_each(|(key, value)| set(object.entry(key).or_insert(Value::Null), value));
        }
        (object, applied) => *object = applied,
    }
}

/// Aggregated discovery of the groups.
fn discovery(store: &Store) -> Value {
    let group = |(version, kind, plural): &(String, String, String)| {
        let (group, version) = version.split_once('/').unwrap();
        json!({"metadata": {"name": group}, "versions": [{"version": version, "resources": [{"resource": plural,
            "responseKind": {"group": group, "version": version, "kind": kind}, "scope": "Namespaced",
            "singularResource": kind, "verbs": ["get", "list", "watch", "create"]}]}]})
    };
    json!({"apiVersion": "apidiscovery.k8s.io/v2", "kind": "APIGroupDiscoveryList", "metadata": {},
        "items": store.served.iter().map(group).collect::<Vec<_>>()})
}

/// The resources of a group and version, such as `example.com/v1`.
fn resources(store: &Store, version: &str) -> (u16, Value) {
    if store.away.iter().any(|away| away == version) {
        return (
            503,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 503,
            "reason": "ServiceUnavailable", "message": "the server is currently unable to handle the request"}),
        );
    }
    let of_version = store.served.iter().filter(|(served, ..)| served == version);
    let resources: Vec<Value> = of_version
        .map(|(_, kind, plural)| json!({"name": plural, "singularName": "", "namespaced": true, "kind": kind, "verbs": ["get"]}))
        .collect();
    match resources.is_empty() {
        true => (
            404,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": 404,
            "reason": "NotFound", "message": "the server could not find the requested resource"}),
        ),
        false => (200, json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources})),
    }
}

/// An event as servers write it, with the type first.
fn line(event: &str, object: &Value) -> String {
    format!("{{\"type\":\"{event}\",\"object\":{object}}}\n")
}

/// Whom the server takes every client for.
fn review() -> Value {
    let user = json!({"username": "system:serviceaccount:b:daemon", "groups": ["system:serviceaccounts"]});
    json!({"metadata": {}, "status": {"userInfo": user}})
}

async fn answer(State(server): State<Server>, method: Method, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let json = |code: u16, body: Value| {
        Response::builder()
            .status(code)
            .header("content-type", "application/json")
            .body(body.to_string().into())
            .unwrap()
    };
    if let Some(version) = uri.path().strip_prefix("/apis/").filter(|rest| rest.matches('/').count() == 1) {
        let mut store = server.lock();
        store.requests.push((method.to_string(), uri.path().to_owned()));
        let (code, body) = resources(&store, version);
        return json(code, body);
    }
    if ["/api", "/apis"].contains(&uri.path()) {
        server.lock().requests.push((method.to_string(), uri.path().to_owned()));
        let list = if uri.path() == "/apis" { discovery(&server.lock()) } else { discovery(&Store::default()) };
        return json(200, list);
    }
    if uri.path() == "/readyz" {
        return Response::new(Body::from("ok"));
    }
    if uri.path().ends_with("/selfsubjectreviews") {
        return json(201, review());
    }
    let place = Place::of(uri.path());
    let query = uri.query().unwrap_or_default();
    let watch = query.contains("watch=true");
    let mut store = server.lock();
    let listed = method == Method::GET && place.name.is_empty();
    store.note(&method, &uri, watch, &headers);
    let refusal = store.refusal(&place, query).filter(|_| listed);
    if watch && refusal.is_none() {
        if store.is_old(query) {
            let gone =
                json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "old"});
            return Response::new(line("ERROR", &gone).into());
        }
        let events = store.watch(&place, query.contains("sendInitialEvents"));
        let lines = stream::unfold(events, |mut events| async move {
            let event = events.recv().await?;
            Some((Ok::<_, std::convert::Infallible>(event), events))
        });
        return Response::new(Body::from_stream(lines));
    }
    let result = match refusal {
        Some(refusal) => Err(refusal),
        None if listed => Ok(store.list(&place, query)),
        None => store.request(&method, &place, &body),
    };
    let (code, answer) = match result {
        Ok(object) => (200, object),
        Err((code, reason)) => (
            code,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "code": code,
                "reason": reason, "message": format!("{reason}: {} {:?}", place.collection, place.name)}),
        ),
    };
    json(code, answer)
}
