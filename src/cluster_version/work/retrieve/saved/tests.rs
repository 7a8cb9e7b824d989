use super::*;
use crate::verify::fixtures::{Signer, digest as signed, now, verifier};

fn digest(hex: &str) -> Digest {
    Digest::parse(&format!("sha256:{hex}")).unwrap()
}

fn keys(map: &Value) -> Vec<&str> {
    map["binaryData"].as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn signatures_are_added_to_those_that_are_there() {
    let none = BTreeSet::new();
    let first = with(None, &digest("ab"), &[b"one".to_vec()], &none).unwrap();
    assert_eq!(keys(&first), ["sha256-ab-0"]);
    assert_eq!(first.pointer("/metadata/labels").unwrap(), &json!({SIGNATURES_LABEL: ""}));
    assert_eq!(with(Some(&first), &digest("ab"), &[b"one".to_vec()], &none), None, "it has it already");
    let second = with(Some(&first), &digest("ab"), &[b"one".to_vec(), b"two".to_vec()], &none).unwrap();
    let third = with(Some(&second), &digest("cd"), &[b"three".to_vec()], &none).unwrap();
    assert_eq!(keys(&third), ["sha256-ab-0", "sha256-ab-1", "sha256-cd-0"]);
    assert_eq!(third["binaryData"]["sha256-ab-1"], json!(STANDARD.encode(b"two")));
}

#[test]
fn label_that_somebody_has_removed_comes_back_and_other_content_stays() {
    let none = BTreeSet::new();
    let live = json!({"metadata": {"name": NAME, "labels": {"a": "b"}}, "binaryData": {"sha256-ab-0": STANDARD.encode(b"one")},
        "data": {"x": "y"}});
    let next = with(Some(&live), &digest("ab"), &[b"one".to_vec()], &none).unwrap();
    assert_eq!(next.pointer("/metadata/labels").unwrap(), &json!({"a": "b", SIGNATURES_LABEL: ""}));
    assert_eq!((&next["binaryData"], &next["data"]), (&live["binaryData"], &live["data"]));
}

#[test]
fn digests_are_limited_and_those_of_the_history_stay() {
    let history = BTreeSet::from([digest("ffff"), digest("eeee")]);
    let mut map = with(None, &digest("ffff"), &[b"a".to_vec()], &history).unwrap();
    map = with(Some(&map), &digest("eeee"), &[b"b".to_vec()], &history).unwrap();
    for number in 0..MAX_DIGESTS + 10 {
        let hex = format!("{number:04}");
        map = with(Some(&map), &digest(&hex), &[hex.as_bytes().to_vec()], &history).unwrap();
        assert!(keys(&map).contains(&format!("sha256-{hex}-0").as_str()), "the newest stays");
    }
    let kept = keys(&map);
    assert_eq!(kept.len(), MAX_DIGESTS);
    assert!(kept.contains(&"sha256-ffff-0") && kept.contains(&"sha256-eeee-0"), "{kept:?}");
}

#[test]
fn signatures_take_no_more_room_than_a_config_map_has() {
    let history = BTreeSet::from([digest("ffff"), digest("eeee")]);
    let large = |content: u8| vec![vec![content; MAX_SIGNATURE]; 2];
    let mut map = with(None, &digest("ffff"), &large(254), &history).unwrap();
    map = with(Some(&map), &digest("eeee"), &large(255), &history).unwrap();
    for number in 0..100 {
        let hex = format!("{number:04}");
        map = with(Some(&map), &digest(&hex), &large(number), &history).unwrap();
        assert!(keys(&map).contains(&format!("sha256-{hex}-0").as_str()), "the newest stays");
        let bytes: usize =
            map["binaryData"].as_object().unwrap().iter().map(|(k, v)| k.len() + v.as_str().unwrap().len()).sum();
        assert!(bytes <= MAX_BYTES, "{number}: {bytes}");
    }
    assert!(keys(&map).contains(&"sha256-ffff-0") && keys(&map).contains(&"sha256-eeee-1"), "{:?}", keys(&map));
}

/// What a store has put between the packets of a signature is gone, and what it has put into them does not fill the ConfigMap.
#[test]
fn signature_is_kept_without_what_it_does_not_need() {
    let signer = Signer::new("a");
    let signature = signer.release(&signed());
    let marker = [&[0xca, 0xff, 0, 0, 0x80, 0][..], &[7; 0x8000]].concat();
    let inflated = [marker.as_slice(), &signature].concat();
    let checked = |bytes: &[u8]| verifier(&[("a", &signer.public())]).check(&signed(), bytes, now()).satisfied.len();
    assert_eq!((checked(&inflated), inflated.len() > MAX_SIGNATURE), (1, true), "it is valid");
    let found = kept(&inflated).unwrap();
    assert_eq!((found.len() <= signature.len() + 20, checked(&found)), (true, 1));
    assert_eq!(kept(&found).as_ref(), Some(&found), "the same again");
    let content = vec![b'x'; MAX_SIGNATURE];
    assert_eq!(kept(&signer.sign_at(&content, now())), None);
}
