//! Why a request to the API server failed.

use crate::error::{CAUSE, chain, shortened};
use std::fmt;

/// Most bytes that are kept of what the server says; the log has them.
const ANSWER: usize = 64 << 10;

/// A request that failed, with what was attempted. Its text is bounded, see [`ApiError::whole`].
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub struct ApiError {
    pub attempt: String,
    pub(crate) cause: Cause,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shortened(&self.whole(), CAUSE))
    }
}

#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub(crate) enum Cause {
    /// The server answered with an error.
    #[error("{message}")]
    Server { code: u16, reason: String, message: String },
    #[error("no answer from the API server: {0}")]
    Transport(String),
    #[error("the API server did not answer in time")]
    Timeout,
    #[error("the API server's answer cannot be read: {0}")]
    Answer(String),
    #[error(transparent)]
    NotLeader(#[from] NotLeader),
}

/// A write is not sent, because this process lost the lease.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("this process is no longer the leader")]
pub(crate) struct NotLeader;

impl ApiError {
    pub(crate) fn of(attempt: &str, error: kube::Error) -> Self {
        let bounded = |text: &str| shortened(text, ANSWER).into_owned();
        let cause = match error {
            kube::Error::Api(status) => {
                let (reason, message) = (shortened(&status.reason, CAUSE).into_owned(), bounded(&status.message));
                Cause::Server { code: status.code, reason, message }
            }
            kube::Error::SerdeError(e) => Cause::Answer(bounded(&e.to_string())),
            kube::Error::Service(e) if e.is::<NotLeader>() => NotLeader.into(),
            other => Cause::Transport(bounded(&chain(&other))),
        };
        ApiError { attempt: attempt.to_owned(), cause }
    }

    /// All of the text, for the log.
    pub(crate) fn whole(&self) -> String {
        format!("cannot {}: {}", self.attempt, self.cause)
    }

    /// An empty reason is any.
    fn has(&self, expected: u16, expected_reason: &str) -> bool {
        matches!(&self.cause, Cause::Server { code, reason, .. }
            if *code == expected && (expected_reason.is_empty() || reason == expected_reason))
    }

    pub(crate) fn is_not_found(&self) -> bool {
        self.has(404, "")
    }

    /// A right is missing.
    pub(crate) fn is_forbidden(&self) -> bool {
        self.has(403, "Forbidden") && !self.is_namespace_terminating()
    }

    /// The server does not know who asks.
    pub(crate) fn is_unauthorized(&self) -> bool {
        self.has(401, "")
    }

    /// The server cannot say what would become of the request: somebody whom it asks about each write does not answer without effect.
    pub(crate) fn is_of_dry_run(&self) -> bool {
        matches!(&self.cause, Cause::Server { code: 400 | 405 | 501, message, .. }
            if message.contains("dry run") || message.contains("dryRun"))
    }

    /// As the answer to a dry run it says nothing against the write: somebody else was faster, the server cannot say what would become
    /// of it, or, where the write `refers` to what is not there yet, the server does not know that.
    pub(crate) fn is_no_verdict(&self, refers: bool) -> bool {
        let of_others = self.is_already_exists() || self.is_conflict();
        let of_reference = self.is_not_found() || self.is_forbidden() && !self.lacks_verb();
        of_others || self.is_of_dry_run() || refers && of_reference
    }

    /// Who asks may not do this with any object of the kind, whatever is in it.
    fn lacks_verb(&self) -> bool {
        matches!(&self.cause, Cause::Server { code: 403, message, .. }
            if message.split_once(" cannot ").is_some_and(|(_, what)| what.contains(" resource \"")))
    }

    /// The server asks for patience; an eviction is forbidden by a PodDisruptionBudget.
    pub(crate) fn is_too_many_requests(&self) -> bool {
        self.has(429, "")
    }

    pub(crate) fn is_already_exists(&self) -> bool {
        self.has(409, "AlreadyExists")
    }

    pub(crate) fn is_conflict(&self) -> bool {
        self.has(409, "Conflict")
    }

    /// The resourceVersion of a watch or list is too old: everything has to be listed again.
    pub(crate) fn is_gone(&self) -> bool {
        self.has(410, "")
    }

    /// Nothing can be created in the namespace, because it is being deleted.
    pub(crate) fn is_namespace_terminating(&self) -> bool {
        matches!(&self.cause, Cause::Server { code: 403, message, .. } if message.ends_with("because it is being terminated"))
    }

    /// The server does not support or accept the request, so that a retry is useless.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(&self.cause, Cause::Server { code: 400 | 405 | 406 | 422 | 501, .. })
    }

    /// The server has answered: it is there.
    pub(crate) fn is_answer(&self) -> bool {
        matches!(&self.cause, Cause::Server { .. } | Cause::Answer(_))
    }

    /// The server has understood the request and turns it down; only a change elsewhere makes a retry useful.
    pub(crate) fn is_rejected(&self) -> bool {
        self.is_refused() || matches!(&self.cause, Cause::Server { code: 401 | 403 | 404 | 413, .. })
    }

    /// A webhook that the request needs does not answer: it converts the stored object, or it is asked about every write.
    pub(crate) fn is_of_webhook(&self) -> bool {
        const OF_WEBHOOKS: [&str; 2] = ["conversion webhook for ", "failed calling webhook "];
        matches!(&self.cause, Cause::Server { code: 500.., message, .. }
            if OF_WEBHOOKS.iter().any(|part| message.contains(part)))
    }

    /// The namespace of the Service behind that webhook, which the server calls at `https://NAME.NAMESPACE.svc:PORT/PATH`; `None`
    /// for one that has an address of its own.
    pub(crate) fn webhook_namespace(&self) -> Option<&str> {
        let Cause::Server { message, .. } = &self.cause else { return None };
        let (_, address) = message.split_once("webhook ")?.1.split_once("https://")?;
        let host = address.split([':', '/', '?', '"']).next()?;
        let mut parts = host.split('.');
        let (_, namespace) = (parts.next()?, parts.next()?);
        (parts.next() == Some("svc") && parts.next().is_none()).then_some(namespace)
    }

    /// The server cannot apply the manifest, although it may accept it in a POST or PUT: a field is in no schema, two elements
    /// of a list have the same key, or a field is not in the schema of the version that was applied last. Or it does not
    /// serve apply.
    pub(crate) fn cannot_apply(&self) -> bool {
        const WITHOUT_SCHEMA: [&str; 2] = ["failed to create typed patch object", "failed to prune fields"];
        let Cause::Server { code, message, .. } = &self.cause else { return false };
        matches!(code, 405 | 415) || *code == 500 && WITHOUT_SCHEMA.iter().any(|part| message.starts_with(part))
    }
}

#[cfg(test)]
mod tests;
