//! What metrics tell of Subscriptions and InstallPlans.

use super::live::Live;
use std::sync::OnceLock;

/// Is asked at each scrape.
#[derive(Default)]
pub(crate) struct SubscriptionFigures {
    live: OnceLock<Live>,
}

impl SubscriptionFigures {
    pub(super) fn show(&self, live: Live) {
        let _first = self.live.set(live);
    }

    /// How many Subscriptions and InstallPlans there are; `None` before all of them are known.
    pub(crate) fn counts(&self) -> Option<(usize, usize)> {
        let live = self.live.get()?;
        Some((live.subscriptions.all()?.len(), live.plans.all()?.len()))
    }

    /// `namespace/name` of Subscriptions and InstallPlans that do not have the form of their kind.
    pub(crate) fn undecodable(&self) -> Vec<(&'static str, String)> {
        let Some(live) = self.live.get() else { return Vec::new() };
        let subscriptions = live.subscriptions.undecodable().into_keys().map(|name| ("Subscription", name));
        subscriptions.chain(live.plans.undecodable().into_keys().map(|name| ("InstallPlan", name))).collect()
    }
}
