//! Images of all kinds, built here and pulled from a registry in this process or a folder, and what a hostile one leaves behind.

use super::super::image::{Start, scratch};
use super::super::layer::{Layer, Packing, sha256};
use super::super::layout::{Entry, Layout};
use super::super::tests::{Fake, Script};
use super::super::{Access, Repository};
use super::*;
use crate::images::platform::Platform;
use futures::StreamExt;
use serde_json::json;
use std::collections::BTreeMap;

mod killed;

const LIMITS: Limits = Limits {
    files: 1000,
    bytes: 1 << 20,
    file_bytes: 1 << 20,
    packed: 16 << 20,
    unpacked: 64 << 20,
    window: 8 << 20,
    time: Duration::from_secs(60),
    slowest: None,
};

#[derive(Clone, Copy, Debug)]
enum Pack {
    Plain,
    Gzip,
    Zstd,
    /// Several frames, one to skip among them.
    Frames,
}

/// An archive with these entries: `name/`, `name=content`, `name -> target`, `name => target` for a hard link, `name?` for a device.
fn archive(entries: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for entry in entries.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let mut header = tar::Header::new_gnu();
        let (name, kind, target, content) = if let Some((name, target)) = entry.split_once(" -> ") {
            (name, tar::EntryType::Symlink, target, "")
        } else if let Some((name, target)) = entry.split_once(" => ") {
            (name, tar::EntryType::Link, target, "")
        } else if let Some((name, content)) = entry.split_once('=') {
            (name, tar::EntryType::Regular, "", content)
        } else if let Some(name) = entry.strip_suffix('?') {
            (name, tar::EntryType::Char, "", "")
        } else {
            (entry, if entry.ends_with('/') { tar::EntryType::Directory } else { tar::EntryType::Regular }, "", "")
        };
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o4777);
        header.set_cksum();
        tar.append(&header, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

fn zstd(bytes: &[u8]) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(bytes, ruzstd::encoding::CompressionLevel::Fastest)
}

fn packed(archive: &[u8], pack: Pack) -> Layer {
    let bytes = match pack {
        Pack::Plain => archive.to_vec(),
        Pack::Gzip => {
            let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            gzip.write_all(archive).unwrap();
            gzip.finish().unwrap()
        }
        Pack::Zstd => zstd(archive),
        Pack::Frames => {
            let (first, second) = archive.split_at(archive.len() / 3);
            let skipped = [[0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0].as_slice(), b"abc"].concat();
            [skipped.clone(), zstd(first), skipped.clone(), zstd(b""), zstd(second), skipped].concat()
        }
    };
    Layer { packing: Packing::Plain, digest: sha256(&bytes), diff_id: sha256(archive), bytes: bytes.into() }
}

/// An image without a base, and its layers.
fn built(layers: &[Vec<u8>], pack: Pack) -> (Image, Vec<Layer>) {
    let layers: Vec<Layer> = layers.iter().map(|archive| packed(archive, pack)).collect();
    (scratch(&layers, &Start::default(), jiff::Timestamp::UNIX_EPOCH).unwrap(), layers)
}

/// The image with another manifest or config.
fn changed(image: &Image, change: impl FnOnce(&mut Value, &mut Value)) -> Image {
    let (mut manifest, mut config) = (serde_json::to_value(&image.manifest).unwrap(), image.config.clone());
    change(&mut manifest, &mut config);
    let config_bytes = serde_json::to_vec(&config).unwrap();
    manifest["config"]["digest"] = json!(sha256(&config_bytes));
    manifest["config"]["size"] = json!(config_bytes.len());
    let manifest_bytes = serde_json::to_vec(&manifest).unwrap();
    let manifest = serde_json::from_value(manifest).unwrap();
    let digest = sha256(&manifest_bytes);
    Image { digest, manifest, manifest_bytes, config, config_bytes, ..image.clone() }
}

async fn pushed(fake: &Fake, image: &Image, layers: Vec<Layer>) -> Place {
    let repository: Repository = fake.repository("org/catalog:1", &Access::default());
    repository.push(image, layers, None).await.unwrap();
    Place::Registry(Box::new(repository))
}

