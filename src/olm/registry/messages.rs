//! The messages of the API. A table of their fields makes both the types and their descriptions.

use super::descriptors::{field, message};
use prost_types::DescriptorProto;

/// Defines messages. Fields are texts (`text`, `texts`) and messages (`one`, `many`), each with its number.
macro_rules! messages {
    ($($(#[$about:meta])* $name:ident { $($fields:tt)* })+) => {
        $(fields! { [$(#[$about])*] $name [] [] $($fields)* })+

        /// The descriptions of all messages.
        pub(crate) fn described() -> Vec<DescriptorProto> {
            vec![$($name::described()),+]
        }
    };
}

/// Takes the fields of a message one by one: first come those that are done, as members and as descriptions.
macro_rules! fields {
    ($about:tt $name:ident [$($done:tt)*] [$($told:tt)*] text $field:ident = $number:tt; $($rest:tt)*) => {
        fields! { $about $name
            [$($done)* #[prost(string, tag = $number)] pub(crate) $field: String,]
            [$($told)* field(stringify!($field), $number, false, None),] $($rest)* }
    };
    ($about:tt $name:ident [$($done:tt)*] [$($told:tt)*] texts $field:ident = $number:tt; $($rest:tt)*) => {
        fields! { $about $name
            [$($done)* #[prost(string, repeated, tag = $number)] pub(crate) $field: Vec<String>,]
            [$($told)* field(stringify!($field), $number, true, None),] $($rest)* }
    };
    ($about:tt $name:ident [$($done:tt)*] [$($told:tt)*] one $of:ident $field:ident = $number:tt; $($rest:tt)*) => {
        fields! { $about $name
            [$($done)* #[prost(message, optional, tag = $number)] pub(crate) $field: Option<$of>,]
            [$($told)* field(stringify!($field), $number, false, Some(stringify!($of))),] $($rest)* }
    };
    ($about:tt $name:ident [$($done:tt)*] [$($told:tt)*] many $of:ident $field:ident = $number:tt; $($rest:tt)*) => {
        fields! { $about $name
            [$($done)* #[prost(message, repeated, tag = $number)] pub(crate) $field: Vec<$of>,]
            [$($told)* field(stringify!($field), $number, true, Some(stringify!($of))),] $($rest)* }
    };
    ([$($about:tt)*] $name:ident [$($done:tt)*] [$($told:tt)*]) => {
        $($about)*
        #[derive(Clone, PartialEq, prost::Message)]
        pub(crate) struct $name { $($done)* }

        impl $name {
            fn described() -> DescriptorProto {
                message(stringify!($name), vec![$($told)*])
            }
        }
    };
}

messages! {
    Channel {
        text name = 1;
        text csv_name = 2;
        one Deprecation deprecation = 3;
    }
    PackageName {
        text name = 1;
    }
    Package {
        text name = 1;
        many Channel channels = 2;
        text default_channel_name = 3;
        one Deprecation deprecation = 4;
    }
    GroupVersionKind {
        text group = 1;
        text version = 2;
        text kind = 3;
        text plural = 4;
    }
    Dependency {
        text r#type = 1;
        text value = 2;
    }
    /// Its value is JSON.
    Property {
        text r#type = 1;
        text value = 2;
    }
    /// A bundle in a channel.
    Bundle {
        text csv_name = 1;
        text package_name = 2;
        text channel_name = 3;
        text csv_json = 4;
        texts object = 5;
        text bundle_path = 6;
        many GroupVersionKind provided_apis = 7;
        many GroupVersionKind required_apis = 8;
        text version = 9;
        text skip_range = 10;
        many Dependency dependencies = 11;
        many Property properties = 12;
        text replaces = 13;
        texts skips = 14;
        one Deprecation deprecation = 15;
    }
    ChannelEntry {
        text package_name = 1;
        text channel_name = 2;
        text bundle_name = 3;
        text replaces = 4;
    }
    ListPackageRequest {}
    ListBundlesRequest {}
    GetPackageRequest {
        text name = 1;
    }
    GetBundleRequest {
        text pkg_name = 1;
        text channel_name = 2;
        text csv_name = 3;
    }
    GetBundleInChannelRequest {
        text pkg_name = 1;
        text channel_name = 2;
    }
    GetAllReplacementsRequest {
        text csv_name = 1;
    }
    GetReplacementRequest {
        text csv_name = 1;
        text pkg_name = 2;
        text channel_name = 3;
    }
    GetAllProvidersRequest {
        text group = 1;
        text version = 2;
        text kind = 3;
        text plural = 4;
    }
    GetLatestProvidersRequest {
        text group = 1;
        text version = 2;
        text kind = 3;
        text plural = 4;
    }
    GetDefaultProviderRequest {
        text group = 1;
        text version = 2;
        text kind = 3;
        text plural = 4;
    }
    /// Why something should not be installed.
    Deprecation {
        text message = 1;
    }
    /// Blobs of a schema that only some clients know.
    ExperimentalListPackageCustomSchemasRequest {
        text schema = 1;
        text package_name = 2;
    }
}
