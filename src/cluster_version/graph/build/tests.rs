//! Graphs of example lists, of a real release, and properties of any list of manifests.

use super::super::{Frontier, Graph, Mode};
use super::build;
use crate::object::manifest::{Manifest, ObjectId, Origin};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

const OWN: &str = "cvo-deployment";

/// The prefix `own:` puts a file into `manifests/`. The suffix `!` makes it a Job, `@` this program's Deployment.
fn manifest(spec: &str) -> Arc<Manifest> {
    let (origin, spec) = spec.strip_prefix("own:").map_or((Origin::Release, spec), |rest| (Origin::Own, rest));
    let (file, group, version, kind, name) = match (spec.strip_suffix('!'), spec.strip_suffix('@')) {
        (Some(file), _) => (file, "batch", "batch/v1", "Job", "x"),
        (_, Some(file)) => (file, "apps", "apps/v1", "Deployment", OWN),
        _ => (spec, "", "v1", "ConfigMap", "x"),
    };
    Arc::new(Manifest {
        origin,
        file: file.into(),
        index_in_file: 0,
        id: ObjectId::new(group, kind, "ns", name),
        api_version: version.into(),
        annotations: BTreeMap::new(),
        raw: (&b"{}"[..]).into(),
    })
}

fn manifests(specs: &[&str]) -> Vec<Arc<Manifest>> {
    specs.iter().map(|spec| manifest(spec)).collect()
}

fn own() -> ObjectId {
    ObjectId::new("apps", "Deployment", "ns", OWN)
}

/// A line for each node: its id, its manifest positions, and the ids of the nodes that it waits for.
fn lines(graph: &Graph) -> Vec<String> {
    let line = |i: usize| {
        let node = graph.node(i).unwrap();
        let after: Vec<&str> = graph.predecessors(i).into_iter().map(|p| graph.node(p).unwrap().id.as_str()).collect();
        let number: Vec<String> = node.manifests.iter().map(usize::to_string).collect();
        assert_eq!(node.id.split('/').next(), Some(node.stage.to_string().as_str()));
        format!("{} [{}] <- {}", node.id, number.join(" "), after.join(" ")).trim_end_matches(" <- ").to_owned()
    };
    (0..graph.len()).map(line).collect()
}

const EXAMPLE: [&str; 11] = [
    "own:0000_00_cvo_a",
    "own:0000_00_cvo_b",
    "own:0000_90_cvo_c",
    "0000_05_cfg_a",
    "0000_20_api_a",
    "0000_20_etcd_a",
    "0000_20_etcd_b",
    "0000_30_x_a",
    "zz-notes",
    "0000_50_p_a",
    "0000_50_q_a",
];

#[test]
fn update_has_stages_of_levels_and_components() {
    let graph = build(&manifests(&EXAMPLE), Mode::Update, None);
    assert_eq!(
        lines(&graph),
        [
            "1/00/cvo [0 1]",
            "1/90/cvo [2] <- 1/00/cvo",
            "1/05/cfg [3] <- 1/90/cvo",
            "2/20/api [4] <- 1/05/cfg",
            "2/20/etcd [5 6] <- 1/05/cfg",
            "3/30/x [7] <- 2/20/api 2/20/etcd",
            "3/-/zz-notes [8] <- 3/30/x",
            "4/50/p [9] <- 3/-/zz-notes",
            "4/50/q [10] <- 3/-/zz-notes",
        ]
    );
}

#[test]
fn install_and_reconcile_have_independent_nodes() {
    for mode in [Mode::Install, Mode::Reconcile] {
        let graph = build(&manifests(&EXAMPLE), mode, None);
        assert_eq!(graph.len(), 9);
        assert!((0..9).all(|i| graph.predecessors(i).is_empty()));
        assert_eq!(lines(&graph)[4], "1/20/etcd [5 6]");
    }
}

