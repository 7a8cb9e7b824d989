use super::*;
use axum::Router;
use axum::http::HeaderMap;
use axum::routing::get as get_handler;
use std::net::SocketAddr;

async fn serve(router: Router) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn agent(headers: &HeaderMap) -> String {
    headers.get("user-agent").unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn read_is_bounded_and_error_names_url_and_cause() {
    let router = Router::new()
        .route("/agent", get_handler(|headers: HeaderMap| async move { agent(&headers) }))
        .route("/big", get_handler(|| async { vec![b'x'; 100] }));
    let base = format!("http://{}", serve(router).await);
    let client = client("5.0.1", &Egress::default()).unwrap();
    let body = get_bounded(&client, &format!("{base}/agent"), 100).await.unwrap();
    assert_eq!(String::from_utf8(body).unwrap(), "ClusterVersionOperator/5.0.1");

    let url = format!("{base}/big");
    assert_eq!(get_bounded(&client, &url, 100).await.unwrap().len(), 100);
    assert_eq!(get_bounded(&client, &url, 99).await, Err(HttpError::TooLarge { url: url.clone(), max: 99 }));
    let url = format!("{base}/none");
    let error = get_bounded(&client, &url, 99).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().contains(&url), "{error}");

    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let url = format!("http://{free}/x");
    let text = get_bounded(&client, &url, 99).await.unwrap_err().to_string();
    assert!(text.contains(&url) && text.to_lowercase().contains("connection refused"), "{text}");
    let text = get_bounded(&client, "no url", 99).await.unwrap_err().to_string();
    assert!(text.starts_with("GET no url: "), "{text}");
}

async fn get_it(url: &str) -> Result<Response, HttpError> {
    get(&client("1", &Egress::default()).unwrap(), url, &Get::default(), 100).await
}

#[tokio::test]
async fn redirects_are_followed_three_times() {
    let hop = |to: String| get_handler(move || async move { axum::response::Redirect::temporary(&to) });
    let router = Router::new()
        .route("/for-ever", hop("/for-ever".into()))
        .route("/4", hop("/3".into()))
        .route("/3", hop("/2".into()))
        .route("/2", hop("/1".into()))
        .route("/1", hop("/end".into()))
        .route("/end", get_handler(|| async { "there" }));
    let base = format!("http://{}", serve(router).await);
    assert_eq!(get_it(&format!("{base}/3")).await.unwrap().body, b"there");
    for path in ["4", "for-ever"] {
        let error = get_it(&format!("{base}/{path}")).await.unwrap_err().to_string();
        assert!(error.contains("more than 3 redirects"), "{error}");
    }
}

/// A server with TLS and a certificate for this name, and the certificate to trust.
pub(crate) async fn serve_tls(name: &str, router: Router) -> (SocketAddr, Bundle) {
    let (tls, pem) = crate::serve::tls::tests::current(&[name]);
    let acceptor = tokio_rustls::TlsAcceptor::from(tls.config());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, router) = (acceptor.clone(), router.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = hyper_util::service::TowerToHyperService::new(router);
                let io = hyper_util::rt::TokioIo::new(stream);
                let builder = hyper_util::server::conn::auto::Builder::new(hyper_util::rt::TokioExecutor::new());
                let _ended = builder.serve_connection(io, service).await;
            });
        }
    });
    (address, Bundle { pem, origin: "ConfigMap ns/ca".to_owned() })
}

#[tokio::test]
async fn redirect_from_https_to_http_is_not_followed() {
    let plain = serve(Router::new().route("/", get_handler(|| async { "plain" }))).await;
    let to = format!("http://{plain}/");
    let router = Router::new()
        .route("/", get_handler(move || async move { axum::response::Redirect::temporary(&to) }))
        .route("/secure", get_handler(|| async { axum::response::Redirect::temporary("/end") }))
        .route("/end", get_handler(|| async { "there" }));
    let (address, bundle) = serve_tls("localhost", router).await;
    let egress = Egress { proxy: None, roots: Roots::Only(bundle) };
    let client = client("1", &egress).unwrap();
    let url = |path: &str| format!("https://localhost:{}{path}", address.port());
    let error = get(&client, &url("/"), &Get::default(), 100).await.unwrap_err().to_string();
    assert!(error.contains("from https to http"), "{error}");
    assert_eq!(get(&client, &url("/secure"), &Get::default(), 100).await.unwrap().body, b"there");
}

#[test]
fn addresses_of_this_machine_and_its_link_are_known() {
    let local = |text: &str| is_local(&Url::parse(text).unwrap());
    for url in [
        "http://localhost/",
        "http://a.LOCALHOST./",
        "http://127.9.9.9:1/",
        "http://2130706433/",
        "http://0.0.0.0/",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://[::]/",
        "http://[fe80::1]/",
        "http://[::ffff:169.254.169.254]/",
    ] {
        assert!(local(url), "{url}");
    }
    for url in ["http://example.com/", "http://localhost.example.com/", "http://10.0.0.1/", "http://[2001:db8::1]/"] {
        assert!(!local(url), "{url}");
    }
}

