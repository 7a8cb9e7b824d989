use super::super::authority::{find, named};
use super::*;

fn two() -> Catalogs {
    catalogs(vec![("one", "widgets", content(&widgets())), ("one", "my.catalog", empty()), ("two", "widgets", empty())])
}

#[test]
fn catalog_is_named_by_the_host_of_its_service() {
    let catalogs = two();
    for (authority, expected) in [
        ("widgets.one.svc:50051", ("one", "widgets")),
        ("widgets.two.svc", ("two", "widgets")),
        ("widgets.one.svc.cluster.local:50051", ("one", "widgets")),
        ("Widgets.One.svc.cluster.local.:50051", ("one", "widgets")),
        ("my-catalog.one.svc:50051", ("one", "my.catalog")),
    ] {
        let (key, _) = named(&catalogs, authority).unwrap();
        assert_eq!((key.0.as_str(), key.1.as_str()), expected, "{authority}");
    }
}

#[test]
fn unknown_authority_is_told_how_to_ask() {
    let catalogs = two();
    for authority in
        ["", "localhost:50051", "10.0.0.1:50051", "[::1]:50051", "widgets.one", "widgets.three.svc", ".one.svc"]
    {
        let error = named(&catalogs, authority).unwrap_err().to_string();
        let expected = format!(
            "no catalog is served as {authority:?}: dial the Service of a catalog, or name it by the authority \
             <service>.<namespace>.svc:50051, as with grpcurl -authority; served are my-catalog.one.svc, widgets.one.svc, \
             widgets.two.svc"
        );
        assert_eq!(error, expected);
    }
}

#[test]
fn message_of_an_unknown_authority_is_bounded() {
    let error = named(&Catalogs::default(), &"x".repeat(60_000)).unwrap_err().to_string();
    assert!(error.len() < 500 && error.ends_with("none is served now"), "{error}");
    let many = (0..1000).map(|at| (format!("c{at:04}"), empty())).collect::<Vec<_>>();
    let many = catalogs(many.into_iter().map(|(name, content)| ("n", &*name.leak(), content)).collect());
    let error = named(&many, "x").unwrap_err().to_string();
    assert!(error.len() < 600 && error.ends_with("c0009.n.svc and 990 more"), "{error}");
}

#[test]
fn catalog_is_found_by_its_name_before_that_of_a_service() {
    let catalogs = catalogs(vec![("one", "a.b", empty()), ("one", "a-b", empty())]);
    let found = |name: &str| find(&catalogs, &("one".to_owned(), name.to_owned())).map(|(key, _)| key.1.clone());
    assert_eq!((found("a-b").as_deref(), found("a.b").as_deref(), found("a")), (Some("a-b"), Some("a.b"), None));
}
