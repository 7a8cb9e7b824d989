use super::*;
use serde_json::Value;

fn view(object: Value) -> Arc<ConfigView> {
    Arc::new(ConfigView::of(serde_json::from_value(object).unwrap()))
}

fn at(milliseconds: i64) -> Timestamp {
    Timestamp::from_millisecond(milliseconds).unwrap()
}

/// Looks at the inputs until they have rested.
fn rendered(renderings: &mut Renderings, pool: &MachineConfigPool, configs: &Configs, now: i64) {
    let defaults = Defaults::default();
    renderings.update(pool, configs, &defaults, at(now));
    renderings.update(pool, configs, &defaults, at(now + 1000));
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

fn publishing(renderings: &Renderings, pool: &MachineConfigPool, configs: &Configs) -> Option<Action> {
    renderings.publishing(pool, configs, &Overrides::Known(BTreeSet::new()))
}

#[test]
fn inputs_are_rendered_when_they_rest_and_a_deleted_output_is_made_again() {
    let mut configs = Configs::from([("10-a".to_owned(), view(config("10-a")))]);
    let (mut renderings, mut pool, defaults) = (Renderings::default(), pool(), Defaults::default());
    let others_may_follow = Updated::Rests { until: at(1000) };
    assert_eq!(renderings.update(&pool, &configs, &defaults, at(0)), others_may_follow);
    assert_eq!(renderings.update(&pool, &configs, &defaults, at(999)), others_may_follow);
    assert!(publishing(&renderings, &pool, &configs).is_none());
    let updated = renderings.update(&pool, &configs, &defaults, at(1000));
    let Updated::Rendered { config: name, warnings } = updated else { panic!("{updated:?}") };
    assert_eq!(warnings, [""; 0]);
    let Some(Action::Publish { pool: of, config: Some(RenderedConfig::Create(created)), patch: Some(patch) }) =
        publishing(&renderings, &pool, &configs)
    else {
        panic!("{:?}", publishing(&renderings, &pool, &configs))
    };
    assert_eq!((of.as_str(), &patch["spec"]["configuration"]["name"]), ("worker", &json!(name)));
    assert_eq!(patch["metadata"]["resourceVersion"], "1");
    let owner = &created.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.name.as_str(), owner.uid.as_str(), owner.controller), ("worker", "u", Some(true)));

    // It is there, and the pool names it.
    configs.insert(name.clone(), view(json!(created)));
    pool.spec.configuration = serde_json::from_value(patch["spec"]["configuration"].clone()).unwrap();
    assert!(publishing(&renderings, &pool, &configs).is_none());

    // Somebody deletes it.
    configs.remove(&name);
    let again = publishing(&renderings, &pool, &configs).unwrap();
    let Action::Publish { config: Some(RenderedConfig::Create(again)), patch: None, .. } = again else {
        panic!("{again:?}")
    };
    assert_eq!(again.metadata.name, Some(name));
}

#[test]
fn a_change_of_the_inputs_makes_them_rest_anew() {
    let mut configs = Configs::from([("10-a".to_owned(), view(config("10-a")))]);
    let (mut renderings, pool) = (Renderings::default(), pool());
    rendered(&mut renderings, &pool, &configs, 0);
    let before = renderings.output("worker").unwrap().rendered.name.clone();
    configs.insert("20-b".to_owned(), view(config("20-b")));
    let rests = renderings.update(&pool, &configs, &Defaults::default(), at(2000));
    assert_eq!(rests, Updated::Rests { until: at(3000) });
    assert!(renderings.output("worker").is_none(), "what {before} was made of is not what is wanted");
}

#[test]
fn a_clock_that_was_set_back_makes_inputs_rest_no_longer() {
    let configs = Configs::from([("10-a".to_owned(), view(config("10-a")))]);
    let (mut renderings, pool, defaults) = (Renderings::default(), pool(), Defaults::default());
    renderings.update(&pool, &configs, &defaults, at(3_600_000));
    let rests = renderings.update(&pool, &configs, &defaults, at(0));
    assert_eq!(rests, Updated::Rests { until: at(1000) });
    assert!(matches!(renderings.update(&pool, &configs, &defaults, at(1000)), Updated::Rendered { .. }));
}

