//! Whole signatures against whole keyrings.

use super::*;
use crate::verify::fixtures::{Signer, digest, now, verifier};
use crate::verify::message as build;
use sequoia_openpgp::packet::signature::SignatureBuilder;
use sequoia_openpgp::serialize::SerializeInto;
use sequoia_openpgp::types::{ReasonForRevocation, SignatureType};
use std::time::{Duration, SystemTime};

const A: &str = "verifier-public-key-a";
const B: &str = "verifier-public-key-b";

fn only_cause(checked: &Checked) -> &str {
    assert_eq!(checked.satisfied, Vec::<String>::new());
    let [cause] = checked.refused.as_slice() else { panic!("{checked:?}") };
    cause
}

#[test]
fn a_good_signature_satisfies_its_keyring_and_no_other() {
    let (a, b) = (Signer::new("a"), Signer::new("b"));
    let verifier = verifier(&[("a", &a.public()), ("b", &b.public())]);
    let checked = verifier.check(&digest(), &a.release(&digest()), now());
    assert_eq!(checked.satisfied, [A]);
    let [cause] = checked.refused.as_slice() else { panic!("{checked:?}") };
    assert!(cause.starts_with(B) && cause.contains("not in the keyring"), "{cause}");
}

#[test]
fn one_keyring_may_hold_several_keys_armored_one_after_the_other() {
    let (a, b) = (Signer::new("a"), Signer::new("b"));
    let both = format!("first\n{}\nsecond\n{}", a.public(), b.public());
    let verifier = verifier(&[("a", &both)]);
    for signer in [&a, &b] {
        assert_eq!(verifier.check(&digest(), &signer.release(&digest()), now()).satisfied, [A]);
    }
}

#[test]
fn every_tampered_byte_is_noticed() {
    let a = Signer::new("a");
    let verifier = verifier(&[("a", &a.public())]);
    let good = a.release(&digest());
    assert_eq!(verifier.check(&digest(), &good, now()).satisfied, [A]);
    // Bytes of the signed content: find the digest in the message and change it.
    let at = good.windows(6).position(|w| w == b"e3f125").unwrap();
    for offset in [at, at + 20] {
        let mut bad = good.clone();
        bad[offset] ^= 1;
        assert_ne!(only_cause(&verifier.check(&digest(), &bad, now())), "");
    }
    for cut in 0..good.len() {
        assert_eq!(verifier.check(&digest(), &good[..cut], now()).satisfied, Vec::<String>::new(), "cut at {cut}");
    }
}

#[test]
fn the_digest_and_the_shape_of_the_content_count() {
    let a = Signer::new("a");
    let verifier = verifier(&[("a", &a.public())]);
    let other = Digest::parse("sha256:00").unwrap();
    let cause = verifier.check(&other, &a.release(&digest()), now());
    assert!(only_cause(&cause).contains("not for sha256:00"), "{cause:?}");

    let text = String::from_utf8(build(&digest(), "r/a:1", now(), "x")).unwrap();
    let strange = text.replacen("{\"critical\"", "{\"extra\":1,\"critical\"", 1);
    let cause = verifier.check(&digest(), &a.sign_at(strange.as_bytes(), now()), now());
    assert!(only_cause(&cause).contains("unknown field `extra`"), "{cause:?}");
    let cause = verifier.check(&digest(), &a.sign_at(b"hello", now()), now());
    assert!(only_cause(&cause).contains("JSON"), "{cause:?}");
}

/// A literal packet with the right content.
fn literal() -> Vec<u8> {
    let mut body = vec![b'b', 0, 0, 0, 0, 0];
    body.extend_from_slice(&build(&digest(), "r/a:1", now(), "x"));
    body
}

