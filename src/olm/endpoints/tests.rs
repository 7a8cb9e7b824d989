use super::*;
use crate::olm::api::catalog_source::{CatalogSourceSpec, CatalogSourceStatus, RegistryService};

const RANGE: RangeInclusive<u16> = 50052..=50054;

fn exposed(name: &str) -> Exposed {
    Exposed {
        namespace: "olm".to_owned(),
        catalog: name.to_owned(),
        uid: format!("uid-{name}"),
        service: name.replace('.', "-"),
        pod: None,
    }
}

fn id(name: &str) -> Id {
    ("olm".to_owned(), name.to_owned())
}

/// As the server has it after a write.
fn live(object: &Value, version: &str) -> Seen {
    let mut object = object.clone();
    object["spec"].as_object_mut().into_iter().for_each(|spec| {
        spec.remove("selector");
        spec.insert("clusterIP".to_owned(), "10.0.0.7".into());
    });
    let target = object.pointer("/spec/ports/0/targetPort").and_then(Value::as_u64);
    let target = target.and_then(|port| u16::try_from(port).ok());
    Seen { uid: "its-uid".to_owned(), version: version.to_owned(), target, object }
}

fn addresses(all: &[&str]) -> BTreeSet<IpAddr> {
    all.iter().map(|address| address.parse().unwrap()).collect()
}

/// The cluster, and what is in it.
#[derive(Default)]
struct World {
    ports: Ports,
    services: BTreeMap<Id, Seen>,
    slices: BTreeMap<Id, Seen>,
}

impl World {
    fn writes(&mut self, catalogs: &[Exposed], at: &[&str]) -> Writes {
        let without = self.ports.give(catalogs, &self.services, &RANGE);
        assert_eq!(without, []);
        writes(catalogs, &self.ports, &addresses(at), &self.services, &self.slices)
    }

    /// Writes everything, and returns what that was.
    fn step(&mut self, catalogs: &[Exposed], at: &[&str]) -> Writes {
        let writes = self.writes(catalogs, at);
        for (changes, all) in [(&writes.services, &mut self.services), (&writes.slices, &mut self.slices)] {
            for change in changes {
                match change {
                    Write::Create { id, object } | Write::Change { id, patch: object } => {
                        all.insert(id.clone(), live(object, "2"));
                    }
                    Write::Delete { id, .. } => _ = all.remove(id),
                }
            }
        }
        writes
    }
}

#[test]
fn catalog_has_a_service_without_selector_that_leads_to_its_own_port() {
    let mut world = World::default();
    let writes = world.step(&[exposed("a.b"), exposed("c")], &["10.1.0.5", "10.1.0.4", "fd00::4"]);
    let Write::Create { id: of, object } = &writes.services[0] else { panic!("{writes:?}") };
    assert_eq!(*of, id("a-b"));
    let spec =
        json!({"ports": [{"name": "grpc", "protocol": "TCP", "port": 50051, "targetPort": 50052}], "selector": null});
    assert_eq!(object["spec"], spec);
    let labels = object["metadata"]["labels"].clone();
    assert_eq!((&labels["olm.managed"], &labels["olm.catalogSource"]), (&json!("true"), &json!("a.b")));
    assert!(labels["olm.service-spec-hash"].as_str().is_some_and(|hash| hash.len() <= 63), "{labels}");
    let owner = json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "name": "a.b",
        "uid": "uid-a.b", "controller": true, "blockOwnerDeletion": false}]);
    assert_eq!(object["metadata"]["ownerReferences"], owner);
    let said = |slice: &Write| {
        let Write::Create { id, object } = slice else { panic!("{slice:?}") };
        let addresses: Vec<String> =
            object["endpoints"].as_array().unwrap().iter().map(|it| it["addresses"][0].to_string()).collect();
        assert_eq!(object["metadata"]["labels"]["kubernetes.io/service-name"], *id.1.split("-olm").next().unwrap());
        format!("{} {} {} {}", id.1, object["addressType"], object["ports"][0]["port"], addresses.join(" "))
    };
    assert_eq!(
        writes.slices.iter().map(said).collect::<Vec<_>>(),
        [
            "a-b-olm \"IPv4\" 50052 \"10.1.0.4\" \"10.1.0.5\"",
            "a-b-olm-ipv6 \"IPv6\" 50052 \"fd00::4\"",
            "c-olm \"IPv4\" 50053 \"10.1.0.4\" \"10.1.0.5\"",
            "c-olm-ipv6 \"IPv6\" 50053 \"fd00::4\"",
        ]
    );
    assert_eq!(world.step(&[exposed("a.b"), exposed("c")], &["10.1.0.5", "10.1.0.4", "fd00::4"]), Writes::default());
}

