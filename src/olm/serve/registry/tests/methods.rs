//! Each method over the wire.

use super::*;
use crate::olm::registry::tests::get_replacement;

fn provided(kind: &str) -> (String, String, String) {
    ("example.com".to_owned(), "v1".to_owned(), kind.to_owned())
}

#[tokio::test]
async fn list_packages_sends_the_name_of_each_package() {
    let client = start().await.client().await;
    let names: Vec<String> = client.packages().map_ok(|it| it.name).try_collect().await.unwrap();
    assert_eq!(names, ["gears", "widgets"]);
}

#[tokio::test]
async fn get_package_sends_channels_heads_and_the_default_channel() {
    let client = start().await.client().await;
    let it = client.one(GetPackageRequest { name: "widgets".into() }).await.unwrap();
    let channels: Vec<_> = it.channels.iter().map(|it| (it.name.as_str(), it.csv_name.as_str())).collect();
    assert_eq!(channels, [("fast", "widgets.v3"), ("stable", "widgets.v3")]);
    assert_eq!(it.default_channel_name, "stable");
    let refused = refusal(&client, GetPackageRequest { name: "none".into() }).await;
    assert_eq!(refused, (Code::Unknown, r#"package "none" not found"#.to_owned()));
}

#[tokio::test]
async fn get_bundle_sends_the_bundle_of_a_channel() {
    let client = start().await.client().await;
    let it = client.one(get_bundle("widgets", "stable", "widgets.v3")).await.unwrap();
    assert_eq!((it.csv_name.as_str(), it.channel_name.as_str(), it.replaces.as_str()), ("widgets.v3", "stable", ""));
    assert!(!it.csv_json.is_empty());
    let (code, message) = refusal(&client, get_bundle("widgets", "stable", "none")).await;
    assert_eq!((code, message.contains("not found")), (Code::Unknown, true));
}

#[tokio::test]
async fn get_bundle_for_channel_sends_its_head() {
    let client = start().await.client().await;
    let head = |channel: &str| GetBundleInChannelRequest { pkg_name: "widgets".into(), channel_name: channel.into() };
    assert_eq!(client.one(head("fast")).await.unwrap().csv_name, "widgets.v3");
    assert_eq!(refusal(&client, head("none")).await.0, Code::Unknown);
}

#[tokio::test]
async fn get_channel_entries_that_replace_sends_each_entry() {
    let client = start().await.client().await;
    let replacing = |name: &str| GetAllReplacementsRequest { csv_name: name.into() };
    assert_eq!(all(&client, replacing("widgets.v2")).await.unwrap().len(), 2);
    let (code, message) = refusal(&client, replacing("none")).await;
    assert_eq!((code, message.as_str()), (Code::Unknown, r#"no channel entries found that replace "none""#));
}

#[tokio::test]
async fn get_bundle_that_replaces_sends_one_bundle() {
    let client = start().await.client().await;
    let it = client.one(get_replacement("widgets", "stable", "widgets.v1")).await.unwrap();
    assert_eq!(it.csv_name, "widgets.v2");
    assert_eq!(refusal(&client, get_replacement("widgets", "stable", "widgets.v3")).await.0, Code::Unknown);
}

#[tokio::test]
async fn get_channel_entries_that_provide_sends_each_entry() {
    let client = start().await.client().await;
    let providing = |kind: &str| {
        let (group, version, kind) = provided(kind);
        GetAllProvidersRequest { group, version, kind, plural: String::new() }
    };
    assert_eq!(all(&client, providing("Widget")).await.unwrap().len(), 7);
    assert_eq!(refusal(&client, providing("None")).await.0, Code::Unknown);
}

#[tokio::test]
async fn get_latest_channel_entries_that_provide_sends_heads() {
    let client = start().await.client().await;
    let providing = |kind: &str| {
        let (group, version, kind) = provided(kind);
        GetLatestProvidersRequest { group, version, kind, plural: String::new() }
    };
    assert_eq!(all(&client, providing("Widget")).await.unwrap().len(), 4);
    assert_eq!(refusal(&client, providing("None")).await.0, Code::Unknown);
}

#[tokio::test]
async fn get_default_bundle_that_provides_sends_one_bundle() {
    let client = start().await.client().await;
    let providing = |kind: &str| {
        let (group, version, kind) = provided(kind);
        GetDefaultProviderRequest { group, version, kind, plural: String::new() }
    };
    assert_eq!(client.one(providing("Gadget")).await.unwrap().csv_name, "widgets.v3");
    assert_eq!(refusal(&client, providing("None")).await.0, Code::Unknown);
}

#[tokio::test]
async fn list_bundles_sends_each_bundle_of_each_channel() {
    let client = start().await.client().await;
    let all: Vec<Bundle> = client.bundles().try_collect().await.unwrap();
    assert_eq!(all.len(), 6);
    assert!(all.iter().all(|it| it.bundle_path.is_empty() != it.csv_json.is_empty()));
}

#[tokio::test]
async fn list_of_an_empty_catalog_is_no_error() {
    let running = start().await;
    let client = client_of(running.address, "empty.one.svc").await;
    assert_eq!(client.packages().try_collect::<Vec<_>>().await, Ok(Vec::new()));
    assert_eq!(client.bundles().try_collect::<Vec<_>>().await, Ok(Vec::new()));
}

#[tokio::test]
async fn experimental_method_answers_only_clients_that_know_that_it_may_change() {
    let running = start().await;
    let client = running.client().await;
    let request = |schema: &str| ExperimentalListPackageCustomSchemasRequest {
        schema: schema.into(),
        package_name: "widgets".into(),
    };
    assert_eq!(all(&client, request("example.com.notes")).await.unwrap().len(), 0);
    assert_eq!(all(&client, request("")).await.unwrap().len(), 0);

    let acknowledged = async |schema: &str| {
        let origin = "http://widgets.one.svc:50051".parse().unwrap();
        let mut grpc = tonic::client::Grpc::with_origin(client.wire().unwrap(), origin);
        grpc.ready().await.unwrap();
        let mut request = tonic::Request::new(request(schema));
        request.metadata_mut().insert("x-acknowledge-experimental", "true".parse().unwrap());
        let path = http::uri::PathAndQuery::from_static(ExperimentalListPackageCustomSchemasRequest::PATH);
        let codec = tonic_prost::ProstCodec::<_, prost_types::Struct>::default();
        let streaming = grpc.server_streaming(request, path, codec).await?.into_inner();
        streaming.try_collect::<Vec<_>>().await
    };
    let blobs = acknowledged("example.com.notes").await.unwrap();
    assert_eq!(blobs.len(), 1);
    assert!(blobs[0].fields.contains_key("list"));
    assert_eq!(acknowledged("").await.unwrap_err().code(), Code::InvalidArgument);
    assert_eq!(acknowledged("../x").await.unwrap_err().code(), Code::InvalidArgument);
}

#[tokio::test]
async fn unknown_method_is_unimplemented() {
    let client = start().await.client().await;
    let mut grpc = tonic::client::Grpc::with_origin(client.wire().unwrap(), "http://widgets.one.svc".parse().unwrap());
    for path in ["/api.Registry/Other", "/api.Other/ListPackages", "/x"] {
        grpc.ready().await.unwrap();
        let codec = tonic_prost::ProstCodec::<_, PackageName>::default();
        let path = http::uri::PathAndQuery::from_static(path);
        let refused = grpc.unary(tonic::Request::new(ListPackageRequest {}), path, codec).await.unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
    }
}

#[tokio::test]
async fn damaged_data_is_an_error_of_the_server() {
    struct Broken;
    impl crate::olm::catalog::served::Data for Broken {
        fn read(&self, _offset: u64, length: usize) -> std::io::Result<Vec<u8>> {
            Ok(vec![0; length])
        }
    }
    let index = content(&widgets()).index;
    let running =
        start_with(Limits::default(), catalogs(vec![("one", "widgets", Content::new(index, Box::new(Broken)))])).await;
    let client = running.client().await;
    let (code, message) = refusal(&client, get_bundle("widgets", "stable", "widgets.v3")).await;
    assert_eq!((code, message.contains("is not what was written")), (Code::Internal, true));
    assert_eq!(refusal(&client, ListBundlesRequest {}).await.0, Code::Internal);
    assert_eq!(all(&client, ListPackageRequest {}).await.unwrap().len(), 2);
}
