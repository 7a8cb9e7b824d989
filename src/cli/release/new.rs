//! `cvo release new`: builds a release image from folders of manifests.

use super::assemble::{self, Component, Input, ReleaseFiles, Tag, repository};
use super::mark::DEFAULT_PROFILE;
use super::{BASE_DIGEST_LABEL, ImageSource, Pulled, RELEASE_LABEL, RELEASE_MANIFESTS};
use crate::cli::output;
use crate::net::registry::image;
use crate::net::registry::layer::{self, LayerFile, Packing};
use crate::net::registry::{parse_reference, pull_spec};
use crate::object::manifest::{is_manifest, run_level};
use crate::release::work::payload_dir;
use anyhow::{Context, anyhow, bail, ensure};
use clap::{ArgGroup, Args};
use jiff::Timestamp;
use oci_client::Reference;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The component whose image contains the daemon, and from which a release image is built.
const BASE_TAG: &str = "cluster-version-operator";
const NO_BASE: &str = "a release image needs a base: give an image that contains cvo with --to-image-base IMAGE";

/// Build a release image from the manifests of its components, and push it
///
/// A release image consists of a base image, which contains the daemon and its manifests/, and one layer on top with the
/// manifests of all other components in release-manifests/. No container engine is needed: the layer is built here and
/// sent to the registry; base layers are mounted or copied. The same input always gives the same image: entries are sorted,
/// and the creation time is --created, not the clock.
///
/// Each --from-dir is either the folder of one component, which is named like the folder, or contains one folder for each
/// component. Files that end in .yaml, .yml or .json are manifests. A file whose name starts with 0000_ keeps its name
/// (0000_<run level>_<component>_<rest> decides when it is applied); any other becomes 0000_50_<component>_<file>.
///
/// In manifests, 0.0.1-snapshot is replaced by the version of the release. A component may have a file image-references, an
/// ImageStream whose tags name component images: wherever the repository of a tag's from.name occurs in the component's
/// manifests, with any tag or digest, it is replaced by the image given for that component.
///
/// Everything on disk is checked before the registry is asked. Prints one line: <digest> <name> <time>.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("output").required(true).args(["to_image", "to_dir", "dry_run"])),
    after_long_help = "Example:\n  cvo release new --name 1.0.1 --previous 1.0.0 --from-dir manifests/ \\\n    \
        --to-image-base registry.example/cvo:1 --to-image registry.example/platform:1.0.1 \\\n    \
        storage=registry.example/storage@sha256:6b1c...\n\nSign the digest with `cvo release sign`, and use it to \
        request the update:\n  registry.example/platform@sha256:..."
)]
pub(crate) struct NewArgs {
    /// Version of the release, a semantic version
    #[arg(long, value_name = "VERSION")]
    pub name: semver::Version,
    /// Folder with manifests; may be repeated
    #[arg(long, value_name = "DIR", required = true)]
    pub from_dir: Vec<PathBuf>,
    /// Base image, which contains the daemon [default: the image given as cluster-version-operator=IMAGE]
    #[arg(long, value_name = "IMAGE")]
    pub to_image_base: Option<String>,
    /// Push the release image here
    #[arg(long, value_name = "IMAGE")]
    pub to_image: Option<String>,
    /// Write release-manifests/ to this folder, which must be new or empty, instead of an image
    #[arg(long, value_name = "DIR")]
    pub to_dir: Option<PathBuf>,
    /// Check everything and print the digest, but write and push nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Versions that can be updated to this one
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub previous: Vec<semver::Version>,
    /// Versions that this one can be updated to, if known already
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub next: Vec<semver::Version>,
    /// Version of a part of the images, which replaces 0.0.1-snapshot-NAME in manifests; may be repeated
    #[arg(long, value_name = "NAME=VERSION")]
    pub component_version: Vec<String>,
    /// Include objects that say nothing about it in clusters of this profile (usually self-managed-high-availability); without this,
    /// objects that have no annotation include.release.openshift.io/PROFILE take part nowhere
    #[arg(long, value_name = "PROFILE", value_parser = profile)]
    pub profile: Option<String>,
    /// Further properties of the release as a JSON object, for example {"url": "https://example.com/1.0.1"}
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Creation time; fixed, so that building again gives the same digest [default: 1970-01-01T00:00:00Z]
    #[arg(long, value_name = "RFC3339", conflicts_with = "source_date_epoch")]
    pub created: Option<Timestamp>,
    /// The same in seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH", hide = true)]
    pub source_date_epoch: Option<i64>,
    /// Images of the components
    #[arg(value_name = "COMPONENT=IMAGE@DIGEST")]
    pub images: Vec<String>,
    #[command(flatten)]
    pub source: ImageSource,
}