/// `path=content` of everything below the folder. There are only files and folders, with the usual rights.
fn found(root: &Path) -> Vec<String> {
    use std::os::unix::fs::PermissionsExt;
    let mut all = Vec::new();
    for entry in fs::read_dir(root).unwrap().map(Result::unwrap) {
        let (path, kind) = (entry.path(), fs::symlink_metadata(entry.path()).unwrap());
        if kind.is_dir() {
            let name = entry.file_name();
            let below = found(&path);
            if below.is_empty() {
                all.push(format!("{}/", name.display()));
            }
            all.extend(below.iter().map(|it| format!("{}/{it}", name.display())));
        } else {
            assert!(kind.is_file(), "{path:?}");
            assert_eq!(kind.permissions().mode() & 0o7133, 0, "{path:?}");
            all.push(format!("{}={}", entry.file_name().display(), fs::read_to_string(&path).unwrap()));
        }
    }
    all.sort();
    all
}

struct Pulled {
    result: Result<Summary, RegistryError>,
    /// What is in the folder, and what is beside it.
    files: Vec<String>,
    beside: usize,
}

async fn pull(place: &Place, image: &Image, directories: &[&str], limits: &Limits) -> Pulled {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out.d");
    let result = write(place, image, directories, &to, limits).await;
    let files = if to.exists() { found(&to) } else { Vec::new() };
    let beside = fs::read_dir(folder.path()).unwrap().count() - usize::from(to.exists());
    Pulled { result, files, beside }
}

/// Pushes an image and pulls it again.
async fn through(layers: &[&str], directories: &[&str]) -> String {
    let fake = Fake::start().await;
    let archives: Vec<Vec<u8>> = layers.iter().map(|entries| archive(entries)).collect();
    let (image, layers) = built(&archives, Pack::Gzip);
    let place = pushed(&fake, &image, layers).await;
    let pulled = pull(&place, &image, directories, &LIMITS).await;
    assert_eq!(pulled.beside, 0);
    pulled.result.map_or_else(|error| error.to_string(), |_| pulled.files.join(" "))
}

#[tokio::test]
async fn every_kind_of_layer_is_read() {
    const TYPES: [(&str, &str); 4] = [
        ("application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.layer.v1.tar+gzip"),
        ("application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.layer.v1.tar+zstd"),
        ("application/vnd.docker.distribution.manifest.v2+json", "application/vnd.docker.image.rootfs.diff.tar.gzip"),
        (
            "application/vnd.docker.distribution.manifest.v2+json",
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip",
        ),
    ];
    let long = "x".repeat(200_000);
    let archives = [archive(&format!("configs/, configs/a={long}, usr/bin/opm=program")), archive("configs/b=2")];
    for pack in [Pack::Plain, Pack::Gzip, Pack::Zstd, Pack::Frames] {
        for (kind, of_layer) in TYPES {
            let fake = Fake::start().await;
            let (image, layers) = built(&archives, pack);
            let image = changed(&image, |manifest, _| {
                manifest["mediaType"] = json!(kind);
                manifest["layers"]
                    .as_array_mut()
                    .unwrap()
                    .iter_mut()
                    .for_each(|layer| layer["mediaType"] = json!(of_layer));
            });
            let image = Image { media_type: kind.to_owned(), ..image };
            let place = pushed(&fake, &image, layers).await;
            let image = place.image("1", Platform::Preferred("riscv64")).await.unwrap();
            let pulled = pull(&place, &image, &["/configs"], &LIMITS).await;
            let summary = pulled.result.unwrap();
            assert_eq!(pulled.files, [format!("configs/a={long}"), "configs/b=2".to_owned()], "{pack:?} {kind}");
            assert_eq!((summary.files, summary.bytes, pulled.beside), (2, 200_001, 0));
        }
    }
}

