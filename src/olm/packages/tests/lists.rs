//! What namespaces see, selectors, pages and tables.

use super::*;
use crate::olm::packages::form::{Asked, Form, Include, ListWriter};
use crate::olm::packages::list::{Listed, Page, page, pick};
use crate::olm::packages::metadata::{Labelled, STALE_SINCE};
use crate::olm::packages::query::{Query, QueryError};
use serde_json::json;
use std::sync::Arc;

const GLOBAL: &str = "openshift-marketplace";

fn of(namespace: &str, catalog: &str, priority: i64, names: &[&str]) -> Vec<Listed> {
    let catalog = Arc::new(Catalog { namespace: namespace.into(), name: catalog.into(), priority, ..super::catalog() });
    let labels = [("tier".to_owned(), "gold".to_owned())];
    let package = |name: &&str| {
        Arc::new(Labelled { name: (*name).to_owned(), labels: labels.clone().into(), ..Labelled::default() })
    };
    names.iter().map(|name| Listed { catalog: catalog.clone(), package: package(name) }).collect()
}

fn all() -> Vec<Listed> {
    [
        of(GLOBAL, "one", -100, &["a", "c", "b"]),
        of(GLOBAL, "two", -200, &["b", "d"]),
        of("team", "own", -400, &["b", "e"]),
        of("other", "theirs", 900, &["b", "f"]),
    ]
    .concat()
}

fn keys(items: &[&Listed]) -> Vec<String> {
    items.iter().map(|it| format!("{}@{}", it.name(), it.catalog.name)).collect()
}

fn query(labels: &str, fields: &str, limit: &str, token: &str) -> Query {
    Query::parse(labels, fields, limit, token).unwrap()
}

#[test]
fn namespace_sees_its_own_catalogs_and_the_global_ones() {
    let all = all();
    let seen = |namespace: &str| keys(&page(&all, namespace, GLOBAL, &Query::default()).items);
    assert_eq!(seen("team"), ["a@one", "b@one", "b@two", "b@own", "c@one", "d@two", "e@own"]);
    assert_eq!(seen("empty"), ["a@one", "b@one", "b@two", "c@one", "d@two"]);
    assert_eq!(seen(GLOBAL), seen("empty"));
    assert_eq!(seen("").len(), 9);
}

#[test]
fn one_package_of_a_name_is_picked_by_own_namespace_then_priority_then_name() {
    let all = all();
    let picked = |namespace: &str, name: &str| {
        let (listed, others) = pick(&all, namespace, GLOBAL, name)?;
        Some((listed.catalog.name.clone(), others.iter().map(|other| other.catalog.name.clone()).collect::<Vec<_>>()))
    };
    assert_eq!(picked("team", "b"), Some(("own".into(), vec!["one".into(), "two".into()])));
    assert_eq!(picked("empty", "b"), Some(("one".into(), vec!["two".into()])));
    assert_eq!(picked("", "b"), Some(("theirs".into(), vec!["one".into(), "two".into(), "own".into()])));
    assert_eq!(picked("team", "f"), None);
    let same = [of(GLOBAL, "y", 5, &["a"]), of(GLOBAL, "x", 5, &["a"])].concat();
    assert_eq!(pick(&same, "", GLOBAL, "a").unwrap().0.catalog.name, "x");
}

#[test]
fn pages_together_are_the_list_without_a_limit() {
    let all = all();
    for limit in 1..=8 {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let Page { items, metadata } = page(&all, "team", GLOBAL, &query("", "", &limit.to_string(), &token));
            found.extend(keys(&items));
            assert_eq!(metadata.remaining_item_count, (found.len() < 7).then(|| 7 - found.len()));
            if metadata.token.is_empty() {
                break;
            }
            token = metadata.token;
        }
        assert_eq!(found, keys(&page(&all, "team", GLOBAL, &Query::default()).items), "{limit}");
    }
}

#[test]
fn token_stays_valid_when_the_package_or_its_catalog_is_gone() {
    let before = all();
    let token = page(&before, "team", GLOBAL, &query("", "", "2", "")).metadata.token;
    // Another replica, in which the catalog changed: what was last is gone, and new packages are before and after it.
    let after = [of(GLOBAL, "one", 0, &["a", "aa", "bb"]), of(GLOBAL, "two", 0, &["b", "d"])].concat();
    let rest = page(&after, "team", GLOBAL, &query("", "", "", &token));
    assert_eq!(keys(&rest.items), ["b@two", "bb@one", "d@two"]);
    assert_eq!(rest.metadata.token, "");
}

#[test]
fn token_that_is_none_is_refused() {
    for token in ["x", "e30", "AAAA", &"a".repeat(5000)] {
        assert_eq!(Query::parse("", "", "", token), Err(QueryError::Continue));
    }
}

#[test]
fn limit_is_a_number() {
    assert_eq!(query("", "", "0", "").limit, None);
    assert_eq!(query("", "", "250", "").limit, Some(250));
    for text in ["-1", "x", "1.5"] {
        assert_eq!(Query::parse("", "", text, ""), Err(QueryError::Limit(text.to_owned())));
    }
}

