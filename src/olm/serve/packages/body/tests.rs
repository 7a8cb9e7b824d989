use super::*;
use flate2::read::GzDecoder;
use std::io::Read;

/// Bytes that do not repeat soon.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1_u32;
    let next = |state: &mut u32| {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next(&mut state)).collect()
}

async fn read(body: Body) -> Result<Vec<u8>, axum::Error> {
    axum::body::to_bytes(body, usize::MAX).await.map(Vec::from)
}

/// Written in small parts.
async fn written(bytes: Vec<u8>, accepts_gzip: bool) -> Written {
    let write = move |out: &mut Sink| bytes.chunks(100).try_for_each(|part| out.write_all(part));
    Writers::default().write(Answer::List, accepts_gzip, write).await.unwrap()
}

#[tokio::test]
async fn short_answer_is_sent_as_a_whole_with_its_length() {
    for length in [0, 1, WHOLE] {
        let answer = written(noise(length), true).await;
        assert_eq!(
            (answer.is_gzip, axum::body::HttpBody::size_hint(&answer.body).exact()),
            (false, Some(length as u64))
        );
        assert_eq!(read(answer.body).await.unwrap(), noise(length));
    }
}

#[tokio::test]
async fn long_answer_is_sent_in_pieces_and_compressed_if_the_client_wants_that() {
    for length in [WHOLE + 1, 10 * WHOLE + 7] {
        let plain = written(noise(length), false).await;
        assert!(!plain.is_gzip);
        assert_eq!(read(plain.body).await.unwrap(), noise(length));
        let packed = written(noise(length), true).await;
        assert!(packed.is_gzip);
        let (packed, mut bytes) = (read(packed.body).await.unwrap(), Vec::new());
        GzDecoder::new(packed.as_slice()).read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, noise(length));
    }
}

#[tokio::test]
async fn failure_is_an_error_and_never_looks_like_the_end() {
    let failing = |length: usize| {
        move |out: &mut Sink| {
            out.write_all(&noise(length))?;
            Err(io::Error::other("the disk is gone"))
        }
    };
    let early = Writers::default().write(Answer::Single, false, failing(10)).await;
    assert!(matches!(early, Err(WriteError::Failed(cause)) if cause.contains("the disk is gone")));
    for gzip in [false, true] {
        let late = Writers::default().write(Answer::List, gzip, failing(20 * WHOLE)).await.unwrap();
        read(late.body).await.unwrap_err();
    }
    let panicking = Writers::default().write(Answer::Single, false, |_: &mut Sink| panic!("a fault")).await;
    assert!(matches!(panicking, Err(WriteError::Failed(_))));
}

#[tokio::test]
async fn client_that_is_gone_or_does_not_read_ends_the_writing() {
    let writers = Writers::default();
    for _ in 0..3 * WRITERS {
        let (ended, wait) = oneshot::channel();
        let write = move |out: &mut Sink| {
            let written = (0..).try_for_each(|_| out.write_all(&[0; 1000]));
            let _sent = ended.send(());
            written
        };
        drop(writers.write(Answer::List, false, write).await.unwrap());
        wait.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn lists_are_written_a_few_at_once_and_keep_no_place_from_single_packages() {
    let writers = Writers::default();
    let mut kept = Vec::new();
    for _ in 0..WRITERS {
        kept.push(writers.place(Answer::List).await.unwrap());
    }
    let busy = writers.write(Answer::List, false, |_: &mut Sink| Ok(())).await;
    assert!(matches!(busy, Err(WriteError::Busy)));
    assert_eq!(writers.read(|| Ok(7)).await.unwrap(), 7);
    kept.pop();
    assert!(writers.write(Answer::List, false, |_: &mut Sink| Ok(())).await.is_ok());
}
