//! Comparing releases and completing their metadata.

use crate::cluster_version::status::Facts;
use crate::release::api::Release;

/// The name users see: version, else image, else a placeholder.
pub(crate) fn label(release: &Release) -> &str {
    match (release.version.as_str(), release.image.as_str()) {
        ("", "") => "<unknown>",
        ("", image) => image,
        (version, _) => version,
    }
}

/// Whether two pull specs mean the same image: identical, or with the same digest, as a mirror has it under another name.
pub(crate) fn same_digest(a: &str, b: &str) -> bool {
    if a.is_empty() || b.is_empty() {
        return false;
    }
    a == b || matches!((digest(a), digest(b)), (Some(a), Some(b)) if a == b)
}

/// What follows the only `@` of a pull spec.
fn digest(image: &str) -> Option<&str> {
    let (_, digest) = image.split_once('@')?;
    (!digest.contains('@') && !digest.is_empty()).then_some(digest)
}

/// The release being applied, with what the own payload and the update graph know about it. Only missing fields are
/// filled, and never because of a version alone: two images can carry one version.
pub(crate) fn actual(facts: &Facts) -> Release {
    let mut release = facts.actual.clone();
    if release.image.is_empty() {
        return release;
    }
    if release.image == facts.own.image {
        fill(&mut release, &facts.own);
    }
    let Some(retrieval) = &facts.retrieval else { return release };
    let known = retrieval.current.iter().chain(&retrieval.available);
    if let Some(other) = known.into_iter().find(|other| same_digest(&other.image, &release.image)) {
        fill(&mut release, other);
    }
    release
}

/// As long as the update graph does not say anything about the release, what it said before stays: after a restart, and
/// while the update service fails, `desired` keeps its channels and URL.
pub(crate) fn keep_metadata(release: &mut Release, before: &Release, facts: &Facts) {
    let told = facts.retrieval.as_ref().is_some_and(|retrieval| retrieval.outcome.is_ok());
    if !told && same_digest(&release.image, &before.image) {
        fill(release, before);
    }
}

fn fill(release: &mut Release, other: &Release) {
    let texts = [
        (&mut release.version, &other.version),
        (&mut release.url, &other.url),
        (&mut release.architecture, &other.architecture),
    ];
    for (mine, theirs) in texts {
        if mine.is_empty() {
            mine.clone_from(theirs);
        }
    }
    if release.channels.is_empty() {
        release.channels.clone_from(&other.channels);
    }
}

#[cfg(test)]
mod tests;
