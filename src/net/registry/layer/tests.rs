//! Layers are reproducible, and a hostile archive is refused.

use super::archive::MAX_EXTENDED_HEADER;
use super::*;
use std::io::Read;

fn file(path: &str, content: &str) -> LayerFile {
    LayerFile { path: path.into(), mode: 0o444, bytes: content.into() }
}

fn manifests() -> Gathered {
    Gathered::under(&["manifests/", "release-manifests/"])
}

/// An archive of raw entries, as no ordinary tool would write it.
fn raw(entries: &[(tar::EntryType, &str, &str, &str)]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (kind, name, target, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, content.as_bytes()).unwrap();
    }
    tar.into_inner().unwrap()
}

use tar::EntryType::{Directory, Link, Regular, Symlink};

#[test]
fn layer_does_not_depend_on_the_order_of_files() {
    let (a, b) = (file("x/a", "1"), file("x/b", "2"));
    for packing in [Packing::USUAL, Packing::Plain] {
        let one = write(&[a.clone(), b.clone()], 7, packing).unwrap();
        let other = write(&[b.clone(), a.clone()], 7, packing).unwrap();
        assert_eq!(one.bytes.whole(), other.bytes.whole());
        assert_eq!((one.digest, one.diff_id.clone()), (other.digest, other.diff_id));
        let changed = write(&[a.clone(), file("x/b", "3")], 7, packing).unwrap();
        assert_ne!(changed.diff_id, one.diff_id);
    }
    // A changed digest here means that every rebuilt release gets a new digest.
    let layer = write(&[a, b], 7, Packing::Plain).unwrap();
    assert_eq!(layer.diff_id, "sha256:17495deac3fe3e5815adc5ec844a1499e79b2092466af5a516ef1b5f080ce2f0");
    assert_eq!(layer.diff_id, layer.digest, "an uncompressed layer is its own archive");
}

#[test]
fn entries_are_read_back_with_mode_owner_and_time() {
    let long = format!("release-manifests/{}.yaml", "n".repeat(180));
    let layer = write(&[file(&long, "long"), file("release-manifests/a", "1")], 1_700_000_000, Packing::USUAL).unwrap();
    let bytes = layer.bytes.whole();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(bytes.as_slice()));
    let seen: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|e| {
            let e = e.unwrap();
            let h = e.header();
            (e.path().unwrap().to_str().unwrap().to_string(), h.mode().unwrap(), h.uid().unwrap(), h.mtime().unwrap())
        })
        .collect();
    assert_eq!(
        seen,
        [("release-manifests/a".into(), 0o444, 0, 1_700_000_000), (long.clone(), 0o444, 0, 1_700_000_000)]
    );
    let mut gathered = manifests();
    gathered.read_layer(layer.bytes.whole().as_slice()).unwrap();
    assert_eq!(gathered.files[&long], b"long");
}

#[test]
fn path_outside_the_layer_is_not_written() {
    for path in ["/etc/passwd", "a/../b", "..", "a//b", "./a", "", "a/"] {
        assert!(matches!(write(&[file(path, "")], 0, Packing::Plain), Err(LayerError::BadPath { .. })), "{path}");
    }
    assert!(matches!(write(&[file("a", "1"), file("a", "2")], 0, Packing::Plain), Err(LayerError::Twice { .. })));
}

#[test]
fn upper_layer_overrides_and_deletes() {
    let top = raw(&[
        (Regular, "release-manifests/a", "", "new"),
        (Regular, "manifests/.wh.gone", "", ""),
        (Regular, "usr/bin/cvo", "", "binary"),
        (Regular, "./release-manifests/invisible", "", "x"),
        (Directory, "release-manifests/", "", ""),
    ]);
    let bottom = raw(&[
        (Regular, "release-manifests/a", "", "old"),
        (Regular, "manifests/gone", "", "old"),
        (Regular, "manifests/kept", "", "kept"),
        (Regular, "manifests/d/deep", "", "deep"),
    ]);
    let mut gathered = manifests();
    gathered.read_layer(top.as_slice()).unwrap();
    gathered.read_layer(bottom.as_slice()).unwrap();
    let names: Vec<_> = gathered.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["manifests/d/deep", "manifests/kept", "release-manifests/a"]);
    assert_eq!(gathered.files["release-manifests/a"], b"new");
}

