//! The ClusterServiceVersion by itself: name, version, required fields, modes of installation, edges to other versions, examples.

use super::super::Bundle;
use super::super::csv::Csv;
use super::super::finding::{Check, Finding};
use crate::error::shortened;
use crate::object::definition::defined_group;
use crate::olm::catalog::pull_spec::is_pull_spec;
use crate::olm::names::{MAX_RELEASE, is_object_name, is_release};
use crate::olm::version_range::VersionRange;
use crate::version;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use semver::Version;
use serde_json::Value;
use std::collections::BTreeSet;

const MODES: [&str; 4] = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
/// Bytes of a value in a message.
const MAX_SHOWN: usize = 200;
const EXAMPLES: &str = "alm-examples";

/// Findings about one object.
struct Checks<'a> {
    at: (&'a str, usize),
    found: Vec<Finding>,
}

impl Checks<'_> {
    fn error(&mut self, check: Check, place: &str, message: impl Into<String>) {
        self.found.push(Finding::error(check, self.at, place, message.into()));
    }

    fn warning(&mut self, check: Check, place: &str, message: impl Into<String>) {
        self.found.push(Finding::warning(check, self.at, place, message.into()));
    }
}

pub(super) fn check(bundle: &Bundle) -> Vec<Finding> {
    let object = bundle.csv_object();
    let mut checks = Checks { at: (&object.file, object.line), found: Vec::new() };
    names_and_versions(&bundle.csv, &mut checks);
    fields(&bundle.csv, &mut checks);
    images(&bundle.csv, &mut checks);
    modes(&bundle.csv, &mut checks);
    edges(&bundle.csv, &mut checks);
    examples(&bundle.csv, &mut checks);
    checks.found
}

/// Those that the bundle has in a catalog, where each must be one.
fn images(csv: &Csv, checks: &mut Checks) {
    let related = csv.spec.related_images.iter().map(|related| related.image.as_str());
    let all = related.map(|image| ("spec.relatedImages", image));
    let all = all.chain(csv.spec.install.images().into_iter().map(|image| ("spec.install.spec.deployments", image)));
    for (place, image) in all.filter(|(_, image)| !image.is_empty() && !is_pull_spec(image)) {
        let image = shortened(image, MAX_SHOWN);
        checks.error(Check::Field, place, format!("{image:?} is no image: write [HOST/]PATH[:TAG][@DIGEST]"));
    }
}

fn names_and_versions(csv: &Csv, checks: &mut Checks) {
    let (name, spec) = (&csv.metadata.name, &csv.spec);
    if !name.is_empty() && !is_object_name(name) {
        let message = format!(
            "{name:?} is no name of an object: write small letters, digits, hyphens and dots, such as widgets.v1.2.3"
        );
        checks.error(Check::Name, "metadata.name", message);
    }
    if let Err(error) = version::parse(&spec.version) {
        checks.error(Check::Version, "spec.version", format!("{error}; catalogs take nothing else"));
    }
    if !spec.release.is_empty() {
        release(csv, checks);
    }
    let minimum = &spec.min_kube_version;
    if !minimum.is_empty() && tolerant(minimum).is_none() {
        checks.error(
            Check::Version,
            "spec.minKubeVersion",
            format!("{minimum:?} is no version: write one such as 1.25.0"),
        );
    }
}

/// A version with `v` before it, or without its last numbers.
fn tolerant(text: &str) -> Option<Version> {
    let text = text.trim().trim_start_matches('v');
    let numbers = text.split(['-', '+']).next().unwrap_or_default();
    let (numbers, rest) = text.split_at(numbers.len());
    let missing = 2usize.checked_sub(numbers.matches('.').count())?;
    Version::parse(&format!("{numbers}{}{rest}", ".0".repeat(missing))).ok()
}

fn release(csv: &Csv, checks: &mut Checks) {
    let Csv { metadata, spec } = csv;
    let release = &spec.release;
    if !is_release(release) {
        let message = format!(
            "{release:?} is no release: write identifiers with dots between them, without leading zeros, at most {MAX_RELEASE} characters"
        );
        checks.error(Check::Version, "spec.release", message);
    }
    if spec.version.contains('+') {
        checks.error(
            Check::Version,
            "spec.version",
            "with a release it must have no build metadata: leave out the part after +",
        );
    }
    let suffix = format!("-v{}-{release}", spec.version);
    if !metadata.name.ends_with(&suffix) {
        checks.error(Check::Name, "metadata.name", format!("with a release it must be <package>{suffix}: rename it"));
    }
}