/// A pool that has `before`, and is to have what removes a disk of it.
fn refusing(renderings: &mut Renderings, name: &str) -> MachineConfigPool {
    let mut pool = pool();
    pool.metadata.name = Some(name.to_owned());
    pool.spec.configuration.name = "before".to_owned();
    rendered(renderings, &pool, &Configs::from([("10-a".to_owned(), view(config("10-a")))]), 0);
    pool
}

/// These pools, and for some of them the content of the MachineConfig `before`.
fn seen<'a>(
    pools: impl IntoIterator<Item = &'a MachineConfigPool>,
    contents: impl IntoIterator<Item = String>,
) -> Seen {
    let mut before = config("before");
    before["spec"]["config"]["storage"] = json!({"disks": [{"device": "/dev/sdb", "wipeTable": true}]});
    let config: MachineConfig = serde_json::from_value(before).unwrap();
    let content = Content { name: "before".to_owned(), config: Some(Arc::new(config)) };
    let view = |pool: &MachineConfigPool| (pool.metadata.name.clone().unwrap(), Arc::new(PoolView::of(pool.clone())));
    Seen {
        pools: pools.into_iter().map(view).collect(),
        contents: contents.into_iter().map(|pool| (pool, content.clone())).collect(),
        ..Seen::default()
    }
}

/// One bad MachineConfig for all pools is the usual case.
#[test]
fn pools_that_are_refused_at_once_do_not_push_each_other_out() {
    let mut renderings = Renderings::default();
    let mut pools = ["master", "worker"].map(|name| refusing(&mut renderings, name));
    let mut asked = Vec::new();
    for _ in 0..3 {
        for pool in &pools {
            match publishing(&renderings, pool, &Configs::new()) {
                Some(Action::ReadConfig { pool, name }) if name == "before" => asked.push(pool),
                other => assert!(other.is_none(), "{other:?}"),
            }
        }
        renderings.take_in(&seen(&pools, asked.clone()));
    }
    assert_eq!(asked, ["master", "worker"], "each is looked at once");
    let none = Overrides::Known(BTreeSet::new());
    for pool in &pools {
        let error = renderings.error(pool, &none).unwrap();
        assert!(error.contains("storage.disks[/dev/sdb]"), "{error}");
    }
    // While newer inputs come to rest the refusal stays known.
    let mut touched = config("10-a");
    touched["metadata"]["resourceVersion"] = json!("9");
    touched["spec"]["kernelArguments"] = json!(["quiet"]);
    let touched = Configs::from([("10-a".to_owned(), view(touched))]);
    renderings.update(&pools[1], &touched, &Defaults::default(), at(2000));
    renderings.take_in(&seen(&pools, []));
    assert!(renderings.output("worker").is_none() && renderings.error(&pools[1], &none).is_some());
    // One of them goes.
    renderings.take_in(&seen(&pools[1..], []));
    assert_eq!((renderings.pools.len(), renderings.compared.len()), (1, 1));
    // The other one is given something else.
    pools[1].spec.configuration.name = "other".to_owned();
    renderings.take_in(&seen(&pools[1..], []));
    assert!(renderings.compared.is_empty() && !renderings.depend_on_overrides());
}

#[test]
fn an_exception_that_an_administrator_makes_lets_the_pool_have_what_was_refused() {
    let mut renderings = Renderings::default();
    let pool = refusing(&mut renderings, "worker");
    assert!(!renderings.depend_on_overrides(), "nothing is followed before anything is refused");
    renderings.take_in(&seen([&pool], ["worker".to_owned()]));
    assert!(renderings.depend_on_overrides());
    let publishing = |overrides: &Overrides| renderings.publishing(&pool, &Configs::new(), overrides);
    assert!(publishing(&Overrides::Unknown(None)).is_none(), "it is not known yet");
    let error = renderings.error(&pool, &Overrides::Unknown(Some("forbidden".to_owned()))).unwrap();
    assert!(error.contains("allow it with Disks") && error.ends_with("cannot be read: forbidden"), "{error}");
    let known = |overrides: &[StorageOverride]| Overrides::Known(overrides.iter().copied().collect());
    let other = known(&[StorageOverride::Raid]);
    assert!(renderings.error(&pool, &other).is_some() && publishing(&other).is_none());
    let disks = known(&[StorageOverride::Disks]);
    assert_eq!(renderings.error(&pool, &disks), None);
    assert!(matches!(publishing(&disks), Some(Action::Publish { patch: Some(_), .. })));
}

