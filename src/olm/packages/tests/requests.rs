//! What methods, addresses and media types ask for.

use super::*;
use crate::olm::packages::form::{Form, Include};
use crate::olm::packages::query::Query;
use crate::olm::packages::request::{Discovery, Health, Request, is_of_csvs};
use crate::olm::packages::status::{Attributes, Status};

const V1: &str = "/apis/packages.operators.coreos.com/v1";

fn get(path: &str) -> Result<Request, Status> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    Request::parse("GET", path, query, "")
}

fn list(namespace: &str, form: Form) -> Request {
    Request::List { namespace: namespace.into(), query: Query::parse("", "", "", "").unwrap(), form }
}

#[test]
fn addresses_are_those_of_the_api() {
    let one = |name: &str| Request::Get { namespace: "team".into(), name: name.into(), form: Form::Object };
    let icon = Request::Icon { namespace: "team".into(), name: "a".into() };
    for (path, expected) in [
        ("/healthz", Request::Health(Health::Live)),
        ("/livez", Request::Health(Health::Live)),
        ("/readyz", Request::Health(Health::Ready)),
        ("/apis", Request::Groups(None)),
        ("/apis/", Request::Groups(None)),
        ("/apis/packages.operators.coreos.com", Request::Group),
        (V1, Request::Resources),
        ("/openapi/v2", Request::OpenApiV2),
        ("/openapi/v3", Request::OpenApiV3),
        ("/openapi/v3/apis/packages.operators.coreos.com/v1", Request::OpenApiV3Group),
        (&format!("{V1}/packagemanifests"), list("", Form::Object)),
        (&format!("{V1}/namespaces/team/packagemanifests"), list("team", Form::Object)),
        (&format!("{V1}/namespaces/team/packagemanifests/a"), one("a")),
        (&format!("{V1}/namespaces/team/packagemanifests/a/icon"), icon),
    ] {
        assert_eq!(get(path), Ok(expected.clone()), "{path}");
        assert_eq!(Request::parse("HEAD", path, "", ""), Ok(expected), "HEAD {path}");
    }
    for path in [
        "/",
        "/api",
        "/version",
        "/metrics",
        "/apis/apps",
        "/apis/packages.operators.coreos.com/v2",
        "/openapi/v3/apis/apps/v1",
        &format!("{V1}/packagemanifests/a"),
        &format!("{V1}/namespaces/team"),
        &format!("{V1}/namespaces//packagemanifests"),
        &format!("{V1}/namespaces/team/packagemanifests/a/status"),
        &format!("{V1}/namespaces/team/packagemanifests/a/icon/x"),
    ] {
        assert_eq!(get(path), Err(Status::no_resource()), "{path}");
    }
}

#[test]
fn packages_are_only_read() {
    let one = &format!("{V1}/namespaces/team/packagemanifests/a");
    let all = &format!("{V1}/namespaces/team/packagemanifests");
    for (method, path, verb) in [
        ("POST", all, "create"),
        ("PUT", one, "update"),
        ("PATCH", one, "patch"),
        ("DELETE", one, "delete"),
        ("DELETE", all, "deletecollection"),
        ("OPTIONS", one, "OPTIONS"),
    ] {
        let status = Request::parse(method, path, "", "").unwrap_err();
        assert_eq!((status.code, status.reason), (405, "MethodNotAllowed"), "{method}");
        assert_eq!(
            status.message,
            format!("{verb} is not supported on resources of kind \"packagemanifests.packages.operators.coreos.com\"")
        );
    }
    for path in ["/apis", "/openapi/v2", "/healthz"] {
        assert_eq!(Request::parse("POST", path, "", "").unwrap_err().code, 405, "{path}");
    }
    assert_eq!(Request::parse("POST", "/other", "", "").unwrap_err().code, 404);
}

