//! What is wrong with a catalog: where, and what to do about it.

use super::fields::FieldError;
use crate::object::yaml::YamlError;
use crate::olm::names::is_label_value;

/// Names that a message lists.
const MAX_NAMES: usize = 5;
/// Characters of a name in a message.
const MAX_NAME: usize = 253;

/// By which rules packages are judged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rules {
    /// Those of file-based catalogs.
    #[default]
    Files,
    /// Those of catalogs that nobody has checked as files before they were offered, in ConfigMaps and at other servers: what is only
    /// untidy is noted, and its package is served.
    Tolerant,
}

impl Rules {
    /// Whether a package is served all the same.
    pub(super) fn tolerate(self, reason: &Reason) -> bool {
        self == Rules::Tolerant
            && match reason {
                Reason::PackageName(name) => is_label_value(name),
                // The first one by name takes the place of a default channel that does not exist.
                Reason::SameVersion { .. } | Reason::DefaultChannel(_) | Reason::NoDefaultChannel => true,
                _ => false,
            }
    }
}

/// One fault. It keeps its package from being served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Path in the catalog, with `/` between its parts.
    pub file: String,
    /// Where the blob begins, or where in it the fault is, if that is known; from 1. 0 for a file as a whole.
    pub line: usize,
    /// Schema and name of the blob, such as `olm.bundle a.v1.0.0`. Empty if it is not known.
    pub blob: String,
    /// The beginning of its name, if that is longer than names are. Empty if it is not known: then all packages with blobs in that file are not served.
    pub package: String,
    pub reason: Reason,
}

/// Why something cannot be served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    // Files and streams.
    #[error("it cannot be read: {0}")]
    Unreadable(String),
    #[error("it is a link that leads out of the catalog, and such links are not followed; put the file in its place")]
    LinkOut,
    #[error("it is a link to a folder, and such links are not followed; put the folder in its place")]
    LinkToFolder,
    #[error("it is neither a file nor a folder; remove it, or name it in .indexignore")]
    Special,
    #[error("its patterns cannot be read: {0}")]
    Patterns(String),
    #[error(
        "with it the patterns of the catalog have more than {limit} bytes, so the catalog is not read; write fewer and broader ones"
    )]
    ManyPatterns { limit: usize },
    #[error(
        "the document that begins here is longer than {limit} bytes, so it is not read; is a brace or a separator --- missing?"
    )]
    TooLarge { limit: usize },
    #[error("{cause}")]
    Yaml { cause: YamlError },
    #[error("neither JSON ({json}) nor YAML ({yaml})")]
    Neither { json: String, yaml: Box<YamlError> },
    #[error("a blob must be an object with the key schema, not {found}")]
    NotAnObject { found: &'static str },
    #[error("nested deeper than {limit} levels")]
    TooDeep { limit: usize },
    #[error("not all of the file could be read, see its line {line}, so what it says of this package is not known")]
    FileNotRead { line: usize },
    // Blobs.
    #[error("the key schema is missing; write one, such as olm.bundle")]
    NoSchema,
    #[error("the keys {one:?} and {other:?} are two spellings of one; keep one of them")]
    Spellings { one: String, other: String },
    #[error("{0}")]
    Field(#[from] FieldError),
    #[error("it has no name")]
    NoName,
    #[error("it names no package")]
    NoPackage,
    #[error(
        "{0:?} is not the name of a package: lower-case letters, digits and -, at most 63, the first and the last no -"
    )]
    PackageName(String),
    #[error("properties[{index}] has no value")]
    PropertyWithoutValue { index: usize },
    #[error("properties[{index}] is nested below the key property; write its type and value directly")]
    NestedProperty { index: usize },
    #[error("properties[{index}] of type {kind}: {cause}")]
    Property { index: usize, kind: String, cause: String },
    #[error("icon: {cause}")]
    Icon { cause: String },
    // Bundles.
    #[error("it has {count} properties of type olm.package; there must be one, with packageName and version")]
    PackageProperties { count: usize },
    #[error("its property olm.package names the package {named:?}, but it belongs to {package:?}")]
    OtherPackage { named: String, package: String },
    #[error("its version {version:?} is not MAJOR.MINOR.PATCH (without a leading v): {cause}")]
    Version { version: String, cause: String },
    #[error(
        "its release {release:?} is not made of parts of letters, digits and - with . between them, without leading zeros, of 20 characters at most"
    )]
    Release { release: String },
    #[error("it has a release, so its name must be {expected}")]
    ReleaseName { expected: String },
    #[error("it has a release, so its version {version:?} must have no build metadata (+...)")]
    ReleaseBuild { version: String },
    #[error("it has neither an image nor a property olm.bundle.object")]
    NoContent,
    #[error("its image {image:?} is not a pull spec")]
    Image { image: String },
    #[error("relatedImages[{index}]: its image {image:?} is not a pull spec")]
    RelatedImage { index: usize, image: String },
    // Channels.
    #[error("it has no entries")]
    NoEntries,
    #[error("entries[{index}] has no name")]
    EntryWithoutName { index: usize },
    #[error("it has two entries {entry}; keep one of them")]
    TwoEntries { entry: String },
    #[error("entry {entry}: skips[{index}] is empty; remove it")]
    EmptySkip { entry: String, index: usize },
    #[error("entry {entry}: its skipRange {range:?} is no range of versions: {cause}")]
    SkipRange { entry: String, range: String, cause: String },
    #[error("it has no head: each of its entries is replaced or skipped by another one")]
    NoHead,
    #[error("it has {count} heads: {names}. One entry must replace or skip the others")]
    Heads { count: usize, names: String },
    #[error("its entries replace each other in a circle: {names}")]
    Cycle { names: String },
    #[error(
        "its head {head} is not reached from {names}: no entry that is not skipped itself replaces them, and none skips them"
    )]
    Stranded { head: String, names: String },
    // Deprecations.
    #[error("entries[{index}]: {cause}")]
    Deprecation { index: usize, cause: String },
    #[error("entries[{index}]: {target} is deprecated twice; keep one of them")]
    DeprecatedTwice { index: usize, target: String },
    #[error("it deprecates {target}, which does not exist in this package")]
    DeprecatedTarget { target: String },
    // Packages.
    #[error("there is another one of this name for this package, in line {line} of {file}; keep one of them")]
    Twice { file: String, line: usize },
    #[error("there is no olm.package {0}; add one, or correct the name")]
    UnknownPackage(String),
    #[error("it has no channels")]
    NoChannels,
    #[error("its defaultChannel is not set")]
    NoDefaultChannel,
    #[error("its defaultChannel {0:?} does not exist")]
    DefaultChannel(String),
    #[error("its entry {entry} has no olm.bundle")]
    EntryWithoutBundle { entry: String },
    #[error("it is in no channel")]
    InNoChannel,
    #[error("it has the same version {version} as {other}")]
    SameVersion { version: String, other: String },
}

