//! Reads the sources without their tests and fails on a dependency that goes up, on one from product to product, on IO or
//! a clock in the core, and on a cycle of modules in the core or of files. A name counts for the file that defines it, not for
//! one that re-exports it. That a file uses what its own parent module defines is usual in Rust, so such a use never closes a
//! cycle.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, iter, path::Path};

/// Rooms from top to bottom. A room uses the layers below its own, and the same layer of what its product is above. All rooms
/// that are not named are the core, and use each other.
const LAYERS: [&str; 6] =
    ["crate main testing layers", "cli", "daemon", "work", "process", "cluster net serve host heap"];
const CORE: usize = LAYERS.len();
/// A folder of the first level that is named here is a product with rooms of its own; what is in none of them is shared. What is
/// shared knows neither releases nor products, releases know no product, no product knows another one, and nothing knows the
/// commands over all of them.
const PRODUCTS: [&str; 5] = ["release", "cluster_version", "machine_config", "olm", "update_service"];
/// Commands that belong to no product, and those that concern releases. All others in that folder are over all products.
const COMMANDS: [(&str, &str); 2] = [
    ("shared", "exit layout output pages reach watched"),
    ("release", "filters folder image image_build image_files release"),
];
/// What cluster_version knows of other products: one module of each.
const SUMMARIES: [&str; 2] = ["machine_config::summary", "olm::summary"];
/// What the core does not touch.
const IO: &str = "tokio tokio_rustls tokio_util futures tower kube reqwest hyper hyper_util hyper_rustls rustls axum \
    tonic tonic_health tonic_prost tonic_reflection oci_client clap rustix tempfile uuid::Uuid::new_v4 std::fs std::env std::net std::os std::process std::thread \
    std::io::stdin std::io::stdout std::io::stderr std::time::Instant";
/// What a type of the API derives.
const DERIVE: &str = "kube::CustomResource";

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

/// Product and room of a module. A room is a module of the crate, or one in the folder of a product.
fn place(module: &str) -> (&'static str, &str) {
    let path = module.strip_prefix("crate::").unwrap_or(module);
    let mut parts = path.split("::");
    let (first, second) = (parts.next().unwrap(), parts.next().unwrap_or_default());
    if let Some(product) = PRODUCTS.into_iter().find(|product| *product == first) {
        return (product, prefixes(path).find(|path| path.matches("::").count() < 2).unwrap());
    }
    let command = || COMMANDS.iter().find(|(_, commands)| commands.split_whitespace().any(|it| it == second));
    match layer(first) {
        0 => ("all", first),
        1 => (command().map_or("all", |(product, _)| product), first),
        _ => ("shared", first),
    }
}

/// The number of a room's layer.
fn layer(room: &str) -> usize {
    let name = room.rsplit("::").next().unwrap();
    LAYERS.iter().position(|layer| layer.split_whitespace().any(|it| it == name)).unwrap_or(CORE)
}

/// Whether modules of the first product may use this module of the second one.
fn may_use(from: &str, to: &str, module: &str) -> bool {
    let rank = |product: &str| ["shared", "release", "", "all"].iter().position(|it| *it == product).unwrap_or(2);
    from == to || rank(from) > rank(to) || from == "cluster_version" && SUMMARIES.contains(&module)
}

type Edges = BTreeMap<(String, String), String>;
fn reaches<'a>(edges: &'a Edges, from: &'a str, to: &str, seen: &mut BTreeSet<&'a str>) -> bool {
    seen.insert(from) && edges.keys().any(|(a, b)| a == from && (b == to || reaches(edges, b, to, seen)))
}

