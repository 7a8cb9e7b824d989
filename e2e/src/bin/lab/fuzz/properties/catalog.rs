//! File-based catalogs, their indexes, and ranges of versions.

use super::{Verdict, property};
use crate::fuzz::catalogs::read;
use crate::fuzz::fixture::Fixture;
use cvo::testing::catalog::{Entry, Index, StoredKind, VersionRange};
use cvo::testing::version;
use sha2::{Digest, Sha256};

/// What is served has no fault and is whole, and its index is read as it was written.
pub(in crate::fuzz) fn catalog(_: &Fixture, input: &[u8]) -> Verdict {
    let catalog = read(input)?;
    property(catalog.faults.len() <= catalog.fault_count, "more faults are kept than there are")?;
    let index = &catalog.index;
    for package in index.packages() {
        let name = package.name();
        property(catalog.faults.iter().all(|fault| fault.package != name), "a package with a fault is served")?;
        property(package.default_channel().is_some(), "a package without a default channel is served")?;
        for channel in package.channels() {
            let head = channel.head().map(Entry::name).unwrap_or_default();
            property(package.bundle(head).is_some(), "the head of a channel has no bundle")?;
            property(channel.entries().all(|entry| package.bundle(entry.name()).is_some()), "an entry has no bundle")?;
            let replaced = channel.entries().any(|entry| entry.replaces() == Some(head));
            property(!replaced, "the head of a channel is replaced")?;
        }
        for bundle in package.bundles() {
            property(version::parse(bundle.version()).is_ok(), "a bundle has no version")?;
            for stored in bundle.stored(StoredKind::Metadata).chain(bundle.stored(StoredKind::Object)) {
                let start = usize::try_from(stored.offset()).unwrap_or_default();
                let bytes = catalog.data.get(start..start + stored.length()).unwrap_or_default();
                let json = stored.json(bytes).map_err(|e| e.to_string())?;
                property(serde_json::from_str::<serde_json::Value>(json).is_ok(), "a stored part is not JSON")?;
            }
        }
    }
    let mut bytes = Vec::new();
    index.write(&mut bytes).map_err(|e| e.to_string())?;
    let again = Index::read(bytes.as_slice()).map_err(|e| format!("its index is not read: {e}"))?;
    property(again == *index, "its index is read differently")?;
    Ok(index.counts().packages > 0)
}

/// Whatever the tables of an index are, it can be asked, and is written as it was read.
pub(in crate::fuzz) fn index(_: &Fixture, input: &[u8]) -> Verdict {
    property(Index::read(input).is_err() || written_again(input).is_some(), "an index is written differently")?;
    let content = input.get(..input.len().saturating_sub(32)).unwrap_or_default();
    let sealed = [content, &Sha256::digest(content)[..]].concat();
    let Ok(index) = Index::read(sealed.as_slice()) else { return Ok(false) };
    for package in index.packages() {
        let _asked =
            (package.name(), package.bundles().count(), package.default_channel().map(|it| it.head().is_some()));
        let _found = package.channels().flat_map(|it| it.entries()).map(|it| it.skips().count()).sum::<usize>();
    }
    for bundle in index.bundles().take(100) {
        let _asked = (bundle.provided().count(), index.replacing(bundle.name()).count(), bundle.package().is_some());
        let _found = bundle.provided().map(|api| index.providing(api).count()).sum::<usize>();
    }
    let _custom = index.all_custom().filter(|it| it.blob().is_some_and(|blob| blob.json(b"").is_ok())).count();
    Ok(written_again(&sealed).is_some())
}

fn written_again(bytes: &[u8]) -> Option<()> {
    let mut again = Vec::new();
    Index::read(bytes).ok()?.write(&mut again).ok()?;
    (again == bytes).then_some(())
}

/// A range contains a version however both are written.
pub(in crate::fuzz) fn ranges(_: &Fixture, input: &[u8]) -> Verdict {
    let text = String::from_utf8_lossy(input);
    let versions: Vec<_> =
        ["0.0.0", "1.2.3", "2.0.0-rc.1", "3.0.0+b"].iter().filter_map(|it| version::parse(it).ok()).collect();
    let mut useful = false;
    for line in text.lines() {
        let Ok(range) = VersionRange::parse(line) else { continue };
        useful = true;
        let twice = VersionRange::parse(&format!("{line} || {line}")).map_err(|e| e.to_string())?;
        let same = versions.iter().all(|version| range.contains(version) == twice.contains(version));
        property(same, "a range or itself is another range")?;
    }
    Ok(useful)
}
