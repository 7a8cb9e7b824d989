//! The README, followed on a cluster from the installation to the end: its code blocks are run in one shell, as they stand there.

use e2e::harness::{machine, process, programs};
use e2e::platform::Platform;
use e2e::workspace;
use tokio::process::Command;

/// The text of the shell blocks below a heading, up to the next heading.
fn blocks(readme: &str, heading: &str) -> String {
    let after =
        readme.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("{heading} is not in the README")).1;
    let section = after.split("\n#").next().unwrap();
    let blocks: Vec<&str> = section.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(!blocks.is_empty(), "{heading} has no commands");
    blocks.join("\n")
}

/// What whoever follows the README puts in the place of examples, and what a terminal would ask for.
fn adapted(text: &str, registry: &str, hello: &str) -> String {
    let mut text = text.to_owned();
    for (from, to) in [
        ("registry.example.com/me", format!("{registry}/me")),
        ("docker.io/library/nginx@sha256:...", hello.to_owned()),
        ("/release:$PATH", "/debug:$PATH".to_owned()),
        ("gpg --quick-generate-key", "gpg --batch --passphrase '' --quick-generate-key".to_owned()),
    ] {
        assert!(text.contains(from), "{from:?} is not in the README any more");
        text = text.replace(from, &to);
    }
    text
}

/// The commands of the README, with their headings.
fn script() -> String {
    let readme = std::fs::read_to_string(workspace::root().join("README.md")).unwrap();
    let mut script = String::new();
    for heading in [
        "### 1. Build the image and the tool",
        "### 2. Create a signing key, and make releases trust it",
        "### 3. Write a first release",
        "### 4. Install it",
        "## Preview an update",
        "## Update",
        "### After an update",
        "### Uninstall and keep the platform",
    ] {
        script.push_str(&format!("printf '\\n=== %s\\n' '{heading}'\n{}\n", blocks(&readme, heading)));
        if heading.ends_with("Uninstall and keep the platform") {
            script.push_str("kubectl -n hello rollout status deployment/hello --timeout=60s\n");
        }
    }
    script
}

/// A checkout of its own: the commands write into the folder that they run in.
fn checkout(platform: &Platform) -> std::path::PathBuf {
    let home = platform.cluster.dir().join("readme");
    std::fs::create_dir_all(home.join("bin")).unwrap();
    std::os::unix::fs::symlink(platform.cluster.kubectl_program(), home.join("bin/kubectl")).unwrap();
    for name in ["hack", "src", "manifests", "e2e", "keys", ".cargo", "Cargo.toml", "Cargo.lock", "rust-toolchain.toml"]
    {
        let from = workspace::root().join(name);
        if from.exists() {
            std::os::unix::fs::symlink(from, home.join(name)).unwrap();
        }
    }
    // The README names the default place; the one of this build may be elsewhere.
    let programs = programs::cvo().unwrap();
    let target = programs.ancestors().nth(3).unwrap();
    std::os::unix::fs::symlink(target, home.join("target")).unwrap();
    home
}

#[tokio::test(flavor = "multi_thread")]
async fn readme_can_be_followed_from_the_first_command_to_the_last() {
    if !machine::is_root() {
        println!("skipped: a node needs root");
        return;
    }
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let cluster = &platform.cluster;
    let registry = cluster.registry();
    // Any image that keeps running.
    let mut build = Command::new(programs::cvo().unwrap());
    build.args(["image-build", "--uncompressed", "--binary-path", "/usr/bin/lab", "--entrypoint", "/usr/bin/lab"]);
    build.args(["--entrypoint", "pause", "--to-image", &format!("{registry}/example/hello:1"), "--binary"]);
    build.arg(programs::lab().unwrap());
    let built = process::output("cvo image-build", build).await.unwrap();
    let hello = format!("{registry}/example/hello@{}", built.split_whitespace().next().unwrap());

    let script = script();
    let script = adapted(&script, &registry, &hello);
    let home = checkout(&platform);
    let mut shell = Command::new("bash");
    shell.args(["-euo", "pipefail", "-c", &script]).current_dir(&home).kill_on_drop(true);
    let path = format!("{}:{}", home.join("bin").display(), std::env::var("PATH").unwrap());
    // The path of the socket of gpg's agent has to be short.
    let keys = std::env::temp_dir().join(format!("readme-{}", std::process::id()));
    std::fs::create_dir_all(&keys).unwrap();
    shell.env("PATH", path).env("KUBECONFIG", cluster.kubeconfig()).env("GNUPGHOME", &keys).env("PROFILE", "dev");
    let output = shell.output().await.unwrap();
    let said = format!("{}\n{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    println!("{said}");
    let _removed = std::fs::remove_dir_all(&keys);
    assert!(output.status.success(), "{}", output.status);
    for words in ["Completed", "Update 1.0.0 → 1.0.1", "deployment \"hello\" successfully rolled out"] {
        assert!(said.contains(words), "{words}");
    }
    platform.cluster.down().await.unwrap();
}
