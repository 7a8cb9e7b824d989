use super::*;
use crate::object::manifest::Origin;
use crate::release::load::manifests_of;

fn manifests(files: &[(&str, &str, &str, &str)]) -> Vec<Arc<Manifest>> {
    let one = |(file, version, kind, name): &(&str, &str, &str, &str)| {
        let annotations = if *kind == "ClusterOperator" { json!({reported::ANNOTATION: "true"}) } else { json!({}) };
        let object =
            json!({"apiVersion": version, "kind": kind, "metadata": {"name": name, "annotations": annotations}});
        manifests_of(Origin::Release, file, object.to_string().as_bytes()).unwrap()
    };
    files.iter().flat_map(one).collect()
}

#[test]
fn workloads_are_those_of_the_component_at_any_level() {
    let release = manifests(&[
        ("0000_20_shop_40_web.yaml", "apps/v1", "Deployment", "web"),
        ("0000_20_shop_41_log.yaml", "apps/v1", "DaemonSet", "log"),
        ("0000_20_shop_42_db.yaml", "apps/v1", "StatefulSet", "db"),
        ("0000_20_shop_43_old.yaml", "apps/v1", "ReplicaSet", "old"),
        ("0000_20_other_40_web.yaml", "apps/v1", "Deployment", "other"),
        ("0000_60_shop_40_late.yaml", "apps/v1", "Deployment", "late"),
        ("0000_60_shop_90_operator.yaml", "config.openshift.io/v1", "ClusterOperator", "shop"),
    ]);
    let found = stand_ins(&release);
    let [found] = found.as_slice() else { panic!("{found:?}") };
    let names: Vec<&str> = found.workloads.iter().map(|it| it.id.name.as_str()).collect();
    assert_eq!((found.operator.id.name.as_str(), names), ("shop", vec!["web", "log", "db", "late"]));
}
