//! Advice to authors of catalogs: what can be served, and is still not as it should be.

use crate::olm::bundle::finding::{Check, Finding, Weight};
use crate::olm::bundle::validate::advice::{of_property, together};
use crate::olm::catalog::diff::{Next, next};
use crate::olm::catalog::fault::names;
use crate::olm::catalog::index::{Api, Bundle, Channel, Entry, Index, Package};
use crate::olm::catalog::record::StoredKind;
use crate::olm::names::property::PACKAGE_REQUIRED;
use crate::olm::names::schema::{BUNDLE, CHANNEL, PACKAGE};
use crate::olm::version_range::VersionRange;
use semver::Version;
use serde_json::Value;
use std::collections::BTreeSet;

/// What is said of a blob.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Remark {
    pub schema: &'static str,
    pub package: String,
    /// Of the blob.
    pub name: String,
    pub weight: Weight,
    pub check: Check,
    pub message: String,
}

impl Remark {
    /// The finding, where the blob is.
    pub(crate) fn at(self, (file, line): (&str, usize)) -> Finding {
        let place = format!("{} {}", self.schema, self.name);
        Finding { weight: self.weight, ..Finding::error(self.check, (file, line), &place, self.message) }
    }
}

/// Looks at the heads of channels, because whoever installs gets them; with `all` at every entry.
pub(crate) fn lint(index: &Index, all: bool) -> Vec<Remark> {
    let mut remarks = Vec::new();
    for package in index.packages() {
        let mut seen = BTreeSet::new();
        for channel in package.channels() {
            remarks.extend(stuck(package, channel));
            let wanted = |entry: &Entry<'_>| all || channel.head().is_some_and(|head| head.name() == entry.name());
            for entry in channel.entries().filter(wanted) {
                remarks.extend(range(package, channel, entry));
                let Some(bundle) = entry.bundle().filter(|bundle| seen.insert(bundle.name())) else { continue };
                remarks.extend(of_bundle(index, bundle).into_iter().map(|(weight, check, message)| Remark {
                    schema: BUNDLE,
                    package: package.name().to_owned(),
                    name: bundle.name().to_owned(),
                    weight,
                    check,
                    message,
                }));
            }
        }
        remarks.extend(deprecated_head(package));
    }
    remarks.sort();
    remarks
}

type Judged = (Weight, Check, String);

fn of_bundle(index: &Index, bundle: Bundle<'_>) -> Vec<Judged> {
    let mut found = Vec::new();
    let mut kinds = BTreeSet::new();
    for property in bundle.properties() {
        kinds.insert(property.kind());
        let value: Value = serde_json::from_str(property.value()).unwrap_or_default();
        found.extend(of_property(property.kind(), &value));
        if property.kind() == PACKAGE_REQUIRED {
            found.extend(required(index, &value));
        }
    }
    if let Some(message) = together(|kind| kinds.contains(kind)) {
        found.push((Weight::Warning, Check::Advice, message.to_owned()));
    }
    for api in bundle.required().filter(|api| index.providing(*api).next().is_none()) {
        let Api { group, version, kind } = api;
        let message = format!(
            "nothing in this catalog provides {kind}.{version}.{group}, which it requires: it can be installed only where another \
             catalog has it"
        );
        found.push((Weight::Warning, Check::Dependency, message));
    }
    found.extend(image(bundle));
    found
}

/// A package that is required in no version that is there.
fn required(index: &Index, value: &Value) -> Option<Judged> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
    let (name, range) = (text("packageName"), text("versionRange"));
    let parsed = VersionRange::parse(range).ok()?;
    let package = index.package(name)?;
    let in_range = |bundle: Bundle<'_>| bundle.version().parse::<Version>().is_ok_and(|it| parsed.contains(&it));
    let message = format!("the package {name} of this catalog has no version in {range:?}, which it requires");
    (!package.bundles().any(in_range)).then_some((Weight::Warning, Check::Dependency, message))
}

fn image(bundle: Bundle<'_>) -> Option<Judged> {
    let image = bundle.image()?;
    if bundle.stored(StoredKind::Object).next().is_some() {
        let message = "it has all manifests besides its image, which makes catalogs large: render it from the image, as with \
                       cvo catalog render";
        return Some((Weight::Warning, Check::Size, message.to_owned()));
    }
    let message = format!(
        "its image {image} is named by a tag, which may be moved, and which mirrors of digests do not find: name it by its digest"
    );
    (!image.contains('@')).then_some((Weight::Warning, Check::Image, message))
}

