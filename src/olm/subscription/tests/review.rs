//! Questions about a namespace as it might be.

use super::*;
use crate::olm::subscription::review::{self, ReviewError};

fn body(spec: &Value) -> Vec<u8> {
    let object = json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "SubscriptionReview", "spec": spec});
    object.to_string().into_bytes()
}

fn asked(case: &Case, spec: &Value) -> Result<Value, ReviewError> {
    let spec = review::read(&body(spec), "ns")?;
    review::answer(&spec, hypothesis(case), &ClusterVersions::default(), &Limits::default())
}

/// Names by round.
fn installs(answer: &Value) -> Vec<Vec<&str>> {
    let rounds = answer["status"]["rounds"].as_array().unwrap();
    rounds
        .iter()
        .map(|round| round["install"].as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect())
        .collect()
}

#[test]
fn supposed_subscriptions_and_removals_are_answered_with_what_would_be_installed() {
    let case = Case::of(&["a"]);
    let answer = asked(&case, &json!({"subscribe": [{"name": "b", "source": "main"}]})).unwrap();
    assert_eq!(installs(&answer), [["a.v2", "b.v1", "c.v1"]]);
    assert_eq!((&answer["kind"], &answer["status"]["truncated"]), (&json!("SubscriptionReview"), &json!(false)));
    let unknown = answer["status"]["unknown"][0].as_str().unwrap();
    assert!(
        unknown.contains("not fetched") && unknown.contains("a.v2, b.v1, c.v1") && unknown.contains("cvo olm plan")
    );
    let answer = asked(&case, &json!({"remove": ["sub-a"]})).unwrap();
    assert_eq!(answer["status"]["unknown"], Value::Null, "there is no bundle");
    let answer = asked(
        &case,
        &json!({"remove": ["sub-a"], "subscribe": [{"name": "a", "source": "main", "channel": "stable",
        "startingCSV": "a.v1"}], "toHead": true}),
    )
    .unwrap();
    assert_eq!(installs(&answer), [["a.v1"], ["a.v2"]]);
    let answer = asked(&case, &json!({"subscribe": [{"name": "d", "source": "main"}]})).unwrap();
    assert!(answer["status"]["rounds"][0]["failures"][0]["explanation"].as_str().unwrap().contains("d.v1"), "{answer}");
}

#[test]
fn supposed_content_of_a_catalog_counts_in_its_place_and_is_not_repeated() {
    let catalog = [
        json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "a", "name": "stable", "entries": [{"name": "a.v3"}]}),
        json!({"schema": "olm.bundle", "package": "a", "name": "a.v3", "image": "x", "properties": [
            {"type": "olm.package", "value": {"packageName": "a", "version": "3.0.0"}}]}),
    ];
    let text = catalog.map(|blob| blob.to_string()).join("\n");
    let answer = asked(&Case::of(&["a"]), &json!({"catalogs": [{"name": "main", "content": text}]})).unwrap();
    assert_eq!(installs(&answer), [["a.v3"]]);
    assert_eq!(answer["spec"], json!({"catalogs": [{"name": "main"}]}));
    // A catalog of all namespaces that has the name, too, if there is none of the namespace.
    let mut global = Case::of(&["a"]).change(0, |it| it.spec.source_namespace = "global".to_owned());
    global.catalogs = [(id("global", "main"), healthy())].into();
    let answer = asked(&global, &json!({"catalogs": [{"name": "main", "content": text}]})).unwrap();
    assert_eq!(installs(&answer), [["a.v3"]]);
    let new = json!({"catalogs": [{"name": "new", "content": text}], "remove": ["sub-a"],
        "subscribe": [{"name": "a", "source": "new", "sourceNamespace": "ns"}]});
    assert_eq!(installs(&asked(&Case::of(&["a"]), &new).unwrap()), [["a.v3"]]);
    let broken = json!({"catalogs": [{"name": "main", "content": "{\"schema\": \"olm.package\"}"}]});
    let error = asked(&Case::of(&["a"]), &broken).unwrap_err();
    assert!(matches!(&error, ReviewError::Catalog { name, .. } if name == "main"), "{error}");
}

