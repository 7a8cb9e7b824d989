//! What is kept of the objects that are followed.

use crate::cluster::followed::View;
use crate::error::{CAUSE, shortened};
use crate::object::cluster_operator::ClusterOperator;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::keys::label;
use crate::olm::api::operator_hub::OperatorHub;
use crate::olm::endpoints::Seen;
use crate::olm::servers::{Endpoints, endpoints};
use crate::olm::source::pod::decide::PodSeen;
use crate::olm::source::pod::{self, images};
use crate::olm::source::spec::Why;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// On namespaces: which pod security is enforced, and which users the platform gives to pods.
const ENFORCED: &str = "pod-security.kubernetes.io/enforce";
const USERS: &str = "openshift.io/sa.scc.uid-range";

fn version(metadata: &ObjectMeta) -> &str {
    metadata.resource_version.as_deref().unwrap_or_default()
}

#[derive(Clone, Debug)]
pub(super) struct SourceView(pub Arc<CatalogSource>);

impl View for SourceView {
    type Object = CatalogSource;

    fn of(mut object: CatalogSource) -> Self {
        object.metadata.managed_fields = None;
        SourceView(Arc::new(object))
    }

    fn version(&self) -> &str {
        version(&self.0.metadata)
    }
}

#[derive(Clone, Debug)]
pub(super) struct HubView(pub OperatorHub);

impl View for HubView {
    type Object = OperatorHub;

    fn of(mut object: OperatorHub) -> Self {
        object.metadata.managed_fields = None;
        HubView(object)
    }

    fn version(&self) -> &str {
        version(&self.0.metadata)
    }
}

/// Two states of an object are the same if the server has not changed it in between.
macro_rules! compare_by_version {
    ($($view:ident)+) => {$(
        impl PartialEq for $view {
            fn eq(&self, other: &Self) -> bool {
                let key = |view: &Self| (view.0.metadata.uid.clone(), view.0.metadata.resource_version.clone());
                key(self) == key(other)
            }
        }
    )+};
}

compare_by_version! { SourceView HubView OperatorView }

/// The default catalogs of the release.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct DefaultsView {
    version: String,
    pub data: BTreeMap<String, String>,
}

impl View for DefaultsView {
    type Object = ConfigMap;

    fn of(object: ConfigMap) -> Self {
        DefaultsView { version: version(&object.metadata).to_owned(), data: object.data.unwrap_or_default() }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug)]
pub(super) struct OperatorView(pub ClusterOperator);

impl View for OperatorView {
    type Object = ClusterOperator;

    fn of(mut object: ClusterOperator) -> Self {
        object.metadata.managed_fields = None;
        OperatorView(object)
    }

    fn version(&self) -> &str {
        version(&self.0.metadata)
    }
}

/// Whether the API server reaches an aggregated API.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ApiView {
    version: String,
    /// Whether it does, since when, and what it says; `None` before it has tried.
    pub available: Option<(bool, Option<Timestamp>, String)>,
}

impl View for ApiView {
    type Object = APIService;