/// A version that would follow itself.
fn range(package: Package<'_>, channel: Channel<'_>, entry: Entry<'_>) -> Option<Remark> {
    let (range, version) = (entry.skip_range()?, entry.bundle()?.version().parse::<Version>().ok()?);
    if !VersionRange::parse(range).ok()?.contains(&version) {
        return None;
    }
    let name = entry.name();
    let message =
        format!("the skipRange {range:?} of {name} contains its own version {version}: end it with <{version}");
    Some(of_channel(package, channel, message))
}

/// Versions that nobody is updated from, because whatever follows them is skipped itself.
fn stuck(package: Package<'_>, channel: Channel<'_>) -> Option<Remark> {
    let version = |entry: &Entry<'_>| entry.bundle().and_then(|bundle| bundle.version().parse().ok());
    let is_stuck = |entry: &Entry<'_>| next(channel, entry.name(), version(entry).as_ref()) == Next::NoWay;
    let stuck = names(channel.entries().filter(is_stuck).map(Entry::name));
    let message = format!(
        "who has {stuck} is not updated any more, because what replaces or skips that is skipped itself: let the head skip it as well"
    );
    (!stuck.is_empty()).then(|| of_channel(package, channel, message))
}

/// A warning about the ways from version to version in a channel.
fn of_channel(package: Package<'_>, channel: Channel<'_>, message: String) -> Remark {
    Remark {
        schema: CHANNEL,
        package: package.name().to_owned(),
        name: channel.name().to_owned(),
        weight: Weight::Warning,
        check: Check::UpdateEdge,
        message,
    }
}

