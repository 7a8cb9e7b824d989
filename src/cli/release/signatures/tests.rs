use super::*;
use crate::net::signatures;
use crate::verify::MAX_SIGNATURE_BYTES;
use crate::verify::fixtures::{Signer, digest as signed, now};
use serde_json::{Value, json};

fn keyring(folder: &Path, name: &str, signer: &Signer) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, signer.public()).unwrap();
    path
}

fn candidate(source: &str, signature: Vec<u8>) -> Found {
    Found::Candidate { source: source.to_owned(), signature }
}

#[test]
fn every_keyring_needs_a_signature_and_each_place_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two, other) = (Signer::new("one"), Signer::new("two"), Signer::new("other"));
    let files = [keyring(folder.path(), "one.asc", &one), keyring(folder.path(), "two.asc", &two)];
    let config = keyrings(&files).unwrap();
    let names: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    let found = |last: Vec<u8>| {
        vec![
            candidate("a", one.release(&signed())),
            candidate("b", other.release(&signed())),
            Found::Nothing { source: "c".to_owned() },
            candidate("d", last),
        ]
    };
    let refused = report(&signed(), &config, found(b"nonsense".to_vec()), now());
    assert!(!refused.verified);
    assert_eq!(refused.keyrings[&names[0]], ["a"]);
    assert_eq!(refused.keyrings[&names[1]], Vec::<String>::new());
    let shown = text(&refused);
    assert!(shown.starts_with(&format!("{} is NOT verified\n", signed())), "{shown}");
    for part in ["two.asc: no good signature", "  b: ", "  c: no signature of this digest", "  d: "] {
        assert!(shown.contains(part), "{part}: {shown}");
    }

    let verified = report(&signed(), &config, found(two.release(&signed())), now());
    assert!(verified.verified && text(&verified).contains("is verified\n"));
    let json = serde_json::to_value(&verified).unwrap();
    assert_eq!(json["keyrings"][&names[1]], json!(["d"]));
    assert_eq!(json["attempts"].as_array().map(Vec::len), Some(4));
    assert_eq!(json.pointer("/verified"), Some(&Value::Bool(true)));

    let mut unread = found(b"nonsense".to_vec());
    unread.push(Found::Failure { source: "e".to_owned(), cause: "connection refused".to_owned() });
    let unknown = report(&signed(), &config, unread, now());
    assert!((unknown.verified, unknown.unknown) == (false, true) && !refused.unknown, "e may have the other signature");
    assert!(text(&unknown).contains("could NOT be verified: not everything could be read\n"), "{}", text(&unknown));
    let mut enough = found(two.release(&signed()));
    enough.push(Found::Failure { source: "e".to_owned(), cause: "connection refused".to_owned() });
    let enough = report(&signed(), &config, enough, now());
    assert_eq!((enough.verified, enough.unknown), (true, false));

    let elsewhere = Digest::parse("sha256:ab").unwrap();
    assert!(!report(&elsewhere, &config, found(two.release(&signed())), now()).verified, "signed is another digest");
    assert!(!report(&signed(), &Config::default(), found(Vec::new()), now()).verified, "without keyrings nothing is");
}

#[tokio::test]
async fn keyrings_stores_and_signatures_that_cannot_be_read_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let junk = folder.path().join("junk.asc");
    std::fs::write(&junk, "junk").unwrap();
    let secret = folder.path().join("secret");
    for (path, part) in [(&junk, "junk.asc is not a keyring"), (&secret, "cannot read keyring")] {
        let error = crate::error::chain(keyrings(std::slice::from_ref(path)).unwrap_err().as_ref());
        assert!(error.contains(part), "{error}");
    }
    std::fs::write(&secret, vec![0; MAX_SIGNATURE_BYTES + 1]).unwrap();
    let signature = async |path: &Path| signatures::from_file(path).await;
    assert!(matches!(signature(&secret).await, Found::Failure { cause, .. } if cause.contains("larger than")));
    assert!(
        matches!(signature(&folder.path().join("none")).await, Found::Failure { cause, .. } if cause.contains("read"))
    );
    for given in ["ftp://a/b", "no/such/folder", &junk.display().to_string()] {
        let error = stores(&[given.to_owned()]).unwrap_err().to_string();
        assert!(error.contains("--store") && error.contains(given), "{error}");
    }
    let dir = stores(&[folder.path().display().to_string()]).unwrap();
    assert!(matches!(dir.as_slice(), [Store::File(_)]), "{dir:?}");
}
