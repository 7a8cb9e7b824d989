//! ClusterServiceVersions as namespaces see them.

use super::*;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::operator::copies::Rules;
use std::collections::BTreeMap;

const LIST: &str = "namespaces/mall/clusterserviceversions";

/// Objects as an API server has them.
struct Objects(BTreeMap<String, Value>);

impl CsvSource for Objects {
    fn shown(&self) -> Option<Arc<Shown>> {
        let originals = self.0.values().map(|object| {
            let csv: ClusterServiceVersion = serde_json::from_value(object.clone()).unwrap();
            let metadata = csv.metadata.clone();
            ((metadata.namespace.unwrap(), metadata.name.unwrap()), Arc::new(csv))
        });
        let (namespaces, rules) = (["mall", "park", "shop"].map(str::to_owned), Rules::default());
        Some(Arc::new(Shown::new(originals.collect(), [], namespaces.into(), rules, jiff::Timestamp::UNIX_EPOCH)))
    }

    fn body(&self, csv: ShownCsv) -> BoxFuture<'static, Result<Option<Arc<CsvBody>>, String>> {
        let answer = match csv.name() {
            "away" => Err("operators cannot be read now; try again".to_owned()),
            "gone" => Ok(None),
            name => Ok(self.0.get(name).map(|object| Arc::new(CsvBody::of(object)))),
        };
        Box::pin(std::future::ready(answer))
    }
}

/// An operator of the namespace `shop` with these targets, as its annotation has them.
fn operator(name: &str, targets: &str) -> (String, Value) {
    let metadata = json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "resourceVersion": "7",
        "creationTimestamp": "2026-01-02T03:04:05Z", "annotations": {"olm.targetNamespaces": targets},
        "managedFields": [{"manager": "m"}]});
    let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": metadata,
        "spec": {"displayName": "Server", "description": "Serves.", "version": "1.0.0", "replaces": "before",
            "install": {"strategy": "deployment"}},
        "status": {"phase": "Succeeded", "reason": "InstallSucceeded", "message": "m"}});
    (name.to_owned(), object)
}

/// Of these operators.
async fn running(operators: impl IntoIterator<Item = (String, Value)>) -> Running {
    Running::with(Some(Arc::new(Objects(operators.into_iter().collect())))).await
}

