//! Tests with whole signatures and keyrings.

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
fn valid_signature_satisfies_its_keyring_only() {
    let (a, b) = (Signer::new("a"), Signer::new("b"));
    let verifier = verifier(&[("a", &a.public()), ("b", &b.public())]);
    let checked = verifier.check(&digest(), &a.release(&digest()), now());
    assert_eq!(checked.satisfied, [A]);
    let [cause] = checked.refused.as_slice() else { panic!("{checked:?}") };
    assert!(cause.starts_with(B) && cause.contains("not in the keyring"), "{cause}");
}

#[test]
fn keyring_may_have_several_armored_keys() {
    let (a, b) = (Signer::new("a"), Signer::new("b"));
    let both = format!("first\n{}\nsecond\n{}", a.public(), b.public());
    let verifier = verifier(&[("a", &both)]);
    for signer in [&a, &b] {
        assert_eq!(verifier.check(&digest(), &signer.release(&digest()), now()).satisfied, [A]);
    }
}

#[test]
fn tampered_signature_is_refused() {
    let a = Signer::new("a");
    let verifier = verifier(&[("a", &a.public())]);
    let good = a.release(&digest());
    assert_eq!(verifier.check(&digest(), &good, now()).satisfied, [A]);
    // Change the digest in the signed content.
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
fn signed_content_must_be_for_the_digest_and_well_formed() {
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

/// The body of a literal packet with valid content.
fn literal() -> Vec<u8> {
    let mut body = vec![b'b', 0, 0, 0, 0, 0];
    body.extend_from_slice(&build(&digest(), "r/a:1", now(), "x"));
    body
}

#[test]
fn message_without_a_signature_is_refused() {
    let a = Signer::new("a");
    let mut message = vec![0xcb, 0xff];
    message.extend_from_slice(&u32::try_from(literal().len()).unwrap().to_be_bytes());
    message.extend_from_slice(&literal());
    let checked = verifier(&[("a", &a.public())]).check(&digest(), &message, now());
    assert!(only_cause(&checked).contains("not signed"), "{checked:?}");
    // The keyring requires a signature as well, even without the check before it.
    let keyring = Keyring::parse(a.public().as_bytes()).unwrap();
    let error = keyring.signed_content(&message, now()).unwrap_err();
    assert!(error.contains("not exactly one signed content"), "{error}");
}

#[test]
fn message_with_partial_lengths_as_go_writes_it_is_accepted() {
    let a = Signer::new("a");
    let good = packets::canonical(&a.release(&digest())).unwrap();
    // Rewrite the literal packet, the second one, into chunks of 2, 64 and the remaining bytes.
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
fn revoked_key_is_refused_even_for_older_signatures() {
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
fn expired_signature_is_refused() {
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
fn every_keyring_needs_a_signature_and_missing_ones_are_named() {
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
    assert_eq!(verification.satisfied.iter().collect::<Vec<_>>(), [A, B]);
    assert_eq!(verification.finish(now()), Ok(()));
}

#[test]
fn number_of_causes_is_limited() {
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
fn store_that_fails_a_thousand_times_leaves_room_for_what_others_say() {
    let mut verification = verifier(&[("a", &Signer::new("a").public())]).begin(&digest());
    for n in 0..1000 {
        verification.record(&format!("https://endless/{n}"), "junk", now());
    }
    for store in ["https://good", "https://other"] {
        verification.record(&format!("{store}/signature-1"), "is by a key that is in no keyring", now());
    }
    let Err(VerifyError::Unverified { causes, .. }) = verification.finish(now()) else { panic!() };
    let of = |store: &str| causes.iter().filter(|cause| cause.source.starts_with(store)).count();
    assert_eq!((of("https://endless/"), of("https://good/"), of("https://other/")), (MAX_CAUSES - 2, 1, 1));
    assert!(causes.last().unwrap().text.starts_with("938 more"), "{causes:?}");
}

#[test]
fn random_changes_neither_panic_nor_satisfy_another_digest() {
    let a = Signer::new("a");
    let verifier = verifier(&[("a", &a.public())]);
    let good = a.release(&digest());
    // Some bytes may change without effect: hints in the one-pass packet, and the unhashed area. But no change may panic or
    // make the signature valid for other content.
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

/// Runs if a folder with `keyrings/` and `signatures/` in store layout is given. Real ones have a release key with a SHA-1
/// self-signature, version 3 signature packets in a ZIP packet, and messages written by Go.
#[test]
fn real_signatures_are_accepted() {
    let Ok(folder) = std::env::var("CVO_SIGNATURE_DATA") else {
        println!("skipped: CVO_SIGNATURE_DATA is not set to a folder with real signatures");
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
        // Its own keyring and the combined one.
        assert_eq!(satisfied.len(), 2, "{digest}");
        found += 1;
    }
    assert!(found > 0);
}

#[test]
fn signature_of_an_image_of_another_repository_is_refused() {
    let signer = Signer::new("one");
    let mut config = Config::default();
    config.add_keyring("k", signer.public().as_bytes()).unwrap();
    let check = |identity: Option<&str>| {
        let config = Config { identity: identity.map(str::to_owned), ..config.clone() };
        Verifier::new(config).check(&digest(), &signer.release(&digest()), now())
    };
    assert_eq!(check(None).satisfied, ["k"]);
    assert_eq!(check(Some("r.example/release")).satisfied, ["k"]);
    let refused = check(Some("r.example/production"));
    assert!(refused.satisfied.is_empty() && refused.refused[0].contains("r.example/production"), "{refused:?}");
}
