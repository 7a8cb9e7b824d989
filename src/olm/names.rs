//! Names that catalogs and bundles share: schemas of blobs, types of properties, and what may be the name of something.

use sha2::{Digest, Sha256};

/// The longest label of a host name (RFC 1123), and the longest value of a label of an object.
const MAX_LABEL: usize = 63;
/// Characters of the hash at the end of what is cut.
const HASH: usize = 10;
/// The longest name of an object.
pub(crate) const MAX_NAME: usize = 253;
/// The longest release of a bundle.
pub(crate) const MAX_RELEASE: usize = 20;

/// Schemas of blobs that have a meaning here.
pub(crate) mod schema {
    pub(crate) const PACKAGE: &str = "olm.package";
    pub(crate) const CHANNEL: &str = "olm.channel";
    pub(crate) const BUNDLE: &str = "olm.bundle";
    pub(crate) const DEPRECATIONS: &str = "olm.deprecations";
}

/// Types of properties that have a meaning here.
pub(crate) mod property {
    /// Package, version and release of a bundle.
    pub(crate) const PACKAGE: &str = "olm.package";
    /// A package that a bundle requires.
    pub(crate) const PACKAGE_REQUIRED: &str = "olm.package.required";
    /// An API that a bundle provides, and one that it requires.
    pub(crate) const GVK: &str = "olm.gvk";
    pub(crate) const GVK_REQUIRED: &str = "olm.gvk.required";
    pub(crate) const LABEL: &str = "olm.label";
    pub(crate) const LABEL_REQUIRED: &str = "olm.label.required";
    /// On a bundle that must not be installed any more.
    pub(crate) const DEPRECATED: &str = "olm.deprecated";
    pub(crate) const CONSTRAINT: &str = "olm.constraint";
    /// Whether several operators may meet a constraint of the bundle together.
    pub(crate) const CONSTRAINT_SCOPE: &str = "olm.constraint.scope";
    /// What a ClusterServiceVersion says for people.
    pub(crate) const METADATA: &str = "olm.csv.metadata";
    /// A manifest of a bundle.
    pub(crate) const OBJECT: &str = "olm.bundle.object";
    /// The last version of the cluster that a bundle can run on.
    pub(crate) const MAX_CLUSTER_VERSION: &str = "olm.maxOpenShiftVersion";
}

/// Whether a text is a label as in host names (RFC 1123), which the name of a package is.
pub(crate) fn is_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_label_of_any_length(text)
}

/// Whether a text can be the value of a label of an object.
pub(crate) fn is_label_value(text: &str) -> bool {
    let (outer, inner) = (|byte: u8| byte.is_ascii_alphanumeric(), |byte: u8| b"-_.".contains(&byte));
    let ends = text.bytes().next().is_some_and(outer) && text.bytes().next_back().is_some_and(outer);
    text.len() <= MAX_LABEL && ends && text.bytes().all(|byte| outer(byte) || inner(byte))
}

/// Whether a text can be the name of an object: labels with dots between them.
pub(crate) fn is_object_name(text: &str) -> bool {
    text.len() <= MAX_NAME && text.split('.').all(is_label_of_any_length)
}

fn is_label_of_any_length(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(inner) && !text.starts_with('-') && !text.ends_with('-')
}

/// A name as the value of a label, which may be shorter than a name: a longer one is cut, and ends with a hash of the whole.
pub(crate) fn label_value(name: &str) -> String {
    if name.len() <= MAX_LABEL {
        return name.to_owned();
    }
    let hash: String = hex::encode(Sha256::digest(name)).chars().take(HASH).collect();
    let begin = name.get(..name.floor_char_boundary(MAX_LABEL - HASH - 1)).unwrap_or_default();
    format!("{}-{hash}", begin.trim_end_matches(['.', '-', '_']))
}

/// Whether a text can tell rebuilds of one version apart: identifiers as in a pre-release.
pub(crate) fn is_release(text: &str) -> bool {
    text.len() <= MAX_RELEASE && semver::Prerelease::new(text).is_ok_and(|release| !release.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_small_letters_digits_and_hyphens() {
        let (longest, longer) = ("a".repeat(MAX_LABEL), "a".repeat(MAX_LABEL + 1));
        assert!(["a", "0", "a-1", &longest].into_iter().all(is_label));
        for text in ["", "A", "a.b", "a_b", "-a", "a-", "ä", &longer] {
            assert!(!is_label(text), "{text:?}");
        }
    }

    #[test]
    fn values_of_labels_have_letters_of_both_cases_and_signs_inside() {
        assert!(["a", "A", "0", "A.b_c-d", &"A".repeat(MAX_LABEL)].into_iter().all(is_label_value));
        for text in ["", "-a", "a_", ".", "a b", "a/b", "ä", &"a".repeat(MAX_LABEL + 1)] {
            assert!(!is_label_value(text), "{text:?}");
        }
    }

    #[test]
    fn names_of_objects_are_labels_with_dots_between_them() {
        assert!(["a", "a.v1.0.0", &"a".repeat(MAX_NAME)].into_iter().all(is_object_name));
        for text in ["", "a..b", ".a", "a.", "A.b", "a.-b", &"a".repeat(MAX_NAME + 1)] {
            assert!(!is_object_name(text), "{text:?}");
        }
    }

    #[test]
    fn name_that_is_too_long_for_a_label_is_cut_and_stays_one_of_a_kind() {
        let (fits, long) = (format!("{}.v1", "a".repeat(60)), format!("{}.v1.2.3", "a".repeat(60)));
        assert_eq!(label_value(&fits), fits);
        let cut = label_value(&long);
        assert_eq!(cut, format!("{}-{}", "a".repeat(52), &hex::encode(Sha256::digest(&long))[..HASH]));
        assert!(cut.len() == MAX_LABEL && cut != label_value(&format!("{long}4")));
        // What is left ends with a letter or a digit, as values have to.
        let dots = format!("{}...{}", "a".repeat(50), "b".repeat(60));
        assert!(label_value(&dots).starts_with(&format!("{}-", "a".repeat(50))), "{}", label_value(&dots));
    }

    #[test]
    fn releases_are_identifiers_of_a_pre_release() {
        assert!(["1", "2.b", "rc-1", &"1".repeat(MAX_RELEASE)].into_iter().all(is_release));
        for text in ["", "02", "a..b", "a b", "a_b", &"1".repeat(MAX_RELEASE + 1)] {
            assert!(!is_release(text), "{text:?}");
        }
    }
}
