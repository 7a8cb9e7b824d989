//! The answers to requests that are allowed.

use super::body::{Answer, WriteError, Writers, Written};
use super::state::State;
use super::{joined, unknown};
use crate::olm::packages::form::{Asked, Form, ListWriter, write_metadata};
use crate::olm::packages::icon::Icon;
use crate::olm::packages::list::{ListMetadata, Listed, page, pick};
use crate::olm::packages::request::Request;
use crate::olm::packages::status::Status;
use crate::olm::packages::view::Catalog;
use crate::olm::packages::{discovery, openapi};
use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;

const JSON: &str = "application/json";
/// Answers differ from user to user and from moment to moment.
const NOT_KEPT: &str = "no-cache, private";
/// A picture is shown and nothing else, whatever a catalog has put into it.
const PICTURE_POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; sandbox";

pub(super) fn health(health: Result<(), String>) -> Response {
    match health {
        Ok(()) => "ok".into_response(),
        Err(cause) => (StatusCode::SERVICE_UNAVAILABLE, cause).into_response(),
    }
}

/// A request that is not answered otherwise.
pub(super) fn refused(status: &Status) -> Response {
    let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = [(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, NOT_KEPT)];
    let mut response = (code, headers, status.body()).into_response();
    let headers = response.headers_mut();
    if let Some(seconds) = status.retry_after {
        headers.insert(header::RETRY_AFTER, seconds.into());
    }
    if status.code == 405 {
        headers.insert(header::ALLOW, HeaderValue::from_static(status.allow));
    }
    response
}

/// The answer to what is created and not stored.
pub(super) fn created(object: &Value) -> Response {
    let headers = [(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, NOT_KEPT)];
    (StatusCode::CREATED, headers, bytes(object)).into_response()
}

/// What is the same for everybody and at any time; `None` for other requests. `has_csvs`: ClusterServiceVersions are served besides.
pub(super) fn document(request: &Request, parts: &Parts, has_csvs: bool) -> Option<Response> {
    let (media_type, document) = match request {
        Request::Groups(None) => (JSON.to_owned(), discovery::groups()),
        Request::Groups(Some(version)) => (discovery::media_type(*version), discovery::aggregated(*version, has_csvs)),
        Request::Group => (JSON.to_owned(), discovery::group()),
        Request::Resources => (JSON.to_owned(), discovery::resources(has_csvs)),
        Request::OpenApiV2 => (JSON.to_owned(), openapi::v2(has_csvs)),
        Request::OpenApiV3 => (JSON.to_owned(), openapi::v3_paths(&hash(&bytes(&openapi::v3(has_csvs))))),
        Request::OpenApiV3Group => (JSON.to_owned(), openapi::v3(has_csvs)),
        Request::Health(_)
        | Request::List { .. }
        | Request::Get { .. }
        | Request::Icon { .. }
        | Request::Csvs { .. }
        | Request::Csv { .. }
        | Request::Review { .. } => return None,
    };
    let body = bytes(&document);
    let hash = hash(&body);
    let etag = format!("\"{hash}\"");
    // Who asks by the hash gets another address for another document.
    let asked_by_hash = parts.uri.query().is_some_and(|query| query.split('&').any(|it| it == format!("hash={hash}")));
    let kept = if asked_by_hash { "public, max-age=31536000, immutable" } else { NOT_KEPT };
    let known = joined(&parts.headers, &header::IF_NONE_MATCH);
    let headers = [
        (header::CONTENT_TYPE, media_type),
        (header::CACHE_CONTROL, kept.to_owned()),
        (header::VARY, "Accept".to_owned()),
        (header::ETAG, etag.clone()),
    ];
    if known.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag) {
        return Some((StatusCode::NOT_MODIFIED, headers).into_response());
    }
    Some((headers, body).into_response())
}

fn bytes(document: &Value) -> Vec<u8> {
    document.to_string().into_bytes()
}

fn hash(bytes: &[u8]) -> String {
    hex::encode_upper(Sha256::digest(bytes))
}

