use super::make::judge_serving;
use super::*;
use jiff::SignedDuration;
use kube::client::Body;
use std::sync::Mutex;

const HOST: &str = "packageserver-service.olm.svc";

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().unwrap()
}

fn days(days: i64) -> Timestamp {
    now() + SignedDuration::from_hours(24 * days)
}

/// As the API server has it.
fn secret(made: &Made) -> Value {
    let values = [&made.certificate, &made.key, &made.authorities, &made.authority_key];
    let data: serde_json::Map<String, Value> =
        KEYS.into_iter().zip(values).map(|(key, value)| (key.to_owned(), json!(STANDARD.encode(value)))).collect();
    json!({"metadata": {"resourceVersion": "7"}, "data": data})
}

fn usable(secret: &Value) -> Usable {
    match judge(secret, HOST).0 {
        Stored::Usable(usable) => usable,
        other => panic!("{other:?}"),
    }
}

#[test]
fn what_is_made_can_be_served_with() {
    let made = Made::new(HOST, "", now()).unwrap();
    let (stored, key) = judge(&secret(&made), HOST);
    let Stored::Usable(usable) = stored else { panic!("{stored:?}") };
    assert!(key.is_some());
    assert_eq!((usable.version.as_str(), &usable.authorities), ("7", &made.authorities));
    let midnight = SignedDuration::from_hours(12);
    assert_eq!((usable.certificate_until, usable.authority_until), (days(365) - midnight, days(3650) - midnight));
    assert_eq!(next(&Stored::Usable(usable.clone()), &Told::Bundle(usable.authorities), now()), Action::None);
}

#[test]
fn certificate_is_renewed_by_the_same_authority() {
    let first = Made::new(HOST, "", now()).unwrap();
    let next = Made::signed(HOST, &secret(&first), days(300)).unwrap();
    assert_eq!((&next.authorities, &next.authority_key), (&first.authorities, &first.authority_key));
    assert_ne!(next.key, first.key);
    assert!(usable(&secret(&next)).certificate_until > days(650));
}

#[test]
fn next_authority_comes_with_the_last_one_and_no_older() {
    let first = Made::new(HOST, "", now()).unwrap();
    let second = Made::new(HOST, &first.authorities, days(3000)).unwrap();
    assert!(second.authorities.ends_with(&first.authorities) && second.authorities.len() > first.authorities.len());
    let found = usable(&secret(&second));
    assert!(found.authority_until > days(6000), "the new one counts");
    let third = Made::new(HOST, &second.authorities, days(6000)).unwrap();
    assert!(!third.authorities.contains(&first.authorities));
    assert_eq!(third.authorities.matches("BEGIN CERTIFICATE").count(), 2);
}

#[test]
fn secret_of_others_and_what_is_broken_is_not_used_and_says_why() {
    let (made, other) = (Made::new(HOST, "", now()).unwrap(), Made::new(HOST, "", now()).unwrap());
    let with = |key: &str, value: Value| {
        let mut secret = secret(&made);
        secret["data"][key] = value;
        secret
    };
    let text = |text: &str| json!(STANDARD.encode(text));
    for (secret, part) in [
        (json!({"metadata": {"resourceVersion": "7"}}), "tls.crt of the Secret cannot be used: it is not there"),
        (with("ca.key", Value::Null), "ca.key"),
        (with("tls.crt", json!("%")), "not base64"),
        (with("tls.crt", text("junk")), "no PEM certificate"),
        (with("tls.key", text(&other.key)), "tls.crt"),
        (with("ca.crt", text(&other.authorities)), "BadSignature"),
        (with("ca.crt", text("")), "ca.crt has no certificate"),
        (secret(&Made::new("other.olm.svc", "", now()).unwrap()), "not valid for name"),
    ] {
        let (stored, key) = judge(&secret, HOST);
        let Stored::Unusable { cause, version } = stored else { panic!("{part}: {stored:?}") };
        assert!(cause.contains(part) && version == "7" && key.is_none(), "{part}: {cause}");
    }
    let error = Made::signed(HOST, &with("ca.key", text(&other.authority_key)), now()).unwrap_err();
    assert!(error.to_string().contains("ca.key"), "{error}");
}

