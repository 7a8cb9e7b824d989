//! Tables that are published for other controllers of these objects: what there is, and what comes of it. Where the answer is another
//! one on purpose, the row names the rule.

use super::*;
use crate::olm::operator::deployment::Write;

mod compatibility;
mod config;
mod groups;
mod required;
mod rows;
mod updates;

/// A named world, and what one look at each of its versions comes to.
struct Row {
    name: &'static str,
    /// As `cluster` reads it.
    world: &'static str,
    /// As `told` tells it.
    expected: &'static str,
    /// What others come to, and the rule by which it is another one here.
    otherwise: Option<(&'static str, &'static str)>,
}

const fn row(name: &'static str, world: &'static str, expected: &'static str) -> Row {
    Row { name, world, expected, otherwise: None }
}

const fn otherwise(row: Row, published: &'static str, rule: &'static str) -> Row {
    Row { otherwise: Some((published, rule)), ..row }
}

/// A description of an API that is defined.
fn described(kind: &str) -> Value {
    json!({"name": format!("{}s.example.com", kind.to_lowercase()), "version": "v1", "kind": kind})
}

/// `more`: pairs of a word and its value.
fn version(name: &str, state: &str, more: &[&str]) -> Value {
    let (phase, reason) = state.split_once('/').unwrap_or((state, ""));
    let mut object = csv(name, if phase == "None" { "" } else { phase }, reason);
    let spec = &mut object["spec"];
    for pair in more.chunks(2) {
        let [key, value] = pair else { panic!("{more:?}") };
        match *key {
            "owns" => spec["customresourcedefinitions"]["owned"] = json!([described(value)]),
            "asks" => {
                let api = json!({"group": "apps", "version": "v1", "kind": "Deployment", "name": value});
                spec["apiservicedefinitions"]["required"] = json!([api]);
            }
            "serves" => {
                let api = json!({"group": "gears.example.com", "version": "v1", "kind": "Gear", "name": "gears",
                    "deploymentName": value});
                spec["apiservicedefinitions"]["owned"] = json!([api]);
            }
            "replaces" => spec["replaces"] = json!(value),
            "deploys" => spec["install"]["spec"]["deployments"] = json!([entry(value)]),
            "lacks" => spec["installModes"] = json!([{"type": value, "supported": false}]),
            other => panic!("{other}"),
        }
    }
    object
}

/// What the lines say, one after the other.
fn cluster(world: &'static str) -> Cluster {
    let lines: Vec<Vec<&'static str>> = world.lines().map(|line| line.split_whitespace().collect()).collect();
    let mut cluster = Cluster::new([]);
    for line in &lines {
        match line.as_slice() {
            ["version", name, state, more @ ..] => cluster.csvs.push(version(name, state, more)),
            ["definition", kind] => {
                let served = ["v1".to_owned()].into();
                let definition = Definition { uid: "u".into(), served, is_available: true, ..Definition::default() };
                cluster.definitions.insert(format!("{}s.example.com", kind.to_lowercase()), definition);
            }
            ["service", name, state] => {
                let is_available = *state == "available";
                let service = ApiService { uid: "u".into(), is_available, has_service: true, ..ApiService::default() };
                cluster.services.insert((*name).to_owned(), service);
            }
            ["group", "static"] => cluster.groups[0]["spec"]["staticProvidedAPIs"] = json!(true),
            ["group", "forward"] => {
                cluster.groups[0]["spec"]["upgradeStrategy"] = json!("TechPreviewUnsafeFailForward");
            }
            ["rival", kind] => {
                let apis = json!({"olm.providedAPIs": format!("{kind}.v1.example.com")});
                let metadata = json!({"name": "g2", "namespace": "mall", "annotations": apis});
                let spec = json!({"targetNamespaces": ["shop"], "staticProvidedAPIs": true});
                cluster.others.push(json!({"metadata": metadata, "spec": spec}));
            }
            _ => {}
        }
    }
    lines.iter().fold(cluster.marked(), |cluster, line| afterwards(cluster, line))
}

