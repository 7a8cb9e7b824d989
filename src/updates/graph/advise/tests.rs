//! Answers good, odd and hostile; then whole channels of a real product, where they are at hand.

use super::*;
use crate::status::tests::release;
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

/// Nodes 1.0.0 (own) to 1.0.3.
fn graph(edges: Value, conditional: &[Value]) -> Value {
    let nodes: Vec<_> = (0..4).map(|n| node(&format!("1.0.{n}"))).collect();
    json!({"version": 1, "nodes": nodes, "edges": edges, "conditionalEdges": conditional})
}

fn ask(graph: &Value) -> Result<Advice, RetrievalError> {
    advise(graph.to_string().as_bytes(), &release("1.0.0", "img-own"), "stable", "")
}

/// Versions of both lists.
fn lists(advice: &Advice) -> (Vec<&str>, Vec<&str>) {
    let available = advice.available.iter().map(|r| r.version.as_str()).collect();
    (available, advice.conditional.iter().map(|u| u.release.version.as_str()).collect())
}

/// What, edges, conditional edges, available, conditional.
type Row = (&'static str, Value, Vec<Value>, Vec<&'static str>, Vec<&'static str>);

#[test]
fn edges_and_conditional_edges_become_the_two_lists() {
    let unknown = || risk("U", json!([{"type": "Oracle", "promql": 7}]));
    let half = || risk("H", json!([{"type": "Oracle"}, {"type": "PromQL", "promql": {"promql": "up"}}]));
    let all = json!([[0, 1], [0, 2], [1, 2], [2, 3]]);
    let table: Vec<Row> = vec![
        ("own edges only, highest first", all.clone(), vec![], vec!["1.0.2", "1.0.1"], vec![]),
        ("the same edge twice, and one to itself", json!([[0, 1], [0, 1], [0, 0]]), vec![], vec!["1.0.1"], vec![]),
        ("both kinds: conditional", all.clone(), vec![group("1.0.2", &[always("A")])], vec!["1.0.1"], vec!["1.0.2"]),
        ("an unknown rule beside a known one", json!([]), vec![group("1.0.3", &[half()])], vec![], vec!["1.0.3"]),
        (
            "one risk without a usable rule: gone from both lists",
            all.clone(),
            vec![group("1.0.2", &[unknown(), always("A")])],
            vec!["1.0.1"],
            vec![],
        ),
        (
            "two groups for one target: gone from both lists",
            all.clone(),
            vec![group("1.0.2", &[always("A")]), group("1.0.2", &[always("B")])],
            vec!["1.0.1"],
            vec![],
        ),
        (
            "of two groups one is unusable: no risk goes unjudged",
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
    for (what, edges, groups, available, conditional) in table {
        let advice = ask(&graph(edges, &groups)).unwrap();
        assert_eq!(lists(&advice), (available, conditional), "{what}");
        assert_eq!(advice.current, release("1.0.0", "img-1.0.0"), "{what}");
    }
}

#[test]
fn rules_are_kept_in_order_and_only_if_they_can_be_evaluated() {
    let rules = json!([
        {"type": "Always", "promql": {"promql": "up"}},
        {"type": "PromQL"},
        {"type": "PromQL", "promql": {"promql": ""}},
        {"type": "PromQL", "promql": {"promql": "up"}},
        {"type": "Always"},
    ]);
    let advice = ask(&graph(json!([]), &[group("1.0.1", &[risk("R", rules)])])).unwrap();
    let kept: Vec<_> = advice.conditional[0].risks[0].matching_rules.iter().map(|r| r.type_.as_str()).collect();
    assert_eq!(kept, ["PromQL", "Always"]);
}

#[test]
fn risks_that_the_api_server_would_refuse_drop_their_target_with_a_note() {
    let good = always("R");
    for (key, value) in [
        ("name", ""),
        ("message", ""),
        ("url", ""),
        ("url", "no uri"),
        ("url", "https://r/1\n"),
        ("url", "https://r/%zz"),
        ("url", "https://r#known"),
        ("url", "https://r\\x"),
        ("url", "https://{r}/x"),
        ("url", "https://ex%61mple/"),
    ] {
        let mut risk = good.clone();
        risk[key] = json!(value);
        let advice = ask(&graph(json!([]), &[group("1.0.1", &[risk])])).unwrap();
        assert_eq!(lists(&advice), (vec![], vec![]), "{key} {value:?}");
        assert!(advice.notes[0].contains("1.0.1") && advice.notes[0].contains(key), "{:?}", advice.notes);
    }
    let many: Vec<_> = (0..201).map(|n| always(&format!("R{n}"))).collect();
    assert!(ask(&graph(json!([]), &[group("1.0.1", &many)])).unwrap().conditional.is_empty());
}

#[test]
fn more_targets_than_status_can_hold_are_cut_at_the_low_end() {
    let nodes: Vec<_> = (0..600).map(|n| node(&format!("1.0.{n}"))).collect();
    let groups: Vec<_> = (1..600).map(|n| group(&format!("1.0.{n}"), &[always("A")])).collect();
    let advice = ask(&json!({"nodes": nodes, "edges": [], "conditionalEdges": groups})).unwrap();
    assert_eq!(advice.conditional.len(), 500);
    assert_eq!(advice.conditional.first().unwrap().release.version, "1.0.599");
    assert!(advice.notes[0].starts_with("99 "), "{:?}", advice.notes);
    let edges: Vec<_> = (1..600).map(|n| [0, n]).collect();
    let advice = ask(&json!({"nodes": nodes, "edges": edges})).unwrap();
    assert_eq!((advice.available.len(), advice.available[0].version.as_str()), (500, "1.0.599"));
    // Few, and too large together.
    let mut large = always("A");
    large["message"] = json!("x".repeat(200 << 10));
    let groups: Vec<_> = (1..6).map(|n| group(&format!("1.0.{n}"), std::slice::from_ref(&large))).collect();
    let advice = ask(&json!({"nodes": nodes, "edges": [], "conditionalEdges": groups})).unwrap();
    let kept: Vec<_> = advice.conditional.iter().map(|update| update.release.version.as_str()).collect();
    assert_eq!(kept, ["1.0.5", "1.0.4"]);
    assert!(advice.notes[0].starts_with("3 conditional updates"), "{:?}", advice.notes);
}

#[test]
fn graphs_that_make_no_sense_are_refused_with_the_place() {
    let bad_own = json!({"nodes": [with_metadata("1.0.0", "release.openshift.io/architecture", json!("amd64"))]});
    let nowhere = graph(json!([]), &[group("7.0.0", &[always("A")])]);
    let table: [(Vec<u8>, Reason, &str); 13] = [
        (b"<html>".to_vec(), Reason::ResponseInvalid, "no JSON object"),
        (b" {\"nodes\": 1}".to_vec(), Reason::ResponseInvalid, "no update graph"),
        (b"".to_vec(), Reason::ResponseInvalid, "no JSON object"),
        (b"[]".to_vec(), Reason::ResponseInvalid, "no JSON object"),
        (b"{}".to_vec(), Reason::VersionNotFound, "1.0.0"),
        (graph(json!([[0, 4]]), &[]).to_string().into(), Reason::ResponseInvalid, "Edge 0 [0, 4]"),
        (graph(json!([[0, 1], [9, 1]]), &[]).to_string().into(), Reason::ResponseInvalid, "Edge 1 [9, 1]"),
        (graph(json!([[0, -1]]), &[]).to_string().into(), Reason::ResponseInvalid, "no update graph"),
        (graph(json!([[0, 1, 2]]), &[]).to_string().into(), Reason::ResponseInvalid, "no update graph"),
        (graph(json!([[0]]), &[]).to_string().into(), Reason::ResponseInvalid, "no update graph"),
        (json!({"nodes": [node("v1.0.0")]}).to_string().into(), Reason::ResponseInvalid, "Node 0: \"v1.0.0\""),
        (bad_own.to_string().into(), Reason::ResponseInvalid, "Node 0, the running one: its architecture \"amd64\""),
        (nowhere.to_string().into(), Reason::ResponseInvalid, "1.0.0 to 7.0.0"),
    ];
    for (body, reason, part) in table {
        let error = advise(&body, &release("1.0.0", "x"), "stable", "").unwrap_err();
        let body = String::from_utf8_lossy(&body);
        assert!(error.reason == reason && error.message.contains(part), "{body}: {} {error}", error.reason);
    }
    let huge = vec![b' '; MAX_BODY + 1];
    assert_eq!(advise(&huge, &release("1.0.0", "x"), "", "").unwrap_err().reason, Reason::ResponseInvalid);
    let deep = "[".repeat(1 << 20);
    assert_eq!(advise(deep.as_bytes(), &release("1.0.0", "x"), "", "").unwrap_err().reason, Reason::ResponseInvalid);
    let odd = advise(b"{}", &release("one", "x"), "", "").unwrap_err();
    assert_eq!(odd.reason, Reason::InvalidCurrentVersion);
}

#[test]
fn metadata_is_read_and_a_bad_node_is_left_out_alone() {
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
    for (key, value, want) in cases {
        let nodes = json!([node("1.0.0"), with_metadata("1.0.1", key, value.clone()), node("1.0.2")]);
        for groups in [json!([]), json!([group("1.0.1", &[always("A")])])] {
            let advice = ask(&json!({"nodes": nodes, "edges": [[0, 1], [0, 2]], "conditionalEdges": groups})).unwrap();
            let found = advice.available.iter().chain(advice.conditional.iter().map(|u| &u.release));
            let found = found.into_iter().find(|r| r.version == "1.0.1");
            let found = found.map(|r| (r.url.as_str(), r.architecture.as_str(), r.channels.join(" ")));
            assert_eq!(found, want.map(|(u, a, c)| (u, a, c.to_owned())), "{key} {value}");
            assert_eq!(want.is_none(), advice.notes.iter().any(|n| n.contains("1.0.1")), "{:?}", advice.notes);
            assert!(advice.available.iter().any(|r| r.version == "1.0.2"), "the good one stays");
        }
    }
    let mut without_image = node("1.0.1");
    without_image["payload"] = json!("");
    let advice = ask(&json!({"nodes": [node("1.0.0"), without_image], "edges": [[0, 1]]})).unwrap();
    assert_eq!((advice.available.len(), advice.notes.len()), (0, 1));
}

#[test]
fn the_own_version_is_found_without_build_metadata_and_conditional_edges_by_text() {
    let body = graph(json!([[0, 1]]), &[group("1.0.2", &[always("A")])]).to_string();
    let advice = advise(body.as_bytes(), &release("1.0.0+build", "x"), "stable", "").unwrap();
    assert_eq!(lists(&advice), (vec!["1.0.1"], vec![]));
}

#[test]
fn the_way_to_multi_is_the_own_version() {
    let mut multi = graph(json!([[0, 1]]), &[group("1.0.2", &[always("A")])]);
    multi["nodes"][0]["metadata"] = json!({"release.openshift.io/architecture": "multi"});
    let own = release("1.0.0", "img-own");
    let advice = advise(multi.to_string().as_bytes(), &own, "stable", "Multi").unwrap();
    assert_eq!(lists(&advice), (vec!["1.0.0"], vec![]));
    assert_eq!((advice.available[0].architecture.as_str(), advice.available[0].image.as_str()), ("Multi", "img-1.0.0"));
    let there = Release { architecture: "Multi".into(), ..own };
    let advice = advise(multi.to_string().as_bytes(), &there, "stable", "Multi").unwrap();
    assert_eq!(lists(&advice), (vec!["1.0.1"], vec!["1.0.2"]));
}

/// Counted a second time, the plain way, over the JSON itself.
fn expected(graph: &Value, own: &str) -> (BTreeSet<String>, BTreeSet<String>) {
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
fn whole_channels_of_a_real_product_are_read_from_every_version() {
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
            let advice = advise(&body, &release(own, "x"), "any", "").unwrap();
            let (available, conditional) = expected(&graph, own);
            let (found_available, found_conditional) = lists(&advice);
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
    /// Whatever the service sends: an answer or a refusal, never a crash, and what is published the API server takes.
    #[test]
    fn any_graph_is_answered_or_refused(
        nodes in proptest::collection::vec((0u8..4, "[a-c]{0,1}"), 0..6),
        edges in proptest::collection::vec((0u32..7, 0u32..7), 0..8),
        groups in proptest::collection::vec((0u8..4, "[ab]{0,1}", "[AP][a-z]{0,5}"), 0..4),
    ) {
        let nodes: Vec<_> = nodes.iter().map(|(n, image)| json!({"version": format!("1.0.{n}"), "payload": image})).collect();
        let edges: Vec<_> = edges.iter().map(|(a, b)| json!([a, b])).collect();
        let groups: Vec<_> = groups.iter().map(|(n, name, rule)| group(&format!("1.0.{n}"), &[risk(name, json!([{"type": rule}])), always("x")])).collect();
        match ask(&json!({"nodes": nodes, "edges": edges, "conditionalEdges": groups})) {
            Err(error) => prop_assert!(matches!(error.reason, Reason::ResponseInvalid | Reason::VersionNotFound)),
            Ok(advice) => {
                let images: Vec<_> = advice.available.iter().chain(advice.conditional.iter().map(|u| &u.release)).map(|r| &r.image).collect();
                let distinct: BTreeSet<_> = images.iter().collect();
                prop_assert_eq!(distinct.len(), images.len(), "an image stands in one list, once");
                prop_assert!(images.iter().all(|i| !i.is_empty()));
                for update in &advice.conditional {
                    prop_assert!(update.risks.iter().all(|r| !r.matching_rules.is_empty() && !r.name.is_empty()));
                }
            }
        }
    }
}
