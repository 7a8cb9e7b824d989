//! Whom another content of a catalog affects: Subscriptions whose next version is another one than before, or who lose theirs.

use crate::olm::api::subscription::{Approval, Subscription};
use crate::olm::catalog::diff::{Next, next};
use crate::olm::catalog::index::{Channel, Index};
use semver::Version;
use serde::Serialize;

/// A Subscription that is affected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Affected {
    /// `<namespace>/<name>`.
    pub subscription: String,
    pub package: String,
    pub channel: String,
    /// Empty if nothing is.
    pub installed: String,
    #[serde(flatten)]
    pub effect: Effect,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "effect", rename_all = "camelCase")]
pub(crate) enum Effect {
    PackageGone,
    ChannelGone,
    /// Nothing follows what is installed.
    NoWay,
    /// It is updated to this version, at once or when somebody approves.
    Update {
        to: String,
        manual: bool,
    },
    /// This version would be installed, since nothing is yet.
    Install {
        to: String,
    },
    /// There was a version to update to, and there is none any more.
    NoUpdate {
        before: String,
    },
}

impl Effect {
    pub(crate) fn is_loss(&self) -> bool {
        matches!(self, Effect::PackageGone | Effect::ChannelGone | Effect::NoWay)
    }
}

/// What a catalog has for a Subscription.
#[derive(PartialEq, Eq)]
enum State<'a> {
    NoPackage,
    NoChannel,
    Next(Next<'a>),
    Head(&'a str),
}

/// The Subscriptions that are affected, by namespace and name. `source`: namespace and name of the CatalogSource; without it all that
/// subscribe to a package of the catalog count.
pub(crate) fn affected(
    old: &Index,
    new: &Index,
    subscriptions: &[Subscription],
    source: Option<(&str, &str)>,
) -> Vec<Affected> {
    let mut found: Vec<Affected> = subscriptions
        .iter()
        .filter(|it| source.is_none_or(|source| source == (&it.spec.source_namespace, &it.spec.source)))
        .filter_map(|it| of(old, new, it))
        .collect();
    found.sort_by(|one, other| one.subscription.cmp(&other.subscription));
    found
}

fn of(old: &Index, new: &Index, subscription: &Subscription) -> Option<Affected> {
    let spec = &subscription.spec;
    let installed = subscription.status.as_ref().map_or("", |status| status.installed_csv.as_str());
    let version = [old, new].iter().find_map(|index| index.package(&spec.name)?.bundle(installed));
    let version: Option<Version> = version.and_then(|bundle| bundle.version().parse().ok());
    let state = |index| state(index, subscription, installed, version.as_ref());
    let (before, after) = (state(old), state(new));
    if before == after || before == State::NoPackage {
        return None;
    }
    let manual = spec.install_plan_approval == Some(Approval::Manual);
    let effect = match (after, before) {
        (State::NoPackage, _) => Effect::PackageGone,
        (State::NoChannel, _) => Effect::ChannelGone,
        (State::Head(to), _) => Effect::Install { to: to.to_owned() },
        (State::Next(Next::NoWay), _) => Effect::NoWay,
        (State::Next(Next::Version(to)), _) => Effect::Update { to: to.to_owned(), manual },
        (State::Next(Next::Nothing), State::Next(Next::Version(before))) => {
            Effect::NoUpdate { before: before.to_owned() }
        }
        (State::Next(Next::Nothing), _) => return None,
    };
    let metadata = &subscription.metadata;
    let name = |text: &Option<String>| text.clone().unwrap_or_default();
    Some(Affected {
        subscription: format!("{}/{}", name(&metadata.namespace), name(&metadata.name)),
        package: spec.name.clone(),
        channel: spec.channel.clone(),
        installed: installed.to_owned(),
        effect,
    })
}

fn state<'a>(index: &'a Index, it: &Subscription, installed: &str, version: Option<&Version>) -> State<'a> {
    let Some(package) = index.package(&it.spec.name) else { return State::NoPackage };
    let channel: Option<Channel<'a>> = match it.spec.channel.as_str() {
        "" => package.default_channel(),
        name => package.channel(name),
    };
    match channel {
        None => State::NoChannel,
        Some(channel) if installed.is_empty() => State::Head(channel.head().map_or("", |head| head.name())),
        Some(channel) => State::Next(next(channel, installed, version)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::catalog::diff::tests::index;
    use serde_json::json;

    fn subscription(name: &str, channel: &str, installed: &str, approval: &str) -> Subscription {
        let spec = json!({"source": "c", "sourceNamespace": "m", "name": "a", "channel": channel, "installPlanApproval": approval});
        let status = json!({"installedCSV": installed, "lastUpdated": "2026-01-01T00:00:00Z"});
        serde_json::from_value(json!({"metadata": {"namespace": "n", "name": name}, "spec": spec, "status": status}))
            .unwrap()
    }

    fn effects(old: &[&str], new: &[&str], subscription: &Subscription) -> Vec<Effect> {
        affected(&index(old), &index(new), std::slice::from_ref(subscription), None)
            .into_iter()
            .map(|it| it.effect)
            .collect()
    }

    #[test]
    fn subscriptions_are_told_what_comes_next_or_that_they_lose_their_way() {
        let old = ["a: s = a.v1 a.v2<a.v1; t = a.v1"];
        let update = |to: &str, manual| Effect::Update { to: to.to_owned(), manual };
        for (new, channel, installed, approval, expected) in [
            (&old[..], "s", "a.v2", "Automatic", None),
            (&["a: s = a.v2 a.v3<a.v2; t = a.v1"], "s", "a.v2", "Automatic", Some(update("a.v3", false))),
            (&["a: s = a.v2 a.v3<a.v2; t = a.v1"], "", "a.v2", "Manual", Some(update("a.v3", true))),
            (&["a: s = a.v2 a.v3<a.v2; t = a.v1"], "s", "a.v1", "Automatic", Some(Effect::NoWay)),
            (&["a: s = a.v2 a.v3<a.v2; t = a.v1"], "t", "a.v1", "Automatic", None),
            (&["a: s = a.v1 a.v2<a.v1"], "t", "a.v1", "Automatic", Some(Effect::ChannelGone)),
            (&["b: s = b.v1"], "s", "a.v1", "Automatic", Some(Effect::PackageGone)),
            (&["a: s = a.v1 a.v3<a.v1"], "s", "", "Automatic", Some(Effect::Install { to: "a.v3".to_owned() })),
            (&["a: s = a.v1"], "s", "a.v1", "Automatic", Some(Effect::NoUpdate { before: "a.v2".to_owned() })),
        ] {
            let found = effects(&old, new, &subscription("x", channel, installed, approval));
            assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{new:?} {channel} {installed}");
        }
    }

    #[test]
    fn subscriptions_of_other_catalogs_are_left_out_if_the_catalog_is_named() {
        let (old, new) = (index(&["a: s = a.v1"]), index(&["a: s = a.v1 a.v2<a.v1"]));
        let all = [subscription("x", "s", "a.v1", "Automatic")];
        for (source, count) in [(None, 1), (Some(("m", "c")), 1), (Some(("m", "d")), 0)] {
            assert_eq!(affected(&old, &new, &all, source).len(), count);
        }
        // A package that is in neither of them.
        assert!(affected(&index(&["b: s = b.v1"]), &index(&["b: s = b.v1"]), &all, None).is_empty());
    }
}
