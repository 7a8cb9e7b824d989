use super::*;
use std::fs;
use tempfile::TempDir;

struct Pair {
    certificate: String,
    key: String,
}

fn pair(name: &str) -> Pair {
    let made = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    Pair { certificate: made.cert.pem(), key: made.signing_key.serialize_pem() }
}

fn files(folder: &TempDir) -> Files {
    Files { certificate: folder.path().join("tls.crt"), key: folder.path().join("tls.key") }
}

fn write(files: &Files, certificate: &str, key: &str) {
    fs::write(&files.certificate, certificate).unwrap();
    fs::write(&files.key, key).unwrap();
}

/// A receiver whose sender is gone keeps the last value.
fn demanding(demands: Demands) -> watch::Receiver<Demands> {
    watch::channel(demands).1
}

/// A configuration for these host names or IP addresses, and the PEM of its certificate for clients that are to trust it.
pub(crate) fn current(names: &[&str]) -> (Current, String) {
    let (key, pem) = self_signed(names).unwrap();
    let (key, demands) = (Arc::new(key), Demands::default());
    let current = Current::new(Source::Given(watch::channel(Some(key)).1), Protocols::Http1, demanding(demands));
    (current.unwrap(), pem)
}

#[test]
fn files_are_read_and_a_bad_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        path
    };
    let (made, other) = (pair("a"), pair("a"));
    let certificate = write("tls.crt", &made.certificate);
    let key = write("tls.key", &made.key);
    let foreign = write("other.key", &other.key);
    let junk = write("junk", "junk");
    let missing = folder.path().join("missing");
    let new = |certificate: &PathBuf, key: &PathBuf| {
        let files = Files { certificate: certificate.clone(), key: key.clone() };
        Current::new(Source::Files(files), Protocols::Http1, demanding(Demands::default()))
    };
    new(&certificate, &key).unwrap();
    for (certificate, key, part) in [
        (&missing, &key, "missing"),
        (&certificate, &missing, "missing"),
        (&junk, &key, "no PEM certificate"),
        (&certificate, &junk, "key file"),
        (&certificate, &foreign, "other.key"),
    ] {
        let text = new(certificate, key).unwrap_err().to_string();
        assert!(text.contains(part), "{part}: {text}");
    }
}

/// What a client that trusts this certificate and speaks these versions agrees with the server on: version and suite.
fn handshake(
    current: &Current,
    trusted: &str,
    versions: &[&'static SupportedProtocolVersion],
) -> Result<String, String> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(trusted.as_bytes()).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_protocol_versions(versions)
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut client = rustls::ClientConnection::new(Arc::new(config), "server".try_into().unwrap()).unwrap();
    let mut server = rustls::ServerConnection::new(current.config()).unwrap();
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        while client.wants_write() {
            client.write_tls(&mut bytes).unwrap();
        }
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets().map_err(|e| e.to_string())?;
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets().map_err(|e| e.to_string())?;
    }
    let suite = client.negotiated_cipher_suite().unwrap().suite();
    Ok(format!("{:?} {}", client.protocol_version().unwrap(), suite.as_str().unwrap()))
}

#[test]
fn replaced_certificate_is_used_by_the_next_connection() {
    let folder = tempfile::tempdir().unwrap();
    let (files, first, second) = (files(&folder), pair("server"), pair("server"));
    write(&files, &first.certificate, &first.key);
    let current = Current::new(Source::Files(files.clone()), Protocols::Http1, demanding(Demands::default())).unwrap();
    let trusts = |pair: &Pair| handshake(&current, &pair.certificate, &[&TLS13]).is_ok();
    let unchanged = current.config();
    assert!(trusts(&first) && Arc::ptr_eq(&unchanged, &current.config()), "nothing is read without a change");
    // Between the two writes the files do not belong together.
    fs::write(&files.certificate, &second.certificate).unwrap();
    assert!(trusts(&first), "the last pair is kept until there is another");
    fs::write(&files.key, &second.key).unwrap();
    assert!(trusts(&second) && !trusts(&first));
    fs::remove_file(&files.key).unwrap();
    assert!(trusts(&second), "a missing file changes nothing");
    write(&files, "junk", "junk");
    assert!(trusts(&second), "nor does one that cannot be used");
    write(&files, &first.certificate, &first.key);
    assert!(trusts(&first));
}