#[test]
fn a_message_without_a_signature_is_refused_by_both_lines_of_defence() {
    let a = Signer::new("a");
    let mut message = vec![0xcb, 0xff];
    message.extend_from_slice(&u32::try_from(literal().len()).unwrap().to_be_bytes());
    message.extend_from_slice(&literal());
    let checked = verifier(&[("a", &a.public())]).check(&digest(), &message, now());
    assert!(only_cause(&checked).contains("not signed"), "{checked:?}");
    // The keyring itself demands a signature, whatever came before it.
    let keyring = Keyring::parse(a.public().as_bytes()).unwrap();
    let error = keyring.signed_content(&message, now()).unwrap_err();
    assert!(error.contains("not exactly one signed content"), "{error}");
}

#[test]
fn a_message_as_go_writes_it_verifies() {
    let a = Signer::new("a");
    let good = packets::canonical(&a.release(&digest())).unwrap();
    // Rewrite the literal packet (one-pass signature first, literal second) into chunks of 2, 64 and the rest.
    let one_pass = 6 + usize::try_from(u32::from_be_bytes(good[2..6].try_into().unwrap())).unwrap();
    assert_eq!(good[one_pass], 0xcb);
    let length = u32::from_be_bytes(good[one_pass + 2..one_pass + 6].try_into().unwrap());
    let start = one_pass + 6;
    let end = start + usize::try_from(length).unwrap();
    let mut chunked = good[..one_pass].to_vec();
    chunked.extend_from_slice(&[0xcb, 0xe1]);
    chunked.extend_from_slice(&good[start..start + 2]);
    chunked.push(0xe6);
    chunked.extend_from_slice(&good[start + 2..start + 66]);
    chunked.push(0xff);
    chunked.extend_from_slice(&(length - 66).to_be_bytes());
    chunked.extend_from_slice(&good[start + 66..end]);
    chunked.extend_from_slice(&good[end..]);
    assert_eq!(verifier(&[("a", &a.public())]).check(&digest(), &chunked, now()).satisfied, [A]);
}

#[test]
fn a_revoked_key_does_not_count_even_for_signatures_that_claim_to_be_older() {
    let mut a = Signer::new("a");
    let signature = a.release(&digest());
    let mut primary = a.cert.primary_key().key().clone().parts_into_secret().unwrap().into_keypair().unwrap();
    let builder = sequoia_openpgp::cert::CertRevocationBuilder::new()
        .set_signature_creation_time(SystemTime::from(now()))
        .unwrap()
        .set_reason_for_revocation(ReasonForRevocation::KeyRetired, b"retired")
        .unwrap();
    let revocation = builder.build(&mut primary, &a.cert, None).unwrap();
    a.cert = a.cert.clone().insert_packets(vec![revocation]).unwrap().0;
    let later = now() + Duration::from_secs(60);
    let checked = verifier(&[("a", &a.public())]).check(&digest(), &signature, later);
    assert!(only_cause(&checked).contains("revoked"), "{checked:?}");
}

#[test]
fn a_signature_with_a_lifetime_ends() {
    let a = Signer::new("a");
    let content = build(&digest(), "r/a:1", now(), "x");
    let template = SignatureBuilder::new(SignatureType::Binary);
    let template = template.set_signature_validity_period(Duration::from_secs(60)).unwrap();
    let bytes = a.sign(&content, now(), template);
    let verifier = verifier(&[("a", &a.public())]);
    assert_eq!(verifier.check(&digest(), &bytes, now() + Duration::from_secs(30)).satisfied, [A]);
    let late = verifier.check(&digest(), &bytes, now() + Duration::from_secs(90));
    assert!(only_cause(&late).contains("Expired"), "{late:?}");
}

