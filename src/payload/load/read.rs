//! From files to manifests: order, templates, decoding, and how much is kept of all together (§1.6-§1.9).

use super::identity::{identify, misfit};
use super::{LoadOptions, PayloadFiles, SourceFile};
use crate::payload::manifest::{Manifest, Origin};
use crate::payload::template::{self, Lines, TemplateError, Variables};
use crate::payload::yaml;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Most that is kept of the manifests of a payload, in bytes before packing. Its files may have 64 MiB together, and
/// aliases can make far more of them.
pub(super) const MAX_KEPT: usize = 192 << 20;
/// In the warning about a file whose templates are not known here.
pub(super) const IS_SKIPPED: &str = " is skipped: ";

/// What reading both folders gave.
pub(super) struct Documents {
    pub place: String,
    pub manifests: Vec<Read>,
    pub warnings: Vec<String>,
    pub problems: Vec<String>,
}

/// A manifest and the line of its file on which it begins.
pub(super) struct Read {
    pub line: usize,
    pub manifest: Arc<Manifest>,
    /// Why no API server would take it, if that is known without its type.
    pub misfit: Option<String>,
}

/// Reads both folders in load order. Of `images` that are not known none is missing.
pub(super) fn documents(
    files: PayloadFiles,
    options: &LoadOptions,
    images: Option<&BTreeMap<String, String>>,
    kept: usize,
    mut problems: Vec<String>,
) -> Documents {
    let PayloadFiles { place, own, release, unreadable } = files;
    problems.extend(unreadable);
    let none = BTreeMap::new();
    let variables =
        Variables { release_image: &options.image, cluster_profile: &options.profile, images: images.unwrap_or(&none) };
    let mut reader = Reader {
        variables,
        images_known: images.is_some(),
        strict: options.strict_templates,
        allowance: Allowance::new(kept),
        warnings: Vec::new(),
        problems,
    };
    let mut manifests = reader.folder(Origin::Own, own);
    manifests.extend(reader.folder(Origin::Release, release));
    let Reader { warnings, problems, .. } = reader;
    Documents { place, manifests, warnings, problems }
}

/// The manifests of one file, before any filter; one identity must not come twice (§1.9).
pub fn manifests_of(origin: Origin, name: &str, bytes: &[u8]) -> Result<Vec<Arc<Manifest>>, String> {
    let fit = |read: Read| match read.misfit {
        Some(cause) => Err(format!("line {}: {cause}", read.line)),
        None => Ok(read.manifest),
    };
    let found = documents_of(origin, name, bytes, &Lines::default(), &mut Allowance::new(MAX_KEPT))?;
    found.into_iter().map(fit).collect()
}

/// The name of the folder, as messages have it.
pub(super) fn folder(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => "manifests",
        Origin::Release => "release-manifests",
    }
}

/// Goes through files and remembers what was wrong.
struct Reader<'a> {
    variables: Variables<'a>,
    images_known: bool,
    strict: bool,
    allowance: Allowance,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// All manifests of one folder, in byte order of file names; other suffixes are left alone (§1.7). None once the
    /// allowance is spent, which is told with the file that spent it.
    fn folder(&mut self, origin: Origin, mut files: Vec<SourceFile>) -> Vec<Read> {
        files.retain(|f| [".yaml", ".yml", ".json"].iter().any(|suffix| f.name.ends_with(suffix)));
        files.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        let mut manifests = Vec::new();
        for file in files {
            if self.allowance.is_spent() {
                break;
            }
            let (bytes, lines) = match origin {
                Origin::Own => match self.templated(&file) {
                    Some(rendered) => rendered,
                    None => continue,
                },
                Origin::Release => (file.bytes, Lines::default()),
            };
            match documents_of(origin, &file.name, &bytes, &lines, &mut self.allowance) {
                Ok(found) => manifests.extend(found),
                Err(problem) => self.problems.push(format!("{}/{}: {problem}", folder(origin), file.name)),
            }
        }
        manifests
    }

    /// The file after its templates; `None` if it is to be skipped. A release made later may use what this program
    /// does not know; its own orchestrator will load the file (§1.6 rule 1).
    fn templated(&mut self, file: &SourceFile) -> Option<(Vec<u8>, Lines)> {
        let Ok(text) = std::str::from_utf8(&file.bytes) else {
            // The decoder names the line.
            return Some((file.bytes.clone(), Lines::default()));
        };
        let place = format!("{}/{}", folder(Origin::Own), file.name);
        let rendered = match template::render(text, &self.variables) {
            Ok(rendered) => rendered,
            // No orchestrator would read as much.
            Err(error) if self.strict || matches!(error, TemplateError::TooLarge { .. }) => {
                self.problems.push(format!("{place}: {error}"));
                return None;
            }
            Err(error) => {
                self.warnings.push(format!("{place}{IS_SKIPPED}{error}"));
                return None;
            }
        };
        if self.images_known {
            let said = if self.strict { &mut self.problems } else { &mut self.warnings };
            for image in &rendered.missing_images {
                said.push(format!("{place}: the release has no image {image:?}, the empty string stands for it"));
            }
        }
        Some((rendered.text.into_bytes(), rendered.lines))
    }
}

