//! Writes what was decided for Subscriptions.

use super::live::{Live, csv_kind, plan_kind, subscription_kind};
use crate::cluster::{ApiError, Cause, Objects};
use crate::olm::api::API_VERSION;
use crate::olm::api::install_plan::InstallPlan;
use crate::olm::api::subscription::{Subscription, SubscriptionStatus};
use crate::olm::subscription::news::{About, News};
use crate::olm::subscription::plan::{NewPlan, Plan, unresolved};
use crate::process::events::{Events, Notice};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What is written, one at a time for each.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    Subscription(String, String),
    /// The plan that is to be made in a namespace.
    NewPlan(String),
    Plan(String, String),
    /// Of an object in a namespace.
    Labels(String, Of),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Subscription(String),
    Plan(String),
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Subscription(namespace, name) => write!(f, "Subscription {namespace}/{name}"),
            Key::NewPlan(namespace) => write!(f, "new InstallPlan of namespace {namespace}"),
            Key::Plan(namespace, name) => write!(f, "InstallPlan {namespace}/{name}"),
            Key::Labels(namespace, Of::Subscription(name)) => write!(f, "labels of Subscription {namespace}/{name}"),
            Key::Labels(namespace, Of::Plan(name)) => write!(f, "labels of InstallPlan {namespace}/{name}"),
        }
    }
}

pub(super) async fn write_status(
    objects: Objects,
    live: Live,
    subscription: Arc<Subscription>,
    status: SubscriptionStatus,
    (events, news): (Events, Vec<News>),
) -> Result<(), ApiError> {
    let mut object = (*subscription).clone();
    object.status = Some(status);
    let metadata = &object.metadata;
    let [namespace, name] = [&metadata.namespace, &metadata.name].map(|it| it.clone().unwrap_or_default());
    let written = objects.replace_status(&subscription_kind(), &namespace, &name, &json!(object)).await?;
    live.subscriptions.on_answer(written);
    for it in news {
        let regarding = regarding(&it.about, &subscription);
        events.publish_about(Notice::new(true, it.reason, &it.message), regarding);
    }
    Ok(())
}

/// Events of a namespace are in it, so that those see them who may see it.
fn regarding(about: &About, subscription: &Subscription) -> ObjectReference {
    let metadata = &subscription.metadata;
    let namespace = metadata.namespace.clone();
    match about {
        About::Namespace => ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Namespace".to_owned()),
            name: namespace.clone(),
            namespace,
            ..ObjectReference::default()
        },
        About::Subscription => ObjectReference {
            api_version: Some(API_VERSION.to_owned()),
            kind: Some("Subscription".to_owned()),
            name: metadata.name.clone(),
            namespace,
            uid: metadata.uid.clone(),
            resource_version: metadata.resource_version.clone(),
            ..ObjectReference::default()
        },
    }
}

/// Labels a Subscription or a plan. One that has gone meanwhile needs nothing.
pub(super) async fn label(
    (objects, live): (Objects, Live),
    namespace: String,
    of: Of,
    patch: Value,
) -> Result<(), ApiError> {
    let (kind, name) = match &of {
        Of::Subscription(name) => (subscription_kind(), name),
        Of::Plan(name) => (plan_kind(), name),
    };
    let written: Value = match objects.merge_patch(&kind, &namespace, name, &patch).await {
        Err(error) if error.is_not_found() => return Ok(()),
        answer => answer?,
    };
    match of {
        Of::Subscription(_) => live.subscriptions.on_answer(written),
        Of::Plan(_) => live.plans.on_answer(written),
    }
    Ok(())
}

/// Creates the plans, one after the other. One that cannot be created does not hold the others.
pub(super) async fn create(objects: Objects, live: Live, new: Vec<NewPlan>) -> Result<(), ApiError> {
    let mut outcome = Ok(());
    for new in new {
        outcome = create_one(&objects, &live, new).await.and(outcome);
    }
    outcome
}

/// Creates the plan, and then writes its steps. If one of its ClusterServiceVersions exists that nobody knew of, the watch has not told of
/// it yet, and there is nothing to do.
async fn create_one(objects: &Objects, live: &Live, new: NewPlan) -> Result<(), ApiError> {
    let namespace = new.namespace.as_str();
    for name in new.csvs().filter(|name| new.by_hand.is_none() && !new.existing.contains(*name)) {
        if let Some(known) = objects.get(&csv_kind(), namespace, name).await? {
            live.csvs.on_answer(known);
            return Ok(());
        }
    }
    let mut before = BTreeMap::new();
    for name in new.replaced() {
        if let Some(replaced) = objects.get(&csv_kind(), namespace, name).await? {
            before.insert(name.to_owned(), replaced);
        }
    }
    let refused = |error: &dyn fmt::Display| ApiError {
        attempt: format!("make the steps of InstallPlan {}/{}", namespace, new.name()),
        cause: Cause::Server { code: 422, reason: "Invalid".to_owned(), message: error.to_string() },
    };
    let (plan, status) = new.object(&before).map_err(|error| refused(&error))?;
    let name = new.name();
    let begun = match &new.by_hand {
        Some(version) => annotated(objects, (namespace, &name), version, plan).await?,
        None => match objects.create(&plan_kind(), namespace, &json!(plan)).await {
            Ok(created) => Some(created),
            // It is ours, and was made before its steps could be written.
            Err(error) if error.is_already_exists() => objects.get(&plan_kind(), namespace, &name).await?,
            Err(error) => return Err(error),
        },
    };
    let Some(mut begun) = begun.and_then(|it| serde_json::from_value::<InstallPlan>(it).ok()) else {
        return Ok(());
    };
    if begun.status.as_ref().is_some_and(|status| !status.plan.is_empty()) {
        live.plans.on_written(begun);
        return Ok(());
    }
    begun.status = Some(status);
    let written = objects.replace_status(&plan_kind(), namespace, &name, &json!(begun)).await?;
    live.plans.on_answer(written);
    Ok(())
}

