//! A request to the API: what its method, address and accepted media types ask for.

use super::csvs;
use super::form::{Form, Include};
use super::query::{Query, QueryError};
use super::status::{Attributes, Status};
use crate::olm::api::package_manifest::{GROUP, PLURAL, VERSION};
use crate::olm::subscription::review;
use std::collections::HashMap;

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    Health(Health),
    /// Which groups there are, in the form of each group's own document or, by version, in the one that has all resources.
    Groups(Option<Discovery>),
    Group,
    Resources,
    OpenApiV2,
    /// Where the documents of OpenAPI 3 are, and the only one.
    OpenApiV3,
    OpenApiV3Group,
    /// An empty namespace means all.
    List {
        namespace: String,
        query: Query,
        form: Form,
    },
    Get {
        namespace: String,
        name: String,
        form: Form,
    },
    Icon {
        namespace: String,
        name: String,
    },
    /// ClusterServiceVersions; an empty namespace means all.
    Csvs {
        namespace: String,
        query: Query,
        form: Form,
    },
    Csv {
        namespace: String,
        name: String,
        form: Form,
    },
    /// A question about the Subscriptions of a namespace, in the body.
    Review {
        namespace: String,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Health {
    /// Whether the process works.
    Live,
    /// Whether it answers for packages.
    Ready,
}

/// Versions of aggregated discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Discovery {
    V2,
    V2Beta1,
}

impl Request {
    /// `accept`: the value of the header, empty if there is none. `query`: what follows the question mark.
    pub(crate) fn parse(method: &str, path: &str, query: &str, accept: &str) -> Result<Self, Status> {
        let reads = matches!(method, "GET" | "HEAD");
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let request = match parts.as_slice() {
            ["healthz" | "livez"] => Request::Health(Health::Live),
            ["readyz"] => Request::Health(Health::Ready),
            ["openapi", "v2"] => Request::OpenApiV2,
            ["openapi", "v3"] => Request::OpenApiV3,
            ["openapi", "v3", "apis", GROUP, VERSION] => Request::OpenApiV3Group,
            ["apis"] => Request::Groups(Discovery::accepted(accept)?),
            ["apis", GROUP] => Request::Group,
            ["apis", GROUP, VERSION] => Request::Resources,
            ["apis", GROUP, VERSION, "watch", ..] => return Err(Status::no_verb("watch", PLURAL)),
            ["apis", GROUP, VERSION, "namespaces", namespace, review::PLURAL] if !namespace.is_empty() => {
                if method != "POST" {
                    return Err(Status::only_created(verb(method, &[review::PLURAL]), review::PLURAL));
                }
                let accepted = Clause::all(accept).iter().any(Clause::is_json);
                let review = Request::Review { namespace: (*namespace).to_owned() };
                return accepted.then_some(review).ok_or_else(Status::not_acceptable);
            }
            ["apis", GROUP, VERSION, rest @ ..] => match resource(rest) {
                Some(resource) if !reads => return Err(Status::no_verb(verb(method, rest), resource.plural())),
                Some(resource) => return resource.request(&Parameters::of(query), accept),
                None => return Err(Status::no_resource()),
            },
            _ => return Err(Status::no_resource()),
        };
        let is_text = matches!(request, Request::Health(_));
        if !reads {
            return Err(Status::no_method(method));
        }
        if is_text || Clause::all(accept).iter().any(Clause::is_json) {
            Ok(request)
        } else {
            Err(Status::not_acceptable())
        }
    }

    /// What the user needs the right to. `None` for what is the same for all users.
    pub(crate) fn attributes(&self) -> Option<Attributes<'_>> {
        let is_of_csvs = matches!(self, Request::Csvs { .. } | Request::Csv { .. });
        let resource = if is_of_csvs { csvs::PLURAL } else { PLURAL };
        let of = Attributes { resource, ..Attributes::default() };
        match self {
            Request::List { namespace, query, .. } | Request::Csvs { namespace, query, .. } => {
                let name = query.only_name().unwrap_or_default();
                Some(Attributes { verb: "list", namespace, name, ..of })
            }
            Request::Get { namespace, name, .. } | Request::Csv { namespace, name, .. } => {
                Some(Attributes { verb: "get", namespace, name, ..of })
            }
            Request::Icon { namespace, name } => {
                Some(Attributes { verb: "get", subresource: ICON, namespace, name, ..of })
            }
            Request::Review { namespace } => {
                Some(Attributes { verb: "create", resource: review::PLURAL, namespace, ..Attributes::default() })
            }
            _ => None,
        }
    }
}