/// What happens once the versions are marked.
fn afterwards(mut cluster: Cluster, line: &[&'static str]) -> Cluster {
    match line {
        ["deployment", of, state] => return deployed(cluster, of, state),
        ["deployment", name] => {
            let object = json!({"metadata": {"name": name, "namespace": "shop", "uid": format!("uid-{name}")}});
            let live = Live { object: Arc::new(object), ..Live::default() };
            cluster.deployments.insert((*name).to_owned(), live);
        }
        ["new", name] => {
            let metadata = cluster.csv_mut(name)["metadata"].as_object_mut().unwrap();
            metadata.retain(|key, _| !["annotations", "labels", "finalizers"].contains(&key.as_str()));
        }
        ["annotated", name] => cluster.csv_mut(name)["metadata"]["annotations"]["new"] = json!("annotation"),
        ["group", "none"] => cluster.groups.clear(),
        ["group", "two"] => {
            let mut second = cluster.groups[0].clone();
            second["metadata"]["name"] = json!("g2");
            cluster.groups.push(second);
        }
        ["group", "unnamed"] => cluster.groups[0]["metadata"]["annotations"] = json!({}),
        ["group", "for", targets @ ..] => cluster.groups[0]["spec"] = json!({"targetNamespaces": targets}),
        _ => {}
    }
    cluster
}

/// With the Deployments of a version.
fn deployed(cluster: Cluster, of: &str, state: &str) -> Cluster {
    let mut cluster = cluster.deployed(of, ready());
    for live in cluster.deployments.values_mut() {
        let object = Arc::make_mut(&mut live.object);
        match state {
            "ready" => {}
            "stale" => object["metadata"]["labels"]["olm.deployment-spec-hash"] = json!("stale"),
            "bare" => object["spec"]["template"]["metadata"]["annotations"] = json!({}),
            other => panic!("{other}"),
        }
    }
    cluster
}

/// What one look at each version comes to: what it becomes, and what is written.
fn told(cluster: &Cluster) -> String {
    let mut names: Vec<&str> = cluster.csvs.iter().map(|it| it["metadata"]["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    let all = names.iter().map(|name| format!("{name}: {}", of_decision(&cluster.decide(name, 10))));
    all.collect::<Vec<_>>().join("; ")
}

fn of_decision(decision: &Decision) -> String {
    let mut told = Vec::new();
    if decision.patch.is_some() {
        told.push("marked".to_owned());
    }
    let states = decision.status.iter().flat_map(|(states, _)| states);
    told.extend(states.map(|state| format!("{:?}/{}", state.phase, state.reason)));
    if decision.delete {
        told.push("deleted".to_owned());
    }
    told.extend(decision.deployments.iter().map(|write| match write {
        Write::Create { name, .. } => format!("creates {name}"),
        Write::Replace { name, .. } => format!("replaces {name}"),
        Write::Delete { name, .. } => format!("deletes {name}"),
    }));
    if told.is_empty() { "stays".to_owned() } else { told.join(", ") }
}

fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for row in rows {
        let found = told(&cluster(row.world));
        if found != row.expected {
            wrong.push(format!("{}: {found}", row.name));
        }
        // Else the rule would say nothing.
        if let Some((published, rule)) = row.otherwise.filter(|(published, _)| *published == row.expected) {
            wrong.push(format!("{}: {published} is no other answer, so that it needs no rule: {rule}", row.name));
        }
    }
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len(), "names are different");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn transitions_of_one_version_are_as_published() {
    check(&rows::ONE);
}

#[test]
fn transitions_with_the_groups_are_as_published() {
    check(&rows::GROUPS);
}

#[test]
fn transitions_of_versions_that_follow_each_other_are_as_published() {
    check(&rows::SEVERAL);
}

#[test]
fn transitions_where_a_group_goes_forward_are_as_published() {
    check(&rows::FORWARD);
}

/// What its Deployment says of itself, while the version is being installed.
#[test]
fn statuses_of_deployments_are_judged_as_published() {
    let (waits, runs) = ("Installing/InstallWaiting", "Succeeded/InstallSucceeded");
    let late = json!({"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded"});
    let moves = json!({"type": "Progressing", "status": "True", "reason": "ReplicaSetUpdated"});
    let available = |status: &str| json!({"type": "Available", "status": status, "message": "m"});
    for (name, status, expected) in [
        ("it has given up", json!({"conditions": [late]}), "Failed/InstallCheckFailed"),
        ("it moves, and is available", json!({"conditions": [moves, available("True")]}), runs),
        ("it has not been seen", json!({"observedGeneration": 0, "conditions": [available("True")]}), waits),
        ("pods of the former version are left", json!({"replicas": 5, "updatedReplicas": 3}), waits),
        ("it says nothing", json!({}), waits),
        ("it is not available", json!({"conditions": [available("False")]}), waits),
        ("it does not know whether it is available", json!({"conditions": [available("Unknown")]}), waits),
        ("it is available", json!({"conditions": [available("True")]}), runs),
    ] {
        let mut all = json!({"observedGeneration": 1});
        merge(&mut all, &status);
        let version = version("a", "Installing/InstallSucceeded", &[]);
        let told = Cluster::new([version]).marked().deployed("a", all).step("a", 14);
        assert!(told.starts_with(&format!("{expected}: ")), "{name}: {told}");
    }
}
