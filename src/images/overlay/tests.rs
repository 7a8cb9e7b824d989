use super::*;
use std::fmt::Write;

mod model;

const LIMITS: Limits = Limits { files: 1000, bytes: 1 << 20, file_bytes: 1 << 20 };

/// An entry of a layer: `name/`, `name=content`, `name -> target`, `name => target` for a hard link, `name?` for a device.
fn kind(entry: &str) -> (&str, Kind<'_>, &str) {
    if let Some((name, target)) = entry.split_once(" -> ") {
        (name, Kind::Link(target), "")
    } else if let Some((name, target)) = entry.split_once(" => ") {
        (name, Kind::HardLink(target), "")
    } else if let Some((name, content)) = entry.split_once('=') {
        (name, Kind::File(content.len() as u64), content)
    } else if let Some(name) = entry.strip_suffix('?') {
        (name, Kind::Other("device"), "")
    } else if entry.ends_with('/') {
        (entry, Kind::Directory, "")
    } else {
        (entry, Kind::File(0), "")
    }
}

struct Read {
    overlay: Overlay,
    summary: Summary,
    /// `path=content` of the wanted directories, in the order in which they are told.
    files: Vec<String>,
    /// The layers that were read, in this order.
    order: String,
    /// How many contents were kept.
    kept: usize,
}

/// Reads layers, the first one first, each with its entries one a line or separated by commas.
fn read(layers: &[&str], wanted: &[&str], limits: Limits) -> Result<Read, OverlayError> {
    let mut overlay = Overlay::new(layers.len(), wanted, limits)?;
    let (mut contents, mut order) = (BTreeMap::new(), String::new());
    let summary = loop {
        let mut at = None;
        while let Some(layer) = overlay.next_layer(at) {
            write!(order, "{layer}").unwrap();
            for entry in layers[layer].split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
                let (name, kind, content) = kind(entry);
                if let Some(number) = overlay.entry(layer, name, kind)? {
                    assert!(contents.insert(number, content.to_owned()).is_none());
                }
            }
            at = Some(layer);
        }
        order.push(' ');
        if let Round::Done(summary) = overlay.end_round()? {
            break summary;
        }
    };
    let mut files = Vec::new();
    overlay.files(&mut |path, number| files.push(format!("{path}={}", contents[&number])))?;
    Ok(Read { overlay, summary, files, order: order.trim().to_owned(), kept: contents.len() })
}

fn files(layers: &[&str], wanted: &[&str]) -> String {
    read(layers, wanted, LIMITS).map_or_else(|error| error.to_string(), |read| read.files.join(" "))
}

