//! Servers of catalogs that drip, never end, lie or close the connection.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use cvo::testing::registry::{Answer, answer};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

const PACKAGES: &str = "/api.Registry/ListPackages";
const PACKAGE: &str = "/api.Registry/GetPackage";
const BUNDLES: &str = "/api.Registry/ListBundles";

/// A field of a message: a text.
fn text(number: u8, text: &str) -> Vec<u8> {
    field(number, text.as_bytes())
}

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    out.extend_from_slice(bytes);
    out
}

/// A message as it is sent.
fn framed(message: &[u8]) -> Vec<u8> {
    [&[0], &u32::try_from(message.len()).unwrap().to_be_bytes()[..], message].concat()
}

fn answers(messages: &[(&str, Vec<u8>)]) -> HashMap<String, Answer> {
    let answer = |body: &[u8]| Answer {
        body: body.to_vec(),
        headers: vec![("content-type".into(), "application/grpc".into())],
        trailers: vec![("grpc-status".into(), "0".into())],
        is_endless: false,
    };
    messages.iter().map(|(path, body)| ((*path).to_owned(), answer(body))).collect()
}

async fn serve(answers: HashMap<String, Answer>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answers = answers.clone();
            tokio::spawn(answer(stream, move |path| answers.get(path).cloned().unwrap_or_default()));
        }
    });
    address
}

/// Its packages never end, and each has many channels.
pub(super) async fn endless() -> SocketAddr {
    let channel = [text(1, "stable"), text(2, &"x".repeat(1000))].concat();
    let package = [text(1, "a"), field(2, &channel).repeat(500)].concat();
    let packages = framed(&text(1, "a")).repeat(1000);
    let mut answers = answers(&[(PACKAGES, packages), (PACKAGE, framed(&package))]);
    answers.get_mut(PACKAGES).unwrap().is_endless = true;
    serve(answers).await
}

/// The head of its channel does not exist, and its bundle has no version.
pub(super) async fn lying() -> SocketAddr {
    let channel = [text(1, "stable"), text(2, "a.v9")].concat();
    let package = [text(1, "a"), field(2, &channel), text(3, "stable")].concat();
    let bundle = [text(1, "a.v1"), text(2, "a"), text(3, "stable"), text(6, "r/a:1"), text(9, "newest")].concat();
    serve(answers(&[(PACKAGES, framed(&text(1, "a"))), (PACKAGE, framed(&package)), (BUNDLES, framed(&bundle))])).await
}

/// It sends a message that is longer than any.
pub(super) async fn large() -> SocketAddr {
    let head = [&[0], &(1_u32 << 30).to_be_bytes()[..]].concat();
    serve(answers(&[(PACKAGES, head)])).await
}

/// A byte now and then of frames that say nothing.
pub(super) async fn dripping() -> SocketAddr {
    raw(&[0, 0, 0, 4, 0, 0, 0, 0, 0], Duration::from_millis(100)).await
}

/// What is no HTTP/2 at all, and then the end.
pub(super) async fn closing() -> SocketAddr {
    raw(b"HTTP/1.1 400 Bad Request\r\n\r\n", Duration::ZERO).await
}

async fn raw(bytes: &'static [u8], pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                for byte in bytes.iter().cycle().take(if pause.is_zero() { bytes.len() } else { usize::MAX }) {
                    if stream.write_all(&[*byte]).await.is_err() {
                        break;
                    }
                    tokio::time::sleep(pause).await;
                }
            });
        }
    });
    address
}
