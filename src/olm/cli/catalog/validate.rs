//! `cvo catalog validate`: the verdict on each package, and all faults.

use super::{Output, ValidateArgs};
use crate::cli::exit::Exit;
use crate::cli::layout::{self, Colour, Page, clean};
use crate::cli::output::print;
use crate::olm::catalog::builder::Catalog;
use crate::olm::catalog::fault::Fault;
use crate::olm::cli::input;
use serde::Serialize;
use std::collections::BTreeMap;

pub(super) async fn run(args: &ValidateArgs) -> anyhow::Result<Exit> {
    let given = input::catalog(&args.catalog, &args.source).await?;
    let catalog = super::read(&given.folder)?;
    match args.output {
        Output::Text => print(&text(&catalog, &layout::page()))?,
        Output::Json => print(&(serde_json::to_string_pretty(&Verdict::of(&catalog))? + "\n"))?,
    }
    Ok(if catalog.fault_count > 0 { Exit::Found } else { Exit::Success })
}

/// The verdict on a catalog, for programs.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Verdict<'a> {
    schema: u32,
    files: usize,
    /// By name.
    packages: Vec<PackageVerdict<'a>>,
    /// Packages with faults; not all of them are in `packages` if there are many.
    sick_packages: usize,
    /// By file and line.
    faults: Vec<FaultVerdict<'a>>,
    /// Of all faults; not all of them are in `faults` if there are many.
    fault_count: usize,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PackageVerdict<'a> {
    name: &'a str,
    served: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    channels: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bundles: Option<usize>,
    faults: usize,
}

#[derive(Debug, Serialize)]
struct FaultVerdict<'a> {
    file: &'a str,
    line: usize,
    blob: &'a str,
    package: &'a str,
    message: String,
}

impl<'a> Verdict<'a> {
    pub(super) fn of<W>(catalog: &'a Catalog<W>) -> Self {
        let served = catalog.index.packages().map(|package| PackageVerdict {
            name: package.name(),
            served: true,
            channels: Some(package.channels().count()),
            bundles: Some(package.bundles().count()),
            faults: 0,
        });
        let sick = catalog.sick.iter().map(|sick| PackageVerdict {
            name: &sick.package,
            served: false,
            channels: None,
            bundles: None,
            faults: sick.faults,
        });
        let mut packages: Vec<_> = served.chain(sick).collect();
        packages.sort_by_key(|package| package.name);
        let fault = |fault: &'a Fault| FaultVerdict {
            file: &fault.file,
            line: fault.line,
            blob: &fault.blob,
            package: &fault.package,
            message: fault.reason.to_string(),
        };
        Verdict {
            schema: 1,
            files: catalog.files,
            packages,
            sick_packages: catalog.sick_count,
            faults: catalog.faults.iter().map(fault).collect(),
            fault_count: catalog.fault_count,
        }
    }
}

pub(super) fn text<W>(catalog: &Catalog<W>, page: &Page) -> String {
    let mut out = String::new();
    let mut by_package: BTreeMap<&str, Vec<&Fault>> = BTreeMap::new();
    for fault in &catalog.faults {
        by_package.entry(&fault.package).or_default().push(fault);
    }
    for (package, faults) in &by_package {
        let head = match *package {
            "" => "faults that are those of no known package".to_owned(),
            name => {
                let count =
                    catalog.sick.iter().find(|sick| sick.package == name).map_or(faults.len(), |sick| sick.faults);
                format!("{}: not served, {}", clean(name), counted(count, "fault"))
            }
        };
        layout::line(page, &mut out, &head, Colour::Strong);
        for fault in faults {
            layout::paragraph(page, &mut out, "  ", &place(fault), Colour::Plain);
        }
    }
    if catalog.fault_count > catalog.faults.len() {
        out.push_str(&format!("and {} more\n", counted(catalog.fault_count - catalog.faults.len(), "fault")));
    }
    let counts = catalog.index.counts();
    let (packages, files) = (counts.packages + catalog.sick_count, counted(catalog.files, "file"));
    let what = format!("{} and {}", counted(counts.channels, "channel"), counted(counts.bundles, "bundle"));
    out.push_str(&match (catalog.fault_count, catalog.sick_count) {
        (0, _) => format!("{}, {what} in {files}: nothing found\n", counted(packages, "package")),
        (faults, sick) => {
            let faults = counted(faults, "fault");
            format!("{} of {packages} packages can be served, {sick} cannot: {faults} in {files}\n", counts.packages)
        }
    });
    out
}

pub(super) fn place(fault: &Fault) -> String {
    let Fault { file, line, blob, reason, .. } = fault;
    let line = if *line > 0 { format!(":{line}") } else { String::new() };
    let blob = if blob.is_empty() { String::new() } else { format!(" {blob}:") };
    format!("{file}{line}:{blob} {reason}")
}

/// `1 fault`, `2 faults`.
pub(super) fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}
