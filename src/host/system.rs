//! The operating system of a node, as far as a configuration changes it beyond files and units.

use super::commands::{CommandError, Commands};
use super::root::Root;
use crate::api::machine_config::MachineConfigSpec;
use crate::pools::changes::Changes;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum System {
    /// Nothing but files and units can be changed.
    Plain,
}

impl System {
    /// By what is in the root.
    pub(crate) fn detect(_root: &Root) -> System {
        System::Plain
    }

    /// Why this operating system cannot make the change, if it cannot.
    pub(crate) fn refusal(self, changes: &Changes) -> Option<String> {
        let parts = match self {
            System::Plain => [
                ("osImageURL", changes.os_image.is_some()),
                ("baseOSExtensionsContainerImage", changes.extensions_image.is_some()),
                ("kernelArguments", changes.kernel_arguments.is_some()),
                ("kernelType", changes.kernel_type.is_some()),
                ("extensions", changes.extensions.is_some()),
                ("fips", changes.fips.is_some()),
            ],
        };
        let changed = Vec::from_iter(parts.into_iter().filter(|(_, is)| *is).map(|(name, _)| name));
        (!changed.is_empty()).then(|| {
            format!(
                "the MachineConfig changes {}, and the operating system of this node can only be given files and units; \
                 set them back, or install the node with an operating system that is updated by images",
                changed.join(", ")
            )
        })
    }

    /// Prepares what can be without disturbing the node, so that no restart activates it before [`System::activate`].
    pub(crate) async fn stage(
        self,
        _commands: &Commands,
        _changes: &Changes,
        _new: &MachineConfigSpec,
    ) -> Result<(), CommandError> {
        match self {
            System::Plain => Ok(()),
        }
    }

    /// The next boot is what was staged.
    pub(crate) async fn activate(self, _commands: &Commands, _changes: &Changes) -> Result<(), CommandError> {
        match self {
            System::Plain => Ok(()),
        }
    }

    /// The next boot is what was booted before the update. `booted`: what the update has staged was booted meanwhile.
    pub(crate) async fn give_back(
        self,
        _commands: &Commands,
        _changes: &Changes,
        _booted: bool,
    ) -> Result<(), CommandError> {
        match self {
            System::Plain => Ok(()),
        }
    }

    /// How the booted operating system differs from the configuration.
    pub(crate) async fn deviation(self, _commands: &Commands, _config: &MachineConfigSpec) -> Option<String> {
        match self {
            System::Plain => None,
        }
    }

    /// Staging takes no time.
    pub(crate) fn stages_nothing(self) -> bool {
        match self {
            System::Plain => true,
        }
    }
}
