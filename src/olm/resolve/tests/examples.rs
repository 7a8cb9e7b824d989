//! Examples that guides for administrators and authors print, typed in.

use super::written::{Row, check, fails, installs};
use super::*;

#[test]
fn channels_alpha_and_beta_of_the_package_example_have_a_version_each() {
    check(&[
        installs(
            "alpha",
            "catalog main
             example.v0.1.2 alpha default alpha
             example.v0.1.3 beta replaces example.v0.1.2
             sub example/alpha",
            "example.v0.1.2",
        ),
        installs(
            "beta",
            "catalog main
             example.v0.1.2 alpha default alpha
             example.v0.1.3 beta replaces example.v0.1.2
             sub example/beta",
            "example.v0.1.3",
        ),
        installs(
            "none",
            "catalog main
             example.v0.1.3 beta replaces example.v0.1.2 default alpha
             example.v0.1.2 alpha
             sub example/",
            "example.v0.1.2",
        ),
        installs(
            "from alpha to beta",
            "catalog main
             example.v0.1.2 alpha default alpha
             example.v0.1.3 beta replaces example.v0.1.2
             installed example.v0.1.2
             sub example/beta at example.v0.1.2",
            "example.v0.1.3",
        ),
    ]);
}

#[test]
fn certified_operator_is_required() {
    check(&[
        installs(
            "certified",
            r#"catalog main
             a.v1 stable
             constraint {"failureMessage": "require to have \"certified\"", "cel": {"rule": "properties.exists(p, p.type == \"certified\")"}}
             b.v1 stable is stable true
             c.v1 stable is certified true
             sub a/stable"#,
            "a.v1 c.v1",
        ),
        installs(
            "certified and stable",
            r#"catalog main
             a.v1 stable
             constraint {"failureMessage": "require to have \"certified\" and \"stable\" properties", "cel": {"rule": "properties.exists(p, p.type == \"certified\") && properties.exists(p, p.type == \"stable\")"}}
             b.v1 stable is certified true
             c.v1 stable is stable true
             d.v1 stable is certified true is stable true
             sub a/stable"#,
            "a.v1 d.v1",
        ),
        fails(
            "nobody is certified",
            r#"catalog main
             a.v1 stable
             constraint {"failureMessage": "require to have \"certified\"", "cel": {"rule": "properties.exists(p, p.type == \"certified\")"}}
             b.v1 stable is stable true
             sub a/stable"#,
            "and message: \"require to have \\\"certified\\\"\"",
        ),
    ]);
}

/// `red` with a constraint, and what else there is.
fn red(constraint: &Value, others: &str) -> World {
    let text = format!("catalog main\n red.v1.0.0 stable\n constraint {constraint}\n{others}\n sub red/stable");
    written::written(&text).world()
}

fn color(name: &str, version: &str) -> Value {
    let kind = format!("{}{}", name[..1].to_uppercase(), &name[1..]);
    json!({"gvk": {"group": format!("{name}s.example.com"), "version": version, "kind": kind}})
}

fn provides(name: &str, version: &str) -> String {
    format!("is olm.gvk {}", color(name, version)["gvk"])
}

fn blue() -> Value {
    json!({"failureMessage": "Package blue is needed for...", "package": {"name": "blue", "versionRange": ">=1.0.0"}})
}

#[test]
fn red_requires_all_of_blue_and_green() {
    let all = json!({"failureMessage": "All are required for Red because...", "all": {"constraints": [
        blue(), {"failureMessage": "GVK Green/v1 is needed for...", "gvk": color("green", "v1")["gvk"]}]}});
    let green = provides("green", "v1");
    // One operator has to be both, unless the bundle says otherwise.
    super::installs(&red(&all, &format!("blue.v1.1.0 stable {green}")), &["blue.v1.1.0", "red.v1.0.0"]);
    super::fails(
        &red(&all, &format!("blue.v1.1.0 stable\n green.v1.0.0 stable {green}")),
        &["bundle red.v1.0.0 requires an operator"],
    );
    let of_set = format!(
        "catalog main\n red.v1.0.0 stable is olm.constraint.scope '\"set\"'\n constraint {all}\n \
        blue.v0.9.0 stable\n blue.v1.1.0 stable replaces blue.v0.9.0\n green.v1.0.0 stable {green}\n sub red/stable"
    );
    super::installs(&written::written(&of_set).world(), &["blue.v1.1.0", "green.v1.0.0", "red.v1.0.0"]);
}

#[test]
fn red_requires_any_version_of_blue() {
    let any = json!({"failureMessage": "Any are required for Red because...", "any": {"constraints": [
        color("blue", "v1beta1"), color("blue", "v1beta2"), color("blue", "v1")]}});
    for version in ["v1beta1", "v1beta2", "v1"] {
        let others = format!("blue.v1.0.0 stable {}", provides("blue", version));
        super::installs(&red(&any, &others), &["blue.v1.0.0", "red.v1.0.0"]);
    }
    super::fails(
        &red(&any, &format!("blue.v1.0.0 stable {}", provides("blue", "v2"))),
        &["or providing an API with group: blues.example.com"],
    );
}