#[test]
fn parallel_stage_waits_for_the_whole_stage_before_it() {
    let files = ["0000_20_a_x", "0000_20_b_x", "0000_30_c_x", "0000_30_d_x", "0000_40_a_x"];
    assert_eq!(
        lines(&build(&manifests(&files), Mode::Update, None)),
        [
            "1/20/a [0]",
            "1/20/b [1]",
            "2/30/c [2] <- 1/20/a 1/20/b",
            "2/30/d [3] <- 1/20/a 1/20/b",
            "3/40/a [4] <- 2/30/c 2/30/d",
        ]
    );
}

/// A Job first, last, in the middle, and two in a row.
#[test]
fn jobs_are_barriers_in_every_mode() {
    let table: [(&[&str], &[&str]); 4] = [
        (&["0000_10_a_1!", "0000_10_a_2"], &["1/10/a [0]", "2/10/a [1] <- 1/10/a"]),
        (&["0000_10_a_1", "0000_10_a_2!"], &["1/10/a [0]", "2/10/a [1] <- 1/10/a"]),
        (
            &["0000_10_a_1", "0000_10_a_2!", "0000_10_a_3", "0000_10_b_1"],
            &["1/10/a [0]", "2/10/a [1] <- 1/10/a", "3/10/a [2] <- 2/10/a", "3/10/b [3] <- 2/10/a"],
        ),
        (
            &["0000_10_a_1", "0000_10_b_1", "0000_10_b_2!", "0000_10_b_3!", "notes"],
            &[
                "1/10/a [0]",
                "1/10/b [1]",
                "2/10/b [2] <- 1/10/a 1/10/b",
                "3/10/b [3] <- 2/10/b",
                "4/-/notes [4] <- 3/10/b",
            ],
        ),
    ];
    for (files, expected) in table {
        for mode in [Mode::Install, Mode::Update, Mode::Reconcile] {
            assert_eq!(lines(&build(&manifests(files), mode, None)), expected, "{files:?} {mode:?}");
        }
    }
}

#[test]
fn order_of_a_rollout_is_the_same_in_every_attempt() {
    for count in [5, 75] {
        let files: Vec<String> =
            (0..count).flat_map(|n| (0..=n % 4).map(move |m| format!("0000_{:02}_c{n}_{m}", n * 7 % 30))).collect();
        let list = manifests(&files.iter().map(String::as_str).collect::<Vec<_>>());
        for mode in [Mode::Install, Mode::Update, Mode::Reconcile] {
            let attempt = || {
                let graph = build(&list, mode, None);
                let mut frontier = Frontier::new(&graph);
                let mut order = Vec::new();
                while !frontier.is_completed() {
                    order.extend(frontier.start());
                    // The first of the running nodes ends.
                    frontier.done(frontier.running()[0]);
                }
                (lines(&graph), order)
            };
            let first = attempt();
            assert_eq!(first.1.len(), count, "every component is a node");
            assert!((1..8).all(|_| attempt() == first), "{count} nodes, {mode:?}");
        }
    }
}

#[test]
fn job_of_another_group_is_not_a_barrier() {
    let mut list = manifests(&["0000_10_a_1", "0000_10_a_2!", "0000_10_a_3"]);
    let mut other = Manifest::clone(&list[1]);
    other.api_version = "batch.example.com/v1".into();
    list[1] = Arc::new(other);
    assert_eq!(lines(&build(&list, Mode::Update, None)), ["1/10/a [0 1 2]"]);
}

#[test]
fn files_without_a_level_are_serial_in_updates_and_independent_otherwise() {
    let files = ["0000_10_a_1", "0000_70_dns.operator_00", "99_b_1", "99_b_1", "0000_70_a_1", "0000_70_b_1"];
    assert_eq!(
        lines(&build(&manifests(&files), Mode::Update, None)),
        [
            "1/10/a [0]",
            "1/-/0000_70_dns.operator_00 [1] <- 1/10/a",
            "1/-/99_b_1 [2 3] <- 1/-/0000_70_dns.operator_00",
            "2/70/a [4] <- 1/-/99_b_1",
            "2/70/b [5] <- 1/-/99_b_1",
        ]
    );
    assert_eq!(build(&manifests(&files), Mode::Reconcile, None).len(), 5);
}

