//! What administrators read where nothing can be installed.

use super::*;

#[test]
fn missing_api_is_explained() {
    let world = world(&[bundle("a.v1").requires("K")], &[], &[subscription("a")]);
    insta::assert_snapshot!(explained(&world), @r"
    1. Subscription sub-a asks for package a, channel stable of catalog ns/main.
    2. For it there is a.v1 (channel stable of main).
    3. a.v1 requires an operator providing an API with group: g, version: v1, kind: K; no catalog offers one: looked at ns/main.
    What would help, one of:
    - a catalog that offers an operator providing an API with group: g, version: v1, kind: K
    - change or delete Subscription sub-a
    ");
}

#[test]
fn skipped_provider_is_explained() {
    let bundles = [bundle("a.v1").requires("K"), bundle("b.v1").provides("K"), bundle("b.v3").skips(&["b.v1"])];
    insta::assert_snapshot!(explained(&world(&bundles, &[], &[subscription("a")])), @r"
    1. Subscription sub-a asks for package a, channel stable of catalog ns/main.
    2. For it there is a.v1 (channel stable of main).
    3. a.v1 requires an operator providing an API with group: g, version: v1, kind: K; no catalog offers one: ns/main has b.v1 in channel stable, but it is skipped by b.v3.
    What would help, one of:
    - a catalog that offers an operator providing an API with group: g, version: v1, kind: K
    - change or delete Subscription sub-a
    ");
}

#[test]
fn two_channels_of_a_package_are_explained() {
    let bundles = [bundle("a.v1").channels(&["one"]), bundle("a.v2").channels(&["two"])];
    let of = |channel: &str| Subscription {
        name: format!("sub-{channel}"),
        channel: channel.to_owned(),
        ..subscription("a")
    };
    insta::assert_snapshot!(explained(&world(&bundles, &[], &[of("one"), of("two")])), @r"
    1. Subscription sub-one asks for package a, channel one of catalog ns/main.
    2. For it there is a.v1 (channel one of main).
    3. Subscription sub-two asks for package a, channel two of catalog ns/main.
    4. For it there is a.v2 (channel two of main).
    5. Only one operator of package a can be: a.v1 (channel one of main), a.v2 (channel two of main).
    What would help, one of:
    - change or delete Subscription sub-one
    - change or delete Subscription sub-two
    ");
}

#[test]
fn two_providers_are_explained() {
    let bundles = [bundle("a.v1").provides("K"), bundle("b.v1").provides("K")];
    insta::assert_snapshot!(explained(&world(&bundles, &[], &[subscription("a"), subscription("b")])), @r"
    1. Subscription sub-a asks for package a, channel stable of catalog ns/main.
    2. For it there is a.v1 (channel stable of main).
    3. Subscription sub-b asks for package b, channel stable of catalog ns/main.
    4. For it there is b.v1 (channel stable of main).
    5. Only one operator can provide K (g/v1), and these do: a.v1 (channel stable of main), b.v1 (channel stable of main).
    What would help, one of:
    - change or delete Subscription sub-a
    - change or delete Subscription sub-b
    ");
}

#[test]
fn version_that_is_not_offered_is_explained_with_those_that_are() {
    let bundles = [bundle("a.v1").requires_package("x", ">=2.0.0"), bundle("x.v1"), bundle("x.v1.1").replaces("x.v1")];
    insta::assert_snapshot!(explained(&world(&bundles, &[], &[subscription("a")])), @r"
    1. Subscription sub-a asks for package a, channel stable of catalog ns/main.
    2. For it there is a.v1 (channel stable of main).
    3. a.v1 requires an operator with package: x and with version in range: >=2.0.0; no catalog offers one: ns/main has x 1.1.0, 1.0.0.
    What would help, one of:
    - a catalog that offers an operator with package: x and with version in range: >=2.0.0
    - change or delete Subscription sub-a
    ");
}

#[test]
fn message_of_the_author_is_told() {
    let constraint =
        json!({"failureMessage": "needs a certified store", "all": {"constraints": [{"gvk": gvk("Store")}]}});
    insta::assert_snapshot!(explained(&world(&[bundle("a.v1").constraint(constraint)], &[], &[subscription("a")])), @r#"
    1. Subscription sub-a asks for package a, channel stable of catalog ns/main.
    2. For it there is a.v1 (channel stable of main).
    3. a.v1 requires an operator providing an API with group: g, version: v1, kind: Store; no catalog offers one: "needs a certified store" (looked at ns/main).
    What would help, one of:
    - a catalog that offers an operator providing an API with group: g, version: v1, kind: Store
    - change or delete Subscription sub-a
    "#);
}

#[test]
fn operator_without_a_subscription_is_explained() {
    let bundles = [bundle("b.v1").provides("K")];
    insta::assert_snapshot!(explained(&world(&bundles, &[bundle("k.v1").provides("K")], &[subscription("b")])), @r"
    1. Subscription sub-b asks for package b, channel stable of catalog ns/main.
    2. For it there is b.v1 (channel stable of main).
    3. k.v1 is installed and no Subscription names it, so that it stays as it is.
    4. Only one operator can provide K (g/v1), and these do: k.v1 (installed), b.v1 (channel stable of main).
    What would help, one of:
    - change or delete Subscription sub-b
    - delete ClusterServiceVersion k.v1, or make a Subscription for it
    ");
}

#[test]
fn failed_update_is_explained() {
    let bundles = [bundle("a.v1"), bundle("a.v2").replaces("a.v1"), bundle("a.v3").replaces("a.v2")];
    let installed = [bundle("a.v1"), bundle("a.v2")];
    insta::assert_snapshot!(explained(&world(&bundles, &installed, &[following("a", "a.v2")])), @r"
    1. Subscription sub-a asks for package a, channel stable of catalog ns/main. a.v2 is installed for it.
    2. For it there is a.v3 (channel stable of main), a.v2 (installed).
    3. a.v1 is installed and no Subscription names it, so that it stays as it is.
    4. Only one operator of package a can be: a.v1 (installed), a.v2 (installed), a.v3 (channel stable of main).
    What would help, one of:
    - change or delete Subscription sub-a
    - delete ClusterServiceVersion a.v1, or make a Subscription for it
    ");
}

#[test]
fn catalog_that_is_not_seen_is_explained() {
    let of = Subscription { catalog: ("third".to_owned(), "main".to_owned()), ..subscription("a") };
    insta::assert_snapshot!(explained(&world(&[bundle("a.v1")], &[], &[of])), @r"
    1. Subscription sub-a asks for package a, channel stable of catalog third/main.
    2. no operators found from catalog main in namespace third referenced by subscription sub-a.
    What would help, one of:
    - change or delete Subscription sub-a
    - correct Subscription sub-a, or what CatalogSource third/main offers
    ");
}

#[test]
fn channel_with_two_chains_is_explained() {
    let broken = package::tests::package(&["a1", "a2 a1", "b1", "b2 b1"]);
    let of = Subscription { channel: "c".to_owned(), ..subscription("p") };
    let mut world = world(&[], &[], &[of, subscription("x")]);
    world.catalogs = vec![catalog("main", 0, &[bundle("x.v1")]).with(broken)];
    insta::assert_snapshot!(explained(&world), @r#"
    1. Subscription sub-p asks for package p, channel c of catalog ns/main.
    2. a unique replacement chain within a channel is required to determine the relative order between channel entries, but 2 replacement chains were found in channel "c" of package "p": a2...a1, b2...b1.
    What would help, one of:
    - change or delete Subscription sub-p
    - correct Subscription sub-p, or what CatalogSource ns/main offers
    "#);
    let resolution = resolve(&world, &Limits::default());
    assert!(
        resolution.parts.iter().any(|part| matches!(&part.verdict, Verdict::Install(new) if new.len() == 1)),
        "it concerns nobody else"
    );
}

#[test]
fn explanation_is_bounded() {
    let bundles: Vec<Bundle> = (0..300).map(|at| bundle(&format!("p{at}.v1")).provides("K")).collect();
    let subscriptions: Vec<Subscription> = (0..300).map(|at| subscription(&format!("p{at}"))).collect();
    let text = explained(&world(&bundles, &[], &subscriptions));
    assert!(text.len() <= 32 * 1024 && text.contains("provide K (g/v1)"), "{text}");
}