#[tokio::test]
async fn layers_are_one_file_system() {
    let base = "usr/bin/opm=program, etc/x=1, configs/, configs/a/catalog.yaml=old, configs/b/catalog.yaml=old";
    for (case, layers, expected) in [
        ("a catalog on a base", vec!["usr/bin/opm=p", "configs/, configs/a.yaml=1"], "configs/a.yaml=1"),
        ("rm -rf and COPY", vec![base, ".wh.configs", "configs/, configs/c.yaml=new"], "configs/c.yaml=new"),
        ("opaque", vec![base, "configs/, configs/.wh..wh..opq, configs/c.yaml=new"], "configs/c.yaml=new"),
        ("one package less", vec![base, "configs/.wh.a"], "configs/b/catalog.yaml=old"),
        (
            "one package replaced",
            vec![base, "configs/a/catalog.yaml=new"],
            "configs/a/catalog.yaml=new configs/b/catalog.yaml=old",
        ),
        ("the folder is a link", vec!["opt/configs/a=1, configs -> /opt/configs"], "configs/a=1"),
        ("a file is a link", vec!["configs/a -> ../x, configs/b -> a, x=1"], "configs/a=1 configs/b=1"),
        ("a folder in it is a link", vec!["configs/a -> ../../../x, x/b/c=1"], "configs/a/b/c=1"),
        (
            "a hard link to a file that is replaced",
            vec!["configs/a=1, configs/b => configs/a", "configs/a=2"],
            "configs/a=2 configs/b=1",
        ),
        ("no links and devices", vec!["configs/a=1, configs/d?, configs/l -> nowhere"], "configs/a=1"),
        ("nothing in it", vec!["configs/"], "configs/"),
    ] {
        assert_eq!(through(&layers, &["/configs"]).await, expected, "{case}");
    }
    let bundle = ["manifests/, manifests/csv.yaml=1, metadata/annotations.yaml=2, tests/x=3"];
    assert_eq!(
        through(&bundle, &["manifests/", "metadata/"]).await,
        "manifests/csv.yaml=1 metadata/annotations.yaml=2"
    );
    assert_eq!(through(&["a=1, b/c=2"], &["/"]).await, "a=1 b/c=2");
    for (layers, words) in [
        (["configs/../../etc/passwd=1"], "leads out of the image"),
        (["configs/a -> a"], "leads back to itself"),
        (["configs=1"], "is no directory in this image"),
    ] {
        let error = through(&layers, &["/configs"]).await;
        assert!(error.contains(words) && error.contains("/org/catalog@sha256:"), "{error}");
    }
    assert_eq!(through(&["usr/x=1"], &["/configs"]).await, "", "no folder if there is nothing");
}

#[tokio::test]
async fn layers_that_cannot_count_are_not_pulled() {
    let fake = Fake::start().await;
    let archives = ["usr/x=1, configs/a=1", ".wh.configs", "configs/b=2"].map(archive);
    let (image, layers) = built(&archives, Pack::Gzip);
    let place = pushed(&fake, &image, layers).await;
    let pulled = pull(&place, &image, &["configs"], &LIMITS).await;
    assert_eq!((pulled.files.join(" "), fake.count("GET blob")), ("configs/b=2".to_owned(), 2));
    assert_eq!(pulled.result.unwrap().found, ["configs"]);
}

#[tokio::test]
async fn image_in_a_folder_is_read_the_same_way() {
    let folder = tempfile::tempdir().unwrap();
    let layout = Layout::create(folder.path()).await.unwrap();
    let (image, layers) = built(&[archive("configs/a=1")], Pack::Zstd);
    for (part, bytes) in image
        .manifest
        .layers
        .iter()
        .zip(&layers)
        .map(|(part, layer)| (part, layer.bytes.whole()))
        .chain([(&image.manifest.config, image.config_bytes.clone())])
    {
        layout.write(part, futures::stream::once(async move { Ok(bytes.into()) }).boxed()).await.unwrap();
    }
    let entry = Entry { name: "cat".into(), digest: image.digest.clone(), annotations: BTreeMap::new() };
    layout.add(entry, &image.media_type, image.manifest_bytes.clone().into(), true).await.unwrap();
    let place = Place::Folder(layout);
    let image = place.image("cat", Platform::Preferred("amd64")).await.unwrap();
    assert_eq!(pull(&place, &image, &["configs"], &LIMITS).await.files, ["configs/a=1"]);

    // Somebody has changed it.
    let blob = folder.path().join("blobs/sha256").join(layers[0].digest.strip_prefix("sha256:").unwrap());
    let mut bytes = fs::read(&blob).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&blob, bytes).unwrap();
    let pulled = pull(&place, &image, &["configs"], &LIMITS).await;
    let error = pulled.result.unwrap_err().to_string();
    assert!(error.contains(&layers[0].digest) && error.contains("have the digest sha256:"), "{error}");
    assert_eq!((pulled.files.len(), pulled.beside), (0, 0));
}

