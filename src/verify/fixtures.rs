//! Keys and signatures for tests.

use super::{Config, Digest, Verifier, message};
use jiff::Timestamp;
use sequoia_openpgp::cert::{Cert, CertBuilder};
use sequoia_openpgp::packet::signature::SignatureBuilder;
use sequoia_openpgp::policy::StandardPolicy;
use sequoia_openpgp::serialize::SerializeInto;
use sequoia_openpgp::serialize::stream::{LiteralWriter, Message, Signer as PgpSigner};
use sequoia_openpgp::types::SignatureType;
use std::collections::BTreeMap;
use std::io::Write;
use std::time::{Duration, SystemTime};

/// A time at which the keys of the tests are valid.
pub(crate) fn now() -> Timestamp {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

pub(crate) fn digest() -> Digest {
    Digest::parse("sha256:e3f12513a4b22a2d7c0e7c9207f52128113758d9d68c7d06b11a0ac7672966f7").unwrap()
}

/// A key pair that signs releases.
pub(crate) struct Signer {
    pub cert: Cert,
}

impl Signer {
    /// A key created on 2026-01-01.
    pub(crate) fn new(name: &str) -> Self {
        let made: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let builder = CertBuilder::general_purpose(Some(format!("{name} <{name}@example.com>")));
        let (cert, _) = builder.set_creation_time(SystemTime::from(made)).generate().unwrap();
        Signer { cert }
    }

    /// The armored public key.
    pub(crate) fn public(&self) -> String {
        String::from_utf8(self.cert.armored().to_vec().unwrap()).unwrap()
    }

    /// An uncompressed OpenPGP message with `content`, signed at `at`.
    pub(crate) fn sign_at(&self, content: &[u8], at: Timestamp) -> Vec<u8> {
        self.sign(content, at, SignatureBuilder::new(SignatureType::Binary))
    }

    /// A message with `content`, signed with a signature made of the template.
    pub(crate) fn sign(&self, content: &[u8], at: Timestamp, template: SignatureBuilder) -> Vec<u8> {
        let policy = StandardPolicy::new();
        let key = self.cert.keys().with_policy(&policy, None).secret().for_signing().next().unwrap();
        let pair = key.key().clone().into_keypair().unwrap();
        let mut bytes = Vec::new();
        let signer = PgpSigner::with_template(Message::new(&mut bytes), pair, template).unwrap();
        let signer = signer.creation_time(SystemTime::from(at)).build().unwrap();
        let mut literal = LiteralWriter::new(signer).build().unwrap();
        literal.write_all(content).unwrap();
        literal.finalize().unwrap();
        bytes
    }

    /// A valid signature for `digest`, made an hour before [`now`].
    pub(crate) fn release(&self, digest: &Digest) -> Vec<u8> {
        self.sign_at(&message(digest, "r.example/release:1", now(), "test"), now() - Duration::from_secs(3600))
    }
}

/// A verifier with one keyring per entry, named `verifier-public-key-<name>`.
pub(crate) fn verifier(keyrings: &[(&str, &str)]) -> Verifier {
    let mut data: BTreeMap<String, String> =
        keyrings.iter().map(|(name, key)| (format!("verifier-public-key-{name}"), (*key).to_owned())).collect();
    data.insert("store-none".to_owned(), "file:///nowhere".to_owned());
    Verifier::new(Config::from_config_map(&data).unwrap())
}