#[test]
fn later_layers_replace_delete_and_hide() {
    for (case, layers, expected) in [
        ("a name that deletes nothing", vec!["configs/a=1", ".wh."], "configs/a=1"),
        ("one layer", vec!["configs/, configs/a=1, other=2"], "configs/a=1"),
        (
            "names are written in several ways",
            vec!["./configs/a=1, /configs/b=2, configs//./c=3"],
            "configs/a=1 configs/b=2 configs/c=3",
        ),
        ("layers are merged", vec!["configs/a=1", "configs/b=2"], "configs/a=1 configs/b=2"),
        ("a later file counts", vec!["configs/a=1", "configs/a=2", "usr/x=3"], "configs/a=2"),
        ("the last of two entries counts", vec!["configs/a=1, configs/a=2"], "configs/a=2"),
        ("a file is deleted", vec!["configs/a=1, configs/b=2", "configs/.wh.a"], "configs/b=2"),
        ("a folder is deleted", vec!["configs/p/a=1, configs/b=2", "configs/.wh.p"], "configs/b=2"),
        ("deleted and made again later", vec!["configs/a=1", "configs/.wh.a", "configs/a=3"], "configs/a=3"),
        ("deletion counts for earlier layers only", vec!["configs/a=1", "configs/a=2, configs/.wh.a"], "configs/a=2"),
        ("whatever comes first in the layer", vec!["configs/a=1", "configs/.wh.a, configs/a=2"], "configs/a=2"),
        (
            "rm -rf and COPY in two layers",
            vec!["configs/a=1, configs/b=2", ".wh.configs", "configs/c=3"],
            "configs/c=3",
        ),
        ("rm -rf and COPY in one layer", vec!["configs/a=1", ".wh.configs, configs/, configs/c=3"], "configs/c=3"),
        ("opaque", vec!["configs/a=1, configs/p/b=2", "configs/, configs/.wh..wh..opq, configs/c=3"], "configs/c=3"),
        ("opaque after its content", vec!["configs/a=1", "configs/c=3, configs/.wh..wh..opq"], "configs/c=3"),
        ("opaque counts for one folder", vec!["configs/p/a=1, configs/b=2", "configs/p/.wh..wh..opq"], "configs/b=2"),
        ("opaque root", vec!["configs/a=1", ".wh..wh..opq, configs/b=2"], "configs/b=2"),
        (
            "opaque above, merged below",
            vec!["configs/a=0", "configs/.wh..wh..opq, configs/b=1", "configs/c=2"],
            "configs/b=1 configs/c=2",
        ),
        ("a file becomes a folder", vec!["configs/p=1", "configs/p/a=2"], "configs/p/a=2"),
        ("a folder becomes a file", vec!["configs/p/a=1", "configs/p=2"], "configs/p=2"),
        ("and a folder again", vec!["configs/p/a=1", "configs/p=2", "configs/p/b=3"], "configs/p/b=3"),
        ("a folder becomes a file in its layer", vec!["configs/p/a=1, configs/p=2"], "configs/p=2"),
        ("what aufs keeps", vec!["configs/.wh..wh.plnk/1=1, configs/.wh..wh.aufs, configs/a=1"], "configs/a=1"),
        (
            "names that delete nothing",
            vec!["configs/a=1", "configs/.wh., configs/.wh..., configs/.wh.."],
            "configs/a=1",
        ),
    ] {
        assert_eq!(files(&layers, &["/configs"]), expected, "{case}");
    }
}

#[test]
fn links_are_followed_inside_the_image() {
    for (case, layers, expected) in [
        (
            "link to a folder by way of one in it",
            vec!["configs/p -> /opt/x/..", "opt/x/a=1, opt/b=2"],
            "configs/p/b=2 configs/p/x/a=1",
        ),
        ("the folder is a link", vec!["opt/configs/a=1, configs -> /opt/configs"], "configs/a=1"),
        (
            "to what a later layer has",
            vec!["configs -> opt/configs, opt/configs/a=1", "opt/configs/b=2"],
            "configs/a=1 configs/b=2",
        ),
        ("on the way", vec!["configs -> data/x, data -> /opt, opt/x/a=1"], "configs/a=1"),
        ("a later folder replaces the link", vec!["configs -> opt, opt/a=1", "configs/b=2"], "configs/b=2"),
        ("a later file in the folder too", vec!["configs -> opt, opt/a=1", "opt/a=2"], "configs/a=2"),
        ("a folder on the way that is only implied", vec!["x/c/a=1, opt -> x, configs -> opt/c", "opt/y=2"], ""),
        ("absolute links begin at the root of the image", vec!["configs/a -> /etc/a, etc/a=1"], "configs/a=1"),
        ("and no link leads out of it", vec!["configs/a -> ../../../../etc/a, etc/a=1"], "configs/a=1"),
        (
            "up from a link is up from where it leads",
            vec!["configs/a -> l/../b, configs/l -> /opt/x, opt/x/c=0, opt/b=1, configs/b=2"],
            "configs/a=1 configs/b=2 configs/l/c=0",
        ),
        ("link to a file", vec!["configs/a -> b, configs/b=1"], "configs/a=1 configs/b=1"),
        ("link to a link", vec!["configs/a -> b, configs/b -> ../c, c -> d, d=1"], "configs/a=1 configs/b=1"),
        ("link to a folder", vec!["configs/p -> /opt/p, opt/p/q/a=1"], "configs/p/q/a=1"),
        ("link to nothing", vec!["configs/a -> nowhere, configs/b=1"], "configs/b=1"),
        ("link through a file", vec!["configs/a -> b/c, configs/b=1"], "configs/b=1"),
        ("link to what was deleted", vec!["configs/a -> /x, x=1, configs/b=1", ".wh.x"], "configs/b=1"),
        ("link to what was replaced", vec!["configs/a -> /x, x=1", "x=2"], "configs/a=2"),
        ("link that was replaced", vec!["configs/a -> /x, x=1", "configs/a=2"], "configs/a=2"),
        ("link below a link", vec!["configs -> opt/c, opt/c/a -> ../b, opt/b=1"], "configs/a=1"),
    ] {
        assert_eq!(files(&layers, &["/configs"]), expected, "{case}");
    }
    let read = read(&["configs/a -> nowhere, configs/d?, configs/b=1"], &["configs"], LIMITS).unwrap();
    assert_eq!(read.summary.skipped, ["/configs/a is a link to nothing", "/configs/d is a device"]);
    assert_eq!((read.summary.files, read.summary.bytes, read.summary.skipped_count), (1, 1, 2));
}