#[test]
fn opaque_folder_hides_its_content_in_lower_layers_only() {
    let top = raw(&[(Regular, "manifests/.wh..wh..opq", "", ""), (Regular, "manifests/new", "", "n")]);
    let bottom = raw(&[(Regular, "manifests/old", "", "o"), (Regular, "release-manifests/a", "", "a")]);
    let mut gathered = manifests();
    gathered.read_layer(top.as_slice()).unwrap();
    gathered.read_layer(bottom.as_slice()).unwrap();
    let names: Vec<_> = gathered.files.keys().map(String::as_str).collect();
    assert_eq!(names, ["manifests/new", "release-manifests/a"]);
}

#[test]
fn hostile_entry_is_refused() {
    let table: [(&str, tar::EntryType, &str, &str, &str); 8] = [
        ("absolute link", Symlink, "manifests/a", "/etc/passwd", "/etc/passwd"),
        ("link that climbs", Symlink, "manifests/a", "../../etc/passwd", "outside"),
        ("link into a sibling folder", Symlink, "manifests/a", "../usr", "outside"),
        ("link that climbs in the middle", Symlink, "manifests/d/a", "../x/../../y", "outside"),
        ("hard link that climbs", Link, "manifests/a", "../x", "outside"),
        ("the folder is a link", Symlink, "manifests", "/etc", "symbolic link"),
        ("the folder is a file", Regular, "release-manifests", "", "should have a directory"),
        ("a path that climbs", Regular, "manifests/../../etc/x", "", "cannot be a path"),
    ];
    for (case, kind, name, target, expected) in table {
        let archive = raw(&[(kind, name, target, "")]);
        let error = manifests().read_layer(archive.as_slice()).expect_err(case).to_string();
        assert!(error.contains(expected), "{case}: {error}");
    }
}

#[test]
fn inner_link_is_replaced_by_its_target() {
    let top = raw(&[
        (Symlink, "manifests/a", "./x/../b", ""),
        (Symlink, "manifests/chain", "a", ""),
        (Symlink, "manifests/nowhere", "c", ""),
        (Symlink, "manifests/round", "round", ""),
        (Regular, "manifests/first", "", "f"),
        (Link, "manifests/same", "manifests/first", ""),
        (Link, "manifests/of-another-layer", "manifests/b", ""),
    ]);
    let bottom = raw(&[(Regular, "manifests/a", "", "old"), (Regular, "manifests/b", "", "b")]);
    let mut gathered = manifests();
    gathered.read_layer(top.as_slice()).unwrap();
    gathered.read_layer(bottom.as_slice()).unwrap();
    gathered.follow_links().unwrap();
    let files: Vec<_> = gathered.files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    let expected: [(&str, &[u8]); 5] = [
        ("manifests/a", b"b"),
        ("manifests/b", b"b"),
        ("manifests/chain", b"b"),
        ("manifests/first", b"f"),
        ("manifests/same", b"f"),
    ];
    assert_eq!(files, expected);
    assert_eq!(gathered.skipped, ["manifests/of-another-layer", "manifests/nowhere", "manifests/round"]);
}

/// As it may come by a slow line.
#[test]
fn compression_is_recognized_byte_by_byte() {
    struct Slow<'a>(&'a [u8]);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.0.read(&mut buffer[..1])
        }
    }
    let content = [file("manifests/a", "1")];
    let plain = write(&content, 0, Packing::Plain).unwrap().bytes.whole();
    let zstd = ruzstd::encoding::compress_to_vec(plain.as_slice(), ruzstd::encoding::CompressionLevel::Fastest);
    for stored in [write(&content, 0, Packing::USUAL).unwrap().bytes.whole(), zstd, plain] {
        let mut gathered = manifests();
        gathered.read_layer(Slow(&stored)).unwrap();
        assert_eq!(gathered.files["manifests/a"], b"1");
    }
}

