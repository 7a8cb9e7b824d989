//! Reads the sources without their tests and fails on a dependency that goes up, on one from product to product, on IO or
//! a clock in the core, and on a cycle of modules in the core or of files. A name counts for the file that defines it, not for
//! one that re-exports it. That a file uses what its own parent module defines is usual in Rust, so such a use never closes a
//! cycle.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use std::{fs, iter, path::Path};

/// From top to bottom. A module uses the layers below its own; modules of the core also use each other.
const LAYERS: [&str; 7] =
    ["crate main testing layers", "cli", "daemon", "work", "cluster net serve host heap", CORE, "api error read"];
const CORE: &str = "version payload graph rollout merge gate status updates verify plan rbac metrics pools catalog \
    diagnosis pause promql summary";
/// The products, each with its modules, by the longest path that names one; whatever is in the folder of a product belongs to
/// it. What is shared knows neither releases nor products, releases know no product, no product knows another one, and
/// nothing knows the commands over all of them.
const PRODUCTS: [(&str, &str); 7] = [
    (
        "shared",
        "api error read diagnosis gate merge metrics::encoder metrics::process heap pause payload::built_in \
         payload::definition payload::manifest payload::packed payload::yaml pools::budgets pools::selector promql verify \
         version cluster net serve work::egress work::events work::promql work::serving work::settings daemon::leader \
         daemon::signals cli::exit cli::layout cli::output cli::pages cli::reach",
    ),
    (
        "release",
        "api::release payload plan::lint updates::graph work::features work::payload_dir cli::filters cli::folder \
         cli::image cli::image_build cli::release",
    ),
    (
        "cluster_version",
        "api::cluster_version api::progress graph metrics plan rbac rollout status updates work daemon cli::ack cli::graph \
         cli::payload cli::preflight cli::rbac cli::render cli::request cli::start cli::verify",
    ),
    (
        "machine_config",
        "api::machine_config api::machine_config_node api::node_config metrics::pools pools host work::machine_config \
         work::node_agent work::pods daemon::machine_config cli::machine_config cli::node cli::node_agent",
    ),
    ("olm", ""),
    ("update_service", ""),
    ("all", "crate main testing layers cli"),
];
/// What cluster_version knows of other products: one module of each.
const SUMMARIES: [&str; 2] = ["pools::summary", "olm::summary"];
/// Uses of one module by another that break this rule, each of them to be removed.
const PENDING: [(&str, &str); 2] = [("api", "api::cluster_version"), ("api", "api::release")];
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

/// Product and room of a module. A room is a module of the crate, or one in the folder of a product.
fn place(module: &str) -> (&'static str, &str) {
    let path = module.strip_prefix("crate::").unwrap_or(module);
    let first = path.split("::").next().unwrap();
    if let Some((product, _)) = PRODUCTS.iter().find(|(product, _)| *product == first) {
        return (product, prefixes(path).find(|path| path.matches("::").count() < 2).unwrap());
    }
    let named = |path| PRODUCTS.iter().find(|(_, modules)| modules.split_whitespace().any(|module| module == path));
    (prefixes(path).find_map(named).map_or("", |(product, _)| product), first)
}

/// Whether modules of the first product may use this module of the second one.
fn may_use(from: &str, to: &str, module: &str) -> bool {
    let rank = |product: &str| ["shared", "release", "", "all"].iter().position(|it| *it == product).unwrap_or(2);
    let above = from == to || rank(from) > rank(to) || from == "cluster_version" && SUMMARIES.contains(&module);
    above && !from.is_empty() && !to.is_empty()
}

type Edges = BTreeMap<(String, String), String>;
fn reaches<'a>(edges: &'a Edges, from: &'a str, to: &str, seen: &mut BTreeSet<&'a str>) -> bool {
    seen.insert(from) && edges.keys().any(|(a, b)| a == from && (b == to || reaches(edges, b, to, seen)))
}