/// The first few names, and how many others there are.
pub(crate) fn names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut text = names.by_ref().take(MAX_NAMES).map(short).collect::<Vec<_>>().join(", ");
    let others = names.count();
    if others > 0 {
        text.push_str(&format!(" and {others} more"));
    }
    text
}

/// A name that is no longer than names are.
pub(super) fn short(name: &str) -> String {
    match name.char_indices().nth(MAX_NAME) {
        Some((end, _)) => format!("{}...", name.get(..end).unwrap_or_default()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_labels_may_have_equal_versions_and_a_missing_default_are_tolerated() {
        let name = |name: &str| Reason::PackageName(name.to_owned());
        let version = || Reason::SameVersion { version: "1.0.0".to_owned(), other: "a".to_owned() };
        for (reason, expected) in [
            (name("PkgMain"), true),
            (name("pkg_main.old"), true),
            (name("pkg main"), false),
            (name("../etc"), false),
            (name("-pkg"), false),
            (name(&"a".repeat(64)), false),
            (version(), true),
            (Reason::DefaultChannel("none".to_owned()), true),
            (Reason::NoDefaultChannel, true),
            (Reason::NoChannels, false),
            (Reason::NoHead, false),
            (Reason::InNoChannel, false),
        ] {
            assert_eq!(Rules::Tolerant.tolerate(&reason), expected, "{reason}");
            assert!(!Rules::Files.tolerate(&reason), "{reason}");
        }
    }

    #[test]
    fn messages_stay_short() {
        assert_eq!(names(["a", "b"]), "a, b");
        assert_eq!(names(["a"; 8]), "a, a, a, a, a and 3 more");
        assert_eq!(short(&"ä".repeat(300)).chars().count(), 256);
        assert_eq!(short("ä"), "ä");
    }
}
