//! Who may read the metrics, by certificates and tokens of a real API server.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use e2e::harness::{Cluster, Leaf, audit, files};
use e2e::services::monitoring::PROMETHEUS;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::until::until;
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use rcgen::{KeyPair, SigningKey};
use serde_json::{Value, json};

/// Namespace of the service accounts.
const NAMESPACE: &str = "default";

/// The daemon's metrics, and a cluster to change.
struct Metrics {
    url: String,
}

impl Metrics {
    /// Status and text for a client with this certificate and this token.
    async fn get(&self, leaf: Option<&Leaf>, token: Option<&str>) -> (u16, String) {
        let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
        let identity = leaf.map(|leaf| reqwest::Identity::from_pem(leaf.identity().as_bytes()).unwrap());
        let client = identity.into_iter().fold(client, reqwest::ClientBuilder::identity).build().unwrap();
        let request = token.into_iter().fold(client.get(&self.url), |request, token| request.bearer_auth(token));
        let answer = request.send().await.unwrap();
        let (status, text) = (answer.status().as_u16(), answer.text().await.unwrap());
        assert_eq!(status == 200, text.contains("\ncluster_version{"), "{text}");
        (status, text)
    }

    /// Waits for an answer with this status; returns how long that took.
    async fn until(&self, leaf: Option<&Leaf>, token: Option<&str>, status: u16, limit: Duration) -> Duration {
        let begun = Instant::now();
        // Nothing tells what a server believes.
        let answered = async || match self.get(leaf, token).await {
            (found, _) if found == status => Ok(()),
            other => Err(format!("{other:?}")),
        };
        until(format!("an answer with status {status}"), limit).answer(answered).await.unwrap();
        begun.elapsed()
    }
}

/// A token of a new service account, made by the API server.
async fn service_account(cluster: &SimulatedCluster, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let spec = TokenRequestSpec { expiration_seconds: Some(600), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let made = accounts.create_token_request(name, &PostParams::default(), &request).await.unwrap();
    made.status.unwrap().token.unwrap()
}

async fn allow(cluster: &SimulatedCluster, account: &str) {
    let role: ClusterRole = serde_json::from_value(json!({
        "metadata": {"name": "metrics-reader"}, "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }))
    .unwrap();
    let subject = json!({"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE});
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "metrics-reader"}, "subjects": [subject],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "metrics-reader"},
    }))
    .unwrap();
    Api::all(cluster.client.clone()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(cluster.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
}

/// The same token, made anew with the key of the API server, which expires after these seconds from now.
fn made_anew(cluster: &Cluster, token: &str, lifetime: i64) -> String {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1).unwrap()).unwrap();
    let mut claims: Value = serde_json::from_slice(&claims).unwrap();
    let expiry = Timestamp::now().as_second() + lifetime;
    (claims["exp"], claims["iat"], claims["nbf"]) = (json!(expiry), json!(expiry - 600), json!(expiry - 600));
    let header = token.split('.').next().unwrap();
    let signed = format!("{header}.{}", URL_SAFE_NO_PAD.encode(claims.to_string()));
    let key = KeyPair::from_pem(&files::read(&cluster.dir().join("pki/tokens.key")).unwrap()).unwrap();
    let signature = key.sign(signed.as_bytes()).unwrap();
    format!("{signed}.{}", URL_SAFE_NO_PAD.encode(fixed_length(&signature)))
}

/// Two integers of an ECDSA signature in DER, as a token has them: 32 bytes each.
fn fixed_length(der: &[u8]) -> Vec<u8> {
    let (mut rest, mut both) = (&der[2..], Vec::new());
    for _ in 0..2 {
        let (integer, others) = rest[2..].split_at(usize::from(rest[1]));
        let digits = &integer[integer.len().saturating_sub(32)..];
        both.extend(std::iter::repeat_n(0, 32 - digits.len()).chain(digits.iter().copied()));
        rest = others;
    }
    both
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_for_those_whom_the_cluster_knows() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let address = format!("127.0.0.1:{}", cluster.control_plane.port("metrics"));
    cluster.add_arguments(["--listen", address.as_str()]).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let metrics = Metrics { url: format!("https://{address}/metrics") };
    let soon = Duration::from_secs(20);

    let prometheus = cluster.control_plane.client_certificate(PROMETHEUS).unwrap();
    let somebody = cluster.control_plane.client_certificate("somebody").unwrap();
    let (foreign, authority) = cluster.control_plane.untrusted_certificate(PROMETHEUS).unwrap();
    let served = metrics.until(Some(&prometheus), None, 200, soon).await;
    println!("the right certificate is served after {} ms", served.as_millis());
    for (what, leaf, status, part) in [
        ("no certificate", None, 401, "certificate or a bearer token is required"),
        ("wrong authority", Some(&foreign), 401, "not trusted"),
        ("right authority, wrong name", Some(&somebody), 403, "\"somebody\""),
    ] {
        let answer = metrics.get(leaf, None).await;
        println!("{what}: {answer:?}");
        assert!(answer.0 == status && answer.1.contains(part), "{what}: {answer:?}");
    }

    let token = service_account(&cluster, "scraper").await;
    let answer = metrics.get(None, Some(&token)).await;
    println!("token without the right: {answer:?}");
    assert!(answer.0 == 403 && answer.1.contains("system:serviceaccount:default:scraper"), "{answer:?}");
    allow(&cluster, "scraper").await;
    let took = metrics.until(None, Some(&token), 200, soon).await;
    println!("served {} ms after it got the right", took.as_millis());
    assert_eq!(metrics.get(Some(&foreign), Some(&token)).await.0, 200, "a token counts where a certificate does not");
    let alive = made_anew(&cluster.control_plane, &token, 300);
    assert_eq!(metrics.get(None, Some(&alive)).await.0, 200, "only its age is wrong with the next one");
    let expired = made_anew(&cluster.control_plane, &token, -60);
    let answer = metrics.get(None, Some(&expired)).await;
    println!("expired token: {answer:?}");
    assert!(answer.0 == 401 && answer.1.contains("not valid"), "{answer:?}");
    assert_eq!(metrics.get(None, Some("junk")).await.0, 401);

    let reviews = |since: Option<Timestamp>| {
        let all = cluster.requests().unwrap();
        let all = since.map_or_else(|| all.clone(), |since| audit::within(&all, since..Timestamp::now()));
        all.iter().filter(|request| request.resource.ends_with("reviews")).count()
    };
    assert!(reviews(None) >= 6, "two for each user, one for a token of nobody");
    let begun = Timestamp::now();
    for _ in 0..50 {
        assert_eq!(metrics.get(None, Some(&token)).await.0, 200);
        assert_eq!(metrics.get(Some(&prometheus), None).await.0, 200);
    }
    let reviews = reviews(Some(begun));
    println!("{reviews} reviews for 100 requests");
    assert!(reviews <= 2, "a verdict is kept");
    authorities_change(&cluster, &metrics, &foreign, &authority).await;
    cluster.close().await.unwrap();
}

/// Another authority signs the certificates of clients: it counts at once.
async fn authorities_change(cluster: &SimulatedCluster, metrics: &Metrics, client: &Leaf, authority: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "kube-system");
    let name = "extension-apiserver-authentication";
    let map = maps.get(name).await.unwrap();
    let bundle = format!("{}\n{authority}", map.data.unwrap()["client-ca-file"]);
    let patch = Patch::Merge(json!({"data": {"client-ca-file": bundle}}));
    maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    let took = metrics.until(Some(client), None, 200, Duration::from_secs(20)).await;
    println!("another authority counts after {} ms", took.as_millis());
}