fn serving(hosts: &[&str]) -> (super::make::Serving, Vec<String>) {
    let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
    (super::make::Serving::new(&hosts, "Example", now()).unwrap(), hosts)
}

const HOSTS: [&str; 3] = ["server-service.shop", "server-service.shop.svc", "server-service.shop.svc.cluster.local"];

#[test]
fn certificate_of_a_deployment_is_for_all_its_hosts_and_of_an_authority_of_its_own() {
    use x509_cert::der::{Decode, Encode};
    let (made, hosts) = serving(&HOSTS);
    let before = serving(&HOSTS).0.authority;
    let secret = json!({"metadata": {"resourceVersion": "7"}, "data": made.data(&before)});
    let Stored::Usable(usable) = judge_serving(&secret, &hosts) else { panic!("it can be used") };
    let midnight = SignedDuration::from_hours(12);
    assert_eq!((usable.certificate_until, usable.authority_until), (days(730) - midnight, days(730) - midnight));
    assert_eq!((usable.authorities, usable.version.as_str()), (format!("{}{before}", made.authority), "7"));
    let subject = |pem: &str| {
        let der = <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(
            pem.as_bytes(),
        );
        let found = x509_cert::Certificate::from_der(&der.unwrap()).unwrap().tbs_certificate;
        (found.subject.to_string(), hex::encode(found.serial_number.as_bytes()), found.subject.to_der().unwrap().len())
    };
    let (name, serial, _) = subject(&made.authority);
    assert!(name.contains(&format!("CN=olm-selfsigned-{serial}")) && name.contains("O=Example"), "{name} {serial}");
    assert_ne!(serial, subject(&before).1, "each has a number of its own");
    assert_eq!(subject(&made.certificate).0, "O=Example,CN=server-service.shop");
}

/// Algorithm and curve of the key of a certificate.
fn key_of(pem: &str) -> [String; 2] {
    use x509_cert::der::Decode;
    use x509_cert::der::asn1::ObjectIdentifier;
    let der =
        <rustls::pki_types::CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(pem.as_bytes());
    let found = x509_cert::Certificate::from_der(&der.unwrap()).unwrap().tbs_certificate;
    let algorithm = found.subject_public_key_info.algorithm;
    let curve = algorithm.parameters.unwrap().decode_as::<ObjectIdentifier>().unwrap();
    [algorithm.oid, curve].map(|id| id.to_string())
}

#[test]
fn keys_of_authorities_and_certificates_are_of_the_curve_p_256() {
    let (of_operator, own) = (serving(&HOSTS).0, Made::new(HOST, "", now()).unwrap());
    // id-ecPublicKey and secp256r1.
    for pem in [&of_operator.authority, &of_operator.certificate, &own.authorities, &own.certificate] {
        assert_eq!(key_of(pem), ["1.2.840.10045.2.1", "1.2.840.10045.3.1.7"]);
    }
}

