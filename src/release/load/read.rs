//! Reads manifests from files: load order, templates, decoding, and a limit on the size of all manifests together.

use super::identity::{check_text_fields, identify};
use super::{LoadOptions, PayloadFiles, SourceFile};
use crate::object::manifest::{Manifest, Origin};
use crate::object::yaml;
use crate::release::template;
use crate::release::template::{Lines, TemplateError, Variables};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

/// Number of bytes that the manifests of a payload may take before compression: those of the largest known release take
/// 10 MB. Its files together have at most 32 MiB, but YAML aliases can expand to far more. The daemon has the running
/// release in memory besides.
pub(super) const MAX_TOTAL: usize = 40 << 20;
/// Number of manifests that a payload may have. The largest known release has 1,000.
const MAX_MANIFESTS: usize = 10_000;
/// Part of the warning about a file with an unknown template, by which the warning is found again.
pub(super) const IS_SKIPPED: &str = " is skipped: ";

/// The result of reading both folders.
pub(super) struct Documents {
    pub place: String,
    pub manifests: Vec<Read>,
    pub warnings: Vec<String>,
    pub problems: Vec<String>,
}

/// A manifest and the line of its file where it begins.
pub(super) struct Read {
    pub line: usize,
    pub manifest: Arc<Manifest>,
    /// Why every API server would refuse it, if that is known without the type of its kind.
    pub invalid: Option<String>,
}

/// Reads both folders in load order. Without `images` no image is reported as missing.
pub(super) fn documents(
    files: PayloadFiles,
    options: &LoadOptions,
    images: Option<&BTreeMap<String, String>>,
    limit: usize,
    mut problems: Vec<String>,
) -> Documents {
    let PayloadFiles { place, own, release, unreadable } = files;
    problems.extend(unreadable);
    let none = BTreeMap::new();
    let variables = Variables {
        release_image: &options.image,
        cluster_profile: &options.profile,
        exclude_manifests: options.filter.exclude_identifier.as_deref().unwrap_or_default(),
        images: images.unwrap_or(&none),
    };
    let mut reader = Reader {
        variables,
        images_known: images.is_some(),
        strict: options.strict_templates,
        allowance: Allowance::new(limit),
        warnings: Vec::new(),
        problems,
    };
    let mut manifests = reader.folder(Origin::Own, own);
    manifests.extend(reader.folder(Origin::Release, release));
    let Reader { warnings, problems, .. } = reader;
    Documents { place, manifests, warnings, problems }
}

/// The manifests of one file, unfiltered. Fails if two of them have the same identity.
pub fn manifests_of(origin: Origin, name: &str, bytes: &[u8]) -> Result<Vec<Arc<Manifest>>, String> {
    let valid = |read: Read| match read.invalid {
        Some(cause) => Err(format!("line {}: {cause}", read.line)),
        None => Ok(read.manifest),
    };
    let found = documents_of(origin, name, bytes, &Lines::default(), &mut Allowance::new(MAX_TOTAL))?;
    found.into_iter().map(valid).collect()
}

/// The name of the folder.
pub(super) fn folder(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => "manifests",
        Origin::Release => "release-manifests",
    }
}

/// Reads files and collects warnings and errors.
struct Reader<'a> {
    variables: Variables<'a>,
    images_known: bool,
    strict: bool,
    allowance: Allowance,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// All manifests of one folder, in byte order of file names. Files with another suffix than `.yaml`, `.yml` and `.json`
    /// are not manifests. Stops when the allowance is spent, which the file that spent it reports as its problem.
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

    /// The file with its templates evaluated; `None` if it is skipped. A newer release may use template functions that this
    /// program does not know; its own orchestrator loads the file once it has taken over.
    fn templated(&mut self, file: &SourceFile) -> Option<(Vec<u8>, Lines)> {
        let Ok(text) = std::str::from_utf8(&file.bytes) else {
            // The YAML decoder reports the line.
            return Some((file.bytes.clone(), Lines::default()));
        };
        let place = format!("{}/{}", folder(Origin::Own), file.name);
        let rendered = match template::render(text, &self.variables) {
            Ok(rendered) => rendered,
            // A newer orchestrator would refuse a file of this size as well.
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
            let messages = if self.strict { &mut self.problems } else { &mut self.warnings };
            for image in &rendered.missing_images {
                messages.push(format!("{place}: the release has no image {image:?}; the empty string takes its place"));
            }
        }
        Some((rendered.text.into_bytes(), rendered.lines))
    }
}

/// The bytes that the manifests still to be read may take. Without it small files with aliases could fill the memory.
struct Allowance {
    limit: usize,
    /// `None` once it is spent.
    left: Option<usize>,
    /// How many manifests have taken part of it.
    manifests: usize,
}

impl Allowance {
    fn new(limit: usize) -> Self {
        Allowance { limit, left: Some(limit), manifests: 0 }
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
            "with this the manifests of all files take more than the {} bytes that they may take together once aliases are \
             expanded; no file after this one was read; make the files smaller",
            self.limit
        ))
    }

    /// Counts one more manifest. Too many spend the allowance, whatever their size.
    fn count(&mut self) -> Result<(), String> {
        self.manifests += 1;
        if self.manifests <= MAX_MANIFESTS {
            return Ok(());
        }
        self.left = None;
        Err(format!(
            "with this the files have more than the {MAX_MANIFESTS} manifests that a release may have; no file after this one \
             was read; make the release smaller"
        ))
    }

    /// The value as compact JSON, never larger than what is left.
    fn json(&mut self, value: &Value) -> Result<Vec<u8>, String> {
        let mut writer = LimitedWriter { bytes: Vec::new(), left: self.left.unwrap_or_default() };
        let written = serde_json::to_writer(&mut writer, value);
        // Every value can be written as JSON, so writing only fails at the limit.
        self.spend(if written.is_ok() { writer.bytes.len() } else { usize::MAX })?;
        Ok(writer.bytes)
    }
}

/// Accepts `left` bytes and fails after that.
struct LimitedWriter {
    bytes: Vec<u8>,
    left: usize,
}

impl io::Write for LimitedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.left = self.left.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The manifests in `bytes`. `lines` maps lines of `bytes` to those of the file, which errors name.
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
    let found = documents.and_then(|documents| to_manifests(origin, name, documents, lines, allowance));
    found.map_err(|cause| {
        if allowance.is_spent() {
            return cause;
        }
        // Decoding a bad file takes time as well, so it counts too. Otherwise many of them could keep the process busy.
        match allowance.spend(budget.spent()) {
            Ok(()) => cause,
            Err(spent) => format!("{cause}; {spent}"),
        }
    })
}

fn to_manifests(
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
        allowance.count().map_err(problem)?;
        let raw = allowance.json(&document.value).map_err(problem)?;
        let (id, api_version, annotations) = identify(&document.value).map_err(problem)?;
        // Annotations are stored beside the JSON.
        let texts = annotations.iter().map(|(key, text)| key.len() + text.len() + 2 * size_of::<String>());
        allowance.spend(size_of::<Manifest>() + texts.sum::<usize>()).map_err(problem)?;
        if !seen.insert(id.clone()) {
            return Err(problem(format!("{id} is in this file twice")));
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
        let invalid = check_text_fields(&document.value, &manifest.id).err();
        manifests.push(Read { line, manifest: Arc::new(manifest), invalid });
    }
    Ok(manifests)
}
