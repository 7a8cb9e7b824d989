//! Files that say which files of a folder are no part of its catalog.

use super::{Verdict, property};
use crate::fuzz::fixture::{Fixture, parts};
use cvo::testing::catalog;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The files of the catalog, each with a package of its own.
const FILES: [(&str, &str); 5] = [
    ("one.json", "one"),
    ("a/two.json", "two"),
    ("a/b/three.json", "three"),
    ("c/two.json", "four"),
    ("c/#x y", "five"),
];
const PATTERNS: &str = ".indexignore";
/// Folders with patterns of their own.
const FOLDERS: [&str; 2] = ["", "a/"];

/// A catalog in memory where that can be.
struct Tree(PathBuf);

impl Tree {
    fn new() -> std::io::Result<Tree> {
        let memory = Path::new("/dev/shm");
        let base = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let tree = Tree(base.join(format!("cvo-fuzz-ignored-{}", std::process::id())));
        for (path, package) in FILES {
            let path = tree.0.join(path);
            fs::create_dir_all(path.parent().unwrap_or(&tree.0))?;
            fs::write(path, e2e::catalogs::catalog(package, &["1.0.0"]))?;
        }
        Ok(tree)
    }

    /// The packages that are served with these patterns, and what was wrong with those.
    fn packages(&self, patterns: &BTreeMap<&str, Vec<u8>>) -> Result<(BTreeSet<String>, usize), String> {
        for folder in FOLDERS {
            let path = self.0.join(folder).join(PATTERNS);
            match patterns.get(folder) {
                Some(bytes) => fs::write(path, bytes).map_err(|e| e.to_string())?,
                None => drop(fs::remove_file(path)),
            }
        }
        let read = catalog::read(&self.0, Vec::new()).map_err(|e| format!("the folder is no catalog: {e}"))?;
        for fault in &read.faults {
            let of_patterns = fault.file.ends_with(PATTERNS) || fault.line == 0;
            property(of_patterns, &format!("patterns make another file sick: {fault:?}"))?;
            property(!fault.file.is_empty() && !fault.reason.to_string().is_empty(), "a fault without a place")?;
        }
        let names = read.index.packages().map(|package| package.name().to_owned()).collect();
        Ok((names, read.fault_count))
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

thread_local! {
    static TREE: OnceCell<Tree> = const { OnceCell::new() };
}

/// Patterns leave files out and do nothing else, in their folder and below; written twice they mean the same; and a name leaves
/// out what has it.
pub(in crate::fuzz) fn patterns(_: &Fixture, input: &[u8]) -> Verdict {
    let mut given: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for (path, bytes) in parts(input) {
        if let Some(folder) = FOLDERS.into_iter().find(|folder| path == format!("{folder}{PATTERNS}")) {
            given.insert(folder, bytes);
        }
    }
    if given.is_empty() {
        given.insert("", input.to_vec());
    }
    TREE.with(|tree| {
        if tree.get().is_none() {
            let _set = tree.set(Tree::new().map_err(|e| e.to_string())?);
        }
        tree.get().ok_or("no folder")?.judge(&given)
    })
}

impl Tree {
    fn judge(&self, given: &BTreeMap<&str, Vec<u8>>) -> Verdict {
        let (served, faults) = self.packages(given)?;
        if !given.contains_key("") {
            let others = ["one", "four", "five"].iter().all(|other| served.contains(*other) || faults > 0);
            property(others, "patterns of a folder leave out files elsewhere")?;
        }
        let plain = |line: &[u8]| line.iter().all(|byte| byte.is_ascii_lowercase()) && !line.is_empty();
        let lines: Vec<(&str, &[u8])> = given
            .iter()
            .flat_map(|(folder, bytes)| bytes.split(|byte| *byte == b'\n').map(move |line| (*folder, line)))
            .collect();
        if lines.iter().all(|(_, line)| plain(line) || line.is_empty()) {
            let out = |path: &str| {
                let names = |folder: &str, line: &[u8]| {
                    let below = path.strip_prefix(folder);
                    below.is_some_and(|below| below.split('/').any(|part| part.as_bytes() == line))
                };
                lines.iter().any(|(folder, line)| names(folder, line))
            };
            let expected = FILES.iter().filter(|(path, _)| !out(path)).map(|(_, package)| (*package).to_owned());
            property(served == expected.collect(), &format!("names leave out something else: {served:?}"))?;
        }
        let marked = given.values().any(|bytes| bytes.starts_with("\u{feff}".as_bytes()));
        if faults == 0 && !marked {
            let twice =
                given.iter().map(|(folder, bytes)| (*folder, [bytes.as_slice(), b"\n", bytes].concat())).collect();
            let (again, faults) = self.packages(&twice)?;
            // There may be too many of them then.
            property(
                again == served || faults > 0,
                &format!("written twice, patterns leave {again:?} and not {served:?}"),
            )?;
        }
        Ok(faults == 0 && served.len() < FILES.len())
    }
}
