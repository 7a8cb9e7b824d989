//! The APIs that operators provide and require, as `<Kind>.<version>.<group>`.

use crate::olm::api::cluster_service_version::{ApiServiceDescription, ClusterServiceVersion, CrdDescription};
use std::collections::BTreeSet;

/// Sorted, as in the annotation of OperatorGroups.
pub(crate) type Apis = BTreeSet<String>;

/// Those that it defines or serves.
pub(crate) fn provided(csv: &ClusterServiceVersion) -> Apis {
    of(&csv.spec.custom_resource_definitions.owned, &csv.spec.api_service_definitions.owned)
}

pub(super) fn required(csv: &ClusterServiceVersion) -> Apis {
    of(&csv.spec.custom_resource_definitions.required, &csv.spec.api_service_definitions.required)
}

fn of(definitions: &[CrdDescription], services: &[ApiServiceDescription]) -> Apis {
    let definitions = definitions.iter().map(|it| name(&it.kind, &it.version, it.group()));
    definitions.chain(services.iter().map(|it| name(&it.kind, &it.version, &it.group))).collect()
}

pub(super) fn name(kind: &str, version: &str, group: &str) -> String {
    format!("{kind}.{version}.{group}")
}

/// Those that the annotation of a group names.
pub(super) fn of_text(text: &str) -> Apis {
    text.split(',').map(str::trim).filter(|api| !api.is_empty()).map(str::to_owned).collect()
}

pub(super) fn to_text(apis: &Apis) -> String {
    apis.iter().map(String::as_str).collect::<Vec<_>>().join(",")
}

/// The hash by which keys of labels name an API.
pub(super) fn hash(api: &str) -> String {
    format!("{:x}", fnv_1a(api))
}

/// The 64-bit hash that keys of labels and annotations have.
fn fnv_1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_that_are_published() {
        let hashes = ["", "a", "foobar"].map(fnv_1a);
        assert_eq!(hashes, [0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c, 0x8594_4171_f739_67e8]);
    }

    #[test]
    fn list_of_apis_is_sorted_whoever_has_written_it() {
        let apis = of_text("B.v1.example.com, A.v1.example.com,,B.v1.example.com");
        assert_eq!(to_text(&apis), "A.v1.example.com,B.v1.example.com");
        assert_eq!(of_text(""), Apis::new());
    }
}
