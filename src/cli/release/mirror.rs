//! `cvo release mirror`: copies a release with all of its images and signatures to another registry, or to a folder that is
//! carried to a site without a network and copied to the registry there.

use super::signatures::{keyrings, report as checked, stores, text};
use super::{ImageSource, OWN_MANIFESTS, RELEASE_LABEL, RELEASE_MANIFESTS, assemble};
use crate::cli::output;
use crate::net::http::{Egress, client};
use crate::net::registry::copy::{Name, Progress, copy};
use crate::net::registry::layout::{Entry, Layout};
use crate::net::registry::place::Place;
use crate::net::registry::{Access, parse_reference, pull_spec};
use crate::net::signatures::{self, Found};
use crate::object::MANAGED_NAMESPACE;
use crate::release::{LoadOptions, Payload, PayloadFiles, SourceFile, load};
use crate::verify::{Config, Digest, SIGNATURES_LABEL, Store};
use anyhow::{Context, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use indicatif::{HumanBytes, ProgressBar, ProgressStyle};
use jiff::Timestamp;
use oci_client::Reference;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Images that are copied at once.
const IMAGES: usize = 3;
/// For each signature store.
const STORE_LIMIT: Duration = Duration::from_secs(60);
/// Folder of the signatures, in the layout of a signature store.
const SIGNATURES: &str = "signatures";
/// Folder of the objects for the cluster.
const OBJECTS: &str = "config";
/// Annotation of an image in a folder: the repository where manifests name it, which the folder is carried away from.
const SOURCE: &str = "io.openshift.release.source-repository";

/// Copy a release with all of its images and signatures to another registry, or to a folder
///
/// From an image: copies the release, each image that it names, and its signatures. From a folder that an earlier call has
/// written: copies everything in it. Images keep their digests, so signatures stay good. What is at the target already is not
/// copied again: after an interruption, run the same command again.
///
/// Images get the tags VERSION-ARCH and VERSION-ARCH-NAME. A folder is an OCI image layout, with signatures/ (a signature
/// store) and config/ (ConfigMaps with the signatures, for `kubectl apply`) beside it.
#[derive(Args, Debug)]
pub(crate) struct MirrorArgs {
    /// Pull spec of a release image, or a folder that `cvo release mirror` wrote
    #[arg(value_name = "IMAGE|DIR")]
    release: String,
    /// Where to: REGISTRY/REPOSITORY without a tag, or a folder, which begins with / or . or exists
    #[arg(long, value_name = "REPOSITORY|DIR")]
    to: String,
    /// Signature stores [default: those that the release itself names]
    #[arg(long, value_name = "DIR|URL", num_args = 1..)]
    signature_store: Vec<String>,
    /// Armored OpenPGP public keys: nothing is copied unless each keyring has a good signature
    #[arg(long, value_name = "FILE", num_args = 1..)]
    keyring: Vec<PathBuf>,
    /// Also if no signature is found and not every store can be read, so that the release may have one
    #[arg(long, conflicts_with = "keyring")]
    without_signatures: bool,
    /// Where the signatures are written if the target is a registry [default: nowhere]
    #[arg(long, value_name = "DIR")]
    signatures_to: Option<PathBuf>,
    #[command(flatten)]
    source: ImageSource,
}

pub(crate) async fn run(args: MirrorArgs) -> anyhow::Result<()> {
    let access = args.source.registry.access()?;
    let target = target(&args.to, &access).await?;
    let folder = Path::new(&args.release);
    if folder.is_dir() {
        ensure!(Layout::is_at(folder), "{} is not a folder that `cvo release mirror` wrote", folder.display());
        return from_folder(folder, &target).await;
    }
    from_registry(&args, &access, &target).await
}

/// Where images are copied to.
struct Target {
    place: Place,
    /// The repository, if it is one.
    repository: Option<Reference>,
    folder: Option<PathBuf>,
}

async fn target(to: &str, access: &Access) -> anyhow::Result<Target> {
    let path = Path::new(to);
    if path.is_absolute() || to.starts_with('.') || path.is_dir() {
        let layout = Layout::create(path).await?;
        return Ok(Target { place: Place::Folder(layout), repository: None, folder: Some(path.to_owned()) });
    }
    let reference = parse_reference(to)?;
    let tagged = reference.digest().is_some() || to.rsplit('/').next().is_some_and(|last| last.contains(':'));
    ensure!(
        !tagged && to.contains('/'),
        "--to {to:?} is not REGISTRY/REPOSITORY without a tag, or a folder like ./{to}"
    );
    let place = Place::Registry(Box::new(access.repository(&reference)?));
    Ok(Target { place, repository: Some(reference), folder: None })
}

/// What is copied from where, and its name at the target.
struct Part {
    from: Place,
    /// Tag or digest there.
    image: String,
    name: Name,
}

async fn from_registry(args: &MirrorArgs, access: &Access, target: &Target) -> anyhow::Result<()> {
    let given = parse_reference(&args.release)?;
    // A tag is looked up once: it may be moved while the release is read, and everything has to be of the same.
    let name = given.digest().or(given.tag()).unwrap_or("latest");
    let digest = access.repository(&given)?.resolve(name).await?;
    let repository = access.repository(&parse_reference(&pull_spec(&given, &digest))?)?;
    let image = repository.pull(&args.source.architecture).await?;
    let found = repository.gather(&image, &[OWN_MANIFESTS, RELEASE_MANIFESTS], |_| false).await?;
    let references = found.files.get(&format!("{RELEASE_MANIFESTS}image-references"));
    let references =
        references.with_context(|| format!("{given} is not a release image: it has no image-references"))?;
    let images = assemble::image_stream(references).map_err(|cause| anyhow::anyhow!("image-references: {cause}"))?;
    let from = pull_spec(&given, &digest);
    let payload = loaded(&found.files, &from)?;
    let version = payload.release.version.clone();
    let architecture = match args.source.architecture.as_str() {
        "amd64" => "x86_64",
        "arm64" => "aarch64",
        other => other,
    };
    let signed = Digest::given(&digest)?;
    let signatures = signatures_of(args, &payload, &signed).await?;
    let tag = format!("{version}-{architecture}").replace('+', "_");
    let mut parts = Vec::new();
    for (component, component_image) in images {
        let reference = parse_reference(&component_image.image).with_context(|| format!("image {component}"))?;
        let digest = reference.digest().with_context(|| {
            format!("image {component} of the release is {reference}, which is not a digest and may change")
        })?;
        let annotations = BTreeMap::from([(SOURCE.to_owned(), repository_of(&reference))]);
        let name = Name { tag: format!("{tag}-{component}"), annotations };
        let image = digest.to_owned();
        parts.push(Part { from: Place::Registry(Box::new(access.repository(&reference)?)), image, name });
    }
    let annotations = [(RELEASE_LABEL.to_owned(), version.clone()), (SOURCE.to_owned(), repository_of(&given))].into();
    // The release comes last: whoever finds it finds all of its images.
    let release = Part { from: Place::Registry(Box::new(repository)), image: digest, name: Name { tag, annotations } };
    let names = parts.iter().chain([&release]).map(|part| &part.name.annotations);
    let sources: BTreeSet<String> = names.filter_map(|annotations| annotations.get(SOURCE).cloned()).collect();
    let copied = copy_all(parts, vec![release], &target.place).await?;
    let signatures_to = target.folder.as_ref().or(args.signatures_to.as_ref());
    if let Some(folder) = signatures_to {
        write_signatures(folder, &signed, &signatures)?;
    }
    report(&version, &signed, &copied, target, signatures_to.map(|folder| (folder.as_path(), signatures.len())));
    print_mirror_set(target, &sources)
}

fn repository_of(reference: &Reference) -> String {
    format!("{}/{}", reference.registry(), reference.repository())
}

async fn from_folder(folder: &Path, target: &Target) -> anyhow::Result<()> {
    let layout = Layout::open(folder);
    let entries = layout.entries().await?;
    ensure!(!entries.is_empty(), "{} contains no image", folder.display());
    let (releases, components): (Vec<Entry>, Vec<Entry>) =
        entries.into_iter().partition(|entry| entry.annotations.contains_key(RELEASE_LABEL));
    ensure!(
        !releases.is_empty(),
        "{} contains no complete release: run the command that wrote it again",
        folder.display()
    );
    let part = |entry: &Entry| Part {
        from: Place::Folder(layout.clone()),
        image: entry.digest.clone(),
        name: Name { tag: entry.name.clone(), annotations: entry.annotations.clone() },
    };
    let (first, last) = (components.iter().map(part).collect(), releases.iter().map(part).collect());
    let (sources, complete) = sources(components.iter().chain(&releases));
    if !complete && target.repository.is_some() {
        output::remark(
            "The folder does not tell of all its images where they come from, as an older cvo wrote it: nodes need an \
             ImageDigestMirrorSet for each repository that the manifests of the release name.",
        );
    }
    let copied = copy_all(first, last, &target.place).await?;
    for release in &releases {
        let version = release.annotations.get(RELEASE_LABEL).map(String::as_str).unwrap_or_default();
        let digest = Digest::given(&release.digest)?;
        let signatures = signatures_in(&folder.join(SIGNATURES).join(digest.store_folder()))?;
        report(version, &digest, &copied, target, Some((folder, signatures)));
    }
    print_mirror_set(target, &sources)
}

/// The repositories where manifests name the images, and whether that is known of each.
fn sources<'a>(entries: impl Iterator<Item = &'a Entry> + Clone) -> (BTreeSet<String>, bool) {
    let of = |entry: &Entry| entry.annotations.get(SOURCE).cloned();
    (entries.clone().filter_map(of).collect(), entries.clone().all(|entry| of(entry).is_some()))
}

