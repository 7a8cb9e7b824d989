//! The products: each has a folder of end-to-end tests, and `hack/test PRODUCT` runs what is in it. Tests of one product use nothing of
//! another one's; what several need is in this library.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::workspace;

/// The sources of the tests by their modules, without `tests` before them: `machine_config::pools`.
pub fn sources() -> std::io::Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    read(&workspace::root().join("e2e/tests/e2e"), "", &mut found)?;
    found.remove("main");
    Ok(found)
}

fn read(folder: &Path, module: &str, found: &mut BTreeMap<String, String>) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let module = if module.is_empty() { name } else { format!("{module}::{name}") };
        if path.is_dir() {
            read(&path, &module, found)?;
        } else {
            found.insert(module, fs::read_to_string(path)?);
        }
    }
    Ok(())
}

/// The product of a module.
pub fn product(module: &str) -> &str {
    module.split("::").next().unwrap_or(module)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// What breaks a rule, as `module: what it names`.
    fn faults(sources: &BTreeMap<String, String>) -> Vec<String> {
        let products: BTreeSet<&str> = sources.keys().map(|module| product(module)).collect();
        let mut faults = Vec::new();
        for (module, source) in sources {
            for other in products.iter().filter(|other| **other != product(module)) {
                // `hack/test` runs the tests whose paths have the name of the product and two colons.
                let mistaken = module.split("::").any(|part| part.ends_with(other));
                let used = source.contains(&format!("crate::{other}")) || source.contains(&format!("super::{other}::"));
                faults.extend((mistaken || used).then(|| format!("{module}: {other}")));
            }
        }
        faults
    }

    #[test]
    fn tests_of_a_product_stand_alone_and_their_paths_name_no_other_one() {
        let sources = sources().unwrap();
        assert!(sources.len() > 50, "{:?}", sources.keys());
        assert_eq!(faults(&sources), Vec::<String>::new());
    }

    #[test]
    fn other_products_are_found_in_paths_and_in_sources() {
        for (sources, expected) in [
            (vec![("release", ""), ("release::images", "use super::x;"), ("tools::page", "")], vec![]),
            (vec![("release", ""), ("tools::real_release", "")], vec!["tools::real_release: release"]),
            (vec![("release", ""), ("tools::a", "use crate::release::x;")], vec!["tools::a: release"]),
            (vec![("release", ""), ("tools::a", "use super::super::release::x;")], vec!["tools::a: release"]),
            (vec![("release", ""), ("tools::a", "use e2e::simulator::releases;")], vec![]),
        ] {
            let sources = sources.into_iter().map(|(module, source)| (module.to_owned(), source.to_owned())).collect();
            assert_eq!(faults(&sources), expected);
        }
    }
}