/// The plan that somebody has written, with the annotation of the one that was made for it; `None` if it is another one than it was.
async fn annotated(
    objects: &Objects,
    (namespace, name): (&str, &str),
    version: &str,
    new: InstallPlan,
) -> Result<Option<Value>, ApiError> {
    let known = objects.get(&plan_kind(), namespace, name).await?;
    let Some(mut known) = known.and_then(|it| serde_json::from_value::<InstallPlan>(it).ok()) else { return Ok(None) };
    if known.metadata.resource_version.as_deref() != Some(version) {
        return Ok(None);
    }
    known.metadata.annotations.get_or_insert_default().extend(new.metadata.annotations.unwrap_or_default());
    objects.replace(&plan_kind(), namespace, name, &json!(known)).await.map(Some)
}

/// Says of a plan that somebody has written why it has no steps.
pub(super) async fn refuse(
    (objects, live): (Objects, Live),
    namespace: String,
    plan: Arc<Plan>,
    cause: String,
) -> Result<(), ApiError> {
    let known = objects.get(&plan_kind(), &namespace, &plan.name).await?;
    let Some(mut known) = known.and_then(|it| serde_json::from_value::<InstallPlan>(it).ok()) else { return Ok(()) };
    if known.metadata.resource_version.as_deref() != Some(&plan.resource_version) {
        return Ok(());
    }
    let status = known.status.take().unwrap_or_default();
    known.status = Some(unresolved(status, &cause, Timestamp::now()));
    let written = objects.replace_status(&plan_kind(), &namespace, &plan.name, &json!(known)).await?;
    live.plans.on_answer(written);
    Ok(())
}

/// Deletes a plan, unless somebody has approved or changed it since.
pub(super) async fn give_up(objects: Objects, namespace: String, plan: Arc<Plan>) -> Result<(), ApiError> {
    tracing::info!(namespace, plan = plan.name, "an InstallPlan that nobody has approved is superseded");
    objects.delete_version(&plan_kind(), &namespace, &plan.name, (&plan.uid, &plan.resource_version)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::client::Body;
    use std::sync::Mutex;

    /// An API server that answers everything so, and the bodies of the requests.
    fn server(status: u16, answer: Value) -> (Objects, Arc<Mutex<Vec<Value>>>) {
        let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let log = asked.clone();
        tokio::spawn(async move {
            while let Some((request, respond)) = requests.next_request().await {
                let line = format!("{} {}", request.method(), request.uri().path());
                let body = request.into_body().collect_bytes().await.unwrap();
                let body: Value = serde_json::from_slice(&body).unwrap();
                log.lock().unwrap().push(json!([line, body["preconditions"]]));
                let mut response = http::Response::new(Body::from(answer.to_string().into_bytes()));
                *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
                respond.send_response(response);
            }
        });
        (Objects::new(kube::Client::new(service, "default"), "test", Arc::new(|| true)), asked)
    }

    /// Whoever approves it in the meantime wins.
    #[tokio::test]
    async fn plan_is_given_up_only_as_it_was_seen() {
        let plan = Plan {
            name: "install-a".to_owned(),
            uid: "u".to_owned(),
            resource_version: "7".to_owned(),
            ..Plan::default()
        };
        let path = "DELETE /apis/operators.coreos.com/v1alpha1/namespaces/shop/installplans/install-a";
        let expected = [json!([path, {"uid": "u", "resourceVersion": "7"}])];
        let conflict = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Conflict", "code": 409,
            "message": "the ResourceVersion in the precondition (7) does not match (8)"});
        for (code, answer, is_ok) in
            [(200, json!({"kind": "Status", "status": "Success"}), true), (409, conflict, false)]
        {
            let (objects, asked) = server(code, answer);
            let outcome = give_up(objects, "shop".to_owned(), Arc::new(plan.clone())).await;
            assert_eq!(asked.lock().unwrap().as_slice(), expected, "{code}");
            assert_eq!(outcome.as_ref().err().is_some_and(ApiError::is_conflict), !is_ok, "{outcome:?}");
        }
    }
}
