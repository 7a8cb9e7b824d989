//! `cvo catalog`: what a file-based catalog in a folder offers, and what is wrong with it.

mod show;
mod validate;

use crate::cli::exit::Exit;
use crate::olm::catalog::builder::Catalog;
use crate::olm::net::folder;
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use std::io::{self, Sink};
use std::path::{Path, PathBuf};

/// Check and inspect file-based catalogs of operators
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    Validate(ValidateArgs),
    Show(ShowArgs),
}

/// Check every package of a catalog
///
/// Reads all files that no .indexignore excludes, as JSON or YAML, and checks each blob and each package. A package with faults
/// is not served, and all others are. Each fault is told with its file, the line and the blob, and what to do about it.
#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    /// The folder of the catalog, or one file
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

/// Show the packages of a catalog, or one of them
///
/// Without PACKAGE lists all packages with their default channels. With PACKAGE lists its channels from their heads down, with what
/// each version replaces, skips and requires. Packages with faults are left out: cvo catalog validate tells what is wrong with them.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// The folder of the catalog, or one file
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[arg(value_name = "PACKAGE")]
    pub package: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
}

pub(crate) fn run(command: &CatalogCommand) -> anyhow::Result<Exit> {
    match command {
        CatalogCommand::Validate(args) => validate::run(args),
        CatalogCommand::Show(args) => show::run(args),
    }
}

/// What is large of the catalog is not needed. Without any package it is probably another folder that was meant.
fn read(dir: &Path) -> anyhow::Result<Catalog<Sink>> {
    let catalog = folder::read(dir, io::sink())?;
    if catalog.index.counts().packages == 0 && catalog.fault_count == 0 {
        let files = validate::counted(catalog.files, "file");
        bail!(
            "{} is no catalog: {files}, and no olm.package. Give a folder such as /configs of a catalog image",
            dir.display()
        );
    }
    Ok(catalog)
}

#[cfg(test)]
mod tests;
