use super::*;
use kube::client::Body;
use serde_json::json;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An API server that knows the tokens `good`, of a user with the right, and `weak`, of one without. `away` makes it fail.
fn api_server(asked: Arc<AtomicUsize>) -> kube::Client {
    let (mock, mut requests) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    tokio::spawn(async move {
        while let Some((request, respond)) = requests.next_request().await {
            asked.fetch_add(1, Ordering::SeqCst);
            let path = request.uri().path().to_owned();
            let body: Value = serde_json::from_slice(&request.into_body().collect_bytes().await.unwrap()).unwrap();
            let spec = &body["spec"];
            let (code, answer) = match path.as_str() {
                "/apis/authentication.k8s.io/v1/tokenreviews" => match spec["token"].as_str().unwrap() {
                    // Of a service account, for the metrics: a server that knows audiences, and one that does not.
                    token if token.contains('.') => {
                        assert_eq!(spec["audiences"], json!([METRICS_AUDIENCE]));
                        let audiences = token.starts_with("aware").then_some(&spec["audiences"]);
                        let user = json!({"username": "good", "uid": "1", "groups": ["g"], "extra": {"e": ["x"]}});
                        (
                            201,
                            json!({"spec": {}, "status": {"authenticated": true, "user": user, "audiences": audiences}}),
                        )
                    }
                    "away" => (500, json!({"kind": "Status", "code": 500, "message": "secret of the server"})),
                    token @ ("good" | "weak") => {
                        let user = json!({"username": token, "uid": "1", "groups": ["g"], "extra": {"e": ["x"]}});
                        (201, json!({"spec": {}, "status": {"authenticated": true, "user": user}}))
                    }
                    _ => (201, json!({"spec": {}, "status": {"error": "unknown token"}})),
                },
                "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
                    let user = spec["user"].as_str().unwrap();
                    assert_eq!(spec["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
                    assert_eq!(
                        (&spec["uid"], &spec["groups"], &spec["extra"]),
                        (&json!("1"), &json!(["g"]), &json!({"e": ["x"]}))
                    );
                    (201, json!({"spec": {}, "status": {"allowed": user == "good"}}))
                }
                other => panic!("{other}"),
            };
            let body = Body::from(answer.to_string().into_bytes());
            respond.send_response(::http::Response::builder().status(code).body(body).unwrap());
        }
    });
    kube::Client::new(mock, "default")
}

fn caller(token: Option<&str>, identity: Option<String>) -> Caller {
    use rustls::pki_types::pem::PemObject;
    let chain = identity.map(|pem| CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect());
    Caller {
        address: std::net::Ipv4Addr::LOCALHOST.into(),
        chain: chain.unwrap_or_default(),
        token: token.map(ToOwned::to_owned),
    }
}

fn access(authorities: Result<Authorities, String>) -> (Access, Arc<AtomicUsize>) {
    let asked = Arc::<AtomicUsize>::default();
    (Access::new(watch::channel(authorities).1, api_server(asked.clone())), asked)
}

use crate::serve::certificate::tests::Authority;

#[tokio::test]
async fn certificates_are_judged_without_the_api_server() {
    let (authority, other) = (Authority::new("ca"), Authority::new("other"));
    let (access, asked) = access(Ok(authority.known()));
    let check = async |identity: Option<String>| {
        access.check(caller(None, identity)).await.map_err(|refusal| (refusal.status.as_u16(), refusal.cause))
    };
    assert_eq!(check(Some(authority.client(PROMETHEUS))).await, Ok(()));
    let (status, cause) = check(None).await.unwrap_err();
    assert!(status == 401 && cause.contains("is required"), "{cause}");
    let (status, cause) = check(Some(other.client(PROMETHEUS))).await.unwrap_err();
    assert!(status == 401 && cause.contains("not trusted"), "{cause}");
    let (status, cause) = check(Some(authority.client("somebody"))).await.unwrap_err();
    assert!(status == 403 && cause.contains("\"somebody\""), "{cause}");
    assert_eq!(asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn authorities_that_cannot_be_used_are_not_the_fault_of_the_client() {
    let authority = Authority::new("ca");
    let (access, _) = access(Err("no bundle".to_owned()));
    let refusal = access.check(caller(None, Some(authority.client(PROMETHEUS)))).await.unwrap_err();
    assert!(refusal.status == 500 && refusal.cause.contains("no bundle"), "{refusal:?}");
    assert_eq!(access.check(caller(Some("good"), Some(authority.client(PROMETHEUS)))).await, Ok(()));
}

#[tokio::test]
async fn tokens_are_reviewed_once_for_a_time() {
    let (access, asked) = access(Err("no bundle".to_owned()));
    let check = async |token: &str| {
        let answer = access.check(caller(Some(token), None)).await;
        (answer.map_err(|refusal| (refusal.status.as_u16(), refusal.cause)), asked.swap(0, Ordering::SeqCst))
    };
    assert_eq!(check("good").await, (Ok(()), 2));
    assert_eq!(check("good").await, (Ok(()), 0));
    for reviews in [2, 0] {
        let (answer, asked) = check("weak").await;
        let (status, cause) = answer.unwrap_err();
        assert!(status == 403 && cause.contains("\"weak\"") && asked == reviews, "{status} {cause} {asked}");
    }
    for reviews in [1, 0] {
        let (answer, asked) = check("unknown").await;
        assert!(answer.unwrap_err().0 == 401 && asked == reviews, "{asked}");
    }
    // Nothing is known after a failure, and what the server says of it is not for the client.
    for _ in 0..2 {
        let (answer, asked) = check("away").await;
        let (status, cause) = answer.unwrap_err();
        assert!(status == 503 && !cause.contains("secret") && asked == 1, "{status} {cause} {asked}");
    }
    for number in 0..20 {
        assert!(check(&number.to_string()).await.0.is_err());
    }
    let (answer, asked) = check("yet another").await;
    assert_eq!((answer.unwrap_err().0, asked), (429, 0));
    assert_eq!(check("good").await, (Ok(()), 0));
}

#[tokio::test]
async fn token_for_the_metrics_alone_is_reviewed_as_such() {
    use base64::Engine;
    let token = |server: &str, audience: &str| {
        let claims = json!({"aud": [audience], "exp": 4_000_000_000_i64}).to_string();
        format!("{server}.{}.signature", base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(claims))
    };
    let (access, _) = access(Err("no bundle".to_owned()));
    access.check(caller(Some(&token("aware", METRICS_AUDIENCE)), None)).await.unwrap();
    let refusal = access.check(caller(Some(&token("unaware", METRICS_AUDIENCE)), None)).await.unwrap_err();
    assert_eq!(refusal.status.as_u16(), 401, "nobody has looked at whom it is for");
    assert!(
        !tokens::is_for_metrics(&token("aware", "https://kubernetes.default.svc")) && !tokens::is_for_metrics("good")
    );
}

#[test]
fn bundle_of_the_config_map_is_named_in_errors() {
    for data in [json!({}), json!({"client-ca-file": 1}), json!({"client-ca-file": "junk"})] {
        let error = parse(&json!({"data": data})).unwrap_err();
        assert!(error.starts_with("client-ca-file: "), "{error}");
    }
}
