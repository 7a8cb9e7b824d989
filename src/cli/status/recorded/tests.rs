use super::*;
use crate::cluster_version::progress::{CONFIG_MAP, KEY};
use serde_json::json;

fn about(schema: u32) -> Recorded {
    Recorded {
        schema,
        collected: "2026-01-02T03:04:05Z".parse().unwrap(),
        server: "https://api.example".into(),
        name: "version".into(),
        namespace: "openshift-cluster-version".into(),
        cvo: "0.1.0".into(),
        unknown: vec!["nodes cannot be read".into()],
    }
}

fn archive() -> Archive {
    let mut archive = Archive::new(&about(1)).unwrap();
    let version = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"}, "spec": {"clusterID": ""}});
    archive.put(Archive::VERSION, &version).unwrap();
    let record = json!({"schema": 1, "pass": {"mode": "update", "done": 3, "total": 7}}).to_string();
    archive.put(Archive::RECORD, &json!({"metadata": {"name": CONFIG_MAP}, "data": {KEY: record}})).unwrap();
    archive
}

fn written(archive: &Archive) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record.tar.zst");
    std::fs::write(&file, archive.pack("cvo-1").unwrap()).unwrap();
    (dir, file)
}

#[test]
fn what_was_written_is_read_again() {
    let (_dir, file) = written(&archive());
    let (state, at) = State::recorded(&file).unwrap();
    assert_eq!(at, about(1).collected);
    assert_eq!(state.remarks, ["nodes cannot be read"]);
    assert_eq!(state.cluster_version.unwrap().metadata.name.as_deref(), Some("version"));
    assert_eq!(state.progress.unwrap().rollout.total, 7);
}

#[test]
fn operators_that_could_not_be_read_are_not_taken_for_none() {
    let mut archive = archive();
    assert!(matches!(State::of_archive(&archive).unwrap().0.operators, Operators::Failed(_)));
    archive.put(Archive::OPERATORS, &json!([])).unwrap();
    assert!(matches!(State::of_archive(&archive).unwrap().0.operators, Operators::Value(all) if all.is_empty()));
}

#[test]
fn installed_operators_are_shown_if_they_are_in_the_file() {
    let mut archive = archive();
    assert!(
        matches!(State::of_archive(&archive).unwrap().0.installed, crate::object::read::Read::Absent),
        "an older program has not read them"
    );
    let version = json!({"metadata": {"name": "a.v1", "namespace": "n"}, "spec": {}, "status": {"phase": "Succeeded"}});
    archive.put("operators/clusterserviceversions.json", &json!([version])).unwrap();
    let (state, now) = State::of_archive(&archive).unwrap();
    let told = crate::cli::status::View::of(&state, now).installed_operators.unwrap();
    assert_eq!((told.installed, told.well), (1, 1));
}

#[test]
fn cluster_without_a_cluster_version_is_read_again() {
    let pool = json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "worker"}, "spec": {}});
    let without = |version: Option<&serde_json::Value>| {
        let mut archive = Archive::new(&about(1)).unwrap();
        archive.put(Archive::POOLS, &json!([pool])).unwrap();
        if let Some(version) = version {
            archive.put(Archive::VERSION, version).unwrap();
        }
        State::of_archive(&archive).unwrap().0
    };
    for state in [without(None), without(Some(&serde_json::Value::Null))] {
        assert_eq!((state.cluster_version.is_none(), state.pools.len()), (true, 1));
    }
}

#[test]
fn other_files_are_refused_with_what_is_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("record");
    let error = |file: &Path| crate::error::chain(State::recorded(file).unwrap_err().as_ref());
    assert!(error(&file).contains("cannot open"), "{}", error(&file));
    std::fs::write(&file, "something else").unwrap();
    assert!(error(&file).contains("is it a file that `cvo collect` has written?"), "{}", error(&file));
    let whole = archive().pack("cvo-1").unwrap();
    std::fs::write(&file, &whole[..whole.len() / 2]).unwrap();
    assert!(error(&file).contains("cannot read"), "{}", error(&file));
    let mut newer = archive();
    newer.put(Archive::ABOUT, &about(2)).unwrap();
    assert!(error(&written(&newer).1).contains("cannot"), "{}", error(&file));
    let mut broken = archive();
    broken.files.insert(Archive::VERSION.into(), b"{\"metadata\": 7}".to_vec());
    let (_dir, file) = written(&broken);
    assert!(error(&file).contains("cluster-version.json"), "{}", error(&file));
    let (_dir, file) = written(&Archive::new(&about(1)).unwrap());
    assert!(error(&file).contains("neither a ClusterVersion nor pools"), "{}", error(&file));
}

#[test]
fn schema_that_is_not_known_is_named() {
    let mut newer = archive();
    newer.put(Archive::ABOUT, &about(2)).unwrap();
    let error = State::of_archive(&newer).unwrap_err().to_string();
    assert_eq!(error, "it has schema 2, but this cvo reads only schema 1: use the cvo that wrote it");
}
