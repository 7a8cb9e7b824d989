use super::*;
use crate::machine_config::work::controller::followed::View;
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

/// A pool that has `before`, and is to have what removes a disk of it.
fn refusing(renderings: &mut Renderings, name: &str) -> Arc<MachineConfigPool> {
    let mut pool = pool();
    pool.metadata.name = Some(name.to_owned());
    pool.spec.configuration.name = "before".to_owned();
    let configs = Configs::from([("10-a".to_owned(), view(config("10-a")))]);
    renderings.update(&pool, &configs, &Defaults::default());
    renderings.pools.get_mut(name).unwrap().since -= REST;
    renderings.update(&pool, &configs, &Defaults::default());
    Arc::new(pool)
}

/// A server that has the MachineConfig `before`, and tells of each request.
fn server() -> (Objects, Arc<Mutex<usize>>) {
    let (service, mut requests) =
        tower_test::mock::pair::<http::Request<kube::client::Body>, http::Response<kube::client::Body>>();
    let asked: Arc<Mutex<usize>> = Arc::default();
    let told = asked.clone();
    tokio::spawn(async move {
        while let Some((_, respond)) = requests.next_request().await {
            *told.lock().unwrap() += 1;
            let mut before = config("before");
            before["spec"]["config"]["storage"] = json!({"disks": [{"device": "/dev/sdb", "wipeTable": true}]});
            let body = kube::client::Body::from(before.to_string().into_bytes());
            respond.send_response(http::Response::new(body));
        }
    });
    (Objects::new(kube::Client::new(service, "default"), "tests", Arc::new(|| true)), asked)
}

/// One bad MachineConfig for all pools is the usual case.
#[tokio::test]
async fn pools_that_are_refused_at_once_do_not_push_each_other_out() {
    let (objects, asked) = server();
    let mut renderings = Renderings::default();
    let pools = ["master", "worker"].map(|name| refusing(&mut renderings, name));
    for _ in 0..3 {
        for pool in &pools {
            if let Some(publishing) = renderings.publishing(pool, &Configs::new()) {
                let pools: Arc<Followed<PoolView>> = Followed::with([]);
                publishing.run(objects.clone(), Followed::with([]), pools).await.unwrap();
            }
            renderings.set_overrides(Overrides::Known(BTreeSet::new()));
        }
    }
    assert_eq!(*asked.lock().unwrap(), 2, "each is looked at once");
    for pool in &pools {
        let error = renderings.error(pool).unwrap();
        assert!(error.contains("storage.disks[/dev/sdb]"), "{error}");
    }
    // While newer inputs come to rest the refusal stays known.
    let views = |pools: &[Arc<MachineConfigPool>]| -> BTreeMap<String, Arc<PoolView>> {
        pools.iter().map(|pool| (pool.metadata.name.clone().unwrap(), Arc::new(PoolView(pool.clone())))).collect()
    };
    let mut touched = config("10-a");
    touched["metadata"]["resourceVersion"] = json!("9");
    touched["spec"]["kernelArguments"] = json!(["quiet"]);
    renderings.update(&pools[1], &Configs::from([("10-a".to_owned(), view(touched))]), &Defaults::default());
    renderings.retain(&views(&pools));
    assert!(renderings.output("worker").is_none() && renderings.error(&pools[1]).is_some());
    // One of them goes.
    let left: BTreeMap<String, Arc<PoolView>> = [("worker".to_owned(), Arc::new(PoolView(pools[1].clone())))].into();
    renderings.retain(&left);
    assert_eq!((renderings.pools.len(), renderings.refused.lock().unwrap().len()), (1, 1));
    // The other one is given something else.
    let mut changed = (*pools[1]).clone();
    changed.spec.configuration.name = "other".to_owned();
    renderings.retain(&[("worker".to_owned(), Arc::new(PoolView(Arc::new(changed))))].into());
    assert!(renderings.refused.lock().unwrap().is_empty() && !renderings.depends_on_overrides());
}

