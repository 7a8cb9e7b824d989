//! The dependency rule, kept by a test: arrows between rooms go down only, and the core does no IO (architecture §1).
//!
//! Sources are read as tokens, so comments and texts do not count and a grouped `use` does. Inside the core, code
//! under `#[cfg(test)]` may read files; it may not use an upper room either.

mod acceptance;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Rooms by height. A room may use rooms of its own height and below. A new room is entered here.
const ROOMS: [(u8, &[&str]); 7] = [
    (0, &["api"]),
    (CORE, &["version", "payload", "graph", "merge", "gate", "status", "updates", "verify", "pools", "olm", "plan"]),
    (2, &["cluster", "net", "serve", "host"]),
    (3, &["work"]),
    (4, &["daemon"]),
    (5, &["cli"]),
    (6, &["main", "lib", "house"]),
];
const CORE: u8 = 1;

/// What the core does not do, by the head of a path.
const IO: [(&[&str], &str); 24] = [
    (&["tokio"], "a runtime"),
    (&["tokio_rustls"], "a runtime"),
    (&["tokio_util"], "a runtime"),
    (&["futures"], "a runtime"),
    (&["tower"], "a runtime"),
    (&["kube"], "a client; API types come from crate::api"),
    (&["reqwest"], "the network"),
    (&["hyper"], "the network"),
    (&["hyper_util"], "the network"),
    (&["hyper_rustls"], "the network"),
    (&["rustls"], "the network"),
    (&["axum"], "the network"),
    (&["oci_client"], "the network"),
    (&["clap"], "arguments"),
    (&["rustix"], "the operating system"),
    (&["tempfile"], "files"),
    (&["std", "fs"], "files"),
    (&["std", "env"], "the environment"),
    (&["std", "net"], "the network"),
    (&["std", "os"], "the operating system"),
    (&["std", "process"], "processes"),
    (&["std", "thread"], "threads"),
    (&["std", "io", "stdin"], "the terminal"),
    (&["std", "io", "stdout"], "the terminal"),
];

/// Clocks, by the name anywhere in a path; `now` as the last part of one is a clock whoever it belongs to. `SystemTime` is
/// also the type in which a library takes a time that the caller was given, so naming it alone reads no clock.
const CLOCKS: [&str; 1] = ["Instant"];

/// A path in the source, such as `crate::gate::judge`, with `super` resolved and `cvo` read as `crate`.
#[derive(Debug, PartialEq)]
struct Named {
    line: usize,
    parts: Vec<String>,
    /// Under `#[cfg(test)]`.
    test: bool,
}

#[derive(Clone, Debug, PartialEq)]
struct Token {
    line: usize,
    text: String,
}

/// Words, `::`, and single other characters; no comments, texts, characters or lifetimes.
fn tokens(source: &str) -> Vec<Token> {
    let chars: Vec<char> = source.chars().collect();
    let at = |i: usize| chars.get(i).copied().unwrap_or('\0');
    let (mut i, mut line, mut found) = (0, 1, Vec::new());
    while i < chars.len() {
        let start = i;
        let c = at(i);
        let word = |c: char| c.is_alphanumeric() || c == '_';
        if c == '/' && at(i + 1) == '/' {
            while i < chars.len() && at(i) != '\n' {
                i += 1;
            }
        } else if c == '/' && at(i + 1) == '*' {
            i = after_comment(&chars, i);
        } else if let Some(end) = after_raw_text(&chars, i) {
            i = end;
        } else if c == '"' {
            i += 1;
            while i < chars.len() && at(i) != '"' {
                i += if at(i) == '\\' { 2 } else { 1 };
            }
            i += 1;
        } else if c == '\'' && at(i + 1) == '\\' {
            i += 3;
            while i < chars.len() && at(i) != '\'' {
                i += 1;
            }
            i += 1;
        } else if c == '\'' && at(i + 2) == '\'' {
            i += 3;
        } else if c == '\'' {
            i += 1;
            while word(at(i)) {
                i += 1;
            }
        } else if word(c) {
            while word(at(i)) {
                i += 1;
            }
            found.push(Token { line, text: chars[start..i].iter().collect() });
        } else {
            i += if c == ':' && at(i + 1) == ':' { 2 } else { 1 };
            if !c.is_whitespace() {
                found.push(Token { line, text: chars[start..i].iter().collect() });
            }
        }
        line += chars[start..i.min(chars.len())].iter().filter(|c| **c == '\n').count();
    }
    found
}

