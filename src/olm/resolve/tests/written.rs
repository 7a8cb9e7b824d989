//! Worlds as text, so that tables of them can be read. A line each:
//!
//! - `catalog main 100`: a catalog, with a priority if it has one; `global/main` is of another namespace
//! - `a.v1 stable,fast replaces a.v0 …`: a bundle of that catalog in channels of its package
//! - `constraint {…}`, `rule …`: what the operator of the line before requires, as JSON, or as a rule that another one has to meet
//! - `installed a.v1 …`: an operator that is installed
//! - `sub a/stable …`: a Subscription; `a/` asks for no channel
//!
//! `words` says what may stand behind each.

use super::*;

/// A world as it is written, for whoever makes something of it.
#[derive(Clone, Debug, Default)]
pub(in crate::olm) struct Written {
    pub catalogs: Vec<WrittenCatalog>,
    pub installed: Vec<Bundle>,
    pub subscriptions: Vec<Subscription>,
}

#[derive(Clone, Debug)]
pub(in crate::olm) struct WrittenCatalog {
    pub place: String,
    pub priority: i64,
    pub bundles: Vec<Bundle>,
}

/// Words of a line; what stands within single quotes is one.
fn split(line: &str) -> Vec<String> {
    let (mut words, mut quoted) = (Vec::new(), false);
    for part in line.split('\'') {
        match quoted {
            true => words.push(part.to_owned()),
            false => words.extend(part.split_whitespace().map(ToOwned::to_owned)),
        }
        quoted = !quoted;
    }
    words
}

fn names(text: &str) -> Vec<&str> {
    text.split(',').collect()
}

/// A bundle with what the words say of it.
fn words(mut bundle: Bundle, words: &[String]) -> Bundle {
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        let mut next = || words.next().unwrap_or_else(|| panic!("nothing follows {word}"));
        bundle = match word {
            "of" => {
                next().clone_into(&mut bundle.package);
                bundle
            }
            "version" => bundle.version(next()),
            "default" => {
                bundle.default = Some(next().to_owned());
                bundle
            }
            "phase" => {
                bundle.phase = Some(next().to_owned());
                bundle
            }
            "replaces" => bundle.replaces(next()),
            "skips" => bundle.skips(&names(next())),
            "range" => bundle.range(next()),
            "provides" => names(next()).into_iter().fold(bundle, Bundle::provides),
            "requires" => names(next()).into_iter().fold(bundle, Bundle::requires),
            "needs" => {
                let (package, range) = (next(), next());
                bundle.requires_package(package, range)
            }
            "label" => bundle.with("olm.label", json!({"label": next()})),
            "wants" => bundle.with("olm.label.required", json!({"label": next()})),
            "deprecated" => bundle.with("olm.deprecated", json!({})),
            "is" => {
                let (kind, value) = (next(), next());
                bundle.with(kind, serde_json::from_str(value).unwrap_or_else(|error| panic!("{value}: {error}")))
            }
            other => panic!("{}: {other:?} means nothing", bundle.name),
        };
    }
    bundle
}

fn named(name: &str) -> Bundle {
    match name.split_once(".v").is_some_and(|(_, version)| version.bytes().all(|b| b.is_ascii_digit() || b == b'.')) {
        true => bundle(name),
        false => Bundle { name: name.to_owned(), ..bundle("?.v1") },
    }
}

fn place(text: &str) -> (String, String) {
    let (namespace, name) = text.split_once('/').unwrap_or(("ns", text));
    (namespace.to_owned(), name.to_owned())
}

fn subscribed(text: &[String]) -> Subscription {
    let (package, channel) = text[0].split_once('/').unwrap();
    let mut found = Subscription {
        name: format!("{package}-{channel}").trim_end_matches('-').to_owned(),
        channel: channel.to_owned(),
        ..subscription(package)
    };
    let mut words = text[1..].iter();
    while let Some(word) = words.next() {
        let mut next = || words.next().unwrap_or_else(|| panic!("{}: nothing follows {word}", found.package)).clone();
        match word.as_str() {
            "as" => found.name = next(),
            "in" => found.catalog = place(&next()),
            "at" => found.installed_csv = next(),
            "from" => found.starting_csv = next(),
            "elsewhere" => found.other_catalogs = true,
            other => panic!("{}: {other:?} means nothing", found.package),
        }
    }
    found
}

/// A line that says what the operator before it requires.
fn constraint(line: &str) -> Option<Value> {
    if let Some(rule) = line.strip_prefix("rule ") {
        return Some(json!({"cel": {"rule": rule}}));
    }
    let text = line.strip_prefix("constraint ")?;
    Some(serde_json::from_str(text).unwrap_or_else(|error| panic!("{text}: {error}")))
}

