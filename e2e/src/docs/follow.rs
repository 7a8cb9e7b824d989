//! Follows pages of the documentation on a cluster: their blocks of commands are run in one shell, as they stand there.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tokio::process::Command;

use super::commands;
use crate::platform::Platform;
use crate::workspace;

/// What stands before the pages that a file of tests follows; `];` ends them.
const DECLARED: &str = "const PAGES: ";

/// All pages that tests of any product follow: each says it in a constant `PAGES`.
pub fn followed() -> BTreeSet<PathBuf> {
    let (mut pages, mut folders) = (BTreeSet::new(), vec![workspace::root().join("e2e/tests/e2e")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                pages.extend(declared(&fs::read_to_string(path).unwrap()));
            }
        }
    }
    pages
}

fn declared(source: &str) -> Vec<PathBuf> {
    let after = source.lines().skip_while(|line| !line.contains(DECLARED));
    let mut lines = Vec::new();
    for line in after {
        lines.push(line);
        if line.ends_with("];") {
            break;
        }
    }
    lines.concat().split('"').skip(1).step_by(2).map(PathBuf::from).collect()
}

/// The commands of pages, each block with its place.
pub fn script(pages: &[&str]) -> String {
    let mut script = String::new();
    for page in pages {
        let text = fs::read_to_string(workspace::root().join(page)).unwrap();
        for block in commands(&text).unwrap() {
            script.push_str(&format!("printf '\\n=== %s:%s\\n' '{page}' {}\n{}\n", block.line, block.text));
        }
    }
    script
}

/// What whoever follows the pages puts in the place of examples, and what a terminal would ask for.
pub fn adapted(script: String, changes: &[(&str, String)]) -> String {
    changes.iter().fold(script, |script, (from, to)| {
        assert!(script.contains(from), "{from:?} is not in the pages any more");
        script.replace(from, to)
    })
}

/// A checkout of its own, with links to these files and folders: the commands write into the folder that they run in.
pub fn checkout(platform: &Platform, name: &str, links: &[&str]) -> PathBuf {
    let home = platform.cluster.dir().join(name);
    fs::create_dir_all(home.join("bin")).unwrap();
    symlink(platform.cluster.kubectl_program(), home.join("bin/kubectl")).unwrap();
    for name in links {
        let from = workspace::root().join(name);
        if from.exists() {
            symlink(from, home.join(name)).unwrap();
        }
    }
    home
}

/// Runs the commands in a shell that ends at the first error; what they said.
pub async fn follow(platform: &Platform, home: &Path, script: &str) -> (ExitStatus, String) {
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).current_dir(home).kill_on_drop(true);
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
    // The path of the socket of gpg's agent has to be short.
    let name = home.file_name().unwrap_or_default().display();
    let keys = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    fs::create_dir_all(&keys).unwrap();
    // It would have cargo compile everything anew.
    shell.env_remove("RUSTC_BOOTSTRAP");
    shell.env("PATH", path).env("KUBECONFIG", platform.cluster.kubeconfig()).env("GNUPGHOME", &keys);
    shell.env("KUBECACHEDIR", platform.cluster.kubectl_cache());
    let output = shell.env("PROFILE", "dev").output().await.unwrap();
    let said = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    let _removed = fs::remove_dir_all(&keys);
    (output.status, said)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::docs;

    #[test]
    fn every_page_with_commands_is_followed() {
        let mut with_commands = BTreeSet::new();
        for (page, text) in docs::pages().unwrap() {
            if docs::is_documentation(&page) {
                let commands = commands(&text).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
                with_commands.extend((!commands.is_empty()).then_some(page));
            }
        }
        assert_eq!(with_commands, followed());
    }

    #[test]
    fn pages_are_declared_on_one_line_or_on_many() {
        for source in [
            "const PAGES: [&str; 2] = [\"a.md\", \"b/c.md\"];",
            "x\nconst PAGES: [&str; 2] = [\n \"a.md\",\n \"b/c.md\",\n];\n\"d\"",
        ] {
            assert_eq!(declared(source), ["a.md", "b/c.md"].map(PathBuf::from), "{source}");
        }
        assert_eq!(declared("no pages"), Vec::<PathBuf>::new());
    }
}
