//! What is installed beside, since others need it.

use super::*;

fn global(catalogs: Vec<Catalog>, subscriptions: &[Subscription]) -> World {
    World { namespace: "ns".to_owned(), catalogs, subscriptions: subscriptions.to_vec(), ..World::default() }
}

#[test]
fn provider_of_a_required_api_is_installed() {
    let bundles = [bundle("a.v1").requires("K"), bundle("b.v1").provides("K")];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "b.v1"]);
    let own = [bundle("a.v1").requires("K").provides("K")];
    installs(&world(&own, &[], &[subscription("a")]), &["a.v1"]);
}

#[test]
fn update_brings_what_only_the_new_version_needs() {
    let bundles = [bundle("a.v1"), bundle("a.v2").replaces("a.v1").requires("K"), bundle("b.v1").provides("K")];
    installs(&world(&bundles, &[bundle("a.v1")], &[following("a", "a.v1")]), &["a.v2", "b.v1"]);
}

#[test]
fn operators_that_need_each_other_move_together() {
    let bundles = [
        bundle("a.v1").provides("A").requires("B"),
        bundle("a.v2").replaces("a.v1").provides("A2").requires("B2"),
        bundle("b.v1").provides("B").requires("A"),
        bundle("b.v2").replaces("b.v1").provides("B2").requires("A2"),
    ];
    let subscriptions = [following("a", "a.v1"), following("b", "b.v1")];
    installs(&world(&bundles, &[bundles[0].clone(), bundles[2].clone()], &subscriptions), &["a.v2", "b.v2"]);
}

#[test]
fn api_moves_from_one_operator_to_another() {
    let bundles = [
        bundle("a.v1").provides("K"),
        bundle("a.v2").replaces("a.v1"),
        bundle("b.v1"),
        bundle("b.v2").replaces("b.v1").provides("K"),
    ];
    let subscriptions = [following("a", "a.v1"), following("b", "b.v1")];
    installs(&world(&bundles, &[bundles[0].clone(), bundles[2].clone()], &subscriptions), &["a.v2", "b.v2"]);
}

#[test]
fn version_with_the_required_api_is_taken_although_it_is_no_head() {
    let bundles = [bundle("a.v1").provides("K"), bundle("a.v2").replaces("a.v1"), bundle("b.v1").requires("K")];
    installs(&world(&bundles, &[], &[subscription("b")]), &["a.v1", "b.v1"]);
}

#[test]
fn update_that_drops_an_api_which_others_need_is_not_offered() {
    let bundles = [bundle("a.v1").provides("K"), bundle("a.v2").replaces("a.v1"), bundle("b.v1").requires("K")];
    let subscriptions = [following("a", "a.v1"), following("b", "b.v1")];
    installs(&world(&bundles, &[bundles[0].clone(), bundles[2].clone()], &subscriptions), &[]);
}

/// Nothing but the update itself says that both cannot be: the one that is installed names no package and provides no API.
#[test]
fn update_does_not_stand_beside_the_version_that_it_replaces() {
    let nameless =
        Arc::new(Operator::new("a.v1", vec![("olm.label".to_owned(), json!({"label": "old"}))], &versions()));
    let needs_old = bundle("b.v1").with("olm.label.required", json!({"label": "old"}));
    let bundles = [bundle("a.v2").replaces("a.v1"), needs_old];
    let beside = |subscriptions: &[Subscription]| World {
        installed: vec![nameless.clone()],
        ..world(&bundles, &[], subscriptions)
    };
    installs(&beside(&[following("a", "a.v1")]), &["a.v2"]);
    installs(&beside(&[following("a", "a.v1"), subscription("b")]), &["b.v1"]);
}

#[test]
fn own_catalog_comes_before_a_higher_priority() {
    let catalogs = vec![
        catalog("main", 0, &[bundle("a.v1").requires("K"), bundle("b.v1").provides("K")]),
        catalog("other", 100, &[bundle("b.v2").provides("K")]),
    ];
    installs(&global(catalogs, &[subscription("a")]), &["a.v1", "b.v1"]);
}

#[test]
fn priority_namespace_and_name_of_catalogs_decide_in_this_order() {
    let main = || catalog("main", 0, &[bundle("a.v1").requires("K")]);
    let with = |name: &str, priority: i64, version: &str| catalog(name, priority, &[bundle(version).provides("K")]);
    for (catalogs, expected) in [
        (vec![main(), with("global/x", 100, "b.v1"), with("x", 50, "b.v2")], "b.v1"),
        (vec![main(), with("global/x", 50, "b.v1"), with("x", 50, "b.v2")], "b.v2"),
        (vec![main(), with("y", 50, "b.v1"), with("x", 50, "b.v2")], "b.v2"),
        (vec![main(), with("y", -1, "b.v1"), with("global/x", -400, "b.v2")], "b.v1"),
    ] {
        installs(&global(catalogs, &[subscription("a")]), &["a.v1", expected]);
    }
}

