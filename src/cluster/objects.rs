//! Reads and writes single objects as JSON. Every write has a precondition, so that a late one overwrites nothing: PUT and
//! apply the resourceVersion that they are based on, DELETE the uid.

use super::error::{ApiError, Cause, NotLeader};
use super::kinds::Kind;
use crate::object::metadata;
use kube::Client;
use kube::api::{DeleteParams, GetParams, ListParams, LogParams, Patch, PatchParams, PostParams, Preconditions};
use kube::client::Body;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_json::value::RawValue;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A read or write that takes longer has failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// The metadata of an object as the answer to a write.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
/// Objects in one page of a list; limits memory.
const PAGE: u32 = 250;

/// The result of a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    Gone,
    /// Finalizers or a grace period keep it for now.
    Terminating,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub(crate) struct Page {
    #[serde(default)]
    pub metadata: PageMeta,
    /// A list of metadata has `null` where it is empty.
    #[serde(default, deserialize_with = "items")]
    pub items: Vec<Value>,
}

impl Page {
    /// By which the next page is asked for; `None` for the last one.
    pub(crate) fn next(&self) -> Option<String> {
        self.metadata.continue_token.clone().filter(|token| !token.is_empty())
    }
}

fn items<'de, D: Deserializer<'de>>(items: D) -> Result<Vec<Value>, D::Error> {
    Ok(Option::deserialize(items)?.unwrap_or_default())
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PageMeta {
    pub resource_version: String,
    #[serde(rename = "continue")]
    pub continue_token: Option<String>,
    pub remaining_item_count: Option<i64>,
}

/// Whether this process may start a write now; the lease decides.
pub(crate) type MayWrite = Arc<dyn Fn() -> bool + Send + Sync>;

/// Marks a request whose failure says something that the caller wants to know at once.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoRetry;

/// Reads, and writes while [`MayWrite`] allows them.
#[derive(Clone)]
pub(crate) struct Objects {
    client: Client,
    may_write: MayWrite,
    /// The field manager of all writes.
    manager: &'static str,
    longest_write: Duration,
    /// The server checks creations and updates, and stores nothing.
    dry_run: bool,
    /// Writes are answered with the metadata of what has become of the object.
    by_metadata: bool,
}

/// Where warnings of the API server are put.
pub(crate) type Warnings = Arc<Mutex<Vec<String>>>;

/// The text of each `Warning` header with the code 299, which API servers use: `299 - "text"`.
fn warnings(headers: &http::HeaderMap) -> impl Iterator<Item = String> {
    let values = headers.get_all(http::header::WARNING).iter().filter_map(|value| value.to_str().ok());
    let texts = values.filter_map(|value| value.strip_prefix("299 ")?.split_once(' ')?.1.strip_prefix('"'));
    texts.map(|text| text.strip_suffix('"').unwrap_or(text).replace("\\\"", "\""))
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    /// `manager`: under whose name it writes.
    pub(crate) fn new(client: Client, manager: &'static str, may_write: MayWrite) -> Self {
        Objects { client, may_write, manager, longest_write: CALL_TIMEOUT, dry_run: false, by_metadata: false }
    }

    /// For whoever never writes.
    pub(crate) fn reader(client: Client) -> Self {
        Objects::new(client, "", Arc::new(|| false))
    }

    /// The same; a write that takes longer than this has failed.
    pub(crate) fn with_longest_write(self, limit: Duration) -> Self {
        Objects { longest_write: limit.min(CALL_TIMEOUT), ..self }
    }

    /// The same, whose creations and updates are only checked by the server.
    pub(crate) fn dry_run(&self) -> Self {
        Objects { dry_run: true, ..self.clone() }
    }

    /// The same, whose creations and updates are answered with the metadata of the object alone, which the server need not write down whole.
    pub(crate) fn answered_by_metadata(&self) -> Self {
        Objects { by_metadata: true, ..self.clone() }
    }

    /// The same by another client, and so perhaps with other rights.
    pub(crate) fn with_client(&self, client: Client) -> Self {
        Objects { client, ..self.clone() }
    }

    /// The same, which puts what the server warns of there.
    pub(crate) fn telling(&self, to: &Warnings) -> Self {
        let (client, to) = (self.client.clone(), to.clone());
        let namespace = client.default_namespace().to_owned();
        let send = move |request: http::Request<Body>| {
            let (client, to) = (client.clone(), to.clone());
            async move {
                let response = client.send(request).await?;
                to.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings(response.headers()));
                Ok::<_, kube::Error>(response)
            }
        };
        Objects { client: Client::new(tower::service_fn(send), namespace), ..self.clone() }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Parameters of a POST or PUT.
    fn params(&self) -> PostParams {
        PostParams { dry_run: self.dry_run, ..post(self.manager) }
    }

    /// A client whose requests are sent only while [`MayWrite`] allows them.
    pub(crate) fn client_for_writes(&self) -> Client {
        let (client, may_write) = (self.client.clone(), self.may_write.clone());
        let namespace = client.default_namespace().to_owned();
        let send = move |mut request: http::Request<Body>| {
            request.extensions_mut().insert(may_write.clone());
            let client = client.clone();
            async move { client.send(request).await }
        };
        Client::new(tower::service_fn(send), namespace)
    }

    /// The live object; `None` if it does not exist.
    pub(crate) async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let attempt = format!("read {}", label(kind, namespace, name));
        let request = kube::core::Request::new(kind.path(namespace)).get(name, &GetParams::default());
        match self.call(&attempt, request).await {
            Ok(object) => Ok(Some(object)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// One page of all objects of a kind in all namespaces.
    pub(crate) async fn page(&self, kind: &Kind, token: Option<String>) -> Result<Page, ApiError> {
        let attempt = format!("list {}", kind.plural);
        let params = ListParams { limit: Some(PAGE), continue_token: token, ..ListParams::default() };
        let request = kube::core::Request::new(kind.path("")).list(&params);
        self.call(&attempt, request).await
    }

    /// All objects of a kind that has few, in all namespaces.
    pub(crate) async fn all(&self, kind: &Kind) -> Result<Vec<Value>, ApiError> {
        let (mut all, mut token) = (Vec::new(), None);
        loop {
            let page = self.page(kind, token).await?;
            token = page.next();
            all.extend(page.items);
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    /// All objects that a label selector selects, of a namespace or of all, or what `keep` keeps of each. They are read in pages of at most
    /// `limit`, which are in memory at the same time.
    pub(crate) async fn selected<T>(
        &self,
        kind: &Kind,
        (namespace, labels): (&str, &str),
        limit: u32,
        mut keep: impl FnMut(Value) -> Option<T>,
    ) -> Result<Vec<T>, ApiError> {
        let (mut all, mut token) = (Vec::new(), None);
        loop {
            let page = self.labelled_page(kind, namespace, labels, limit, token).await?;
            token = page.next();
            all.extend(page.items.into_iter().filter_map(&mut keep));
            if token.is_none() {
                return Ok(all);
            }
        }
    }

    /// The same of all namespaces, of each object nothing but its metadata, with so much time between two pages.
    pub(crate) async fn selected_metadata<T>(
        &self,
        kind: &Kind,
        labels: &str,
        (limit, pause): (u32, Duration),
        mut keep: impl FnMut(Value) -> Option<T>,
    ) -> Result<Vec<T>, ApiError> {
        let attempt = format!("list the metadata of {}", kind.plural);
        let (mut all, mut token) = (Vec::new(), None);
        loop {
            let label_selector = Some(labels.to_owned());
            let params =
                ListParams { label_selector, limit: Some(limit), continue_token: token, ..ListParams::default() };
            let request = kube::core::Request::new(kind.path("")).list_metadata(&params);
            let page: Page = self.call(&attempt, request).await?;
            token = page.next();
            all.extend(page.items.into_iter().filter_map(&mut keep));
            if token.is_none() {
                return Ok(all);
            }
            tokio::time::sleep(pause).await;
        }
    }

    /// One page of them.
    pub(crate) async fn labelled_page(
        &self,
        kind: &Kind,
        namespace: &str,
        label: &str,
        limit: u32,
        token: Option<String>,
    ) -> Result<Page, ApiError> {
        let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
        let attempt = format!("list {}{place}", kind.plural);
        let label_selector = Some(label.to_owned());
        let params = ListParams { label_selector, limit: Some(limit), continue_token: token, ..ListParams::default() };
        let request = kube::core::Request::new(kind.path(namespace)).list(&params);
        self.call(&attempt, request).await
    }

    /// The beginning of what a container of a pod has said, of at most so many bytes.
    pub(crate) async fn log(
        &self,
        namespace: &str,
        pod: &str,
        container: &str,
        limit: usize,
    ) -> Result<String, ApiError> {
        let attempt = format!("read the log of Pod {namespace}/{pod}");
        let limit_bytes = Some(i64::try_from(limit).unwrap_or(i64::MAX));
        let params = LogParams { container: Some(container.to_owned()), limit_bytes, ..LogParams::default() };
        let request = kube::core::Request::new(Kind::pod().path(namespace)).logs(pod, &params);
        let request = request.map_err(|error| ApiError::of(&attempt, kube::Error::BuildRequest(error)))?;
        match tokio::time::timeout(CALL_TIMEOUT, self.client.request_text(request)).await {
            Ok(answer) => answer.map_err(|error| ApiError::of(&attempt, error)),
            Err(_) => Err(ApiError { attempt, cause: Cause::Timeout }),
        }
    }

    /// POST; the object must not exist.
    pub(crate) async fn create(&self, kind: &Kind, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let name = metadata::name(object);
        let attempt = format!("create {}", label(kind, namespace, name));
        let created = self.create_raw(kind, namespace, name, bytes(&attempt, object)?).await?;
        serde_json::from_str(created.get())
            .map_err(|error| ApiError { attempt, cause: Cause::Answer(error.to_string()) })
    }

    /// What the server would make of a new object; nothing is created.
    pub(crate) async fn defaulted(&self, kind: &Kind, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let attempt = format!("complete {}", label(kind, namespace, metadata::name(object)));
        let params = PostParams { dry_run: true, ..post(self.manager) };
        let request = kube::core::Request::new(kind.path(namespace)).create(&params, bytes(&attempt, object)?);
        self.write(&attempt, request).await
    }

    /// Like [`Objects::create`] with JSON that is not decoded, which takes far more memory, since many are created at once.
    pub(crate) async fn create_raw(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        body: Vec<u8>,
    ) -> Result<Box<RawValue>, ApiError> {
        let attempt = format!("create {}", label(kind, namespace, name));
        let request = kube::core::Request::new(kind.path(namespace)).create(&self.params(), body);
        self.write(&attempt, request).await
    }

    /// Server-side apply of a [`crate::merge::configuration`], which has the resourceVersion that it is based on. Neither it
    /// nor the answer is decoded, which takes far more memory, since many objects are created at once.
    pub(crate) async fn apply(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        configuration: Box<RawValue>,
    ) -> Result<Box<RawValue>, ApiError> {
        let attempt = format!("apply {}", label(kind, namespace, name));
        let params = PatchParams::apply(self.manager).force();
        let request =
            kube::core::Request::new(kind.path(namespace)).patch(name, &params, &Patch::Apply(&configuration));
        drop(configuration);
        self.write(&attempt, request).await
    }

    /// JSON merge patch. One that has `metadata.resourceVersion` is refused where the object has another.
    pub(crate) async fn merge_patch<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<T, ApiError> {
        self.merge_patch_as(self.manager, kind, namespace, name, patch).await
    }

    /// The same as another field manager than that of all other writes.
    pub(crate) async fn merge_patch_as<T: DeserializeOwned>(
        &self,
        manager: &str,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<T, ApiError> {
        let attempt = format!("change {}", label(kind, namespace, name));
        let params = PatchParams { field_manager: Some(manager.to_owned()), ..PatchParams::default() };
        let request = kube::core::Request::new(kind.path(namespace)).patch(name, &params, &Patch::Merge(patch));
        self.write(&attempt, request).await
    }

    /// The same for the status subresource.
    pub(crate) async fn merge_patch_status<T: DeserializeOwned>(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        patch: &Value,
    ) -> Result<T, ApiError> {
        let attempt = format!("change the status of {}", label(kind, namespace, name));
        let params = PatchParams { field_manager: Some(self.manager.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(patch);
        let request = kube::core::Request::new(kind.path(namespace)).patch_subresource("status", name, &params, &patch);
        self.write(&attempt, request).await
    }

    /// Asks for the end of exactly this pod, which PodDisruptionBudgets may forbid: then the answer is one of too many
    /// requests, which is not tried again here.
    pub(crate) async fn evict(&self, namespace: &str, name: &str, uid: &str) -> Result<(), ApiError> {
        let attempt = format!("evict pod {namespace}/{name}");
        let eviction = serde_json::json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {"preconditions": {"uid": uid}},
        });
        let pods = Kind::pod();
        let request = kube::core::Request::new(pods.path(namespace));
        let request = request.create_subresource("eviction", name, &post(self.manager), bytes(&attempt, &eviction)?);
        let request = request.map(|mut request| {
            request.extensions_mut().insert(NoRetry);
            request
        });
        self.write::<Value>(&attempt, request).await.map(|_| ())
    }

    /// PUT; `object` has the resourceVersion that it is based on.
    pub(crate) async fn replace(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let attempt = format!("update {}", label(kind, namespace, name));
        let request =
            kube::core::Request::new(kind.path(namespace)).replace(name, &self.params(), bytes(&attempt, object)?);
        self.write(&attempt, request).await
    }

    /// PUT of the status subresource; `object` has the resourceVersion that it is based on.
    pub(crate) async fn replace_status(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let attempt = format!("update the status of {}", label(kind, namespace, name));
        let body = bytes(&attempt, object)?;
        let request = kube::core::Request::new(kind.path(namespace)).replace_subresource(
            "status",
            name,
            &post(self.manager),
            body,
        );
        self.write(&attempt, request).await
    }

    /// DELETE of exactly the object with this uid. It is a success if it does not exist any more.
    pub(crate) async fn delete(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
    ) -> Result<Removed, ApiError> {
        self.delete_with(kind, namespace, (name, uid), None, DeleteParams::background()).await
    }

    /// The same for exactly this version of the object: one that somebody has changed since stays, which is a conflict.
    pub(crate) async fn delete_version(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        (uid, version): (&str, &str),
    ) -> Result<Removed, ApiError> {
        self.delete_with(kind, namespace, (name, uid), Some(version), DeleteParams::background()).await
    }

    /// The same for what gets so many seconds to end by itself.
    pub(crate) async fn delete_within(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        uid: &str,
        seconds: u32,
    ) -> Result<Removed, ApiError> {
        let params = DeleteParams::background().grace_period(seconds);
        self.delete_with(kind, namespace, (name, uid), None, params).await
    }

    async fn delete_with(
        &self,
        kind: &Kind,
        namespace: &str,
        (name, uid): (&str, &str),
        version: Option<&str>,
        params: DeleteParams,
    ) -> Result<Removed, ApiError> {
        let attempt = format!("delete {}", label(kind, namespace, name));
        let resource_version = version.map(ToOwned::to_owned);
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version };
        let params = DeleteParams { preconditions: Some(preconditions), ..params };
        let request = kube::core::Request::new(kind.path(namespace)).delete(name, &params);
        match self.write::<Value>(&attempt, request).await {
            Ok(answer) if metadata::is_terminating(&answer) => Ok(Removed::Terminating),
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(Removed::Gone),
        }
    }

    /// A write, which is sent only while [`MayWrite`] allows it.
    async fn write<T: DeserializeOwned>(
        &self,
        attempt: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ApiError> {
        if !(self.may_write)() {
            return Err(ApiError { attempt: attempt.to_owned(), cause: NotLeader.into() });
        }
        let request = request.map(|mut request| {
            request.extensions_mut().insert(self.may_write.clone());
            if self.by_metadata {
                request.headers_mut().insert(http::header::ACCEPT, http::HeaderValue::from_static(METADATA));
            }
            request
        });
        call(&self.client, self.longest_write, attempt, request).await
    }

    async fn call<T: DeserializeOwned>(
        &self,
        attempt: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ApiError> {
        call(&self.client, CALL_TIMEOUT, attempt, request).await
    }
}

/// One request, which has failed if it takes longer than `limit`.
pub(super) async fn call<T: DeserializeOwned>(
    client: &Client,
    limit: Duration,
    attempt: &str,
    request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
) -> Result<T, ApiError> {
    let request = request.map_err(|e| ApiError::of(attempt, kube::Error::BuildRequest(e)))?;
    match tokio::time::timeout(limit, client.request::<T>(request)).await {
        Ok(answer) => answer.map_err(|e| ApiError::of(attempt, e)),
        Err(_) => Err(ApiError { attempt: attempt.to_owned(), cause: Cause::Timeout }),
    }
}

/// Parameters of a POST or PUT by this field manager.
pub(super) fn post(manager: &str) -> PostParams {
    PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() }
}

fn bytes(attempt: &str, object: &Value) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(object)
        .map_err(|e| ApiError { attempt: attempt.to_owned(), cause: Cause::Answer(e.to_string()) })
}

fn label(kind: &Kind, namespace: &str, name: &str) -> String {
    let namespace = if kind.namespaced { namespace } else { "" };
    crate::object::manifest::ObjectId::new(&kind.group, &kind.kind, namespace, name).to_string()
}

#[cfg(test)]
pub(crate) mod tests;
