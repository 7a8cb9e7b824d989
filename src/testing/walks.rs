//! Each bundle of a catalog as the installed one, followed through its channel, by functions of plain types.

use super::resolution::{Namespace, Verdict};
use crate::olm::catalog::index::{Channel, Entry};
use crate::olm::version_range::VersionRange;
use crate::version::parse_tolerant;
use std::collections::BTreeMap;

/// What becomes of a bundle that is installed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// It is, or becomes, the head of its channel.
    Head,
    /// No entry of the channel leads on.
    NoWay,
    /// An entry leads on, and why it is not installed.
    Stuck(String),
    /// Why it cannot be installed itself.
    Refused(String),
}

#[derive(Clone, Debug)]
pub struct Walk {
    pub package: String,
    pub channel: String,
    /// Versions of the package one after the other, beginning with the bundle itself; none if it is refused.
    pub path: Vec<String>,
    pub end: End,
}

/// What the versions that follow one are, if nothing but it is installed.
type Known = BTreeMap<String, (Vec<String>, End)>;

impl Namespace {
    /// Every bundle in every channel of a catalog.
    pub fn walks(&self, catalog: &str) -> Vec<Walk> {
        let Some(content) = self.content(catalog) else { return Vec::new() };
        let mut walks = Vec::new();
        for channel in content.index.packages().flat_map(|package| package.channels()) {
            let mut known = Known::new();
            for entry in channel.entries().filter(|entry| entry.bundle().is_some()) {
                if !known.contains_key(entry.name()) {
                    self.walk(catalog, channel, entry, &mut known);
                }
                let Some((path, end)) = known.get(entry.name()).cloned() else { continue };
                let package = channel.package().map(|it| it.name().to_owned()).unwrap_or_default();
                walks.push(Walk { package, channel: channel.name().to_owned(), path, end });
            }
        }
        walks
    }

    fn walk(&self, catalog: &str, channel: Channel<'_>, from: Entry<'_>, known: &mut Known) {
        let package = channel.package().map(|it| it.name()).unwrap_or_default();
        let mut following = self.clone().following(catalog, package, channel.name(), from.name());
        let mut path: Vec<String> = Vec::new();
        // Where another version was that nothing else was installed with, the rest is known.
        let mut alone = true;
        let mut last = Verdict::default();
        for verdict in following.by_ref() {
            let of_package = |name: &&String| channel.entries().any(|entry| entry.name() == name.as_str());
            alone &= verdict.installs.len() <= 1;
            let Some(next) = verdict.installs.iter().find(of_package) else {
                last = verdict;
                continue;
            };
            if let (true, Some((rest, end))) = (alone, known.get(next)) {
                path.extend(rest.iter().cloned());
                let whole = (path, end.clone());
                known.insert(from.name().to_owned(), whole);
                return;
            }
            path.push(next.clone());
        }
        let end = match path.last() {
            None => End::Refused(last.why()),
            Some(name) if channel.head().is_some_and(|head| head.name() == name) => End::Head,
            Some(name) if leading_on(channel, name).is_empty() => End::NoWay,
            Some(name) => {
                End::Stuck(leading_on(channel, name).iter().map(|it| following.why_not(package, it)).collect())
            }
        };
        let mut rest: &[String] = &path;
        while alone && let [first, after @ ..] = rest {
            known.insert(first.clone(), (rest.to_vec(), end.clone()));
            rest = after;
        }
        known.insert(from.name().to_owned(), (path, end));
    }