/// Packages of one state of all catalogs. `global`: the namespace whose catalogs all see.
pub(super) async fn packages(
    request: Request,
    state: Arc<State>,
    global: &str,
    writers: &Writers,
    parts: &Parts,
) -> Result<Response, Status> {
    let (global, now) = (global.to_owned(), Timestamp::now());
    let accepts_gzip = accepts_gzip(&parts.headers);
    match request {
        // The length is not known before everything is written.
        Request::List { .. } if parts.method == axum::http::Method::HEAD => Ok(json(unknown(), false)),
        Request::List { namespace, query, form } => {
            let written = writers.write(Answer::List, accepts_gzip, move |out| {
                let asked = Asked { namespace: &namespace, now };
                let page = page(&state.listed, &namespace, &global, &query);
                let mut list = ListWriter::begin(out, form, &page.metadata)?;
                for listed in page.items {
                    list.item(listed, asked, &[], |out| state.write(listed, &namespace, &[], out))?;
                }
                list.end().map(drop)
            });
            answer(written.await)
        }
        Request::Get { namespace, name, form } => {
            let (listed, others) = picked(&state, &namespace, &global, &name)?;
            let written = writers.write(Answer::Single, accepts_gzip, move |out| {
                let others: Vec<&Catalog> = others.iter().map(|other| &**other).collect();
                match form {
                    Form::Object => state.write(&listed, &namespace, &others, out),
                    Form::Metadata => write_metadata(&listed, &namespace, &others, out),
                    Form::Table(_) => {
                        let asked = Asked { namespace: &namespace, now };
                        let mut table = ListWriter::begin(out, form, &ListMetadata::default())?;
                        table.item(&listed, asked, &others, |out| state.write(&listed, &namespace, &others, out))?;
                        table.end().map(drop)
                    }
                }
            });
            answer(written.await)
        }
        Request::Icon { namespace, name } => {
            let (listed, _) = picked(&state, &namespace, &global, &name)?;
            let icon = writers.read(move || state.icon(&listed)).await.map_err(unwritten)?;
            Ok(picture(icon, &joined(&parts.headers, &header::IF_NONE_MATCH)))
        }
        _ => Err(Status::no_resource()),
    }
}

/// The one package that a namespace gets, and the catalogs that have another one of this name.
fn picked(state: &State, namespace: &str, global: &str, name: &str) -> Result<(Listed, Vec<Arc<Catalog>>), Status> {
    let (listed, others) = pick(&state.listed, namespace, global, name).ok_or_else(|| Status::no_package(name))?;
    Ok((listed.clone(), others.into_iter().map(|other| other.catalog.clone()).collect()))
}

pub(super) fn answer(written: Result<Written, WriteError>) -> Result<Response, Status> {
    written.map(|Written { body, is_gzip }| json(body, is_gzip)).map_err(unwritten)
}

fn unwritten(error: WriteError) -> Status {
    match error {
        WriteError::Busy => Status::too_many_requests(),
        WriteError::Failed(cause) => {
            tracing::warn!(error = cause, "a request for packages is not answered");
            Status::internal(cause)
        }
    }
}

pub(super) fn json(body: Body, is_gzip: bool) -> Response {
    let headers =
        [(header::CONTENT_TYPE, JSON), (header::CACHE_CONTROL, NOT_KEPT), (header::VARY, "Accept, Accept-Encoding")];
    let mut response = (headers, body).into_response();
    if is_gzip {
        response.headers_mut().insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response
}

/// `known`: tags of those that the client has.
fn picture(icon: Icon, known: &str) -> Response {
    let mut response = if icon.is_known(known) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        let headers = [
            (header::CONTENT_TYPE, icon.media_type.as_str()),
            (header::CONTENT_SECURITY_POLICY, PICTURE_POLICY),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (headers, icon.bytes.into_owned()).into_response()
    };
    let headers = response.headers_mut();
    // One that another program has kept is asked for again by its tag.
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static(NOT_KEPT));
    if let Ok(etag) = HeaderValue::from_str(&icon.etag)
        && !icon.etag.is_empty()
    {
        headers.insert(header::ETAG, etag);
    }
    response
}

pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = joined(headers, &header::ACCEPT_ENCODING);
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let refused = parts.any(|part| part.strip_prefix("q=").is_some_and(|q| q.parse() == Ok(0.0)));
        name.eq_ignore_ascii_case("gzip") && !refused
    })
}