#[test]
fn a_verification_needs_every_keyring_and_says_which_is_missing() {
    let (a, b, foreign) = (Signer::new("a"), Signer::new("b"), Signer::new("foreign"));
    let verifier = verifier(&[("a", &a.public()), ("b", &b.public())]);
    let mut verification = verifier.begin(&digest());
    verification.record("https://store", "connection refused", now());
    assert!(!verification.offer("s/1", &foreign.release(&digest()), now()));
    assert!(!verification.offer("s/2", &a.release(&digest()), now()));
    assert_eq!(verification.unsatisfied().collect::<Vec<_>>(), [B]);

    let error = verification.clone().finish(now()).unwrap_err();
    let text = error.to_string();
    let VerifyError::Unverified { unsatisfied, causes, .. } = error else { panic!("{text}") };
    assert_eq!(unsatisfied, [B]);
    assert_eq!(causes.len(), 4, "{causes:?}");
    assert!(text.starts_with(&format!("unable to verify {} against keyrings {B}: 2026-03-01T00:00:00Z: ", digest())));
    assert!(text.contains("https://store: connection refused"), "{text}");

    assert!(verification.offer("s/3", &b.release(&digest()), now()));
    let verified = verification.finish(now()).unwrap();
    assert_eq!(verified.signatures.len(), 2);
    assert_eq!(verified.keyrings.get(A).map(String::as_str), Some("s/2"));
}

#[test]
fn causes_are_bounded() {
    let a = Signer::new("a");
    let mut verification = verifier(&[("a", &a.public())]).begin(&digest());
    for n in 0..1000 {
        verification.offer(&format!("s/{n}"), b"junk", now());
    }
    let Err(VerifyError::Unverified { causes, .. }) = verification.finish(now()) else { panic!() };
    assert_eq!(causes.len(), MAX_CAUSES + 1);
    assert!(causes.last().unwrap().text.starts_with("936 more"), "{causes:?}");
}

#[test]
fn garbage_never_panics_and_never_satisfies() {
    let a = Signer::new("a");
    let verifier = verifier(&[("a", &a.public())]);
    let good = a.release(&digest());
    // Any change of a byte that matters must be refused; the others (hints of the one-pass packet, the unhashed area)
    // change nothing that is believed. What must hold for all: no panic, and never another content than ours.
    let mut state = 1u64;
    let mut random = || {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        usize::try_from(state >> 33).unwrap()
    };
    let other = Digest::parse("sha256:00").unwrap();
    for _ in 0..2000 {
        let mut bytes = good.clone();
        for _ in 0..1 + random() % 4 {
            let at = random() % bytes.len();
            match random() % 3 {
                0 => bytes[at] = u8::try_from(random() % 256).unwrap(),
                1 => drop(bytes.remove(at)),
                _ => bytes.insert(at, u8::try_from(random() % 256).unwrap()),
            }
        }
        assert_eq!(verifier.check(&other, &bytes, now()).satisfied, Vec::<String>::new());
        let _ = Keyring::parse(&bytes);
    }
    let key = a.cert.to_vec().unwrap();
    for _ in 0..300 {
        let mut bytes = key.clone();
        let at = random() % bytes.len();
        bytes[at] = u8::try_from(random() % 256).unwrap();
        if let Ok(keyring) = Keyring::parse(&bytes) {
            let _ = keyring.signed_content(&good, now());
        }
    }
}

/// Real signatures, when a folder with `keyrings/` and `signatures/` in store layout is given: a release key that
/// binds itself with SHA-1 and signs with version 3 packets inside ZIP, and messages written by Go.
#[test]
fn real_signatures() {
    let Ok(folder) = std::env::var("CVO_SIGNATURE_DATA") else {
        println!("skipped: CVO_SIGNATURE_DATA names no folder with real signatures");
        return;
    };
    let folder = std::path::Path::new(&folder);
    let mut found = 0;
    for entry in std::fs::read_dir(folder.join("signatures")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let digest = Digest::parse(&name.replacen('=', ":", 1)).unwrap();
        let signature = std::fs::read(entry.path().join("signature-1")).unwrap();
        let mut satisfied = Vec::new();
        for keyring in std::fs::read_dir(folder.join("keyrings")).unwrap() {
            let keyring = keyring.unwrap();
            let verifier = verifier(&[("real", &std::fs::read_to_string(keyring.path()).unwrap())]);
            let checked = verifier.check(&digest, &signature, now());
            println!("{digest} {:?} {checked:?}", keyring.file_name());
            satisfied.extend(checked.satisfied);
        }
        // One keyring of its own and the combined one.
        assert_eq!(satisfied.len(), 2, "{digest}");
        found += 1;
    }
    assert!(found > 0);
}
