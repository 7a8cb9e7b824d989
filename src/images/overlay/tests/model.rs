//! The same by a plain model: layers are applied one after the other to a tree in memory, and then read like a file system.

use super::*;
use proptest::prelude::*;

#[derive(Clone, Debug, PartialEq)]
enum Node {
    File(String),
    Directory,
    Link(String),
}

type Tree = BTreeMap<String, Node>;

fn remove(tree: &mut Tree, path: &str, itself: bool) {
    let below = format!("{path}/");
    tree.retain(|other, _| !(other.starts_with(&below) || path.is_empty() || itself && other == path));
}

fn make_folders(tree: &mut Tree, path: &str) {
    for above in ancestors(path).filter(|above| !above.is_empty() && *above != path) {
        if tree.get(above) != Some(&Node::Directory) {
            tree.insert(above.to_owned(), Node::Directory);
        }
    }
}

fn put(tree: &mut Tree, path: &str, node: Node) {
    make_folders(tree, path);
    let merges = node == Node::Directory && tree.get(path) == Some(&Node::Directory);
    if !merges {
        remove(tree, path, true);
        tree.insert(path.to_owned(), node);
    }
}

/// Applies a layer, and returns it without the entries that no tool would write there.
fn apply(tree: &mut Tree, layer: &[String]) -> Vec<String> {
    let is_whiteout = |entry: &&String| entry.contains(".wh.");
    // Whether a path of this layer is a directory.
    let mut own: BTreeMap<String, bool> = BTreeMap::new();
    let mut targets: Vec<String> = Vec::new();
    let mut taken: Vec<String> = Vec::new();
    for entry in layer.iter().filter(is_whiteout) {
        let path = path_of(entry).unwrap();
        let (folder, base) = path.rsplit_once('/').unwrap_or(("", &path));
        match base.strip_prefix(".wh.").unwrap() {
            ".wh..opq" => remove(tree, folder, false),
            name => remove(tree, &join(folder, name), true),
        }
        own.extend(ancestors(folder).map(|above| (above.to_owned(), true)));
        taken.push(entry.clone());
    }
    // That something is deleted in a folder says that there is one.
    taken.iter().for_each(|entry| make_folders(tree, entry));
    for entry in layer.iter().filter(|entry| !is_whiteout(entry)) {
        let (name, kind, content) = kind(entry);
        let path = path_of(name).unwrap();
        let is_directory = matches!(kind, Kind::Directory);
        let (folder, _) = path.rsplit_once('/').unwrap_or(("", &path));
        let is_below_a_file = ancestors(folder).any(|above| own.get(above) == Some(&false));
        // What a file replaces in its own layer, and what becomes of a hard link to that, depends on how the layer is unpacked.
        let is_in_place_of = |target: &String| {
            ancestors(&path).any(|above| above == target)
                || ancestors(target).any(|above| above == path) && !is_directory
        };
        let replaces = own.get(&path) == Some(&false) && is_directory || targets.iter().any(is_in_place_of);
        let node = match kind {
            Kind::Directory => Some(Node::Directory),
            Kind::Link(target) => Some(Node::Link(target.to_owned())),
            // A second name of a link is no way for other paths.
            Kind::HardLink(target) => tree.get(target).filter(|it| matches!(it, Node::File(_))).cloned(),
            Kind::File(_) | Kind::Other(_) => Some(Node::File(content.to_owned())),
        };
        let names_itself = matches!(kind, Kind::HardLink(target) if is_in_place_of(&target.to_owned()));
        let Some(node) = node.filter(|_| !is_below_a_file && !replaces && !names_itself) else { continue };
        if let Kind::HardLink(target) = kind {
            targets.push(target.to_owned());
        }
        if !is_directory {
            own.retain(|other, _| !other.starts_with(&format!("{path}/")));
        }
        own.extend(ancestors(folder).map(|above| (above.to_owned(), true)));
        own.insert(path.clone(), is_directory);
        put(tree, &path, node);
        taken.push(entry.clone());
    }
    taken
}