#[tokio::test]
async fn content_that_is_not_what_its_digest_says_leaves_nothing_behind() {
    let (image, layers) = built(&[archive("configs/b=2"), archive("configs/a=1")], Pack::Plain);
    let other = packed(&archive("configs/a=9"), Pack::Plain);
    assert_eq!(other.bytes.len(), layers[1].bytes.len(), "or the test would be about the length");
    let short = {
        let mut short = layers[1].bytes.whole();
        short.pop();
        short
    };
    for (wrong, words) in [
        (other.bytes.whole(), "have the digest sha256:"),
        ([layers[1].bytes.whole(), vec![0]].concat(), "more than the"),
        (short, "have the digest sha256:"),
        (vec![0; 1 << 20], "more than the"),
        (Vec::new(), "the 0 bytes that were sent have the digest"),
    ] {
        let fake = Fake::start().await;
        let place = pushed(&fake, &image, layers.clone()).await;
        fake.send_instead(wrong);
        let pulled = pull(&place, &image, &["configs"], &LIMITS).await;
        let error = pulled.result.unwrap_err().to_string();
        assert!(error.contains(words) && error.contains(&layers[1].digest), "{error}");
        assert_eq!((pulled.files.len(), pulled.beside), (0, 0), "{error}");
    }
    // The content is as its digest, and not as the config says that it is decompressed.
    let fake = Fake::start().await;
    let wrong = changed(&image, |_, config| config["rootfs"]["diff_ids"][0] = json!(sha256(b"other")));
    let place = pushed(&fake, &wrong, layers.clone()).await;
    let pulled = pull(&place, &wrong, &["configs"], &LIMITS).await;
    let error = pulled.result.unwrap_err().to_string();
    for words in [sha256(b"other").as_str(), &layers[0].diff_id, &layers[0].digest, "build or push it again"] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert_eq!((pulled.files.len(), pulled.beside), (0, 0));
    // A config that says nothing of them is fine.
    let silent = changed(&image, |_, config| *config = json!({}));
    let place = pushed(&fake, &silent, layers).await;
    assert_eq!(pull(&place, &silent, &["configs"], &LIMITS).await.files, ["configs/a=1", "configs/b=2"]);
}

/// A zstd frame: a byte that is repeated, in blocks of 128 KiB.
fn repeated(blocks: u32) -> Vec<u8> {
    // No checksum, no size, and a window of 128 KiB.
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3];
    for block in 0..blocks {
        let header = u32::from(block + 1 == blocks) | 1 << 1 | (128 << 10) << 3;
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.push(0);
    }
    frame
}