#[test]
fn only_names_are_selected_by_field() {
    let all = all();
    let found = |fields: &str| keys(&page(&all, "team", GLOBAL, &query("", fields, "", "")).items);
    assert_eq!(found("metadata.name=d"), ["d@two"]);
    assert_eq!(found("metadata.name==d"), ["d@two"]);
    assert_eq!(found("metadata.name=a,metadata.name=d"), Vec::<String>::new());
    for (fields, field) in
        [("status.catalogSource=one", "status.catalogSource"), ("metadata.name!=a", "metadata.name!")]
    {
        assert_eq!(Query::parse("", fields, "", ""), Err(QueryError::Field(field.to_owned())));
    }
}

#[test]
fn labels_select_as_kubectl_writes_them() {
    let all = all();
    for (selector, expected) in [
        ("catalog=two", "b@two d@two"),
        ("catalog==two", "b@two d@two"),
        ("catalog!=one", "b@two b@own d@two e@own"),
        ("catalog in (one, own),catalog notin (one)", "b@own e@own"),
        ("catalog,!gone,tier=gold", "a@one b@one b@two b@own c@one d@two e@own"),
        ("gone", ""),
        ("gone!=x,catalog = two", "b@two d@two"),
        ("! catalog", ""),
        ("gone=", ""),
    ] {
        let found = keys(&page(&all, "team", GLOBAL, &query(selector, "", "", "")).items).join(" ");
        assert_eq!(found, expected, "{selector}");
    }
    for selector in ["=a", "!", "a b", "a in b", "a in (b", "a=b,", "a=b c=d", "a>1", ","] {
        assert!(matches!(Query::parse(selector, "", "", ""), Err(QueryError::Label { .. })), "{selector}");
    }
}

/// Written in a form, each package as `{}` where it is wanted whole.
fn in_form(form: Form, page: &Page) -> Value {
    let asked = Asked { namespace: "team", now: "2026-01-05T03:04:05Z".parse().unwrap() };
    let mut list = ListWriter::begin(Vec::new(), form, &page.metadata).unwrap();
    for listed in &page.items {
        list.item(listed, asked, &[], |out| std::io::Write::write_all(out, b"{}")).unwrap();
    }
    serde_json::from_slice(&list.end().unwrap()).unwrap()
}

#[test]
fn list_is_written_item_by_item() {
    let empty = page(&[], "team", GLOBAL, &Query::default());
    let expected = json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "PackageManifestList", "metadata": {}, "items": []});
    assert_eq!(in_form(Form::Object, &empty), expected);
    let all = all();
    let two = page(&all, "team", GLOBAL, &query("", "", "2", ""));
    let list = in_form(Form::Object, &two);
    assert_eq!(list["items"], json!([{}, {}]));
    assert_eq!((&list["metadata"]["remainingItemCount"], list["metadata"]["continue"].is_string()), (&json!(5), true));
}

#[test]
fn what_lists_know_of_a_package_is_what_the_object_says() {
    let (catalog, package) = (catalog(), widgets());
    let labelled = PackageManifest::of(&catalog, &package).unwrap().labelled();
    let listed = Listed { catalog: Arc::new(catalog.clone()), package: Arc::new(labelled) };
    let metadata = written(&catalog, &package, "", &[])["metadata"].clone();
    assert_eq!((json!(listed.name()), json!(listed.labels())), (metadata["name"].clone(), metadata["labels"].clone()));
}

#[test]
fn table_has_name_catalog_and_age() {
    let all = all();
    let page = page(&all, "team", GLOBAL, &query("catalog=one", "", "2", ""));
    let table = in_form(Form::Table(Include::Metadata), &page);
    assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
    let columns: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(columns, ["Name", "Catalog", "Age"]);
    let cells: Vec<&Value> = table["rows"].as_array().unwrap().iter().map(|row| &row["cells"]).collect();
    assert_eq!(cells, [&json!(["a", "Example Operators", "3d"]), &json!(["b", "Example Operators", "3d"])]);
    assert_eq!(
        (&table["metadata"]["remainingItemCount"], table["metadata"]["continue"].is_string()),
        (&json!(1), true)
    );
    // Each row says of its object what was asked for.
    let metadata = table["rows"][0]["object"].clone();
    assert_eq!(
        (&metadata["kind"], &metadata["apiVersion"]),
        (&json!("PartialObjectMetadata"), &json!("meta.k8s.io/v1"))
    );
    assert_eq!((&metadata["metadata"]["name"], &metadata["metadata"]["namespace"]), (&json!("a"), &json!("team")));
    assert_eq!(metadata["metadata"]["labels"]["catalog"], "one");
    assert_eq!(in_form(Form::Table(Include::Object), &page)["rows"][0]["object"], json!({}));
    let none = in_form(Form::Table(Include::None), &page);
    assert_eq!(none["rows"][0], json!({"cells": ["a", "Example Operators", "3d"]}));
}

#[test]
fn metadata_are_written_without_the_objects() {
    let mut all = all();
    let stale = Catalog { stale_since: Some("2026-01-04T00:00:00Z".parse().unwrap()), ..(*all[0].catalog).clone() };
    all[0].catalog = Arc::new(stale);
    let list = in_form(Form::Metadata, &page(&all, "team", GLOBAL, &query("catalog=one", "", "1", "")));
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("PartialObjectMetadataList"), &json!("meta.k8s.io/v1")));
    let item = &list["items"][0];
    assert_eq!((&item["kind"], &item["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
    assert_eq!(item["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(item["metadata"]["annotations"], json!({STALE_SINCE: "2026-01-04T00:00:00Z"}));
    assert!(item.get("status").is_none());
}
