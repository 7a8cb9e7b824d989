//! Health and reflection.

use super::*;
use futures::StreamExt;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

#[tokio::test]
async fn health_is_serving_for_every_name_and_authority() {
    let running = start().await;
    for authority in ["widgets.one.svc:50051", "localhost", "10.0.0.1:50051"] {
        let client = client_of(running.address, authority).await;
        let wire = client.wire().unwrap();
        let mut health = HealthClient::with_origin(wire, format!("http://{authority}").parse().unwrap());
        for service in ["", "Registry", "api.Registry", "whatever"] {
            let request = HealthCheckRequest { service: service.to_owned() };
            assert_eq!(health.check(request).await.unwrap().into_inner().status, 1, "{authority} {service}");
        }
    }
}

#[tokio::test]
async fn health_cannot_be_watched() {
    let running = start().await;
    let client = running.client().await;
    let wire = client.wire().unwrap();
    let mut health = HealthClient::with_origin(wire, "http://x".parse().unwrap());
    let refused = health.watch(HealthCheckRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
}

/// Asks the reflection of a version.
macro_rules! reflected {
    ($version:ident, $running:ident) => {{
        use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;
        use tonic_reflection::pb::$version::{ServerReflectionRequest, ServiceResponse};
        let connected = $running.client().await;
        let wire = connected.wire().unwrap();
        let mut client = ServerReflectionClient::with_origin(wire, "http://x".parse().unwrap());
        let requests = [MessageRequest::ListServices(String::new())]
            .into_iter()
            .chain(
                ["api.Registry", "api.ExperimentalRegistry", "api.Registry.ListBundles", "grpc.health.v1.Health"]
                    .map(|name| MessageRequest::FileContainingSymbol(name.to_owned())),
            )
            .chain([MessageRequest::FileByFilename("google/protobuf/struct.proto".to_owned())])
            .map(|it| ServerReflectionRequest { host: String::new(), message_request: Some(it) });
        let requests: Vec<_> = requests.collect();
        let mut answers = client.server_reflection_info(futures::stream::iter(requests)).await.unwrap().into_inner();
        let (mut services, mut files) = (Vec::new(), 0);
        while let Some(answer) = answers.next().await {
            match answer.unwrap().message_response.unwrap() {
                MessageResponse::ListServicesResponse(list) => {
                    services = list.service.into_iter().map(|ServiceResponse { name }| name).collect();
                }
                MessageResponse::FileDescriptorResponse(file) => files += file.file_descriptor_proto.len(),
                other => panic!("{other:?}"),
            }
        }
        services.sort();
        (services, files)
    }};
}

#[tokio::test]
async fn reflection_names_all_services_and_describes_them_in_both_versions() {
    let running = start().await;
    let expected = |version: &str| {
        let reflection = format!("grpc.reflection.{version}.ServerReflection");
        ["api.ExperimentalRegistry", "api.Registry", "grpc.health.v1.Health", &reflection].map(str::to_owned).to_vec()
    };
    assert_eq!(reflected!(v1, running), (expected("v1"), 5));
    assert_eq!(reflected!(v1alpha, running), (expected("v1alpha"), 5));
}
