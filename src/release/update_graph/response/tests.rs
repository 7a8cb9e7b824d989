//! Valid, odd and hostile responses; then whole channels of a real product, if they are available.

use super::*;
use crate::cluster_version::status::tests::release;
use proptest::prelude::*;
use serde_json::json;

fn node(version: &str) -> Value {
    json!({"version": version, "payload": format!("img-{version}"), "metadata": {}})
}

fn with_metadata(version: &str, key: &str, value: Value) -> Value {
    let mut node = node(version);
    node["metadata"] = json!({key: value});
    node
}

fn risk(name: &str, rules: Value) -> Value {
    json!({"url": "https://r/1", "name": name, "message": "it may break", "matchingRules": rules})
}

fn always(name: &str) -> Value {
    risk(name, json!([{"type": "Always"}]))
}

fn group(to: &str, risks: &[Value]) -> Value {
    json!({"edges": [{"from": "1.0.0", "to": to}], "risks": risks})
}

/// Nodes 1.0.0 (running) to 1.0.3.
fn graph(edges: Value, conditional: &[Value]) -> Value {
    let nodes: Vec<_> = (0..4).map(|n| node(&format!("1.0.{n}"))).collect();
    json!({"version": 1, "nodes": nodes, "edges": edges, "conditionalEdges": conditional})
}

fn parse(graph: &Value) -> Result<Updates, RetrievalError> {
    parse_updates(graph.to_string().as_bytes(), &release("1.0.0", "img-own"), "stable", "")
}

/// Versions of both lists.
fn lists(updates: &Updates) -> (Vec<&str>, Vec<&str>) {
    let available = updates.available.iter().map(|r| r.version.as_str()).collect();
    (available, updates.conditional.iter().map(|u| u.release.version.as_str()).collect())
}

