use super::*;

/// Expected values from the published FNV-1 test vectors ("", "a", "foobar").
#[test]
fn published_test_vectors() {
    let table: [(&[&[u8]], u64); 3] =
        [(&[], 0xcbf2_9ce4_8422_2325), (&[b"a"], 0xaf63_bd4c_8601_b7be), (&[b"foo", b"bar"], 0x340d_8765_a4dd_a9c2)];
    for (parts, expected) in table {
        let hash = of(parts.iter().copied());
        assert_eq!(URL_SAFE.decode(&hash).unwrap(), expected.to_be_bytes());
        assert_eq!(hash.len(), 12);
    }
}