pub(in crate::olm) fn written(text: &str) -> Written {
    let mut written = Written::default();
    let mut is_installed = false;
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(value) = constraint(line) {
            let last = match is_installed {
                true => &mut written.installed,
                false => &mut written.catalogs.last_mut().unwrap().bundles,
            };
            let bundle = last.pop().unwrap();
            last.push(bundle.constraint(value));
            continue;
        }
        let all = split(line);
        match all[0].as_str() {
            "catalog" => written.catalogs.push(WrittenCatalog {
                place: all[1].clone(),
                priority: all.get(2).map(|text| text.parse().unwrap()).unwrap_or_default(),
                bundles: Vec::new(),
            }),
            "installed" => written.installed.push(words(named(&all[1]), &all[2..])),
            "sub" => written.subscriptions.push(subscribed(&all[1..])),
            name => {
                let bundle = named(name).channels(&names(&all[1]));
                written.catalogs.last_mut().unwrap().bundles.push(words(bundle, &all[2..]));
            }
        }
        is_installed = all[0] == "installed";
    }
    written
}

impl Written {
    pub(in crate::olm) fn world(&self) -> World {
        World {
            namespace: "ns".to_owned(),
            catalogs: self.catalogs.iter().map(|it| catalog(&it.place, it.priority, &it.bundles)).collect(),
            installed: self.installed.iter().map(Bundle::installed).collect(),
            subscriptions: self.subscriptions.clone(),
        }
    }

    /// The same in another order.
    pub(in crate::olm) fn reversed(&self) -> Written {
        let mut other = self.clone();
        // The first bundle of a package names its default channel.
        for catalog in &mut other.catalogs {
            let defaults: BTreeMap<String, String> = catalog.bundles.iter().rev().map(default_channel).collect();
            for bundle in &mut catalog.bundles {
                bundle.default.get_or_insert_with(|| defaults[&bundle.package].clone());
            }
            catalog.bundles.reverse();
        }
        other.catalogs.reverse();
        other.installed.reverse();
        other.subscriptions.reverse();
        other
    }
}

fn default_channel(bundle: &Bundle) -> (String, String) {
    (bundle.package.clone(), bundle.default.clone().unwrap_or_else(|| bundle.channels[0].clone()))
}

/// A named world and what comes of it.
pub(super) struct Row {
    pub name: &'static str,
    pub world: &'static str,
    pub expected: Expected,
}

pub(super) enum Expected {
    /// Names of the bundles that are installed, sorted, with blanks between them; with `@` and the catalog if that is not `main`.
    Installs(&'static str),
    /// Texts that the reason has, with `|` between them.
    Fails(&'static str),
}

pub(super) const fn installs(name: &'static str, world: &'static str, expected: &'static str) -> Row {
    Row { name, world, expected: Expected::Installs(expected) }
}

pub(super) const fn fails(name: &'static str, world: &'static str, expected: &'static str) -> Row {
    Row { name, world, expected: Expected::Fails(expected) }
}

/// What is installed, with the catalogs.
fn chosen(world: &World) -> String {
    let resolution = resolve(world, &Limits::default());
    let installed = |part: &Part| match &part.verdict {
        Verdict::Install(candidates) => candidates.clone(),
        _ => Vec::new(),
    };
    let named = |it: Candidate| match world.catalogs[it.catalog].name.as_str() {
        "main" => it.entry.operator.name.clone(),
        catalog => format!("{}@{catalog}", it.entry.operator.name),
    };
    let mut names: Vec<String> = resolution.parts.iter().flat_map(installed).map(named).collect();
    names.sort();
    names.join(" ")
}

/// Each row comes to what it says, in whatever order its world is written.
#[track_caller]
pub(super) fn check(rows: &[Row]) {
    let mut wrong = Vec::new();
    for row in rows {
        let written = written(row.world);
        for (order, world) in [("", written.world()), ("reversed, ", written.reversed().world())] {
            let found = answer(&world).map(|_| chosen(&world));
            let is_right = match (&row.expected, &found) {
                (Expected::Installs(names), Ok(found)) => found == *names,
                (Expected::Fails(texts), Err(message)) => texts.split('|').all(|text| message.contains(text)),
                _ => false,
            };
            if !is_right {
                wrong.push(format!("{order}{}: {found:?}", row.name));
            }
        }
    }
    let names: std::collections::BTreeSet<&str> = rows.iter().map(|row| row.name).collect();
    assert_eq!(names.len(), rows.len(), "names are different");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