    /// Steps of walks that no entry of their channel allows, and ends that are none.
    pub fn wrong_steps(&self, catalog: &str, walks: &[Walk]) -> Vec<String> {
        let Some(content) = self.content(catalog) else { return vec![format!("there is no catalog {catalog}")] };
        let mut wrong = Vec::new();
        for walk in walks {
            let channel = content.index.package(&walk.package).and_then(|it| it.channel(&walk.channel));
            let Some(channel) = channel else { continue };
            for pair in walk.path.windows(2) {
                let [from, to] = pair else { continue };
                if !leading_on(channel, from).contains(to) {
                    wrong.push(format!("{} {}: {from} → {to}", walk.package, walk.channel));
                }
            }
            if matches!(&walk.end, End::Stuck(why) | End::Refused(why) if why.is_empty()) {
                wrong.push(format!("{} {}: {:?} ends without a reason", walk.package, walk.channel, walk.path));
            }
        }
        wrong
    }
}

/// Names of the entries that a bundle can be updated to, read anew from what the catalog says.
fn leading_on(channel: Channel<'_>, from: &str) -> Vec<String> {
    let version = channel.entries().find(|it| it.name() == from).and_then(Entry::bundle);
    let version = version.and_then(|bundle| parse_tolerant(bundle.version()).ok());
    let in_range = |range: &str| {
        let range = VersionRange::parse(range).ok();
        range.zip(version.as_ref()).is_some_and(|(range, version)| range.contains(version))
    };
    let leads = |entry: &Entry<'_>| {
        entry.replaces() == Some(from)
            || entry.skips().any(|skipped| skipped == from)
            || entry.skip_range().is_some_and(in_range)
    };
    let entries = channel.entries().filter(|it| it.name() != from && it.bundle().is_some());
    entries.filter(leads).map(|entry| entry.name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::fs;
    use std::path::Path;

    fn walks(folder: &Path) -> (Namespace, Vec<Walk>) {
        let data = tempfile::tempdir().unwrap();
        let mut namespace = Namespace::default();
        namespace.offer("main", folder, data.path()).unwrap();
        let walks = namespace.walks("main");
        (namespace, walks)
    }

    /// A channel of `a.v1` to `a.v5`: `a.v2` to `a.v4` follow each other, `a.v5` needs what only `b.v1` provides, if that is offered.
    fn blobs(provider: bool) -> Vec<Value> {
        let api = json!({"group": "example.com", "version": "v1", "kind": "B"});
        let bundle = |name: &str, more: Vec<Value>| {
            let (package, version) = name.split_once(".v").unwrap();
            let identity =
                json!({"type": "olm.package", "value": {"packageName": package, "version": format!("{version}.0.0")}});
            json!({"schema": "olm.bundle", "name": name, "package": package, "image": format!("registry.invalid/{name}"),
                "properties": std::iter::once(identity).chain(more).collect::<Vec<_>>()})
        };
        let mut blobs = vec![
            json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable"}),
            json!({"schema": "olm.channel", "package": "a", "name": "stable", "entries": [{"name": "a.v2"},
                {"name": "a.v3", "replaces": "a.v2"}, {"name": "a.v4", "replaces": "a.v3", "skips": ["a.v1"]},
                {"name": "a.v5", "replaces": "a.v4", "skipRange": ">=3.0.0 <4.0.0"}]}),
            json!({"schema": "olm.channel", "package": "a", "name": "old", "entries": [{"name": "a.v1"}]}),
            bundle("a.v1", vec![]),
            bundle("a.v2", vec![]),
            bundle("a.v3", vec![]),
            bundle("a.v4", vec![]),
            bundle("a.v5", vec![json!({"type": "olm.gvk.required", "value": api})]),
        ];
        if provider {
            blobs.push(json!({"schema": "olm.package", "name": "b", "defaultChannel": "stable"}));
            blobs.push(
                json!({"schema": "olm.channel", "package": "b", "name": "stable", "entries": [{"name": "b.v1"}]}),
            );
            blobs.push(bundle("b.v1", vec![json!({"type": "olm.gvk", "value": api})]));
        }
        blobs
    }

    fn told(blobs: &[Value]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        let text: Vec<String> = blobs.iter().map(Value::to_string).collect();
        fs::write(folder.path().join("catalog.json"), text.join("\n")).unwrap();
        let (namespace, walks) = walks(folder.path());
        assert_eq!(namespace.wrong_steps("main", &walks), [""; 0]);
        let told = |walk: &Walk| {
            let (word, why) = match &walk.end {
                End::Head => ("head", ""),
                End::NoWay => ("no way", ""),
                End::Stuck(why) => ("stuck", why.as_str()),
                End::Refused(why) => ("refused", why.as_str()),
            };
            assert!(why.is_empty() || why.contains("kind: B") || why.contains("a.v6"), "{why}");
            format!("{} {}: {word}", walk.channel, walk.path.join(" "))
        };
        walks.iter().map(told).collect()
    }

    #[test]
    fn each_version_is_followed_to_where_it_leads() {
        let with = [
            "old a.v1: head",
            "stable a.v2 a.v3 a.v5: head",
            "stable a.v3 a.v5: head",
            "stable a.v4 a.v5: head",
            "stable a.v5: head",
            "stable b.v1: head",
        ];
        assert_eq!(told(&blobs(true)), with);
        let without = [
            "old a.v1: head",
            "stable a.v2 a.v3 a.v4: stuck",
            "stable a.v3 a.v4: stuck",
            "stable a.v4: stuck",
            "stable : refused",
        ];
        assert_eq!(told(&blobs(false)), without);
    }

    /// `a.v6` skips `a.v5`, which alone follows `a.v4`.
    #[test]
    fn version_whose_only_way_is_skipped_is_stuck() {
        let mut blobs = blobs(true);
        let entry = json!({"name": "a.v6", "replaces": "a.v5", "skips": ["a.v5"]});
        blobs[1]["entries"][3]["skips"] = json!(["a.v2", "a.v3", "a.v4"]);
        blobs[1]["entries"].as_array_mut().unwrap().push(entry);
        let mut last = blobs[7].clone();
        last["name"] = json!("a.v6");
        last["image"] = json!("registry.invalid/a.v6");
        last["properties"] = json!([{"type": "olm.package", "value": {"packageName": "a", "version": "6.0.0"}}]);
        blobs.push(last);
        let told = told(&blobs);
        assert!(told.contains(&"stable a.v4: stuck".to_owned()), "{told:?}");
        assert!(told.contains(&"stable a.v5 a.v6: head".to_owned()), "{told:?}");
    }

    #[test]
    fn step_that_no_entry_allows_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let text: Vec<String> = blobs(true).iter().map(Value::to_string).collect();
        fs::write(folder.path().join("catalog.json"), text.join("\n")).unwrap();
        let (namespace, mut walks) = walks(folder.path());
        let walk = walks.iter_mut().find(|walk| walk.path == ["a.v2", "a.v3", "a.v5"]).unwrap();
        walk.path.remove(1);
        walks.push(Walk {
            package: "a".to_owned(),
            channel: "old".to_owned(),
            path: vec![],
            end: End::Refused(String::new()),
        });
        assert_eq!(namespace.wrong_steps("main", &walks), ["a stable: a.v2 → a.v5", "a old: [] ends without a reason"]);
    }

    #[test]
    fn versions_of_published_catalogs_lead_to_the_heads_of_their_channels() {
        let shared = std::env::var("CVO_SHARED_DATA")
            .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").to_owned());
        let folder = Path::new(&shared).join("catalogs/v4.21");
        if !folder.is_dir() {
            println!(
                "skipped: no catalogs beside the project; CVO_SHARED_DATA names the folder that holds catalogs/v4.21"
            );
            return;
        }
        let (namespace, walks) = walks(&folder);
        assert_eq!(namespace.wrong_steps("main", &walks), [""; 0]);
        let count = |is: fn(&End) -> bool| walks.iter().filter(|walk| is(&walk.end)).count();
        let heads = count(|end| *end == End::Head);
        println!("{} walks, {heads} end at the head of their channel", walks.len());
        assert!(walks.len() > 700 && heads * 10 > walks.len() * 9, "{heads} of {}", walks.len());
    }
}