fn after_comment(chars: &[char], start: usize) -> usize {
    let (mut i, mut depth) = (start, 0);
    while i < chars.len() {
        match (chars[i], chars.get(i + 1)) {
            ('/', Some('*')) => (depth, i) = (depth + 1, i + 2),
            ('*', Some('/')) => (depth, i) = (depth - 1, i + 2),
            _ => i += 1,
        }
        if depth == 0 {
            break;
        }
    }
    i
}

/// The end of `r"..."`, `br#"..."#` and the like; `None` if none begins here.
fn after_raw_text(chars: &[char], start: usize) -> Option<usize> {
    let in_word = start > 0 && (chars[start - 1].is_alphanumeric() || chars[start - 1] == '_');
    let mut i = start + usize::from(matches!(chars[start], 'b' | 'c'));
    if in_word || chars.get(i) != Some(&'r') {
        return None;
    }
    i += 1;
    let hashes = chars[i..].iter().take_while(|c| **c == '#').count();
    i += hashes;
    if chars.get(i) != Some(&'"') {
        return None;
    }
    let closes = |j: usize| chars[j] == '"' && (1..=hashes).all(|k| chars.get(j + k) == Some(&'#'));
    Some((i + 1..chars.len()).find(|&j| closes(j)).map_or(chars.len(), |j| j + 1 + hashes))
}

/// All paths of a file that lies at `module` (empty for the root), and the modules it declares for tests only.
fn paths(source: &str, module: &[String]) -> (Vec<Named>, Vec<String>) {
    let tokens = tokens(source);
    let text = |i: usize| tokens.get(i).map_or("", |token: &Token| token.text.as_str());
    let (mut found, mut test_modules) = (Vec::new(), Vec::new());
    // Open inline modules, each with the depth of braces outside it, and the depth outside the test code, if in it.
    let (mut inside, mut depth, mut test) = (Vec::<(String, usize)>::new(), 0, None::<usize>);
    let mut marked = false;
    let mut i = 0;
    while i < tokens.len() {
        let cfg_test = ["#", "[", "cfg", "(", "test", ")", "]"];
        if (0..cfg_test.len()).all(|k| text(i + k) == cfg_test[k]) {
            marked = true;
            i += cfg_test.len();
            continue;
        }
        match text(i) {
            "mod" if text(i + 2) == "{" => inside.push((text(i + 1).to_owned(), depth)),
            "mod" if text(i + 2) == ";" && marked => test_modules.push(text(i + 1).to_owned()),
            "{" => {
                if marked && test.is_none() {
                    test = Some(depth);
                }
                marked = false;
                depth += 1;
            }
            "}" => {
                depth = depth.saturating_sub(1);
                inside.retain(|(_, outside)| *outside < depth);
                test = test.filter(|outside| *outside < depth);
            }
            ";" => marked = false,
            _ => {}
        }
        let starts = text(i).starts_with(|c: char| c.is_alphabetic() || c == '_');
        let continues =
            i > 0 && text(i - 1) == "::" && i > 1 && text(i - 2).ends_with(|c: char| c.is_alphanumeric() || c == '_');
        if starts && !continues && (text(i + 1) == "::" || (i > 0 && text(i - 1) == "use")) {
            let here: Vec<String> = module.iter().cloned().chain(inside.iter().map(|(name, _)| name.clone())).collect();
            let mut all = Vec::new();
            let end = expand(&tokens, i, &[], &mut all);
            let test = test.is_some() || marked;
            found.extend(all.into_iter().map(|(line, parts)| Named { line, parts: resolve(parts, &here), test }));
            // A group was walked whole; after a plain path the next token may open something.
            i = end.max(i + 1);
            continue;
        }
        i += 1;
    }
    (found, test_modules)
}