#[test]
fn damaged_archive_is_an_error() {
    let whole = write(&[file("manifests/a", &"abc".repeat(5000))], 0, Packing::Plain).unwrap().bytes.whole();
    let gzip = write(&[file("manifests/a", &"abc".repeat(5000))], 0, Packing::USUAL).unwrap().bytes.whole();
    assert!(manifests().read_layer(&whole[..2000]).is_err(), "cut in a file");
    assert!(manifests().read_layer(&gzip[..gzip.len() / 2]).is_err(), "cut in the compression");
    assert!(manifests().read_layer([0x28, 0xb5, 0x2f, 0xfd, 0].as_slice()).unwrap_err().to_string().contains("zstd"));
    assert!(manifests().read_layer("this is not an archive, whatever its length is".repeat(40).as_bytes()).is_err());
}

/// What an attacker can write in a few bytes: names, deleted paths, links, and copies of one file.
#[test]
fn what_is_kept_of_an_image_is_bounded_whatever_its_entries_are() {
    let header = |kind: tar::EntryType, name: &str, target: &str| {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.as_old_mut().linkname[..target.len()].copy_from_slice(target.as_bytes());
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_cksum();
        header
    };
    let many = |count: usize, kind: tar::EntryType, prefix: &str, target: &str| {
        (0..count).flat_map(|n| *header(kind, &format!("{prefix}{n}"), target).as_bytes()).collect::<Vec<u8>>()
    };
    let refused = |archive: &[u8]| manifests().read_layer(archive).unwrap_err().to_string();
    for (kind, prefix, target) in [
        (Regular, "manifests/", ""),
        (Regular, "manifests/.wh.", ""),
        (Symlink, "manifests/", "x"),
        (Link, "manifests/", "x"),
    ] {
        let error = refused(&many(MAX_KEPT_PATHS + 1, kind, prefix, target));
        assert!(error.contains("more than 20000 paths under manifests/ and release-manifests/"), "{prefix}: {error}");
    }
    let mut elsewhere = manifests();
    elsewhere.read_layer(many(MAX_KEPT_PATHS + 1, Regular, "usr/", "").as_slice()).unwrap();
    assert!(elsewhere.covered.is_empty() && elsewhere.kept_paths == 0, "nothing is kept of headers elsewhere");

    let mebibyte = "x".repeat(1 << 20);
    let copies: Vec<u8> = many(50, Link, "manifests/", "manifests/one");
    let one = raw(&[(Regular, "manifests/one", "", &mebibyte)]);
    // Without the two empty blocks at its end, so that more entries follow.
    let error = refused(&[&one[..one.len() - 1024], &copies].concat());
    assert!(error.contains("more than 50331648 bytes"), "{error}");

    let long = "manifests/".to_owned() + &"n".repeat(MAX_PATH);
    let mut name = header(tar::EntryType::GNULongName, "././@LongLink", "");
    name.set_size(long.len() as u64);
    name.set_cksum();
    let mut archive = [name.as_bytes().as_slice(), long.as_bytes()].concat();
    archive.resize(archive.len().next_multiple_of(512), 0);
    archive.extend_from_slice(header(Symlink, "manifests/cut", "x").as_bytes());
    let error = refused(&archive);
    assert!(error.contains("4106 bytes, more than the 4096 that a path may have"), "{error}");
}

/// The archive says that a sparse file has terabytes. Only its few bytes are read, and no manifest is one.
#[test]
fn sparse_file_is_not_expanded() {
    let mut header = tar::Header::new_gnu();
    header.set_path("manifests/sparse.yaml").unwrap();
    header.set_entry_type(tar::EntryType::GNUSparse);
    header.set_size(0);
    header.as_gnu_mut().unwrap().realsize = *b"77777777777\0";
    header.set_cksum();
    let mut gathered = manifests();
    gathered.read_layer([header.as_bytes().as_slice(), &[0; 1024]].concat().as_slice()).unwrap();
    assert_eq!((gathered.files.len(), gathered.skipped), (0, vec!["manifests/sparse.yaml".to_owned()]));
}