/// Case, edges, conditional edges, available, conditional.
type Row = (&'static str, Value, Vec<Value>, Vec<&'static str>, Vec<&'static str>);

#[test]
fn edges_become_available_and_conditional_updates() {
    let unknown = || risk("U", json!([{"type": "Oracle", "promql": 7}]));
    let half = || risk("H", json!([{"type": "Oracle"}, {"type": "PromQL", "promql": {"promql": "up"}}]));
    let all = json!([[0, 1], [0, 2], [1, 2], [2, 3]]);
    let table: Vec<Row> = vec![
        ("edges from the running version only, highest first", all.clone(), vec![], vec!["1.0.2", "1.0.1"], vec![]),
        ("the same edge twice, and one to itself", json!([[0, 1], [0, 1], [0, 0]]), vec![], vec!["1.0.1"], vec![]),
        ("both kinds: conditional", all.clone(), vec![group("1.0.2", &[always("A")])], vec!["1.0.1"], vec!["1.0.2"]),
        ("an unknown rule beside a known one", json!([]), vec![group("1.0.3", &[half()])], vec![], vec!["1.0.3"]),
        (
            "one risk without a usable rule: in neither list",
            all.clone(),
            vec![group("1.0.2", &[unknown(), always("A")])],
            vec!["1.0.1"],
            vec![],
        ),
        (
            "two groups for one target: in neither list",
            all.clone(),
            vec![group("1.0.2", &[always("A")]), group("1.0.2", &[always("B")])],
            vec!["1.0.1"],
            vec![],
        ),
        (
            "of two groups one is unusable: in neither list",
            json!([]),
            vec![group("1.0.2", &[always("A")]), group("1.0.2", &[unknown()])],
            vec![],
            vec![],
        ),
        ("no risks at all", json!([[0, 1]]), vec![group("1.0.1", &[])], vec![], vec![]),
        ("the same risk twice", json!([]), vec![group("1.0.1", &[always("A"), always("A")])], vec![], vec![]),
        (
            "from another version",
            json!([]),
            vec![json!({"edges": [{"from": "1.0.0+x", "to": "nowhere"}], "risks": []})],
            vec![],
            vec![],
        ),
        ("null lists", Value::Null, vec![json!({"edges": null, "risks": null})], vec![], vec![]),
    ];
    for (case, edges, groups, available, conditional) in table {
        let updates = parse(&graph(edges, &groups)).unwrap();
        assert_eq!(lists(&updates), (available, conditional), "{case}");
        assert_eq!(updates.current, release("1.0.0", "img-1.0.0"), "{case}");
    }
}

#[test]
fn rules_that_can_be_evaluated_are_kept_in_order() {
    let rules = json!([
        {"type": "Always", "promql": {"promql": "up"}},
        {"type": "PromQL"},
        {"type": "PromQL", "promql": {"promql": ""}},
        {"type": "PromQL", "promql": {"promql": "up"}},
        {"type": "Always"},
    ]);
    let updates = parse(&graph(json!([]), &[group("1.0.1", &[risk("R", rules)])])).unwrap();
    let kept: Vec<_> = updates.conditional[0].risks[0].matching_rules.iter().map(|r| r.type_.as_str()).collect();
    assert_eq!(kept, ["PromQL", "Always"]);
}

#[test]
fn risk_that_the_api_server_would_refuse_excludes_its_target() {
    let good = always("R");
    for (key, value) in [
        ("name", ""),
        ("message", ""),
        ("url", ""),
        ("url", "not a uri"),
        ("url", "https://r/1\n"),
        ("url", "https://r/%zz"),
        ("url", "https://r#known"),
        ("url", "https://r\\x"),
        ("url", "https://{r}/x"),
        ("url", "https://ex%61mple/"),
    ] {
        let mut risk = good.clone();
        risk[key] = json!(value);
        let updates = parse(&graph(json!([]), &[group("1.0.1", &[risk])])).unwrap();
        assert_eq!(lists(&updates), (vec![], vec![]), "{key} {value:?}");
        assert!(updates.notes[0].contains("1.0.1") && updates.notes[0].contains(key), "{:?}", updates.notes);
    }
    let many: Vec<_> = (0..201).map(|n| always(&format!("R{n}"))).collect();
    assert!(parse(&graph(json!([]), &[group("1.0.1", &many)])).unwrap().conditional.is_empty());
}

#[test]
fn lists_larger_than_status_lose_the_lowest_versions() {
    let nodes: Vec<_> = (0..600).map(|n| node(&format!("1.0.{n}"))).collect();
    let groups: Vec<_> = (1..600).map(|n| group(&format!("1.0.{n}"), &[always("A")])).collect();
    let updates = parse(&json!({"nodes": nodes, "edges": [], "conditionalEdges": groups})).unwrap();
    assert_eq!(updates.conditional.len(), 500);
    assert_eq!(updates.conditional.first().unwrap().release.version, "1.0.599");
    assert!(updates.notes[0].starts_with("99 "), "{:?}", updates.notes);
    let edges: Vec<_> = (1..600).map(|n| [0, n]).collect();
    let updates = parse(&json!({"nodes": nodes, "edges": edges})).unwrap();
    assert_eq!((updates.available.len(), updates.available[0].version.as_str()), (500, "1.0.599"));
    // A few that are too large together.
    let mut large = always("A");
    large["message"] = json!("x".repeat(200 << 10));
    let groups: Vec<_> = (1..6).map(|n| group(&format!("1.0.{n}"), std::slice::from_ref(&large))).collect();
    let updates = parse(&json!({"nodes": nodes, "edges": [], "conditionalEdges": groups})).unwrap();
    let kept: Vec<_> = updates.conditional.iter().map(|update| update.release.version.as_str()).collect();
    assert_eq!(kept, ["1.0.5", "1.0.4"]);
    assert!(updates.notes[0].starts_with("3 conditional updates"), "{:?}", updates.notes);
}

#[test]
fn inconsistent_graph_is_refused_with_the_place() {
    let bad_own = json!({"nodes": [with_metadata("1.0.0", "release.openshift.io/architecture", json!("amd64"))]});
    let nowhere = graph(json!([]), &[group("7.0.0", &[always("A")])]);
    let table: [(Vec<u8>, Reason, &str); 13] = [
        (b"<html>".to_vec(), Reason::ResponseInvalid, "not a JSON object"),
        (b" {\"nodes\": 1}".to_vec(), Reason::ResponseInvalid, "not an update graph"),
        (b"".to_vec(), Reason::ResponseInvalid, "not a JSON object"),
        (b"[]".to_vec(), Reason::ResponseInvalid, "not a JSON object"),
        (b"{}".to_vec(), Reason::VersionNotFound, "1.0.0"),
        (graph(json!([[0, 4]]), &[]).to_string().into(), Reason::ResponseInvalid, "Edge 0 [0, 4]"),
        (graph(json!([[0, 1], [9, 1]]), &[]).to_string().into(), Reason::ResponseInvalid, "Edge 1 [9, 1]"),
        (graph(json!([[0, -1]]), &[]).to_string().into(), Reason::ResponseInvalid, "not an update graph"),
        (graph(json!([[0, 1, 2]]), &[]).to_string().into(), Reason::ResponseInvalid, "not an update graph"),
        (graph(json!([[0]]), &[]).to_string().into(), Reason::ResponseInvalid, "not an update graph"),
        (json!({"nodes": [node("v1.0.0")]}).to_string().into(), Reason::ResponseInvalid, "Node 0: \"v1.0.0\""),
        (
            bad_own.to_string().into(),
            Reason::ResponseInvalid,
            "Node 0, the running release: its architecture \"amd64\"",
        ),
        (nowhere.to_string().into(), Reason::ResponseInvalid, "1.0.0 to 7.0.0"),
    ];
    for (body, reason, part) in table {
        let error = parse_updates(&body, &release("1.0.0", "x"), "stable", "").unwrap_err();
        let body = String::from_utf8_lossy(&body);
        assert!(error.reason == reason && error.message.contains(part), "{body}: {} {error}", error.reason);
    }
    let huge = vec![b' '; MAX_BODY + 1];
    assert_eq!(parse_updates(&huge, &release("1.0.0", "x"), "", "").unwrap_err().reason, Reason::ResponseInvalid);
    let deep = "[".repeat(1 << 20);
    assert_eq!(
        parse_updates(deep.as_bytes(), &release("1.0.0", "x"), "", "").unwrap_err().reason,
        Reason::ResponseInvalid
    );
    let odd = parse_updates(b"{}", &release("one", "x"), "", "").unwrap_err();
    assert_eq!(odd.reason, Reason::InvalidCurrentVersion);
}

#[test]
fn node_with_bad_metadata_is_excluded_alone() {
    const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";
    const ARCHITECTURE: &str = "release.openshift.io/architecture";
    let cases = [
        (CHANNELS, json!("b,a,b"), Some(("", "", "a b"))),
        (ARCHITECTURE, json!("multi"), Some(("", "Multi", ""))),
        ("url", json!("https://e"), Some(("https://e", "", ""))),
        ("other", json!({"any": ["thing"]}), Some(("", "", ""))),
        (CHANNELS, json!("a,,b"), None),
        (CHANNELS, json!(""), None),
        (CHANNELS, json!(7), None),
        (ARCHITECTURE, json!("arm64"), None),
        ("url", json!("#%GG"), None),
        ("url", json!(["x"]), None),
    ];
    for (key, value, expected) in cases {
        let nodes = json!([node("1.0.0"), with_metadata("1.0.1", key, value.clone()), node("1.0.2")]);
        for groups in [json!([]), json!([group("1.0.1", &[always("A")])])] {
            let updates =
                parse(&json!({"nodes": nodes, "edges": [[0, 1], [0, 2]], "conditionalEdges": groups})).unwrap();
            let found = updates.available.iter().chain(updates.conditional.iter().map(|u| &u.release));
            let found = found.into_iter().find(|r| r.version == "1.0.1");
            let found = found.map(|r| (r.url.as_str(), r.architecture.as_str(), r.channels.join(" ")));
            assert_eq!(found, expected.map(|(u, a, c)| (u, a, c.to_owned())), "{key} {value}");
            assert_eq!(expected.is_none(), updates.notes.iter().any(|n| n.contains("1.0.1")), "{:?}", updates.notes);
            assert!(updates.available.iter().any(|r| r.version == "1.0.2"), "the valid one stays");
        }
    }
    let mut without_image = node("1.0.1");
    without_image["payload"] = json!("");
    let updates = parse(&json!({"nodes": [node("1.0.0"), without_image], "edges": [[0, 1]]})).unwrap();
    assert_eq!((updates.available.len(), updates.notes.len()), (0, 1));
}

#[test]
fn running_version_matches_without_build_metadata_but_conditional_edges_by_text() {
    let body = graph(json!([[0, 1]]), &[group("1.0.2", &[always("A")])]).to_string();
    let updates = parse_updates(body.as_bytes(), &release("1.0.0+build", "x"), "stable", "").unwrap();
    assert_eq!(lists(&updates), (vec!["1.0.1"], vec![]));
}

#[test]
fn update_to_multi_is_the_running_version() {
    let mut multi = graph(json!([[0, 1]]), &[group("1.0.2", &[always("A")])]);
    multi["nodes"][0]["metadata"] = json!({"release.openshift.io/architecture": "multi"});
    let own = release("1.0.0", "img-own");
    let updates = parse_updates(multi.to_string().as_bytes(), &own, "stable", "Multi").unwrap();
    assert_eq!(lists(&updates), (vec!["1.0.0"], vec![]));
    assert_eq!(
        (updates.available[0].architecture.as_str(), updates.available[0].image.as_str()),
        ("Multi", "img-1.0.0")
    );
    let there = Release { architecture: "Multi".into(), ..own };
    let updates = parse_updates(multi.to_string().as_bytes(), &there, "stable", "Multi").unwrap();
    assert_eq!(lists(&updates), (vec!["1.0.1"], vec!["1.0.2"]));
}

/// The same lists, computed in the plainest way from the JSON itself.
fn expected_lists(graph: &Value, own: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let nodes = graph["nodes"].as_array().unwrap();
    let version = |index: &Value| nodes[usize::try_from(index.as_u64().unwrap()).unwrap()]["version"].as_str().unwrap();
    let empty = Vec::new();
    let groups = graph["conditionalEdges"].as_array().unwrap_or(&empty);
    let targets: Vec<&str> = groups
        .iter()
        .flat_map(|g| g["edges"].as_array().unwrap())
        .filter(|e| e["from"] == own)
        .map(|e| e["to"].as_str().unwrap())
        .collect();
    let edges = graph["edges"].as_array().unwrap().iter();
    let plain = edges.filter(|e| version(&e[0]) == own).map(|e| version(&e[1]));
    let available = plain.filter(|v| !targets.contains(v)).map(str::to_owned).collect();
    let once = targets.iter().filter(|t| targets.iter().filter(|o| o == t).count() == 1);
    (available, once.map(|t| (*t).to_owned()).collect())
}

#[test]
fn real_channels_are_parsed_from_every_version() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/graphs");
    let folder = std::env::var("CVO_SHARED_DATA").map_or(folder, |data| std::path::Path::new(&data).join("graphs"));
    let files = [
        "stable-4.14",
        "stable-4.16",
        "candidate-4.20",
        "real/stable-4.7-amd64",
        "real/stable-4.8-amd64",
        "real/candidate-4.12-multi",
    ];
    let mut conditional_seen = 0;
    for file in files {
        let Ok(body) = std::fs::read(folder.join(format!("{file}.json"))) else {
            println!("skipped: {file} is not in {}", folder.display());
            continue;
        };
        let graph: Value = serde_json::from_slice(&body).unwrap();
        for node in graph["nodes"].as_array().unwrap() {
            let own = node["version"].as_str().unwrap();
            let updates = parse_updates(&body, &release(own, "x"), "any", "").unwrap();
            let (available, conditional) = expected_lists(&graph, own);
            let (found_available, found_conditional) = lists(&updates);
            for list in [&found_available, &found_conditional] {
                let sorted = list.windows(2).all(|w| Version::parse(w[0]).unwrap() > Version::parse(w[1]).unwrap());
                assert!(sorted, "{file} {own}: {list:?}");
            }
            conditional_seen += found_conditional.len();
            assert_eq!(
                found_available.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(),
                available,
                "{file} {own}"
            );
            assert_eq!(
                found_conditional.into_iter().map(str::to_owned).collect::<BTreeSet<_>>(),
                conditional,
                "{file} {own}"
            );
        }
    }
    println!("{conditional_seen} conditional updates seen");
}