/// Walks a path from its first word, with all branches of a group; returns the position after it.
fn expand(tokens: &[Token], start: usize, head: &[String], all: &mut Vec<(usize, Vec<String>)>) -> usize {
    let text = |i: usize| tokens.get(i).map_or("", |token| token.text.as_str());
    let mut parts = head.to_vec();
    let mut i = start;
    loop {
        parts.push(text(i).to_owned());
        i += 1;
        if text(i) != "::" {
            break;
        }
        i += 1;
        if text(i) == "{" {
            i += 1;
            while i < tokens.len() && text(i) != "}" {
                // Between branches stand commas and `as name`.
                i = match text(i) {
                    "," => i + 1,
                    "as" => i + 2,
                    _ => expand(tokens, i, &parts, all),
                };
            }
            return i + 1;
        }
        if !text(i).starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '*') {
            break;
        }
    }
    all.push((tokens[start].line, parts));
    i
}

/// Makes a path that begins with `super` or `self` one that begins with `crate`; reads `cvo` as `crate`.
fn resolve(parts: Vec<String>, here: &[String]) -> Vec<String> {
    let supers = parts.iter().skip(usize::from(parts[0] == "self")).take_while(|part| *part == "super").count();
    let crate_ = || std::iter::once("crate".to_owned());
    match parts[0].as_str() {
        "cvo" => crate_().chain(parts.into_iter().skip(1)).collect(),
        "self" | "super" => {
            let skip = supers + usize::from(parts[0] == "self");
            let base = &here[..here.len().saturating_sub(supers)];
            crate_().chain(base.iter().cloned()).chain(parts.into_iter().skip(skip)).collect()
        }
        _ => parts,
    }
}

fn height(room: &str) -> Option<u8> {
    ROOMS.iter().find(|(_, rooms)| rooms.contains(&room)).map(|(height, _)| *height)
}

/// What a path at `room` does wrong, if anything.
fn offence(room: &str, named: &Named) -> Option<String> {
    let parts: Vec<&str> = named.parts.iter().map(String::as_str).collect();
    let path = parts.join("::");
    let Some(own) = height(room) else {
        return Some(format!(
            "`{room}` is no room of the house: enter it in ROOMS of src/house.rs and in architecture.md"
        ));
    };
    if let ["crate", other, ..] = parts[..]
        && own < 6
    {
        return match height(other) {
            None => Some(format!("`{path}`: `{other}` is no room of the house; name things by the room they live in")),
            Some(theirs) if theirs > own => Some(format!("`{path}`: an arrow from `{room}` up to `{other}`")),
            Some(_) => clock(own, named, &parts).map(|what| format!("`{path}`: the core uses {what}")),
        };
    }
    if own != CORE || named.test {
        return None;
    }
    let io = IO.iter().find(|(head, _)| parts.starts_with(head)).map(|(_, what)| *what);
    io.or_else(|| clock(own, named, &parts)).map(|what| format!("`{path}`: the core uses {what}"))
}

fn clock(own: u8, named: &Named, parts: &[&str]) -> Option<&'static str> {
    let reads = parts.iter().any(|part| CLOCKS.contains(part)) || parts.last() == Some(&"now");
    (own == CORE && !named.test && reads).then_some("a clock; `now` is an argument")
}

/// Files below a folder, with their module path.
fn sources(folder: &Path, module: &[String], found: &mut Vec<(PathBuf, Vec<String>)>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let here: Vec<String> = module.iter().cloned().chain([name]).collect();
        if path.is_dir() {
            sources(&path, &here, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push((path, here));
        }
    }
}

/// Offences of a whole tree, as `file:line: what`.
fn offences(files: &[(String, Vec<String>, String)]) -> Vec<String> {
    let at = |module: &[String]| {
        if matches!(module, [one] if one == "main" || one == "lib") { vec![] } else { module.to_vec() }
    };
    let read: Vec<_> = files.iter().map(|(file, module, source)| (file, module, paths(source, &at(module)))).collect();
    let tests: BTreeSet<Vec<String>> = read
        .iter()
        .flat_map(|(_, module, (_, tests))| {
            tests.iter().map(|name| at(module).into_iter().chain([name.clone()]).collect())
        })
        .collect();
    let mut all = Vec::new();
    for (file, module, (names, _)) in read {
        let only_test = (1..=module.len()).any(|n| tests.contains(&module[..n]));
        for named in names {
            let named = Named { test: named.test || only_test, ..named };
            all.extend(offence(&module[0], &named).map(|what| format!("{file}:{}: {what}", named.line)));
        }
    }
    all
}

