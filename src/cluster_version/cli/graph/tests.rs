use super::*;
use crate::cli::folder::tests::{filters, release};
use serde_json::Value;

fn built(mode: Mode, flags: &[&str]) -> (Graph, Vec<Arc<Manifest>>) {
    let dir = release();
    let manifests = folder::open(dir.path(), folder::NO_IMAGE, &filters(flags)).unwrap().included();
    let own = ObjectId::new("apps", "Deployment", NAMESPACE, OWN_DEPLOYMENT);
    (build(&manifests, mode, Some(&own)), manifests)
}

/// The Job is a barrier, and the own Deployment the last of its component.
#[test]
fn json_names_stages_nodes_manifests_and_edges() {
    let (graph, manifests) = built(Mode::Update, &["--feature-set", "TechPreviewNoUpgrade"]);
    let json: Value = serde_json::to_value(graph_json("1.0.0", Mode::Update, &graph, &manifests)).unwrap();
    assert_eq!((&json["version"], &json["mode"]), (&"1.0.0".into(), &"update".into()));
    let stages: Vec<Vec<&str>> = json["stages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|stage| stage["nodes"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect())
        .collect();
    let expected: [&[&str]; 4] =
        [&["1/90/cluster-version-operator"], &["2/10/dns", "2/10/net"], &["3/20/a"], &["4/30/a"]];
    assert_eq!(stages, expected);
    let nodes = json["nodes"].as_array().unwrap();
    let names = |node: &Value| -> Vec<String> {
        node["manifests"].as_array().unwrap().iter().map(|m| m["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&nodes[0]), ["late", "cluster-version-operator"]);
    assert_eq!(names(&nodes[2]), ["first", "third", "net"]);
    let third = serde_json::json!({
        "file": "0000_10_net_01.yaml", "index": 2, "apiVersion": "v1", "kind": "ConfigMap", "namespace": "x", "name": "third",
    });
    assert_eq!(nodes[2]["manifests"][1], third);
    assert_eq!((&nodes[2]["stage"], &nodes[2]["longestPath"]), (&2.into(), &5.into()));
    let edges: Vec<(&str, &str)> = json["edges"]
        .as_array()
        .unwrap()
        .iter()
        .map(|edge| (edge["from"].as_str().unwrap(), edge["to"].as_str().unwrap()))
        .collect();
    let expected = [
        ("1/90/cluster-version-operator", "2/10/dns"),
        ("1/90/cluster-version-operator", "2/10/net"),
        ("2/10/dns", "3/20/a"),
        ("2/10/net", "3/20/a"),
        ("3/20/a", "4/30/a"),
    ];
    assert_eq!(edges, expected);
}

#[test]
fn text_shows_stages_operators_and_order() {
    let said = |mode, each| {
        let (graph, manifests) = built(mode, &[]);
        let mut out = Vec::new();
        text(mode, &graph, &manifests, each, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    let update = said(Mode::Update, false);
    assert!(update.starts_with("update: 3 stages, 4 nodes, 7 manifests\n\nstage 1\n"), "{update}");
    assert!(update.contains(", after 1/90/cluster-version-operator, operator net\n"), "{update}");
    assert!(update.contains("\nstage 2, once the previous one is done\n  2/20/a "), "{update}");
    let install = said(Mode::Install, true);
    assert!(install.starts_with("install: 3 stages, 4 nodes, 7 manifests\n"), "{install}");
    assert!(!install.contains(", after"), "{install}");
    assert!(
        install.contains("\n      clusteroperator.config.openshift.io \"net\"  (0000_10_net_09.yaml)\n"),
        "{install}"
    );
}
