//! What cannot be installed, and what is said then.

use super::*;

#[test]
fn missing_provider_is_told_with_the_subscription_and_the_bundle() {
    let world = world(&[bundle("a.v1").requires("K")], &[], &[subscription("a")]);
    assert_eq!(
        answer(&world).unwrap_err(),
        "constraints not satisfiable: bundle a.v1 requires an operator providing an API with group: g, version: v1, kind: K, \
         subscription sub-a exists, subscription sub-a requires main/ns/stable/a.v1"
    );
}

#[test]
fn skipped_provider_is_none() {
    let bundles = [
        bundle("a.v1").requires("K"),
        bundle("b.v1").provides("K"),
        bundle("b.v2").skips(&["b.v1"]),
        bundle("b.v3").replaces("b.v2").skips(&["b.v1"]),
    ];
    fails(&world(&bundles, &[], &[subscription("a")]), &["bundle a.v1 requires an operator"]);
}

#[test]
fn two_subscriptions_of_a_package_cannot_have_two_versions() {
    let bundles = [bundle("a.v1").channels(&["one"]), bundle("a.v2").channels(&["two"])];
    let of = |channel: &str| Subscription {
        name: format!("sub-{channel}"),
        channel: channel.to_owned(),
        ..subscription("a")
    };
    let texts = [
        "subscription sub-one requires main/ns/one/a.v1",
        "subscription sub-two requires main/ns/two/a.v2",
        "main/ns/one/a.v1 and main/ns/two/a.v2 originate from package a",
    ];
    fails(&world(&bundles, &[], &[of("one"), of("two")]), &texts);
}

#[test]
fn two_subscriptions_of_a_channel_have_one_operator() {
    let of = |name: &str| Subscription { name: name.to_owned(), ..subscription("a") };
    installs(&world(&[bundle("a.v1")], &[], &[of("x"), of("y")]), &["a.v1"]);
}

#[test]
fn two_providers_of_an_api_cannot_both_be_installed() {
    let bundles = [bundle("a.v1").provides("K"), bundle("b.v1").provides("K")];
    let texts = ["main/ns/stable/a.v1 and main/ns/stable/b.v1 provide K (g/v1)", "subscription sub-a exists"];
    fails(&world(&bundles, &[], &[subscription("a"), subscription("b")]), &texts);
}

#[test]
fn failing_part_does_not_hold_the_others() {
    let bundles = [bundle("a.v1").requires("K"), bundle("b.v1"), bundle("c.v1")];
    let world = world(&bundles, &[], &[subscription("a"), subscription("b"), subscription("c")]);
    let resolution = resolve(&world, &Limits::default());
    let of = |part: &Part| match &part.verdict {
        Verdict::Install(candidates) => candidates.iter().map(|it| it.entry.operator.name.clone()).collect(),
        other => format!("{other:?}").split('(').next().unwrap().to_owned(),
    };
    let parts: Vec<(Vec<usize>, String)> =
        resolution.parts.iter().map(|it| (it.subscriptions.clone(), of(it))).collect();
    let expected = [(vec![0], "Impossible"), (vec![1], "b.v1"), (vec![2], "c.v1")];
    assert_eq!(parts, expected.map(|(at, text)| (at, text.to_owned())));
}