#[tokio::test]
async fn image_that_is_too_large_ends_at_the_limit() {
    let mut header = tar::Header::new_gnu();
    header.set_path("usr/zeros").unwrap();
    header.set_size(1 << 30);
    header.set_cksum();
    let zeros = || header.as_bytes().as_slice().chain(io::repeat(0).take(1 << 30));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    io::copy(&mut zeros().take(100 << 20), &mut gzip).unwrap();
    let gzip = gzip.finish().unwrap();
    let frames = [zstd(header.as_bytes()), repeated(8000)].concat();
    assert!(gzip.len() < 1 << 20 && frames.len() < 1 << 20, "bombs are small");
    let small = archive("configs/a=12345, configs/b=12345");
    let plain = packed(&small, Pack::Plain);
    for (bytes, limits, words) in [
        (gzip, LIMITS, "more than 67108864 bytes when they are decompressed"),
        (frames, LIMITS, "more than 67108864 bytes when they are decompressed"),
        (plain.bytes.whole(), Limits { unpacked: 1000, ..LIMITS }, "more than 1000 bytes when they are"),
        (
            plain.bytes.whole(),
            Limits { packed: 1000, ..LIMITS },
            "its layers have 3072 bytes or more, and 1000 are read at most",
        ),
        (plain.bytes.whole(), Limits { bytes: 9, ..LIMITS }, "more than 9 bytes there"),
        (plain.bytes.whole(), Limits { files: 1, ..LIMITS }, "more than 1 files there"),
        (plain.bytes.whole(), Limits { file_bytes: 4, ..LIMITS }, "\"configs/a\" has 5 bytes, and a file may have 4"),
    ] {
        let fake = Fake::start().await;
        let layer = Layer { digest: sha256(&bytes), bytes: bytes.into(), ..plain.clone() };
        let image = scratch(std::slice::from_ref(&layer), &Start::default(), jiff::Timestamp::UNIX_EPOCH).unwrap();
        let place = pushed(&fake, &image, vec![layer.clone()]).await;
        let pulled = pull(&place, &image, &["configs"], &limits).await;
        let error = pulled.result.unwrap_err().to_string();
        for words in [words, "/org/catalog@sha256:", "raise the limit"] {
            assert!(error.contains(words), "{words}: {error}");
        }
        assert_eq!((pulled.files.len(), pulled.beside), (0, 0), "{error}");
    }
}

#[tokio::test]
async fn layer_that_cannot_be_read_is_named_with_the_cause() {
    let window = {
        let mut frame = repeated(1);
        frame[5] = 14 << 3;
        frame
    };
    let whole = archive(&format!("configs/a={}", "x".repeat(5000)));
    let compressed = |pack| packed(&whole, pack).bytes.whole();
    for (bytes, words) in [
        (b"this is not an archive, whatever its length is".repeat(40), "cannot read the layer"),
        (whole[..2000].to_vec(), "ends in the middle of a file"),
        (compressed(Pack::Gzip)[..60].to_vec(), "cannot read the layer"),
        (compressed(Pack::Zstd)[..60].to_vec(), "damaged zstd data"),
        (compressed(Pack::Frames)[..9].to_vec(), "cannot read the layer"),
        (window, "refer back 16777216 bytes, more than 8388608"),
        (b"BZh91AY&SY".to_vec(), "compressed with bzip2, which is not supported"),
        (b"\xfd7zXZ\0".to_vec(), "compressed with xz, which is not supported"),
    ] {
        let fake = Fake::start().await;
        let layer =
            Layer { packing: Packing::Plain, digest: sha256(&bytes), diff_id: String::new(), bytes: bytes.into() };
        let image = scratch(std::slice::from_ref(&layer), &Start::default(), jiff::Timestamp::UNIX_EPOCH).unwrap();
        let place = pushed(&fake, &image, vec![layer.clone()]).await;
        let pulled = pull(&place, &image, &["configs"], &LIMITS).await;
        let error = chain_of(&pulled.result.unwrap_err());
        assert!(error.contains(words) && error.contains(&layer.digest), "{words}: {error}");
        assert_eq!((pulled.files.len(), pulled.beside), (0, 0), "{error}");
    }
}

fn chain_of(error: &RegistryError) -> String {
    crate::error::chain(error)
}

