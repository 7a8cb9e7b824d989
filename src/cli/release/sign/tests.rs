//! Signing with the real gpg, where there is one, and judging the result by the verifier and by gpg itself.

use super::*;
use crate::verify::{Config, Verifier};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

const DIGEST: &str = "sha256:e3f12513a4b22a2d7c0e7c9207f52128113758d9d68c7d06b11a0ac7672966f7";

/// A gpg home directory with one key.
struct Home(TempDir);

impl Home {
    /// `None`, with a note, where gpg is not installed.
    fn new(algorithm: &str) -> Option<Self> {
        if Command::new("gpg").arg("--version").output().is_err() {
            println!("skipped: gpg is not installed");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        let home = Home(folder);
        home.gpg(&[
            "--batch",
            "--passphrase",
            "",
            "--quick-generate-key",
            "Test <test@example.com>",
            algorithm,
            "sign",
        ]);
        Some(home)
    }

    fn command(&self) -> Command {
        let mut command = Command::new("gpg");
        command.env("GNUPGHOME", self.0.path());
        command
    }

    fn gpg(&self, arguments: &[&str]) -> Vec<u8> {
        let output = self.command().args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    }

    fn sign(&self, args: &SignArgs) -> Result<PathBuf> {
        sign(args, self.command(), Timestamp::now())
    }

    fn args(&self, digest: &str) -> SignArgs {
        SignArgs {
            digest: digest.to_owned(),
            to: self.0.path().join("store"),
            gpg_key: Some("test@example.com".to_owned()),
            docker_reference: None,
            gpg: "gpg".into(),
        }
    }

    fn verifier(&self) -> Verifier {
        let key = String::from_utf8(self.gpg(&["--armor", "--export", "test@example.com"])).unwrap();
        let data = [("verifier-public-key-test", key), ("store-a", "file:///a".to_owned())];
        let data: BTreeMap<String, String> = data.into_iter().map(|(k, v)| (k.to_owned(), v)).collect();
        Verifier::new(Config::from_config_map(&data).unwrap())
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        // gpg starts an agent for its home, which would outlive the test.
        let _ = Command::new("gpgconf").arg("--homedir").arg(self.0.path()).args(["--kill", "all"]).output();
    }
}

#[test]
fn signature_is_accepted_by_verifier_and_gpg() {
    for algorithm in ["ed25519", "rsa2048"] {
        let Some(home) = Home::new(algorithm) else { return };
        let path = home.sign(&home.args(&format!("r.example/release@{DIGEST}"))).unwrap();
        let folder = format!("store/{}/signature-1", DIGEST.replacen(':', "=", 1));
        assert_eq!(path, home.0.path().join(folder));

        let signature = fs::read(&path).unwrap();
        let checked = home.verifier().check(&DIGEST.parse().unwrap(), &signature, Timestamp::now());
        assert_eq!(checked.satisfied, ["verifier-public-key-test"], "{algorithm}: {checked:?}");
        let shown = path.to_str().unwrap();
        home.gpg(&["--batch", "--verify", shown]);
        let content = String::from_utf8(home.gpg(&["--batch", "--decrypt", shown])).unwrap();
        assert!(content.contains(DIGEST) && content.contains("\"r.example/release\""), "{content}");
    }
}

#[test]
fn next_signature_gets_the_next_number() {
    let Some(home) = Home::new("ed25519") else { return };
    let mut args = home.args(DIGEST);
    let first = home.sign(&args).unwrap();
    let before = fs::read(&first).unwrap();
    args.docker_reference = Some("other".to_owned());
    let second = home.sign(&args).unwrap();
    assert_eq!(second, first.with_file_name("signature-2"));
    assert_eq!(fs::read(&first).unwrap(), before);
    assert_eq!(write_free(first.parent().unwrap(), &before).unwrap(), first);
    for n in 3..=9 {
        fs::write(first.with_file_name(format!("signature-{n}")), b"x").unwrap();
    }
    args.docker_reference = Some("third".to_owned());
    let error = home.sign(&args).unwrap_err().to_string();
    assert!(error.contains("already has 9 signatures"), "{error}");
}

#[test]
fn each_signature_is_published_as_what_it_is() {
    let (root, folder) = (Path::new("/store"), "sha256=ab");
    let said = |n: u32| instructions(&root.join(folder).join(format!("signature-{n}")), root, folder, "sha256-ab");
    assert!(said(1).contains("create configmap sha256-ab --from-file=sha256-ab-1=signature-1)"), "{}", said(1));
    let second = said(2);
    assert!(second.contains("create configmap sha256-ab-2 --from-file=sha256-ab-2=signature-2)"), "{second}");
    assert!(second.contains("label configmap sha256-ab-2 "), "the ConfigMap of the first one may exist: {second}");
}

#[test]
fn failures_name_the_remedy() {
    let folder = tempfile::tempdir().unwrap();
    let mut args = SignArgs {
        digest: "r.example/release:1.0".to_owned(),
        to: folder.path().join("store"),
        gpg_key: None,
        docker_reference: None,
        gpg: folder.path().join("no-gpg").into(),
    };
    let say = |args: &SignArgs| format!("{:#}", sign(args, Command::new(&args.gpg), Timestamp::now()).unwrap_err());
    assert!(say(&args).contains("is not a digest"), "{}", say(&args));
    args.digest = DIGEST.to_owned();
    assert!(say(&args).contains("--gpg"), "{}", say(&args));
    args.gpg = "false".into();
    assert!(say(&args).contains("false did not sign"), "{}", say(&args));
    args.gpg = "true".into();
    assert!(say(&args).contains("wrote no signature"), "{}", say(&args));
    args.docker_reference = Some(String::new());
    assert!(say(&args).contains("--docker-reference"), "{}", say(&args));
    assert!(!args.to.exists(), "nothing is written when signing fails");

    let Some(home) = Home::new("ed25519") else { return };
    let mut args = home.args(DIGEST);
    args.gpg_key = Some("nobody@example.com".to_owned());
    let text = home.sign(&args).unwrap_err().to_string();
    assert!(text.contains("did not sign") && text.contains("nobody@example.com"), "{text}");
}