fn fields(csv: &Csv, checks: &mut Checks) {
    let spec = &csv.spec;
    if spec.display_name.is_empty() {
        checks.error(Check::Field, "spec.displayName", "it must be set: write the name that consoles show");
    }
    if spec.install.strategy != "deployment" {
        let message = format!("it is {:?}, and the only strategy is \"deployment\": write that", spec.install.strategy);
        checks.error(Check::Field, "spec.install.strategy", message);
    }
    let deployments = &spec.install.spec.deployments;
    if deployments.is_empty() {
        checks.error(
            Check::Field,
            "spec.install.spec.deployments",
            "it is empty, so that nothing would run: add the Deployment",
        );
    }
    let mut names = BTreeSet::new();
    for (number, deployment) in deployments.iter().enumerate() {
        let place = format!("spec.install.spec.deployments[{number}].name");
        if !is_object_name(&deployment.name) {
            checks.error(Check::Name, &place, format!("{:?} is no name of a Deployment: correct it", deployment.name));
        } else if !names.insert(&deployment.name) {
            checks.error(Check::Duplicate, &place, format!("{:?} is there twice: rename one of them", deployment.name));
        }
    }
    for (field, missing, use_of_it) in [
        ("spec.description", spec.description.is_empty(), "consoles show it"),
        ("spec.provider.name", spec.provider.name.is_empty(), "consoles group and filter by it"),
        ("spec.icon", spec.icon.is_empty(), "consoles show a picture that all such operators share"),
    ] {
        if missing {
            checks.warning(Check::Field, field, format!("it is not set, and {use_of_it}: set it"));
        }
    }
    for (number, icon) in spec.icon.iter().enumerate() {
        let data = icon.data.replace(['\n', '\r'], "");
        if data.is_empty() || STANDARD.decode(&data).is_err() {
            checks.error(
                Check::Field,
                &format!("spec.icon[{number}].base64data"),
                "it is no base64: encode the picture anew",
            );
        }
        if !icon.media_type.starts_with("image/") {
            let message = format!("{:?} is no type of a picture: write one such as image/svg+xml", icon.media_type);
            checks.error(Check::Field, &format!("spec.icon[{number}].mediatype"), message);
        }
    }
}

fn modes(csv: &Csv, checks: &mut Checks) {
    let mut seen = BTreeSet::new();
    for (number, mode) in csv.spec.install_modes.iter().enumerate() {
        let place = format!("spec.installModes[{number}].type");
        if !MODES.contains(&mode.kind.as_str()) {
            let message = format!("{:?} is no mode: there are {}", mode.kind, MODES.join(", "));
            checks.error(Check::InstallMode, &place, message);
        } else if !seen.insert(&mode.kind) {
            checks.error(
                Check::InstallMode,
                &place,
                format!("{} is there twice, so that nothing is installed: keep one", mode.kind),
            );
        }
    }
    if !MODES.iter().any(|mode| csv.supports(mode)) {
        let message = "no mode is supported, so that no OperatorGroup fits: set supported to true for at least one";
        checks.error(Check::InstallMode, "spec.installModes", message);
    }
    let missing: Vec<&str> =
        MODES.into_iter().filter(|mode| csv.spec.install_modes.iter().all(|it| it.kind != *mode)).collect();
    if !missing.is_empty() && missing.len() < MODES.len() {
        let message = format!("{} is not named and counts as not supported: say so, or that it is", missing.join(", "));
        checks.warning(Check::InstallMode, "spec.installModes", message);
    }
}

fn edges(csv: &Csv, checks: &mut Checks) {
    let (name, spec) = (&csv.metadata.name, &csv.spec);
    if !name.is_empty() && spec.replaces == *name {
        checks.error(Check::UpdateEdge, "spec.replaces", "it names this version itself: name the one before it");
    }
    for (number, skipped) in spec.skips.iter().enumerate() {
        let place = format!("spec.skips[{number}]");
        if skipped.is_empty() {
            checks.error(Check::UpdateEdge, &place, "it is empty: name a version or remove it");
        } else if skipped == name {
            checks.error(Check::UpdateEdge, &place, "it names this version itself: remove it");
        }
    }
    let range = csv.skip_range();
    let place = "metadata.annotations.olm.skipRange";
    match (range.is_empty(), VersionRange::parse(range)) {
        (true, _) => {}
        (_, Err(error)) => checks.error(
            Check::UpdateEdge,
            place,
            format!("{range:?} is no range: {error}; without it nobody is updated by it"),
        ),
        (_, Ok(range)) => {
            if version::parse(&spec.version).is_ok_and(|version| range.contains(&version)) {
                let message = "it contains this version itself, so that it would be offered as an update of itself: end it before";
                checks.warning(Check::UpdateEdge, place, message);
            }
        }
    }
}

/// Examples that consoles offer to create. They cannot if the text is no list of objects, and should not if it is another's kind.
fn examples(csv: &Csv, checks: &mut Checks) {
    let Some(text) = csv.metadata.annotations.get(EXAMPLES).filter(|text| !text.trim().is_empty()) else { return };
    let place = format!("metadata.annotations.{EXAMPLES}");
    let list = match serde_json::from_str::<Value>(text) {
        Ok(Value::Array(list)) => list,
        Ok(one @ Value::Object(_)) => vec![one],
        Ok(_) => return checks.error(Check::Example, &place, "it is no list of objects in JSON: correct it"),
        Err(error) => return checks.error(Check::Example, &place, format!("it is no JSON: {error}; correct it")),
    };
    for (number, example) in list.iter().enumerate() {
        let text = |key: &str| example.get(key).and_then(Value::as_str).unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let owned = csv.spec.definitions.owned.iter().any(|it| {
            let group = defined_group(&it.name).unwrap_or_default();
            it.kind == kind && format!("{group}/{}", it.version) == api_version
        });
        let services = &csv.spec.api_services.owned;
        let served = services.iter().any(|it| it.kind == kind && format!("{}/{}", it.group, it.version) == api_version);
        if !owned && !served {
            let message = format!("the operator owns no {kind:?} of {api_version:?}: correct or remove the example");
            checks.warning(Check::Example, &format!("{place}[{number}]"), message);
        }
    }
}
