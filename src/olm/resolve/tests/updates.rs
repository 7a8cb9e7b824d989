//! What a Subscription installs by itself, and what it goes on to.

use super::*;

#[test]
fn subscription_without_a_channel_takes_the_default_one() {
    let any = Subscription { channel: String::new(), ..subscription("a") };
    installs(&world(&[bundle("a.v1")], &[], std::slice::from_ref(&any)), &["a.v1"]);
    let bundles = [bundle("a.v1").channels(&["m"]), bundle("a.v2").channels(&["a"]), bundle("a.v3").channels(&["z"])];
    installs(&world(&bundles, &[], &[any]), &["a.v1"]);
}

#[test]
fn update_replaces_what_is_installed() {
    let bundles = [bundle("a.v1"), bundle("a.v2").replaces("a.v1")];
    let world = world(&bundles, &[bundle("a.v1")], &[following("a", "a.v1")]);
    installs(&world, &["a.v2"]);
    let resolution = resolve(&world, &Limits::default());
    let Verdict::Install(candidates) = &resolution.parts[0].verdict else { panic!("{resolution:?}") };
    assert_eq!(candidates[0].entry.replaces.as_deref(), Some("a.v1"));
}

#[test]
fn updates_go_one_by_one_to_the_head() {
    let bundles =
        [bundle("a.v0.1.1"), bundle("a.v0.1.2").replaces("a.v0.1.1"), bundle("a.v0.1.3").replaces("a.v0.1.2")];
    for (at, expected) in [("a.v0.1.1", &["a.v0.1.2"][..]), ("a.v0.1.2", &["a.v0.1.3"]), ("a.v0.1.3", &[])] {
        installs(&world(&bundles, &[bundle(at)], &[following("a", at)]), expected);
    }
}

#[test]
fn operator_of_another_package_is_followed_by_what_replaces_it() {
    let bundles = [bundle("b.v2").replaces("a.v1")];
    installs(&world(&bundles, &[bundle("a.v1")], &[following("b", "a.v1")]), &["b.v2"]);
}

#[test]
fn what_was_installed_and_is_gone_is_installed_again() {
    installs(&world(&[bundle("a.v1")], &[], &[following("a", "a.v1")]), &["a.v1"]);
}

#[test]
fn skip_range_leads_over_versions_that_do_not_exist() {
    let bundles = [bundle("a.v3").replaces("a.v2").range("<1.0.0")];
    let installed = bundle("a.v1").version("0.0.0");
    let world = world(&bundles, &[installed], &[following("a", "a.v1")]);
    installs(&world, &["a.v3"]);
    let resolution = resolve(&world, &Limits::default());
    let Verdict::Install(candidates) = &resolution.parts[0].verdict else { panic!("{resolution:?}") };
    assert_eq!(candidates[0].entry.replaces.as_deref(), Some("a.v1"), "the real predecessor");
}

#[test]
fn skip_range_of_an_entry_that_is_no_head_counts_too() {
    let bundles = [
        bundle("a.v2").range("<1.0.0"),
        bundle("a.v3").replaces("a.v2").range("<1.0.0"),
        bundle("a.v4").replaces("a.v3").range(">=1.0.0 <4.0.0"),
    ];
    let installed = bundle("a.v1").version("0.0.0");
    installs(&world(&bundles, &[installed], &[following("a", "a.v1")]), &["a.v3"]);
}

#[test]
fn starting_version_is_installed_and_no_other() {
    let bundles = [bundle("a.v1"), bundle("a.v2").replaces("a.v1"), bundle("a.v3").replaces("a.v2")];
    let starting = Subscription { starting_csv: "a.v2".to_owned(), ..subscription("a") };
    let world = world(&bundles, &[], &[starting]);
    installs(&world, &["a.v2"]);
    let resolution = resolve(&world, &Limits::default());
    let Verdict::Install(candidates) = &resolution.parts[0].verdict else { panic!("{resolution:?}") };
    assert_eq!(candidates[0].entry.replaces.as_deref(), Some("a.v1"), "as the catalog has it");
}

#[test]
fn first_version_keeps_what_its_catalog_says_that_it_replaces() {
    let bundles = [bundle("a.v1"), bundle("a.v2").replaces("a.v1"), bundle("a.v3").replaces("a.v2")];
    let world = world(&bundles, &[], &[subscription("a")]);
    installs(&world, &["a.v3"]);
    let resolution = resolve(&world, &Limits::default());
    let Verdict::Install(candidates) = &resolution.parts[0].verdict else { panic!("{resolution:?}") };
    assert_eq!(candidates[0].entry.replaces.as_deref(), Some("a.v2"));
}

#[test]
fn starting_version_does_not_count_once_something_is_installed() {
    let bundles = [bundle("a.v1"), bundle("a.v2").replaces("a.v1"), bundle("a.v3").replaces("a.v2")];
    let starting = Subscription { starting_csv: "a.v1".to_owned(), ..following("a", "a.v2") };
    installs(&world(&bundles, &[bundle("a.v2")], &[starting]), &["a.v3"]);
}