#[test]
fn secret_of_a_deployment_that_is_spoilt_or_for_other_hosts_says_so() {
    let ((made, hosts), (other, _)) = (serving(&HOSTS), serving(&HOSTS));
    let with = |key: &str, value: &Value| {
        let mut secret = json!({"metadata": {"resourceVersion": "7"}, "data": made.data("")});
        secret["data"][key] = value.clone();
        secret
    };
    let theirs = Value::Object(other.data(""));
    for (secret, part) in [
        (with("tls.crt", &json!("c3BvaWx0")), "tls.crt"),
        (with("tls.crt", &theirs["tls.crt"]), "tls.crt"),
        (with("tls.key", &theirs["tls.key"]), "tls.crt"),
        (with("olmCAKey", &theirs["olmCAKey"]), "UnknownIssuer"),
        (with("olmCAKey", &Value::Null), "olmCAKey of the Secret cannot be used: it is not there"),
        (with("olmCAKey", &json!("")), "olmCAKey has no certificate"),
    ] {
        let Stored::Unusable { cause, version } = judge_serving(&secret, &hosts) else { panic!("{part}") };
        assert!(cause.contains(part) && version == "7", "{part}: {cause}");
    }
    let (made, _) = serving(&HOSTS[..2]);
    let Stored::Unusable { cause, .. } = judge_serving(&json!({"data": made.data("")}), &hosts) else {
        panic!("a host is missing")
    };
    assert!(cause.contains("not valid for name"), "{cause}");
    // As somebody else has written it.
    let mut secret = with("x", &Value::Null);
    secret["data"]["olmCAKey"] = json!(STANDARD.encode(serving_authority(&secret).trim_end()));
    assert!(
        matches!(judge_serving(&secret, &hosts), Stored::Usable(usable) if usable.authorities.ends_with("-----\n"))
    );
}

fn serving_authority(secret: &Value) -> String {
    String::from_utf8(STANDARD.decode(secret["data"]["olmCAKey"].as_str().unwrap()).unwrap()).unwrap()
}

/// Requests by method and path with their bodies; the Secret is answered to GET.
type Requests = Arc<Mutex<Vec<(String, Value)>>>;

fn keeper(secret: Value) -> (Keeper, Requests) {
    let requests = Requests::default();
    let (mock, mut received) = tower_test::mock::pair::<::http::Request<Body>, ::http::Response<Body>>();
    let told = requests.clone();
    tokio::spawn(async move {
        while let Some((request, respond)) = received.next_request().await {
            let line = format!("{} {}", request.method(), request.uri().path());
            let body = request.into_body().collect_bytes().await.unwrap();
            told.lock().unwrap().push((line, serde_json::from_slice(&body).unwrap_or_default()));
            respond.send_response(::http::Response::new(Body::from(secret.to_string().into_bytes())));
        }
    });
    let objects = Objects::new(kube::Client::new(mock, "default"), "test", Arc::new(|| true));
    let identity = Identity {
        namespace: "olm".into(),
        service: "packageserver-service".into(),
        secret: "packageserver-service-cert".into(),
    };
    (Keeper { identity, objects }, requests)
}

fn lines(requests: &Requests) -> Vec<String> {
    requests.lock().unwrap().iter().map(|(line, _)| line.clone()).collect()
}

const SECRET: &str = "/api/v1/namespaces/olm/secrets";
const PATCH_SECRET: &str = "PATCH /api/v1/namespaces/olm/secrets/packageserver-service-cert";
const PATCH_API_SERVICE: &str = "PATCH /apis/apiregistration.k8s.io/v1/apiservices/v1.packages.operators.coreos.com";

#[tokio::test]
async fn secret_is_created_where_there_is_none() {
    let (keeper, requests) = keeper(json!({}));
    keeper.turn(&Stored::Absent, &Told::Unknown, now()).await.unwrap();
    assert_eq!(lines(&requests), [format!("POST {SECRET}")]);
    let created = requests.lock().unwrap()[0].1.clone();
    assert_eq!(
        (&created["type"], &created["metadata"]["labels"]["olm.managed"]),
        (&json!("kubernetes.io/tls"), &json!("true"))
    );
    assert!(matches!(judge(&created, HOST), (Stored::Usable(_), Some(_))));
}

#[tokio::test]
async fn secret_that_cannot_be_used_is_replaced_if_it_is_still_the_same() {
    let (keeper, requests) = keeper(json!({}));
    let stored = Stored::Unusable { cause: "junk".into(), version: "5".into() };
    keeper.turn(&stored, &Told::Bundle("of others".into()), now()).await.unwrap();
    assert_eq!(lines(&requests), [PATCH_SECRET]);
    assert_eq!(requests.lock().unwrap()[0].1["metadata"]["resourceVersion"], "5");
}