#[test]
fn cluster_service_versions_are_read_and_those_of_all_namespaces_page_by_page() {
    let all = format!("{V1}/clusterserviceversions");
    let of_team = format!("{V1}/namespaces/team/clusterserviceversions");
    let of = |namespace: &str, limit: &str| Request::Csvs {
        namespace: namespace.into(),
        query: Query::parse("", "", limit, "").unwrap(),
        form: Form::Object,
    };
    let one = Request::Csv { namespace: "team".into(), name: "a".into(), form: Form::Object };
    for (path, expected) in [
        (of_team.clone(), of("team", "")),
        (format!("{of_team}?limit=1000"), of("team", "1000")),
        (format!("{of_team}/a"), one),
        (format!("{all}?limit=5"), of("", "5")),
        (format!("{all}?limit=1000"), of("", "500")),
    ] {
        let request = get(&path).unwrap();
        assert_eq!(request, expected, "{path}");
        assert_eq!(request.attributes().unwrap().resource, "clusterserviceversions", "{path}");
    }
    let status = get(&all).unwrap_err();
    assert_eq!((status.code, status.reason), (400, "BadRequest"));
    let status = Request::parse("DELETE", &of_team, "", "").unwrap_err();
    assert_eq!(status.code, 405);
    let text = "deletecollection is not supported on resources of kind \"clusterserviceversions.packages";
    assert!(status.message.starts_with(text), "{}", status.message);
    let nowhere = format!("{V1}/namespaces//clusterserviceversions");
    for path in [format!("{all}/a"), format!("{of_team}/a/status"), nowhere] {
        assert_eq!(get(&path), Err(Status::no_resource()), "{path}");
    }
    for path in [&all, &of_team, &format!("{of_team}/a")] {
        assert!(is_of_csvs(path), "{path}");
    }
    let packages = format!("{V1}/packagemanifests");
    for path in [V1, "/apis", &packages, "/apis/operators.coreos.com/v1/clusterserviceversions"] {
        assert!(!is_of_csvs(path), "{path}");
    }
}

#[test]
fn questions_are_only_created() {
    let path = &format!("{V1}/namespaces/team/subscriptionreviews");
    let request = Request::parse("POST", path, "fieldManager=kubectl-create", "application/json").unwrap();
    assert_eq!(request, Request::Review { namespace: "team".to_owned() });
    let what =
        Attributes { verb: "create", resource: "subscriptionreviews", namespace: "team", ..Attributes::default() };
    assert_eq!(request.attributes(), Some(what));
    for (method, verb) in [("GET", "list"), ("PUT", "update"), ("DELETE", "deletecollection")] {
        let status = Request::parse(method, path, "", "").unwrap_err();
        assert_eq!((status.code, status.allow), (405, "POST"), "{method}");
        assert!(status.message.starts_with(&format!("{verb} is not supported")), "{}", status.message);
    }
    assert_eq!(Request::parse("POST", path, "", "text/html").unwrap_err().code, 406);
    for path in ["subscriptionreviews", "namespaces/team/subscriptionreviews/x"] {
        assert_eq!(Request::parse("POST", &format!("{V1}/{path}"), "", "").unwrap_err().code, 404, "{path}");
    }
}

#[test]
fn watch_is_refused() {
    for path in [
        "packagemanifests?watch=true",
        "packagemanifests?watch=1",
        "packagemanifests?watch",
        "watch/packagemanifests",
        "watch/namespaces/team/packagemanifests",
        "namespaces/team/packagemanifests?limit=5&watch=True",
    ] {
        let status = get(&format!("{V1}/{path}")).unwrap_err();
        assert_eq!((status.code, status.reason), (405, "MethodNotAllowed"), "{path}");
        assert!(status.message.starts_with("watch is not supported"), "{}", status.message);
    }
    for path in ["packagemanifests?watch=false", "packagemanifests?watch=0"] {
        assert_eq!(get(&format!("{V1}/{path}")), Ok(list("", Form::Object)), "{path}");
    }
}

#[test]
fn form_is_the_first_that_can_be_sent() {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    let table = Form::Table(Include::Metadata);
    let (lists, one) = (format!("{V1}/packagemanifests"), format!("{V1}/namespaces/team/packagemanifests/a"));
    let form = |path: &str, accept: &str| match Request::parse("GET", path, "", accept) {
        Ok(Request::List { form, .. } | Request::Get { form, .. }) => Ok(form),
        Ok(other) => panic!("{other:?}"),
        Err(status) => Err(status.code),
    };
    for (accept, of_list, of_one) in [
        ("", Ok(Form::Object), Ok(Form::Object)),
        ("*/*", Ok(Form::Object), Ok(Form::Object)),
        ("application/json", Ok(Form::Object), Ok(Form::Object)),
        (TABLE, Ok(table), Ok(table)),
        ("application/vnd.kubernetes.protobuf,application/json", Ok(Form::Object), Ok(Form::Object)),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", Ok(table), Ok(table)),
        ("application/json; as=PartialObjectMetadataList; v=v1; g=meta.k8s.io", Ok(Form::Metadata), Err(406)),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", Err(406), Ok(Form::Metadata)),
        (
            "application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5,application/json;q=0.9",
            Ok(Form::Object),
            Ok(Form::Object),
        ),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", Err(406), Err(406)),
        ("application/json;q=0", Err(406), Err(406)),
        ("application/yaml", Err(406), Err(406)),
        ("text/html", Err(406), Err(406)),
    ] {
        assert_eq!((form(&lists, accept), form(&one, accept)), (of_list, of_one), "{accept}");
    }
    for (include, expected) in [
        ("", Ok(Include::Metadata)),
        ("Metadata", Ok(Include::Metadata)),
        ("Object", Ok(Include::Object)),
        ("None", Ok(Include::None)),
        ("all", Err(400)),
    ] {
        let asked = Request::parse("GET", &lists, &format!("includeObject={include}"), TABLE);
        let found = asked.map(|it| matches!(it, Request::List { form, .. } if Ok(form) == expected.map(Form::Table)));
        assert_eq!(found.map_err(|status| status.code), expected.map(|_| true), "{include}");
    }
}