#[test]
fn arrows_go_down_and_the_core_does_no_io() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    sources(&root.join("src"), &[], &mut found);
    let read = |(path, module): (PathBuf, Vec<String>)| {
        (path.strip_prefix(root).unwrap().display().to_string(), module, fs::read_to_string(&path).unwrap())
    };
    let files: Vec<_> = found.into_iter().map(read).collect();
    let rooms: BTreeSet<&str> = files.iter().map(|(_, module, _)| module[0].as_str()).collect();
    for room in ["main", "cli", "daemon", "work", "cluster", "gate", "graph", "api"] {
        assert!(rooms.contains(room), "no file of {room} was read: is the tree another one?");
    }
    let all = offences(&files);
    assert!(all.is_empty(), "{} offences against the dependency rule:\n{}", all.len(), all.join("\n"));
}

#[test]
fn offences_are_found_with_file_and_line() {
    let table: [(&str, &str, &[&str]); 20] = [
        ("gate", "use crate::cluster::Index;", &["1: `crate::cluster::Index`: an arrow from `gate` up to `cluster`"]),
        ("gate/x", "\n\nfn f() { crate::work::go(); }", &["3: `crate::work::go`: an arrow"]),
        ("cluster", "use cvo::work::Loop;", &["1: `crate::work::Loop`: an arrow"]),
        ("api", "use crate::{gate::judge,\n daemon};", &["1: `crate::gate::judge`", "2: `crate::daemon`"]),
        ("graph/build", "use super::super::cli::run;", &["1: `crate::cli::run`: an arrow"]),
        ("graph/build", "mod a { use super::super::super::cli; }", &["1: `crate::cli`: an arrow"]),
        ("graph/build", "mod a { use super::super::cli; }", &[]),
        ("graph", "use std::{io, fs::File};", &["1: `std::fs::File`: the core uses files"]),
        ("graph", "fn f() { let x = ::std::env::var(\"A\"); }", &["1: `std::env::var`: the core uses the environment"]),
        ("status", "use tokio;", &["1: `tokio`: the core uses a runtime"]),
        ("status", "fn f(c: kube::Client) {}", &["1: `kube::Client`: the core uses a client"]),
        ("updates", "fn f() { jiff::Timestamp::now(); }", &["1: `jiff::Timestamp::now`: the core uses a clock"]),
        ("updates", "use std::time::{Duration, Instant};", &["1: `std::time::Instant`: the core uses a clock"]),
        ("gate", "use crate::frobnicate::X;", &["1: `crate::frobnicate::X`: `frobnicate` is no room"]),
        ("cellar", "use std::fmt;", &["1: `cellar` is no room of the house"]),
        ("gate", "// use crate::work;\n/* use /* tokio::x */ std::fs::y */ const A: &str = \"std::fs::z\";", &[]),
        (
            "gate",
            "const A: &str = r#\"\" std::fs::a\"#; const B: [char; 2] = ['\"', '\\''];\nfn f<'a>() { std::fs::b() }",
            &["2: `std::fs::b`"],
        ),
        (
            "gate",
            "#[cfg(test)]\nmod tests { use std::fs; use crate::work::X; }\nuse std::net::IpAddr;",
            &["2: `crate::work::X`", "3: `std::net::IpAddr`"],
        ),
        ("work", "use crate::{gate::judge, cluster::Index, net, api}; use tokio::fs; use std::time::Instant;", &[]),
        ("cli", "use crate::daemon::run; use std::env;", &[]),
    ];
    for (file, source, expected) in table {
        let module = file.split('/').map(str::to_owned).collect();
        let all = offences(&[(String::new(), module, source.to_owned())]);
        let fits = all.len() == expected.len()
            && all.iter().zip(expected).all(|(got, want)| got.starts_with(&format!(":{want}")));
        assert!(fits, "{file}: {source}\nfound {all:?}\nwanted {expected:?}");
    }
}

#[test]
fn a_file_that_is_declared_for_tests_only_may_read_files() {
    let file =
        |name: &str, source: &str| (name.to_owned(), name.split('/').map(str::to_owned).collect(), source.to_owned());
    let user = file("gate/tests", "use std::fs;");
    assert_eq!(offences(&[file("gate", "#[cfg(test)]\nmod tests;"), user.clone()]), Vec::<String>::new());
    assert_eq!(offences(&[file("gate", "mod tests;"), user]).len(), 1);
}