/// How many there are: none where there is no folder. One that cannot be read is an error, because it may hold some.
fn signatures_in(folder: &Path) -> anyhow::Result<usize> {
    match std::fs::read_dir(folder) {
        Ok(entries) => Ok(entries.count()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(0),
        Err(error) => Err(error).with_context(|| format!("cannot read the signatures in {}", folder.display())),
    }
}

/// The release as the daemon would load it.
fn loaded(files: &BTreeMap<String, Vec<u8>>, image: &str) -> anyhow::Result<Payload> {
    let of = |folder: &str| -> Vec<SourceFile> {
        let found = files.iter().filter_map(|(path, bytes)| Some((path.strip_prefix(folder)?, bytes)));
        found.map(|(name, bytes)| SourceFile { name: name.to_owned(), bytes: bytes.clone() }).collect()
    };
    let place = image.to_owned();
    let files = PayloadFiles { place, own: of(OWN_MANIFESTS), release: of(RELEASE_MANIFESTS), unreadable: Vec::new() };
    Ok(load::load(files, &LoadOptions { image: image.to_owned(), ..LoadOptions::default() })?)
}

/// The signatures in the stores, checked if there are keyrings.
async fn signatures_of(args: &MirrorArgs, payload: &Payload, digest: &Digest) -> anyhow::Result<Vec<Vec<u8>>> {
    let all = payload.manifests.iter().chain(payload.excluded.iter().map(|(manifest, _)| manifest));
    let named: Vec<Store> = if args.signature_store.is_empty() {
        Config::from_manifests(all.map(|manifest| &**manifest))?.map(|config| config.stores).unwrap_or_default()
    } else {
        stores(&args.signature_store)?
    };
    let web = client(env!("CARGO_PKG_VERSION"), &Egress::default())?;
    let each = named.into_iter().map(|store| (store, web.clone())).collect();
    let found: Vec<Found> = signatures::from_stores(each, digest, STORE_LIMIT).collect().await;
    let mut bytes: Vec<Vec<u8>> = Vec::new();
    for one in &found {
        match one {
            Found::Candidate { signature, .. } if !bytes.contains(signature) => bytes.push(signature.clone()),
            Found::Candidate { .. } => {}
            Found::Failure { source, cause } => output::remark(&format!("{source}: {cause}")),
            Found::Nothing { source } => output::remark(&format!("{source}: no signature of this digest")),
        }
    }
    if !args.keyring.is_empty() {
        let report = checked(digest, &keyrings(&args.keyring)?, found, Timestamp::now());
        ensure!(report.verified, "nothing is copied: {}", text(&report).trim_end());
    } else if bytes.is_empty() {
        output::remark(unsigned(&found, args.without_signatures)?);
    }
    Ok(bytes)
}

/// What to say of a release of which no signature was found. An error if one may be where nobody could look: at the site without a
/// network nobody can look again.
fn unsigned(found: &[Found], without_signatures: bool) -> anyhow::Result<&'static str> {
    let unread = found.iter().any(|found| matches!(found, Found::Failure { .. }));
    ensure!(
        !unread || without_signatures,
        "nothing is copied: whether the release is signed is not known, because not every signature store could be read; try \
         again, name others with --signature-store, or copy it all the same with --without-signatures"
    );
    Ok(match (found.is_empty(), unread) {
        (true, _) => {
            "The release names no signature store, and none is given: a cluster accepts it only if it is forced."
        }
        (false, true) => {
            "Whether the release is signed is not known: without a signature a cluster accepts it only if it is forced."
        }
        (false, false) => "No signature was found: a cluster accepts this release only if it is forced.",
    })
}