#[test]
fn highest_in_the_chain_of_those_that_skip_is_taken() {
    let bundles = [bundle("a.v1"), bundle("a.v2").skips(&["a.v1"]), bundle("a.v3").replaces("a.v2").skips(&["a.v1"])];
    installs(&world(&bundles, &[bundle("a.v1")], &[following("a", "a.v1")]), &["a.v3"]);
}

#[test]
fn skipped_version_is_installed_only_by_its_name() {
    let bundles = [bundle("b.v1"), bundle("b.v2").skips(&["b.v1"])];
    installs(&world(&bundles, &[], &[subscription("b")]), &["b.v2"]);
    let starting = Subscription { starting_csv: "b.v1".to_owned(), ..subscription("b") };
    installs(&world(&bundles, &[], &[starting]), &["b.v1"]);
}

#[test]
fn skipped_version_is_never_installed_on_the_way() {
    let bundles = [
        bundle("etcdoperator.v0.9.0"),
        bundle("etcdoperator.v0.9.1").replaces("etcdoperator.v0.9.0"),
        bundle("etcdoperator.v0.9.2").replaces("etcdoperator.v0.9.0").skips(&["etcdoperator.v0.9.1"]),
    ];
    for at in ["etcdoperator.v0.9.0", "etcdoperator.v0.9.1"] {
        let subscription = following("etcdoperator", at);
        installs(&world(&bundles, &[bundle(at)], &[subscription]), &["etcdoperator.v0.9.2"]);
    }
    installs(&world(&bundles, &[], &[subscription("etcdoperator")]), &["etcdoperator.v0.9.2"]);
}

#[test]
fn range_leads_from_each_patch_to_the_last_one() {
    let head = bundle("elasticsearch-operator.v4.1.2").range(">=4.1.0 <4.1.2");
    for (at, expected) in [
        ("elasticsearch-operator.v4.1.0", &["elasticsearch-operator.v4.1.2"][..]),
        ("elasticsearch-operator.v4.1.1", &["elasticsearch-operator.v4.1.2"]),
        ("elasticsearch-operator.v4.0.9", &[]),
    ] {
        let subscription = following("elasticsearch-operator", at);
        installs(&world(std::slice::from_ref(&head), &[bundle(at)], &[subscription]), expected);
    }
}

#[test]
fn patches_that_exist_by_name_only_lead_on() {
    let skipped = ["a.v1.0.1", "a.v1.0.2"];
    let bundles = [bundle("a.v1.0.0"), bundle("a.v1.0.3").replaces("a.v1.0.0").skips(&skipped)];
    for at in ["a.v1.0.0", "a.v1.0.1", "a.v1.0.2"] {
        installs(&world(&bundles, &[bundle(at)], &[following("a", at)]), &["a.v1.0.3"]);
    }
}

#[test]
fn deprecated_entry_does_not_keep_the_head_from_being_installed() {
    let bundles = [
        bundle("a.v1"),
        bundle("a.v2").replaces("a.v1").with("olm.deprecated", json!({})),
        bundle("a.v3").replaces("a.v2"),
    ];
    installs(&world(&bundles, &[], &[subscription("a")]), &["a.v3"]);
    let only = [bundle("a.v1").with("olm.deprecated", json!({}))];
    fails(&world(&only, &[], &[subscription("a")]), &["bundle main/ns/stable/a.v1 is deprecated"]);
    fails(&world(&[], &only, &[following("a", "a.v1")]), &["no operators found from catalog"]);
}

#[test]
fn package_has_a_version_for_each_channel() {
    let bundles = [
        bundle("example.v0.1.2").channels(&["alpha"]),
        bundle("example.v0.1.3").channels(&["beta"]).replaces("example.v0.1.2"),
    ];
    for (channel, expected) in [("alpha", "example.v0.1.2"), ("beta", "example.v0.1.3"), ("", "example.v0.1.2")] {
        let subscription = Subscription { channel: channel.to_owned(), ..subscription("example") };
        installs(&world(&bundles, &[], &[subscription]), &[expected]);
    }
}

#[test]
fn order_of_the_input_does_not_matter() {
    let bundles = [bundle("a.v1").requires("K"), bundle("b.v1").provides("K"), bundle("c.v1").provides("K")];
    let subscriptions = [subscription("a"), Subscription { channel: String::new(), ..subscription("b") }];
    let catalogs = || vec![catalog("main", 0, &bundles), catalog("x", 0, &bundles), catalog("global/y", 0, &bundles)];
    let one = World {
        namespace: "ns".to_owned(),
        catalogs: catalogs(),
        subscriptions: subscriptions.to_vec(),
        ..World::default()
    };
    let mut other = World { namespace: "ns".to_owned(), catalogs: catalogs(), ..World::default() };
    other.catalogs.reverse();
    other.subscriptions = subscriptions.iter().rev().cloned().collect();
    assert_eq!(answer(&one), answer(&other));
    installs(&one, &["a.v1", "b.v1"]);
}
