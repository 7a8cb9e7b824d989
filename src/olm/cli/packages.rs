//! `cvo olm packages`: what the catalogs of a cluster offer, by its aggregated API.

use super::cluster_output::{ClusterOutput, written};
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Cell, Colour, Page, clean};
use crate::cli::output::print;
use crate::cli::reach;
use crate::cluster::{ApiError, Clients};
use crate::olm::api::package_manifest::{GROUP, PackageChannel, PackageManifest, PackageManifestStatus, VERSION};
use anyhow::{anyhow, bail};
use clap::Args;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use std::path::PathBuf;

/// List the packages that the catalogs of a cluster offer, or show one of them
///
/// Without NAME lists all packages of all catalogs with the heads of their default channels. With NAME shows the channels of the
/// package in each catalog that has it.
#[derive(Args, Debug)]
pub(crate) struct PackagesArgs {
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Only those of this catalog
    #[arg(long, value_name = "NAME")]
    pub catalog: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = ClusterOutput::Text)]
    pub output: ClusterOutput,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

pub(super) async fn run(args: &PackagesArgs) -> anyhow::Result<Exit> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let mut params = ListParams::default();
    if let Some(name) = &args.name {
        params = params.fields(&format!("metadata.name={name}"));
    }
    if let Some(catalog) = &args.catalog {
        params = params.labels(&format!("catalog={catalog}"));
    }
    let listed = Api::<PackageManifest>::all(clients.call.clone()).list(&params).await;
    let listed = listed.map_err(|error| ApiError::of("list the packages", error)).map_err(|error| {
        match error.is_not_found() {
            true => anyhow!(
                "this cluster does not serve packages: the component olm is not installed, or kubectl get apiservice {VERSION}.{GROUP} \
                 says what is wrong with its API"
            ),
            false => reach::explain(&clients.server(), error),
        }
    })?;
    let mut packages: Vec<PackageManifestStatus> = listed.items.into_iter().filter_map(|it| it.status).collect();
    let key = |it: &PackageManifestStatus| {
        (it.package_name.clone(), it.catalog_source_namespace.clone(), it.catalog_source.clone())
    };
    packages.sort_by_cached_key(key);
    if let (Some(name), true) = (&args.name, packages.is_empty()) {
        bail!(
            "no catalog of this cluster has a package {name}: cvo olm packages lists those that there are, and cvo olm catalogs \
               says whether a catalog fails"
        );
    }
    match (args.output, &args.name) {
        (ClusterOutput::Text, None) => print(&list(&packages, &layout::page()))?,
        (ClusterOutput::Text, Some(_)) => print(&text(&packages, &layout::page()))?,
        (other, name) => {
            let packages: Vec<Value> = packages.iter().map(|it| shown(it, name.is_some())).collect();
            print(&written(other, &json!({"schema": 1, "packages": packages}))?)?;
        }
    }
    Ok(Exit::Success)
}

/// The default channel, as far as it is there.
fn default_channel(package: &PackageManifestStatus) -> Option<&PackageChannel> {
    package.channels.iter().find(|channel| channel.name == package.default_channel)
}

/// A package for programs, with its channels if it was asked for.
fn shown(package: &PackageManifestStatus, whole: bool) -> Value {
    let head = default_channel(package);
    let channel = |channel: &PackageChannel| {
        json!({"name": channel.name, "head": channel.current_csv, "version": channel.current_csv_desc.version,
            "deprecation": channel.deprecation, "entries": channel.entries})
    };
    let mut shown = json!({
        "name": package.package_name,
        "catalog": {"namespace": package.catalog_source_namespace, "name": package.catalog_source},
        "provider": package.provider.name,
        "defaultChannel": package.default_channel,
        "head": head.map(|head| &head.current_csv),
        "version": head.map(|head| &head.current_csv_desc.version),
        "deprecation": package.deprecation,
    });
    if let Some(map) = shown.as_object_mut().filter(|_| whole) {
        map.insert("description".to_owned(), json!(head.map(|head| &head.current_csv_desc.description)));
        map.insert("channels".to_owned(), package.channels.iter().map(channel).collect());
    }
    shown
}

fn cell(text: &str) -> Cell {
    (clean(text).into_owned(), Colour::Plain)
}