#[test]
fn folders_are_not_mixed_and_own_manifests_come_first() {
    let files = ["own:0000_00_cvo_1", "own:0000_50_cvo_1", "0000_00_api_1", "0000_00_cvo_1", "0000_50_cvo_1"];
    assert_eq!(
        lines(&build(&manifests(&files), Mode::Update, None)),
        [
            "1/00/cvo [0]",
            "1/50/cvo [1] <- 1/00/cvo",
            "2/00/api [2] <- 1/50/cvo",
            "2/00/cvo [3] <- 1/50/cvo",
            "3/50/cvo [4] <- 2/00/api 2/00/cvo",
        ]
    );
    // The same level in both folders shares neither a stage nor a node.
    let files = ["own:0000_50_cvo_1", "0000_50_cvo_1"];
    assert_eq!(lines(&build(&manifests(&files), Mode::Update, None)), ["1/50/cvo [0]", "1/50/cvo#2 [1] <- 1/50/cvo"]);
}

#[test]
fn repeated_ids_are_numbered_even_if_a_file_has_such_a_name() {
    let files = ["0000_10_a_1", "0000_10_b_1", "0000_10_a_2", "x#2", "x", "y", "x"];
    let graph = build(&manifests(&files), Mode::Reconcile, None);
    let ids: Vec<&str> = graph.nodes().iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["1/10/a", "1/10/b", "1/10/a#2", "1/-/x#2", "1/-/x", "1/-/y", "1/-/x#3"]);
}

#[test]
fn own_deployment_is_the_last_own_manifest() {
    let table: [(&[&str], &[&str]); 6] = [
        // Inside one node.
        (
            &["own:0000_00_cvo_30@", "own:0000_00_cvo_40", "0000_00_api_1"],
            &["1/00/cvo [1 0]", "1/00/api [2] <- 1/00/cvo"],
        ),
        // Into a later node.
        (
            &["own:0000_00_cvo_30@", "own:0000_00_cvo_40", "own:0000_90_cvo_1"],
            &["1/00/cvo [1]", "1/90/cvo [2 0] <- 1/00/cvo"],
        ),
        // Its own node disappears, and the nodes beside it become one.
        (&["own:0000_00_cvo_1", "own:0000_00_x_30@", "own:0000_00_cvo_3"], &["1/00/cvo [0 2 1]"]),
        // Already last; alone.
        (&["own:0000_00_cvo_1", "own:0000_00_cvo_3@"], &["1/00/cvo [0 1]"]),
        (&["own:0000_00_cvo_30@", "0000_00_api_1"], &["1/00/cvo [0]", "1/00/api [1] <- 1/00/cvo"]),
        // In the other folder it is a manifest like any other.
        (&["0000_00_a_30@", "0000_00_a_40"], &["1/00/a [0 1]"]),
    ];
    for (files, expected) in table {
        assert_eq!(lines(&build(&manifests(files), Mode::Update, Some(&own()))), expected, "{files:?}");
    }
}

#[test]
fn empty_list_gives_an_empty_graph() {
    let graph = build(&[], Mode::Update, Some(&own()));
    assert!(graph.is_empty());
}

