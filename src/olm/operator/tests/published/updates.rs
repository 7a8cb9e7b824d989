//! Versions that replace each other.

use super::*;
use crate::olm::operator::chain::{before, last, predecessor, successor};

/// What there is, and what is asked: what it replaces, what replaces it, what does so last, and all that it replaces.
#[test]
fn neighbours_in_a_chain_are_as_published() {
    for (name, all, of, expected) in [
        ("nothing else is there", &[("a", "")][..], "a", ["", "", "", ""]),
        ("it replaces nothing", &[("a", ""), ("b", "")], "b", ["", "", "", ""]),
        ("it replaces what is there", &[("a", ""), ("b", "a")], "b", ["a", "", "", "a"]),
        ("it replaces what is not there", &[("b", "a"), ("c", "")], "b", ["", "", "", ""]),
        ("another one replaces it", &[("a", ""), ("b", "a")], "a", ["", "b", "b", ""]),
        ("it replaces itself", &[("a", "a")], "a", ["", "", "", ""]),
        ("two replace each other", &[("a", "b"), ("b", "a")], "a", ["b", "b", "a", "b"]),
        ("it is the newest of three", &[("a", "b"), ("b", "c"), ("c", "")], "a", ["b", "", "", "b c"]),
        ("it is the oldest of three", &[("a", "b"), ("b", "c"), ("c", "")], "c", ["", "b", "a", ""]),
    ] {
        let written = all.iter().map(|(name, replaces)| version(name, "Succeeded", &["replaces", *replaces]));
        let csvs: Vec<ClusterServiceVersion> = written.map(typed).collect();
        let siblings: BTreeMap<&str, &ClusterServiceVersion> =
            csvs.iter().map(|it| (it.metadata.name.as_deref().unwrap(), it)).collect();
        let named = |it: Option<&ClusterServiceVersion>| it.and_then(|it| it.metadata.name.clone()).unwrap_or_default();
        let it = siblings[of];
        let earlier = before(it, &siblings).into_iter().collect::<Vec<_>>().join(" ");
        let found =
            [named(predecessor(it, &siblings)), named(successor(it, &siblings)), named(last(it, &siblings)), earlier];
        assert_eq!(found, expected, "{name}");
    }
}

/// Does what one look at a version comes to. A Deployment that is written is not ready.
fn follow(cluster: &mut Cluster, name: &str) {
    let decision = cluster.decide(name, 10);
    assert_eq!(decision.patch, None, "{name} is marked");
    for write in decision.deployments {
        let Some(object) = write.object() else { panic!("{write:?} takes away what the next one needs") };
        let mut object = object.clone();
        object["metadata"]["uid"] = json!("uid-server");
        object["metadata"]["resourceVersion"] = json!("9");
        object["metadata"]["generation"] = json!(1);
        object["status"] = waiting();
        cluster.deployments.insert(write.name().to_owned(), Live { object: Arc::new(object), ..Live::default() });
    }
    if let Some((_, status)) = decision.status {
        cluster.csv_mut(name)["status"] = json!(*status);
    }
    if decision.delete {
        cluster.csvs.retain(|it| it["metadata"]["name"] != name);
    }
}

fn phases(cluster: &Cluster) -> [String; 3] {
    ["a", "b", "c"].map(|name| {
        let found = cluster.csvs.iter().find(|it| it["metadata"]["name"] == name);
        let phase = found.map(|it| it["status"]["phase"].as_str().unwrap_or_default());
        phase.map_or("gone", |phase| if phase.is_empty() { "None" } else { phase }).to_owned()
    })
}

/// `a` is replaced by `b`, and that by `c`, with one Deployment for all of them. Returns the phases that they come to together.
fn followed(order: [&str; 3]) -> Vec<[String; 3]> {
    let replaced = BTreeMap::from([("a", ""), ("b", "a"), ("c", "b")]);
    let mut cluster = cluster("definition Widget");
    let versions = order.map(|name| version(name, "None", &["owns", "Widget", "replaces", replaced[name]]));
    cluster.csvs = versions.into();
    let mut cluster = cluster.marked();
    let mut seen = vec![phases(&cluster)];
    for _ in 0..40 {
        for name in order {
            if cluster.csvs.iter().any(|it| it["metadata"]["name"] == name) {
                follow(&mut cluster, name);
                seen.push(phases(&cluster));
            }
        }
        if cluster.csvs.iter().any(|it| it["status"]["phase"] == "Installing") {
            let live = cluster.deployments.get_mut("server").unwrap();
            Arc::make_mut(&mut live.object)["status"] = ready();
        }
    }
    seen
}

/// Whoever is looked at first.
#[test]
fn versions_that_come_together_follow_each_other_as_published() {
    let expected = [
        ["None", "None", "None"],
        ["Pending", "Pending", "Pending"],
        ["InstallReady", "Pending", "Pending"],
        ["Installing", "Pending", "Pending"],
        ["Succeeded", "Pending", "Pending"],
        ["Replacing", "InstallReady", "Pending"],
        ["Replacing", "Installing", "Pending"],
        ["Deleting", "Succeeded", "Pending"],
        ["gone", "Replacing", "InstallReady"],
        ["gone", "Replacing", "Installing"],
        ["gone", "gone", "Succeeded"],
    ];
    let orders = [["a", "b", "c"], ["a", "c", "b"], ["b", "a", "c"], ["b", "c", "a"], ["c", "b", "a"], ["c", "a", "b"]];
    for order in orders {
        let seen = followed(order);
        let mut rest = seen.iter();
        for together in expected {
            assert!(rest.any(|it| *it == together), "{order:?}: {together:?} does not follow: {seen:#?}");
        }
        assert_eq!(seen.last().unwrap(), &["gone", "gone", "Succeeded"], "{order:?}");
    }
}
