//! `cvo release new`: folders of manifests in, release image out (oc-client §8.6).

use super::assemble::{self, Component, Input, ReleaseFiles, Tag, repository};
use super::{BASE_DIGEST_LABEL, RELEASE_LABEL, RELEASE_MANIFESTS, RegistryArgs, host_architecture};
use crate::cli::output;
use crate::net::registry::image::{self, Image};
use crate::net::registry::layer::{self, LayerFile, Packing};
use crate::net::registry::{Repository, parse_reference, pull_spec};
use crate::payload::manifest::run_level;
use anyhow::{Context, anyhow, bail, ensure};
use clap::{ArgGroup, Args};
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The component whose image carries the orchestrator itself, and which a release image is built upon.
const BASE_TAG: &str = "cluster-version-operator";

/// Build a release image from the manifests of its components, and push it.
///
/// A release image is an image with the orchestrator in it (the base, whose manifests/ are applied first) and one layer
/// on top, which holds the manifests of all other components under release-manifests/. No container engine is needed:
/// the layer is built here and sent to the registry, base layers are mounted or copied. The same input gives the same
/// image: entries are sorted, and the time of creation is not the clock's but --created.
///
/// Each --from-dir is either the folder of one component (the component is named like the folder) or holds one folder
/// per component. Files that end in .yaml, .yml or .json are manifests. A file whose name starts with 0000_ keeps it
/// (0000_<run level>_<component>_<rest> decides when it is applied); every other becomes 0000_50_<component>_<file>.
///
/// In manifests, 0.0.1-snapshot stands for the version of the release. A component may have a file image-references, an
/// ImageStream whose tags name component images: wherever the repository of a tag's from.name occurs in the
/// component's manifests, with any tag or digest, the image given for that component takes its place.
///
/// Prints one line: <digest> <name> <time>.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("output").required(true).args(["to_image", "to_dir", "dry_run"])),
    after_long_help = "Example:\n  cvo release new --name 1.0.1 --previous 1.0.0 --from-dir manifests/ \\\n    \
        --to-image-base registry.example/cvo:1 --to-image registry.example/platform:1.0.1 \\\n    \
        storage=registry.example/storage@sha256:6b1c...\n\nThe digest it prints is what `cvo release sign` signs and \
        what an update asks for:\n  registry.example/platform@sha256:..."
)]
pub struct NewArgs {
    /// Version of the release, a semantic version
    #[arg(long, value_name = "VERSION")]
    pub name: semver::Version,
    /// Folder with manifests; may be repeated
    #[arg(long, value_name = "DIR", required = true)]
    pub from_dir: Vec<PathBuf>,
    /// Image with the orchestrator in it, to build upon [default: the image given as cluster-version-operator=IMAGE]
    #[arg(long, value_name = "IMAGE")]
    pub to_image_base: Option<String>,
    /// Push the release image here
    #[arg(long, value_name = "IMAGE")]
    pub to_image: Option<String>,
    /// Instead of an image, write release-manifests/ into this folder, which must be new or empty
    #[arg(long, value_name = "DIR")]
    pub to_dir: Option<PathBuf>,
    /// Check everything and print the digest, but write nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Versions that may be updated to this one
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub previous: Vec<semver::Version>,
    /// Versions this one may be updated to, if known already
    #[arg(long, value_name = "VERSION", value_delimiter = ',')]
    pub next: Vec<semver::Version>,
    /// Version of something in the images, for manifests that say 0.0.1-snapshot-NAME; may be repeated
    #[arg(long, value_name = "NAME=VERSION")]
    pub component_version: Vec<String>,
    /// More properties of the release as a JSON object, for example {"url": "https://example.com/1.0.1"}
    #[arg(long, value_name = "JSON")]
    pub metadata: Option<String>,
    /// Time of creation; a fixed one, so that building again gives the same digest [default: 1970-01-01T00:00:00Z]
    #[arg(long, value_name = "RFC3339", conflicts_with = "source_date_epoch")]
    pub created: Option<Timestamp>,
    /// The same in seconds since 1970
    #[arg(long, value_name = "SECONDS", env = "SOURCE_DATE_EPOCH", hide = true)]
    pub source_date_epoch: Option<i64>,
    /// Architecture to take of a base image for several
    #[arg(long, value_name = "ARCH", default_value = host_architecture())]
    pub architecture: String,
    /// Images of the components
    #[arg(value_name = "COMPONENT=IMAGE@DIGEST")]
    pub images: Vec<String>,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

/// The image the release is built upon.
struct Base {
    repository: Repository,
    image: Image,
}

pub async fn run(args: NewArgs) -> anyhow::Result<()> {
    let created = created(args.created, args.source_date_epoch)?;
    let sources = Sources::read(&args.from_dir)?;
    let mut tags = sources.tags;
    for given in &args.images {
        let (component, image) = mapping(given)?;
        let replaced = tags.insert(component.clone(), Tag { image, ..Tag::default() });
        if args.images.iter().filter(|other| other.split('=').next() == Some(component.as_str())).count() > 1 {
            bail!("component {component} is given twice: leave one of the two images out");
        }
        if let Some(tag) = replaced {
            output::remark(&format!("{component}: {given} takes the place of {}", tag.image));
        }
    }
    let base = open_base(&args, &mut tags).await?;
    let input = Input {
        version: args.name.clone(),
        previous: args.previous.clone(),
        next: args.next.clone(),
        versions: args.component_version.iter().map(|given| component_version(given)).collect::<Result<_, _>>()?,
        metadata: metadata(args.metadata.as_deref())?,
        created,
        tags,
        components: sources.components,
    };
    let files = assemble::assemble(&input)?;
    output::remark(&format!(
        "release {}: {} objects in {} files of {} components, {} images",
        input.version,
        files.objects,
        files.files.len().saturating_sub(2),
        input.components.len(),
        input.tags.len()
    ));
    for object in &files.unmarked {
        let why = "takes part nowhere, since no annotation include.release.openshift.io/<profile> is there";
        output::remark(&format!("{object}: {why}"));
    }
    if let Some(dir) = &args.to_dir {
        let folder = files.files.into_iter().map(|(name, bytes)| (format!("{RELEASE_MANIFESTS}{name}"), bytes));
        super::extract::write_folder(dir, folder)?;
        output::remark(&format!("wrote {}", dir.join(RELEASE_MANIFESTS).display()));
        return Ok(());
    }
    let base = base
        .ok_or_else(|| anyhow!("a release image needs a base: give --to-image-base IMAGE, an image with cvo in it"))?;
    let digest = build(&args, &input, files, base).await?;
    output::line(&format!("{digest} {} {}", input.version, image::seconds(created)))
}

/// Builds the image and pushes it if it is to be pushed; returns the digest.
async fn build(args: &NewArgs, input: &Input, files: ReleaseFiles, base: Base) -> anyhow::Result<String> {
    let layer_files: Vec<LayerFile> = files
        .files
        .into_iter()
        .map(|(name, bytes)| LayerFile { path: format!("{RELEASE_MANIFESTS}{name}"), mode: 0o444, bytes })
        .collect();
    let mtime = u64::try_from(input.created.as_second()).unwrap_or(0);
    let layer = layer::write(&layer_files, mtime, Packing::USUAL)?;
    let labels = BTreeMap::from([
        (RELEASE_LABEL.to_string(), input.version.to_string()),
        (BASE_DIGEST_LABEL.to_string(), base.image.digest.clone()),
    ]);
    let image = image::append(&base.image, &layer, &labels, input.created)?;
    let Some(target) = &args.to_image else { return Ok(image.digest) };
    let target = parse_reference(target)?;
    ensure!(
        target.digest().is_none(),
        "--to-image {target}: the digest is what comes out: write REGISTRY/REPOSITORY:TAG"
    );
    let repository = args.registry.access()?.repository(&target)?;
    let digest = repository.push(&image, vec![layer], Some(&base.repository)).await?;
    output::remark(&format!("pushed {}", pull_spec(&target, &digest)));
    Ok(digest)
}

/// Opens the base image and enters it among the tags.
async fn open_base(args: &NewArgs, tags: &mut BTreeMap<String, Tag>) -> anyhow::Result<Option<Base>> {
    let given = tags.get(BASE_TAG).map(|tag| tag.image.clone());
    let Some(name) = args.to_image_base.clone().or_else(|| given.clone().filter(|_| args.to_dir.is_none())) else {
        return Ok(None);
    };
    let reference = parse_reference(&name)?;
    let repository = args.registry.access()?.repository(&reference)?;
    let image = repository.pull(&args.architecture).await.context("base image")?;
    if let Some(release) = image.label(RELEASE_LABEL) {
        bail!("{reference} is release {release} already: build upon the image that it was built upon");
    }
    match given {
        // The same image may be known under another name inside the cluster.
        Some(given) if given.ends_with(&image.digest) || args.to_image_base.is_none() => {}
        Some(given) => bail!(
            "--to-image-base {reference} has digest {}, but {BASE_TAG}={given} was given: leave one of the two out",
            image.digest
        ),
        None => {
            let spec = pull_spec(&reference, &image.digest);
            tags.insert(BASE_TAG.into(), Tag { image: spec, ..Tag::default() });
        }
    }
    Ok(Some(Base { repository, image }))
}

/// The time of creation: given, or the same at each build.
pub fn created(given: Option<Timestamp>, epoch: Option<i64>) -> anyhow::Result<Timestamp> {
    let time = match (given, epoch) {
        (Some(time), _) => time,
        (None, Some(seconds)) => Timestamp::from_second(seconds).context("SOURCE_DATE_EPOCH")?,
        (None, None) => Timestamp::UNIX_EPOCH,
    };
    ensure!(time >= Timestamp::UNIX_EPOCH, "{time} is before 1970, which archives cannot express");
    Ok(time)
}

fn metadata(json: Option<&str>) -> anyhow::Result<Map<String, Value>> {
    let Some(json) = json else { return Ok(Map::new()) };
    serde_json::from_str(json)
        .with_context(|| format!("--metadata {json} must be a JSON object such as {{\"url\": \"https://…\"}}"))
}

fn component_version(given: &str) -> anyhow::Result<(String, semver::Version)> {
    let (name, version) =
        given.split_once('=').with_context(|| format!("--component-version {given}: no \"=\" in it"))?;
    let version = version.parse().with_context(|| format!("--component-version {given}: no semantic version"))?;
    Ok((name.into(), version))
}

/// Splits `COMPONENT=IMAGE@DIGEST`. A tag could be moved later, and with it a release that was signed.
fn mapping(given: &str) -> anyhow::Result<(String, String)> {
    let wrong = |cause: &str| anyhow!("{given:?}: {cause} (write COMPONENT=REGISTRY/REPOSITORY@sha256:HEX)");
    let (component, image) = given.split_once('=').ok_or_else(|| wrong("no \"=\" in it"))?;
    ensure!(!component.is_empty(), wrong("the component has no name"));
    let reference = parse_reference(image).map_err(|e| wrong(&e.to_string()))?;
    ensure!(reference.digest().is_some(), wrong("the image has no digest, so what it means could change later"));
    Ok((component.into(), image.into()))
}

/// What was found in the folders.
#[derive(Debug, Default)]
struct Sources {
    components: Vec<Component>,
    /// From an `image-references` beside the folders of components.
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
                    "{}: {name} lies beside folders of components, so whose it is cannot be known: move it into one of them",
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

/// One folder as it lies on the disk.
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
            let read = || std::fs::read(&path).with_context(|| path.display().to_string());
            if name.starts_with('.') {
                continue;
            }
            if path.is_dir() {
                listing.folders.push(path);
            } else if [".yaml", ".yml", ".json"].iter().any(|end| name.ends_with(end)) {
                listing.manifests.push((name, read()?));
            } else if name == "image-references" {
                listing.references = Some(read()?);
            } else {
                output::remark(&format!("{}: left out, since it ends in none of .yaml, .yml, .json", path.display()));
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
            bail!("{} is a folder within a component: releases are flat, move its files up", folder.display());
        }
        ensure!(
            !self.manifests.is_empty(),
            "{} holds no manifests (files that end in .yaml, .yml or .json)",
            dir.display()
        );
        // Names of our own making must be names a release understands.
        let invents = self.manifests.iter().any(|(file, _)| !file.starts_with("0000_"));
        ensure!(
            !invents || run_level(&format!("0000_50_{name}_x")) == Some(("50", name.as_str())),
            "{}: {name:?} cannot be a component's name (letters, digits and single hyphens): rename the folder",
            dir.display()
        );
        let place = dir.display().to_string();
        Ok(Component { name, place, manifests: self.manifests, placeholders: self.references })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:1111111111111111111111111111111111111111111111111111111111111111";

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        dir
    }