#[test]
fn answer_that_would_be_too_long_ends_with_a_whole_round() {
    let packages: Vec<String> = (0..20).map(|at| format!("p{at}")).collect();
    let name = |package: &str, version: usize| format!("{package}.v{version}.{}", "x".repeat(200));
    let mut blobs = Vec::new();
    for package in &packages {
        let entry = |version: usize| match version {
            0 => json!({"name": name(package, 0)}),
            _ => json!({"name": name(package, version), "replaces": name(package, version - 1)}),
        };
        blobs.push(json!({"schema": "olm.package", "name": package, "defaultChannel": "stable"}));
        blobs.push(json!({"schema": "olm.channel", "package": package, "name": "stable",
            "entries": (0..90).map(entry).collect::<Vec<_>>()}));
        blobs.extend((0..90).map(|version| {
            json!({"schema": "olm.bundle", "package": package, "name": name(package, version), "image": "quay.io/test/x",
                "properties": [{"type": "olm.package",
                    "value": {"packageName": package, "version": format!("{version}.0.0")}}]})
        }));
    }
    let mut case = Case::of(&[]);
    let visible = Visible { content: Some(Arc::new(content(&blobs).0)), ..healthy() };
    case.catalogs.insert(id("ns", "main"), visible);
    let wanted = |package: &String| json!({"name": package, "source": "main", "startingCSV": name(package, 0)});
    let spec = json!({"subscribe": packages.iter().map(wanted).collect::<Vec<_>>(), "toHead": true});
    let answer = asked(&case, &spec).unwrap();
    assert_eq!(answer["status"]["truncated"], true);
    let rounds = installs(&answer);
    assert!(rounds.len() > 10 && rounds.len() < 90, "{}", rounds.len());
    assert!(rounds.iter().all(|round| round.len() == packages.len()));
    let length = answer["status"].to_string().len();
    assert!(length > review::MAX_ANSWER / 2 && length < review::MAX_ANSWER * 5 / 4, "{length}");
}

#[test]
fn question_why_not_is_answered_in_sentences() {
    let why = json!({"whyNot": {"subscription": "sub-a", "clusterServiceVersion": "a.v1"}});
    let answer = asked(&Case::of(&["a"]), &why).unwrap();
    assert_eq!(answer["status"]["whyNot"]["isComing"], false);
    assert!(answer["status"]["whyNot"]["lines"][0].as_str().unwrap().contains("a.v2"), "{answer}");
}

#[test]
fn question_that_cannot_be_read_is_refused_with_its_place() {
    let case = Case::of(&["a"]);
    for (spec, expected) in [
        (json!({"subscribe": [{"name": "a"}]}), "spec.subscribe[0].source must be set"),
        (json!({"subscribe": vec![json!({"name": "a", "source": "main"}); 21]}), "spec.subscribe has more than 20"),
        (json!({"other": 1}), "unknown field `other`"),
        (json!({"remove": ["x"]}), "no Subscription x"),
        (json!({"whyNot": {"subscription": "x", "clusterServiceVersion": "y"}}), "no Subscription x"),
        (json!({"whyNot": {"subscription": "sub-a"}}), "spec.whyNot.clusterServiceVersion must be set"),
    ] {
        let error = asked(&case, &spec).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert!(matches!(review::read(b"{", "ns"), Err(ReviewError::Json(_))));
    assert!(matches!(review::read(b"{}", "ns"), Err(ReviewError::Kind { .. })));
    let other = json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "SubscriptionReview",
        "metadata": {"namespace": "other"}});
    assert!(matches!(review::read(other.to_string().as_bytes(), "ns"), Err(ReviewError::Namespace { .. })));
}