/// What was copied.
struct Copied {
    images: usize,
    /// Bytes that were not there before.
    bytes: u64,
}

/// Copies `first` side by side, and `last` when all of them are there.
async fn copy_all(first: Vec<Part>, last: Vec<Part>, to: &Place) -> anyhow::Result<Copied> {
    let bar = Arc::new(Bar::new());
    let progress: Arc<dyn Progress> = bar.clone();
    let images = first.len() + last.len();
    for parts in [first, last] {
        let copies = stream::iter(parts).map(|part| {
            let (progress, bar) = (&progress, &bar);
            async move {
                let copied = copy(&part.from, to, &part.image, Some(&part.name), progress).await;
                copied.with_context(|| format!("image {}", part.name.tag))?;
                bar.copied(&part.name.tag);
                Ok::<(), anyhow::Error>(())
            }
        });
        copies.buffer_unordered(IMAGES).try_collect::<()>().await?;
    }
    bar.shown.finish_and_clear();
    Ok(Copied { images, bytes: bar.bytes.load(Ordering::Relaxed) })
}

/// A progress bar on a terminal, and a line for each image elsewhere.
struct Bar {
    shown: ProgressBar,
    bytes: AtomicU64,
}

impl Bar {
    fn new() -> Bar {
        let style = ProgressStyle::with_template("{wide_bar} {bytes}/{total_bytes} {bytes_per_sec} {msg}");
        let shown = ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        Bar { shown, bytes: AtomicU64::new(0) }
    }

