//! Describes the services and messages of the API, as reflection tells clients.

use super::PACKAGE;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MessageOptions, MethodDescriptorProto, MethodOptions, OneofDescriptorProto,
    ServiceDescriptorProto,
};

/// Free-form objects.
const STRUCT_FILE: &str = "google/protobuf/struct.proto";
const STRUCT: &str = ".google.protobuf.Struct";
const VALUE: &str = ".google.protobuf.Value";

/// Methods by name, with request, response, and whether that is a stream.
const REGISTRY: [(&str, &str, &str, bool); 10] = [
    ("ListPackages", "ListPackageRequest", "PackageName", true),
    ("GetPackage", "GetPackageRequest", "Package", false),
    ("GetBundle", "GetBundleRequest", "Bundle", false),
    ("GetBundleForChannel", "GetBundleInChannelRequest", "Bundle", false),
    ("GetChannelEntriesThatReplace", "GetAllReplacementsRequest", "ChannelEntry", true),
    ("GetBundleThatReplaces", "GetReplacementRequest", "Bundle", false),
    ("GetChannelEntriesThatProvide", "GetAllProvidersRequest", "ChannelEntry", true),
    ("GetLatestChannelEntriesThatProvide", "GetLatestProvidersRequest", "ChannelEntry", true),
    ("GetDefaultBundleThatProvides", "GetDefaultProviderRequest", "Bundle", false),
    ("ListBundles", "ListBundlesRequest", "Bundle", true),
];
const EXPERIMENTAL: [(&str, &str, &str, bool); 1] =
    [("ExperimentalListPackageCustomSchemas", "ExperimentalListPackageCustomSchemasRequest", STRUCT, true)];
const DEPRECATED: &str = "GetBundleForChannel";

/// The files that describe the API, of which these are the messages.
pub(crate) fn files(messages: Vec<DescriptorProto>) -> FileDescriptorSet {
    let file = FileDescriptorProto {
        name: Some("registry.proto".to_owned()),
        package: Some(PACKAGE.to_owned()),
        dependency: vec![STRUCT_FILE.to_owned()],
        message_type: messages,
        service: vec![service("Registry", &REGISTRY), service("ExperimentalRegistry", &EXPERIMENTAL)],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    };
    FileDescriptorSet { file: vec![struct_file(), file] }
}

/// A message of the API.
pub(super) fn message(name: &str, field: Vec<FieldDescriptorProto>) -> DescriptorProto {
    DescriptorProto { name: Some(name.to_owned()), field, ..DescriptorProto::default() }
}

/// A field: a message of the API, or a text.
pub(super) fn field(name: &str, number: i32, repeated: bool, of: Option<&str>) -> FieldDescriptorProto {
    let name = camel_case(name.trim_start_matches("r#"));
    let kind = if of.is_some() { Type::Message } else { Type::String };
    typed(&name, number, repeated, (kind, of.map(full_name)))
}

fn typed(name: &str, number: i32, repeated: bool, (kind, type_name): (Type, Option<String>)) -> FieldDescriptorProto {
    let label = if repeated { Label::Repeated } else { Label::Optional };
    FieldDescriptorProto {
        name: Some(name.to_owned()),
        number: Some(number),
        label: Some(label as i32),
        r#type: Some(kind as i32),
        type_name,
        json_name: Some(camel_case(name)),
        ..FieldDescriptorProto::default()
    }
}

fn full_name(name: &str) -> String {
    if name.starts_with('.') { name.to_owned() } else { format!(".{PACKAGE}.{name}") }
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| {
        let (initial, rest) = word.split_at_checked(1).unwrap_or_default();
        name + &initial.to_ascii_uppercase() + rest
    })
}

fn service(name: &str, methods: &[(&str, &str, &str, bool)]) -> ServiceDescriptorProto {
    let method = |(name, request, response, streams): &(&str, &str, &str, bool)| MethodDescriptorProto {
        name: Some((*name).to_owned()),
        input_type: Some(full_name(request)),
        output_type: Some(full_name(response)),
        options: (*name == DEPRECATED).then(|| MethodOptions { deprecated: Some(true), ..MethodOptions::default() }),
        server_streaming: Some(*streams),
        ..MethodDescriptorProto::default()
    };
    ServiceDescriptorProto {
        name: Some(name.to_owned()),
        method: methods.iter().map(method).collect(),
        ..ServiceDescriptorProto::default()
    }
}

/// What describes free-form objects: clients ask for each file that another one needs.
fn struct_file() -> FileDescriptorProto {
    let one_of = |name: &str, number: i32, kind: (Type, Option<&str>)| FieldDescriptorProto {
        oneof_index: Some(0),
        ..typed(name, number, false, (kind.0, kind.1.map(str::to_owned)))
    };
    let of = |name: &str| (Type::Message, Some(name.to_owned()));
    let entry = DescriptorProto {
        options: Some(MessageOptions { map_entry: Some(true), ..MessageOptions::default() }),
        ..message(
            "FieldsEntry",
            vec![typed("key", 1, false, (Type::String, None)), typed("value", 2, false, of(VALUE))],
        )
    };
    let kinds = vec![
        one_of("null_value", 1, (Type::Enum, Some(".google.protobuf.NullValue"))),
        one_of("number_value", 2, (Type::Double, None)),
        one_of("string_value", 3, (Type::String, None)),
        one_of("bool_value", 4, (Type::Bool, None)),
        one_of("struct_value", 5, (Type::Message, Some(STRUCT))),
        one_of("list_value", 6, (Type::Message, Some(".google.protobuf.ListValue"))),
    ];
    let null = EnumValueDescriptorProto {
        name: Some("NULL_VALUE".to_owned()),
        number: Some(0),
        ..EnumValueDescriptorProto::default()
    };
    let kind = OneofDescriptorProto { name: Some("kind".to_owned()), ..OneofDescriptorProto::default() };
    FileDescriptorProto {
        name: Some(STRUCT_FILE.to_owned()),
        package: Some("google.protobuf".to_owned()),
        message_type: vec![
            DescriptorProto {
                nested_type: vec![entry],
                ..message("Struct", vec![typed("fields", 1, true, of(".google.protobuf.Struct.FieldsEntry"))])
            },
            DescriptorProto { oneof_decl: vec![kind], ..message("Value", kinds) },
            message("ListValue", vec![typed("values", 1, true, of(VALUE))]),
        ],
        enum_type: vec![EnumDescriptorProto {
            name: Some("NullValue".to_owned()),
            value: vec![null],
            ..EnumDescriptorProto::default()
        }],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}
