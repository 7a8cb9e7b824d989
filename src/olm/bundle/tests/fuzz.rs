//! No bytes panic, whatever they are.

use super::*;
use crate::olm::bundle::validate::validate;
use crate::olm::bundle::{config_map, unpackaged};
use proptest::prelude::*;

/// All that is done with files of a bundle.
fn all(files: &[SourceFile], labels: &BTreeMap<String, String>) {
    if let Ok(contents) = read::read(files, labels) {
        validate(&contents);
        if let Ok(bundle) = contents.bundle() {
            let _refused = render::blob(&bundle, "a", render::Form::Metadata);
            let _refused = render::blob(&bundle, "a", render::Form::Objects);
        }
    }
    if let Ok(read) = unpackaged::read_folder(files) {
        let _refused = unpackaged::blobs(read, 16 << 20);
    }
}

/// A file of the example with some bytes of it replaced by others.
fn changed() -> impl Strategy<Value = Vec<SourceFile>> {
    let splice = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..20_usize, ".{0,12}");
    prop::collection::vec(splice, 1..4).prop_map(|splices| {
        let mut files = example();
        for (file, at, removed, added) in splices {
            let bytes = &mut file.get_mut(&mut files).bytes;
            let at = at.index(bytes.len() + 1);
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, added.into_bytes());
        }
        files
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn changed_bundle_does_not_panic(files in changed()) {
        all(&files, &BTreeMap::new());
    }

    #[test]
    fn any_bytes_do_not_panic(
        paths in prop::collection::vec("(\\./|/)?(manifests|metadata|a)?/{0,2}(annotations|properties|b)?\\.?(yaml|json|)", 1..4),
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        label in ".{0,12}",
    ) {
        let files: Vec<SourceFile> = paths.into_iter().map(|path| SourceFile { path, bytes: bytes.clone() }).collect();
        all(&files, &BTreeMap::from([(format!("{}manifests.v1", annotations::PREFIX), label)]));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let keys = ["clusterServiceVersions", "customResourceDefinitions", "packages"];
        let _refused = config_map::read(&keys.map(|key| (key.to_owned(), text.clone())).into());
    }
}
