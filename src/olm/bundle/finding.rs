//! What is wrong with a bundle, or was passed over in it.

use serde::Serialize;

/// What was looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Check {
    /// A file of manifests that is neither YAML nor JSON.
    NotYaml,
    /// A document that is no Kubernetes object.
    NotAnObject,
    /// A file where nobody reads it.
    Unread,
    /// A file of annotations, dependencies or properties that is missing or cannot be read.
    MetadataFile,
    /// Annotations that are missing, wrong or not those of the image.
    Annotation,
    /// None or several ClusterServiceVersions, or one that cannot be read.
    Csv,
    /// A name that Kubernetes or catalogs refuse.
    Name,
    /// A version that is none.
    Version,
    /// A field that has to be set, or has a value that nobody understands.
    Field,
    /// Modes of installation.
    InstallMode,
    /// Edges to other versions.
    UpdateEdge,
    /// Kinds that the ClusterServiceVersion owns and definitions that the bundle has.
    Definition,
    /// APIServices and webhooks.
    Endpoint,
    /// Examples of the kinds.
    Example,
    /// A kind that is not installed with an operator.
    UnsupportedKind,
    /// An object that is twice in the bundle.
    Duplicate,
    /// An object that is too large.
    Size,
    /// A dependency that cannot be used.
    Dependency,
    /// A property that cannot be used.
    Property,
    /// A dependency that says less or more than is probably meant.
    Advice,
    /// A fault that keeps a package of a catalog from being served.
    Catalog,
    /// The image of a bundle.
    Image,
    /// What is not to be used any more.
    Deprecation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Weight {
    /// The operator would not be installed, or not as is meant.
    Error,
    /// It may be meant so.
    Warning,
}

/// Something that was found. Errors sort first, then by file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Finding {
    pub weight: Weight,
    /// Path below the root of the bundle; empty if it concerns all of it.
    pub file: String,
    /// From 1; 0 if it is not known.
    pub line: usize,
    /// The object or the field; empty for the whole file.
    pub place: String,
    pub check: Check,
    /// What is wrong, and the way out.
    pub message: String,
}

impl Finding {
    pub(crate) fn error(check: Check, (file, line): (&str, usize), place: &str, message: String) -> Self {
        Finding { weight: Weight::Error, file: file.to_owned(), line, place: place.to_owned(), check, message }
    }

    pub(crate) fn warning(check: Check, at: (&str, usize), place: &str, message: String) -> Self {
        Finding { weight: Weight::Warning, ..Finding::error(check, at, place, message) }
    }

    /// `metadata/dependencies.yaml:3: dependencies[0]`, without what is not known.
    pub(crate) fn location(&self) -> String {
        let line = if self.line == 0 { String::new() } else { self.line.to_string() };
        let file = [self.file.as_str(), &line];
        let file: Vec<&str> = file.into_iter().filter(|part| !part.is_empty()).collect();
        let parts = [file.join(":"), self.place.clone()];
        parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
    }
}