/// The graph of an update to a real release, if one is at hand.
#[test]
fn real_release_has_stages_of_its_file_names() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data/payload-5.0");
    let folder = std::env::var("CVO_SHARED_DATA").map_or(folder.to_owned(), |data| format!("{data}/payload-5.0"));
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no payload in {folder}");
        return;
    };
    let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.ends_with(".yaml") || name.ends_with(".yml") || name.ends_with(".json"));
    names.sort_unstable_by_key(|name| (!name.contains("_cluster-version-operator_"), name.clone()));
    let list: Vec<Arc<Manifest>> = names
        .iter()
        .map(|name| match name.contains("_cluster-version-operator_") {
            true => manifest(&format!("own:{name}")),
            false => manifest(name),
        })
        .collect();
    let graph = build(&list, Mode::Update, None);
    assert!(names.len() > 700 && graph.len() > 50, "{} files, {} nodes", names.len(), graph.len());
    assert!(graph.node(0).unwrap().id.ends_with("/cluster-version-operator"));
    // The first manifest of the others waits for the last own one.
    let own_end = list.iter().filter(|m| m.origin == Origin::Own).count() - 1;
    let (last_own, first_other) = (graph.node_of(own_end).unwrap(), graph.node_of(own_end + 1).unwrap());
    assert!(graph.predecessors(first_other).contains(&last_own));
    let stages = graph.nodes().last().unwrap().stage;
    assert!((5..40).contains(&stages), "{stages} stages");
}

fn any_list() -> impl Strategy<Value = Vec<Arc<Manifest>>> {
    let file = (0..4usize, 0..3usize, 0..3usize, 0..12usize).prop_map(|(level, component, rest, special)| {
        let name = match special {
            0 => format!("notes-{rest}"),
            _ => format!("0000_{level}0_c{component}_{rest}"),
        };
        name + match special {
            1 => "!",
            2 => "@",
            _ => "",
        }
    });
    (0..6usize, prop::collection::vec(file, 0..30)).prop_map(|(own, mut files)| {
        let own = own.min(files.len());
        files.iter_mut().take(own).for_each(|file| *file = format!("own:{file}"));
        files.iter().map(|file| manifest(file)).collect()
    })
}

proptest! {
    // A failure prints its smallest input; no file is written.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_manifest_is_in_one_node_and_stages_are_ordered(list in any_list(), flat in any::<bool>()) {
        let mode = if flat { Mode::Install } else { Mode::Update };
        let graph = build(&list, mode, Some(&own()));
        let mut seen: Vec<usize> = graph.nodes().iter().flat_map(|node| node.manifests.clone()).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, (0..list.len()).collect::<Vec<_>>());
        let ids: HashSet<&str> = graph.nodes().iter().map(|node| node.id.as_str()).collect();
        prop_assert_eq!(ids.len(), graph.len());
        for (i, node) in graph.nodes().iter().enumerate() {
            prop_assert!(!node.manifests.is_empty());
            prop_assert!(node.manifests.iter().all(|&m| graph.node_of(m) == Some(i)));
            prop_assert!(graph.predecessors(i).into_iter().all(|p| p < i));
            let of_stage = |stage: usize| graph.nodes().iter().enumerate().filter(move |(_, n)| n.stage == stage);
            // Every node of a stage waits for one of its own stage or of the stage before it.
            if node.stage > 1 {
                let before: HashSet<usize> = of_stage(node.stage - 1).map(|(i, _)| i).collect();
                let mine: HashSet<usize> = of_stage(node.stage).map(|(i, _)| i).collect();
                let after = graph.predecessors(i);
                prop_assert!(after.iter().any(|p| before.contains(p) || mine.contains(p)));
            }
        }
        // In an update all own nodes come before any other, and the last one ends with the own Deployment.
        if !flat {
            let place = |m: usize| {
                let node = graph.node_of(m).unwrap();
                let inside = graph.node(node).unwrap().manifests.iter().position(|&x| x == m).unwrap();
                (graph.node(node).unwrap().stage, node, inside)
            };
            let (ours, others): (Vec<usize>, Vec<usize>) = (0..list.len()).partition(|&m| list[m].origin == Origin::Own);
            for &mine in &ours {
                prop_assert!(others.iter().all(|&other| place(mine).1 < place(other).1));
                if list[mine].id == own() {
                    prop_assert!(ours.iter().all(|&m| list[m].id == own() || place(m) < place(mine)));
                }
            }
        }
    }
}