#[tokio::test]
async fn an_exception_that_an_administrator_makes_lets_the_pool_have_what_was_refused() {
    let (objects, asked) = server();
    let mut renderings = Renderings::default();
    let pool = refusing(&mut renderings, "worker");
    let publishing = renderings.publishing(&pool, &Configs::new()).unwrap();
    assert!(!renderings.depends_on_overrides(), "nothing is followed before anything is refused");
    publishing.run(objects.clone(), Followed::with([]), Followed::with([])).await.unwrap();
    assert!(renderings.depends_on_overrides());
    assert!(renderings.publishing(&pool, &Configs::new()).is_none(), "it is not known yet");
    renderings.set_overrides(Overrides::Unknown(Some("forbidden".to_owned())));
    let error = renderings.error(&pool).unwrap();
    assert!(error.contains("allow it with Disks") && error.ends_with("cannot be read: forbidden"), "{error}");
    let known = |overrides: &[StorageOverride]| Overrides::Known(overrides.iter().copied().collect());
    renderings.set_overrides(known(&[StorageOverride::Raid]));
    assert!(renderings.error(&pool).is_some() && renderings.publishing(&pool, &Configs::new()).is_none());
    renderings.set_overrides(known(&[StorageOverride::Disks]));
    assert_eq!(renderings.error(&pool), None);
    assert!(renderings.publishing(&pool, &Configs::new()).unwrap().exempted);
    assert_eq!(*asked.lock().unwrap(), 1);
}

/// The inputs have rested.
fn rest(renderings: &mut Renderings) {
    let rendering = renderings.pools.get_mut("worker").unwrap();
    rendering.since -= REST;
}

#[test]
fn a_touch_that_changes_nothing_that_is_rendered_makes_nobody_wait() {
    let touched = |annotation: &str, label: &str, version: &str| {
        let mut config = config("10-a");
        config["metadata"]["annotations"] = json!({"touched": annotation});
        config["metadata"]["labels"]["more"] = json!(label);
        config["metadata"]["resourceVersion"] = json!(version);
        Configs::from([("10-a".to_owned(), view(config))])
    };
    let (mut renderings, pool, defaults) = (Renderings::default(), pool(), Defaults::default());
    renderings.update(&pool, &touched("a", "a", "1"), &defaults);
    rest(&mut renderings);
    renderings.update(&pool, &touched("a", "a", "1"), &defaults);
    assert!(renderings.output("worker").is_some());
    assert_eq!(renderings.update(&pool, &touched("b", "a", "2"), &defaults), None);
    assert!(renderings.output("worker").is_some());
    assert!(renderings.update(&pool, &touched("b", "b", "3"), &defaults).is_some(), "labels may count");
}

#[test]
fn a_bad_input_is_told_until_there_is_another_outcome() {
    let with = |version: &str, revision: &str| {
        let mut config = config("10-a");
        config["metadata"]["resourceVersion"] = json!(revision);
        config["spec"]["config"]["ignition"]["version"] = json!(version);
        Configs::from([("10-a".to_owned(), view(config))])
    };
    let (mut renderings, pool, defaults) = (Renderings::default(), pool(), Defaults::default());
    renderings.update(&pool, &with("9.9.9", "1"), &defaults);
    assert_eq!(renderings.error(&pool), None);
    rest(&mut renderings);
    renderings.update(&pool, &with("9.9.9", "1"), &defaults);
    let error = renderings.error(&pool).unwrap();
    renderings.update(&pool, &with("9.9.8", "2"), &defaults);
    assert_eq!(renderings.error(&pool), Some(error), "nothing is known of the next inputs");
    renderings.update(&pool, &with("3.5.0", "3"), &defaults);
    rest(&mut renderings);
    renderings.update(&pool, &with("3.5.0", "3"), &defaults);
    assert_eq!(renderings.error(&pool), None);
    assert!(renderings.output("worker").is_some());
}

#[test]
fn inputs_that_never_rest_are_rendered_nevertheless() {
    let with = |number: u32| {
        let mut config = config("10-a");
        config["metadata"]["resourceVersion"] = json!(number.to_string());
        config["spec"]["kernelArguments"] = json!([format!("number={number}")]);
        Configs::from([("10-a".to_owned(), view(config))])
    };
    let (mut renderings, pool, defaults) = (Renderings::default(), pool(), Defaults::default());
    for number in 0..10 {
        assert!(renderings.update(&pool, &with(number), &defaults).is_some());
        // 900 ms later.
        let rendering = renderings.pools.get_mut("worker").unwrap();
        rendering.since -= Duration::from_millis(900);
        rendering.outdated = rendering.outdated.map(|outdated| outdated - Duration::from_millis(900));
    }
    assert!(renderings.output("worker").is_none());
    let rendering = renderings.pools.get_mut("worker").unwrap();
    rendering.outdated = rendering.outdated.map(|outdated| outdated - Duration::from_secs(1));
    assert_eq!(renderings.update(&pool, &with(10), &defaults), None);
    assert!(renderings.output("worker").is_some());
}
