//! What changes from one catalog to the next, and which installed versions lose their way.

use super::index::{Bundle, Channel, Entry, Index, Package};
use crate::olm::version_range::VersionRange;
use semver::Version;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A change of a package.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference<'a> {
    pub package: &'a str,
    #[serde(flatten)]
    pub change: Change<'a>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "change", rename_all = "camelCase")]
pub(crate) enum Change<'a> {
    PackageGone,
    PackageAdded,
    DefaultChannel {
        from: &'a str,
        to: &'a str,
    },
    ChannelGone {
        channel: &'a str,
    },
    ChannelAdded {
        channel: &'a str,
        head: &'a str,
    },
    HeadMoved {
        channel: &'a str,
        from: &'a str,
        to: &'a str,
    },
    /// Whoever has installed this version of the channel is not updated any more.
    NoWay {
        channel: &'a str,
        bundle: &'a str,
    },
    BundleGone {
        bundle: &'a str,
    },
    BundleAdded {
        bundle: &'a str,
    },
    /// A version that was published has another image now.
    ImageChanged {
        bundle: &'a str,
        from: &'a str,
        to: &'a str,
    },
    /// The package, a channel or a bundle is deprecated now.
    Deprecated {
        what: String,
        message: &'a str,
    },
}

impl Change<'_> {
    /// Whether somebody who has installed something may lose by it.
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Change::PackageGone | Change::ChannelGone { .. } | Change::NoWay { .. })
    }
}

/// All changes, by package.
pub(crate) fn diff<'a>(old: &'a Index, new: &'a Index) -> Vec<Difference<'a>> {
    let mut found = Vec::new();
    let names: BTreeSet<&str> = old.packages().chain(new.packages()).map(Package::name).collect();
    for package in names {
        let mut changes = Vec::new();
        match (old.package(package), new.package(package)) {
            (Some(_), None) => changes.push(Change::PackageGone),
            (None, Some(_)) => changes.push(Change::PackageAdded),
            (Some(old), Some(new)) => of_package(old, new, &mut changes),
            (None, None) => {}
        }
        found.extend(changes.into_iter().map(|change| Difference { package, change }));
    }
    found
}

fn of_package<'a>(old: Package<'a>, new: Package<'a>, changes: &mut Vec<Change<'a>>) {
    let default = |package: Package<'a>| package.default_channel().map(Channel::name).unwrap_or_default();
    if default(old) != default(new) {
        changes.push(Change::DefaultChannel { from: default(old), to: default(new) });
    }
    let channels = |package: Package<'a>| -> BTreeMap<&'a str, Channel<'a>> {
        package.channels().map(|channel| (channel.name(), channel)).collect()
    };
    let (before, after) = (channels(old), channels(new));
    for (name, channel) in &before {
        match after.get(name) {
            None => changes.push(Change::ChannelGone { channel: name }),
            Some(other) => of_channel(*channel, *other, changes),
        }
    }
    let added = after.iter().filter(|(name, _)| !before.contains_key(*name));
    changes.extend(added.map(|(channel, it)| Change::ChannelAdded { channel, head: head(*it) }));
    let bundles = |package: Package<'a>| -> BTreeMap<&'a str, Bundle<'a>> {
        package.bundles().map(|bundle| (bundle.name(), bundle)).collect()
    };
    let (before, after) = (bundles(old), bundles(new));
    for (bundle, it) in &before {
        let image = |it: &Bundle<'a>| it.image().unwrap_or_default();
        match after.get(bundle) {
            None => changes.push(Change::BundleGone { bundle }),
            Some(other) if image(it) != image(other) => {
                changes.push(Change::ImageChanged { bundle, from: image(it), to: image(other) });
            }
            Some(_) => {}
        }
    }
    let added = after.keys().filter(|name| !before.contains_key(*name));
    changes.extend(added.map(|bundle| Change::BundleAdded { bundle }));
    deprecated(old, new, changes);
}

fn head(channel: Channel<'_>) -> &str {
    channel.head().map(Entry::name).unwrap_or_default()
}

fn of_channel<'a>(old: Channel<'a>, new: Channel<'a>, changes: &mut Vec<Change<'a>>) {
    if head(old) != head(new) {
        changes.push(Change::HeadMoved { channel: old.name(), from: head(old), to: head(new) });
    }
    for entry in old.entries() {
        let version: Option<Version> = entry.bundle().and_then(|bundle| bundle.version().parse().ok());
        let after = |channel| next(channel, entry.name(), version.as_ref());
        if after(old) != Next::NoWay && after(new) == Next::NoWay {
            changes.push(Change::NoWay { channel: old.name(), bundle: entry.name() });
        }
    }
}

/// What comes after an installed version in a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next<'a> {
    /// It is the head.
    Nothing,
    Version(&'a str),
    /// The channel does not know it, and nothing there follows it.
    NoWay,
}

/// `version`: of what is installed, if it is known. The highest entry that replaces or skips it, and is not skipped itself, is next.
pub(crate) fn next<'a>(channel: Channel<'a>, installed: &str, version: Option<&Version>) -> Next<'a> {
    let skipped: BTreeSet<&str> = channel.entries().flat_map(Entry::skips).collect();
    let follows = |entry: &Entry<'a>| {
        let range = || entry.skip_range().and_then(|range| VersionRange::parse(range).ok());
        entry.name() != installed
            && !skipped.contains(entry.name())
            && (entry.replaces() == Some(installed)
                || entry.skips().any(|skip| skip == installed)
                || version.is_some_and(|version| range().is_some_and(|range| range.contains(version))))
    };
    let version_of = |entry: &Entry<'a>| entry.bundle().and_then(|bundle| bundle.version().parse::<Version>().ok());
    match channel.entries().filter(follows).max_by_key(version_of) {
        Some(entry) => Next::Version(entry.name()),
        None if head(channel) == installed => Next::Nothing,
        None => Next::NoWay,
    }
}

