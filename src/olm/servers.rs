//! Where a server is that an address names. The process need not know the names of the cluster by DNS, but it knows its objects.

use super::endpoints::SERVICE_LABEL;
use super::names::is_label;
use core::net::{IpAddr, SocketAddr};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use std::collections::BTreeSet;

/// A port of a Service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ServicePort {
    pub namespace: String,
    pub name: String,
    pub port: u16,
}

impl ServicePort {
    /// What `NAME.NAMESPACE.svc:PORT` names, perhaps with the domain of the cluster; `None` if the address is no such name.
    pub(crate) fn of(address: &str) -> Option<ServicePort> {
        let (host, port) = address.rsplit_once(':')?;
        let mut parts = host.split('.');
        let (name, namespace, svc) = (parts.next()?, parts.next()?, parts.next()?);
        let plain = |text: &str| is_label(text);
        if svc != "svc" || !plain(name) || !plain(namespace) {
            return None;
        }
        Some(ServicePort { namespace: namespace.to_owned(), name: name.to_owned(), port: port.parse().ok()? })
    }

    /// Selects its EndpointSlices.
    pub(crate) fn slices(&self) -> String {
        format!("{SERVICE_LABEL}={}", self.name)
    }
}

/// The ports of a Service by their numbers, with the names that they have in EndpointSlices.
pub(crate) type PortNames = Vec<(u16, String)>;

pub(crate) fn port_names(service: &Service) -> PortNames {
    let ports = service.spec.as_ref().and_then(|spec| spec.ports.as_ref());
    let named = |port: &k8s_openapi::api::core::v1::ServicePort| {
        Some((u16::try_from(port.port).ok()?, port.name.clone().unwrap_or_default()))
    };
    ports.into_iter().flatten().filter_map(named).collect()
}

/// Addresses that are ready, each for all ports of its EndpointSlice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Endpoints {
    pub ports: PortNames,
    pub addresses: BTreeSet<IpAddr>,
}

pub(crate) fn endpoints(slice: &EndpointSlice) -> Endpoints {
    let ready = slice.endpoints.iter().flatten().filter(|endpoint| {
        // What is not known counts as ready.
        endpoint.conditions.as_ref().and_then(|conditions| conditions.ready) != Some(false)
    });
    let named = |port: &k8s_openapi::api::discovery::v1::EndpointPort| {
        Some((u16::try_from(port.port?).ok()?, port.name.clone().unwrap_or_default()))
    };
    Endpoints {
        ports: slice.ports.iter().flatten().filter_map(named).collect(),
        addresses: ready.flat_map(|endpoint| &endpoint.addresses).filter_map(|address| address.parse().ok()).collect(),
    }
}

/// Where a port of a Service leads to.
pub(crate) fn targets<'a>(
    service: &PortNames,
    slices: impl Iterator<Item = &'a Endpoints>,
    port: u16,
) -> BTreeSet<SocketAddr> {
    let Some((_, name)) = service.iter().find(|(number, _)| *number == port) else { return BTreeSet::new() };
    let of_slice = |slice: &'a Endpoints| {
        let port = slice.ports.iter().find(|(_, of)| of == name).map(|(number, _)| *number);
        port.into_iter().flat_map(|port| slice.addresses.iter().map(move |address| SocketAddr::new(*address, port)))
    };
    slices.flat_map(of_slice).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(address: &str) -> Option<(String, String, u16)> {
        ServicePort::of(address).map(|it| (it.name, it.namespace, it.port))
    }

    #[test]
    fn names_of_services_are_told_from_other_names() {
        let expected = Some(("cat".to_owned(), "shop".to_owned(), 50051));
        assert_eq!(of("cat.shop.svc:50051"), expected);
        assert_eq!(of("cat.shop.svc.cluster.local:50051"), expected);
        for other in [
            "cat.shop:50051",
            "cat:1",
            "10.0.0.1:50051",
            "[fd00::1]:50051",
            "cat.shop.svc",
            "cat.shop.svc:x",
            "a.b.example.com:1",
            ".shop.svc:1",
            "Cat.shop.svc:1",
            "",
            "cat.shop.svc:99999",
        ] {
            assert_eq!(of(other), None, "{other}");
        }
    }

    #[test]
    fn port_of_a_service_leads_to_the_port_of_that_name_at_endpoints_that_are_ready() {
        let service = json!({"spec": {"ports": [{"name": "other", "port": 1}, {"name": "grpc", "port": 50051}]}});
        let service = port_names(&serde_json::from_value(service).unwrap());
        let slice = |ports: serde_json::Value, endpoints: serde_json::Value| {
            let slice = json!({"addressType": "IPv4", "ports": ports, "endpoints": endpoints});
            endpoints_of(slice)
        };
        let slices = [
            slice(
                json!([{"name": "grpc", "port": 7001}, {"name": "other", "port": 2}]),
                json!([
                    {"addresses": ["10.0.0.1"], "conditions": {"ready": true}},
                    {"addresses": ["10.0.0.2"], "conditions": {"ready": false}},
                    {"addresses": ["10.0.0.3"]},
                    {"addresses": ["a.example.com"]},
                ]),
            ),
            slice(json!([{"name": "grpc", "port": 7002}]), json!([{"addresses": ["fd00::4"]}])),
            slice(json!([{"name": "metrics", "port": 9}]), json!([{"addresses": ["10.0.0.5"]}])),
        ];
        let targets = |port| {
            let all = super::targets(&service, slices.iter(), port);
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(targets(50051), ["10.0.0.1:7001", "10.0.0.3:7001", "[fd00::4]:7002"]);
        assert_eq!(targets(7001), [""; 0], "the Service has no such port");
        let unnamed = port_names(&serde_json::from_value(json!({"spec": {"ports": [{"port": 5}]}})).unwrap());
        let slice = endpoints_of(
            json!({"addressType": "IPv4", "ports": [{"port": 6}], "endpoints": [{"addresses": ["10.0.0.1"]}]}),
        );
        assert_eq!(super::targets(&unnamed, [&slice].into_iter(), 5).len(), 1, "an only port needs no name");
    }

    fn endpoints_of(slice: serde_json::Value) -> Endpoints {
        endpoints(&serde_json::from_value(slice).unwrap())
    }
}