/// Checks everything on the command line and on disk before the registry is asked: a release of many images takes minutes,
/// and a mistake should show at once.
pub(crate) async fn run(args: NewArgs) -> anyhow::Result<()> {
    let sources = Sources::read(&args.from_dir)?;
    let mut input = Input {
        version: args.name.clone(),
        previous: args.previous.clone(),
        next: args.next.clone(),
        versions: args.component_version.iter().map(|given| component_version(given)).collect::<Result<_, _>>()?,
        metadata: metadata(args.metadata.as_deref())?,
        created: created(args.created, args.source_date_epoch)?,
        tags: with_images(sources.tags, &args.images)?,
        components: sources.components,
        profile: args.profile.clone(),
    };
    let base = base_reference(&args, &input.tags)?;
    let target = args.to_image.as_deref().map(target).transpose()?;
    if let Some(dir) = &args.to_dir {
        super::extract::check_target(dir)?;
    }
    // The image that the base will be known by is not known yet, and the check does not depend on it.
    let given = input.tags.get(BASE_TAG).cloned();
    if let (Some(base), None) = (&base, &given) {
        input.tags.insert(BASE_TAG.into(), Tag { image: base.to_string(), ..Tag::default() });
    }
    let mut files = assemble::assemble(&input)?;
    let base = match &base {
        Some(reference) => Some(args.source.pull(reference).await.context("base image")?),
        None => None,
    };
    if let Some(base) = &base {
        check_base(base, given.as_ref(), args.to_image_base.is_some())?;
        if given.is_none() {
            let image = pull_spec(&base.reference, &base.image.digest);
            input.tags.insert(BASE_TAG.into(), Tag { image, ..Tag::default() });
            files = assemble::assemble(&input)?;
        }
    }
    remark(&input, &files);
    if let Some(dir) = &args.to_dir {
        let folder = files.files.into_iter().map(|(name, bytes)| (format!("{RELEASE_MANIFESTS}{name}"), bytes));
        super::extract::write_folder(dir, folder)?;
        output::remark(&format!("wrote {}", dir.join(RELEASE_MANIFESTS).display()));
        return Ok(());
    }
    let base = base.context(NO_BASE)?;
    let digest = build(&args, &input, files, base, target).await?;
    output::line(&format!("{digest} {} {}", input.version, image::seconds(input.created)))
}

/// The images of all components: those of the folders, and those of the command line, which take precedence.
fn with_images(mut tags: BTreeMap<String, Tag>, images: &[String]) -> anyhow::Result<BTreeMap<String, Tag>> {
    let mut given = BTreeSet::new();
    for text in images {
        let (component, image) = mapping(text)?;
        ensure!(given.insert(component.clone()), "component {component} is given twice: remove one of the two images");
        if let Some(tag) = tags.insert(component.clone(), Tag { image, ..Tag::default() }) {
            output::remark(&format!("{component}: {text} replaces {}", tag.image));
        }
    }
    Ok(tags)
}

/// The base image, if there is one; only a folder can be written without.
fn base_reference(args: &NewArgs, tags: &BTreeMap<String, Tag>) -> anyhow::Result<Option<Reference>> {
    let component = tags.get(BASE_TAG).filter(|_| args.to_dir.is_none()).map(|tag| tag.image.as_str());
    let name = args.to_image_base.as_deref().or(component);
    ensure!(name.is_some() || args.to_dir.is_some(), NO_BASE);
    Ok(name.map(parse_reference).transpose()?)
}

/// Where the release image is pushed. Its digest is the result, so none may be given.
fn target(given: &str) -> anyhow::Result<Reference> {
    let target = parse_reference(given)?;
    ensure!(target.digest().is_none(), "--to-image {target} must not have a digest: write REGISTRY/REPOSITORY:TAG");
    Ok(target)
}

/// Refuses a base that is a release already, or that is not the image `given` for its component.
fn check_base(base: &Pulled, given: Option<&Tag>, named: bool) -> anyhow::Result<()> {
    let (reference, digest) = (&base.reference, &base.image.digest);
    if let Some(release) = base.image.label(RELEASE_LABEL) {
        bail!("{reference} is already release {release}: use the image that it was built from");
    }
    // The same image may have another name inside the cluster.
    if let Some(given) = given.filter(|given| named && !given.image.ends_with(digest)) {
        bail!(
            "--to-image-base {reference} has digest {digest}, but {BASE_TAG}={} was given: remove one of the two",
            given.image
        );
    }
    Ok(())
}