#[test]
fn hard_link_has_the_content_of_its_own_layer() {
    for (case, layers, expected) in [
        ("to what its own folder was before", vec!["b=1", "x => b", "configs -> b, b/a => x"], "configs/a=1"),
        ("by way of what a later layer makes a link", vec!["c/b=1, configs/b => c/b", "c -> configs"], "configs/b=1"),
        (
            "beside a link to elsewhere",
            vec!["x=1, y=3, configs/b => x", "x=2, configs/l -> /y"],
            "configs/b=1 configs/l=3",
        ),
        ("beside it", vec!["configs/a=1, configs/b => configs/a"], "configs/a=1 configs/b=1"),
        ("elsewhere", vec!["x/a=1, configs/b => x/a"], "configs/b=1"),
        ("with a slash", vec!["x/a=1, configs/b => /x/a"], "configs/b=1"),
        ("in an earlier layer", vec!["x/a=1", "configs/b => x/a"], "configs/b=1"),
        ("replaced later", vec!["configs/a=1, configs/b => configs/a", "configs/a=2"], "configs/a=2 configs/b=1"),
        ("deleted later", vec!["configs/a=1, configs/b => configs/a", "configs/.wh.a"], "configs/b=1"),
        ("elsewhere and replaced later", vec!["x/a=1, configs/b => x/a", "x/a=2"], "configs/b=1"),
        ("of a hard link", vec!["x=1, y => x, configs/b => y"], "configs/b=1"),
        ("of a hard link in an earlier layer", vec!["x=1, y => x", "x=2, configs/b => y", "y=3"], "configs/b=1"),
        ("of a link", vec!["configs/a -> ../x, x=1, configs/p/b => configs/a"], "configs/a=1"),
        (
            "of a link that leads on",
            vec!["configs/a -> x, configs/x=1, configs/b => configs/a"],
            "configs/a=1 configs/b=1 configs/x=1",
        ),
        ("of nothing", vec!["configs/b => x, configs/a=1"], "configs/a=1"),
        ("of a folder", vec!["configs/b => x, x/a=1"], ""),
        ("of what is in the next layer only", vec!["configs/b => x", "x=1"], ""),
        ("a link to it", vec!["configs/a -> ../b, x=1, b => x", "x=2"], "configs/a=1"),
    ] {
        assert_eq!(files(&layers, &["/configs"]), expected, "{case}");
    }
}