/// What is installed without asking for anything else is deprecated.
fn deprecated_head(package: Package<'_>) -> Option<Remark> {
    let channel = package.default_channel().filter(|_| package.deprecation().is_none())?;
    let head = channel.head().and_then(Entry::bundle);
    let (what, why) = match (channel.deprecation(), head.and_then(Bundle::deprecation)) {
        (Some(why), _) => (format!("the default channel {}", channel.name()), why),
        (None, Some(why)) => (format!("the head {} of the default channel", head.map_or("", Bundle::name)), why),
        (None, None) => return None,
    };
    Some(Remark {
        schema: PACKAGE,
        package: package.name().to_owned(),
        name: package.name().to_owned(),
        weight: Weight::Warning,
        check: Check::Deprecation,
        message: format!(
            "{what} is deprecated ({why}), and whoever names no channel gets it: make another one the default"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::catalog::builder::tests::read;
    use serde_json::json;

    fn bundle(package: &str, version: &str, image: &str, properties: &[Value]) -> Value {
        let identity = json!({"type": "olm.package", "value": {"packageName": package, "version": version}});
        let properties = [&[identity], properties].concat();
        json!({"schema": "olm.bundle", "package": package, "name": format!("{package}.v{version}"), "image": image,
            "properties": properties})
    }

    fn property(kind: &str, value: Value) -> Value {
        json!({"type": kind, "value": value})
    }

    fn package(name: &str, entries: Value) -> [Value; 2] {
        [
            json!({"schema": "olm.package", "name": name, "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": name, "name": "stable", "entries": entries}),
        ]
    }

    fn linted(blobs: &[Value], all: bool) -> Vec<(String, Check)> {
        let catalog = read(&[("all.json", &blobs.iter().map(Value::to_string).collect::<String>())]);
        assert_eq!(catalog.faults, []);
        lint(&catalog.index, all).into_iter().map(|remark| (remark.message, remark.check)).collect()
    }

    fn one(properties: &[Value]) -> Vec<(String, Check)> {
        let digest = format!("r.io/a@sha256:{}", "1".repeat(64));
        let mut blobs = package("a", json!([{"name": "a.v1.0.0"}])).to_vec();
        blobs.push(bundle("a", "1.0.0", &digest, properties));
        blobs.extend(package("b", json!([{"name": "b.v1.0.0"}])));
        let api = property("olm.gvk", json!({"group": "g", "version": "v1", "kind": "B"}));
        blobs.push(bundle("b", "1.0.0", &digest, &[api]));
        linted(&blobs, false)
    }

    #[test]
    fn dependencies_that_say_more_or_less_than_is_meant_are_told() {
        let b = |range: &str| property("olm.package.required", json!({"packageName": "b", "versionRange": range}));
        let gvk = |kind: &str| property("olm.gvk.required", json!({"group": "g", "version": "v1", "kind": kind}));
        let not = property(
            "olm.constraint",
            json!({"not": {"constraints": [{"gvk": {"group": "g", "version": "v1", "kind": "B"}}]}}),
        );
        let large = property("olm.constraint", json!({"cel": {"rule": "x".repeat(70_000)}}));
        for (properties, expected, check) in [
            (vec![b(">=1.0.0")], "only packages are named", Check::Advice),
            (vec![b(">=1.0.0"), gvk("B")], "which two different operators may meet", Check::Advice),
            (vec![b(">=1.0.0 <1.5.0")], "ends with <1.5.0", Check::Advice),
            (vec![b(">=2.0.0")], "the package b of this catalog has no version in \">=2.0.0\"", Check::Dependency),
            (vec![gvk("C")], "nothing in this catalog provides C.v1.g", Check::Dependency),
            (vec![not], "not alone selects every other bundle", Check::Advice),
            (vec![large], "65536 are supported", Check::Advice),
            (vec![property("olm.constraint", json!({}))], "constraint is empty", Check::Dependency),
            (vec![property("olm.maxOpenShiftVersion", json!(4.9))], "no minor version", Check::Property),
        ] {
            let found = one(&properties);
            assert!(found.iter().any(|it| it.0.contains(expected) && it.1 == check), "{expected}: {found:?}");
        }
        assert_eq!(one(&[gvk("B")]), []);
    }

    #[test]
    fn version_whose_successors_are_all_skipped_is_told() {
        let entry =
            |name: &str, replaces: &str, skips: &[&str]| json!({"name": name, "replaces": replaces, "skips": skips});
        let entries = |skips: &[&str]| {
            json!([
                entry("a.v1.0.0", "", &[]),
                entry("a.v2.0.0", "a.v1.0.0", &["a.v1.0.0"]),
                entry("a.v3.0.0", "a.v2.0.0", skips)
            ])
        };
        let digest = format!("r.io/a@sha256:{}", "1".repeat(64));
        for (skips, expected) in [(&["a.v2.0.0"][..], 1), (&["a.v2.0.0", "a.v1.0.0"], 0), (&[], 0)] {
            let mut blobs = package("a", entries(skips)).to_vec();
            blobs.extend(["1.0.0", "2.0.0", "3.0.0"].map(|version| bundle("a", version, &digest, &[])));
            let found = linted(&blobs, false);
            assert_eq!(found.len(), expected, "{found:?}");
            assert!(found.iter().all(|it| it.0.starts_with("who has a.v1.0.0 is not updated any more")), "{found:?}");
        }
    }

    #[test]
    fn heads_are_looked_at_and_all_others_only_if_asked_for() {
        let digest = format!("r.io/a@sha256:{}", "1".repeat(64));
        let mut blobs = package(
            "a",
            json!([{"name": "a.v1.0.0"}, {"name": "a.v2.0.0", "replaces": "a.v1.0.0", "skipRange": "<=2.0.0"}]),
        )
        .to_vec();
        blobs.push(bundle("a", "1.0.0", "r.io/a:1", &[]));
        blobs.push(bundle("a", "2.0.0", &digest, &[]));
        let found = linted(&blobs, false);
        assert!(found[0].0.contains("the skipRange \"<=2.0.0\" of a.v2.0.0 contains its own version"), "{found:?}");
        assert_eq!(found.len(), 1);
        let found = linted(&blobs, true);
        assert!(found[0].0.contains("its image r.io/a:1 is named by a tag"), "{found:?}");
        assert_eq!(found.len(), 2);
        let reference = json!({"schema": "olm.bundle", "name": "a.v2.0.0"});
        blobs.push(json!({"schema": "olm.deprecations", "package": "a", "entries": [{"reference": reference, "message": "m"}]}));
        let found = linted(&blobs, false);
        assert!(found[1].0.contains("the head a.v2.0.0 of the default channel is deprecated (m)"), "{found:?}");
    }
}
