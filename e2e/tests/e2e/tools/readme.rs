//! README and the pages of the documentation, followed on clusters: their blocks of commands are run in one shell, as they stand there.

use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use e2e::docs;
use e2e::harness::{Cvo, machine, programs};
use e2e::platform::{Platform, images, nodes};
use e2e::workspace;
use tokio::process::Command;

/// Followed one after the other on the cluster of the README.
const PLATFORM: [&str; 7] = [
    "README.md",
    ".github/docs/releases.md",
    ".github/docs/updates.md",
    ".github/docs/offline.md",
    ".github/docs/rights.md",
    ".github/docs/monitoring.md",
    ".github/docs/install.md",
];
/// Followed on a cluster of its own.
const NODES: &str = ".github/docs/nodes.md";

#[test]
fn every_page_with_commands_is_followed() {
    let mut with_commands = BTreeSet::new();
    for (page, text) in docs::pages().unwrap() {
        if docs::is_documentation(&page) {
            let commands = docs::commands(&text).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
            with_commands.extend((!commands.is_empty()).then_some(page));
        }
    }
    let followed: BTreeSet<PathBuf> = PLATFORM.into_iter().chain([NODES]).map(PathBuf::from).collect();
    assert_eq!(with_commands, followed);
}

/// The commands of pages, each block with its place.
fn script(pages: &[&str]) -> String {
    let mut script = String::new();
    for page in pages {
        let text = std::fs::read_to_string(workspace::root().join(page)).unwrap();
        for block in docs::commands(&text).unwrap() {
            script.push_str(&format!("printf '\\n=== %s:%s\\n' '{page}' {}\n{}\n", block.line, block.text));
        }
    }
    script
}

/// What whoever follows the pages puts in the place of examples, and what a terminal would ask for.
fn adapted(script: String, changes: &[(&str, String)]) -> String {
    changes.iter().fold(script, |script, (from, to)| {
        assert!(script.contains(from), "{from:?} is not in the pages any more");
        script.replace(from, to)
    })
}

/// A checkout of its own: the commands write into the folder that they run in.
fn checkout(platform: &Platform, name: &str, links: &[&str]) -> PathBuf {
    let home = platform.cluster.dir().join(name);
    std::fs::create_dir_all(home.join("bin")).unwrap();
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
async fn follow(platform: &Platform, home: &Path, script: &str) -> (ExitStatus, String) {
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", script]).current_dir(home).kill_on_drop(true);
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
    // The path of the socket of gpg's agent has to be short.
    let name = home.file_name().unwrap_or_default().display();
    let keys = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
    std::fs::create_dir_all(&keys).unwrap();
    // It would have cargo compile everything anew.
    shell.env_remove("RUSTC_BOOTSTRAP");
    shell.env("PATH", path).env("KUBECONFIG", platform.cluster.kubeconfig()).env("GNUPGHOME", &keys);
    let output = shell.env("PROFILE", "dev").output().await.unwrap();
    let said = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    let _removed = std::fs::remove_dir_all(&keys);
    (output.status, said)
}

/// Any image that keeps running.
async fn hello(registry: &str) -> String {
    let build = ["image-build", "--uncompressed", "--binary-path", "/usr/bin/lab", "--entrypoint", "/usr/bin/lab"];
    let build = Cvo::new(build).args(["--entrypoint", "pause", "--to-image", &format!("{registry}/example/hello:1")]);
    let built = build.flag("--binary", programs::lab().unwrap()).output().await.unwrap();
    format!("{registry}/example/hello@{}", images::digest(&built).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn readme_and_pages_can_be_followed_from_the_first_command_to_the_last() {
    if !machine::is_root() {
        println!("skipped: a node needs root");
        return;
    }
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let registry = platform.cluster.registry();
    let home = checkout(
        &platform,
        "readme",
        &["hack", "src", "manifests", "e2e", "keys", ".cargo", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"],
    );
    // The README names the default place; the one of this build may be elsewhere.
    let programs = programs::cvo().unwrap();
    symlink(programs.ancestors().nth(3).unwrap(), home.join("target")).unwrap();
    // What is written there is served, as the pages say of both.
    std::fs::create_dir_all(platform.store()).unwrap();
    symlink(platform.store(), home.join("signatures")).unwrap();
    let graph = platform.store().with_file_name("graph");
    let changes = [
        ("registry.example.com/me", format!("{registry}/me")),
        ("docker.io/library/nginx@sha256:...", hello(&registry).await),
        ("/release:$PATH", "/debug:$PATH".to_owned()),
        ("gpg --quick-generate-key", "gpg --batch --passphrase '' --quick-generate-key".to_owned()),
        ("https://signatures.example.com/releases", platform.store_url()),
        ("https://updates.example.com/graph", platform.graph_url()),
        ("cat > graph <<END", format!("cat > {} <<END", graph.display())),
        ("registry.site.example", registry.clone()),
        ("/usr/local/bin/kubectl-cvo", home.join("bin/kubectl-cvo").display().to_string()),
    ];
    let mut script = adapted(script(&PLATFORM), &changes);
    script.push_str("kubectl -n hello rollout status deployment/hello --timeout=60s\n");
    let (status, said) = follow(&platform, &home, &script).await;
    assert!(status.success(), "{status}");
    for words in [
        "Nothing needs attention",
        "kubectl cvo --help lists all commands",
        "deployment \"hello\" successfully rolled out",
    ] {
        assert!(said.contains(words), "{words}");
    }
    // As `cvo history` tells it; `cvo plan` says of both what they will be.
    for version in ["1.0.0", "1.0.1", "1.0.2"] {
        let row = |line: &str| line.starts_with(&format!("{version} ")) && line.contains("Completed");
        assert!(said.lines().any(row), "{version} is not in the history");
    }
    platform.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn page_of_nodes_can_be_followed_from_the_first_command_to_the_last() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let home = checkout(&platform, "nodes", &[]);
    symlink(programs::cvo().unwrap(), home.join("bin/cvo")).unwrap();
    std::fs::create_dir_all(home.join("manifests")).unwrap();
    symlink(workspace::root().join("manifests/cluster-version"), home.join("manifests/cluster-version")).unwrap();
    platform.lay_out_nodes(&home.join("manifests")).unwrap();
    let changes = [
        ("registry.example.com/me/cvo@sha256:...", platform.cvo_image().to_owned()),
        ("NODE=...", format!("NODE={}", platform.cluster.node_name())),
    ];
    let (status, said) = follow(&platform, &home, &adapted(script(&[NODES]), &changes)).await;
    assert!(status.success(), "{status}");
    for words in ["file /etc/motd", "machineconfigpool.machineconfiguration.openshift.io/canary condition met"] {
        assert!(said.contains(words), "{words}");
    }
    assert!(nodes::read(&platform.cluster, "etc/motd").is_err(), "what was written was taken back");
    platform.close().await.unwrap();
}
