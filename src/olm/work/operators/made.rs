//! All objects beside Deployments that were made for operators and groups.

use super::roles::{Roles, is_same};
use super::seen::Seen;
use super::views::{ComponentView, ServiceView};
use crate::cluster::followed::Views;
use crate::olm::operator::component::{Kind, Known};
use serde_json::Value;
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct Made {
    roles: Roles,
    api_services: Views<ServiceView>,
    services: Views<ComponentView<{ Kind::Service as usize }>>,
    mutating: Views<ComponentView<{ Kind::MutatingWebhookConfiguration as usize }>>,
    validating: Views<ComponentView<{ Kind::ValidatingWebhookConfiguration as usize }>>,
}

impl Made {
    pub(super) fn of(seen: &Seen) -> Made {
        Made {
            roles: seen.roles.clone(),
            api_services: seen.api_services.clone(),
            services: seen.services.clone(),
            mutating: seen.mutating.clone(),
            validating: seen.validating.clone(),
        }
    }

    /// Whether these are the same objects.
    pub(super) fn is_same(&self, other: &Made) -> bool {
        self.roles.is_same(&other.roles)
            && is_same(&self.api_services, &other.api_services)
            && is_same(&self.services, &other.services)
            && is_same(&self.mutating, &other.mutating)
            && is_same(&self.validating, &other.validating)
    }

    pub(super) fn known(&self) -> Known {
        fn whole<const KIND: usize>(views: &Views<ComponentView<KIND>>) -> impl Iterator<Item = &Arc<Value>> {
            views.values().map(|it| &it.object)
        }
        let api_services = self.api_services.values().filter_map(|it| it.made.as_ref());
        let others = whole(&self.services).chain(whole(&self.mutating)).chain(whole(&self.validating));
        Known::new(self.roles.made().chain(api_services).chain(others).cloned())
    }
}