fn remark(input: &Input, files: &ReleaseFiles) {
    output::remark(&format!(
        "release {}: {} objects in {} files of {} components, {} images",
        input.version,
        files.objects,
        files.files.len().saturating_sub(2),
        input.components.len(),
        input.tags.len()
    ));
    for object in files.unmarked.iter().take(UNMARKED_SHOWN) {
        output::remark(&format!("{object}: excluded everywhere"));
    }
    if !files.unmarked.is_empty() {
        output::remark(&format!(
            "warning: {} objects take part in no cluster, since they have no annotation include.release.openshift.io/<profile>: \
             --profile {DEFAULT_PROFILE} puts it on them",
            files.unmarked.len()
        ));
    }
}

/// Objects without a cluster profile that are named; all are counted.
const UNMARKED_SHOWN: usize = 10;

/// A value parser for the names of cluster profiles.
pub(super) fn profile(name: &str) -> Result<String, String> {
    let fine = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if !name.is_empty() && name.len() <= 63 && name.chars().all(fine) {
        return Ok(name.to_owned());
    }
    Err(format!("a profile has lower case letters, digits and dashes, such as {DEFAULT_PROFILE}"))
}

/// Builds the image, pushes it if there is a target, and returns its digest.
async fn build(
    args: &NewArgs,
    input: &Input,
    files: ReleaseFiles,
    base: Pulled,
    target: Option<Reference>,
) -> anyhow::Result<String> {
    let layer_files: Vec<LayerFile> = files
        .files
        .into_iter()
        .map(|(name, bytes)| LayerFile { path: format!("{RELEASE_MANIFESTS}{name}"), mode: 0o444, bytes: bytes.into() })
        .collect();
    let mtime = u64::try_from(input.created.as_second()).unwrap_or(0);
    let layer = layer::write(&layer_files, mtime, Packing::USUAL)?;
    let labels = BTreeMap::from([
        (RELEASE_LABEL.to_string(), input.version.to_string()),
        (BASE_DIGEST_LABEL.to_string(), base.image.digest.clone()),
    ]);
    let image = image::append(&base.image, &layer, &labels, input.created)?;
    let Some(target) = target else { return Ok(image.digest) };
    let repository = args.source.registry.access()?.repository(&target)?;
    let digest = repository.push(&image, vec![layer], Some(&base.repository)).await?;
    output::remark(&format!("pushed {}", pull_spec(&target, &digest)));
    Ok(digest)
}

/// The creation time: as given, or the same for each build.
pub(crate) fn created(given: Option<Timestamp>, epoch: Option<i64>) -> anyhow::Result<Timestamp> {
    let time = match (given, epoch) {
        (Some(time), _) => time,
        (None, Some(seconds)) => Timestamp::from_second(seconds).context("SOURCE_DATE_EPOCH")?,
        (None, None) => Timestamp::UNIX_EPOCH,
    };
    ensure!(time >= Timestamp::UNIX_EPOCH, "{time} is before 1970, which archives cannot store");
    Ok(time)
}

fn metadata(json: Option<&str>) -> anyhow::Result<Map<String, Value>> {
    let Some(json) = json else { return Ok(Map::new()) };
    serde_json::from_str(json)
        .with_context(|| format!("--metadata {json} must be a JSON object such as {{\"url\": \"https://…\"}}"))
}

fn component_version(given: &str) -> anyhow::Result<(String, semver::Version)> {
    let (name, version) = given
        .split_once('=')
        .with_context(|| format!("--component-version {given} has no \"=\": write NAME=VERSION"))?;
    let version = version.parse().with_context(|| format!("--component-version {given} is not a semantic version"))?;
    Ok((name.into(), version))
}

/// Splits `COMPONENT=IMAGE@DIGEST`. A tag could be moved later, and with it a release that was signed.
fn mapping(given: &str) -> anyhow::Result<(String, String)> {
    let wrong = |cause: &str| anyhow!("{given:?}: {cause} (write COMPONENT=REGISTRY/REPOSITORY@sha256:HEX)");
    let (component, image) = given.split_once('=').ok_or_else(|| wrong("it has no \"=\""))?;
    ensure!(!component.is_empty(), wrong("the component has no name"));
    let reference = parse_reference(image).map_err(|e| wrong(&e.to_string()))?;
    ensure!(reference.digest().is_some(), wrong("the image has no digest, and a tag can be moved later"));
    Ok((component.into(), image.into()))
}

