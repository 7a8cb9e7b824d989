use super::*;
use crate::testing::registry::{Answer, answer};
use std::net::SocketAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

const TIMES: Times = Times {
    connect: Duration::from_millis(300),
    message: Duration::from_millis(300),
    catalog: Duration::from_secs(3),
    pause: Duration::from_millis(20),
    longest_pause: Duration::from_millis(100),
};

/// Dials the address that the client names.
fn directly() -> Dial {
    Arc::new(|address| Box::pin(TcpStream::connect(address)))
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn wait_for(client: &RegistryClient, state: Connection) -> Channel {
    let mut channel = client.channel();
    while channel.state != state {
        channel = tokio::time::timeout(Duration::from_secs(10), client.changed(&channel)).await.unwrap();
    }
    channel
}

#[tokio::test]
async fn connection_that_fails_stays_failed_until_it_is_there_and_says_why() {
    let (listener, address) = listen().await;
    drop(listener);
    let client = RegistryClient::start(&address.to_string(), directly(), Arc::default(), TIMES);
    assert_eq!(client.channel().address, address.to_string());
    let failed = wait_for(&client, Connection::TransientFailure).await;
    assert!(failed.error.as_ref().is_some_and(|error| error.contains("refused")), "{failed:?}");
    // It is tried again meanwhile.
    tokio::time::sleep(TIMES.longest_pause * 4).await;
    assert_eq!(client.channel(), failed);
}

#[tokio::test]
async fn call_without_a_connection_says_why_there_is_none() {
    let (listener, address) = listen().await;
    drop(listener);
    let client = RegistryClient::start(&address.to_string(), directly(), Arc::default(), TIMES);
    wait_for(&client, Connection::TransientFailure).await;
    let error = client.packages().try_collect::<Vec<_>>().await.unwrap_err();
    let expected = format!("the server of the catalog at {address} is not connected: ");
    assert!(error.to_string().starts_with(&expected), "{error}");
}

#[tokio::test]
async fn server_that_does_not_answer_is_no_connection() {
    let (_listener, address) = listen().await;
    let client = RegistryClient::start(&address.to_string(), directly(), Arc::default(), TIMES);
    let failed = wait_for(&client, Connection::TransientFailure).await;
    let expected = "it did not answer within 300ms; see whether its pods are ready, and whether NetworkPolicies let us connect to them";
    assert_eq!(failed.error.as_deref(), Some(expected));
}

#[tokio::test]
async fn server_that_speaks_another_protocol_is_no_connection() {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            let _ = stream.read(&mut [0; 1024]).await;
        }
    });
    let client = RegistryClient::start(&address.to_string(), directly(), Arc::default(), TIMES);
    assert!(wait_for(&client, Connection::TransientFailure).await.error.is_some());
}

#[tokio::test]
async fn client_that_nobody_has_any_more_does_not_dial() {
    let (listener, address) = listen().await;
    let client = RegistryClient::start(&address.to_string(), directly(), Arc::default(), TIMES);
    let (mut stream, _) = listener.accept().await.unwrap();
    drop(client);
    let closed = async { while stream.read(&mut [0; 1024]).await.is_ok_and(|length| length > 0) {} };
    tokio::time::timeout(Duration::from_secs(10), closed).await.unwrap();
    assert!(tokio::time::timeout(TIMES.longest_pause * 4, listener.accept()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn hint_ends_the_pause_before_it_is_tried_again_but_not_at_once() {
    let times = Times { pause: Duration::from_secs(1), longest_pause: Duration::from_secs(600), ..TIMES };
    let (hint, dialled) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let told = dialled.clone();
    let dial: Dial = Arc::new(move |_| {
        told.notify_one();
        Box::pin(async { Err(io::ErrorKind::ConnectionRefused.into()) })
    });
    let _client = RegistryClient::start("a:1", dial, hint.clone(), times);
    let mut seconds = Vec::new();
    for attempt in 0..4 {
        let begun = tokio::time::Instant::now();
        dialled.notified().await;
        seconds.push(begun.elapsed().as_secs_f64());
        if attempt == 2 {
            hint.notify_one();
        }
    }
    // Without the hint the last pause would be four seconds.
    let expected = [(0.0, 0.1), (1.0, 1.3), (2.0, 2.6), (1.0, 1.1)];
    let within = |(taken, (least, most)): (&f64, &(f64, f64))| taken >= least && taken <= most;
    assert!(seconds.iter().zip(&expected).all(within), "{seconds:?}");
}

#[tokio::test]
async fn message_that_is_too_large_is_refused_with_the_way_out() {
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    // A message begins with a flag and its length.
    let body = [&[0][..], &u32::try_from(MAX_MESSAGE + 1).unwrap().to_be_bytes()].concat();
    let headers = vec![("content-type".to_owned(), "application/grpc".to_owned())];
    let large = Answer { body, headers, ..Answer::default() };
    let _answering = AbortOnDropHandle::new(tokio::spawn(answer(theirs, move |_| large.clone())));
    let client = RegistryClient::over(ours, "a:1", TIMES).await.unwrap();
    let error = client.packages().try_collect::<Vec<_>>().await.unwrap_err();
    let method = "/api.Registry/ListPackages";
    assert_eq!(error, RegistryError::LargeMessage { address: "a:1".to_owned(), method });
    let way_out = "bytes; leave out manifests of bundles that have an image, or split the package";
    assert!(error.to_string().ends_with(way_out), "{error}");
}