pub(super) const ICON: &str = "icon";

/// A part of an address below the version.
enum Resource<'a> {
    List { namespace: &'a str },
    Object { namespace: &'a str, name: &'a str },
    Icon { namespace: &'a str, name: &'a str },
    Csvs { namespace: &'a str },
    Csv { namespace: &'a str, name: &'a str },
}

/// Whether an address is one of ClusterServiceVersions, which not every process serves.
pub(crate) fn is_of_csvs(path: &str) -> bool {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    matches!(
        parts.as_slice(),
        ["apis", GROUP, VERSION, csvs::PLURAL, ..] | ["apis", GROUP, VERSION, "namespaces", _, csvs::PLURAL, ..]
    )
}

fn resource<'a>(parts: &[&'a str]) -> Option<Resource<'a>> {
    match *parts {
        [PLURAL] => Some(Resource::List { namespace: "" }),
        ["namespaces", namespace, PLURAL] if !namespace.is_empty() => Some(Resource::List { namespace }),
        ["namespaces", namespace, PLURAL, name] if !namespace.is_empty() => Some(Resource::Object { namespace, name }),
        ["namespaces", namespace, PLURAL, name, ICON] if !namespace.is_empty() => {
            Some(Resource::Icon { namespace, name })
        }
        [csvs::PLURAL] => Some(Resource::Csvs { namespace: "" }),
        ["namespaces", namespace, csvs::PLURAL] if !namespace.is_empty() => Some(Resource::Csvs { namespace }),
        ["namespaces", namespace, csvs::PLURAL, name] if !namespace.is_empty() => {
            Some(Resource::Csv { namespace, name })
        }
        _ => None,
    }
}

/// The verb of a method.
fn verb<'a>(method: &'a str, parts: &[&str]) -> &'a str {
    let is_list = parts.last().is_some_and(|last| [PLURAL, csvs::PLURAL, review::PLURAL].contains(last));
    match method {
        "GET" | "HEAD" if is_list => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if is_list => "deletecollection",
        "DELETE" => "delete",
        other => other,
    }
}

impl Resource<'_> {
    fn plural(&self) -> &'static str {
        match self {
            Resource::List { .. } | Resource::Object { .. } | Resource::Icon { .. } => PLURAL,
            Resource::Csvs { .. } | Resource::Csv { .. } => csvs::PLURAL,
        }
    }

    fn request(self, parameters: &Parameters, accept: &str) -> Result<Request, Status> {
        let (plural, one) = (self.plural(), "PartialObjectMetadata");
        match self {
            Resource::List { namespace } => {
                let (query, form) = listed(plural, parameters, accept)?;
                Ok(Request::List { namespace: namespace.to_owned(), query, form })
            }
            Resource::Object { namespace, name } => {
                let form = form(accept, one, parameters)?;
                Ok(Request::Get { namespace: namespace.to_owned(), name: name.to_owned(), form })
            }
            Resource::Icon { namespace, name } => {
                Ok(Request::Icon { namespace: namespace.to_owned(), name: name.to_owned() })
            }
            Resource::Csvs { namespace } => {
                let (mut query, form) = listed(plural, parameters, accept)?;
                if namespace.is_empty() {
                    query.limit = Some(query.limit.ok_or_else(unbounded)?.min(csvs::LONGEST_PAGE));
                }
                Ok(Request::Csvs { namespace: namespace.to_owned(), query, form })
            }
            Resource::Csv { namespace, name } => {
                let form = form(accept, one, parameters)?;
                Ok(Request::Csv { namespace: namespace.to_owned(), name: name.to_owned(), form })
            }
        }
    }
}

/// Which objects are to be listed, and how.
fn listed(plural: &str, parameters: &Parameters, accept: &str) -> Result<(Query, Form), Status> {
    if parameters.is_true("watch") {
        return Err(Status::no_verb("watch", plural));
    }
    let text = |name| parameters.text(name);
    let query = Query::parse(text("labelSelector"), text("fieldSelector"), text("limit"), text("continue"));
    let query = query.map_err(|error| match error {
        QueryError::Continue => Status::expired(error.to_string()),
        error => Status::bad_request(error.to_string()),
    })?;
    Ok((query, form(accept, "PartialObjectMetadataList", parameters)?))
}