#[tokio::test]
async fn api_server_is_told_of_the_authority() {
    let (keeper, requests) = keeper(json!({}));
    let found = usable(&secret(&Made::new(HOST, "", now()).unwrap()));
    let api_service = |name: &str| json!({"spec": {"service": {"namespace": "olm", "name": name}, "caBundle": STANDARD.encode("old")}});
    let told = keeper.told(&api_service("packageserver-service"));
    assert_eq!(told, Told::Bundle("old".into()));
    keeper.turn(&Stored::Usable(found.clone()), &told, now()).await.unwrap();
    assert_eq!(lines(&requests), [PATCH_API_SERVICE]);
    let spec = requests.lock().unwrap()[0].1["spec"].clone();
    assert_eq!(spec["caBundle"], STANDARD.encode(&found.authorities));
    // Nothing is written where that is known, or the API belongs to somebody else.
    keeper.turn(&Stored::Usable(found.clone()), &Told::Bundle(found.authorities.clone()), now()).await.unwrap();
    keeper.turn(&Stored::Usable(found), &keeper.told(&api_service("other")), now()).await.unwrap();
    assert_eq!(lines(&requests).len(), 1);
}

#[tokio::test]
async fn certificate_is_renewed_without_telling_the_api_server() {
    let first = secret(&Made::new(HOST, "", now()).unwrap());
    let (keeper, requests) = keeper(first.clone());
    let found = usable(&first);
    let told = Told::Bundle(found.authorities.clone());
    keeper.turn(&Stored::Usable(found.clone()), &told, days(300)).await.unwrap();
    assert_eq!(lines(&requests), [format!("GET {SECRET}/packageserver-service-cert"), PATCH_SECRET.to_owned()]);
    let written = requests.lock().unwrap()[1].1.clone();
    assert_eq!(usable(&written).authorities, found.authorities);
    assert_ne!(written["data"]["tls.crt"], first["data"]["tls.crt"]);
}

#[tokio::test(start_paused = true)]
async fn next_authority_is_told_before_it_is_used() {
    let first = secret(&Made::new(HOST, "", now()).unwrap());
    let (keeper, requests) = keeper(first.clone());
    let found = usable(&first);
    let begun = tokio::time::Instant::now();
    keeper.turn(&Stored::Usable(found.clone()), &Told::Bundle(found.authorities.clone()), days(3000)).await.unwrap();
    assert_eq!(lines(&requests), [PATCH_API_SERVICE, PATCH_SECRET]);
    assert!(begun.elapsed() >= TOLD_WITHIN);
    let bundle = requests.lock().unwrap()[0].1["spec"]["caBundle"].clone();
    let written = requests.lock().unwrap()[1].1.clone();
    assert_eq!(written["data"]["ca.crt"], bundle);
    assert!(usable(&written).authorities.ends_with(&found.authorities), "both count");
}

#[tokio::test]
async fn authority_whose_key_is_lost_is_replaced() {
    let mut first = secret(&Made::new(HOST, "", now()).unwrap());
    let found = usable(&first);
    first["data"]["ca.key"] = json!(STANDARD.encode("junk"));
    let (keeper, requests) = keeper(first);
    keeper.turn(&Stored::Usable(found.clone()), &Told::Unknown, days(300)).await.unwrap();
    let written = requests.lock().unwrap()[1].1.clone();
    assert_eq!(lines(&requests).len(), 2);
    assert!(usable(&written).authorities.ends_with(&found.authorities));
}

#[test]
fn whoever_takes_back_what_the_api_server_is_told_is_answered_more_and_more_slowly() {
    let (mut repeats, mut now) = (Repeats::default(), Instant::now());
    let rests: Vec<Duration> = (0..9)
        .map(|_| {
            let rest = repeats.rest(now);
            now += rest;
            rest
        })
        .collect();
    assert!(rests[0].is_zero() && rests[1] >= PAUSES.0 && rests[8] >= PAUSES.1 / 2, "{rests:?}");
    assert!(repeats.rest(now + PAUSES.1).is_zero(), "once in a while it is no fight");
}
