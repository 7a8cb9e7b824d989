//! `cvo rbac`: which rights the daemon needs to carry a cluster to a release.

use crate::cli::filters::{FilterArgs, ensure_some_included};
use crate::cli::layout::clean;
use crate::cli::output::{print, remark, table};
use crate::cli::release::{ImageSource, given, pull_spec};
use crate::cluster_version::api::{NAME, NAMESPACE};
use crate::cluster_version::rbac;
use crate::cluster_version::rbac::{Powerful, Right, Rights, Role};
use crate::object::manifest::Manifest;
use clap::{Args, ValueEnum};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

/// Version of the JSON form.
const SCHEMA: u32 = 1;
/// Manifests that are named for one right.
const CAUSES: usize = 3;

/// Show which rights the daemon needs to carry a cluster to a release
///
/// Derives roles from the manifests of the release and from what the daemon reads and writes by itself, and marks the rights
/// that are as good as cluster-admin, with the manifests that need them. Apply the roles before the update is requested; the
/// documentation says how to install the daemon with them instead of cluster-admin. Reads no cluster.
#[derive(Args, Debug)]
pub(crate) struct RbacArgs {
    /// The release that the cluster runs, which is kept as it is until the other one is in place: its rights are added, and those
    /// that are new in the other one are marked
    #[arg(long, value_name = "DIR|IMAGE")]
    from: Option<String>,
    /// The release to carry the cluster to: its root folder, or the pull spec of its image
    #[arg(long, value_name = "DIR|IMAGE")]
    to: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    /// Namespace of the daemon
    #[arg(long, default_value = NAMESPACE, value_name = "NAME")]
    namespace: String,
    /// Name of the ClusterVersion
    #[arg(long, default_value = NAME, value_name = "NAME")]
    name: String,
    /// With --to DIR: pull spec of that release, which its manifests refer to
    #[arg(long, value_name = "IMAGE", value_parser = pull_spec)]
    to_image: Option<String>,
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    image: ImageSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For kubectl: namespaces, roles and bindings
    Yaml,
    /// For programs: one object, `schema` 1
    Json,
}

/// What is printed.
#[derive(Debug, Serialize)]
struct Needed<'a> {
    schema: u32,
    release: &'a str,
    roles: &'a [Role],
    /// Rights that only the release needs that is carried to; empty without another one.
    new: Vec<&'a Right>,
    powerful: Vec<Powerful>,
}

pub(crate) async fn run(args: RbacArgs) -> anyhow::Result<()> {
    let (version, mut manifests) = included(&args, &args.to, args.to_image.as_deref()).await?;
    let mut before = None;
    if let Some(from) = &args.from {
        let (_, older) = included(&args, from, None).await?;
        before = Some(Rights::needed(&args.namespace, &args.name, &older));
        manifests.extend(older);
    }
    let rights = Rights::needed(&args.namespace, &args.name, &manifests);
    let roles = rights.roles();
    let new = before.as_ref().map(|before| rights.beyond(before).collect()).unwrap_or_default();
    let needed = Needed { schema: SCHEMA, release: &version, roles: &roles, new, powerful: rights.powerful() };
    match args.output {
        Output::Text => print(&text(&needed)?),
        Output::Json => print(&(serde_json::to_string_pretty(&needed)? + "\n")),
        Output::Yaml => print(&yaml(&roles, &args.namespace)?),
    }
}

/// The version of a release, and its manifests that a cluster with these filters includes.
async fn included(args: &RbacArgs, given: &str, image: Option<&str>) -> anyhow::Result<(String, Vec<Arc<Manifest>>)> {
    let filter = args.filters.apply_filter(None);
    let payload = given::read(given, image, &args.image).await?.load(filter.load.clone())?;
    for warning in payload
        .warnings
        .iter()
        .chain(&args.filters.unknown_capabilities(payload.all_manifests().into_iter().map(|m| &**m)))
    {
        remark(&format!("warning: {}", clean(warning)));
    }
    let selection = payload.select(&filter);
    ensure_some_included(&selection, &payload, &filter)?;
    Ok((payload.release.version.clone(), selection.manifests))
}

fn text(needed: &Needed<'_>) -> anyhow::Result<String> {
    let mut out = Vec::new();
    let rules: usize = needed.roles.iter().map(|role| role.rules.len()).sum();
    let mut rows = Vec::new();
    for role in needed.roles {
        for rule in &role.rules {
            let what: Vec<&str> = rule.resources.iter().chain(&rule.paths).map(String::as_str).collect();
            let group = rule.api_groups.first().map_or("", String::as_str);
            let scope = if role.namespace.is_empty() { "(cluster)" } else { &role.namespace };
            let names = if rule.resource_names.is_empty() { "(all)".to_owned() } else { joined(&rule.resource_names) };
            rows.push(
                [scope, group, &what.join(","), &joined(&rule.verbs), &names].map(|text| clean(text).into_owned()),
            );
        }
    }
    table(["NAMESPACE", "GROUP", "RESOURCES", "VERBS", "NAMES"], &rows, &mut out)?;
    let mut out = String::from_utf8_lossy(&out).into_owned();
    writeln!(out, "\n{rules} rules in {} roles carry a cluster to {}", needed.roles.len(), clean(needed.release))?;
    if !needed.new.is_empty() {
        writeln!(out, "\nNew in {}:", clean(needed.release))?;
        for right in &needed.new {
            writeln!(out, "  {}", described(right))?;
        }
    }
    if needed.powerful.is_empty() {
        writeln!(out, "\nNone of them is as good as cluster-admin by itself.")?;
    } else {
        writeln!(out, "\nAs good as cluster-admin:")?;
    }
    for Powerful { right, why, causes } in &needed.powerful {
        let more = causes.len().saturating_sub(CAUSES);
        let named: Vec<String> = causes.iter().take(CAUSES).map(|cause| clean(cause).into_owned()).collect();
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        writeln!(out, "  {}: {why}; needed for {}{more}", described(right), named.join(", "))?;
    }
    let note = "Whoever creates workloads in a namespace can use every service account and every Secret in it, and pods with \
                access to their host can do everything on that node: these rights are needed for every Deployment.";
    writeln!(out, "\n{note}")?;
    Ok(out)
}

fn joined(words: &BTreeSet<String>) -> String {
    words.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// `update clusterroles.rbac.authorization.k8s.io "name" in namespace`.
fn described(right: &Right) -> String {
    let Right { namespace, group, resource, name, verb } = right;
    let dot = if group.is_empty() { "" } else { "." };
    let name = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
    let place = if namespace.is_empty() { String::new() } else { format!(" in {namespace}") };
    clean(&format!("{verb} {resource}{dot}{group}{name}{place}")).into_owned()
}

fn yaml(roles: &[Role], namespace: &str) -> anyhow::Result<String> {
    let mut out = String::new();
    for object in rbac::objects(roles, namespace) {
        write!(out, "---\n{}", serde_yaml::to_string(&object)?)?;
    }
    Ok(out)
}