/// A list that would have each operator once for every namespace.
fn unbounded() -> Status {
    let most = csvs::LONGEST_PAGE;
    Status::bad_request(format!(
        "ClusterServiceVersions of all namespaces are listed page by page: give a limit, at most {most}, and go on by \
         continue; or list those of one namespace"
    ))
}

/// The form of the first media type that can be sent. `metadata`: the kind that has only metadata.
fn form(accept: &str, metadata: &str, parameters: &Parameters) -> Result<Form, Status> {
    let of = |clause: &Clause<'_>| match clause.kind() {
        Some(("", "", "")) => Some(Form::Object),
        Some(("Table", "v1", META_GROUP)) => Some(Form::Table(Include::default())),
        Some((kind, "v1", META_GROUP)) if kind == metadata => Some(Form::Metadata),
        _ => None,
    };
    let form = Clause::all(accept).iter().find_map(of).ok_or_else(Status::not_acceptable)?;
    if form != Form::Table(Include::Metadata) {
        return Ok(form);
    }
    match parameters.text("includeObject") {
        "" | "Metadata" => Ok(form),
        "Object" => Ok(Form::Table(Include::Object)),
        "None" => Ok(Form::Table(Include::None)),
        other => {
            Err(Status::bad_request(format!("includeObject {other:?} is not known: use None, Metadata or Object")))
        }
    }
}

const META_GROUP: &str = "meta.k8s.io";

impl Discovery {
    /// `None` for the form of each group's own document.
    fn accepted(accept: &str) -> Result<Option<Discovery>, Status> {
        let of = |clause: &Clause<'_>| match clause.kind() {
            Some(("", "", "")) => Some(None),
            Some(("APIGroupDiscoveryList", "v2", "apidiscovery.k8s.io")) => Some(Some(Discovery::V2)),
            Some(("APIGroupDiscoveryList", "v2beta1", "apidiscovery.k8s.io")) => Some(Some(Discovery::V2Beta1)),
            _ => None,
        };
        Clause::all(accept).iter().find_map(of).ok_or_else(Status::not_acceptable)
    }
}

/// A media type that the client accepts, such as `application/json;as=Table;v=v1;g=meta.k8s.io`.
struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
}

impl<'a> Clause<'a> {
    /// Those of a header, the preferred ones first. No header accepts everything.
    fn all(accept: &'a str) -> Vec<Self> {
        let accept = if accept.trim().is_empty() { "*/*" } else { accept };
        let mut clauses: Vec<(f32, Clause<'a>)> = accept.split(',').map(Clause::parse).collect();
        clauses.retain(|(quality, _)| *quality > 0.0);
        clauses.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        clauses.into_iter().map(|(_, clause)| clause).collect()
    }

    fn parse(text: &'a str) -> (f32, Self) {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let pairs = parts.map(|part| part.split_once('=').unwrap_or((part, "")));
        let (quality, parameters): (Vec<_>, Vec<_>) = pairs.partition(|(name, _)| *name == "q");
        let quality = quality.first().and_then(|(_, value)| value.parse().ok()).unwrap_or(1.0);
        (quality, Clause { media_type, parameters })
    }

    fn is_json(&self) -> bool {
        ["application/json", "application/*", "*/*"].contains(&self.media_type)
    }

    /// Kind, version and group that JSON is wanted as; all empty for that of the resource. `None` if it is not JSON.
    fn kind(&self) -> Option<(&'a str, &'a str, &'a str)> {
        let of = |wanted: &str| {
            self.parameters.iter().find(|(name, _)| *name == wanted).map(|(_, value)| *value).unwrap_or_default()
        };
        self.is_json().then(|| match of("as") {
            // Version and group alone say nothing.
            "" => ("", "", ""),
            kind => (kind, of("v"), of("g")),
        })
    }
}

/// What follows the question mark of an address. Of several values of one name the first one counts.
struct Parameters(HashMap<String, String>);

impl Parameters {
    fn of(query: &str) -> Self {
        let mut parameters = HashMap::new();
        for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
            parameters.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
        Parameters(parameters)
    }

    fn text(&self, name: &str) -> &str {
        self.0.get(name).map(String::as_str).unwrap_or_default()
    }

    /// As the API server reads truth values: whatever does not say no is yes.
    fn is_true(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|value| !matches!(value.to_ascii_lowercase().as_str(), "0" | "false"))
    }
}