/// What breaks a rule, as `file:line: path: rule`.
fn faults(sources: &BTreeMap<String, String>) -> Vec<String> {
    let (mut all, mut faults, mut edges) = (Crate::default(), Vec::new(), Edges::new());
    let mut crossings = BTreeMap::new();
    for (file, source) in sources.iter().filter(|(file, _)| file.ends_with(".rs") && !file.contains("tests")) {
        let module = file.replace(".rs", "").replace("src/lib", "crate").replace("src/", "crate/").replace('/', "::");
        all.add(&module, syn::parse_file(source).unwrap().to_token_stream(), &[], false);
        all.files.insert(module, file);
    }
    let io = |full: &str| full != DERIVE && prefixes(full).any(|path| IO.split(' ').any(|io| io == path));
    for (line, module, path) in &all.paths {
        let (file, full) = (all.files[module], all.resolve(module, path));
        let ((product, from), place_of) = (place(module), format!("{file}:{line}: `{full}`"));
        let in_core = layer(from) == CORE;
        if in_core && (full.ends_with("::now") || io(&full)) {
            faults.push(format!("{place_of}: the core does no IO and reads no clock"));
        }
        let Some(used) = full.strip_prefix("crate::") else { continue };
        let (theirs, to) = place(used);
        let used = prefixes(used).find(|it| all.files.contains_key(&format!("crate::{it}"))).unwrap_or(used);
        let (own, other) = (layer(from), layer(to));
        if from != to && own >= other && !(own == other && (in_core || product != theirs)) {
            faults.push(format!("{place_of}: `{from}` is in no layer above `{to}`"));
        } else if !may_use(product, theirs, used) {
            let rule = format!("{place_of}: `{product}` does not know `{theirs}`");
            crossings.entry((module, used.to_owned())).or_insert(rule);
        }
        let home = prefixes(&full).find_map(|module| all.files.get(module)).unwrap_or(&file);
        let (from, to) = if from == to { (file, *home) } else { (from, if in_core { to } else { from }) };
        if from != to && !from.starts_with(&format!("{}/", to.trim_end_matches(".rs"))) {
            edges.entry((from.to_owned(), to.to_owned())).or_insert(place_of);
        }
    }
    faults.extend(crossings.into_values());
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
        ("net: use {crate::{cluster::X, gate}, cvo::cli::Y};", "net.rs:1: cli::Y, net.rs:1: cluster::X"),
        ("gate/x: mod a {\n use super::super::super::cli; }", "gate/x.rs:2: cli"),
        ("gate: fn a() { b!(c, crate::net::d()) }", "gate.rs:1: net::d"),
        ("diff: use std::{io, fs::{self as f}}; fn a() { f::b() }", "diff.rs:1: std::fs, diff.rs:1: std::fs::b"),
        ("diff: use kube::*; b!(std::time::Instant);", "diff.rs:1: kube, diff.rs:1: std::time::Instant"),
        ("diff: use kube::CustomResource; use kube::Client;", "diff.rs:1: kube::Client"),
        ("diff: #[cfg(test)] mod t { use tokio::A; } fn a() { B::now::<C>() }", "diff.rs:1: B::now"),
        ("process: use std::fs::A; use crate::net::B;@diff/tests/a: use std::fs::A;", ""),
        ("diff: use crate::gate::A;@gate/x: use crate::diff::B;", "diff.rs:1: gate::A, gate/x.rs:1: diff::B"),
        ("net/a: use super::B;@net/b: use super::a::A;@net: use b::B;", "net/a.rs:1: net::b::B, net/b.rs:1: net::a::A"),
        ("net/a: use super::A;@net: use a::B; struct A;", ""),
        // Shared to release and to product, release to product, product to product.
        ("merge: use crate::{release::A, olm::catalog::B};", "merge.rs:1: olm::catalog::B, merge.rs:1: release::A"),
        ("release/load: use crate::{gate::A, olm::catalog::B};", "release/load.rs:1: olm::catalog::B"),
        (
            "olm/catalog: use crate::{gate::A, release::load::B, olm::plan::C, cluster_version::status::D};",
            "olm/catalog.rs:1: cluster_version::status::D",
        ),
        ("olm/catalog: use super::work::A;", "olm/catalog.rs:1: olm::work::A"),
        ("olm/work/a: use crate::{release::work::A, process::B, olm::catalog::C};", ""),
        ("olm/work/a: use crate::machine_config::work::A;", "olm/work/a.rs:1: machine_config::work::A"),
        (
            "cluster_version/plan: use crate::olm::{catalog::A, summary::B};@olm/summary: struct B;",
            "cluster_version/plan.rs:1: olm::catalog::A",
        ),
        // Commands: what they share knows none of them, a product uses what they share, and the dispatch knows all.
        ("cli/output: use super::status::A;@cli/status: use super::exit::B;", "cli/output.rs:1: cli::status::A"),
        ("cli/image: use super::{exit::A, folder::B, plan::C};", "cli/image.rs:1: cli::plan::C"),
        ("olm/cli/show: use crate::cli::{reach::A, image::B, status::C};", "olm/cli/show.rs:1: cli::status::C"),
        (
            "olm/cli/show: use crate::cli::Cli;@cli: use crate::olm::cli::show::A; struct Cli;",
            "olm/cli/show.rs:1: cli::Cli",
        ),
        ("cli: use status::A; use crate::olm::work::B;@cli/status: struct A;", ""),
    ] {
        let file = |file: &str| file.split_once(": ").map(|(name, text)| (format!("src/{name}.rs"), text.to_owned()));
        let found = faults(&sources.split('@').filter_map(file).collect());
        let places: BTreeSet<_> = found.iter().filter_map(|fault| fault.split("`: ").next()).collect();
        let places = Vec::from_iter(places).join(", ");
        assert_eq!(places.replace("src/", "").replace('`', "").replace("crate::", ""), expected);
    }
}