#[test]
fn discovery_is_aggregated_where_the_api_server_asks_for_that() {
    let accepted = |accept: &str| Request::parse("GET", "/apis", "", accept);
    let all = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";
    assert_eq!(accepted(all), Ok(Request::Groups(Some(Discovery::V2))));
    let beta = all.split_once(',').unwrap().1;
    assert_eq!(accepted(beta), Ok(Request::Groups(Some(Discovery::V2Beta1))));
    assert_eq!(accepted("application/json"), Ok(Request::Groups(None)));
    assert_eq!(accepted("application/yaml").unwrap_err().code, 406);
}

#[test]
fn selectors_and_pages_are_read_from_the_address() {
    let query = "labelSelector=catalog%3Done%2Ctier+in+(gold)&fieldSelector=metadata.name%3Da&limit=5&unknown=x";
    let asked = Request::parse("GET", &format!("{V1}/packagemanifests"), query, "").unwrap();
    let Request::List { query, .. } = &asked else { panic!("{asked:?}") };
    assert_eq!(*query, Query::parse("catalog=one,tier in (gold)", "metadata.name=a", "5", "").unwrap());
    for (query, code, reason) in [
        ("labelSelector=%3D", 400, "BadRequest"),
        ("fieldSelector=spec.x%3Dy", 400, "BadRequest"),
        ("limit=-1", 400, "BadRequest"),
        // Clients begin anew.
        ("continue=x", 410, "Expired"),
    ] {
        let status = Request::parse("GET", &format!("{V1}/packagemanifests"), query, "").unwrap_err();
        assert_eq!((status.code, status.reason), (code, reason), "{query}");
    }
}

#[test]
fn rights_are_needed_for_packages_alone() {
    let needed = |path: &str| {
        get(path).unwrap().attributes().map(|it| format!("{} {} {} {}", it.verb, it.subresource, it.namespace, it.name))
    };
    for path in ["/healthz", "/apis", "/openapi/v2", "/openapi/v3", V1] {
        assert_eq!(needed(path), None, "{path}");
    }
    for (path, expected) in [
        ("packagemanifests", "list   "),
        ("namespaces/team/packagemanifests", "list  team "),
        ("namespaces/team/packagemanifests?fieldSelector=metadata.name%3Da", "list  team a"),
        ("namespaces/team/packagemanifests/a", "get  team a"),
        ("namespaces/team/packagemanifests/a/icon", "get icon team a"),
    ] {
        assert_eq!(needed(&format!("{V1}/{path}")).as_deref(), Some(expected), "{path}");
    }
}

#[test]
fn refusals_are_objects_of_kind_status() {
    let body = |status: Status| serde_json::from_slice::<Value>(&status.body()).unwrap();
    assert_eq!(
        body(Status::no_package("a")),
        serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "reason": "NotFound", "code": 404,
            "message": "packagemanifests.packages.operators.coreos.com \"a\" not found",
            "details": {"name": "a", "group": "packages.operators.coreos.com", "kind": "packagemanifests"},
        })
    );
    let what =
        Attributes { verb: "get", resource: "packagemanifests", subresource: "icon", namespace: "team", name: "a" };
    assert_eq!(
        Status::forbidden("alice", &what, "").message,
        "packagemanifests.packages.operators.coreos.com \"a\" is forbidden: User \"alice\" cannot get resource \
         \"packagemanifests/icon\" in API group \"packages.operators.coreos.com\" in the namespace \"team\""
    );
    let all = Attributes { verb: "list", resource: "packagemanifests", ..Attributes::default() };
    let status = Status::forbidden("alice", &all, "no binding");
    assert!(status.message.ends_with("at the cluster scope: no binding"), "{}", status.message);
    assert_eq!((status.code, status.reason), (403, "Forbidden"));
    assert_eq!(body(Status::too_many_requests())["details"]["retryAfterSeconds"], 1);
}