/// What breaks a rule, as `file:line: path: rule`.
fn faults(sources: &BTreeMap<String, String>, pending: &[(&str, &str)]) -> Vec<String> {
    let (mut all, mut faults, mut edges, mut crossings) = (Crate::default(), Vec::new(), Edges::new(), Edges::new());
    for (file, source) in sources.iter().filter(|(file, _)| file.ends_with(".rs") && !file.contains("tests")) {
        let module = file.replace(".rs", "").replace("src/lib", "crate").replace("src/", "crate/").replace('/', "::");
        all.add(&module, syn::parse_file(source).unwrap().to_token_stream(), &[], false);
        all.files.insert(module, file);
    }
    let name = |room: &str| room.rsplit("::").next().unwrap().to_owned();
    let layer = |room: &str| LAYERS.iter().position(|layer| layer.split_whitespace().any(|it| it == name(room)));
    for (line, module, path) in &all.paths {
        let (file, full) = (all.files[module], all.resolve(module, path));
        let ((product, from), place_of) = (place(module), format!("{file}:{line}: `{full}`"));
        let in_core = layer(from) == layer("graph");
        if in_core && (full.ends_with("::now") || prefixes(&full).any(|path| IO.split(' ').any(|io| io == path))) {
            faults.push(format!("{place_of}: the core does no IO and reads no clock"));
        }
        let Some(used) = full.strip_prefix("crate::") else { continue };
        let (theirs, to) = place(used);
        let used = prefixes(used).find(|it| all.files.contains_key(&format!("crate::{it}"))).unwrap_or(used);
        match (layer(from), layer(to)) {
            (Some(own), Some(other)) if from == to || own < other || own == other && in_core => {
                if !may_use(product, theirs, used) {
                    let users = module.strip_prefix("crate::").unwrap_or(module).to_owned();
                    let rule = format!("{place_of}: `{product}` does not know `{theirs}`");
                    crossings.entry((users, used.to_owned())).or_insert(rule);
                }
            }
            _ => faults.push(format!("{place_of}: `{from}` is in no layer above `{to}`")),
        }
        let home = prefixes(&full).find_map(|module| all.files.get(module)).unwrap_or(&file);
        let (from, to) = if from == to { (file, *home) } else { (from, if in_core { to } else { from }) };
        if from != to && !from.starts_with(&format!("{}/", to.trim_end_matches(".rs"))) {
            edges.entry((from.to_owned(), to.to_owned())).or_insert(place_of);
        }
    }
    let cycles = edges.iter().filter(|((from, to), _)| reaches(&edges, to, from, &mut BTreeSet::new()));
    faults.extend(cycles.map(|((from, to), place)| format!("{place}: a cycle, as `{to}` also needs `{from}`")));
    for (from, to) in pending {
        if crossings.remove(&((*from).to_owned(), (*to).to_owned())).is_none() {
            faults.push(format!("{from}: `{to}`: is not pending any more"));
        }
    }
    faults.extend(crossings.into_values());
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
    let faults = faults(&read(Path::new("src")), &PENDING);
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
        ("plan: use crate::graph::A;@graph/x: use crate::plan::B;", "graph/x.rs:1: plan::B, plan.rs:1: graph::A"),
        ("net/a: use super::B;@net/b: use super::a::A;@net: use b::B;", "net/a.rs:1: net::b::B, net/b.rs:1: net::a::A"),
        ("net/a: use super::A;@net: use a::B; struct A;", ""),
        // Shared to release and to product, release to product, product to product.
        ("merge: use crate::{payload::{A, manifest::B}, pools::C};", "merge.rs:1: payload::A, merge.rs:1: pools::C"),
        ("payload: use crate::{gate::A, rollout::B};", "payload.rs:1: rollout::B"),
        ("pools: use crate::{gate::A, status::B, payload::C};", "pools.rs:1: status::B"),
        ("plan: use crate::pools::{node::A, summary::B};@pools/summary: struct B;", "plan.rs:1: pools::node::A"),
        ("metrics/pools: use super::{A, process::B};@metrics: struct A;", "metrics/pools.rs:1: metrics::A"),
        ("work/apply: use crate::host::A;@work/node_agent: use crate::host::A;", "work/apply.rs:1: host::A"),
        // Commands: what they share knows none of them, they do not know each other, and the dispatch knows all.
        ("cli/output: use super::start::A;@cli/start: use super::exit::B;", "cli/output.rs:1: cli::start::A"),
        ("cli/node/plan: use crate::cli::{reach::A, start::B};", "cli/node/plan.rs:1: cli::start::B"),
        (
            "cli/ack: use super::{Cli, status::A};@cli: struct Cli;@cli/status: struct A;",
            "cli/ack.rs:1: cli::Cli, cli/ack.rs:1: cli::status::A",
        ),
        ("cli: use ack::A; use node::B;@cli/ack: struct A;@cli/node: struct B;", ""),
        // Folders of products.
        ("olm/catalog: use crate::{gate::A, release::payload::B, olm::plan::C};@olm/plan: struct C;", ""),
        ("olm/catalog: use crate::cluster_version::status::A;", "olm/catalog.rs:1: cluster_version::status::A"),
        ("release/payload: use crate::olm::catalog::A;", "release/payload.rs:1: olm::catalog::A"),
        ("olm/catalog: use crate::olm::work::A;", "olm/catalog.rs:1: olm::work::A"),
        (
            "cluster_version/plan: use crate::olm::{catalog::A, summary::B};@olm/summary: struct B;",
            "cluster_version/plan.rs:1: olm::catalog::A",
        ),
    ] {
        let file = |file: &str| file.split_once(": ").map(|(name, text)| (format!("src/{name}.rs"), text.to_owned()));
        let found = faults(&sources.split('@').filter_map(file).collect(), &[]);
        let places: Vec<_> = found.iter().filter_map(|fault| fault.split("`: ").next()).collect();
        assert_eq!(places.join(", ").replace("src/", "").replace('`', "").replace("crate::", ""), expected);
    }
}

#[test]
fn what_is_pending_is_no_fault_and_ends_with_its_use() {
    let sources = |text: &str| BTreeMap::from([("src/gate.rs".to_owned(), text.to_owned())]);
    let found = |text: &str| faults(&sources(text), &[("gate", "graph::Mode")]);
    assert_eq!(found("use crate::graph::Mode;"), Vec::<String>::new());
    assert_eq!(found("use crate::merge::A;"), ["gate: `graph::Mode`: is not pending any more"]);
}
