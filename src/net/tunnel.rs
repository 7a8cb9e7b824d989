//! TCP connections, by the method CONNECT of an HTTP proxy where the settings name one for the address. The connector of the HTTP
//! library does not serve here: it loses what the server says first if that comes with the answer of the proxy, and servers of HTTP/2 do
//! speak first.

use super::proxy::Proxies;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::percent_decode_str;
use std::io;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use url::Url;

/// Most bytes of what a proxy says before the connection begins.
const MAX_HEAD: usize = 8 << 10;

/// Connects to `host:port`.
///
/// # Errors
/// One of the connection, or why the proxy does not make one.
pub(crate) async fn connect(proxies: &Proxies, address: &str) -> io::Result<TcpStream> {
    let url = Url::parse(&format!("http://{address}")).ok();
    let way = url.and_then(|url| Some((proxies.of(&url)?, authority(&url))));
    let Some((proxy, address)) = way else { return TcpStream::connect(address).await };
    let place = authority(&proxy);
    let connected = through(&place, credentials(&proxy), &address).await;
    connected.map_err(|error| io::Error::new(error.kind(), format!("the proxy {place} does not lead there: {error}")))
}

/// `host:port` without user and password, and without anything that could end a line.
fn authority(url: &Url) -> String {
    format!("{}:{}", url.host_str().unwrap_or_default(), url.port_or_known_default().unwrap_or(80))
}

async fn through(proxy: &str, credentials: Option<String>, address: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(proxy).await?;
    let shown = credentials.map(|shown| format!("Proxy-Authorization: {shown}\r\n")).unwrap_or_default();
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n{shown}\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    // Byte by byte, because what follows is of the connection.
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= MAX_HEAD {
            return Err(io::Error::other(format!("it answers with more than {MAX_HEAD} bytes of headers")));
        }
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head);
    let line = head.lines().next().unwrap_or_default();
    match line.split_whitespace().nth(1).and_then(|code| code.parse::<u16>().ok()) {
        Some(200..=299) => Ok(stream),
        _ => Err(io::Error::other(format!("it answers {line:?}"))),
    }
}

/// As the URL of the proxy has them.
fn credentials(proxy: &Url) -> Option<String> {
    let decoded = |text| percent_decode_str(text).collect::<Vec<u8>>();
    let (user, password) = (decoded(proxy.username()), decoded(proxy.password().unwrap_or_default()));
    let text = || format!("Basic {}", STANDARD.encode([user.as_slice(), b":", &password].concat()));
    (!user.is_empty()).then(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;

    /// A proxy that answers so and then sends `hello`; returns its address and what it was asked.
    async fn proxy(answer: &'static str) -> (String, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let asked = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.unwrap());
            }
            stream.write_all(format!("HTTP/1.1 {answer}\r\n\r\nhello").as_bytes()).await.unwrap();
            String::from_utf8(head).unwrap()
        });
        (address, asked)
    }

    #[tokio::test]
    async fn address_is_reached_through_the_proxy_with_its_credentials() {
        let (address, asked) = proxy("200 OK").await;
        let proxies = Proxies::for_grpc(&format!("http://me:p%40ss@{address}"), "direct.example").unwrap();
        let mut stream = connect(&proxies, "catalog.exa\r\nmple:50051").await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
        let asked = asked.await.unwrap().to_lowercase();
        assert!(asked.starts_with("connect catalog.example:50051 http/1.1\r\n"), "{asked}");
        let shown = STANDARD.encode("me:p@ss").to_lowercase();
        assert!(asked.contains(&format!("proxy-authorization: basic {shown}\r\n")), "{asked}");
    }

    #[tokio::test]
    async fn proxy_that_refuses_is_named_without_its_password() {
        let (address, _asked) = proxy("403 Forbidden").await;
        let proxies = Proxies::for_grpc(&format!("http://me:secret@{address}"), "").unwrap();
        let error = connect(&proxies, "catalog.example:50051").await.unwrap_err().to_string();
        assert!(error.contains(&address) && error.contains("403") && !error.contains("secret"), "{error}");
    }

    #[tokio::test]
    async fn what_needs_no_proxy_is_reached_directly() {
        let server = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = server.local_addr().unwrap().to_string();
        // Nobody listens there.
        let proxies = Proxies::for_grpc("http://127.0.0.1:1", "").unwrap();
        assert!(connect(&proxies, &address).await.is_ok(), "it is this machine");
        let none = Proxies::for_grpc("", "").unwrap();
        assert!(connect(&none, &address).await.is_ok());
        assert!(connect(&proxies, "catalog.example:50051").await.unwrap_err().to_string().contains("127.0.0.1:1"));
    }
}
