use super::*;
use prost::Message;
use prost_types::FileDescriptorSet;

fn files() -> FileDescriptorSet {
    super::super::descriptors::files(described())
}

/// The API with its numbers, as other programs know it.
const API: &str = "
Channel name=1 csvName=2 deprecation=3:Deprecation
PackageName name=1
Package name=1 channels=2[]:Channel defaultChannelName=3 deprecation=4:Deprecation
GroupVersionKind group=1 version=2 kind=3 plural=4
Dependency type=1 value=2
Property type=1 value=2
Bundle csvName=1 packageName=2 channelName=3 csvJson=4 object=5[] bundlePath=6 providedApis=7[]:GroupVersionKind \
requiredApis=8[]:GroupVersionKind version=9 skipRange=10 dependencies=11[]:Dependency properties=12[]:Property replaces=13 \
skips=14[] deprecation=15:Deprecation
ChannelEntry packageName=1 channelName=2 bundleName=3 replaces=4
ListPackageRequest
ListBundlesRequest
GetPackageRequest name=1
GetBundleRequest pkgName=1 channelName=2 csvName=3
GetBundleInChannelRequest pkgName=1 channelName=2
GetAllReplacementsRequest csvName=1
GetReplacementRequest csvName=1 pkgName=2 channelName=3
GetAllProvidersRequest group=1 version=2 kind=3 plural=4
GetLatestProvidersRequest group=1 version=2 kind=3 plural=4
GetDefaultProviderRequest group=1 version=2 kind=3 plural=4
Deprecation message=1
ExperimentalListPackageCustomSchemasRequest schema=1 packageName=2";

#[test]
fn messages_have_the_fields_and_numbers_that_clients_know() {
    let set = files();
    let file = set.file.iter().find(|file| file.package() == "api").unwrap();
    let mut described = String::new();
    for message in &file.message_type {
        described += "\n";
        described += message.name();
        for field in &message.field {
            let list = if field.label == Some(3) { "[]" } else { "" };
            let of = field.type_name.as_deref().map(|name| format!(":{}", name.trim_start_matches(".api.")));
            described += &format!(" {}={}{list}{}", field.name(), field.number(), of.unwrap_or_default());
            assert_eq!(field.json_name(), field.name());
        }
    }
    assert_eq!(described, API);
}

#[test]
fn fields_are_encoded_under_their_numbers() {
    let it = Bundle {
        csv_name: "a".into(),
        skip_range: "b".into(),
        skips: vec!["c".into(), "d".into()],
        deprecation: Some(Deprecation { message: "e".into() }),
        ..Bundle::default()
    };
    assert_eq!(it.encode_to_vec(), b"\x0a\x01a\x52\x01b\x72\x01c\x72\x01d\x7a\x03\x0a\x01e");
}

#[test]
fn each_method_is_described_by_the_path_that_it_has() {
    let set = files();
    let file = set.file.iter().find(|file| file.package() == "api").unwrap();
    let methods = file.service.iter().flat_map(|service| {
        service.method.iter().map(move |method| (format!("/api.{}/{}", service.name(), method.name()), method))
    });
    let described: Vec<(String, String, bool)> = methods
        .map(|(path, it)| (path, it.input_type().trim_start_matches(".api.").to_owned(), it.server_streaming()))
        .collect();
    let expected = [
        (ListPackageRequest::PATH, "ListPackageRequest", true),
        (GetPackageRequest::PATH, "GetPackageRequest", false),
        (GetBundleRequest::PATH, "GetBundleRequest", false),
        (GetBundleInChannelRequest::PATH, "GetBundleInChannelRequest", false),
        (GetAllReplacementsRequest::PATH, "GetAllReplacementsRequest", true),
        (GetReplacementRequest::PATH, "GetReplacementRequest", false),
        (GetAllProvidersRequest::PATH, "GetAllProvidersRequest", true),
        (GetLatestProvidersRequest::PATH, "GetLatestProvidersRequest", true),
        (GetDefaultProviderRequest::PATH, "GetDefaultProviderRequest", false),
        (ListBundlesRequest::PATH, "ListBundlesRequest", true),
        (ExperimentalListPackageCustomSchemasRequest::PATH, "ExperimentalListPackageCustomSchemasRequest", true),
    ];
    assert_eq!(described, expected.map(|(path, request, streams)| (path.to_owned(), request.to_owned(), streams)));
}

#[test]
fn description_needs_no_other_file() {
    let set = FileDescriptorSet::decode(files().encode_to_vec().as_slice()).unwrap();
    let names: Vec<&str> = set.file.iter().map(|file| file.name()).collect();
    assert!(set.file.iter().flat_map(|file| &file.dependency).all(|needed| names.contains(&needed.as_str())));
}
