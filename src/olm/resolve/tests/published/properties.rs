//! What an operator is by its properties, and how what a catalog has is found by them.

use crate::olm::resolve::constraint::{Constraint, Demand};
use crate::olm::resolve::operator::Operator;
use crate::olm::resolve::rule::{ClusterVersions, Rule};
use crate::olm::resolve::tests::written::written;
use serde_json::json;

fn provided(apis: &[(&str, &str, &str)], plural: &str) -> Operator {
    let property = |(group, version, kind): &(&str, &str, &str)| {
        let value = json!({"group": group, "version": version, "kind": kind, "plural": plural});
        ("olm.gvk".to_owned(), value)
    };
    Operator::new("a.v1", apis.iter().map(property).collect(), &ClusterVersions::default())
}

#[test]
fn apis_are_in_the_order_of_their_kinds_and_each_is_there_once() {
    const GOOSE: (&str, &str, &str) = ("birds.com", "v1alpha1", "Goose");
    const EGRET: (&str, &str, &str) = ("birds.com", "v1alpha1", "Egret");
    for (name, apis, expected) in [
        ("none", &[][..], ""),
        ("one", &[GOOSE], "Goose (birds.com/v1alpha1)"),
        ("several", &[GOOSE, EGRET], "Egret (birds.com/v1alpha1), Goose (birds.com/v1alpha1)"),
        ("one twice", &[GOOSE, EGRET, GOOSE], "Egret (birds.com/v1alpha1), Goose (birds.com/v1alpha1)"),
    ] {
        let found: Vec<String> = provided(apis, "").provides.iter().map(ToString::to_string).collect();
        assert_eq!(found.join(", "), expected, "{name}");
    }
    let without_kind = provided(&[GOOSE, ("birds.com", "v1alpha1", "")], "");
    assert!(without_kind.unreadable.is_some(), "an API without a kind excludes its operator, here");
}

#[test]
fn plural_is_no_part_of_an_api() {
    const MOOSE: (&str, &str, &str) = ("mammals.com", "v1alpha1", "Moose");
    const GOOSE: (&str, &str, &str) = ("birds.com", "v1alpha1", "Goose");
    for (name, apis) in [("no api", &[][..]), ("one", &[GOOSE]), ("several", &[GOOSE, MOOSE])] {
        assert_eq!(provided(apis, "geese").provides, provided(apis, "").provides, "{name}");
    }
}

#[test]
fn catalog_is_searched_by_what_is_demanded_of_its_bundles() {
    const THREE: &str = "catalog main
        a.v1 stable
        b.v1 stable
        c.v1 stable";
    let rule = |text: &str| Constraint::from(Demand::Cel(Rule::compile(text).unwrap()));
    let is_not_a = rule("!properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'a')");
    for (name, world, constraint, expected) in [
        ("nothing is met", THREE, rule("false"), ""),
        ("there is nothing", "catalog main", rule("true"), ""),
        ("everything is met", THREE, rule("true"), "a b c"),
        ("something is met", THREE, is_not_a, "b c"),
    ] {
        let world = written(world).world();
        let of =
            |_: &str| world.catalogs[0].that_meet(&constraint).iter().map(|it| it.name.clone()).collect::<Vec<_>>();
        assert_eq!(of("first").join(" "), expected, "{name}");
        assert_eq!(of("again").join(" "), expected, "{name}, asked again");
    }
}
