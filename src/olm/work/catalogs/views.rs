//! What is kept of the objects that are followed.

use crate::cluster::followed::View;
use crate::object::cluster_operator::ClusterOperator;
use crate::olm::api::catalog_source::CatalogSource;
use crate::olm::api::operator_hub::OperatorHub;
use crate::olm::endpoints::Seen;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

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
pub(super) struct SliceView(pub Seen);

impl View for SliceView {
    type Object = EndpointSlice;

    fn of(object: EndpointSlice) -> Self {
        SliceView(seen(object.metadata.clone(), None, json!(object)))
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
