//! The files of a bundle: those of a folder, or those of an image.

use crate::net::registry::RegistryError;
use crate::net::registry::files::Limits;
use crate::net::registry::source::Opened;
use crate::object::yaml::MAX_BYTES;
use crate::olm::bundle::annotations::{Annotations, PREFIX};
use crate::olm::bundle::{BundleError, Contents, MAX_FILES, MAX_TOTAL, SourceFile, read};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Folders below each other.
const MAX_DEPTH: usize = 8;
/// How much is read of the image of a bundle.
const LIMITS: Limits = Limits {
    files: MAX_FILES,
    bytes: MAX_TOTAL as u64,
    file_bytes: MAX_BYTES as u64 + 1,
    packed: 256 << 20,
    unpacked: 1 << 30,
    window: 16 << 20,
    time: Duration::from_secs(600),
    slowest: None,
};

/// The files of a bundle cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BundleFilesError {
    #[error("cannot read {path}: {cause}", path = path.display())]
    File { path: PathBuf, cause: io::Error },
    #[error("{path} is more than {MAX_DEPTH} folders deep: give the root of one bundle", path = .0.display())]
    Deep(PathBuf),
    #[error("{path} has more than {MAX_FILES} files or {MAX_TOTAL} bytes: give the root of one bundle", path = .0.display())]
    Large(PathBuf),
    #[error("{0}")]
    Registry(#[from] RegistryError),
    #[error("image {image}: {cause}")]
    Bundle { image: String, cause: BundleError },
}

/// All files of a folder by their paths below it. Of a file that is too large only so much is read that this shows.
pub(crate) fn files(dir: &Path) -> Result<Vec<SourceFile>, BundleFilesError> {
    let (mut found, mut total) = (Vec::new(), 0);
    let mut folders = vec![(dir.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = folders.pop() {
        if depth > MAX_DEPTH {
            return Err(BundleFilesError::Deep(folder));
        }
        let failed = |cause| BundleFilesError::File { path: folder.clone(), cause };
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let failed = |cause| BundleFilesError::File { path: path.clone(), cause };
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let metadata = fs::metadata(&path).map_err(failed)?;
            if metadata.is_dir() {
                folders.push((path.clone(), format!("{prefix}{name}/"), depth + 1));
            } else if metadata.is_file() {
                let mut bytes = Vec::new();
                let file = File::open(&path).map_err(failed)?;
                file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(failed)?;
                total += bytes.len();
                found.push(SourceFile { path: format!("{prefix}{name}"), bytes });
            }
            if found.len() > MAX_FILES || total > MAX_TOTAL {
                return Err(BundleFilesError::Large(dir.to_owned()));
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

/// The files of the bundle in the image whose root this is, which may hold much else. Where its metadata are elsewhere than usual only
/// the labels of the image say, which nobody knows who is inside.
pub(crate) fn of_root(root: &Path) -> Result<Vec<SourceFile>, BundleFilesError> {
    let below = |folder: &str| match files(&root.join(folder)) {
        Err(BundleFilesError::File { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Ok(found) => {
            Ok(found.into_iter().map(|it| SourceFile { path: format!("{folder}{}", it.path), ..it }).collect())
        }
        Err(error) => Err(error),
    };
    let usual = Annotations::default();
    let mut all = below(&usual.metadata())?;
    let bundle = |cause| BundleFilesError::Bundle { image: root.display().to_string(), cause };
    let told = read::read(&all, &BTreeMap::new()).map_err(bundle)?.annotations;
    all.extend(below(&told.manifests())?);
    if all.iter().map(|file| file.bytes.len()).sum::<usize>() > MAX_TOTAL || all.len() > MAX_FILES {
        return Err(BundleFilesError::Large(root.to_owned()));
    }
    Ok(all)
}

/// The labels of an image that say what it is.
pub(crate) fn labels(opened: &Opened) -> BTreeMap<String, String> {
    let labels = opened.image.config.pointer("/config/Labels").and_then(Value::as_object).into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// Whether labels are those of a bundle.
pub(crate) fn is_bundle(labels: &BTreeMap<String, String>) -> bool {
    labels.keys().any(|key| key.starts_with(PREFIX))
}

/// Reads the bundle in an image, whose files are written to a folder that does not exist yet.
pub(crate) async fn image(opened: &Opened, to: &Path) -> Result<Contents, BundleFilesError> {
    let labels = labels(opened);
    let mut of_image = Annotations::default();
    of_image.fill(&labels);
    let (manifests, metadata) = (of_image.manifests(), of_image.metadata());
    let summary = opened.write(&[&manifests, &metadata], to, &LIMITS).await?;
    let files = if summary.found.is_empty() { Vec::new() } else { files(to)? };
    let bundle = |cause| BundleFilesError::Bundle { image: opened.name().to_owned(), cause };
    read::read(&files, &labels).map_err(bundle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_that_is_no_bundle_is_given_up_before_all_of_it_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let deepest = "a/".repeat(MAX_DEPTH);
        fs::create_dir_all(dir.path().join(&deepest)).unwrap();
        fs::write(dir.path().join(&deepest).join("file"), "x").unwrap();
        let paths: Vec<String> = files(dir.path()).unwrap().into_iter().map(|file| file.path).collect();
        assert_eq!(paths, [format!("{deepest}file")]);
        fs::create_dir(dir.path().join(&deepest).join("a")).unwrap();
        let error = files(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("is more than 8 folders deep: give the root of one bundle"), "{error}");
    }

    #[test]
    fn bundle_at_the_root_of_an_image_is_found_among_other_folders() {
        let dir = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let paths = || of_root(dir.path()).unwrap().into_iter().map(|file| file.path).collect::<Vec<_>>();
        assert!(paths().is_empty());
        write("proc/1/mem", "x");
        write("manifests/a.yaml", "a");
        assert_eq!(paths(), ["manifests/a.yaml"]);
        write("deploy/olm/b.yaml", "b");
        write(
            "metadata/annotations.yaml",
            "annotations: {operators.operatorframework.io.bundle.manifests.v1: deploy/olm/}",
        );
        assert_eq!(paths(), ["metadata/annotations.yaml", "deploy/olm/b.yaml"]);
    }

    /// They take no space on the disk.
    #[test]
    fn files_of_a_bundle_are_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let large = |name: &str| File::create(dir.path().join(name)).unwrap().set_len(MAX_TOTAL as u64).unwrap();
        large("0");
        let read = files(dir.path()).unwrap();
        assert_eq!(read.iter().map(|file| file.bytes.len()).collect::<Vec<_>>(), [MAX_BYTES + 1], "the reader tells");
        (1..=MAX_TOTAL / MAX_BYTES).for_each(|number| large(&number.to_string()));
        let error = files(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("more than 10000 files or 67108864 bytes: give the root of one bundle"), "{error}");
    }
}
