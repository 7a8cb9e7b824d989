//! The calls on a connection: which method is asked of which catalog.

use super::answers::{self, Content, Progress};
use super::{Limits, Shared};
use crate::olm::registry::ACKNOWLEDGE;
use crate::olm::registry::authority::{Key, named};
use crate::olm::registry::messages::*;
use crate::olm::registry::query::Query;
use futures::stream;
use http::header::HOST;
use hyper::body::Incoming;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::Status;
use tonic::body::Body;
use tonic::server::Grpc;
use tonic_prost::ProstCodec;

/// Bytes of a request. It has names.
const MAX_REQUEST: usize = 64 << 10;

/// Methods that may change.
const EXPERIMENTAL: &str = "/api.ExperimentalRegistry/";

pub(super) type Request = http::Request<Incoming>;
pub(super) type Response = http::Response<Body>;

/// Which catalog is asked on a port.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The one that the request names.
    Named,
    Own(Arc<Key>),
}

/// What answers the calls on a port.
#[derive(Clone)]
pub(super) struct Calls {
    shared: Shared,
    target: Target,
    at_once: Arc<Semaphore>,
}

/// A call that has been admitted.
#[derive(Clone)]
struct Call {
    calls: Calls,
    authority: String,
    progress: Progress,
}

impl Calls {
    pub(super) fn new(shared: &Shared, target: Target) -> Self {
        Calls { shared: shared.clone(), target, at_once: Arc::new(Semaphore::new(shared.limits.calls)) }
    }

    fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    /// How many calls have been admitted and are not answered yet.
    pub(super) fn under_way(&self) -> usize {
        self.limits().calls.saturating_sub(self.at_once.available_permits())
    }

    /// Answers a request. Errors are answers as well.
    pub(super) async fn answer(self, request: Request, progress: Progress) -> Result<Response, Infallible> {
        let limit = self.limits().call;
        let answered = tokio::time::timeout(limit, self.method(request, progress)).await;
        Ok(answered.unwrap_or_else(|_| {
            let status = format!("the answer did not begin within {limit:?}: too many calls are under way; try again");
            Status::resource_exhausted(status).into_http()
        }))
    }

    async fn method(self, request: Request, progress: Progress) -> Response {
        let call = Call { authority: authority(&request), progress, calls: self };
        methods! { call, request,
            ListPackageRequest GetPackageRequest GetBundleRequest GetBundleInChannelRequest GetAllReplacementsRequest
            GetReplacementRequest GetAllProvidersRequest GetLatestProvidersRequest GetDefaultProviderRequest
            ListBundlesRequest ExperimentalListPackageCustomSchemasRequest
        }
    }
}

/// Answers the request by its path.
macro_rules! methods {
    ($call:ident, $request:ident, $($query:ident)+) => {
        match $request.uri().path() {
            $(<$query as Query>::PATH => $call.answer::<$query>($request).await,)+
            _ => $call.calls.shared.others.answer($request).await,
        }
    };
}
use methods;

/// What the client has dialled.
fn authority(request: &Request) -> String {
    let header = || request.headers().get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    request.uri().authority().map_or_else(header, |authority| authority.as_str()).to_owned()
}

fn codec<Q: Query>() -> Grpc<ProstCodec<Q::Answer, Q>> {
    Grpc::new(ProstCodec::default()).max_decoding_message_size(MAX_REQUEST)
}

/// An answer without messages, for clients that do not know what they ask for.
async fn nothing<Q: Query>(request: Request) -> Response {
    let service = tower::service_fn(|_: tonic::Request<Q>| async {
        Ok(tonic::Response::new(stream::empty::<Result<Q::Answer, Status>>()))
    });
    codec::<Q>().server_streaming(service, request).await
}

impl Call {
    /// Answers a method. An answer of one message looks as one of many does.
    async fn answer<Q: Query>(self, request: Request) -> Response {
        let acknowledged = || request.headers().get(ACKNOWLEDGE).is_some_and(|value| value == "true");
        if Q::PATH.starts_with(EXPERIMENTAL) && !acknowledged() {
            return nothing::<Q>(request).await;
        }
        let service = tower::service_fn(move |request: tonic::Request<Q>| {
            let call = self.clone();
            async move {
                let (content, permit) = (call.content()?, call.permit().await?);
                let memory = call.calls.shared.memory.clone();
                let answers = answers::begin(request.into_inner(), content, memory, permit, &call.progress).await?;
                Ok::<_, Status>(tonic::Response::new(answers))
            }
        });
        codec::<Q>().server_streaming(service, request).await
    }

    /// The content of the catalog as it is now.
    fn content(&self) -> Result<Content, Status> {
        let mut catalogs = self.calls.shared.catalogs.clone();
        let now = catalogs.borrow_and_update().clone();
        let (key, served) = match &self.calls.target {
            Target::Named => named(&now, &self.authority).map_err(|error| Status::not_found(error.to_string()))?,
            Target::Own(key) => now.get_key_value(key.as_ref()).ok_or_else(|| answers::removed(key))?,
        };
        Ok(Content { key: key.clone(), content: served.content.clone(), catalogs })
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Status> {
        let permit = self.calls.at_once.clone().acquire_owned().await;
        permit.map_err(|_| Status::unavailable("the server stops"))
    }
}
