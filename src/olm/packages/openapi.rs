//! The API in the terms of OpenAPI 2 and 3, by which `kubectl explain` and consoles know its fields.

use super::{API_VERSION, KIND, csvs};
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

/// The document of OpenAPI 2. `has_csvs`: ClusterServiceVersions are among the resources.
pub(crate) fn v2(has_csvs: bool) -> Value {
    json!({
        "swagger": "2.0",
        "info": info(),
        "paths": paths(Version::V2, has_csvs),
        "definitions": schemas(Version::V2, has_csvs),
    })
}

/// The document of OpenAPI 3 for the version of the group. `has_csvs`: ClusterServiceVersions are among the resources.
pub(crate) fn v3(has_csvs: bool) -> Value {
    json!({
        "openapi": "3.0.0",
        "info": info(),
        "paths": paths(Version::V3, has_csvs),
        "components": {"schemas": schemas(Version::V3, has_csvs)},
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

fn schemas(version: Version, has_csvs: bool) -> Value {
    // The text is part of the program, and a test reads it.
    let mut schemas: Map<String, Value> =
        serde_json::from_str(&SCHEMAS.replace("SCHEMAS", place(version))).unwrap_or_default();
    if has_csvs {
        schemas.extend(schemas_of_csvs(version));
    }
    schemas.into()
}

/// What there is in them says the definition of the kind that is written.
fn schemas_of_csvs(version: Version) -> [(String, Value); 2] {
    let (kind, text) = (csvs::KIND, json!({"type": "string"}));
    let of = |kind: &str| json!([{"group": GROUP, "version": VERSION, "kind": kind}]);
    let any = |text: &str| json!({"type": "object", "description": text, "x-kubernetes-preserve-unknown-fields": true});
    let one = json!({
        "description": "One version of an operator that works for the namespace, be it installed there or elsewhere.",
        "type": "object",
        "properties": {"apiVersion": text, "kind": text, "metadata": {"type": "object"},
            "spec": any("What the operator is and consists of."), "status": any("What has become of its installation.")},
        "x-kubernetes-group-version-kind": of(kind),
    });
    let items = json!({"$ref": format!("{}/{PREFIX}{kind}", place(version))});
    let list = json!({
        "description": "Operators that work for a namespace.",
        "type": "object",
        "required": ["items"],
        "properties": {"apiVersion": text, "kind": text, "metadata": {"type": "object"},
            "items": {"type": "array", "items": items}},
        "x-kubernetes-group-version-kind": of(&format!("{kind}List")),
    });
    [(format!("{PREFIX}{kind}"), one), (format!("{PREFIX}{kind}List"), list)]
}

/// Where a document has its definitions.
fn place(version: Version) -> &'static str {
    match version {
        Version::V2 => "#/definitions",
        Version::V3 => "#/components/schemas",
    }
}

fn paths(version: Version, has_csvs: bool) -> Value {
    let (all, of_namespace) = (format!("/apis/{API_VERSION}"), format!("/apis/{API_VERSION}/namespaces/{{namespace}}"));
    let list = format!("{KIND}List");
    let mut paths = Map::new();
    for (path, action, answer, text) in [
        (format!("{all}/{PLURAL}"), "list", Some(list.as_str()), "packages of all namespaces"),
        (format!("{of_namespace}/{PLURAL}"), "list", Some(list.as_str()), "packages that a namespace sees"),
        (format!("{of_namespace}/{PLURAL}/{{name}}"), "get", Some(KIND), "one package"),
        (format!("{of_namespace}/{PLURAL}/{{name}}/icon"), "get", None, "the picture of a package"),
    ] {
        let operation = read(version, &path, (action, KIND), answer, text);
        paths.insert(path, operation);
    }
    let (kind, plural) = (csvs::KIND, csvs::PLURAL);
    let list = format!("{kind}List");
    let of_csvs = [
        (format!("{all}/{plural}"), "list", list.as_str(), "operators that work for each namespace, page by page"),
        (format!("{of_namespace}/{plural}"), "list", list.as_str(), "operators that work for a namespace"),
        (format!("{of_namespace}/{plural}/{{name}}"), "get", kind, "one operator that works for a namespace"),
    ];
    for (path, action, answer, text) in of_csvs.into_iter().filter(|_| has_csvs) {
        let operation = read(version, &path, (action, kind), Some(answer), text);
        paths.insert(path, operation);
    }
    paths.insert(format!("{of_namespace}/{}", review::PLURAL), question(version));
    paths.into()
}

/// A request that reads objects of a kind. `answer`: the kind of the answer; `None` for a picture.
fn read(version: Version, path: &str, (action, kind): (&str, &str), answer: Option<&str>, text: &str) -> Value {
    let parameters: Vec<Value> = ["namespace", "name"]
        .into_iter()
        .filter(|name| path.contains(&format!("{{{name}}}")))
        .map(|name| parameter(version, name))
        .collect();
    let operation = json!({
        "operationId": format!("{action}{}", operation_id(path, kind)),
        "description": text,
        "responses": {"200": response(version, answer)},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": GROUP, "version": VERSION, "kind": kind},
    });
    json!({"get": operation, "parameters": parameters})
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
        ("responses", json!({"201": response(version, Some(kind.as_str()))})),
        ("x-kubernetes-action", json!("post")),
        ("x-kubernetes-group-version-kind", json!({"group": GROUP, "version": VERSION, "kind": kind})),
    ] {
        operation.insert(key.to_owned(), value);
    }
    json!({"post": operation, "parameters": parameters})
}

/// Tells operations apart.
fn operation_id(path: &str, kind: &str) -> String {
    let (before, after) = match (path.contains("{namespace}"), path.ends_with("/icon")) {
        (false, _) => ("", "ForAllNamespaces"),
        (true, true) => ("Namespaced", "Icon"),
        (true, false) => ("Namespaced", ""),
    };
    format!("PackagesOperatorsCoreosComV1{before}{kind}{after}")
}

fn parameter(version: Version, name: &str) -> Value {
    match version {
        Version::V2 => json!({"name": name, "in": "path", "required": true, "type": "string"}),
        Version::V3 => json!({"name": name, "in": "path", "required": true, "schema": {"type": "string"}}),
    }
}

/// `None`: a picture.
fn response(version: Version, kind: Option<&str>) -> Value {
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