#[test]
fn cycles_and_names_that_lead_out_are_errors() {
    for (case, layers, expected) in [
        ("to itself", vec!["configs/a -> a"], "the link \"configs/a\" leads back"),
        ("round", vec!["configs/a -> b, configs/b -> a"], "\"configs/a\" leads back"),
        ("the folder", vec!["configs -> configs"], "\"configs\" leads back"),
        ("to the own folder", vec!["configs/a -> ."], "\"configs/a\" leads back"),
        ("to a folder above", vec!["configs/p/a -> .."], "\"configs/p/a\" leads back"),
        ("to the root", vec!["configs/a -> /"], "\"configs/a\" leads back"),
        ("two folders", vec!["configs/a -> /b, b/c -> /configs"], "\"configs/a/c\" leads back"),
        ("hard links", vec!["configs/a => configs/b, configs/b => configs/a"], "\"configs/a\" leads back"),
        ("hard link and link", vec!["b -> /configs/a, configs/a => b"], "\"configs/a\" leads back"),
        ("name that climbs", vec!["configs/../../etc/x=1"], "leads out of the image"),
        ("elsewhere too", vec!["usr/../x=1"], "leads out of the image"),
        ("hard link that climbs", vec!["configs/a => ../x"], "leads out of the image"),
        (
            "below a link",
            vec!["configs -> opt, configs/a=1"],
            "\"configs/a\" lies in \"configs\", which is a link in the same layer",
        ),
        ("below a file", vec!["configs/a=1, configs/a/b=1"], "which is a file in the same layer"),
        ("a file in place of the folder", vec!["configs=1"], "\"configs\" is no directory"),
        ("not text", vec!["configs/\u{fffd}=1"], "not UTF-8"),
        ("a null byte", vec!["configs/a\0b=1"], "leads out of the image"),
    ] {
        let text = files(&layers, &["/configs"]);
        assert!(text.contains(expected), "{case}: {text}");
    }
    assert_eq!(files(&["usr/\u{fffd}=1, usr/a -> a, usr/p -> ., configs/a=1"], &["configs"]), "configs/a=1");
    for directory in ["../configs", "a/../../b", "a\0"] {
        let error = Overlay::new(1, &[directory], LIMITS).unwrap_err();
        assert_eq!(error, OverlayError::BadDirectory(directory.to_owned()));
    }
    // Each round shows one more link.
    let chain: Vec<String> = (0..12).map(|at| format!("d{at} -> d{}/../d{}", at + 1, at + 1)).collect();
    assert_eq!(files(&[&chain.join(",")], &["d0"]), OverlayError::TooManyRounds.to_string());
}

#[test]
fn layers_are_read_from_the_last_one_and_no_more_than_needed() {
    for (case, layers, order, kept) in [
        ("nothing of a file in place of a folder above", vec!["configs/a -> /opt/x/y, opt/x=1"], "0 0", 0),
        ("all, since any may have some of it", vec!["configs/a=1", "usr/x=1", "configs/b=2"], "210", 2),
        ("none below a folder that was made anew", vec!["configs/a=1", ".wh.configs", "configs/b=2"], "21", 1),
        ("nor below an opaque one", vec!["configs/a=1", "configs/.wh..wh..opq, configs/c=1", "configs/b=2"], "21", 2),
        ("what is replaced is not kept", vec!["configs/a=1", "configs/a=2"], "10", 1),
        ("twice for links to elsewhere", vec!["opt/a=1", "configs -> opt"], "1 10", 1),
        ("not for links inside", vec!["configs/a -> b, configs/b=1"], "0", 1),
        ("from its own layer for a hard link", vec!["configs/a=1, configs/b => configs/a", "configs/a=2"], "10 0", 2),
        ("not for a hard link to what is there", vec!["configs/a=1, configs/b => configs/a", "x=2"], "10", 1),
    ] {
        let read = read(&layers, &["/configs"], LIMITS).unwrap();
        assert_eq!((read.order.as_str(), read.kept), (order, kept), "{case}");
    }
    assert_eq!(read(&[], &["configs"], LIMITS).unwrap().summary.missing, ["configs"]);
}

#[test]
fn several_directories_are_told_apart() {
    let layers = ["manifests/a=1, metadata/b=2, tests/c=3, manifests/sub/d=4"];
    let read = read(&layers, &["metadata/", "/manifests", "manifests/sub", "nowhere"], LIMITS).unwrap();
    assert_eq!(read.files.join(" "), "manifests/a=1 manifests/sub/d=4 metadata/b=2");
    assert_eq!(
        (read.summary.found.join(" "), read.summary.missing.join(" ")),
        ("manifests metadata".into(), "nowhere".into())
    );
    assert_eq!(files(&["a=1, b/c=2"], &["/"]), "a=1 b/c=2");
    assert_eq!(files(&["a/b=1, c/d=2, e -> /c"], &["a", "e"]), "a/b=1 e/d=2");
    // A link to what is only on the way to another one.
    assert_eq!(files(&["a/b/c=1, a/d=2, e/l -> /a"], &["a/b", "e"]), "a/b/c=1 e/l/b/c=1 e/l/d=2");
}

