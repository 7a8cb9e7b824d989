use super::*;
use crate::work::machine_config::followed::View;
use serde_json::Value;

fn view(object: Value) -> Arc<ConfigView> {
    Arc::new(ConfigView::of(serde_json::from_value(object).unwrap()))
}

fn config(name: &str) -> Value {
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": name, "resourceVersion": "1", "labels": {"role": "worker"}},
        "spec": {"config": {"ignition": {"version": "3.5.0"}}},
    })
}

fn pool() -> MachineConfigPool {
    serde_json::from_value(json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {"name": "worker", "uid": "u", "resourceVersion": "1"},
        "spec": {"machineConfigSelector": {"matchLabels": {"role": "worker"}}},
    }))
    .unwrap()
}

#[test]
fn inputs_are_rendered_when_they_rest_and_a_deleted_output_is_made_again() {
    let mut configs = Configs::from([("10-a".to_owned(), view(config("10-a")))]);
    let mut renderings = Renderings::default();
    let mut pool = pool();
    let defaults = Defaults::default();
    let rested = renderings.update(&pool, &configs, &defaults).unwrap();
    assert!(rested > Instant::now() && renderings.output("worker").is_none(), "others may be about to follow");
    renderings.pools.get_mut("worker").unwrap().since -= REST;
    assert_eq!(renderings.update(&pool, &configs, &defaults), None);
    let output = renderings.output("worker").unwrap();
    let publishing = renderings.publishing(&Arc::new(pool.clone()), &configs).unwrap();
    assert!(!publishing.exists && !publishing.configured);

    // It is there, and the pool names it.
    let name = output.rendered.name.clone();
    let mut rendered = json!(output.rendered.object());
    rendered["metadata"]["ownerReferences"] = json!([publishing.owner()]);
    configs.insert(name.clone(), view(rendered));
    pool.spec.configuration = publishing.configuration.clone();
    let pool = Arc::new(pool);
    assert!(renderings.publishing(&pool, &configs).is_none());

    // Somebody deletes it.
    configs.remove(&name);
    let again = renderings.publishing(&pool, &configs).unwrap();
    assert!(!again.exists && again.configured);
    assert_eq!(again.output.rendered.name, name);
}

#[test]
fn a_change_of_the_inputs_makes_them_rest_anew() {
    let mut configs = Configs::from([("10-a".to_owned(), view(config("10-a")))]);
    let (mut renderings, pool, defaults) = (Renderings::default(), pool(), Defaults::default());
    renderings.update(&pool, &configs, &defaults);
    renderings.pools.get_mut("worker").unwrap().since -= REST;
    renderings.update(&pool, &configs, &defaults);
    let before = renderings.output("worker").unwrap().rendered.name.clone();
    configs.insert("20-b".to_owned(), view(config("20-b")));
    assert!(renderings.update(&pool, &configs, &defaults).is_some());
    assert!(renderings.output("worker").is_none(), "what {before} was made of is not what is wanted");
}