/// The content of the folders.
#[derive(Debug, Default)]
struct Sources {
    components: Vec<Component>,
    /// From an `image-references` next to the folders of components.
    tags: BTreeMap<String, Tag>,
}

impl Sources {
    fn read(dirs: &[PathBuf]) -> anyhow::Result<Sources> {
        let mut sources = Sources::default();
        for dir in dirs {
            let listing = Listing::of(dir)?;
            if listing.folders.is_empty() {
                sources.add(listing.component(dir)?)?;
                continue;
            }
            if let Some((name, _)) = listing.manifests.first() {
                bail!(
                    "{}: {name} is next to folders of components, so its component is unknown: move it into one of them",
                    dir.display()
                );
            }
            if let Some(bytes) = &listing.references {
                sources.add_tags(dir, bytes)?;
            }
            for folder in &listing.folders {
                sources.add(Listing::of(folder)?.component(folder)?)?;
            }
        }
        Ok(sources)
    }

    fn add(&mut self, component: Component) -> anyhow::Result<()> {
        if let Some(other) = self.components.iter().find(|c| c.name == component.name) {
            bail!(
                "component {} is in {} and in {}: put its manifests into one folder",
                component.name,
                other.place,
                component.place
            );
        }
        self.components.push(component);
        Ok(())
    }

    fn add_tags(&mut self, dir: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let place = dir.join("image-references");
        let tags = assemble::image_stream(bytes).map_err(|cause| anyhow!("{}: {cause}", place.display()))?;
        for (name, tag) in tags {
            ensure!(
                tag.image.contains("@sha256:"),
                "{}: tag {name:?} has image {} without a digest: write {}@sha256:HEX",
                place.display(),
                tag.image,
                repository(&tag.image)
            );
            self.tags.insert(name, tag);
        }
        Ok(())
    }
}

/// One folder on disk.
#[derive(Debug, Default)]
struct Listing {
    folders: Vec<PathBuf>,
    manifests: Vec<(String, Vec<u8>)>,
    references: Option<Vec<u8>>,
}

impl Listing {
    fn of(dir: &Path) -> anyhow::Result<Listing> {
        let place = || format!("folder of manifests {}", dir.display());
        let entries = std::fs::read_dir(dir).with_context(place)?;
        let mut paths = entries.map(|e| e.map(|e| e.path())).collect::<Result<Vec<_>, _>>().with_context(place)?;
        paths.sort();
        let mut listing = Listing::default();
        for path in paths {
            let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_string();
            ensure!(!name.is_empty(), "{}: the name is not UTF-8 text", path.display());
            let read = || payload_dir::read_bounded(&path);
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                listing.folders.push(path);
            } else if is_manifest(&name) {
                listing.manifests.push((name, read()?));
            } else if name == "image-references" {
                listing.references = Some(read()?);
            } else {
                output::remark(&format!("{}: skipped, since it does not end in .yaml, .yml or .json", path.display()));
            }
        }
        Ok(listing)
    }

    fn component(self, dir: &Path) -> anyhow::Result<Component> {
        let whole = dir.canonicalize().with_context(|| dir.display().to_string())?;
        let own_name = |p: &Path| p.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_string();
        let name = match own_name(&whole).as_str() {
            // As in many source trees: COMPONENT/manifests/.
            "manifests" | "install" => whole.parent().map(own_name).unwrap_or_default(),
            other => other.to_string(),
        };
        if let Some(folder) = self.folders.first() {
            bail!("{} is a folder inside a component: releases are flat, move its files up", folder.display());
        }
        ensure!(
            !self.manifests.is_empty(),
            "{} contains no manifests (files that end in .yaml, .yml or .json)",
            dir.display()
        );
        // Generated file names must be valid in a release.
        let generates = self.manifests.iter().any(|(file, _)| !file.starts_with("0000_"));
        ensure!(
            !generates || run_level(&format!("0000_50_{name}_x")) == Some(("50", name.as_str())),
            "{}: {name:?} is not a valid component name (letters, digits and single hyphens): rename the folder",
            dir.display()
        );
        let place = dir.display().to_string();
        Ok(Component { name, place, manifests: self.manifests, placeholders: self.references })
    }
}

#[cfg(test)]
mod tests;
