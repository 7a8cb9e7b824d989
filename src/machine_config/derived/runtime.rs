//! The file that CRI-O reads in addition to its own.

use crate::machine_config::api::node_config::ContainerRuntimeConfiguration;
use crate::merge::quantity::whole;
use std::fmt::Write;

const LEVELS: [&str; 7] = ["trace", "debug", "info", "warn", "error", "fatal", "panic"];
const RUNTIMES: [&str; 2] = ["crun", "runc"];
/// CRI-O refuses to start with less, other than 0 and -1 for any number.
const FEWEST_PIDS: i64 = 20;
/// The buffer that CRI-O writes at once.
const LEAST_LOG: i64 = 8192;

/// The path and the contents.
pub(super) fn file(name: &str, settings: Option<&ContainerRuntimeConfiguration>) -> Result<(String, String), String> {
    let settings = settings.ok_or("spec.containerRuntimeConfig is missing: say what is to be set")?;
    let mut lines = String::new();
    let mut line = |key: &str, value: &str| {
        // Writing to a String does not fail.
        let _written = writeln!(lines, "{key} = {value}");
    };
    if let Some(limit) = settings.pids_limit {
        if !(-1..=0).contains(&limit) && limit < FEWEST_PIDS {
            return Err(format!("pidsLimit is {limit}: set {FEWEST_PIDS} or more, or 0 for any number"));
        }
        line("pids_limit", &limit.to_string());
    }
    if let Some(level) = settings.log_level.as_deref().filter(|level| !level.is_empty()) {
        line("log_level", &quoted(one_of("logLevel", level, &LEVELS)?));
    }
    if let Some(size) = &settings.log_size_max {
        let bytes = whole(size).filter(|bytes| *bytes < 0 || *bytes >= LEAST_LOG).ok_or_else(|| {
            format!(
                "logSizeMax is {size}: set a whole number of bytes, {LEAST_LOG} or more, such as 50Mi; or -1 for any"
            )
        })?;
        line("log_size_max", &bytes.max(-1).to_string());
    }
    if let Some(runtime) = settings.default_runtime.as_deref().filter(|runtime| !runtime.is_empty()) {
        line("default_runtime", &quoted(one_of("defaultRuntime", runtime, &RUNTIMES)?));
    }
    if let Some(field) = of_storage(settings) {
        return Err(format!(
            "{field} is a setting of /etc/containers/storage.conf, which is read as a whole: write that file by a \
             MachineConfig, and remove {field} here"
        ));
    }
    if lines.is_empty() {
        return Err("spec.containerRuntimeConfig sets nothing: say what is to be set".to_owned());
    }
    Ok((format!("/etc/crio/crio.conf.d/01-ctrcfg-{name}.conf"), format!("[crio.runtime]\n{lines}")))
}

fn one_of<'a>(field: &str, value: &'a str, known: &[&str]) -> Result<&'a str, String> {
    let error = || format!("{field} is {value:?}: set one of {}", known.join(", "));
    known.contains(&value).then_some(value).ok_or_else(error)
}

fn quoted(value: &str) -> String {
    format!("\"{value}\"")
}

/// A field that is set, and that no file beside others can hold.
fn of_storage(settings: &ContainerRuntimeConfiguration) -> Option<&'static str> {
    let fields = [
        ("overlaySize", settings.overlay_size.as_ref().is_some_and(|size| whole(size) != Some(0))),
        ("additionalImageStores", !settings.additional_image_stores.is_empty()),
        ("additionalArtifactStores", !settings.additional_artifact_stores.is_empty()),
        ("additionalLayerStores", !settings.additional_layer_stores.is_empty()),
    ];
    fields.into_iter().find(|(_, set)| *set).map(|(field, _)| field)
}
