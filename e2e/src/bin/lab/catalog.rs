//! `lab catalog`: writes a file-based catalog in the proportions of real ones, and measures what reading one costs.

mod content;
pub(crate) mod hostile;
mod resolve;
mod walk;

use anyhow::{Context, bail, ensure};
use clap::{Args, Subcommand, ValueEnum};
use content::Content;
use cvo::testing::catalog::{Index, read};
use e2e::harness::process::memory as memory_of;
pub(crate) use resolve::Resolved;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::time::Instant;

/// Catalogs of operators in any size, and what reading them costs.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a catalog; the same flags write the same one.
    Write(WriteArgs),
    /// Measure how long a catalog takes until it can be asked, the first time and with its index on disk, and how much memory.
    Measure(MeasureArgs),
    /// Measure how long it takes to find what is to be installed.
    Resolve(resolve::ResolveArgs),
    /// Subscribe to each package, then install each bundle and follow its channel; say how many came to the head, and what held others.
    Walk(walk::WalkArgs),
}

#[derive(Args, Debug)]
pub(crate) struct WriteArgs {
    #[arg(long, default_value_t = PACKAGES, value_name = "N")]
    pub packages: usize,
    /// Of all packages together.
    #[arg(long, default_value_t = BUNDLES, value_name = "N")]
    pub bundles: usize,
    #[arg(long, default_value_t = 1, value_name = "S")]
    pub seed: u64,
    #[arg(long, value_enum, default_value_t = Format::Json)]
    pub format: Format,
    /// One file instead of one a package.
    #[arg(long)]
    pub one_file: bool,
    /// Where the catalog is written. It must be empty or absent.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// As many as the largest known catalog has.
pub(crate) const PACKAGES: usize = 600;
pub(crate) const BUNDLES: usize = 15_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Json,
    Yaml,
}

#[derive(Args, Debug)]
pub(crate) struct MeasureArgs {
    dir: PathBuf,
    /// Only the index that an earlier run has left in the folder of --keep.
    #[arg(long, requires = "keep")]
    restart: bool,
    /// Where the index and the data beside it are left.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print figures for programs: seconds until the index is on disk, and KiB of memory at the peak.
    #[arg(long, hide = true, conflicts_with = "restart")]
    json: bool,
}

/// What reading a catalog costs a process that does nothing else.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Cost {
    pub seconds: f64,
    pub peak_kib: u64,
}

pub(crate) fn run(command: &Command) -> anyhow::Result<()> {
    match command {
        Command::Write(args) => {
            println!("{}", write(args)?);
            Ok(())
        }
        Command::Measure(args) if args.restart => restart(args.keep.as_deref().unwrap_or(Path::new("."))),
        Command::Measure(args) => measure(args),
        Command::Resolve(args) => resolve::resolve(args),
        Command::Walk(args) => walk::walk(args),
    }
}

/// Says what was written.
pub(crate) fn write(args: &WriteArgs) -> anyhow::Result<String> {
    ensure!(args.packages > 0 && args.bundles >= args.packages, "each package needs a bundle");
    let is_empty = fs::read_dir(&args.out).map_or(true, |mut entries| entries.next().is_none());
    ensure!(is_empty, "{} is not empty", args.out.display());
    let mut bytes = 0;
    let mut whole = None;
    for package in Content::packages(args.seed, args.packages, args.bundles) {
        let (folder, name) = match args.one_file {
            true => (args.out.clone(), "catalog"),
            false => (args.out.join(&package.name), "catalog"),
        };
        let extension = if args.format == Format::Json { "json" } else { "yaml" };
        let mut file = match whole.take() {
            Some(file) => file,
            None => {
                fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
                let path = folder.join(format!("{name}.{extension}"));
                BufWriter::with_capacity(1 << 20, File::create(&path).with_context(|| path.display().to_string())?)
            }
        };
        package.blobs(&mut |blob| bytes_of(&blob, args.format, &mut file).map(|more| bytes += more))?;
        file.flush()?;
        whole = args.one_file.then_some(file);
    }
    Ok(format!(
        "{} packages, {} bundles, {:.1} MB ({:.1} KB a bundle) in {}",
        args.packages,
        args.bundles,
        bytes as f64 / 1e6,
        bytes as f64 / 1e3 / args.bundles as f64,
        args.out.display()
    ))
}

/// Writes a blob as the tools of catalogs do, and returns its bytes.
fn bytes_of(blob: &Value, format: Format, out: &mut impl Write) -> anyhow::Result<usize> {
    let mut bytes = Vec::new();
    match format {
        Format::Json => {
            let indent = serde_json::ser::PrettyFormatter::with_indent(b"    ");
            blob.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, indent))?;
            bytes.push(b'\n');
        }
        Format::Yaml => {
            bytes.extend(b"---\n");
            serde_yaml::to_writer(&mut bytes, blob)?;
        }
    }
    out.write_all(&bytes)?;
    Ok(bytes.len())
}

/// Reads a catalog as a server does: its data goes to a file, and its index to another one.
fn measure(args: &MeasureArgs) -> anyhow::Result<()> {
    let temporary = std::env::temp_dir().join(format!("cvo-catalog-{}", process::id()));
    let folder = args.keep.clone().unwrap_or_else(|| temporary.clone());
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let begun = Instant::now();
    let catalog = read(&args.dir, BufWriter::with_capacity(256 << 10, File::create(folder.join("data"))?))?;
    let read = begun.elapsed();
    catalog.index.write(File::create(folder.join("index"))?)?;
    let cost = Cost { seconds: begun.elapsed().as_secs_f64(), peak_kib: memory()?.0 };
    if args.json {
        println!("{}", serde_json::to_string(&cost)?);
    } else {
        println!(
            "{} faults; read in {:.3} s, with its index written in {:.3} s; peak {}; index {:.1} MiB in memory, {:.1} on disk, data {:.1} MB",
            catalog.fault_count,
            read.as_secs_f64(),
            cost.seconds,
            mebibytes(cost.peak_kib),
            catalog.index.size() as f64 / f64::from(1 << 20),
            fs::metadata(folder.join("index"))?.len() as f64 / f64::from(1 << 20),
            catalog.index.data_length() as f64 / 1e6,
        );
    }
    if args.keep.is_none() {
        fs::remove_dir_all(&temporary)?;
    }
    Ok(())
}

fn restart(folder: &Path) -> anyhow::Result<()> {
    let begun = Instant::now();
    let index = Index::read(File::open(folder.join("index"))?)?;
    let heads = index.packages().filter_map(|package| package.default_channel()?.head()).count();
    let took = begun.elapsed();
    if heads == 0 {
        bail!("the index is empty");
    }
    let (peak, resident) = memory()?;
    println!(
        "{heads} packages ready in {:.3} s; resident {}, peak {}",
        took.as_secs_f64(),
        mebibytes(resident),
        mebibytes(peak)
    );
    Ok(())
}

/// Peak and resident memory of this process, in KiB.
fn memory() -> anyhow::Result<(u64, u64)> {
    let (peak, resident) = memory_of(i32::try_from(process::id())?);
    peak.zip(resident).context("the kernel does not say how much memory this process has")
}

fn mebibytes(kib: u64) -> String {
    format!("{:.1} MiB", kib as f64 / 1024.0)
}
