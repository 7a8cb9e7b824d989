//! Reads the sources without their tests and fails on a dependency that goes up, on IO or a clock in the core, and on a
//! cycle of modules in the core or of files. A name counts for the file that defines it, not for one that re-exports it.
//! That a file uses what its own parent module defines is usual in Rust, so such a use never closes a cycle.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, iter, path::Path};

/// From top to bottom. A module uses the layers below its own; modules of the core also use each other.
const LAYERS: [&str; 7] =
    ["crate main testing layers", "cli", "daemon", "work", "cluster net serve host", CORE, "api error read"];
const CORE: &str = "version payload graph rollout merge gate status updates verify plan rbac metrics pools catalog olm \
    diagnosis pause promql";
/// What the core does not touch. API types come from `crate::api`.
const IO: &str = "tokio tokio_rustls tokio_util futures tower kube reqwest hyper hyper_util hyper_rustls rustls axum \
    oci_client clap rustix tempfile uuid::Uuid::new_v4 std::fs std::env std::net std::os std::process std::thread \
    std::io::stdin std::io::stdout std::io::stderr std::time::Instant";

/// The file of each module, the path behind each name that a `use` brings into a module, and all paths as they are
/// written, with line and module.
#[derive(Default)]
struct Crate<'a> {
    files: BTreeMap<String, &'a str>,
    imports: BTreeMap<String, Vec<String>>,
    paths: Vec<(usize, String, Vec<String>)>,
}

impl Crate<'_> {
    /// Adds all paths, also those in the input of macros. `prefix` stands before the braces of a `use`.
    fn add(&mut self, module: &str, tokens: TokenStream, prefix: &[String], mut in_use: bool) {
        let (mut path, mut is_test) = (prefix.to_vec(), false);
        let texts = Vec::from_iter(tokens.clone().into_iter().map(|token| token.to_string()));
        let text = |at: usize| texts.get(at).map_or("", |text| text);
        for (at, token) in tokens.into_iter().enumerate() {
            match (token, text(at)) {
                (_, text) if is_test => is_test = text != ";" && !text.starts_with('{'),
                (TokenTree::Group(group), text) => {
                    self.add(module, group.stream(), &path, in_use);
                    is_test = text == "[cfg (test)]";
                }
                (_, ":") => continue,
                (_, word @ ("use" | ";")) => in_use = word == "use" && text(at + 1) != "<",
                (TokenTree::Ident(ident), name) if !in_use || name != "as" && text(at.wrapping_sub(1)) != "as" => {
                    path.extend((name != "self" || path.is_empty()).then(|| name.to_owned()));
                    if (text(at + 1), text(at + 2)) == (":", ":") && !matches!(text(at + 3), "<" | "*") {
                        continue;
                    } else if in_use {
                        let name = if text(at + 1) == "as" { text(at + 2) } else { &path[path.len() - 1] };
                        self.imports.insert(format!("{module}::{name}"), path.clone());
                    }
                    if in_use || path.len() > 1 {
                        self.paths.push((ident.span().start().line, module.to_owned(), path));
                    }
                }
                _ => {}
            }
            path = prefix.to_vec();
        }
    }

    /// What a path names in a module, by the module (or other crate) that defines it.
    fn resolve(&self, module: &str, path: &[String]) -> String {
        path.iter().enumerate().fold(module.to_owned(), |at, (i, part)| {
            let full = format!("{at}::{part}");
            match (part.as_str(), self.imports.get(&full)) {
                ("crate" | "cvo", _) if i == 0 => "crate".to_owned(),
                ("self", _) => at,
                ("super", _) => prefixes(&at).nth(1).unwrap_or("crate").to_owned(),
                _ if self.files.contains_key(&full) => full,
                (_, Some(import)) if i > 0 || import[0] != *part => self.resolve(&at, import),
                _ if i == 0 => part.clone(),
                _ => full,
            }
        })
    }
}

/// `a::b::c`, `a::b`, `a`.
fn prefixes(path: &str) -> impl Iterator<Item = &str> {
    iter::successors(Some(path), |path| path.rsplit_once("::").map(|(prefix, _)| prefix))
}

type Edges = BTreeMap<(String, String), String>;
fn reaches<'a>(edges: &'a Edges, from: &'a str, to: &str, seen: &mut BTreeSet<&'a str>) -> bool {
    seen.insert(from) && edges.keys().any(|(a, b)| a == from && (b == to || reaches(edges, b, to, seen)))
}

