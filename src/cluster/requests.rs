//! Counts requests to the API server by verb and status code, each attempt on its own.

use futures::FutureExt;
use futures::future::BoxFuture;
use http::{Method, Request, Response, StatusCode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use tower::{Layer, Service};

/// The counts of all clients that share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestCounts {
    /// By verb and status code; 0 stands for no answer.
    counts: Arc<Mutex<BTreeMap<(&'static str, u16), u64>>>,
}

impl RequestCounts {
    /// By verb and status code, `error` for requests without an answer. A watch counts once it is answered.
    pub(crate) fn current(&self) -> BTreeMap<(&'static str, String), u64> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let text = |code: u16| if code == 0 { "error".to_owned() } else { code.to_string() };
        counts.iter().map(|((verb, code), number)| ((*verb, text(*code)), *number)).collect()
    }

    fn add(&self, verb: &'static str, code: Option<StatusCode>) {
        let code = code.map_or(0, |code| code.as_u16());
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner).entry((verb, code)).or_default() += 1;
    }
}

/// The verb that the API server's authorization would name, but for lists, which the path alone does not tell from reads.
fn verb<B>(request: &Request<B>) -> &'static str {
    let watches = |query: &str| query.split('&').any(|part| matches!(part, "watch=true" | "watch=1"));
    match *request.method() {
        Method::GET if request.uri().query().is_some_and(watches) => "watch",
        Method::GET => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::PATCH => "patch",
        Method::DELETE => "delete",
        _ => "other",
    }
}

impl<S> Layer<S> for RequestCounts {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted { inner, counts: self.clone() }
    }
}

/// A service whose requests are counted.
#[derive(Clone, Debug)]
pub(crate) struct Counted<S> {
    inner: S,
    counts: RequestCounts,
}

impl<S, A, B> Service<Request<A>> for Counted<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = BoxFuture<'static, Result<S::Response, S::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let (verb, counts) = (verb(&request), self.counts.clone());
        let answer = self.inner.call(request);
        answer.inspect(move |answer| counts.add(verb, answer.as_ref().ok().map(Response::status))).boxed()
    }
}

#[cfg(test)]
mod tests;