fn deprecated<'a>(old: Package<'a>, new: Package<'a>, changes: &mut Vec<Change<'a>>) {
    let mut note = |what: String, before: Option<&str>, after: Option<&'a str>| {
        if let (None, Some(message)) = (before, after) {
            changes.push(Change::Deprecated { what, message });
        }
    };
    note(format!("package {}", new.name()), old.deprecation(), new.deprecation());
    for channel in new.channels() {
        let before = old.channel(channel.name()).and_then(Channel::deprecation);
        note(format!("channel {}", channel.name()), before, channel.deprecation());
    }
    for bundle in new.bundles() {
        let before = old.bundle(bundle.name()).and_then(Bundle::deprecation);
        note(format!("bundle {}", bundle.name()), before, bundle.deprecation());
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::olm::catalog::builder::tests::read;
    use serde_json::{Value, json};

    /// Packages as `name: channel = entry<replaced!skipped ...; channel = ...`; versions are what follows `v`.
    pub(crate) fn index(packages: &[&str]) -> Index {
        let mut blobs = Vec::new();
        for package in packages {
            let (name, channels) = package.split_once(": ").unwrap();
            let mut bundles = BTreeSet::new();
            for (number, channel) in channels.split("; ").enumerate() {
                let (channel, entries) = channel.split_once(" = ").unwrap();
                if number == 0 {
                    blobs.push(json!({"schema": "olm.package", "name": name, "defaultChannel": channel}));
                }
                let entry = |text: &str| {
                    let (text, skips) = text.split_once('!').unwrap_or((text, ""));
                    let (entry, replaces) = text.split_once('<').unwrap_or((text, ""));
                    let skips: Vec<&str> = skips.split(',').filter(|it| !it.is_empty()).collect();
                    json!({"name": entry, "replaces": replaces, "skips": skips})
                };
                let entries: Vec<Value> = entries.split(' ').map(entry).collect();
                bundles.extend(entries.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()));
                blobs.push(json!({"schema": "olm.channel", "package": name, "name": channel, "entries": entries}));
            }
            for bundle in bundles {
                let version = format!("{}.0.0", bundle.rsplit_once('v').unwrap().1);
                let identity = json!({"type": "olm.package", "value": {"packageName": name, "version": version}});
                blobs.push(json!({"schema": "olm.bundle", "package": name, "name": bundle, "image": "r/a", "properties": [identity]}));
            }
        }
        let catalog = read(&[("all.json", &blobs.iter().map(Value::to_string).collect::<String>())]);
        assert_eq!(catalog.faults, []);
        catalog.index
    }

    fn changes(old: &[&str], new: &[&str]) -> Vec<String> {
        let (old, new) = (index(old), index(new));
        diff(&old, &new)
            .iter()
            .map(|it| {
                serde_json::to_string(it).unwrap().replace(r#"{"package":"a","change":"#, "").replace(['"', '}'], "")
            })
            .collect()
    }

    #[test]
    fn packages_channels_heads_and_bundles_that_come_and_go_are_told() {
        assert_eq!(changes(&["a: s = a.v1"], &["a: s = a.v1"]), Vec::<String>::new());
        assert_eq!(changes(&["a: s = a.v1"], &["b: s = b.v1"]), ["packageGone", "{package:b,change:packageAdded"]);
        assert_eq!(
            changes(&["a: s = a.v1; t = a.v1"], &["a: u = a.v2; s = a.v1 a.v2<a.v1"]),
            [
                "defaultChannel,from:s,to:u",
                "headMoved,channel:s,from:a.v1,to:a.v2",
                "channelGone,channel:t",
                "channelAdded,channel:u,head:a.v2",
                "bundleAdded,bundle:a.v2",
            ]
        );
    }

    #[test]
    fn version_from_which_nothing_leads_on_is_a_loss() {
        let lost = changes(&["a: s = a.v1 a.v2<a.v1 a.v3<a.v2"], &["a: s = a.v3<a.v2 a.v4<a.v3"]);
        assert_eq!(
            lost,
            [
                "headMoved,channel:s,from:a.v3,to:a.v4",
                "noWay,channel:s,bundle:a.v1",
                "bundleGone,bundle:a.v1",
                "bundleGone,bundle:a.v2",
                "bundleAdded,bundle:a.v4",
            ]
        );
        // The head that is put back.
        let lost = changes(&["a: s = a.v1 a.v2<a.v1"], &["a: s = a.v1"]);
        assert!(lost.contains(&"noWay,channel:s,bundle:a.v2".to_owned()), "{lost:?}");
    }

    #[test]
    fn version_that_had_no_way_before_is_no_difference() {
        let stuck = ["a: s = a.v1 a.v2<a.v1!a.v0 a.v3<a.v1!a.v2 a.v0"];
        assert_eq!(changes(&stuck, &stuck), Vec::<String>::new());
    }

    #[test]
    fn next_is_the_highest_that_follows_and_is_not_skipped() {
        let index = index(&["a: s = a.v1 a.v2<a.v1 a.v3<a.v1!a.v2,a.v0 a.v4<a.v3"]);
        let channel = index.package("a").unwrap().channel("s").unwrap();
        for (installed, expected) in [
            ("a.v0", Next::Version("a.v3")),
            ("a.v1", Next::Version("a.v3")),
            ("a.v2", Next::Version("a.v3")),
            ("a.v3", Next::Version("a.v4")),
            ("a.v4", Next::Nothing),
            ("b", Next::NoWay),
        ] {
            assert_eq!(next(channel, installed, None), expected, "{installed}");
        }
    }
}
