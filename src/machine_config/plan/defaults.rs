//! What the release brings to every rendered configuration, as far as the cluster shows it.

use super::Controller;
use crate::machine_config::api::machine_config::{
    GENERATED_BY, MachineConfig, MachineConfigPool, OS_IMAGE_OVERRIDDEN, RELEASE_VERSION,
};
use crate::machine_config::render::{Defaults, name};

/// By what pools have now: that was rendered with them. Before anything was, by the controller's flags; and remarks on what
/// is not known.
pub(super) fn of(
    pools: &[MachineConfigPool],
    configs: &[MachineConfig],
    controller: &Controller,
) -> (Defaults, Vec<String>) {
    let used = |config: &&MachineConfig| pools.iter().any(|pool| pool.spec.configuration.name == name(config));
    let rendered: Vec<&MachineConfig> = configs.iter().filter(used).collect();
    let annotation = |config: &MachineConfig, key: &str| config.metadata.annotations.as_ref()?.get(key).cloned();
    let first = |key: &str| rendered.iter().find_map(|config| annotation(config, key));
    let release = controller.release.clone().or_else(|| first(RELEASE_VERSION)).unwrap_or_default();
    // While a release is being rolled out, some pools still have what another one has brought.
    let of_release = |config: &&&MachineConfig| annotation(config, RELEASE_VERSION).as_ref() == Some(&release);
    let overridden = |config: &MachineConfig| annotation(config, OS_IMAGE_OVERRIDDEN).as_deref() == Some("true");
    let plain = rendered.iter().filter(of_release).find(|config| !overridden(config));
    let os_image = plain.map(|config| config.spec.os_image_url.clone()).or_else(|| controller.os_image.clone());
    let mut remarks = Vec::new();
    if os_image.is_none() && !rendered.is_empty() {
        remarks.push(
            "Which operating system the release brings is not known: no pool has it. Where it counts, rendered names will \
             differ from those shown"
                .to_owned(),
        );
    }
    let defaults = Defaults {
        controller_version: first(GENERATED_BY).unwrap_or_else(|| env!("CARGO_PKG_VERSION").to_owned()),
        release_version: release,
        os_image: os_image.unwrap_or_default(),
        extensions_image: plain
            .map(|config| config.spec.base_os_extensions_container_image.clone())
            .unwrap_or_default(),
        ..Defaults::default()
    };
    (defaults, remarks)
}