/// The other Subscriptions are solved as if nothing could be done about it.
#[test]
fn what_is_installed_for_a_subscription_that_names_what_is_not_there_stays() {
    let installed = [bundle("b.v1").provides("K")];
    let lost = Subscription { catalog: ("ns".to_owned(), "none".to_owned()), ..following("b", "b.v1") };
    let found = |bundles: &[Bundle], package: &str| {
        let world = world(bundles, &installed, &[subscription(package), lost.clone()]);
        let resolution = resolve(&world, &Limits::default());
        let part = resolution.parts.into_iter().find(|it| it.subscriptions.contains(&0)).unwrap();
        match part.verdict {
            Verdict::Install(all) => Ok(all.into_iter().map(|it| it.entry.operator.name.clone()).collect::<Vec<_>>()),
            _ => Err(explained(&world)),
        }
    };
    let rivals = [bundle("a.v1").requires("K"), bundle("c.v1").provides("K"), bundle("b.v2").replaces("b.v1")];
    assert_eq!(found(&rivals, "a"), Ok(vec!["a.v1".to_owned()]));
    insta::assert_snapshot!(found(&rivals, "c").unwrap_err(), @r"
    1. Subscription sub-b asks for package b, channel stable of catalog ns/none. b.v1 is installed for it.
    2. no operators found from catalog none in namespace ns referenced by subscription sub-b.
    What would help, one of:
    - change or delete Subscription sub-b
    - correct Subscription sub-b, or what CatalogSource ns/none offers

    1. Subscription sub-c asks for package c, channel stable of catalog ns/main.
    2. For it there is c.v1 (channel stable of main).
    3. b.v1 is installed and its Subscription sub-b cannot be met, so that it stays as it is.
    4. Only one operator can provide K (g/v1), and these do: b.v1 (installed), c.v1 (channel stable of main).
    What would help, one of:
    - change or delete Subscription sub-c
    - delete ClusterServiceVersion b.v1, or correct Subscription sub-b
    ");
    assert!(found(&rivals, "b").is_err());
}

#[test]
fn what_a_subscription_names_and_is_not_there_is_told() {
    let bundles = [bundle("a.v1")];
    let of = |change: fn(&mut Subscription)| {
        let mut it = subscription("a");
        change(&mut it);
        world(&bundles, &[], &[it])
    };
    for (world, expected) in [
        (
            of(|it| it.catalog.1 = "none".to_owned()),
            "no operators found from catalog none in namespace ns referenced by subscription sub-a",
        ),
        (
            of(|it| it.package = "none".to_owned()),
            "no operators found in package none in the catalog referenced by subscription sub-a",
        ),
        (
            of(|it| it.channel = "none".to_owned()),
            "no operators found in channel none of package a in the catalog referenced by subscription sub-a",
        ),
        (
            of(|it| it.starting_csv = "a.v9".to_owned()),
            "no operators found with name a.v9 in channel stable of package a in the catalog referenced by subscription sub-a",
        ),
    ] {
        let message = format!("constraints not satisfiable: {expected}, subscription sub-a exists");
        assert_eq!(answer(&world), Err(message));
    }
    let empty = World { catalogs: vec![catalog("main", 0, &[])], ..of(|_| ()) };
    fails(&empty, &["no operators found from catalog main in namespace ns referenced by subscription sub-a"]);
}

#[test]
fn operator_that_failed_holds_its_update() {
    // v1 is being replaced by v2, which has failed; v3 would replace v2.
    let bundles = [bundle("a.v1"), bundle("a.v2").replaces("a.v1"), bundle("a.v3").replaces("a.v2")];
    let installed = [bundle("a.v1"), bundle("a.v2")];
    let texts = ["clusterserviceversion a.v1 exists and is not referenced by a subscription", "subscription sub-a"];
    fails(&world(&bundles, &installed, &[following("a", "a.v2")]), &texts);
    installs(&world(&bundles, &installed[1..], &[following("a", "a.v2")]), &["a.v3"]);
}

/// In a namespace there is one ClusterServiceVersion of a name.
#[test]
fn two_packages_cannot_both_install_a_bundle_of_one_name() {
    let of = |package: &str| Bundle { package: package.to_owned(), ..bundle("a.v1") };
    let x = Subscription { catalog: ("ns".to_owned(), "other".to_owned()), ..subscription("x") };
    let catalogs = vec![catalog("main", 0, &[of("a")]), catalog("other", 0, &[of("x")])];
    let subscriptions = vec![subscription("a"), x];
    let world = World { catalogs, subscriptions, ..world(&[], &[], &[]) };
    fails(
        &world,
        &["packages a, x each have a bundle a.v1", "subscription sub-a requires", "subscription sub-x requires"],
    );
    let text = explained(&world);
    let told = "Only one ClusterServiceVersion a.v1 can be, and packages a, x each have one of that name.";
    assert!(text.contains(told) && text.contains("- change or delete Subscription sub-x"), "{text}");
    let alone = World { subscriptions: world.subscriptions[..1].to_vec(), ..world };
    installs(&alone, &["a.v1"]);
    let installed = World { installed: vec![of("x").installed()], ..alone };
    fails(&installed, &["packages a, x each have a bundle a.v1", "clusterserviceversion a.v1 exists"]);
}

#[test]
fn name_that_no_object_can_have_is_refused() {
    let of = |length: usize| Bundle { package: "a".to_owned(), ..bundle(&format!("{}.v1", "a".repeat(length - 3))) };
    for length in [253, 254, 100_000] {
        let found = answer(&world(&[of(length)], &[], &[subscription("a")]));
        let told = format!("its name has {length} characters, and names of objects have at most 253");
        assert_eq!(found.is_ok(), length == 253, "{length}");
        assert!(found.map_or_else(|text| text.contains(&told), |it| it.len() == 1), "{length}");
    }
}