#[test]
fn changed_demands_hold_from_the_next_connection_on() {
    let folder = tempfile::tempdir().unwrap();
    let (files, pair) = (files(&folder), pair("server"));
    write(&files, &pair.certificate, &pair.key);
    let (demands, received) = watch::channel(Demands::default());
    let current = Current::new(Source::Files(files), Protocols::Http1, received).unwrap();
    let agreed = |versions: &[&'static SupportedProtocolVersion]| handshake(&current, &pair.certificate, versions);
    assert!(agreed(&[&TLS12]).unwrap().starts_with("TLSv1_2 "));
    let suite = "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384".to_owned();
    demands.send_replace(Demands::new("VersionTLS12", std::slice::from_ref(&suite)).unwrap());
    assert_eq!(agreed(&[&TLS12]).unwrap(), format!("TLSv1_2 {suite}"));
    assert!(agreed(&[&TLS13]).unwrap().starts_with("TLSv1_3 "), "the suites of TLS 1.3 are always there");
    demands.send_replace(Demands::new("VersionTLS13", &[]).unwrap());
    assert!(agreed(&[&TLS12]).is_err());
    assert!(agreed(&[&TLS12, &TLS13]).unwrap().starts_with("TLSv1_3 "));
    drop(demands);
    assert!(agreed(&[&TLS12]).is_err(), "the last demands stay");
}

#[test]
fn flags_come_before_the_cluster_and_unknown_names_are_refused() {
    let flags = |version: Option<&str>, suites: &[&str]| {
        Flags::new(version.map(str::to_owned), suites.iter().map(|suite| (*suite).to_owned()).collect()).unwrap()
    };
    let of = |version: &str, suites: &[&str], flags: &Flags| {
        let ciphers = suites.iter().map(|suite| (*suite).to_owned()).collect();
        Demands::of_cluster(&Tls { min_version: version.to_owned(), ciphers }, flags)
    };
    let (one, other) = ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384");
    let demands = |only_tls13, suites: &[&str]| {
        let suites: Vec<_> = suites.iter().map(|suite| (*suite).to_owned()).collect();
        Ok(Demands { only_tls13, suites: (!suites.is_empty()).then_some(suites) })
    };
    let none = Flags::default();
    assert_eq!(none.alone, Demands::default());
    assert!(Flags::new(Some("1.3".to_owned()), Vec::new()).is_err());
    assert_eq!(of("VersionTLS10", &[one, "TLS_RSA_WITH_AES_128_CBC_SHA"], &none).map(|d| d.usable().count()), Ok(1));
    assert_eq!(of("VersionTLS12", &[one], &flags(Some("VersionTLS13"), &[other])), demands(true, &[other]));
    assert_eq!(of("VersionTLS13", &[one], &flags(Some("VersionTLS12"), &[])), demands(false, &[one]));
    // Only suites of TLS 1.3 mean that version.
    assert_eq!(of("VersionTLS12", &["TLS_AES_128_GCM_SHA256"], &none).map(|d| d.only_tls13), Ok(true));
    for (version, suite, named) in [("VersionTLS14", one, "VersionTLS14"), ("VersionTLS12", "NONSENSE", "NONSENSE")] {
        let error = of(version, &[suite], &none).unwrap_err();
        assert!(error.contains(named) && error.contains("TLS"), "{error}");
    }
}

#[test]
fn every_named_profile_of_the_cluster_can_be_served() {
    for (profile, only_tls13) in [("Old", false), ("Intermediate", false), ("Modern", true)] {
        let object = serde_json::json!({"spec": {"tlsSecurityProfile": {"type": profile}}});
        let demands = Demands::of_cluster(&Tls::of(Some(&object)), &Flags::default()).unwrap();
        assert_eq!(demands.only_tls13, only_tls13, "{profile}");
        demands.config(Arc::new(self_signed(&["server"]).unwrap().0), Protocols::Http1).unwrap();
    }
}