fn list(packages: &[PackageManifestStatus], page: &Page) -> String {
    if packages.is_empty() {
        return "no package: cvo olm catalogs lists the catalogs of the cluster\n".to_owned();
    }
    let mut rows =
        vec![["PACKAGE", "CATALOG", "DEFAULT CHANNEL", "HEAD", "VERSION", "CHANNELS", ""].map(cell).to_vec()];
    rows.extend(packages.iter().map(|package| {
        let head = default_channel(package);
        let catalog = format!("{}/{}", package.catalog_source_namespace, package.catalog_source);
        let deprecated = package.deprecation.as_ref().map_or("", |_| "deprecated");
        let (csv, version) = head.map_or(("", ""), |it| (&it.current_csv, &it.current_csv_desc.version));
        let channels = package.channels.len().to_string();
        [&package.package_name, &catalog, &package.default_channel, csv, version, &channels, deprecated]
            .map(cell)
            .to_vec()
    }));
    let mut out = String::new();
    layout::table(page, &mut out, &rows);
    out
}

fn text(packages: &[PackageManifestStatus], page: &Page) -> String {
    let mut out = String::new();
    for package in packages {
        let catalog = format!("{}/{}", package.catalog_source_namespace, package.catalog_source);
        let title = format!("{} in {catalog}", package.package_name);
        let newline = if out.is_empty() { "" } else { "\n" };
        layout::line(page, &mut out, &format!("{newline}{}", clean(&title)), Colour::Strong);
        let description = default_channel(package).map(|head| &head.current_csv_desc);
        if let Some(description) = description {
            let by = match package.provider.name.as_str() {
                "" => String::new(),
                name => format!(", by {name}"),
            };
            layout::paragraph(page, &mut out, "  ", &format!("{}{by}", description.display_name), Colour::Plain);
        }
        if let Some(why) = &package.deprecation {
            layout::paragraph(page, &mut out, "  ", &format!("deprecated: {}", why.message), Colour::Busy);
        }
        let mut rows = vec![["  CHANNEL", "HEAD", "VERSION", "VERSIONS", ""].map(cell).to_vec()];
        rows.extend(package.channels.iter().map(|channel| {
            let default = if channel.name == package.default_channel { " (default)" } else { "" };
            let deprecated = channel.deprecation.as_ref().map(|why| format!("deprecated: {}", why.message));
            let name = format!("  {}{default}", channel.name);
            let (version, entries) = (&channel.current_csv_desc.version, channel.entries.len().to_string());
            [&name, &channel.current_csv, version, &entries, deprecated.as_deref().unwrap_or_default()]
                .map(cell)
                .to_vec()
        }));
        layout::table(page, &mut out, &rows);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(catalog: &str) -> PackageManifestStatus {
        let channel = |name: &str, version: &str, deprecated: bool| {
            let entries = json!([{"name": format!("a.v{version}"), "version": version}]);
            let mut channel = json!({"name": name, "currentCSV": format!("a.v{version}"), "entries": entries,
                "currentCSVDesc": {"version": version, "displayName": "The A", "description": "Makes A."}});
            if deprecated {
                channel["deprecation"] = json!({"message": "too old"});
            }
            channel
        };
        serde_json::from_value(json!({
            "packageName": "a", "catalogSource": catalog, "catalogSourceNamespace": "m", "provider": {"name": "Us"},
            "defaultChannel": "stable", "channels": [channel("old", "1.0.0", true), channel("stable", "2.0.0", false)],
        }))
        .unwrap()
    }

    fn page() -> Page {
        Page { width: usize::MAX, colours: false, now: jiff::Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn packages_are_listed_with_the_head_of_their_default_channel() {
        let expected = "PACKAGE  CATALOG  DEFAULT CHANNEL  HEAD      VERSION  CHANNELS\n\
            a        m/c      stable           a.v2.0.0  2.0.0    2\n";
        assert_eq!(list(&[package("c")], &page()), expected);
        assert_eq!(list(&[], &page()), "no package: cvo olm catalogs lists the catalogs of the cluster\n");
        assert_eq!(shown(&package("c"), false)["channels"], Value::Null);
    }

    #[test]
    fn one_package_is_shown_in_each_catalog_that_has_it() {
        let of = |catalog: &str| {
            format!(
                "a in m/{catalog}\n  The A, by Us\n  CHANNEL           HEAD      VERSION  VERSIONS\n  old               a.v1.0.0  1.0.0    1         \
                 deprecated: too old\n  stable (default)  a.v2.0.0  2.0.0    1\n"
            )
        };
        assert_eq!(text(&[package("c"), package("d")], &page()), format!("{}\n{}", of("c"), of("d")));
        let shown = shown(&package("c"), true);
        assert_eq!(
            (&shown["description"], &shown["channels"][0]["deprecation"]["message"]),
            (&json!("Makes A."), &json!("too old"))
        );
    }
}