    #[test]
    fn a_folder_is_one_component_or_holds_several() {
        let several = tree(&[("net/a.yaml", "a"), ("net/b.json", "b"), ("net/README.md", ""), ("web/a.yml", "c")]);
        let sources = Sources::read(&[several.path().into()]).unwrap();
        let seen: Vec<_> = sources.components.iter().map(|c| (c.name.as_str(), c.manifests.len())).collect();
        assert_eq!(seen, [("net", 2), ("web", 1)]);

        let one = tree(&[("dns/manifests/a.yaml", "a"), ("dns/manifests/image-references", "x")]);
        let sources = Sources::read(&[one.path().join("dns/manifests")]).unwrap();
        assert_eq!(sources.components[0].name, "dns");
        assert_eq!(sources.components[0].placeholders.as_deref(), Some(b"x".as_slice()));
    }

    #[test]
    fn folders_that_mean_nothing_are_refused() {
        let table = [
            (vec![("net/a.yaml", ""), ("b.yaml", "")], "beside folders"),
            (vec![("net/sub/a.yaml", "")], "within a component"),
            (vec![("net/README", "")], "holds no manifests"),
            (vec![("net_x/a.yaml", "")], "cannot be a component's name"),
            (vec![("net/a.yaml", ""), ("image-references", "kind: Pod\napiVersion: v1\nspec: {}")], "ImageStream"),
            (
                vec![
                    ("net/a.yaml", ""),
                    (
                        "image-references",
                        "{kind: ImageStream, apiVersion: image.openshift.io/v1, spec: {tags: [{name: a, from: {kind: DockerImage, name: 'r/a:1'}}]}}",
                    ),
                ],
                "write r/a@sha256:HEX",
            ),
        ];
        for (files, expected) in table {
            let dir = tree(&files);
            let message = Sources::read(&[dir.path().into()]).unwrap_err().to_string();
            assert!(message.contains(expected), "{files:?}: {message}");
        }
        let dir = tree(&[("net/a.yaml", "")]);
        let twice = Sources::read(&[dir.path().into(), dir.path().join("net")]).unwrap_err().to_string();
        assert!(twice.contains("component net is in"), "{twice}");
        let absent = format!("{:#}", Sources::read(&["/nowhere/at/all".into()]).unwrap_err());
        assert!(absent.contains("/nowhere/at/all") && absent.contains("No such file"), "{absent}");
    }

    #[test]
    fn images_need_a_digest() {
        let good = format!("net=127.0.0.1:5000/o/net@{DIGEST}");
        assert_eq!(mapping(&good).unwrap(), ("net".into(), format!("127.0.0.1:5000/o/net@{DIGEST}")));
        for bad in ["net", "=r/x@sha256:1", "net=r/x", "net=r/x:1", "net=r/x@sha256:1", "net=R E"] {
            let message = mapping(bad).unwrap_err().to_string();
            assert!(message.contains(bad) && message.contains("COMPONENT="), "{message}");
        }
    }

    #[test]
    fn creation_is_fixed_unless_given() {
        assert_eq!(created(None, None).unwrap(), Timestamp::UNIX_EPOCH);
        assert_eq!(created(None, Some(60)).unwrap().to_string(), "1970-01-01T00:01:00Z");
        assert!(created(None, Some(-1)).is_err());
        assert!(created(None, Some(i64::MAX)).unwrap_err().to_string().contains("SOURCE_DATE_EPOCH"));
    }
}