#[test]
fn red_requires_a_blue_that_is_not_green() {
    let not = json!({"failureMessage": "Package blue is needed for...", "all": {"constraints": [
        blue(), {"failureMessage": "Cannot be required for Red because...", "not": {"constraints": [color("green", "v1alpha1")]}}]}});
    let green = provides("green", "v1alpha1");
    let others = format!("blue.v1.0.0 stable\n blue.v1.1.0 stable replaces blue.v1.0.0 {green}");
    super::installs(&red(&not, &others), &["blue.v1.0.0", "red.v1.0.0"]);
    super::fails(&red(&not, &format!("blue.v1.1.0 stable {green}")), &["bundle red.v1.0.0 requires an operator"]);
}

#[test]
fn red_requires_constraints_within_each_other() {
    let nested = json!({"failureMessage": "Required for Red because...", "all": {"constraints": [
        blue(), {"failureMessage": "Any of these is needed for...", "any": {"constraints": [
            color("blue", "v1beta1"), color("blue", "v1beta2"), color("blue", "v1")]}}]}});
    let others = format!(
        "blue.v0.9.0 stable {}\n blue.v1.0.0 stable replaces blue.v0.9.0 {}\n blue.v1.1.0 stable replaces blue.v1.0.0",
        provides("blue", "v1"),
        provides("blue", "v1beta2")
    );
    super::installs(&red(&nested, &others), &["blue.v1.0.0", "red.v1.0.0"]);
}

/// `value:` is empty, `all:` stands beside it, and a kind is written in small letters.
#[test]
fn sample_of_not_is_an_empty_constraint_as_it_is_printed() {
    let world = red(&Value::Null, "blue.v1.0.0 stable");
    super::fails(
        &world,
        &[
            "bundle main/ns/stable/red.v1.0.0 cannot be installed: parse olm.constraint (properties[1]): value: constraint is empty",
        ],
    );
    insta::assert_snapshot!(explained(&world), @r"
    1. Subscription red-stable asks for package red, channel stable of catalog ns/main.
    2. For it there is red.v1.0.0 (channel stable of main).
    3. bundle main/ns/stable/red.v1.0.0 cannot be installed: parse olm.constraint (properties[1]): value: constraint is empty: what stands beside value does not count, so indent it below value.
    What would help, one of:
    - another version than main/ns/stable/red.v1.0.0 in its catalog
    - change or delete Subscription red-stable
    ");
    let older = written::written(
        "catalog main\n red.v0.9.0 stable\n red.v1.0.0 stable replaces red.v0.9.0\n constraint null\n sub red/stable",
    );
    super::installs(&older.world(), &["red.v0.9.0"]);
}

#[test]
fn prometheus_and_etcd_are_required() {
    check(&[
        installs(
            "a later version, and an API in a version",
            r#"catalog main
             a.v1 stable needs prometheus '>0.27.0' is olm.gvk.required {"group":"etcd.database.coreos.com","kind":"EtcdCluster","version":"v1beta2"}
             prometheus.v0.27.0 stable
             prometheus.v0.32.0 stable replaces prometheus.v0.27.0
             etcd.v0.9.0 stable is olm.gvk {"group":"etcd.database.coreos.com","kind":"EtcdCluster","version":"v1beta2"}
             etcd.v1.0.0 stable replaces etcd.v0.9.0 is olm.gvk {"group":"etcd.database.coreos.com","kind":"EtcdCluster","version":"v1"}
             sub a/stable"#,
            "a.v1 etcd.v0.9.0 prometheus.v0.32.0",
        ),
        fails(
            "no version is late enough",
            "catalog main
             a.v1 stable needs prometheus '>0.27.0'
             prometheus.v0.27.0 stable
             sub a/stable",
            "bundle a.v1 requires an operator with package: prometheus and with version in range: >0.27.0",
        ),
        installs(
            "two that are independent are met by two operators",
            "catalog main
             a.v1 stable needs etcd '>3.1.0' requires EtcdCluster
             etcd.v3.2.0 stable
             other.v1 stable provides EtcdCluster
             sub a/stable",
            "a.v1 etcd.v3.2.0 other.v1",
        ),
    ]);
}

const Z_STREAM: [Row; 3] = [
    installs(
        "the newest patch takes the place of one that exists by its name only",
        "catalog main
         a.v1.0.0 stable
         a.v1.0.4 stable replaces a.v1.0.0 skips a.v1.0.1,a.v1.0.2,a.v1.0.3
         installed a.v1.0.2
         sub a/stable at a.v1.0.2",
        "a.v1.0.4",
    ),
    installs(
        "the next minor takes the place of the newest patch",
        "catalog main
         a.v1.0.4 stable skips a.v1.0.1,a.v1.0.2,a.v1.0.3
         a.v1.1.0 stable replaces a.v1.0.4 range '>=1.0.0 <1.1.0'
         installed a.v1.0.4
         sub a/stable at a.v1.0.4",
        "a.v1.1.0",
    ),
    installs(
        "a patch that nothing names has no way on",
        "catalog main
         a.v1.0.4 stable skips a.v1.0.1,a.v1.0.2
         installed a.v1.0.3
         sub a/stable at a.v1.0.3",
        "",
    ),
];

#[test]
fn newest_patch_takes_the_place_of_all_before_it() {
    check(&Z_STREAM);
}
