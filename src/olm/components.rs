//! By which label the components of an operator are known: its package and the namespace of its Subscription stand in the key.

use crate::olm::api::keys::label::COMPONENT_OF;
use crate::olm::names::{is_label_value, is_object_name};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the part of a key after the slash.
const MAX_KEY: usize = 63;

/// The name of the Operator object.
pub(crate) fn name(package: &str, namespace: &str) -> String {
    format!("{package}.{namespace}")
}

/// The key of the label of all components. `None` for a package whose name fits no key: then nothing is labelled.
pub(crate) fn key(package: &str, namespace: &str) -> Option<String> {
    key_of(&name(package, namespace))
}

/// The same by the name of the Operator object. What is too long is cut, and ends with a letter or a digit nevertheless.
pub(crate) fn key_of(name: &str) -> Option<String> {
    let cut = match name.len() > MAX_KEY {
        true => name.get(..name.floor_char_boundary(MAX_KEY)).unwrap_or_default().trim_end_matches(['.', '_', '-']),
        false => name,
    };
    is_label_value(cut).then(|| format!("{COMPONENT_OF}{cut}"))
}

/// The name of the Operator object whose components have this key, where no other name is known for it.
pub(crate) fn name_of(key: &str) -> Option<&str> {
    key.strip_prefix(COMPONENT_OF).filter(|name| is_object_name(name))
}

/// The keys among the labels of an object.
pub(crate) fn keys(labels: Option<&BTreeMap<String, String>>) -> BTreeSet<String> {
    let all = labels.into_iter().flatten().map(|(key, _)| key);
    all.filter(|key| key.starts_with(COMPONENT_OF)).cloned().collect()
}

/// Whether a path of what differs is that of such a label. An object that lacks it is labelled once, which is no repair of it.
pub(crate) fn is_label(path: &str) -> bool {
    path.strip_prefix("metadata.labels[").is_some_and(|key| key.starts_with(COMPONENT_OF))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_names_package_and_namespace_and_is_cut_at_the_63rd_character() {
        assert_eq!(key("etcd", "team").unwrap(), "operators.coreos.com/etcd.team");
        let long = "p".repeat(60);
        let cases = [
            // 63 characters fit.
            (long.as_str(), "ab", format!("{long}.ab")),
            (long.as_str(), "abc", format!("{long}.ab")),
            // What would stand at the end of the part that is left goes.
            (long.as_str(), "a-c", format!("{long}.a")),
            (&"p".repeat(62), "team", "p".repeat(62)),
            (&format!("{}-_.", "p".repeat(59)), "team", "p".repeat(59)),
        ];
        for (package, namespace, expected) in cases {
            assert_eq!(key(package, namespace), Some(format!("{COMPONENT_OF}{expected}")), "{package} {namespace}");
        }
    }

    #[test]
    fn package_that_fits_no_key_has_none() {
        for package in ["", "-a", "a b", "a/b", "ä", &"ä".repeat(40)] {
            assert_eq!(key(package, "team"), None, "{package:?}");
        }
        // Labels may have what names of objects may not.
        assert_eq!(key("Etcd_1", "team").as_deref(), Some("operators.coreos.com/Etcd_1.team"));
        assert_eq!(name_of("operators.coreos.com/Etcd_1.team"), None);
        assert_eq!(name_of("operators.coreos.com/etcd.team"), Some("etcd.team"));
        assert_eq!(name_of("example.com/etcd.team"), None);
    }

    #[test]
    fn keys_are_found_among_labels_and_among_what_differs() {
        let labels = ["olm.managed", "operators.coreos.com/etcd.team"].map(|key| (key.to_owned(), String::new()));
        assert_eq!(keys(Some(&labels.into())).into_iter().collect::<Vec<_>>(), ["operators.coreos.com/etcd.team"]);
        assert!(keys(None).is_empty());
        assert!(is_label("metadata.labels[operators.coreos.com/etcd.team]"));
        for other in ["metadata.labels[olm.owner]", "metadata.annotations[operators.coreos.com/etcd.team]", "spec"] {
            assert!(!is_label(other), "{other}");
        }
    }
}
