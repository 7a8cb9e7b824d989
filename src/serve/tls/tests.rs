use super::*;

#[test]
fn files_are_read_and_a_bad_one_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, content: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    let made = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(vec!["a".to_owned()]).unwrap();
    let certificate = write("tls.crt", &made.cert.pem());
    let key = write("tls.key", &made.signing_key.serialize_pem());
    let foreign = write("other.key", &other.signing_key.serialize_pem());
    let junk = write("junk", "junk");
    let missing = folder.path().join("missing");
    config(&certificate, &key).unwrap();
    for (certificate, key, part) in [
        (&missing, &key, "missing"),
        (&certificate, &missing, "missing"),
        (&junk, &key, "no PEM certificate"),
        (&certificate, &junk, "key file"),
        (&certificate, &foreign, "other.key"),
    ] {
        let text = config(certificate, key).unwrap_err().to_string();
        assert!(text.contains(part), "{part}: {text}");
    }
}