#[test]
fn limits_hold_for_files_links_and_names() {
    const LIMITS: Limits = Limits { files: 20_000, ..super::tests::LIMITS };
    let limits = |files: usize, bytes: u64, file_bytes: u64| Limits { files, bytes, file_bytes };
    let refused = |layers: &[&str], limits: Limits| {
        let read = read(layers, &["configs"], limits);
        read.map_or_else(|error| error.to_string(), |read| read.files.join(" "))
    };
    let two = "configs/a=123, configs/b=456, usr/large=1234567";
    assert_eq!(refused(&[two], limits(2, 6, 3)), "configs/a=123 configs/b=456");
    for (limits, expected) in [
        (limits(1, 6, 3), "more than 1 files there"),
        (limits(2, 5, 3), "more than 5 bytes there"),
        (limits(2, 6, 2), "\"configs/a\" has 3 bytes, and a file may have 2"),
    ] {
        let text = refused(&[two], limits);
        assert!(text.contains(expected) && text.contains("raise the limit"), "{text}");
    }
    // What is kept and not used in the end counts too: it is on the disk.
    assert!(refused(&["configs/a=123, configs/a=456"], limits(9, 5, 5)).contains("more than 5 bytes"));
    assert!(refused(&["configs/a=1, configs/a=2, configs/a=3"], limits(2, 5, 5)).contains("more than 2 files"));
    // Nor is everything looked for because of a link to the root.
    assert!(refused(&["configs/a -> /, usr/b=123456"], limits(9, 5, 5)).contains("leads back"));
    // Links that multiply: each folder has the one below it twice.
    let folders: Vec<String> =
        (0..30).map(|at| format!("configs/{at}/x -> ../{}, configs/{at}/y -> ../{}", at + 1, at + 1)).collect();
    let doubled = folders.join(",") + ",configs/30/a=1";
    assert!(refused(&[&doubled], limits(500, 1 << 20, 9)).contains("more than 500 files"));
    assert!(refused(&[&doubled], limits(100_000, 300, 9)).contains("more than 300 bytes"));
    let empty = folders.join(",") + ",configs/30/";
    assert_eq!(refused(&[&empty], LIMITS), OverlayError::Tangled.to_string());
    // Names cost memory, whatever they are names of.
    for entry in ["configs/{}/", "configs/.wh.{}", "configs/{} -> x", "configs/{} => x", "configs/{}?"] {
        let many: Vec<String> = (0..40_000).map(|at| entry.replace("{}", &at.to_string())).collect();
        let text = refused(&[&many.join(",")], LIMITS);
        assert!(text.contains("more than 5120000 bytes of names"), "{entry}: {text}");
    }
    let targets: Vec<String> = (0..1400).map(|at| format!("configs/{at} -> {}", "x".repeat(4000))).collect();
    assert!(refused(&[&targets.join(",")], LIMITS).contains("bytes of names"));
    // Names that no file can have, and what takes long to sort out.
    let long = format!("usr/{}", "x".repeat(4096));
    assert!(refused(&[&long], LIMITS).contains("a name of 4100 bytes and 2 parts, and 4096 and 255 are the most"));
    assert!(refused(&[&"x/".repeat(256)], LIMITS).contains("511 bytes and 256 parts"));
    let target = format!("configs/a -> {0}, configs/b => {0}, configs/c=1", "x".repeat(4097));
    assert_eq!(refused(&[&target], LIMITS), "configs/c=1");
    let many: Vec<String> = (0..10_000).map(|at| format!("configs/d/{at}=")).collect();
    let (many, again) = (many.join(","), vec!["configs/d="; 200].join(","));
    assert_eq!(refused(&[&again, &many], LIMITS), OverlayError::Tangled.to_string());
    let elsewhere: Vec<String> = (0..40_000).map(|at| format!("usr/{at}/")).collect();
    let read = read(&[&elsewhere.join(",")], &["configs"], LIMITS).unwrap();
    assert!(read.overlay.names < 1000, "nothing is kept of what is elsewhere: {}", read.overlay.names);
}