    fn of(object: APIService) -> Self {
        let version = version(&object.metadata).to_owned();
        let conditions = object.status.and_then(|status| status.conditions).unwrap_or_default();
        let available = conditions.into_iter().find(|condition| condition.type_ == "Available").map(|condition| {
            let since = condition.last_transition_time.map(|time| time.0);
            (condition.status == "True", since, condition.message.unwrap_or_default())
        });
        ApiView { version, available }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServiceView(pub Seen);

impl View for ServiceView {
    type Object = Service;

    fn of(object: Service) -> Self {
        let port = object.spec.as_ref().and_then(|spec| spec.ports.as_ref()?.first()?.target_port.clone());
        let target = match port {
            Some(IntOrString::Int(port)) => u16::try_from(port).ok(),
            _ => None,
        };
        ServiceView(seen(object.metadata.clone(), target, json!(object)))
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct SliceView(pub Seen, pub Endpoints);

impl View for SliceView {
    type Object = EndpointSlice;

    fn of(object: EndpointSlice) -> Self {
        let endpoints = endpoints(&object);
        SliceView(seen(object.metadata.clone(), None, json!(object)), endpoints)
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}

fn seen(metadata: ObjectMeta, target: Option<u16>, mut object: Value) -> Seen {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|key, _| matches!(key.as_str(), "name" | "namespace" | "labels" | "ownerReferences"));
    }
    let (uid, version) = (metadata.uid.unwrap_or_default(), metadata.resource_version.unwrap_or_default());
    Seen { uid, version, target, object }
}

/// An account or policy of the pod of a catalog.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AccountView(pub Seen);

impl View for AccountView {
    type Object = ServiceAccount;

    fn of(object: ServiceAccount) -> Self {
        AccountView(seen(object.metadata.clone(), None, json!(object)))
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct PolicyView(pub Seen);

impl View for PolicyView {
    type Object = NetworkPolicy;

    fn of(object: NetworkPolicy) -> Self {
        PolicyView(seen(object.metadata.clone(), None, json!(object)))
    }

    fn version(&self) -> &str {
        &self.0.version
    }
}

/// What a namespace enforces of pod security, and whether pods get users there.
#[derive(Clone, Debug)]
pub(super) struct NamespaceView {
    version: String,
    pub enforced: Option<String>,
    pub has_users: bool,
}

/// Whatever else changes is nothing new.
impl PartialEq for NamespaceView {
    fn eq(&self, other: &Self) -> bool {
        (&self.enforced, self.has_users) == (&other.enforced, other.has_users)
    }
}

impl View for NamespaceView {
    type Object = Namespace;

    fn of(object: Namespace) -> Self {
        let labels = object.metadata.labels.as_ref();
        let enforced = labels.and_then(|labels| labels.get(ENFORCED).cloned());
        let has_users = object.metadata.annotations.as_ref().is_some_and(|all| all.contains_key(USERS));
        NamespaceView { version: version(&object.metadata).to_owned(), enforced, has_users }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

/// A pod that serves a catalog.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CatalogPodView {
    version: String,
    /// uid of its CatalogSource.
    pub owner: String,
    pub addresses: Vec<IpAddr>,
    pub seen: PodSeen,
}

impl View for CatalogPodView {
    type Object = Pod;

    fn of(object: Pod) -> Self {
        let version = version(&object.metadata).to_owned();
        let owners = object.metadata.owner_references.iter().flatten();
        let owner = owners.filter(|owner| owner.kind == "CatalogSource").map(|owner| owner.uid.clone()).next();
        let ips = object.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
        let addresses = ips.filter_map(|address| address.ip.parse().ok()).collect();
        CatalogPodView { version, owner: owner.unwrap_or_default(), addresses, seen: pod_seen(&object) }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

fn pod_seen(pod: &Pod) -> PodSeen {
    let metadata = &pod.metadata;
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default();
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key)).cloned();
    let status = pod.status.clone().unwrap_or_default();
    let holds = |type_: &str| {
        status.conditions.iter().flatten().any(|condition| condition.type_ == type_ && condition.status == "True")
    };
    let object = json!(pod);
    PodSeen {
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        hash: label(label::POD_SPEC_HASH),
        images: images(&object).into_iter().map(|(name, image)| (name.to_owned(), image.to_owned())).collect(),
        why: annotation(pod::IMAGE).and_then(|image| Some((image, Why::of(&annotation(pod::WHY)?)?))),
        in_use: !label(label::CATALOG_SOURCE).is_empty(),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0).unwrap_or_default(),
        terminating: metadata.deletion_timestamp.is_some(),
        ready: holds("Ready") && metadata.deletion_timestamp.is_none(),
        ended: matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")),
        disrupted: holds("DisruptionTarget"),
        problem: waits_for(pod),
        reached: false,
    }
}

/// What a container waits for, or why the pod is on no node.
fn waits_for(pod: &Pod) -> Option<String> {
    container_waits(pod).or_else(|| not_scheduled(pod))
}

/// What a container waits for that does not only begin.
pub(crate) fn container_waits(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let mut waiting = containers.filter_map(|it| it.state.as_ref()?.waiting.as_ref());
    let told = waiting.find(|it| !matches!(it.reason.as_deref(), Some("PodInitializing" | "ContainerCreating")));
    told.map(|told| {
        let parts = [told.reason.as_deref(), told.message.as_deref()];
        let text = parts.into_iter().flatten().collect::<Vec<_>>().join(": ");
        shortened(&text, CAUSE).into_owned()
    })
}

/// Why the pod is on no node.
pub(crate) fn not_scheduled(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let scheduled = status.conditions.iter().flatten().find(|it| it.type_ == "PodScheduled" && it.status == "False");
    scheduled.and_then(|it| it.message.as_deref()).map(|text| shortened(text, CAUSE).into_owned())
}

/// A pod of this process.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PodView {
    version: String,
    /// It can be asked, and does not end.
    pub ready: bool,
    pub addresses: Vec<IpAddr>,
}

impl View for PodView {
    type Object = Pod;

    fn of(object: Pod) -> Self {
        let version = version(&object.metadata).to_owned();
        let status = object.status.unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let ready = conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let addresses = status.pod_ips.unwrap_or_default();
        PodView {
            version,
            ready: ready && object.metadata.deletion_timestamp.is_none(),
            addresses: addresses.iter().filter_map(|address| address.ip.parse().ok()).collect(),
        }
    }

    fn version(&self) -> &str {
        &self.version
    }
}

#[cfg(test)]
mod tests;