fn places(list: &Value) -> Vec<String> {
    let of = |item: &Value| {
        let text = |key: &str| item["metadata"][key].as_str().unwrap().to_owned();
        format!("{}/{}", text("namespace"), text("name"))
    };
    list["items"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn namespace_sees_copies_that_nobody_has_written_and_the_home_of_an_operator_itself() {
    let running = running([operator("all", ""), operator("own", "shop")]).await;
    let (code, list) = running.get(&format!("{V1}/{LIST}")).await;
    assert_eq!((code, &list["kind"]), (200, &json!("ClusterServiceVersionList")));
    assert_eq!(places(&list), ["mall/all"]);
    let (code, copy) = running.get(&format!("{V1}/{LIST}/all")).await;
    assert_eq!((code, &copy), (200, &list["items"][0]));
    let expected = json!({
        "apiVersion": "packages.operators.coreos.com/v1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "all", "namespace": "mall", "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {"olm.copiedFrom": "shop", "olm.managed": "true"}, "annotations": {}},
        "spec": operator("all", "").1["spec"],
        "status": {"phase": "Succeeded", "reason": "Copied",
            "message": "The operator is running in shop but is managing this namespace"},
    });
    assert_eq!(copy, expected);
    let (_, own) = running.get(&format!("{V1}/namespaces/shop/clusterserviceversions/all")).await;
    assert_eq!((&own["status"]["reason"], &own["metadata"]["uid"]), (&json!("InstallSucceeded"), &json!("uid-all")));
    assert_eq!((own["metadata"].get("managedFields"), &own["apiVersion"]), (None, &expected["apiVersion"]));
}

#[tokio::test]
async fn table_has_the_columns_of_the_definition() {
    let running = running([operator("all", "")]).await;
    for rest in ["", "/all"] {
        let request = running.request("alice", &format!("{V1}/{LIST}{rest}")).header("accept", TABLE);
        let table: Value = request.send().await.unwrap().json().await.unwrap();
        let columns = table["columnDefinitions"].as_array().unwrap().iter();
        let columns: Vec<&str> = columns.map(|it| it["name"].as_str().unwrap()).collect();
        assert_eq!(columns, ["Name", "Display", "Version", "Release", "Replaces", "Phase"]);
        assert_eq!(table["rows"][0]["cells"], json!(["all", "Server", "1.0.0", "", "before", "Succeeded"]), "{rest}");
        let object = &table["rows"][0]["object"];
        assert_eq!(object["kind"], "PartialObjectMetadata");
        assert_eq!(object["metadata"]["namespace"], "mall");
        assert_eq!(object["metadata"]["labels"]["olm.copiedFrom"], "shop");
    }
}

#[tokio::test]
async fn all_namespaces_are_listed_page_by_page_and_not_without_a_limit() {
    let running = running([operator("all", ""), operator("some", "park")]).await;
    let all = format!("{V1}/clusterserviceversions");
    let (code, status) = running.get(&all).await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
    assert!(status["message"].as_str().unwrap().contains("give a limit, at most 500"), "{status}");
    let expected = ["mall/all", "park/all", "park/some", "shop/all", "shop/some"];
    for limit in 1..=6 {
        let (mut found, mut token) = (Vec::new(), String::new());
        loop {
            let (code, page) = running.get(&format!("{all}?limit={limit}&continue={token}")).await;
            assert_eq!(code, 200, "{page}");
            found.extend(places(&page));
            token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
            if token.is_empty() {
                break;
            }
            assert_eq!(places(&page).len(), limit);
        }
        assert_eq!(found, expected, "{limit}");
    }
    let (_, copies) = running.get(&format!("{all}?limit=9&labelSelector=olm.copiedFrom%3Dshop")).await;
    assert_eq!(places(&copies), ["mall/all", "park/all", "park/some"]);
    let (_, one) = running.get(&format!("{all}?limit=9&fieldSelector=metadata.name%3Dsome")).await;
    assert_eq!(places(&one), ["park/some", "shop/some"]);
}

#[tokio::test]
async fn what_is_not_there_cannot_be_read_or_may_not_be_seen_is_told_by_a_status() {
    let running = running([operator("all", ""), operator("away", "park"), operator("gone", "mall")]).await;
    for name in ["none", "gone"] {
        let (code, status) = running.get(&format!("{V1}/{LIST}/{name}")).await;
        assert_eq!((code, &status["kind"], &status["reason"]), (404, &json!("Status"), &json!("NotFound")), "{name}");
        let details = json!({"name": name, "group": "packages.operators.coreos.com", "kind": "clusterserviceversions"});
        assert_eq!(status["details"], details);
    }
    // It went after the page was made.
    assert_eq!(places(&running.get(&format!("{V1}/{LIST}")).await.1), ["mall/all"]);
    let (code, status) = running.get(&format!("{V1}/namespaces/park/clusterserviceversions/away")).await;
    assert_eq!((code, status["details"]["retryAfterSeconds"].as_i64()), (503, Some(1)));
    let refused = running.request("mallory", &format!("{V1}/{LIST}")).send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 403);
    let status: Value = refused.json().await.unwrap();
    let text = status["message"].as_str().unwrap();
    assert!(text.contains("cannot list resource \"clusterserviceversions\""), "{text}");
    for path in [format!("{LIST}?watch=true"), "clusterserviceversions?watch=true".to_owned()] {
        assert_eq!(running.get(&format!("{V1}/{path}")).await.0, 405, "{path}");
    }
    let one = format!("{}{V1}/{LIST}/all", running.base);
    let deleted = running.client.delete(&one).header("x-remote-user", "alice").send().await.unwrap();
    assert_eq!(deleted.status().as_u16(), 405);
    let text = deleted.json::<Value>().await.unwrap()["message"].as_str().unwrap().to_owned();
    assert!(text.contains("\"clusterserviceversions.packages.operators.coreos.com\""), "{text}");
}

#[tokio::test]
async fn resource_is_there_only_where_copies_are_virtual() {
    for (running, code, count) in [(Running::start().await, 404, 3), (running([operator("all", "")]).await, 200, 4)] {
        for path in [LIST.to_owned(), format!("{LIST}/all"), "clusterserviceversions?limit=1".to_owned()] {
            assert_eq!(running.get(&format!("{V1}/{path}")).await.0, code, "{path}");
        }
        let (_, resources) = running.get(V1).await;
        assert_eq!(resources["resources"].as_array().unwrap().len(), count);
        let removed = running.client.delete(format!("{}{V1}/{LIST}/all", running.base));
        let removed = removed.header("x-remote-user", "alice").send().await.unwrap().status().as_u16();
        assert_eq!(removed, if code == 404 { 404 } else { 405 });
    }
}
