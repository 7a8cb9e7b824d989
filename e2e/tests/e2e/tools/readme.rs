//! README and the pages of the documentation, followed on a cluster.

use std::os::unix::fs::symlink;

use e2e::docs::follow::{adapted, checkout, follow, script};
use e2e::harness::{Cvo, machine, programs};
use e2e::platform::{Platform, images};

/// Followed one after the other on one cluster.
const PAGES: [&str; 7] = [
    "README.md",
    ".github/docs/releases.md",
    ".github/docs/updates.md",
    ".github/docs/offline.md",
    ".github/docs/rights.md",
    ".github/docs/monitoring.md",
    ".github/docs/install.md",
];

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
    let mut script = adapted(script(&PAGES), &changes);
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
