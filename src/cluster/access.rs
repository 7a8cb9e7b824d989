//! Who a client is, and what it may do, by SelfSubjectReview and SelfSubjectAccessReview: the API server asks every authorizer.

use super::error::ApiError;
use k8s_openapi::api::authentication::v1::{SelfSubjectReview, UserInfo};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

/// What is asked about: a verb, such as `update`, on a resource. `*` is all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
    /// Such as `status`; empty for the resource itself.
    pub subresource: &'a str,
    /// Empty: in every namespace, or of the whole cluster.
    pub namespace: &'a str,
    /// Empty: all names.
    pub name: &'a str,
}

impl Attributes<'_> {
    fn to_api(self) -> ResourceAttributes {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        ResourceAttributes {
            verb: text(self.verb),
            group: Some(self.group.to_owned()),
            resource: text(self.resource),
            subresource: text(self.subresource),
            namespace: text(self.namespace),
            name: text(self.name),
            ..ResourceAttributes::default()
        }
    }
}

/// Whether the identity of the client may do so.
pub(crate) async fn may(client: &Client, what: &Attributes<'_>) -> Result<bool, ApiError> {
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(what.to_api()), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let attempt = format!("ask whether {} {} is allowed", what.verb, what.resource);
    Ok(answer.map_err(|e| ApiError::of(&attempt, e))?.status.is_some_and(|status| status.allowed))
}

/// Who the API server takes this identity for: its name, and its groups.
pub(crate) async fn identity(client: &Client) -> Result<(String, Vec<String>), ApiError> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let status = answer.map_err(|e| ApiError::of("ask who this process is", e))?.status;
    let user = status.and_then(|status| status.user_info).unwrap_or_default();
    Ok((user.username.unwrap_or_default(), user.groups.unwrap_or_default()))
}

/// Whether a service account may do so, which is named as the API server names its user:
/// `system:serviceaccount:NAMESPACE:NAME`.
pub(crate) async fn may_user(client: &Client, user: &str, what: &Attributes<'_>) -> Result<bool, ApiError> {
    // A service account is in these by itself.
    let mut groups = vec!["system:authenticated".to_owned(), "system:serviceaccounts".to_owned()];
    let namespace = user.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split(':').next());
    groups.extend(namespace.map(|namespace| format!("system:serviceaccounts:{namespace}")));
    let user = UserInfo { username: Some(user.to_owned()), groups: Some(groups), ..UserInfo::default() };
    Ok(review(client, user, what).await?.allowed)
}

/// What the API server says of a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Review {
    pub allowed: bool,
    /// Why, if it says so.
    pub reason: String,
}

/// Whether a user may do so.
pub(crate) async fn review(client: &Client, user: UserInfo, what: &Attributes<'_>) -> Result<Review, ApiError> {
    let attempt =
        format!("ask whether {} may {} {}", user.username.as_deref().unwrap_or_default(), what.verb, what.resource);
    let spec = SubjectAccessReviewSpec {
        resource_attributes: Some(what.to_api()),
        user: user.username,
        uid: user.uid,
        groups: user.groups,
        extra: user.extra,
        ..Default::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let status = answer.map_err(|e| ApiError::of(&attempt, e))?.status.unwrap_or_default();
    let allowed = status.allowed && status.denied != Some(true);
    Ok(Review { allowed, reason: status.reason.unwrap_or_default() })
}
