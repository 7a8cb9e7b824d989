//! What a `package.yaml` says: the channels of a package, each with the ClusterServiceVersion at its head.

use serde::Deserialize;
use serde_json::Value;

/// A package of the format before bundles, and of ConfigMap catalogs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PackageFile {
    pub package_name: String,
    pub channels: Vec<ChannelHead>,
    #[serde(deserialize_with = "super::csv::nullable")]
    pub default_channel: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct ChannelHead {
    pub name: String,
    #[serde(rename = "currentCSV")]
    pub current_csv: String,
}

impl PackageFile {
    /// Whether a document is meant as one.
    pub(super) fn is_one(value: &Value) -> bool {
        value.get("packageName").is_some() && value.get("kind").is_none()
    }

    /// The package, or what is wrong with it. A single channel is the default one even if nothing says so.
    pub(super) fn of(value: &Value) -> Result<PackageFile, String> {
        let mut package: PackageFile = serde_path_to_error::deserialize(value)
            .map_err(|error| format!("{}: {}; correct the field", error.path(), error.inner()))?;
        if package.package_name.is_empty() {
            return Err("packageName is empty: name the package".to_owned());
        }
        if let ([only], true) = (package.channels.as_slice(), package.default_channel.is_empty()) {
            package.default_channel = only.name.clone();
        }
        Ok(package)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn single_channel_is_the_default_one() {
        let given = json!({"packageName": "widgets", "channels": [{"name": "stable", "currentCSV": "widgets.v1"}]});
        let package = PackageFile::of(&given).unwrap();
        assert_eq!((&*package.default_channel, &*package.channels[0].current_csv), ("stable", "widgets.v1"));
        let two = json!({"packageName": "widgets", "channels": [{"name": "a"}, {"name": "b"}], "defaultChannel": null});
        assert_eq!(PackageFile::of(&two).unwrap().default_channel, "");
    }

    #[test]
    fn package_without_a_name_or_with_other_types_is_refused() {
        assert!(PackageFile::of(&json!({"packageName": ""})).unwrap_err().contains("packageName is empty"));
        let error = PackageFile::of(&json!({"packageName": "a", "channels": [{"name": 1}]})).unwrap_err();
        assert!(error.starts_with("channels[0].name: "), "{error}");
    }
}