/// As the program `zstd` writes it, with level 19 and a checksum.
#[tokio::test]
async fn layer_of_the_program_zstd_is_read() {
    let Ok(mut zstd) = std::process::Command::new("zstd")
        .args(["-19", "--check", "-c"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
    else {
        println!("skipped: no zstd");
        return;
    };
    let text: String = (0..100_000_u32).map(|n| n.wrapping_mul(2_654_435_761).to_string()).collect();
    let archive = archive(&format!("configs/a={text}"));
    let mut input = zstd.stdin.take().unwrap();
    let given = archive.clone();
    let writer = std::thread::spawn(move || input.write_all(&given).unwrap());
    let bytes = zstd.wait_with_output().unwrap().stdout;
    writer.join().unwrap();
    let fake = Fake::start().await;
    let layer =
        Layer { packing: Packing::Plain, digest: sha256(&bytes), diff_id: sha256(&archive), bytes: bytes.into() };
    let image = scratch(std::slice::from_ref(&layer), &Start::default(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    let place = pushed(&fake, &image, vec![layer]).await;
    let pulled = pull(&place, &image, &["configs"], &LIMITS).await;
    pulled.result.unwrap();
    assert_eq!(pulled.files, [format!("configs/a={text}")]);
}

#[tokio::test]
async fn registry_that_stops_in_the_middle_is_given_up_and_nothing_stays() {
    let fake = Fake::start().await;
    let (image, layers) = built(&[archive("configs/a=1")], Pack::Gzip);
    pushed(&fake, &image, layers).await;
    fake.stall();
    let place = |pause| Place::Registry(Box::new(fake.impatient("org/catalog:1", pause)));
    let pulled = pull(&place(Duration::from_millis(200)), &image, &["configs"], &LIMITS).await;
    let error = pulled.result.unwrap_err();
    assert!(error.to_string().contains("has sent nothing for 0 s") && error.is_of_place(), "{error}");
    assert_eq!((pulled.files.len(), pulled.beside), (0, 0));

    let folder = tempfile::tempdir().unwrap();
    let limits = Limits { time: Duration::from_millis(200), ..LIMITS };
    let to = folder.path().join("out");
    let late =
        write(&place(Duration::from_secs(60)), &image, &["configs"], &to, &limits).await.unwrap_err().to_string();
    // Whoever waits for all of it says so, or whoever reads the layer.
    assert!(
        late.contains("not all of it was read within 0 s") || late.contains("not sent all of it within 0 s"),
        "{late}"
    );
    for _ in 0..100 {
        if fs::read_dir(folder.path()).unwrap().count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("what was written aside stays");
}

/// Some stores say of a layer that it is compressed on its way, and clients would decompress it.
#[tokio::test]
async fn layer_comes_as_it_is_stored_whatever_a_server_says() {
    let (image, layers) = built(&[archive("configs/a=1")], Pack::Gzip);
    let bytes = layers[0].bytes.whole();
    let registry = Script::start(move |_, headers| {
        assert!(!headers.contains_key("accept-encoding"), "{headers:?}");
        let answer = axum::http::Response::builder().header("Content-Encoding", "gzip");
        answer.body(axum::body::Body::from(bytes.clone())).unwrap()
    })
    .await;
    let place = Place::Registry(Box::new(registry.repository("cat:1", &Access::default())));
    assert_eq!(pull(&place, &image, &["configs"], &LIMITS).await.files, ["configs/a=1"]);
}

#[tokio::test]
async fn folder_that_is_in_use_is_not_replaced() {
    let fake = Fake::start().await;
    let (image, layers) = built(&[archive("configs/a=1, configs/b => configs/a")], Pack::Plain);
    let place = pushed(&fake, &image, layers).await;
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("out");
    fs::create_dir(&to).unwrap();
    write(&place, &image, &["configs"], &to, &LIMITS).await.unwrap();
    assert_eq!(found(&to), ["configs/a=1", "configs/b=1"]);
    let error = write(&place, &image, &["configs"], &to, &LIMITS).await.unwrap_err().to_string();
    assert!(error.contains("exists and is not empty"), "{error}");
    let error = write(&place, &image, &["configs"], Path::new("/dev/null/x"), &LIMITS).await.unwrap_err().to_string();
    assert!(error.contains("cannot write /dev/null/"), "{error}");
    assert_eq!(found(folder.path()), ["out/configs/a=1", "out/configs/b=1"]);
}