#[test]
fn what_a_pool_is_about_to_have_again_is_not_deleted() {
    let (mut renderings, pool) = (Renderings::default(), pool());
    let mut configs = Configs::from([("10-a".to_owned(), view(config("10-a")))]);
    rendered(&mut renderings, &pool, &configs, 0);
    let rendered = json!(owned_by(&pool, renderings.output("worker").unwrap().rendered.object()));
    // It is older than all others.
    for number in 0..=KEPT {
        let name = match number {
            0 => rendered["metadata"]["name"].as_str().unwrap().to_owned(),
            number => format!("rendered-worker-{number}"),
        };
        let mut config = rendered.clone();
        config["metadata"]["name"] = json!(name);
        config["metadata"]["creationTimestamp"] = json!(at(i64::try_from(number).unwrap() * 1000).to_string());
        configs.insert(name, view(config));
    }
    let unused = |renderings: &Renderings| {
        let pools = [("worker".to_owned(), Arc::new(PoolView::of(pool.clone())))].into();
        unused(&configs, &pools, &BTreeMap::new(), renderings).len()
    };
    assert_eq!((unused(&renderings), unused(&Renderings::default())), (0, 1));
}

#[test]
fn what_nodes_can_follow_is_published_after_one_look_at_what_they_have() {
    let mut renderings = Renderings::default();
    let pool = refusing(&mut renderings, "worker");
    let deleted = Content { name: "before".to_owned(), config: None };
    renderings.take_in(&Seen { contents: [("worker".to_owned(), deleted)].into(), ..seen([&pool], []) });
    for _ in 0..2 {
        // The first write may fail.
        let action = publishing(&renderings, &pool, &Configs::new());
        assert!(matches!(action, Some(Action::Publish { patch: Some(_), .. })), "{action:?}");
    }
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
    rendered(&mut renderings, &pool, &touched("a", "a", "1"), 0);
    assert!(renderings.output("worker").is_some());
    assert_eq!(renderings.update(&pool, &touched("b", "a", "2"), &defaults, at(2000)), Updated::Nothing);
    assert!(renderings.output("worker").is_some());
    let labelled = renderings.update(&pool, &touched("b", "b", "3"), &defaults, at(3000));
    assert_eq!(labelled, Updated::Rests { until: at(4000) }, "labels may count");
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
    let none = Overrides::default();
    renderings.update(&pool, &with("9.9.9", "1"), &defaults, at(0));
    assert_eq!(renderings.error(&pool, &none), None);
    renderings.update(&pool, &with("9.9.9", "1"), &defaults, at(1000));
    let error = renderings.error(&pool, &none).unwrap();
    renderings.update(&pool, &with("9.9.8", "2"), &defaults, at(2000));
    assert_eq!(renderings.error(&pool, &none), Some(error), "nothing is known of the next inputs");
    rendered(&mut renderings, &pool, &with("3.5.0", "3"), 3000);
    assert_eq!(renderings.error(&pool, &none), None);
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
        let rests = renderings.update(&pool, &with(number), &defaults, at(i64::from(number) * 999));
        assert!(matches!(rests, Updated::Rests { .. }), "{number}: {rests:?}");
    }
    assert!(renderings.output("worker").is_none());
    let updated = renderings.update(&pool, &with(10), &defaults, at(10_000));
    assert!(matches!(updated, Updated::Rendered { .. }), "{updated:?}");
    assert!(renderings.output("worker").is_some());
}
