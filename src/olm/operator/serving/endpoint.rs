//! Deployments that the API server asks, and the names of what makes it reach them.

use crate::olm::api::cluster_service_version::{ClusterServiceVersion, StrategyDeployment, StrategyDetails};
use crate::olm::names::label_value;
use crate::olm::operator::component::CERTIFICATE;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// The port of a Service where a description names none.
const PORT: i32 = 443;

/// A Deployment that answers webhooks, or serves APIs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Endpoint<'a> {
    pub entry: &'a StrategyDeployment,
    /// Ports of its Service, each with that of its pods.
    pub ports: BTreeMap<i32, IntOrString>,
}

/// Name of the Service of a Deployment, which leads to its pods.
pub(crate) fn service(deployment: &str) -> String {
    label_value(&format!("{}-service", deployment.replace('.', "-")))
}

/// Name of the Secret with its certificate.
pub(crate) fn secret(deployment: &str) -> String {
    secret_of(&service(deployment))
}

/// The same by the name of its Service.
pub(super) fn secret_of(service: &str) -> String {
    format!("{service}{CERTIFICATE}")
}

/// The Service whose Secret has this name.
pub(super) fn service_of(secret: &str) -> Option<&str> {
    secret.strip_suffix(CERTIFICATE)
}

/// By which names the API server asks it.
pub(crate) fn hosts(namespace: &str, deployment: &str) -> Vec<String> {
    let host = format!("{}.{namespace}", service(deployment));
    [host.clone(), format!("{host}.svc"), format!("{host}.svc.cluster.local")].into()
}

/// The port that a description names.
pub(crate) fn port(named: Option<i32>) -> i32 {
    named.filter(|port| *port != 0).unwrap_or(PORT)
}

/// What is said of a Deployment: the port of the Service, and where that leads to.
pub(super) fn described(csv: &ClusterServiceVersion) -> impl Iterator<Item = (&str, i32, IntOrString)> {
    let spec = &csv.spec;
    let of_apis = spec.api_service_definitions.owned.iter().map(|it| (&it.deployment_name, it.container_port, None));
    let of_webhooks =
        spec.webhook_definitions.iter().map(|it| (&it.deployment_name, it.container_port, it.target_port.clone()));
    of_apis.chain(of_webhooks).map(|(deployment, named, target)| {
        let port = port(named);
        (deployment.as_str(), port, target.unwrap_or(IntOrString::Int(port)))
    })
}

/// All of them, in the order of the Deployments. Where a port leads to several, the first one counts.
pub(crate) fn endpoints<'a>(csv: &ClusterServiceVersion, strategy: &'a StrategyDetails) -> Vec<Endpoint<'a>> {
    let ports = |name: &str| {
        let mut ports = BTreeMap::new();
        for (_, port, target) in described(csv).filter(|(deployment, ..)| *deployment == name) {
            ports.entry(port).or_insert(target);
        }
        ports
    };
    let all = strategy.deployments.iter().map(|entry| Endpoint { entry, ports: ports(&entry.name) });
    all.filter(|endpoint| !endpoint.ports.is_empty()).collect()
}