#[tokio::test]
async fn redirect_to_this_machine_from_elsewhere_is_not_followed() {
    let there = serve(Router::new().route("/", get_handler(|| async { "there" }))).await;
    let to = format!("http://{there}/");
    let elsewhere = get_handler(move || async move { axum::response::Redirect::temporary(&to) });
    let server = serve(Router::new().route("/", elsewhere)).await;
    let egress = Egress::default();
    // The name stands for a server elsewhere.
    let address = Some(("updates.example.com", server.ip()));
    let purpose = Purpose { version: "1", egress: &egress, more_roots: None, address, timeout: TIMEOUT };
    let read = async |host: &str| {
        let url = format!("http://{host}:{}/", server.port());
        get(&build(&purpose).unwrap(), &url, &Get::default(), 100).await
    };
    let error = read("updates.example.com").await.unwrap_err().to_string();
    assert!(error.contains("to this machine"), "{error}");
    assert_eq!(read("127.0.0.1").await.unwrap().body, b"there", "a local server may");
}

#[tokio::test]
async fn trusted_cas_are_those_of_the_bundle_and_those_added() {
    let (address, bundle) = serve_tls("localhost", Router::new().route("/", get_handler(|| async { "there" }))).await;
    let (_, other) = crate::serve::tls::tests::current(&["other"]);
    let other = || Roots::Only(Bundle { pem: other.clone(), origin: String::new() });
    let url = format!("https://localhost:{}/", address.port());
    let read = async |roots: Roots, more_roots: Option<&Bundle>| {
        let egress = Egress { proxy: None, roots };
        let purpose = Purpose { version: "1", egress: &egress, more_roots, address: None, timeout: TIMEOUT };
        get(&build(&purpose).unwrap(), &url, &Get::default(), 100).await
    };
    assert!(read(other(), None).await.unwrap_err().to_string().contains("certificate"));
    for (roots, more) in [(Roots::Only(bundle.clone()), None), (Roots::System, Some(&bundle)), (other(), Some(&bundle))]
    {
        assert_eq!(read(roots, more).await.unwrap().body, b"there");
    }
}