#[test]
fn default_channel_comes_first_and_then_the_others_by_name() {
    let provider = |version: &str, channel: &str| bundle(version).channels(&[channel]).provides("K");
    let user = bundle("a.v1").requires("K");
    let bundles = [provider("b.v1", "m"), provider("b.v2", "a"), provider("b.v3", "z"), user.clone()];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "b.v1"]);
    let bundles = [bundle("b.v1").channels(&["m"]), provider("b.v2", "z"), provider("b.v3", "b"), user];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "b.v3"]);
}

#[test]
fn one_operator_has_to_meet_all_that_stands_together() {
    let all = json!({"all": {"constraints": [
        {"package": {"packageName": "x", "versionRange": ">=1.0.0"}}, {"gvk": gvk("K")}]}});
    let bundles = [
        bundle("a.v1").constraint(all),
        bundle("x.v0.9").provides("K"),
        bundle("x.v1").replaces("x.v0.9").provides("K"),
        bundle("x.v2").replaces("x.v1"),
    ];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "x.v1"]);
}

#[test]
fn any_of_several_versions_is_met_by_the_most_preferred() {
    let version = |version: &str| json!({"package": {"packageName": "x", "versionRange": version}});
    let any = json!({"any": {"constraints": [version("1.0.0"), version("2.0.0"), version("3.0.0")]}});
    let bundles = [
        bundle("a.v1").constraint(any),
        bundle("x.v1"),
        bundle("x.v2").replaces("x.v1"),
        bundle("x.v3").replaces("x.v2"),
        bundle("x.v4").replaces("x.v3"),
    ];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "x.v3"]);
}

#[test]
fn excluded_candidate_is_not_chosen() {
    let all = json!({"all": {"constraints": [{"gvk": gvk("K")},
        {"not": {"constraints": [{"package": {"packageName": "x", "versionRange": "1.2.1"}}]}}]}});
    let bundles = [
        bundle("a.v1").constraint(all),
        bundle("x.v1.2.0").provides("K"),
        bundle("x.v1.2.1").replaces("x.v1.2.0").provides("K"),
    ];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "x.v1.2.0"]);
}

#[test]
fn two_dependencies_may_be_met_by_two_operators() {
    let bundles = [
        bundle("a.v1").requires_package("etcd", ">3.1.0").requires("EtcdCluster"),
        bundle("etcd.v3.2"),
        bundle("other.v1").provides("EtcdCluster"),
    ];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "etcd.v3.2", "other.v1"]);
}

#[test]
fn rules_and_labels_choose_among_all_bundles() {
    let rule = "properties.exists(p, p.type == \"certified\") && properties.exists(p, p.type == \"stable\")";
    let bundles = [
        bundle("a.v1").constraint(json!({"cel": {"rule": rule}})).with("olm.label.required", json!({"label": "fast"})),
        bundle("b.v1").with("certified", json!(true)),
        bundle("c.v1").with("certified", json!(true)).with("stable", json!(true)),
        bundle("d.v1").with("olm.label", json!({"label": "fast"})),
    ];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "c.v1", "d.v1"]);
}

#[test]
fn range_excludes_single_versions() {
    let bundles = [
        bundle("a.v1").requires_package("x", "> 1.0.0 !1.2.1"),
        bundle("x.v1.2.0"),
        bundle("x.v1.2.1").replaces("x.v1.2.0"),
    ];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v1", "x.v1.2.0"]);
}

#[test]
fn candidate_with_a_constraint_that_cannot_be_read_is_passed_over() {
    let strange = bundle("a.v2").replaces("a.v1").constraint(json!({"labels": {}}));
    installs(&world(&[bundle("a.v1"), strange.clone()], &[], &[subscription("a")]), &["a.v1"]);
    fails(&world(&[strange], &[], &[subscription("a")]), &["parse olm.constraint", "value.labels: unknown key"]);
}

#[test]
fn operator_without_a_subscription_meets_dependencies_and_keeps_rivals_out() {
    let installed = [bundle("k.v1").provides("K")];
    let bundles = [bundle("a.v1").requires("K"), bundle("b.v1").provides("K")];
    installs(&world(&bundles, &installed, &[subscription("a")]), &["a.v1"]);
    let texts = ["clusterserviceversion k.v1 exists and is not referenced by a subscription", "provide K (g/v1)"];
    fails(&world(&bundles, &installed, &[subscription("b")]), &texts);
}

#[test]
fn what_is_installed_meets_a_dependency_before_any_catalog() {
    let bundles =
        [bundle("a.v1").requires("K"), bundle("b.v1").provides("K"), bundle("b.v2").replaces("b.v1").provides("K")];
    let subscriptions = [subscription("a"), following("c", "c.v1")];
    let installed = [bundle("c.v1").provides("K")];
    let bundles = [&bundles[..], &[bundle("c.v1").provides("K")]].concat();
    installs(&world(&bundles, &installed, &subscriptions), &["a.v1"]);
}