    fn copied(&self, image: &str) {
        if self.shown.is_hidden() {
            output::remark(image);
        } else {
            self.shown.set_message(image.to_owned());
        }
    }
}

impl Progress for Bar {
    fn expect(&self, bytes: u64) {
        self.shown.inc_length(bytes);
    }

    fn done(&self, bytes: u64, copied: bool) {
        self.shown.inc(bytes);
        if copied {
            self.bytes.fetch_add(bytes, Ordering::Relaxed);
        }
    }
}

/// As a signature store has them, and as an object of the cluster.
fn write_signatures(folder: &Path, digest: &Digest, signatures: &[Vec<u8>]) -> anyhow::Result<()> {
    if signatures.is_empty() {
        return Ok(());
    }
    let store = folder.join(SIGNATURES).join(digest.store_folder());
    for (number, signature) in (1..).zip(signatures) {
        write(&store.join(format!("signature-{number}")), signature)?;
    }
    write(&object_file(folder, digest), serde_yaml::to_string(&config_map(digest, signatures))?.as_bytes())
}

fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let place = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(path.parent().unwrap_or(path)).with_context(place)?;
    std::fs::write(path, content).with_context(place)
}

fn object_file(folder: &Path, digest: &Digest) -> PathBuf {
    folder.join(OBJECTS).join(format!("signature-{}.yaml", digest.config_map_prefix()))
}

/// The daemon finds the signatures in it without a store.
fn config_map(digest: &Digest, signatures: &[Vec<u8>]) -> Value {
    let prefix = digest.config_map_prefix();
    let data =
        (1..).zip(signatures).map(|(n, bytes): (u32, _)| (format!("{prefix}-{n}"), STANDARD.encode(bytes).into()));
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": prefix, "namespace": MANAGED_NAMESPACE, "labels": {SIGNATURES_LABEL: ""}},
        "binaryData": data.collect::<Map<String, Value>>(),
    })
}

/// What is there now, and what to do with it.
fn report(version: &str, digest: &Digest, copied: &Copied, target: &Target, signatures: Option<(&Path, usize)>) {
    let bytes = HumanBytes(copied.bytes);
    output::remark(&format!("Release {version}, {digest}: {} images, {bytes} copied", copied.images));
    if let Some((folder, count)) = signatures.filter(|(_, count)| *count > 0) {
        let object = object_file(folder, digest);
        output::remark(&format!("Its {count} signatures for the cluster: kubectl apply -f {}", object.display()));
    }
    match (&target.repository, &target.folder) {
        (Some(repository), _) => {
            output::remark(&format!("To update: image {}@{digest} in spec.desiredUpdate", repository_of(repository)));
        }
        (None, Some(folder)) => {
            let folder = folder.display();
            output::remark(&format!("Carry {folder} on, then: cvo release mirror {folder} --to REGISTRY/REPOSITORY"));
        }
        (None, None) => {}
    }
}

/// The object for the cluster is on standard output alone, so that it can be piped on. A folder is no mirror yet.
fn print_mirror_set(target: &Target, sources: &BTreeSet<String>) -> anyhow::Result<()> {
    match &target.repository {
        Some(repository) if !sources.is_empty() => {
            output::print(&serde_yaml::to_string(&mirror_set(&repository_of(repository), sources))?)
        }
        _ => Ok(()),
    }
}

/// Tells the nodes of an OpenShift cluster to pull from the mirror what manifests name elsewhere.
fn mirror_set(to: &str, sources: &BTreeSet<String>) -> Value {
    let mirrors = sources.iter().map(|source| json!({"source": source, "mirrors": [to]}));
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ImageDigestMirrorSet", "metadata": {"name": "release"},
        "spec": {"imageDigestMirrors": mirrors.collect::<Vec<_>>()},
    })
}

#[cfg(test)]
mod tests;
