//! Package, channels and formats: what annotations say, and whether the labels of the image say the same.

use super::super::annotations::PREFIX;
use super::super::finding::{Check, Finding};
use super::super::{Contents, MEDIA_TYPE};
use crate::olm::names::is_label;

const EXPECTED: [&str; 4] = ["mediatype.v1", "manifests.v1", "metadata.v1", "package.v1"];

pub(super) fn check(contents: &Contents) -> Vec<Finding> {
    let annotations = &contents.annotations;
    let file = contents.annotations_file.as_str();
    let mut findings = Vec::new();
    if file.is_empty() && contents.labels.is_empty() {
        // The reader has told that there are none.
        return findings;
    }
    let mut error = |key: &str, message: String| {
        findings.push(Finding::error(Check::Annotation, (file, 0), &format!("{PREFIX}{key}"), message));
    };
    for key in EXPECTED.into_iter().filter(|key| annotations.get(key).is_empty()) {
        error(key, "the annotation is missing: add it".to_owned());
    }
    let media_type = annotations.media_type();
    if !media_type.is_empty() && media_type != MEDIA_TYPE {
        error("mediatype.v1", format!("{media_type:?} cannot be installed, only {MEDIA_TYPE}: build the bundle so"));
    }
    if !annotations.package().is_empty() && !is_label(annotations.package()) {
        error(
            "package.v1",
            format!(
                "{:?} is no name of a package: write small letters, digits and hyphens, at most 63",
                annotations.package()
            ),
        );
    }
    let channels = annotations.channels();
    if channels.is_empty() {
        error("channels.v1", "no channel is named: name at least one, such as stable".to_owned());
    }
    for channel in channels.iter().filter(|channel| !is_channel(channel)) {
        error("channels.v1", format!("{channel:?} is no name of a channel: write letters, digits, hyphens and dots"));
    }
    let default = annotations.default_channel();
    if !default.is_empty() && !is_channel(default) {
        error(
            "channel.default.v1",
            format!("{default:?} is no name of a channel: write letters, digits, hyphens and dots"),
        );
    } else if !default.is_empty() && !channels.is_empty() && !channels.contains(&default) {
        let message = format!(
            "the default channel {default:?} is none of the bundle's channels ({}): correct it, unless other bundles are in it",
            channels.join(", ")
        );
        let place = format!("{PREFIX}channel.default.v1");
        findings.push(Finding::warning(Check::Annotation, (file, 0), &place, message));
    }
    findings.extend(agreement(contents));
    findings
}

/// Keys that annotations and labels have with different values, and those that only one of them has.
fn agreement(contents: &Contents) -> Vec<Finding> {
    let Contents { annotations, labels, annotations_file: file, .. } = contents;
    let mut findings = Vec::new();
    if labels.is_empty() || file.is_empty() {
        return findings;
    }
    let ours = |key: &&String| key.starts_with(PREFIX);
    for (key, label) in labels.iter().filter(|(key, _)| ours(key)) {
        // Labels fill what the file leaves open, so that a key is always there.
        if let Some(value) = annotations.0.get(key).filter(|value| value.trim() != label.trim()) {
            let message = format!("the image has the label {label:?} and the file {value:?}: make them the same");
            findings.push(Finding::error(Check::Annotation, (file, 0), key, message));
        }
    }
    for key in annotations.0.keys().filter(ours).filter(|key| !labels.contains_key(*key)) {
        let message = "the image has no label of this name: add it to the Dockerfile of the bundle".to_owned();
        findings.push(Finding::warning(Check::Annotation, (file, 0), key, message));
    }
    findings
}

fn is_channel(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_'))
}
