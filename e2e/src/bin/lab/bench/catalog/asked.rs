//! What clients ask for: packages through the API server, and gRPC, of which only the frames are read, so that what is measured is the
//! server.

use anyhow::{Context, ensure};
use kube::Client;
use kube::client::Body;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// The bytes before each message: whether it is compressed, and its length.
const HEADER: usize = 5;

/// An answer over gRPC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Answer {
    pub messages: usize,
    /// Of all messages.
    pub bytes: usize,
}

/// Messages as they come, in pieces of any size.
#[derive(Debug, Default)]
struct Frames {
    answer: Answer,
    header: Vec<u8>,
    /// Of the message that is being read.
    left: usize,
}

impl Frames {
    fn take(&mut self, mut piece: &[u8]) {
        while !piece.is_empty() {
            let part = if self.left > 0 { self.left } else { HEADER - self.header.len() };
            let (now, later) = piece.split_at(part.min(piece.len()));
            piece = later;
            if self.left > 0 {
                self.left -= now.len();
                continue;
            }
            self.header.extend(now);
            if let [_, length @ ..] = self.header.as_slice()
                && let Ok(length) = <[u8; 4]>::try_from(length)
            {
                self.left = u32::from_be_bytes(length) as usize;
                self.answer.messages += 1;
                self.answer.bytes += self.left;
                self.header.clear();
            }
        }
    }

    fn is_whole(&self) -> bool {
        self.left == 0 && self.header.is_empty()
    }
}

/// Asks a method without arguments of the catalog that `host` names.
pub(super) async fn call(address: SocketAddr, host: &str, method: &str) -> anyhow::Result<Answer> {
    let client = reqwest::Client::builder().no_proxy().http2_prior_knowledge().resolve(host, address).build()?;
    let request = client.post(format!("http://{host}:{}/api.Registry/{method}", address.port()));
    let request = request.header("content-type", "application/grpc").header("te", "trailers");
    let mut response = request.body(vec![0; HEADER]).send().await?.error_for_status()?;
    // An answer without messages has its status among its headers.
    let status = response.headers().get("grpc-status").map(|status| status.to_str().map(str::to_owned));
    ensure!(status.is_none(), "{method} answers with the status {status:?}: {:?}", response.headers());
    let mut frames = Frames::default();
    while let Some(piece) = response.chunk().await? {
        frames.take(&piece);
    }
    ensure!(frames.is_whole(), "the answer of {method} ends within a message");
    Ok(frames.answer)
}

/// Asks the API server, and reads the whole answer.
pub(super) async fn text(client: &Client, path: &str, accept: &str) -> anyhow::Result<(Duration, String)> {
    let request = http::Request::get(path).header("accept", accept).body(Body::empty())?;
    let begun = Instant::now();
    let response = client.send(request).await?;
    let status = response.status();
    let bytes = response.into_body().collect_bytes().await?;
    let took = begun.elapsed();
    let text = String::from_utf8(bytes.into()).context("the answer is not text")?;
    ensure!(status.is_success(), "{path}: {status}: {text}");
    Ok((took, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_counted_however_they_come() {
        let bytes = [&[0, 0, 0, 0, 3][..], b"abc", &[0, 0, 0, 0, 0], &[0, 0, 0, 1, 0], &[7; 256]].concat();
        for size in [1, 2, 7, 300] {
            let mut frames = Frames::default();
            bytes.chunks(size).for_each(|piece| frames.take(piece));
            assert_eq!((frames.answer, frames.is_whole()), (Answer { messages: 3, bytes: 259 }, true), "{size}");
            frames.take(&[0]);
            assert!(!frames.is_whole());
        }
    }
}
