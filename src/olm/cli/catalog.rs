//! `cvo catalog`: what a file-based catalog in a folder offers, and what is wrong with it.

mod add;
mod build;
mod diff;
mod graph;
mod lint;
mod render;
mod serve;
mod show;
mod validate;

use crate::cli::exit::Exit;
use crate::cli::release::{ImageSource, pull_spec};
use crate::olm::catalog::builder::Catalog;
use crate::olm::catalog::written::Syntax;
use crate::olm::net::folder;
use anyhow::bail;
use clap::{Args, Subcommand, ValueEnum};
use std::io::{self, Sink};
use std::path::{Path, PathBuf};
use tokio_util::sync::CancellationToken;

/// Check and inspect file-based catalogs of operators
#[derive(Debug, Subcommand)]
pub(crate) enum CatalogCommand {
    Validate(ValidateArgs),
    Show(ShowArgs),
    Render(RenderArgs),
    Add(AddArgs),
    Graph(GraphArgs),
    Lint(LintArgs),
    Diff(DiffArgs),
    Build(Box<build::BuildArgs>),
    Serve(serve::ServeArgs),
}

/// Check every package of a catalog
///
/// Reads all files that no .indexignore excludes, as JSON or YAML, and checks each blob and each package. A package with faults
/// is not served, and all others are. Each fault is told with its file, the line and the blob, and what to do about it.
#[derive(Args, Debug)]
pub(crate) struct ValidateArgs {
    /// Folder or image of the catalog, or one file
    #[arg(value_name = "DIR|IMAGE")]
    pub catalog: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Show the packages of a catalog, or one of them
///
/// Without PACKAGE lists all packages with their default channels. With PACKAGE lists its channels from their heads down, with what
/// each version replaces, skips and requires. Packages with faults are left out: cvo catalog validate tells what is wrong with them.
#[derive(Args, Debug)]
pub(crate) struct ShowArgs {
    /// Folder or image of the catalog, or one file
    #[arg(value_name = "DIR|IMAGE")]
    pub catalog: String,
    #[arg(value_name = "PACKAGE")]
    pub package: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Write catalogs and bundles as one stream of blobs
///
/// The blobs of all inputs come package by package, with their members in one order, so that the same content gives the same bytes. A
/// bundle in an image becomes a blob with that image and what describes the operator, one in a folder a blob with all of its manifests.
/// A folder with a package.yaml and ClusterServiceVersions, the format before bundles, becomes a package with its channels. Faults are
/// not looked for: cvo catalog validate does that.
#[derive(Args, Debug)]
pub(crate) struct RenderArgs {
    /// Folder or image of a catalog, folder or image of a bundle, folder with a package.yaml, or folder with an image (an OCI image
    /// layout)
    #[arg(value_name = "DIR|IMAGE", required = true)]
    pub inputs: Vec<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = BlobOutput::Json)]
    pub output: BlobOutput,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Add a bundle to a channel of a catalog
///
/// The new version replaces the head of the channel, or what --replaces names. With --skip nobody is updated to a release any more, and
/// whoever has it is updated to the new one. With --z-stream all earlier releases of the same minor version are skipped, and what came
/// before them is replaced. Whatever is installed must find exactly one release that follows it: else nothing is changed, and the
/// message says what is in the way.
///
/// The file of the channel is changed as a whole or not at all. All of it stays but the blob of the channel, which is written anew,
/// without comments in it. A package or channel that does not exist is made. An olm.skipRange of the ClusterServiceVersion is taken over.
#[derive(Args, Debug)]
pub(crate) struct AddArgs {
    /// The folder of the catalog; it is made if there is none
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Image of the bundle, or its folder
    #[arg(value_name = "BUNDLE")]
    pub bundle: String,
    /// Channel that gets the new version
    #[arg(long, value_name = "NAME")]
    pub channel: String,
    /// Entry that the new version replaces [default: the head, or what comes before it if that is skipped]
    #[arg(long, value_name = "ENTRY")]
    pub replaces: Option<String>,
    /// Entry that nobody is to be updated to any more; may be repeated
    #[arg(long, value_name = "ENTRY")]
    pub skip: Vec<String>,
    /// Skip all earlier entries of the same minor version
    #[arg(long)]
    pub z_stream: bool,
    /// Image that the bundle will have, where its folder is given; without it all manifests become part of the catalog
    #[arg(long, value_name = "IMAGE", value_parser = pull_spec)]
    pub image: Option<String>,
    /// Tell what would be changed, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Give advice on a catalog before it is published
///
/// Looks at the heads of channels, which are what is installed: dependencies that say more or less than is meant, versions of
/// packages that the catalog does not have, images that are named by a tag, a skipRange with the own version, default channels that are
/// deprecated. What cvo catalog validate finds is an error here, all else is a warning.
#[derive(Args, Debug)]
pub(crate) struct LintArgs {
    /// Folder or image of the catalog
    #[arg(value_name = "DIR|IMAGE")]
    pub catalog: String,
    /// Look at all versions, not only at heads
    #[arg(long)]
    pub all: bool,
    /// Count warnings as errors
    #[arg(long)]
    pub strict: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Show what changes from one catalog to another one, and who is affected
///
/// Shows packages, channels and bundles that come and go, heads that move, and versions from which nothing leads on any more. With
/// --cluster reads the Subscriptions of the cluster, and shows whose next version is another one, and who would not be updated any more.
#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    /// Folder or image of the catalog as it is
    #[arg(value_name = "OLD")]
    pub old: String,
    /// Folder or image of the catalog as it is to be
    #[arg(value_name = "NEW")]
    pub new: String,
    /// Show who is affected in the cluster
    #[arg(long)]
    pub cluster: bool,
    /// Only Subscriptions to this CatalogSource
    #[arg(long, value_name = "NAMESPACE/NAME", requires = "cluster")]
    pub catalog_source: Option<String>,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE", requires = "cluster")]
    pub kubeconfig: Option<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Show the update graph of channels
///
/// Shows for each channel from its head down which versions each one replaces and skips. As mermaid it is what many web pages and editors
/// show as a picture.
#[derive(Args, Debug)]
pub(crate) struct GraphArgs {
    /// Folder or image of the catalog
    #[arg(value_name = "DIR|IMAGE")]
    pub catalog: String,
    /// Only this package
    #[arg(value_name = "PACKAGE")]
    pub package: Option<String>,
    /// Only channels of this name
    #[arg(long, value_name = "NAME")]
    pub channel: Option<String>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = GraphOutput::Text)]
    pub output: GraphOutput,
    #[command(flatten)]
    pub source: ImageSource,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum GraphOutput {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
    /// A diagram as text (mermaid)
    Mermaid,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BlobOutput {
    /// JSON objects, one after the other
    Json,
    /// YAML documents
    Yaml,
}

impl BlobOutput {
    fn syntax(self) -> Syntax {
        match self {
            BlobOutput::Json => Syntax::Json,
            BlobOutput::Yaml => Syntax::Yaml,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
}

pub(crate) async fn run(command: &CatalogCommand, stop: CancellationToken) -> anyhow::Result<Exit> {
    match command {
        CatalogCommand::Validate(args) => validate::run(args).await,
        CatalogCommand::Show(args) => show::run(args).await,
        CatalogCommand::Render(args) => render::run(args).await,
        CatalogCommand::Add(args) => add::run(args).await,
        CatalogCommand::Graph(args) => graph::run(args).await,
        CatalogCommand::Lint(args) => lint::run(args).await,
        CatalogCommand::Diff(args) => diff::run(args).await,
        CatalogCommand::Build(args) => build::run(args).await,
        CatalogCommand::Serve(args) => serve::run(args, stop).await,
    }
}

fn no_catalog(given: &str, what: &str) -> String {
    format!("{given} is no catalog: it has {what}. Give a folder such as /configs of a catalog image")
}

/// What is large of the catalog is not needed. Without any package it is probably another folder that was meant.
fn read(dir: &Path) -> anyhow::Result<Catalog<Sink>> {
    let catalog = folder::read(dir, io::sink())?;
    if catalog.index.counts().packages == 0 && catalog.fault_count == 0 {
        let files = validate::counted(catalog.files, "file");
        bail!(no_catalog(&dir.display().to_string(), &format!("{files}, and no olm.package")));
    }
    Ok(catalog)
}

#[cfg(test)]
mod tests;
