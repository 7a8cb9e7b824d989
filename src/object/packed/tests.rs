use super::*;
use proptest::prelude::*;

#[test]
fn large_text_is_compressed_and_restored() {
    let text = "description: what this field is about\n".repeat(4000).into_bytes();
    let packed = Packed::from(text.clone());
    assert!(packed.stored.len() < text.len() / 8, "{}", packed.stored.len());
    assert_eq!(packed.bytes().as_ref(), text);
    assert_eq!(packed, Packed::from(text));
    let small = Packed::from(&b"{}"[..]);
    assert!(matches!(small.bytes(), Cow::Borrowed(b"{}")));
}

proptest! {
    /// Random bytes do not shrink and are stored uncompressed.
    #[test]
    fn any_bytes_are_restored(bytes in prop::collection::vec(any::<u8>(), 0..20_000), times in 1_usize..4) {
        let bytes = bytes.repeat(times);
        prop_assert_eq!(Packed::from(bytes.clone()).bytes().into_owned(), bytes);
    }
}
