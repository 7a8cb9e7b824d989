//! Retrievals that fail on a real node: what the node says of it stands in `ReleaseAccepted`, and the next one succeeds.

use std::path::Path;

use anyhow::Context;
use axum::http::StatusCode;
use e2e::conditions::Conditions;
use e2e::platform::releases::{Contents, SAMPLES};
use e2e::platform::{LIMIT, Platform, Release};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::platform::refused;

fn sha256(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

/// Pushes an image with these files, and returns its pull spec.
async fn push(registry: &str, name: &str, architecture: &str, files: &[&str]) -> anyhow::Result<String> {
    let mut layer = tar::Builder::new(Vec::new());
    for file in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(2);
        header.set_mode(0o644);
        layer.append_data(&mut header, file, b"{}".as_slice())?;
    }
    let layer = layer.into_inner()?;
    let config = json!({"architecture": architecture, "os": "linux", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [sha256(&layer)]}});
    let config = config.to_string().into_bytes();
    let descriptor = |bytes: &[u8], kind: &str| {
        let media_type = format!("application/vnd.oci.image.{kind}");
        json!({"mediaType": media_type, "size": bytes.len(), "digest": sha256(bytes)})
    };
    let manifest = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": descriptor(&config, "config.v1+json"), "layers": [descriptor(&layer, "layer.v1.tar")],
    });
    let (client, base) = (reqwest::Client::builder().no_proxy().build()?, format!("http://{registry}/v2/bad/{name}"));
    for blob in [layer, config] {
        let begun = client.post(format!("{base}/blobs/uploads/")).send().await?.error_for_status()?;
        let at = begun.headers().get("location").context("nowhere to upload to")?.to_str()?.to_owned();
        let separator = if at.contains('?') { '&' } else { '?' };
        let put = client.put(format!("{at}{separator}digest={}", sha256(&blob))).body(blob);
        put.send().await?.error_for_status()?;
    }
    let of_image = put_manifest(&client, &base, &manifest).await?;
    // An index too, because a runtime takes an image that it is pointed at for that of its platform.
    let mut entry = descriptor(manifest.to_string().as_bytes(), "manifest.v1+json");
    entry["platform"] = json!({"os": "linux", "architecture": architecture});
    let index = json!({
        "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry],
    });
    let of_index = put_manifest(&client, &base, &index).await?;
    let digest = if architecture == "amd64" { of_image } else { of_index };
    Ok(format!("{registry}/bad/{name}@{digest}"))
}

/// Returns the digest.
async fn put_manifest(client: &reqwest::Client, base: &str, manifest: &Value) -> anyhow::Result<String> {
    let (text, media_type) = (manifest.to_string(), manifest["mediaType"].as_str().unwrap_or_default());
    let digest = sha256(text.as_bytes());
    let put = client.put(format!("{base}/manifests/{digest}")).header("content-type", media_type).body(text);
    put.send().await?.error_for_status()?;
    Ok(digest)
}

/// A registry that lets nobody in; `HOST:PORT`.
async fn closed_registry() -> anyhow::Result<String> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let answer = || async {
        let challenge = [("www-authenticate", "Basic realm=\"closed\"")];
        (StatusCode::UNAUTHORIZED, challenge, r#"{"errors":[{"code":"UNAUTHORIZED","message":"a login is required"}]}"#)
    };
    tokio::spawn(async move { axum::serve(listener, axum::Router::new().fallback(answer)).await });
    Ok(address)
}

