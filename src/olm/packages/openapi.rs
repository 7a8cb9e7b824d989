//! The API in the terms of OpenAPI 2 and 3, by which `kubectl explain` and consoles know its fields.

use super::{API_VERSION, KIND};
use crate::olm::api::package_manifest::{GROUP, PLURAL, VERSION};
use crate::olm::subscription::review;
use serde_json::{Map, Value, json};

/// What objects and lists consist of. `SCHEMAS` stands for the place of these definitions in a document.
const SCHEMAS: &str = include_str!("openapi/schemas.json");
const PREFIX: &str = "com.coreos.operators.packages.v1.";

/// Versions of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    V2,
    V3,
}

/// The document of OpenAPI 2.
pub(crate) fn v2() -> Value {
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths(Version::V2),
        "definitions": schemas(Version::V2),
    })
}

/// The document of OpenAPI 3 for the version of the group.
pub(crate) fn v3() -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths(Version::V3),
        "components": {"schemas": schemas(Version::V3)},
    })
}

/// Where the document of OpenAPI 3 is. `hash` tells one state of it from another.
pub(crate) fn v3_paths(hash: &str) -> Value {
    let path = format!("apis/{API_VERSION}");
    let url = format!("/openapi/v3/{path}?hash={hash}");
    json!({"paths": {path: {"serverRelativeURL": url}}})
}

fn info() -> Value {
    json!({"title": "Packages of operators", "version": VERSION})
}

fn schemas(version: Version) -> Value {
    // The text is part of the program, and a test reads it.
    serde_json::from_str(&SCHEMAS.replace("SCHEMAS", place(version))).unwrap_or_default()
}

/// Where a document has its definitions.
fn place(version: Version) -> &'static str {
    match version {
        Version::V2 => "#/definitions",
        Version::V3 => "#/components/schemas",
    }
}

fn paths(version: Version) -> Value {
    let (all, of_namespace) = (format!("/apis/{API_VERSION}"), format!("/apis/{API_VERSION}/namespaces/{{namespace}}"));
    let (list, kind) = (format!("{KIND}List"), KIND.to_owned());
    let mut paths = Map::new();
    for (path, action, kind, text) in [
        (format!("{all}/{PLURAL}"), "list", Some(&list), "packages of all namespaces"),
        (format!("{of_namespace}/{PLURAL}"), "list", Some(&list), "packages that a namespace sees"),
        (format!("{of_namespace}/{PLURAL}/{{name}}"), "get", Some(&kind), "one package"),
        (format!("{of_namespace}/{PLURAL}/{{name}}/icon"), "get", None, "the picture of a package"),
    ] {
        let parameters: Vec<Value> = ["namespace", "name"]
            .into_iter()
            .filter(|name| path.contains(&format!("{{{name}}}")))
            .map(|name| parameter(version, name))
            .collect();
        let operation = json!({
            "operationId": format!("{action}{}", operation_id(&path)),
            "description": text,
            "responses": {"200": response(version, kind)},
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": {"group": GROUP, "version": VERSION, "kind": KIND},
        });
        paths.insert(path, json!({"get": operation, "parameters": parameters}));
    }
    paths.insert(format!("{of_namespace}/{}", review::PLURAL), question(version));
    paths.into()
}

/// The only resource that is created.
fn question(version: Version) -> Value {
    let kind = review::KIND.to_owned();
    let schema = json!({"$ref": format!("{}/{PREFIX}{kind}", place(version))});
    let mut parameters = vec![parameter(version, "namespace")];
    let body = match version {
        Version::V2 => {
            parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": schema}));
            None
        }
        Version::V3 => Some(json!({"content": {"application/json": {"schema": schema}}})),
    };
    let mut operation = Map::new();
    operation.extend(body.map(|body| ("requestBody".to_owned(), body)));
    for (key, value) in [
        ("operationId", json!("createPackagesOperatorsCoreosComV1NamespacedSubscriptionReview")),
        ("description", json!("what would be installed in a namespace if it were otherwise, or why something is not")),
        ("responses", json!({"201": response(version, Some(&kind))})),
        ("x-kubernetes-action", json!("post")),
        ("x-kubernetes-group-version-kind", json!({"group": GROUP, "version": VERSION, "kind": kind})),
    ] {
        operation.insert(key.to_owned(), value);
    }
    json!({"post": operation, "parameters": parameters})
}

/// Tells operations apart.
fn operation_id(path: &str) -> &'static str {
    match (path.contains("{namespace}"), path.contains("{name}"), path.ends_with("/icon")) {
        (false, ..) => "PackagesOperatorsCoreosComV1PackageManifestForAllNamespaces",
        (true, _, true) => "PackagesOperatorsCoreosComV1NamespacedPackageManifestIcon",
        (true, ..) => "PackagesOperatorsCoreosComV1NamespacedPackageManifest",
    }
}

fn parameter(version: Version, name: &str) -> Value {
    match version {
        Version::V2 => json!({"name": name, "in": "path", "required": true, "type": "string"}),
        Version::V3 => json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    }
}

/// `None`: a picture.
fn response(version: Version, kind: Option<&String>) -> Value {
    let schema = kind.map(|kind| json!({"$ref": format!("{}/{PREFIX}{kind}", place(version))}));
    match (version, schema) {
        (Version::V2, Some(schema)) => json!({"description": "OK", "schema": schema}),
        (Version::V2, None) => json!({"description": "OK", "schema": {"type": "file"}}),
        (Version::V3, Some(schema)) => {
            json!({"description": "OK", "content": {"application/json": {"schema": schema}}})
        }
        (Version::V3, None) => {
            let picture = json!({"type": "string", "format": "binary"});
            json!({"description": "OK", "content": {"image/*": {"schema": picture}}})
        }
    }
}
