//! What the identity of a client may do, by SelfSubjectAccessReview: the API server asks every authorizer.

use super::error::ApiError;
use super::kinds::Kind;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec, SubjectAccessReview,
    SubjectAccessReviewSpec,
};
use kube::Client;
use kube::api::{Api, PostParams};

/// Whether the identity may use the verb on all objects of the kind, in every namespace.
pub(crate) async fn may(client: &Client, verb: &str, kind: &Kind) -> Result<bool, ApiError> {
    ask(client, verb, &kind.group, &kind.plural).await
}

/// Whether it may use every verb on every resource.
pub(crate) async fn may_everything(client: &Client) -> Result<bool, ApiError> {
    ask(client, "*", "*", "*").await
}

async fn ask(client: &Client, verb: &str, group: &str, resource: &str) -> Result<bool, ApiError> {
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        ..ResourceAttributes::default()
    };
    let spec = SelfSubjectAccessReviewSpec { resource_attributes: Some(attributes), ..Default::default() };
    let review = SelfSubjectAccessReview { spec, ..SelfSubjectAccessReview::default() };
    let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let attempt = format!("ask whether {verb} {resource} is allowed");
    Ok(answer.map_err(|e| ApiError::of(&attempt, e))?.status.is_some_and(|status| status.allowed))
}

/// Whether a user may use the verb on a resource, such as `status` of `clusterversions`. An empty namespace means all.
pub(crate) async fn may_user(
    client: &Client,
    user: &str,
    verb: &str,
    (group, resource, subresource): (&str, &str, &str),
    namespace: &str,
) -> Result<bool, ApiError> {
    let attributes = ResourceAttributes {
        verb: Some(verb.to_owned()),
        group: Some(group.to_owned()),
        resource: Some(resource.to_owned()),
        subresource: Some(subresource.to_owned()).filter(|text| !text.is_empty()),
        namespace: Some(namespace.to_owned()).filter(|text| !text.is_empty()),
        ..ResourceAttributes::default()
    };
    let spec = SubjectAccessReviewSpec {
        resource_attributes: Some(attributes),
        user: Some(user.to_owned()),
        // A service account is in these by itself.
        groups: Some(vec!["system:authenticated".to_owned(), "system:serviceaccounts".to_owned()]),
        ..Default::default()
    };
    let review = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let attempt = format!("ask whether {user} may {verb} {resource}");
    Ok(answer.map_err(|e| ApiError::of(&attempt, e))?.status.is_some_and(|status| status.allowed))
}
