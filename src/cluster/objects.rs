//! Reading and writing single objects as JSON. Every write carries a precondition: PUT the resourceVersion it was made
//! from, DELETE the uid, so that a late one overwrites nothing.

use super::kinds::Kind;
use crate::error::chain;
use kube::Client;
use kube::api::{DeleteParams, GetParams, ListParams, PostParams, Preconditions};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use std::time::Duration;

/// No call may hang: a read or write that takes longer has failed.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Objects of one page of a list: bounds memory.
const PAGE: u32 = 250;
/// Name under which the server records what we write.
pub const FIELD_MANAGER: &str = "cluster-version-operator";

/// A request that failed, with what was attempted.
#[derive(Debug, thiserror::Error)]
#[error("cannot {attempt}: {cause}")]
pub struct ApiError {
    pub attempt: String,
    pub cause: Cause,
}

#[derive(Debug, thiserror::Error)]
pub enum Cause {
    /// The server answered with an error.
    #[error("{message}")]
    Server { code: u16, reason: String, message: String },
    #[error("no answer from the API server: {0}")]
    Transport(String),
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("the API server's answer cannot be read: {0}")]
    Answer(String),
    /// This process may not write any more.
    #[error("this process is no longer the leader")]
    NotLeader,
}

impl ApiError {
    pub fn of(attempt: &str, error: kube::Error) -> Self {
        let cause = match error {
            kube::Error::Api(status) => {
                Cause::Server { code: status.code, reason: status.reason.clone(), message: status.message.clone() }
            }
            kube::Error::SerdeError(e) => Cause::Answer(e.to_string()),
            other => Cause::Transport(chain(&other)),
        };
        ApiError { attempt: attempt.to_owned(), cause }
    }

    fn has(&self, wanted: u16, wanted_reason: &str) -> bool {
        matches!(&self.cause, Cause::Server { code, reason, .. }
            if *code == wanted && (wanted_reason.is_empty() || reason == wanted_reason))
    }

    pub fn is_not_found(&self) -> bool {
        self.has(404, "")
    }

    pub fn is_already_exists(&self) -> bool {
        self.has(409, "AlreadyExists")
    }

    pub fn is_conflict(&self) -> bool {
        self.has(409, "Conflict")
    }

    /// The watch or list position is too old: read afresh.
    pub fn is_gone(&self) -> bool {
        self.has(410, "")
    }

    /// The server answered that it does not do what was asked, now or ever.
    pub fn is_refused(&self) -> bool {
        matches!(&self.cause, Cause::Server { code: 400 | 405 | 406 | 422 | 501, .. })
    }

    /// Internal server error.
    pub fn is_internal(&self) -> bool {
        self.has(500, "")
    }
}

/// What came of a DELETE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Removed {
    Gone,
    /// Finalizers, or a period of grace, keep it for now.
    Going,
}

/// One page of a list.
#[derive(Debug, Deserialize)]
pub struct Page {
    #[serde(default)]
    pub metadata: PageMeta,
    #[serde(default = "Vec::new")]
    pub items: Vec<Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PageMeta {
    pub resource_version: String,
    #[serde(rename = "continue")]
    pub continue_token: Option<String>,
    pub remaining_item_count: Option<i64>,
}

/// May this process begin a write now? Answered by the lease.
pub type MayWrite = std::sync::Arc<dyn Fn() -> bool + Send + Sync>;

/// Reads and guarded writes.
#[derive(Clone)]
pub struct Objects {
    client: Client,
    may_write: MayWrite,
}

impl std::fmt::Debug for Objects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Objects").finish_non_exhaustive()
    }
}

