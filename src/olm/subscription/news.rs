//! What is worth an event when the status of a Subscription changes.

use crate::object::condition::ConditionStatus;
use crate::olm::api::subscription::{SubscriptionStatus, condition};

/// Whom it concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum About {
    /// All Subscriptions of the namespace, as one answer is looked for that suits all of them.
    Namespace,
    Subscription,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct News {
    pub about: About,
    pub reason: &'static str,
    pub message: String,
}

/// What `after` says that `before` did not: that nothing can be installed, or that a bundle cannot be fetched.
pub(crate) fn news(before: Option<&SubscriptionStatus>, after: &SubscriptionStatus) -> Vec<News> {
    let kinds =
        [(About::Namespace, condition::RESOLUTION_FAILED), (About::Subscription, condition::BUNDLE_UNPACK_FAILED)];
    let said = |status: &SubscriptionStatus, type_: &str| {
        let all = status.conditions.iter();
        all.filter(|it| it.type_ == type_ && it.status == ConditionStatus::True).map(|it| it.message.clone()).next()
    };
    let new = kinds.into_iter().filter_map(|(about, type_)| {
        let message = said(after, type_)?;
        let is_known = before.and_then(|before| said(before, type_)).is_some_and(|known| known == message);
        (!is_known).then_some(News { about, reason: type_, message })
    });
    new.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn status(conditions: &[(&str, &str, &str)]) -> SubscriptionStatus {
        let condition = |(type_, status, message): &(&str, &str, &str)| json!({"type": type_, "status": status, "message": message});
        let conditions: Vec<Value> = conditions.iter().map(condition).collect();
        serde_json::from_value(json!({"lastUpdated": "1970-01-01T00:00:00Z", "conditions": conditions})).unwrap()
    }

    #[test]
    fn failure_is_told_once_and_again_with_another_message() {
        let failed = status(&[("ResolutionFailed", "True", "no group"), ("BundleUnpackFailed", "True", "denied")]);
        let told = |before: Option<&SubscriptionStatus>, after: &SubscriptionStatus| {
            news(before, after)
                .iter()
                .map(|it| format!("{:?} {} {}", it.about, it.reason, it.message))
                .collect::<Vec<_>>()
        };
        let both = ["Namespace ResolutionFailed no group", "Subscription BundleUnpackFailed denied"];
        assert_eq!(told(None, &failed), both);
        assert_eq!(told(Some(&status(&[("ResolutionFailed", "False", "no group")])), &failed), both);
        assert_eq!(told(Some(&failed), &failed), [""; 0]);
        let other = status(&[("ResolutionFailed", "True", "two groups"), ("BundleUnpackFailed", "False", "denied")]);
        assert_eq!(told(Some(&failed), &other), ["Namespace ResolutionFailed two groups"]);
        let other = status(&[("CatalogSourcesUnhealthy", "True", "a"), ("InstallPlanPending", "True", "b")]);
        assert_eq!(told(Some(&failed), &other), [""; 0]);
    }
}