#[test]
fn port_of_a_catalog_stays_whoever_holds_the_lease_and_whatever_comes_besides() {
    let mut world = World::default();
    world.step(&[exposed("b")], &["10.1.0.4"]);
    // Another process has taken the lease.
    world.ports = Ports::default();
    world.step(&[exposed("a"), exposed("b")], &["10.1.0.4"]);
    assert_eq!(world.ports.0, BTreeMap::from([(id("a"), 50053), (id("b"), 50052)]));
    world.step(&[exposed("a"), exposed("c")], &["10.1.0.4"]);
    assert_eq!(world.ports.0, BTreeMap::from([(id("a"), 50053), (id("c"), 50052)]), "that of a deleted one is free");
}

#[test]
fn port_that_was_given_is_not_given_again_before_its_service_is_seen() {
    let mut ports = Ports::default();
    let none = BTreeMap::new();
    ports.give(&[exposed("b")], &none, &RANGE);
    ports.give(&[exposed("a"), exposed("b")], &none, &RANGE);
    assert_eq!(ports.0, BTreeMap::from([(id("a"), 50053), (id("b"), 50052)]));
}

#[test]
fn two_services_with_one_port_are_told_apart_and_other_ports_do_not_count() {
    let seen = |port: u16| Seen { target: Some(port), ..Seen::default() };
    let services = BTreeMap::from([(id("a"), seen(50053)), (id("b"), seen(50053)), (id("c"), seen(80))]);
    let mut ports = Ports::default();
    let without = ports.give(&[exposed("a"), exposed("b"), exposed("c"), exposed("d")], &services, &RANGE);
    assert_eq!(ports.0, BTreeMap::from([(id("a"), 50053), (id("b"), 50052), (id("c"), 50054)]));
    assert_eq!(without, [id("d")], "there are three ports");
}

#[test]
fn what_others_change_is_repaired_and_what_they_add_stays() {
    let mut world = World::default();
    let catalogs = [exposed("a")];
    world.step(&catalogs, &["10.1.0.4"]);
    let service = world.services.get_mut(&id("a")).unwrap();
    service.object["metadata"]["labels"]["theirs"] = "x".into();
    service.object["spec"]["ports"][0]["nodePort"] = 30000.into();
    assert_eq!(world.writes(&catalogs, &["10.1.0.4"]), Writes::default());
    let service = world.services.get_mut(&id("a")).unwrap();
    service.object["spec"]["selector"] = json!({"olm.catalogSource": "a"});
    let writes = world.writes(&catalogs, &["10.1.0.4"]);
    let [Write::Change { patch, .. }] = writes.services.as_slice() else { panic!("{writes:?}") };
    assert_eq!((&patch["metadata"]["resourceVersion"], &patch["spec"]["selector"]), (&json!("2"), &Value::Null));
    world.step(&catalogs, &["10.1.0.4"]);
    world.slices.clear();
    let writes = world.step(&catalogs, &["10.1.0.4"]);
    assert!(matches!(writes.slices.as_slice(), [Write::Create { .. }]), "{writes:?}");
}

