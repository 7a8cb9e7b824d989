//! What is below a folder, for tests that compare a node before and after.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Mode and content of every file, link and folder, by its path.
pub(crate) type Tree = BTreeMap<String, (u32, Vec<u8>)>;

/// All below the folder, except for paths that are left out, with what is below those.
pub(crate) fn tree(root: &Path, left_out: impl Fn(&str) -> bool) -> Tree {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.strip_prefix(root).unwrap().display().to_string();
            if left_out(&name) {
                continue;
            }
            let meta = fs::symlink_metadata(&path).unwrap();
            let content = match () {
                () if meta.is_symlink() => fs::read_link(&path).unwrap().display().to_string().into_bytes(),
                () if meta.is_dir() => Vec::new(),
                () => fs::read(&path).unwrap(),
            };
            if meta.is_dir() {
                folders.push(path);
            }
            found.insert(name, (meta.permissions().mode(), content));
        }
    }
    found
}