proptest! {
    /// Whatever the service sends is parsed or refused without a panic, and the API server accepts what is published.
    #[test]
    fn any_graph_is_parsed_or_refused(
        nodes in proptest::collection::vec((0u8..4, "[a-c]{0,1}"), 0..6),
        edges in proptest::collection::vec((0u32..7, 0u32..7), 0..8),
        groups in proptest::collection::vec((0u8..4, "[ab]{0,1}", "[AP][a-z]{0,5}"), 0..4),
    ) {
        let nodes: Vec<_> = nodes.iter().map(|(n, image)| json!({"version": format!("1.0.{n}"), "payload": image})).collect();
        let edges: Vec<_> = edges.iter().map(|(a, b)| json!([a, b])).collect();
        let groups: Vec<_> = groups.iter().map(|(n, name, rule)| group(&format!("1.0.{n}"), &[risk(name, json!([{"type": rule}])), always("x")])).collect();
        match parse(&json!({"nodes": nodes, "edges": edges, "conditionalEdges": groups})) {
            Err(error) => prop_assert!(matches!(error.reason, Reason::ResponseInvalid | Reason::VersionNotFound)),
            Ok(updates) => {
                let images: Vec<_> = updates.available.iter().chain(updates.conditional.iter().map(|u| &u.release)).map(|r| &r.image).collect();
                let distinct: BTreeSet<_> = images.iter().collect();
                prop_assert_eq!(distinct.len(), images.len(), "an image is in one list, once");
                prop_assert!(images.iter().all(|i| !i.is_empty()));
                for update in &updates.conditional {
                    prop_assert!(update.risks.iter().all(|r| !r.matching_rules.is_empty() && !r.name.is_empty()));
                }
            }
        }
    }
}