#[test]
fn endpoints_follow_the_replicas_and_go_with_the_last_one() {
    let mut world = World::default();
    let catalogs = [exposed("a")];
    world.step(&catalogs, &["10.1.0.4"]);
    let writes = world.step(&catalogs, &["10.1.0.4", "10.1.0.5"]);
    assert_eq!(writes.services, []);
    let [Write::Change { patch, .. }] = writes.slices.as_slice() else { panic!("{writes:?}") };
    assert_eq!(patch["endpoints"].as_array().map(Vec::len), Some(2));
    let writes = world.step(&catalogs, &[]);
    assert_eq!(writes.slices, [Write::Delete { id: id("a-olm"), uid: "its-uid".to_owned() }]);
}

#[test]
fn service_of_a_catalog_that_is_served_elsewhere_is_deleted() {
    let mut world = World::default();
    world.step(&[exposed("a"), exposed("b")], &["10.1.0.4"]);
    let writes = world.step(&[exposed("b")], &["10.1.0.4"]);
    let uid = || "its-uid".to_owned();
    assert_eq!(writes.services, [Write::Delete { id: id("a"), uid: uid() }]);
    assert_eq!(writes.slices, [Write::Delete { id: id("a-olm"), uid: uid() }]);
}

#[test]
fn catalog_is_exposed_as_its_status_says() {
    let mut source = CatalogSource::new("a.b", CatalogSourceSpec::default());
    (source.metadata.namespace, source.metadata.uid) = (Some("olm".to_owned()), Some("uid-a.b".to_owned()));
    assert_eq!(Exposed::of(&source), None);
    let service = |name: &str| RegistryService { service_name: name.to_owned(), ..RegistryService::default() };
    let status = |name: &str| CatalogSourceStatus { registry_service: Some(service(name)), ..Default::default() };
    source.status = Some(status(""));
    assert_eq!(Exposed::of(&source), None, "it has an address");
    source.status = Some(status("a-b"));
    assert_eq!(Exposed::of(&source), Some(exposed("a.b")));
}

#[test]
fn label_of_a_long_name_is_valid_and_its_own() {
    let (one, other) = (label_of(&"a".repeat(253)), label_of(&"a".repeat(252)));
    assert!(one != other && one.len() <= 63, "{one} {other}");
    assert_eq!(label_of("a.b"), "a.b");
}

#[test]
fn service_of_a_pod_is_its_own_and_the_endpoints_that_the_cluster_makes_for_it_stay() {
    let mut world = World::default();
    world.step(&[exposed("a"), exposed("b")], &["10.1.0.4"]);
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a", "namespace": "olm"},
        "spec": {"ports": [{"name": "grpc", "protocol": "TCP", "port": 50051, "targetPort": 50051}],
            "selector": {"olm.catalogSource": "a"}}});
    let of_pod = Exposed { pod: Some(service), ..exposed("a") };
    let writes = world.step(&[of_pod.clone(), exposed("b")], &["10.1.0.4"]);
    assert!(
        matches!(&writes.services[..], [Write::Change { patch, .. }] if patch["spec"]["selector"]["olm.catalogSource"] == "a")
    );
    assert!(matches!(&writes.slices[..], [Write::Delete { id: of, .. }] if *of == id("a-olm")), "{writes:?}");
    // The live object has its selector, which `live` takes away.
    world.services.get_mut(&id("a")).unwrap().object["spec"]["selector"] = json!({"olm.catalogSource": "a"});
    let mut by_cluster = world.slices[&id("b-olm")].clone();
    by_cluster.object["metadata"]["labels"][SERVICE_LABEL] = json!("a");
    by_cluster.object["metadata"]["labels"][MANAGED_BY_LABEL] = json!("endpointslice-controller.k8s.io");
    world.slices.insert(id("a-x7f"), by_cluster);
    assert_eq!(world.step(&[of_pod, exposed("b")], &["10.1.0.4"]), Writes::default());
    // It is served by this process again. The cluster does not remove what it has made.
    let writes = world.step(&[exposed("a"), exposed("b")], &["10.1.0.4"]);
    assert!(
        writes.slices.iter().any(|it| matches!(it, Write::Delete { id: of, .. } if *of == id("a-x7f"))),
        "{writes:?}"
    );
    assert_eq!(world.ports.0.len(), 2);
}