/// An end of the input at the limit would look like the end of the archive, and hide what comes after it.
#[test]
fn layer_that_expands_beyond_the_limit_is_refused() {
    let archive = raw(&[(Regular, "usr/a", "", &"0".repeat(5000)), (Regular, "manifests/a", "", "a")]);
    let within = |limit: u64| manifests().read_archive(archive.as_slice(), limit).map(|found| found.len());
    assert_eq!(within(archive.len() as u64).unwrap(), 1);
    for limit in [512, 5632, 6144] {
        assert!(matches!(within(limit), Err(LayerError::Expands)), "{limit}: {:?}", within(limit));
    }
    assert!(LayerError::Expands.to_string().contains("more than 8589934592 bytes"));

    // 48 MiB of zeros in 50 KB, and as a manifest.
    let size = MAX_KEPT_BYTES + 1;
    let mut header = tar::Header::new_gnu();
    header.set_path("manifests/bomb.yaml").unwrap();
    header.set_size(size);
    header.set_cksum();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), Compression::fast());
    io::copy(&mut header.as_bytes().as_slice().chain(io::repeat(0).take(size)), &mut gzip).unwrap();
    let bomb = gzip.finish().unwrap();
    let error = manifests().read_layer(bomb.as_slice()).unwrap_err().to_string();
    assert!(bomb.len() < 1 << 20 && error.contains("more than 50331648 bytes"), "{} bytes: {error}", bomb.len());
}

#[test]
fn file_larger_than_the_bound_is_refused_before_it_is_kept() {
    let mut header = tar::Header::new_gnu();
    header.set_path("manifests/huge").unwrap();
    header.set_size(MAX_KEPT_BYTES + 10);
    header.set_mode(0o644);
    header.set_cksum();
    let endless = io::repeat(0).take(MAX_KEPT_BYTES + 1024);
    let error = manifests().read_layer(header.as_bytes().as_slice().chain(endless)).unwrap_err().to_string();
    assert!(error.contains("more than 50331648 bytes"), "{error}");

    let mut name = tar::Header::new_gnu();
    name.set_path("././@LongLink").unwrap();
    name.set_entry_type(tar::EntryType::GNULongName);
    name.set_size(MAX_EXTENDED_HEADER * 4);
    name.set_cksum();
    let endless = io::repeat(b'x').take(MAX_EXTENDED_HEADER * 4);
    let error = manifests().read_layer(name.as_bytes().as_slice().chain(endless)).unwrap_err().to_string();
    assert!(error.contains("1 MiB"), "{error}");
}

#[test]
fn layer_of_files_on_disk_is_that_of_files_in_memory() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("a/one", "1".repeat(100_000)), ("a/two", String::new())];
    let on_disk = files.iter().map(|(path, content)| {
        let place = folder.path().join(path.replace('/', "-"));
        std::fs::write(&place, content).unwrap();
        LayerFile { path: (*path).to_owned(), mode: 0o444, bytes: FileBytes::Disk(place) }
    });
    let on_disk: Vec<LayerFile> = on_disk.collect();
    let in_memory: Vec<LayerFile> = files.iter().map(|(path, content)| file(path, content)).collect();
    for packing in [Packing::USUAL, Packing::Plain] {
        let (one, other) = (write(&in_memory, 7, packing).unwrap(), write_to_disk(&on_disk, 7, packing).unwrap());
        let LayerBytes::Disk(path, _) = &other.bytes else { panic!("it is in memory") };
        let path = path.to_path_buf();
        assert_eq!((&one.digest, &one.diff_id, one.bytes.len()), (&other.digest, &other.diff_id, other.bytes.len()));
        assert_eq!(one.bytes.whole(), other.bytes.whole());
        assert_eq!(other.digest, sha256(&one.bytes.whole()));
        drop(other);
        assert!(!path.exists());
    }
    std::fs::remove_file(folder.path().join("a-two")).unwrap();
    let error = write(&on_disk, 7, Packing::Plain).unwrap_err().to_string();
    assert!(error.contains("a-two: "), "{error}");
}

#[test]
fn full_disk_is_not_blamed_on_the_file_that_is_read() {
    let source = tempfile::NamedTempFile::with_prefix("source").unwrap();
    std::fs::write(source.path(), "1".repeat(100_000)).unwrap();
    let file = LayerFile { path: "a".to_owned(), mode: 0o444, bytes: FileBytes::Disk(source.path().to_owned()) };
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let out = BufWriter::new(Placed { inner: full, place: in_temporary_folder });
    let error = packed(&[file], 7, Packing::Plain, out).err().unwrap().to_string();
    let folder = format!("cannot write the layer: temporary folder {}: ", std::env::temp_dir().display());
    assert!(error.starts_with(&folder) && error.ends_with("on another volume with TMPDIR"), "{error}");
    assert!(!error.contains("source"), "{error}");
}
