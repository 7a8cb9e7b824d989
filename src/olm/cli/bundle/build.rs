//! `cvo bundle build`: the image of a bundle, without a container engine.

use super::line;
use crate::cli::exit::Exit;
use crate::cli::image_build::{Built, ImageTarget};
use crate::cli::output::remark;
use crate::cli::release::RegistryArgs;
use crate::net::registry::image::{self, Start};
use crate::net::registry::layer::{self, LayerFile, Packing};
use crate::olm::bundle::annotations::{Annotations, PREFIX};
use crate::olm::bundle::finding::{Finding, Weight};
use crate::olm::bundle::validate::validate;
use crate::olm::bundle::{MEDIA_TYPE, SourceFile, read};
use crate::olm::net::bundle::files;
use anyhow::ensure;
use clap::Args;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The image is only read, on nodes of any kind.
const ARCHITECTURE: &str = "amd64";

/// Build the image of a bundle, and push it or write it into a folder
///
/// No container engine is needed. The same files always give the same digest. The image has the folders of manifests and metadata, and
/// the annotations of metadata/annotations.yaml as labels. A bundle with errors is not built. Prints one line: <digest> <image>.
#[derive(Args, Debug)]
pub(crate) struct BuildArgs {
    /// The root of the bundle, with manifests/ and metadata/
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    #[command(flatten)]
    pub target: ImageTarget,
    /// Build it although it has errors
    #[arg(long)]
    pub with_errors: bool,
    #[command(flatten)]
    pub registry: RegistryArgs,
}

pub(super) async fn run(args: &BuildArgs) -> anyhow::Result<Exit> {
    let files = files(&args.dir)?;
    let contents = read::read(&files, &BTreeMap::new())?;
    ensure!(
        !contents.annotations_file.is_empty(),
        "{} has no metadata/annotations.yaml, of which the labels of the image are made: write one, with {PREFIX}package.v1, \
         {PREFIX}channels.v1 and the others",
        args.dir.display()
    );
    let errors: Vec<Finding> = validate(&contents).into_iter().filter(|it| it.weight == Weight::Error).collect();
    errors.iter().for_each(|finding| remark(line(finding).trim_end()));
    if !errors.is_empty() && !args.with_errors {
        remark("nothing is built: correct the errors, or build the bundle in spite of them by --with-errors");
        return Ok(Exit::Found);
    }
    let built = built(files, &contents.annotations, args.target.created()?)?;
    args.target.put(built, &args.registry.access()?, None).await?;
    Ok(Exit::Success)
}

fn built(files: Vec<SourceFile>, annotations: &Annotations, created: Timestamp) -> anyhow::Result<Built> {
    let (manifests, metadata) = (annotations.manifests(), annotations.metadata());
    let wanted = |file: &SourceFile| file.path.starts_with(&manifests) || file.path.starts_with(&metadata);
    let files = files.into_iter().filter(wanted);
    let files: Vec<LayerFile> =
        files.map(|SourceFile { path, bytes }| LayerFile { path, mode: 0o444, bytes: bytes.into() }).collect();
    let mut labels = annotations.clone();
    for (key, value) in [("mediatype.v1", MEDIA_TYPE), ("manifests.v1", &manifests), ("metadata.v1", &metadata)] {
        if labels.get(key).is_empty() {
            labels.set(key, value);
        }
    }
    let layer = layer::write(&files, u64::try_from(created.as_second()).unwrap_or(0), Packing::USUAL)?;
    let start = Start { labels: labels.0, architecture: ARCHITECTURE.to_owned(), ..Start::default() };
    Ok(Built { image: image::scratch(std::slice::from_ref(&layer), &start, created)?, layers: vec![layer] })
}

#[cfg(test)]
mod tests {
    use super::super::{BundleCommand, run};
    use super::*;
    use crate::cli::release::ImageSource;
    use crate::olm::cli::input::{self, Input};
    use clap::Parser;
    use std::path::Path;

    const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/olm/bundle/tests/widgets");

    #[derive(Parser)]
    struct Line {
        #[command(subcommand)]
        command: BundleCommand,
    }

    async fn built(dir: &str, to: &Path) -> anyhow::Result<Exit> {
        run(Line::parse_from(["bundle", "build", dir, "-o", to.to_str().unwrap(), "-t", "r.io/widgets:1"]).command)
            .await
    }

    #[tokio::test]
    async fn image_has_the_annotations_as_labels_and_is_read_as_the_bundle() {
        let out = tempfile::tempdir().unwrap();
        for name in ["one", "two"] {
            assert_eq!(built(EXAMPLE, &out.path().join(name)).await.unwrap(), Exit::Success);
        }
        let index = |name: &str| std::fs::read_to_string(out.path().join(name).join("index.json")).unwrap();
        assert_eq!(index("one"), index("two"), "the same digest");
        let source = ImageSource { architecture: "arm64".to_owned(), registry: RegistryArgs::default() };
        let read = input::open(out.path().join("one").to_str().unwrap(), &source).await.unwrap();
        let Input::Bundle(contents, image) = read else { panic!("{read:?}") };
        assert_eq!(image, "r.io/widgets:1");
        assert_eq!(contents.labels.get("operators.operatorframework.io.bundle.package.v1").unwrap(), "widget-operator");
        let folder = read::read(&files(Path::new(EXAMPLE)).unwrap(), &BTreeMap::new()).unwrap();
        assert_eq!(contents.objects, folder.objects);
        assert_eq!(contents.bundle().unwrap().csv.metadata.name, "widget-operator.v1.2.0");
    }

    #[tokio::test]
    async fn bundle_with_errors_or_without_annotations_is_not_built() {
        let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for file in files(Path::new(EXAMPLE)).unwrap().iter().filter(|file| !file.path.ends_with("crd.yaml")) {
            let path = dir.path().join(&file.path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, &file.bytes).unwrap();
        }
        let path = dir.path().to_str().unwrap();
        assert_eq!(built(path, &out.path().join("a")).await.unwrap(), Exit::Found);
        std::fs::remove_file(dir.path().join("metadata/annotations.yaml")).unwrap();
        let error = built(path, &out.path().join("a")).await.unwrap_err().to_string();
        assert!(error.contains("has no metadata/annotations.yaml"), "{error}");
        assert!(!out.path().join("a").exists());
    }
}
