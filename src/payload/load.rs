//! From files to a payload: order, templates, decoding, identity, filters, one error for all bad files (§1.7-§1.10).

use super::filter::Filter;
use super::manifest::Manifest;
use crate::api::Release;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One file of a release folder, read by the shell.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Base name.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The two folders of a release as bytes. Order does not matter; loading sorts bytewise.
#[derive(Clone, Debug, Default)]
pub struct PayloadFiles {
    /// Where they were read, for messages.
    pub place: String,
    /// `manifests/`.
    pub own: Vec<SourceFile>,
    /// `release-manifests/`, including `image-references` and `release-metadata`.
    pub release: Vec<SourceFile>,
}

/// What loading needs to know beside the files.
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Pull spec of the release being loaded: `.ReleaseImage`.
    pub image: String,
    /// `.ClusterProfile`; also a filter.
    pub profile: String,
    /// A template that cannot be evaluated fails the load instead of skipping the file (`render`, §1.6 rule 2).
    pub strict_templates: bool,
    pub filter: Filter,
}

/// A loaded release.
#[derive(Clone, Debug)]
pub struct Payload {
    /// `version`, `url`, `channels`, `architecture` from release-metadata; `image` as loaded.
    pub release: Release,
    /// Versions this release may be reached from.
    pub previous: Vec<String>,
    /// Short name to pull spec (§1.4).
    pub images: BTreeMap<String, String>,
    /// Creation time of image-references.
    pub created: Option<Timestamp>,
    /// Included manifests: `manifests/` first, then `release-manifests/`, each in byte order of file names.
    pub manifests: Vec<Arc<Manifest>>,
    /// What the load-time filters dropped, with the reason.
    pub excluded: Vec<(Arc<Manifest>, String)>,
    /// `status.versionHash` (§1.10).
    pub hash: String,
    /// Files skipped because of templates this program does not know (§1.6 rule 1), with the reason.
    pub warnings: Vec<String>,
}

/// Loading failed; every bad file is named.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    #[error("{place} is not a release payload: {missing} is missing (a payload has manifests/, release-manifests/, release-manifests/release-metadata and release-manifests/image-references)")]
    NotAPayload { place: String, missing: String },
    #[error("the payload in {place} cannot be used: {}", .problems.join("; "))]
    Integrity { place: String, problems: Vec<String> },
}
