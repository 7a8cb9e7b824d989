use super::super::contents::{decode, verify};
use super::*;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

fn gzip(bytes: &[u8]) -> String {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    format!("data:;base64,{}", STANDARD.encode(encoder.finish().unwrap()))
}

#[test]
fn data_urls_are_decoded() {
    for (source, expected) in [
        ("", &b""[..]),
        ("data:,", b""),
        ("data:,hello%20world%0A", b"hello world\n"),
        ("data:text/plain;charset=utf-8,a+b%2B,c", b"a+b+,c"),
        ("data:;base64,aGVsbG8=", b"hello"),
        ("data:text/plain;charset=utf-8;base64,aGVsbG8=", b"hello"),
        ("data:;base64,aGVsbG8", b"hello"),
        ("data:;base64,aGVs%0Abg%3D%3D", b"heln"),
        ("DATA:,%c3%bC", "ü".as_bytes()),
        ("data:base64,aGVsbG8=", b"aGVsbG8="),
    ] {
        assert_eq!(decode(source, "").as_deref(), Ok(expected), "{source}");
    }
}

#[test]
fn sources_that_need_the_network_or_cannot_be_decoded_are_refused() {
    for (source, expected) in [
        (
            "https://user:secret@a.example/b",
            "has the scheme \"https\", and a node must not need the network for its files; put the contents in a data: URL",
        ),
        ("s3://bucket/key", "has the scheme \"s3\", and a node must not need the network"),
        ("hello", "is not a data: URL; write data:,TEXT or data:;base64,TEXT"),
        ("data:hello", "is not a data: URL; write data:,TEXT or data:;base64,TEXT"),
        (
            "data:,50%",
            "has a % at byte 3 after the comma that is not followed by two hexadecimal digits; write %25 for the character itself",
        ),
        ("data:,%zz", "has a % at byte 1 after the comma that"),
        ("data:;base64,***", "cannot be decoded from base64: "),
    ] {
        let error = error(json!({"storage": {"files": [{"path": "/etc/a", "contents": {"source": source}}]}}));
        assert!(error.starts_with(&format!("storage.files[/etc/a].contents {expected}")), "{error}");
        assert!(!error.contains("secret"));
    }
}

#[test]
fn compressed_contents_are_decompressed() {
    assert_eq!(decode(&gzip(b"hello"), "gzip").as_deref(), Ok(&b"hello"[..]));
    assert_eq!(decode(&gzip(b"hello"), "").unwrap()[..2], [0x1f, 0x8b]);
    assert!(matches!(decode("data:,hello", "gzip"), Err(ContentsError::Gzip(_))));
    assert_eq!(decode("data:,hello", "xz"), Err(ContentsError::Compression("xz".to_owned())));
}

#[test]
fn decoded_files_are_bounded_one_by_one_and_together() {
    let full = gzip(&vec![0; MAX_FILE_BYTES]);
    let over = gzip(&vec![0; MAX_FILE_BYTES + 1]);
    assert_eq!(decode(&full, "gzip").map(|bytes| bytes.len()), Ok(MAX_FILE_BYTES));
    assert_eq!(decode(&over, "gzip"), Err(ContentsError::TooLarge));
    let file = |at| json!({"path": format!("/etc/{at}"), "contents": {"source": full, "compression": "gzip"}});
    read(json!({"storage": {"files": [file(1), file(2)]}}));
    assert_eq!(
        error(json!({"storage": {"files": [file(1), file(2), {"path": "/etc/3", "contents": {"source": "data:,3"}}]}})),
        "storage.files: the files together have more than 64 MiB when they are decoded; keep large files in an image"
    );
    let appended = json!({"path": "/etc/a", "contents": {"source": "data:,a"}, "append": [{"source": full, "compression": "gzip"}]});
    assert_eq!(
        error(json!({"storage": {"files": [appended]}})),
        "storage.files[/etc/a] has more than 32 MiB when it is decoded; keep large files in an image"
    );
}

#[test]
fn contents_are_compared_with_their_hash() {
    const SHA256: &str = "sha256-2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
    assert_eq!(verify(b"hello", SHA256), Ok(()));
    assert_eq!(verify(b"Hello", SHA256), Err(ContentsError::OtherHash));
    for hash in ["sha256-00", "md5-5d41402abc4b2a76b9719d911017c592", "2cf2", "sha512-zz"] {
        assert_eq!(verify(b"hello", hash), Err(ContentsError::Hash), "{hash}");
    }
    let contents = json!({"source": "data:,Hello", "verification": {"hash": SHA256}});
    assert_eq!(
        error(json!({"storage": {"files": [{"path": "/etc/a", "contents": contents}]}})),
        "storage.files[/etc/a].contents has not the hash of verification.hash; correct the hash or the contents"
    );
}

#[test]
fn headers_for_a_server_are_refused() {
    let contents = json!({"source": "data:,a", "httpHeaders": [{"name": "a", "value": "b"}]});
    assert_eq!(
        error(json!({"storage": {"files": [{"path": "/etc/a", "contents": contents}]}})),
        "storage.files[/etc/a]: httpHeaders are sent to a server, and a data: URL has none; remove them"
    );
}
