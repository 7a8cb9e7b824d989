use super::*;
use flate2::{Compression, write::DeflateEncoder, write::ZlibEncoder};
use std::io::Write;

const SIG: [u8; 3] = [0xc2, 1, 7];
const PLAIN_SIG: [u8; 7] = [0xc2, 0xff, 0, 0, 0, 1, 7];

fn message(literal: &[u8]) -> Vec<u8> {
    [literal, &SIG].concat()
}

#[test]
fn every_form_of_length_is_read() {
    let long = vec![9u8; 300];
    let table: Vec<(Vec<u8>, Vec<u8>)> = vec![
        (vec![0xcb, 2, 1, 2], vec![1, 2]),
        ([&[0xcb, 192, 108][..], &long].concat(), long.clone()),
        ([&[0xcb, 255, 0, 0, 1, 44][..], &long].concat(), long.clone()),
        (vec![0xac, 2, 1, 2], vec![1, 2]),
        ([&[0xad, 1, 44][..], &long].concat(), long.clone()),
        ([&[0xae, 0, 0, 1, 44][..], &long].concat(), long.clone()),
        // A partial chunk of four bytes, one of one byte, and the last one, as Go writes them.
        (vec![0xcb, 0xe2, 1, 2, 3, 4, 0xe0, 5, 1, 6], vec![1, 2, 3, 4, 5, 6]),
        (vec![0xcb, 0xe0, 1, 0], vec![1]),
    ];
    for (literal, body) in table {
        let mut expected = vec![0xcb, 0xff];
        expected.extend_from_slice(&u32::try_from(body.len()).unwrap().to_be_bytes());
        expected.extend_from_slice(&body);
        expected.extend_from_slice(&PLAIN_SIG);
        assert_eq!(canonical(&message(&literal)), Ok(expected), "{literal:?}");
    }
}

#[test]
fn one_layer_of_compression_is_removed_up_to_a_limit() {
    let inner = message(&[0xcb, 1, 5]);
    let plain = canonical(&inner).unwrap();
    let zip = |data: &[u8]| {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(data).unwrap();
        encoder.finish().unwrap()
    };
    let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
    zlib.write_all(&inner).unwrap();
    // Legacy header of indeterminate length, as release signatures have.
    for (algorithm, data) in [(0, inner.clone()), (1, zip(&inner)), (2, zlib.finish().unwrap())] {
        assert_eq!(canonical(&[&[0xa3, algorithm][..], &data].concat()), Ok(plain.clone()), "{algorithm}");
    }
    let twice = [&[0xa3, 1][..], &zip(&[&[0xa3, 1][..], &zip(&inner)].concat())].concat();
    assert_eq!(canonical(&twice), Err(PacketError::Tag(COMPRESSED)));
    let bomb = [&[0xa3, 1][..], &zip(&vec![0; 20 << 20])].concat();
    assert!(bomb.len() < MAX_SIGNATURE_BYTES);
    assert_eq!(canonical(&bomb), Err(PacketError::Expands));
    assert_eq!(canonical(&[0xa3, 3, 1]), Err(PacketError::Compression(3)));
    assert!(matches!(canonical(&[0xa3, 1, 0xff, 0xff]), Err(PacketError::Inflate(_))));
    assert_eq!(canonical(&[0xa3]), Err(PacketError::Truncated(COMPRESSED)));
}

#[test]
fn anything_but_a_signed_message_is_refused() {
    let many: Vec<u8> = SIG.repeat(MAX_PACKETS + 1);
    let table: Vec<(Vec<u8>, PacketError)> = vec![
        (vec![], PacketError::Empty),
        (vec![0xcb, 1, 5], PacketError::Unsigned),
        (b"-----BEGIN PGP MESSAGE-----".to_vec(), PacketError::Armored),
        (b"{}".to_vec(), PacketError::NoPacket(0)),
        ([&SIG[..], b"x"].concat(), PacketError::NoPacket(3)),
        (vec![0xcb, 5, 1], PacketError::Truncated(LITERAL)),
        (vec![0xcb, 0xff, 0xff, 0xff, 0xff, 0xff], PacketError::Truncated(LITERAL)),
        (vec![0xcb, 0xfe, 1], PacketError::Truncated(LITERAL)),
        (vec![0xc2, 0xe0, 1, 0], PacketError::Streamed(SIGNATURE)),
        (vec![0x8b, 1], PacketError::Streamed(SIGNATURE)),
        (message(&[0xd2, 1, 1]), PacketError::Tag(18)),
        (many, PacketError::TooMany),
        (vec![0xc2; MAX_SIGNATURE_BYTES + 1], PacketError::TooLarge(MAX_SIGNATURE_BYTES + 1)),
    ];
    for (bytes, error) in table {
        assert_eq!(canonical(&bytes), Err(error));
    }
}