impl Objects {
    pub fn new(client: Client, may_write: MayWrite) -> Self {
        Objects { client, may_write }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The live object, or `None` when it is not there.
    pub async fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Result<Option<Value>, ApiError> {
        let attempt = format!("read {}", label(kind, namespace, name));
        let request = kube::core::Request::new(kind.path(namespace)).get(name, &GetParams::default());
        match self.call(&attempt, request).await {
            Ok(object) => Ok(Some(object)),
            Err(e) if e.is_not_found() => Ok(None),
            Err(e) => Err(e),
        }
    }

    /// One page of all objects of a kind in all namespaces.
    pub async fn page(&self, kind: &Kind, token: Option<String>) -> Result<Page, ApiError> {
        let attempt = format!("list {}", kind.plural);
        let params = ListParams { limit: Some(PAGE), continue_token: token, ..ListParams::default() };
        let request = kube::core::Request::new(kind.path("")).list(&params);
        self.call(&attempt, request).await
    }

    /// All objects of a namespace that carry the label, whatever its value.
    pub async fn labelled(&self, kind: &Kind, namespace: &str, label: &str) -> Result<Vec<Value>, ApiError> {
        let attempt = format!("list {} in {namespace}", kind.plural);
        let params = ListParams { label_selector: Some(label.to_owned()), ..ListParams::default() };
        let request = kube::core::Request::new(kind.path(namespace)).list(&params);
        self.call::<Page>(&attempt, request).await.map(|page| page.items)
    }

    /// POST; the object must not be there.
    pub async fn create(&self, kind: &Kind, namespace: &str, object: &Value) -> Result<Value, ApiError> {
        let name = object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        let attempt = format!("create {}", label(kind, namespace, name));
        let made = self.create_raw(kind, namespace, name, bytes(&attempt, object)?).await?;
        serde_json::from_str(made.get()).map_err(|error| ApiError { attempt, cause: Cause::Answer(error.to_string()) })
    }

    /// Like [`Objects::create`], from and to undecoded JSON: of what is made little need be known, and many are under way.
    pub async fn create_raw(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        body: Vec<u8>,
    ) -> Result<Box<RawValue>, ApiError> {
        let attempt = format!("create {}", label(kind, namespace, name));
        self.guard(&attempt)?;
        let request = kube::core::Request::new(kind.path(namespace)).create(&post(), body);
        self.call(&attempt, request).await
    }

    /// PUT; `object` carries the resourceVersion it was made from.
    pub async fn replace(&self, kind: &Kind, namespace: &str, name: &str, object: &Value) -> Result<Value, ApiError> {
        let attempt = format!("update {}", label(kind, namespace, name));
        self.guard(&attempt)?;
        let request = kube::core::Request::new(kind.path(namespace)).replace(name, &post(), bytes(&attempt, object)?);
        self.call(&attempt, request).await
    }

    /// PUT on the status subresource; `object` carries the resourceVersion it was made from.
    pub async fn replace_status(
        &self,
        kind: &Kind,
        namespace: &str,
        name: &str,
        object: &Value,
    ) -> Result<Value, ApiError> {
        let attempt = format!("update the status of {}", label(kind, namespace, name));
        self.guard(&attempt)?;
        let body = bytes(&attempt, object)?;
        let request = kube::core::Request::new(kind.path(namespace)).replace_subresource("status", name, &post(), body);
        self.call(&attempt, request).await
    }

    /// DELETE of exactly the object with that uid. Gone already is success.
    pub async fn delete(&self, kind: &Kind, namespace: &str, name: &str, uid: &str) -> Result<Removed, ApiError> {
        let attempt = format!("delete {}", label(kind, namespace, name));
        self.guard(&attempt)?;
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::background() };
        let request = kube::core::Request::new(kind.path(namespace)).delete(name, &params);
        match self.call::<Value>(&attempt, request).await {
            // An object is answered that is only marked for now.
            Ok(answer) if answer.pointer("/metadata/deletionTimestamp").is_some() => Ok(Removed::Going),
            Err(e) if !e.is_not_found() => Err(e),
            _ => Ok(Removed::Gone),
        }
    }

    fn guard(&self, attempt: &str) -> Result<(), ApiError> {
        if (self.may_write)() {
            return Ok(());
        }
        Err(ApiError { attempt: attempt.to_owned(), cause: Cause::NotLeader })
    }

    async fn call<T: DeserializeOwned>(
        &self,
        attempt: &str,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<T, ApiError> {
        call(&self.client, CALL_TIMEOUT, attempt, request).await
    }
}

/// One request that has failed when it takes longer than `limit`.
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

pub(super) fn post() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

fn bytes(attempt: &str, object: &Value) -> Result<Vec<u8>, ApiError> {
    serde_json::to_vec(object)
        .map_err(|e| ApiError { attempt: attempt.to_owned(), cause: Cause::Answer(e.to_string()) })
}

fn label(kind: &Kind, namespace: &str, name: &str) -> String {
    let namespace = if kind.namespaced { namespace } else { "" };
    crate::payload::ObjectId::new(&kind.group, &kind.kind, namespace, name).to_string()
}
