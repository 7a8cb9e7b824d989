//! What the file of annotations and the labels of an image say of a bundle.

use std::collections::BTreeMap;

/// What all keys begin with.
pub(crate) const PREFIX: &str = "operators.operatorframework.io.bundle.";
const MANIFESTS: &str = "manifests/";
const METADATA: &str = "metadata/";

/// All annotations by key, also those that nobody here reads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Annotations(pub BTreeMap<String, String>);

impl Annotations {
    /// The value of the key after the prefix, without blanks around it; empty if it is missing.
    pub(crate) fn get(&self, key: &str) -> &str {
        self.0.get(&format!("{PREFIX}{key}")).map_or("", |value| value.trim())
    }

    pub(crate) fn media_type(&self) -> &str {
        self.get("mediatype.v1")
    }

    pub(crate) fn package(&self) -> &str {
        self.get("package.v1")
    }

    /// The channels in their order.
    pub(crate) fn channels(&self) -> Vec<&str> {
        self.get("channels.v1").split(',').map(str::trim).filter(|channel| !channel.is_empty()).collect()
    }

    /// Empty if there is none.
    pub(crate) fn default_channel(&self) -> &str {
        self.get("channel.default.v1")
    }

    /// The folder of manifests, with a slash at its end and none at its beginning.
    pub(crate) fn manifests(&self) -> String {
        folder(self.get("manifests.v1"), MANIFESTS)
    }

    /// The folder of metadata, with a slash at its end and none at its beginning.
    pub(crate) fn metadata(&self) -> String {
        folder(self.get("metadata.v1"), METADATA)
    }

    /// Takes over what is missing here.
    pub(crate) fn fill(&mut self, others: &BTreeMap<String, String>) {
        for (key, value) in others.iter().filter(|(key, _)| key.starts_with(PREFIX)) {
            self.0.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }

    pub(crate) fn set(&mut self, key: &str, value: &str) {
        self.0.insert(format!("{PREFIX}{key}"), value.to_owned());
    }
}

fn folder(given: &str, default: &str) -> String {
    let name = normal(given);
    if name.is_empty() { default.to_owned() } else { format!("{name}/") }
}

/// A path without `./`, slashes at its ends and doubled slashes. Parts that go up are kept and thus found nowhere.
pub(crate) fn normal(path: &str) -> String {
    let parts = path.split('/').filter(|part| !part.is_empty() && *part != ".");
    parts.collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_that_are_named_or_the_usual_ones() {
        let mut annotations = Annotations::default();
        assert_eq!((annotations.manifests(), annotations.metadata()), ("manifests/".into(), "metadata/".into()));
        annotations.set("manifests.v1", "./deploy//olm");
        annotations.set("metadata.v1", "/info/");
        assert_eq!((annotations.manifests(), annotations.metadata()), ("deploy/olm/".into(), "info/".into()));
    }

    #[test]
    fn channels_are_separated_by_commas_and_blanks_do_not_count() {
        let mut annotations = Annotations::default();
        assert!(annotations.channels().is_empty());
        annotations.set("channels.v1", " stable, fast ,,candidate");
        assert_eq!(annotations.channels(), ["stable", "fast", "candidate"]);
    }

    #[test]
    fn labels_fill_only_what_the_file_leaves_open() {
        let mut annotations = Annotations::default();
        annotations.set("package.v1", "widgets");
        let label = |key: &str, value: &str| (format!("{PREFIX}{key}"), value.to_owned());
        let labels = [label("package.v1", "other"), label("channels.v1", "stable"), ("name".into(), "x".into())];
        annotations.fill(&labels.into());
        assert_eq!((annotations.package(), annotations.channels()), ("widgets", vec!["stable"]));
        assert_eq!(annotations.0.len(), 2);
    }
}
