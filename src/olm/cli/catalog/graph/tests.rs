use super::*;
use crate::olm::catalog::builder::tests::read;
use serde_json::{Value, json};

fn bundle(name: &str, version: &str) -> Value {
    let identity = json!({"type": "olm.package", "value": {"packageName": "a", "version": version}});
    json!({"schema": "olm.bundle", "package": "a", "name": name, "image": "r/a", "properties": [identity]})
}

/// Three versions, of which the middle one is skipped; two of them and a channel are deprecated.
fn blobs() -> String {
    let entries = json!([
        {"name": "a.v1", "replaces": "a.v0"},
        {"name": "a.v3", "replaces": "a.v1", "skips": ["a.v2"], "skipRange": "<2.0.0"},
        {"name": "a.v2", "replaces": "a.v1"},
    ]);
    let deprecated = json!([
        {"reference": {"schema": "olm.package"}, "message": "m"},
        {"reference": {"schema": "olm.channel", "name": "stable"}, "message": "m"},
        {"reference": {"schema": "olm.bundle", "name": "a.v2"}, "message": "m"},
        {"reference": {"schema": "olm.bundle", "name": "a.v1"}, "message": "m"},
    ]);
    let blobs = [
        json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "a", "name": "stable", "entries": entries}),
        json!({"schema": "olm.channel", "package": "a", "name": "fast", "entries": [{"name": "a.v3"}]}),
        bundle("a.v1", "1.0.0"),
        bundle("a.v2", "2.0.0"),
        bundle("a.v3", "3.0.0"),
        json!({"schema": "olm.deprecations", "package": "a", "entries": deprecated}),
    ];
    blobs.iter().map(|blob| format!("{blob}\n")).collect()
}

#[test]
fn diagram_has_a_node_an_entry_and_an_edge_for_each_way_to_it() {
    let catalog = read(&[("all.json", &blobs())]);
    let packages: Vec<Package<'_>> = catalog.index.packages().collect();
    let expected = r##"graph LR
  classDef deprecated fill:#E8960F
  classDef skipped stroke:#FF0000,stroke-width:4px
  classDef deprecatedskipped fill:#E8960F,stroke:#FF0000,stroke-width:4px
  %% package "a"
  subgraph "a"
    %% channel "stable"
    subgraph a-stable["stable"]
      a-stable-a.v3["a.v3"]
      a-stable-a.v2["a.v2"]-- skip --> a-stable-a.v3["a.v3"]
      a-stable-a.v1["a.v1"]-- "skipRange(<2.0.0)" --> a-stable-a.v3["a.v3"]
      a-stable-a.v1["a.v1"]-- replace --> a-stable-a.v3["a.v3"]
      a-stable-a.v2["a.v2"]
      a-stable-a.v1["a.v1"]-- replace --> a-stable-a.v2["a.v2"]
      a-stable-a.v1["a.v1"]
      a-stable-a.v0["a.v0"]-- replace --> a-stable-a.v1["a.v1"]
    end
  end
style a-stable fill:#DCD0FF
style a fill:#989695
class a-stable-a.v1,a-stable-a.v2 deprecated
"##;
    assert_eq!(mermaid(&packages, &|channel| channel.name() == "stable"), expected);
    assert!(mermaid(&packages, &|_| false).ends_with("stroke-width:4px\n"));
}

#[test]
fn text_goes_from_the_head_down_and_marks_what_is_skipped_or_gone() {
    let catalog = read(&[("all.json", &blobs())]);
    let packages: Vec<Package<'_>> = catalog.index.packages().collect();
    let page = Page { width: 100, colours: false, now: jiff::Timestamp::UNIX_EPOCH };
    let expected = "a fast\n  a.v3\na stable (default)\n  a.v3\n    replaces a.v1\n    skips a.v2\n    skips <2.0.0: a.v1\n  \
        a.v1, deprecated\n    replaces a.v0 (not in the channel)\n  a.v2 (skipped), deprecated\n    replaces a.v1\n";
    assert_eq!(text(&packages, &|_| true, &page), expected);
}

#[test]
fn programs_get_the_edges_of_each_channel() {
    let catalog = read(&[("all.json", &blobs())]);
    let graph = serde_json::to_value(Graph::of(catalog.index.package("a").unwrap(), &|_| true)).unwrap();
    assert_eq!(graph["channels"][1]["head"], "a.v3");
    assert_eq!(graph["channels"][1]["edges"][1], json!({"from": "a.v1", "to": "a.v3", "by": "skipRange"}));
}
