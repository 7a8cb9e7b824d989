//! Catalogs for which it is hard to find what is to be installed.

use serde_json::{Value, json};

/// Names of their packages begin so.
pub(crate) const PIGEON: &str = "pigeon";
pub(crate) const WANTED: &str = "wanted";

fn package(name: &str, channels: &[&str]) -> Vec<Value> {
    let default = channels.first().copied().unwrap_or_default();
    let mut blobs = vec![json!({"schema": "olm.package", "name": name, "defaultChannel": default})];
    blobs.extend(channels.iter().map(|channel| {
        json!({"schema": "olm.channel", "package": name, "name": channel,
            "entries": [{"name": format!("{name}.{channel}")}]})
    }));
    blobs
}

fn bundle(package: &str, (channel, minor): (&str, usize), properties: &[Value]) -> Value {
    let identity = json!({"type": "olm.package", "value": {"packageName": package, "version": format!("1.{minor}.0")}});
    let properties: Vec<&Value> = std::iter::once(&identity).chain(properties).collect();
    json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.{channel}"),
        "image": format!("registry.invalid/{package}:{channel}"), "properties": properties})
}

fn api(kind: &str, property: &str) -> Value {
    json!({"type": property, "value": {"group": "hostile.example.com", "version": "v1", "kind": kind}})
}

/// So many packages, each of which brings one of so many kinds less one. Two that bring the same kind cannot be installed together.
pub(crate) fn pigeonhole(pigeons: usize) -> Vec<Value> {
    let holes: Vec<String> = (1..pigeons).map(|hole| format!("hole-{hole}")).collect();
    let holes: Vec<&str> = holes.iter().map(String::as_str).collect();
    let pigeon = |number| {
        let name = format!("{PIGEON}-{number}");
        let mut blobs = package(&name, &holes);
        blobs.extend(holes.iter().enumerate().map(|(at, hole)| bundle(&name, (hole, at), &[api(hole, "olm.gvk")])));
        blobs
    };
    (0..pigeons).flat_map(pigeon).collect()
}

/// One package that needs a kind, and so many that bring it, none of which can be installed.
pub(crate) fn rivals(number: usize) -> Vec<Value> {
    let mut blobs = package(WANTED, &["stable"]);
    blobs.push(bundle(WANTED, ("stable", 0), &[api("Shared", "olm.gvk.required")]));
    for rival in 0..number {
        let name = format!("rival-{rival}");
        blobs.extend(package(&name, &["stable"]));
        let missing = api(&format!("Missing{rival}"), "olm.gvk.required");
        blobs.push(bundle(&name, ("stable", 0), &[api("Shared", "olm.gvk"), missing]));
    }
    blobs
}

/// One package with so many rules in CEL, each of which one of as many packages obeys.
pub(crate) fn rules(number: usize) -> Vec<Value> {
    let rule = |rule: usize| {
        let rule = format!("properties.exists(p, p.type == 'tier' && p.value == 'tier-{rule}')");
        json!({"type": "olm.constraint", "value": {"failureMessage": "a tier is needed", "cel": {"rule": rule}}})
    };
    let mut blobs = package(WANTED, &["stable"]);
    blobs.push(bundle(WANTED, ("stable", 0), &(0..number).map(rule).collect::<Vec<_>>()));
    for tier in 0..number {
        let name = format!("tier-{tier}");
        blobs.extend(package(&name, &["stable"]));
        blobs.push(bundle(&name, ("stable", 0), &[json!({"type": "tier", "value": name})]));
    }
    blobs
}
