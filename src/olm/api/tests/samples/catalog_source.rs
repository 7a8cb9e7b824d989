use super::*;
use crate::olm::api::catalog_source::*;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

fn spec() -> CatalogSourceSpec {
    CatalogSourceSpec {
        source_type: SourceType::Grpc,
        priority: -400,
        image: "example.com/catalog:v1".into(),
        address: "catalog.example.com:50051".into(),
        config_map: "catalog".into(),
        grpc_pod_config: Some(GrpcPodConfig {
            node_selector: Some(labels()),
            tolerations: vec![toleration()],
            affinity: Some(affinity()),
            priority_class_name: Some("system-cluster-critical".into()),
            security_context_config: Some(SecurityConfig::Restricted),
            memory_target: Some(Quantity("100Mi".into())),
            extract_content: Some(ExtractContent { catalog_dir: "/configs".into(), cache_dir: "/cache".into() }),
        }),
        update_strategy: Some(UpdateStrategy { registry_poll: Some(RegistryPoll { interval: "30m0s".into() }) }),
        secrets: vec!["pull".into()],
        run_as_root: true,
        display_name: "Community".into(),
        description: "Operators of others".into(),
        publisher: "The community".into(),
        icon: Some(Icon { base64data: "AAA=".into(), mediatype: "image/png".into() }),
    }
}

fn status() -> CatalogSourceStatus {
    CatalogSourceStatus {
        message: "the image does not exist".into(),
        reason: reason::REGISTRY_SERVER.into(),
        latest_image_registry_poll: Some(time()),
        config_map_reference: Some(ConfigMapReference {
            name: "catalog".into(),
            namespace: "olm".into(),
            uid: "5d8f1f0a".into(),
            resource_version: "17".into(),
            last_update_time: Some(time()),
        }),
        registry_service: Some(RegistryService {
            protocol: "grpc".into(),
            service_name: "community".into(),
            service_namespace: "olm".into(),
            port: "50051".into(),
            created_at: Some(time()),
        }),
        connection_state: Some(ConnectionState {
            address: "community.olm.svc:50051".into(),
            last_observed_state: Connection::TransientFailure,
            last_connect: Some(time()),
        }),
        conditions: vec![meta_condition()],
    }
}

pub(in crate::olm::api::tests) fn full() -> Value {
    let mut object = CatalogSource::new("community", spec());
    object.status = Some(status());
    json_of(&object)
}

pub(in crate::olm::api::tests) fn least() -> Value {
    let mut object = CatalogSource::new("community", CatalogSourceSpec::default());
    object.spec.grpc_pod_config =
        Some(GrpcPodConfig { extract_content: Some(ExtractContent::default()), ..GrpcPodConfig::default() });
    object.spec.icon = Some(Icon::default());
    object.status = Some(CatalogSourceStatus {
        config_map_reference: Some(ConfigMapReference::default()),
        connection_state: Some(ConnectionState::default()),
        ..CatalogSourceStatus::default()
    });
    json_of(&object)
}