/// The path without links; `None` if it leads to nothing, an error if it leads back.
fn resolve(tree: &Tree, folder: &str, target: &str) -> Result<Option<String>, ()> {
    let mut at = if target.starts_with('/') { String::new() } else { folder.to_owned() };
    let mut parts: Vec<String> = target.rsplit('/').map(str::to_owned).collect();
    let mut left = 40;
    while let Some(part) = parts.pop() {
        match part.as_str() {
            "" | "." => {}
            ".." if !at.is_empty() && tree.get(&at) != Some(&Node::Directory) => return Ok(None),
            ".." => at = at.rsplit_once('/').map(|(above, _)| above.to_owned()).unwrap_or_default(),
            part => {
                if !at.is_empty() && tree.get(&at) != Some(&Node::Directory) {
                    return Ok(None);
                }
                let next = join(&at, part);
                match tree.get(&next) {
                    None => return Ok(None),
                    Some(Node::Link(target)) => {
                        left -= 1;
                        if left < 0 {
                            return Err(());
                        }
                        if target.starts_with('/') {
                            at.clear();
                        }
                        parts.extend(target.rsplit('/').map(str::to_owned));
                    }
                    Some(_) => at = next,
                }
            }
        }
    }
    Ok(Some(at))
}

fn list(tree: &Tree, directory: &str, to: &str, depth: usize, out: &mut Vec<String>) -> Result<(), ()> {
    if depth > 12 || out.len() > 1000 {
        return Err(());
    }
    let begin = if directory.is_empty() { String::new() } else { format!("{directory}/") };
    for (path, node) in tree.iter().filter(|(path, _)| path.starts_with(&begin)) {
        let to = join(to, &path[begin.len()..]);
        match node {
            Node::File(content) => out.push(format!("{to}={content}")),
            Node::Directory => {}
            Node::Link(target) => {
                let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
                match resolve(tree, folder, target)? {
                    None => {}
                    Some(path) => match tree.get(&path) {
                        Some(Node::File(content)) => out.push(format!("{to}={content}")),
                        _ => list(tree, &path, &to, depth + 1, out)?,
                    },
                }
            }
        }
    }
    Ok(())
}

/// The files of the wanted directory, in order; an error if links lead back.
fn expected(tree: &Tree, wanted: &str) -> Result<Vec<String>, ()> {
    let mut out = Vec::new();
    match resolve(tree, "", wanted)? {
        None => {}
        Some(path) if matches!(tree.get(&path), Some(Node::File(_))) => return Err(()),
        Some(path) => list(tree, &path, wanted, 0, &mut out)?,
    }
    out.sort();
    Ok(out)
}

fn path() -> impl Strategy<Value = String> {
    proptest::collection::vec("[abc]", 1..4).prop_map(|parts| parts.join("/"))
}

fn entry() -> impl Strategy<Value = String> {
    let target = prop_oneof![
        path(),
        path().prop_map(|path| format!("/{path}")),
        path().prop_map(|path| format!("../{path}")),
        path().prop_map(|path| format!("{path}/../b")),
        Just("..".to_owned()),
    ];
    prop_oneof![
        8 => (path(), 0..9_u8).prop_map(|(path, content)| format!("{path}={content}")),
        2 => path().prop_map(|path| format!("{path}/")),
        2 => (path(), target).prop_map(|(path, target)| format!("{path} -> {target}")),
        1 => (path(), path()).prop_map(|(path, target)| format!("{path} => {target}")),
        1 => (path(), "[abc]").prop_map(|(path, name)| format!("{path}/.wh.{name}")),
        1 => "[abc]".prop_map(|name| format!(".wh.{name}")),
        1 => path().prop_map(|path| format!("{path}/.wh..wh..opq")),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]
    #[test]
    fn files_are_those_of_the_layers_applied_one_after_the_other(
        layers in proptest::collection::vec(proptest::collection::vec(entry(), 0..9), 1..5),
        wanted in prop_oneof![3 => "[abc]", 1 => path()],
    ) {
        let mut tree = Tree::new();
        let texts: Vec<String> = layers.iter().map(|layer| apply(&mut tree, layer).join(",")).collect();
        let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
        let found = read(&texts, &[&wanted], LIMITS).map(|mut read| {
            read.files.sort();
            read.files
        });
        match (found, expected(&tree, &wanted)) {
            (Ok(found), Ok(expected)) => prop_assert_eq!(found, expected),
            (Err(OverlayError::TooManyRounds | OverlayError::TooMuch { .. }), _) => {}
            (Err(OverlayError::Cycle(_) | OverlayError::NotADirectory(_)), Err(())) => {}
            (found, expected) => prop_assert!(false, "{found:?} {expected:?}"),
        }
    }
}
