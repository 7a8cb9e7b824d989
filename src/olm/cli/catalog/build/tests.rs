//! Folders to images, and images to catalogs.

use super::super::tests::catalog;
use super::super::{CatalogCommand, run};
use super::*;
use crate::net::registry::layout::Layout;
use crate::net::registry::tests::Fake;
use clap::Parser;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: CatalogCommand,
}

async fn cvo(arguments: &[&str]) -> anyhow::Result<Exit> {
    let command = Line::try_parse_from([&["catalog"], arguments].concat())?.command;
    run(&command, CancellationToken::new()).await
}

/// One without faults, and another folder that has files in another order.
fn healthy() -> TempDir {
    let dir = catalog();
    let text = fs::read_to_string(dir.path().join("all.json")).unwrap();
    let lines: Vec<&str> = text.lines().take(5).collect();
    fs::write(dir.path().join("all.json"), lines[1..].join("\n")).unwrap();
    fs::create_dir(dir.path().join("a")).unwrap();
    fs::write(dir.path().join("a/package.yaml"), lines[0]).unwrap();
    fs::write(dir.path().join(".indexignore"), "*.md\n").unwrap();
    fs::write(dir.path().join("README.md"), "{").unwrap();
    dir
}

/// The digest and the config of the only image in a folder.
async fn image_in(folder: &Path) -> (String, Value) {
    let layout = Layout::open(folder);
    let [entry] = layout.entries().await.unwrap().try_into().unwrap();
    let manifest: Value = serde_json::from_slice(&layout.document(&entry.digest).await.unwrap().0).unwrap();
    let config = manifest["config"]["digest"].as_str().unwrap().replace("sha256:", "");
    (entry.digest, serde_json::from_slice(&fs::read(folder.join("blobs/sha256").join(config)).unwrap()).unwrap())
}

#[tokio::test]
async fn same_files_give_the_same_digest_and_the_image_is_read_as_a_catalog() {
    let (one, two, out) = (healthy(), healthy(), tempfile::tempdir().unwrap());
    let path = |name: &str| out.path().join(name).to_str().unwrap().to_owned();
    for (dir, to) in [(&one, "one"), (&two, "two")] {
        let dir = dir.path().to_str().unwrap();
        assert_eq!(
            cvo(&["build", dir, "-o", &path(to), "-t", "r.io/catalog:1", "--label=a=b"]).await.unwrap(),
            Exit::Success
        );
    }
    let ((first, config), (second, _)) =
        (image_in(&out.path().join("one")).await, image_in(&out.path().join("two")).await);
    assert_eq!(first, second);
    let labels = json!({"operators.operatorframework.io.index.configs.v1": "/configs", "a": "b"});
    assert_eq!((&config["config"]["Labels"], &config["created"]), (&labels, &json!("1970-01-01T00:00:00Z")));
    assert_eq!(cvo(&["diff", one.path().to_str().unwrap(), &path("one")]).await.unwrap(), Exit::Success);
    assert_eq!(cvo(&["graph", &path("one"), "a"]).await.unwrap(), Exit::Success);
    assert_eq!(cvo(&["lint", &path("one")]).await.unwrap(), Exit::Success);
    assert_eq!(cvo(&["validate", &path("one")]).await.unwrap(), Exit::Success);
    assert_eq!(cvo(&["show", &path("one"), "a"]).await.unwrap(), Exit::Success);
    assert_eq!(cvo(&["render", &path("one")]).await.unwrap(), Exit::Success);
    assert_eq!(cvo(&["build", &path("one"), "-o", &path("three"), "--label=a=b"]).await.unwrap(), Exit::Success);
    assert_eq!(image_in(&out.path().join("three")).await.0, second, "built of an image");
}

#[tokio::test]
async fn image_that_serves_has_the_program_and_runs_it_as_nobody() {
    let (dir, out) = (healthy(), tempfile::tempdir().unwrap());
    let program = out.path().join("program");
    fs::write(&program, crate::cli::image_build::tests::elf(183, &[1, 2])).unwrap();
    let (dir, to) = (dir.path().to_str().unwrap(), out.path().join("image"));
    let binary = format!("--binary={}", program.display());
    assert_eq!(cvo(&["build", dir, "-o", to.to_str().unwrap(), "--serve", &binary]).await.unwrap(), Exit::Success);
    let (_, config) = image_in(&to).await;
    assert_eq!(config["config"]["Entrypoint"], json!(["/usr/bin/cvo", "catalog", "serve", "/configs"]));
    assert_eq!((&config["config"]["User"], &config["architecture"]), (&json!("65534"), &json!("arm64")));
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn image_on_a_base_is_pushed_beside_it_and_read_from_the_registry() {
    let (dir, registry, out) = (healthy(), Fake::start().await, tempfile::tempdir().unwrap());
    let (dir, name) = (dir.path().to_str().unwrap(), |it: &str| format!("{}/{it}", registry.address()));
    assert_eq!(cvo(&["build", dir, "-t", &name("base:1")]).await.unwrap(), Exit::Success);
    let base = format!("--base={}", name("base:1"));
    let words = ["--entrypoint=/bin/opm", "--entrypoint=serve"];
    assert_eq!(
        cvo(&[&["build", dir, "-t", &name("catalog:1"), &base], &words[..]].concat()).await.unwrap(),
        Exit::Success
    );
    assert_eq!(cvo(&["diff", dir, &name("catalog:1")]).await.unwrap(), Exit::Success);
    let to = out.path().join("image");
    assert_eq!(cvo(&["build", dir, "-o", to.to_str().unwrap(), &base, "--serve"]).await.unwrap(), Exit::Success);
    let (_, config) = image_in(&to).await;
    assert_eq!(config["config"]["Entrypoint"][0], "/usr/bin/cvo");
    assert_eq!(config["rootfs"]["diff_ids"].as_array().unwrap().len(), 2, "the layer of the base was copied");
}

#[tokio::test]
async fn catalog_with_faults_is_not_built_unless_asked_for() {
    let (dir, out) = (catalog(), tempfile::tempdir().unwrap());
    let (dir, to) = (dir.path().to_str().unwrap(), out.path().join("image"));
    assert_eq!(cvo(&["build", dir, "-o", to.to_str().unwrap()]).await.unwrap(), Exit::Found);
    assert!(!to.exists());
    assert_eq!(cvo(&["build", dir, "--dry-run", "--with-faults"]).await.unwrap(), Exit::Success);
    for (arguments, expected) in [
        (&["build", dir][..], "<--tag <REPOSITORY:TAG>|--to-dir <FOLDER>|--dry-run>"),
        (&["build", dir, "--created=2026-01-01T00:00:00Z"], "--dry-run>"),
        (
            &["build", dir, "-t", "r.io/a@sha256:1111111111111111111111111111111111111111111111111111111111111111"],
            "must not have a digest",
        ),
        (&["build", dir, "--dry-run", "--binary", "x"], "--serve"),
        (&["build", dir, "--dry-run", "--with-faults", "--label", "x"], "--label x has no \"=\""),
    ] {
        let error = cvo(arguments).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