/// Folders and files of the payload store.
fn names(store: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(store).unwrap().flatten();
    entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn failed_retrievals_are_told_in_the_words_of_the_node() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, second, third] = platform.samples().await.unwrap();
    platform.install(&first).await.unwrap();
    platform.until_completed(&first, LIMIT).await.unwrap();

    let registry = platform.cluster.registry();
    let none = format!("{registry}/bad/none@sha256:{}", "0".repeat(64));
    let closed = format!("{}/bad/closed@sha256:{}", closed_registry().await.unwrap(), "0".repeat(64));
    let empty = push(&registry, "empty", "amd64", &["etc/nothing"]).await.unwrap();
    let foreign = push(&registry, "foreign", "s390x", &["manifests/a.json"]).await.unwrap();
    let unmountable = push(&registry, "unmountable", "amd64", &["tool"]).await.unwrap();
    for (what, image, cause) in [
        ("not found", &none, "not found"),
        ("wrong platform", &foreign, "no match for platform"),
        ("crash", &empty, "not a usable release image"),
        ("runtime error", &unmountable, "not a directory"),
    ] {
        println!("{what}:");
        platform.ask(json!({"image": image, "force": true})).await.unwrap();
        refused(&platform, &first, image, "RetrievePayload", cause).await;
    }
    // The node goes on trying, because somebody may give it the right: what it says is shown meanwhile.
    platform.ask(json!({"image": closed, "force": true})).await.unwrap();
    let told = platform.until("the missing login to be told", LIMIT, |version| {
        version.condition("ReleaseAccepted").is_some_and(|it| it.message.contains("401"))
    });
    println!("denied: {}", told.await.unwrap().condition("ReleaseAccepted").unwrap().message);

    let store = platform.cluster.payload_dir();
    std::fs::create_dir_all(&store).unwrap();
    mount("tmpfs", &store, "tmpfs", MountFlags::empty(), Some(c"size=16k")).unwrap();
    platform.sign(&second).await.unwrap();
    platform.ask_image(&second.image, "").await.unwrap();
    println!("no space:");
    refused(&platform, &first, &second.image, "RetrievePayload", "No space left on device").await;
    assert_eq!(names(&store), [".lock"], "what was copied until then takes up the disk");
    unmount(&store, UnmountFlags::DETACH).unwrap();
    platform.until_completed(&second, LIMIT).await.unwrap();
    platform.ask(Value::Null).await.unwrap();
    let version = platform.until("the release to be accepted", LIMIT, |it| it.has("ReleaseAccepted=True")).await;
    assert_eq!(version.unwrap().status.unwrap().history.len(), 2);
    updates_from_a_mirror(&platform, &third).await;
    platform.close().await.unwrap();
}

/// A site without a network: the release arrives in a folder, with its signatures, and there is no signature store.
async fn updates_from_a_mirror(platform: &Platform, release: &Release) {
    platform.sign(release).await.unwrap();
    let folder = platform.cluster.dir().join("mirror");
    let folder = folder.to_str().unwrap();
    let keyring = platform.cluster.dir().join("mirror.asc");
    std::fs::write(&keyring, &platform.keys.public).unwrap();
    platform
        .cvo(["release", "mirror", &release.image, "--to", folder, "--keyring", keyring.to_str().unwrap()])
        .await
        .unwrap();
    let repository = format!("{}/mirrored/platform", platform.cluster.registry());
    let set = platform.cvo(["release", "mirror", folder, "--to", &repository]).await.unwrap();
    assert!(set.contains("kind: ImageDigestMirrorSet") && set.contains(&repository), "{set}");
    std::fs::remove_dir_all(platform.store()).unwrap();
    let objects = format!("{folder}/config");
    platform.cluster.kubectl(["apply", "-f", &objects]).await.unwrap();
    let mirrored = Release { image: format!("{repository}@{}", release.digest()), ..release.clone() };
    platform.ask_image(&mirrored.image, "").await.unwrap();
    let version = platform.until_completed(&mirrored, LIMIT).await.unwrap();
    let newest = version.status.unwrap().history[0].clone();
    println!("from a mirror: {newest:?}");
    assert!(newest.verified && newest.image == mirrored.image, "{newest:?}");
    let unsigned = platform.release(Contents { version: "1.0.9", ..SAMPLES[0] }).await.unwrap();
    let refused =
        platform.cvo(["release", "mirror", &unsigned.image, "--to", folder, "--keyring", keyring.to_str().unwrap()]);
    let refused = format!("{:#}", refused.await.unwrap_err());
    assert!(refused.contains("nothing is copied"), "{refused}");
}
