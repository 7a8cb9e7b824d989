//! The answer to a request that gets nothing else: a `Status`, as clients of the API know it.

use crate::olm::api::package_manifest::{GROUP, PLURAL};
use serde::Serialize;
use serde_json::{Map, Value, json};

/// What a user needs the right to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Attributes<'a> {
    pub verb: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Empty for the object itself.
    pub subresource: &'a str,
    /// Empty: in every namespace.
    pub namespace: &'a str,
    /// Empty: all names.
    pub name: &'a str,
}

/// Why a request is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Status {
    /// Of HTTP.
    pub code: u16,
    /// A word for programs.
    pub reason: &'static str,
    pub message: String,
    /// The object that it is about. Empty if it is about none.
    name: String,
    /// Plural of the resource that has it.
    resource: String,
    /// Seconds after which to try again.
    pub retry_after: Option<u16>,
    /// Methods that the address has.
    pub allow: &'static str,
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Status {
            code,
            reason,
            message: message.into(),
            name: String::new(),
            resource: String::new(),
            retry_after: None,
            allow: "GET, HEAD",
        }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Status::new(400, "BadRequest", message)
    }

    /// Nobody has proven in whose name is asked.
    pub(crate) fn unauthorized(message: impl Into<String>) -> Self {
        Status::new(401, "Unauthorized", message)
    }

    pub(crate) fn forbidden(user: &str, what: &Attributes<'_>, why: &str) -> Self {
        let Attributes { verb, resource: plural, subresource, namespace, name } = what;
        let resource = if subresource.is_empty() { (*plural).to_owned() } else { format!("{plural}/{subresource}") };
        let scope = match *namespace {
            "" => "at the cluster scope".to_owned(),
            namespace => format!("in the namespace {namespace:?}"),
        };
        let object = if name.is_empty() { String::new() } else { format!(" {name:?}") };
        let cannot = format!("User {user:?} cannot {verb} resource {resource:?} in API group {GROUP:?} {scope}");
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let message = format!("{plural}.{GROUP}{object} is forbidden: {cannot}{why}");
        let (name, resource) = ((*name).to_owned(), (*plural).to_owned());
        Status { name, resource, ..Status::new(403, "Forbidden", message) }
    }

    /// There is no package of this name.
    pub(crate) fn no_package(name: &str) -> Self {
        Status::no_object(PLURAL, name)
    }

    /// A resource has nothing of this name.
    pub(crate) fn no_object(plural: &str, name: &str) -> Self {
        let message = format!("{plural}.{GROUP} {name:?} not found");
        let (name, resource) = (name.to_owned(), plural.to_owned());
        Status { name, resource, ..Status::new(404, "NotFound", message) }
    }

    /// There is nothing at this address.
    pub(crate) fn no_resource() -> Self {
        Status::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// A verb that the resource does not have.
    pub(crate) fn no_verb(verb: &str, plural: &str) -> Self {
        let message = format!("{verb} is not supported on resources of kind \"{plural}.{GROUP}\"");
        Status::new(405, "MethodNotAllowed", message)
    }

    /// A verb that questions do not have, which are only created.
    pub(crate) fn only_created(verb: &str, plural: &str) -> Self {
        Status { allow: "POST", ..Status::no_verb(verb, plural) }
    }

    /// A method that an address does not have.
    pub(crate) fn no_method(method: &str) -> Self {
        Status::new(405, "MethodNotAllowed", format!("{method} is not allowed here: use GET"))
    }

    /// None of the accepted media types can be sent.
    pub(crate) fn not_acceptable() -> Self {
        let message = "only the following media types are accepted: application/json";
        Status::new(406, "NotAcceptable", message)
    }

    /// The body is larger than is read.
    pub(crate) fn too_large(limit: usize) -> Self {
        Status::new(413, "RequestEntityTooLarge", format!("the body has more than {limit} bytes"))
    }

    /// The body is no JSON.
    pub(crate) fn unsupported_media_type() -> Self {
        let message =
            "the body of the request was in an unknown format - accepted media types include: application/json";
        Status::new(415, "UnsupportedMediaType", message)
    }

    /// What is asked cannot be answered as it is.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Status::new(422, "Invalid", message)
    }

    /// The list cannot go on there.
    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Status::new(410, "Expired", message)
    }

    pub(crate) fn too_many_requests() -> Self {
        Status::busy("too many lists of packages are being written; try again")
    }

    /// There is no room for it now.
    pub(crate) fn busy(message: &str) -> Self {
        Status { retry_after: Some(1), ..Status::new(429, "TooManyRequests", message) }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Status::new(500, "InternalError", message)
    }

    /// It may be answered later.
    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Status { retry_after: Some(1), ..Status::new(503, "ServiceUnavailable", message) }
    }

    /// As JSON.
    pub(crate) fn body(&self) -> Vec<u8> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Object<'a> {
            kind: &'static str,
            api_version: &'static str,
            metadata: Value,
            status: &'static str,
            message: &'a str,
            reason: &'a str,
            #[serde(skip_serializing_if = "Map::is_empty")]
            details: Map<String, Value>,
            code: u16,
        }
        let mut details = Map::new();
        if !self.name.is_empty() {
            let all = [("name", self.name.as_str()), ("group", GROUP), ("kind", self.resource.as_str())];
            details.extend(all.map(|(key, value)| (key.to_owned(), value.into())));
        }
        details.extend(self.retry_after.map(|seconds| ("retryAfterSeconds".to_owned(), seconds.into())));
        let object = Object {
            kind: "Status",
            api_version: "v1",
            metadata: json!({}),
            status: "Failure",
            message: &self.message,
            reason: self.reason,
            details,
            code: self.code,
        };
        // It has text and numbers only.
        serde_json::to_vec(&object).unwrap_or_default()
    }
}