/// What breaks a rule, as `file:line: path: rule`.
fn faults(sources: &BTreeMap<String, String>) -> Vec<String> {
    let (mut all, mut faults, mut edges) = (Crate::default(), Vec::new(), Edges::new());
    for (file, source) in sources.iter().filter(|(file, _)| file.ends_with(".rs") && !file.contains("tests")) {
        let module = file.replace(".rs", "").replace("src/lib", "crate").replace("src/", "crate/").replace('/', "::");
        all.add(&module, syn::parse_file(source).unwrap().to_token_stream(), &[], false);
        all.files.insert(module, file);
    }
    let layer = |module: &str| LAYERS.iter().position(|layer| layer.split(' ').any(|name| name == module));
    for (line, module, path) in &all.paths {
        let (file, full) = (all.files[module], all.resolve(module, path));
        let (place, from) = (format!("{file}:{line}: `{full}`"), module.split("::").nth(1).unwrap_or("crate"));
        let in_core = layer(from) == layer("graph");
        if in_core && (full.ends_with("::now") || prefixes(&full).any(|path| IO.split(' ').any(|io| io == path))) {
            faults.push(format!("{place}: the core does no IO and reads no clock"));
        }
        let Some(to) = full.strip_prefix("crate::").and_then(|path| path.split("::").next()) else { continue };
        match (layer(from), layer(to)) {
            (Some(own), Some(theirs)) if from == to || own < theirs || own == theirs && in_core => {}
            _ => faults.push(format!("{place}: `{from}` is in no layer above `{to}`")),
        }
        let home = prefixes(&full).find_map(|module| all.files.get(module)).unwrap_or(&file);
        let (from, to) = if from == to { (file, *home) } else { (from, if in_core { to } else { from }) };
        if from != to && !from.starts_with(&format!("{}/", to.trim_end_matches(".rs"))) {
            edges.entry((from.to_owned(), to.to_owned())).or_insert(place);
        }
    }
    let cycles = edges.iter().filter(|((from, to), _)| reaches(&edges, to, from, &mut BTreeSet::new()));
    faults.extend(cycles.map(|((from, to), place)| format!("{place}: a cycle, as `{to}` also needs `{from}`")));
    faults
}

/// The sources by their paths. What tests read beside them is not text.
fn read(path: &Path) -> BTreeMap<String, String> {
    let file = |_| match path.extension().is_some_and(|extension| extension == "rs") {
        true => [(path.display().to_string(), fs::read_to_string(path).unwrap())].into(),
        false => BTreeMap::new(),
    };
    fs::read_dir(path).map_or_else(file, |entries| entries.flat_map(|entry| read(&entry.unwrap().path())).collect())
}

#[test]
fn dependencies_go_down_without_cycles_and_the_core_does_no_io() {
    let faults = faults(&read(Path::new("src")));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn faults_are_found_with_file_and_line() {
    for (sources, expected) in [
        ("net: use {crate::{cluster::X, gate}, cvo::Y};", "net.rs:1: cluster::X, net.rs:1: Y"),
        ("graph/x: mod a {\n use super::super::super::cli; }", "graph/x.rs:2: cli"),
        ("api: fn a() { b!(c, crate::gate::d()) }", "api.rs:1: gate::d"),
        ("plan: use std::{io, fs::{self as f}}; fn a() { f::b() }", "plan.rs:1: std::fs, plan.rs:1: std::fs::b"),
        ("plan: use kube::*; b!(std::time::Instant);", "plan.rs:1: kube, plan.rs:1: std::time::Instant"),
        ("plan: #[cfg(test)] mod t { use tokio::A; } fn a() { B::now::<C>() }", "plan.rs:1: B::now"),
        ("work: use std::fs::A; use crate::net::B;@plan/tests/a: use std::fs::A;", ""),
        ("plan: use crate::gate::A;@gate/x: use crate::plan::B;", "gate/x.rs:1: plan::B, plan.rs:1: gate::A"),
        ("net/a: use super::B;@net/b: use super::a::A;@net: use b::B;", "net/a.rs:1: net::b::B, net/b.rs:1: net::a::A"),
        ("net/a: use super::A;@net: use a::B; struct A;", ""),
    ] {
        let file = |file: &str| file.split_once(": ").map(|(name, text)| (format!("src/{name}.rs"), text.to_owned()));
        let found = faults(&sources.split('@').filter_map(file).collect());
        let places: Vec<_> = found.iter().filter_map(|fault| fault.split("`: ").next()).collect();
        assert_eq!(places.join(", ").replace("src/", "").replace('`', "").replace("crate::", ""), expected);
    }
}