#[test]
fn bundle_without_usable_certificates_is_refused_with_its_place() {
    for pem in
        ["nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "-----BEGIN CERTIFICATE-----\n!"]
    {
        let bundle = Bundle { pem: pem.into(), origin: "ConfigMap ns/ca".into() };
        let error = client("1", &Egress { proxy: None, roots: Roots::Only(bundle) }).unwrap_err();
        assert!(matches!(&error, HttpError::TrustBundle(text) if text.starts_with("ConfigMap ns/ca: ")), "{error}");
    }
    // One that cannot be used does not spoil the others.
    let (_, good) = crate::serve::tls::tests::current(&["a"]);
    let pem = format!("# comment\n-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n{good}");
    assert!(client("1", &Egress { proxy: None, roots: Roots::Only(Bundle { pem, origin: String::new() }) }).is_ok());
}

#[tokio::test]
async fn request_has_headers_and_unchanged_content_is_not_sent_again() {
    async fn answer(headers: HeaderMap) -> axum::response::Response {
        use axum::response::IntoResponse;
        let sent = |name: &str| headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        if sent("if-none-match") == "\"tag\"" {
            return StatusCode::NOT_MODIFIED.into_response();
        }
        ([("etag", "\"tag\"")], format!("{} {}", sent("accept"), sent("authorization"))).into_response()
    }
    let url = format!("http://{}/", serve(Router::new().route("/", get_handler(answer))).await);
    let client = client("1", &Egress::default()).unwrap();
    let what = Get { accept: "application/json", known: None, token: Some("secret") };
    let first = get(&client, &url, &what, 100).await.unwrap();
    assert_eq!(String::from_utf8(first.body).unwrap(), "application/json Bearer secret");
    assert_eq!((first.tag.as_deref(), first.unchanged), (Some("\"tag\""), false));
    let again = get(&client, &url, &Get { known: first.tag.as_deref(), ..what }, 100).await.unwrap();
    assert_eq!((again.unchanged, again.body), (true, Vec::new()));
}

#[tokio::test]
async fn other_status_than_200_is_an_error_with_what_the_server_says() {
    let reply = |status: u16, body: &'static str| {
        let status = StatusCode::from_u16(status).unwrap();
        get_handler(move || async move { (status, [("retry-after", "7")], body) })
    };
    let router = Router::new()
        .route("/kind", reply(400, r#"{"kind":"missing_params","value":"mandatory client parameters"}"#))
        .route("/text", reply(503, "over\n  loaded"))
        .route("/created", reply(201, "{}"))
        .route("/not-modified", reply(304, ""))
        .route("/huge", get_handler(|| async { (StatusCode::BAD_GATEWAY, "x".repeat(1 << 20)) }));
    let base = format!("http://{}", serve(router).await);
    let table = [
        ("kind", "the server answered 400 Bad Request: missing_params: mandatory client parameters"),
        ("text", "the server answered 503 Service Unavailable: over loaded"),
        ("created", "the server answered 201 Created: {}"),
        ("not-modified", "the server answered 304 Not Modified"),
    ];
    for (path, expected) in table {
        let error = get_it(&format!("{base}/{path}")).await.unwrap_err();
        assert!(error.to_string().ends_with(expected), "{error}");
        assert!(matches!(error, HttpError::Status { retry_after: Some(after), .. } if after.as_secs() == 7));
    }
    let error = get_it(&format!("{base}/huge")).await.unwrap_err();
    assert!(matches!(&error, HttpError::Status { body, .. } if body.len() == 16 << 10));
    assert!(error.to_string().len() < 1000);
}

#[test]
fn retry_after_is_a_number_or_a_date() {
    let now: Timestamp = "2023-11-14T22:13:20Z".parse().unwrap();
    for (text, seconds) in [
        ("120", Some(120)),
        (" 5 ", Some(5)),
        ("Tue, 14 Nov 2023 22:14:20 GMT", Some(60)),
        ("Tue, 14 Nov 2023 22:00:00 GMT", Some(0)),
        ("soon", None),
        ("-5", None),
        ("", None),
    ] {
        let headers = HeaderMap::from_iter([(RETRY_AFTER, text.parse().unwrap())]);
        assert_eq!(retry_after(&headers, now), seconds.map(Duration::from_secs), "{text}");
    }
    assert_eq!(retry_after(&HeaderMap::new(), now), None);
}

/// Answers everything with the request line and the proxy's credentials that came with it.
async fn proxy() -> SocketAddr {
    async fn answer(uri: axum::http::Uri, headers: HeaderMap) -> String {
        let credentials = headers.get("proxy-authorization").map_or("", |value| value.to_str().unwrap());
        format!("{uri} {credentials}")
    }
    serve(Router::new().fallback(answer)).await
}

#[tokio::test]
async fn proxy_gets_the_request_with_its_credentials() {
    let proxy = proxy().await;
    let through = async |credentials: &str, none: &str| {
        let settings =
            ProxySettings { http: format!("http://{credentials}{proxy}"), https: String::new(), none: none.into() };
        let client = client("1", &Egress { proxy: Some(settings), roots: Roots::System }).unwrap();
        get(&client, "http://service.invalid/graph", &Get::default(), 100)
            .await
            .map(|r| String::from_utf8(r.body).unwrap())
    };
    assert_eq!(through("", "").await.unwrap(), "http://service.invalid/graph ");
    // user:secret in base 64.
    assert_eq!(through("user:secret@", "").await.unwrap(), "http://service.invalid/graph Basic dXNlcjpzZWNyZXQ=");
    let error = through("", ".invalid").await.unwrap_err();
    assert!(matches!(error, HttpError::Transport { .. }), "reached directly: {error}");
    let settings = ProxySettings { http: "socks5://h".into(), ..ProxySettings::default() };
    let error = client("1", &Egress { proxy: Some(settings), roots: Roots::System }).unwrap_err();
    assert!(matches!(error, HttpError::Proxy(_)), "{error}");
}

#[test]
fn way_to_a_server_is_told_without_the_password_of_the_proxy() {
    let settings =
        ProxySettings { http: "http://user:secret@p.lab:1".into(), https: String::new(), none: "near".into() };
    let egress = Egress { proxy: Some(settings), roots: Roots::System };
    assert_eq!(egress.way_to("http://far/x"), "through the proxy p.lab");
    assert_eq!(egress.way_to("http://near/x"), "directly, without a proxy");
    assert_eq!(Egress::default().way_to("http://far/x"), "directly, without a proxy");
}

#[tokio::test]
async fn body_that_never_ends_is_given_up_after_the_timeout() {
    async fn drip() -> axum::body::Body {
        let drops = futures::stream::unfold((), |()| async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Some((Ok::<_, std::convert::Infallible>("x"), ()))
        });
        axum::body::Body::from_stream(drops)
    }
    let url = format!("http://{}/", serve(Router::new().route("/", get_handler(drip))).await);
    let (egress, timeout) = (Egress::default(), Duration::from_millis(300));
    let client = build(&Purpose { version: "1", egress: &egress, more_roots: None, address: None, timeout }).unwrap();
    let read = tokio::time::timeout(Duration::from_secs(30), get(&client, &url, &Get::default(), 1 << 20)).await;
    assert!(matches!(read, Ok(Err(HttpError::Body { .. }))), "{read:?}");
}