/// What may still be kept of all files together. Without it small files with aliases could fill any memory.
struct Allowance {
    all: usize,
    /// `None` once it is spent.
    left: Option<usize>,
}

impl Allowance {
    fn new(all: usize) -> Self {
        Allowance { all, left: Some(all) }
    }

    fn is_spent(&self) -> bool {
        self.left.is_none()
    }

    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        self.left = self.left.and_then(|left| left.checked_sub(bytes));
        if self.left.is_some() {
            return Ok(());
        }
        Err(format!(
            "with this the manifests of all files take more than the {} bytes they may take together, aliases expanded, so \
             no file behind it was read; make them smaller",
            self.all
        ))
    }

    /// The value as compact JSON, counted while it is written.
    fn json(&mut self, value: &Value) -> Result<Vec<u8>, String> {
        let mut room = Room { bytes: Vec::new(), left: self.left.unwrap_or_default() };
        let written = serde_json::to_writer(&mut room, value);
        // Every value has a form in JSON: if writing fails, it is for want of room.
        self.spend(if written.is_ok() { room.bytes.len() } else { usize::MAX })?;
        Ok(room.bytes)
    }
}

/// Takes so many bytes and no more.
struct Room {
    bytes: Vec<u8>,
    left: usize,
}

impl io::Write for Room {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Lines in errors are those of the file, from which `lines` leads to those of `bytes`.
fn documents_of(
    origin: Origin,
    name: &str,
    bytes: &[u8],
    lines: &Lines,
    allowance: &mut Allowance,
) -> Result<Vec<Read>, String> {
    let mut budget = yaml::Budget::default();
    let documents = yaml::documents_within(bytes, &mut budget).map_err(|mut error| {
        error.relocate(&|line| lines.source(line));
        error.to_string()
    });
    let found = documents.and_then(|documents| keep(origin, name, documents, lines, allowance));
    found.map_err(|cause| {
        if allowance.is_spent() {
            return cause;
        }
        // What turns out bad has taken its time as well: many such files must not take for ever.
        match allowance.spend(budget.spent()) {
            Ok(()) => cause,
            Err(spent) => format!("{cause}; {spent}"),
        }
    })
}

fn keep(
    origin: Origin,
    name: &str,
    documents: Vec<yaml::Document>,
    lines: &Lines,
    allowance: &mut Allowance,
) -> Result<Vec<Read>, String> {
    let file: Arc<str> = name.into();
    let mut seen = BTreeSet::new();
    let mut manifests = Vec::new();
    for (index, document) in documents.into_iter().enumerate() {
        let line = lines.source(document.line);
        let problem = |cause: String| format!("line {line}: {cause}");
        let raw = allowance.json(&document.value).map_err(problem)?;
        let (id, api_version, annotations) = identify(&document.value).map_err(problem)?;
        // They are kept beside the JSON.
        let texts = annotations.iter().map(|(key, text)| key.len() + text.len() + 2 * size_of::<String>());
        allowance.spend(size_of::<Manifest>() + texts.sum::<usize>()).map_err(problem)?;
        if !seen.insert(id.clone()) {
            return Err(problem(format!("{id} stands in this file twice")));
        }
        let manifest = Manifest {
            origin,
            file: Arc::clone(&file),
            index_in_file: index,
            id,
            api_version,
            annotations,
            raw: raw.into(),
        };
        let misfit = misfit(&document.value, &manifest.id).err();
        manifests.push(Read { line, manifest: Arc::new(manifest), misfit });
    }
    Ok(manifests)
}
