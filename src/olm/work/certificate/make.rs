//! Makes authorities and certificates, and judges those that are there.

use super::KEYS;
use crate::olm::certificate::{AUTHORITY_DAYS, CERTIFICATE_DAYS, Stored, Usable, first};
use crate::olm::operator::serving::certificate::{AUTHORITIES, DAYS};
use crate::serve::certificate::common_name;
use crate::serve::tls::key_pair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, SerialNumber, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::sync::Arc;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Keys of the Secret of a Deployment: chain and key of the server, then the authorities.
const SERVING_KEYS: [&str; 3] = ["tls.crt", "tls.key", AUTHORITIES];
/// Bytes of the number of an authority.
const SERIAL: usize = 8;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(in crate::olm::work) enum MakeError {
    #[error("{0}")]
    Certificate(#[from] rcgen::Error),
    #[error("{0} of the Secret cannot be used: {1}")]
    Secret(&'static str, String),
}

/// What is written into the Secret, all PEM.
#[derive(Debug)]
pub(super) struct Made {
    pub certificate: String,
    pub key: String,
    /// The present authority, and perhaps the one before.
    pub authorities: String,
    pub authority_key: String,
}

impl Made {
    /// A new authority beside the first of those that were there `before`, and a certificate signed by it.
    pub(super) fn new(host: &str, before: &str, now: Timestamp) -> Result<Made, MakeError> {
        let name = format!("{host}-ca@{}", now.as_second());
        let mut params = authority(&name);
        valid(&mut params, now, AUTHORITY_DAYS);
        let key = KeyPair::generate()?;
        let own = params.self_signed(&key)?.pem();
        let authority_key = key.serialize_pem();
        let before = first(before).unwrap_or_default();
        Made::of(host, &Issuer::new(params, key), now, [own + before, authority_key])
    }

    /// A certificate signed by the authority in the Secret.
    pub(super) fn signed(host: &str, secret: &Value, now: Timestamp) -> Result<Made, MakeError> {
        let texts = texts(secret, KEYS)?;
        let [_, _, authorities, key] = texts.as_slice() else {
            return Err(MakeError::Secret("data", "it is not whole".to_owned()));
        };
        let refuse = |cause: String| MakeError::Secret("ca.crt", cause);
        let own = CertificateDer::from_pem_slice(authorities.as_bytes()).map_err(|e| refuse(e.to_string()))?;
        let name = common_name(&own).ok_or_else(|| refuse("it has no common name".to_owned()))?;
        let pair = KeyPair::from_pem(key).map_err(|e| MakeError::Secret("ca.key", e.to_string()))?;
        let made = Made::of(host, &Issuer::new(authority(&name), pair), now, [authorities.clone(), key.clone()])?;
        // The key may be that of another authority.
        let hosts = [host.to_owned()];
        let found = check(&made.certificate, &made.key, &made.authorities, ("ca.crt", &hosts));
        found.map(|_| made).map_err(|cause| MakeError::Secret("ca.key", cause))
    }

    fn of(
        host: &str,
        issuer: &Issuer<'_, KeyPair>,
        now: Timestamp,
        [authorities, authority_key]: [String; 2],
    ) -> Result<Made, MakeError> {
        let hosts = [host.to_owned(), format!("{host}.cluster.local")];
        let (certificate, key) = served(&hosts, named(host), issuer, (now, CERTIFICATE_DAYS))?;
        Ok(Made { certificate, key, authorities, authority_key })
    }
}

/// A certificate for the pods of a Deployment, and the authority that has signed it, whose key nobody has any more. All PEM.
#[derive(Debug)]
pub(in crate::olm::work) struct Serving {
    pub certificate: String,
    pub key: String,
    pub authority: String,
}

impl Serving {
    /// Keys and values of the Secret, with these authorities beside its own.
    pub(in crate::olm::work) fn data(&self, before: &str) -> serde_json::Map<String, Value> {
        let values = [self.certificate.clone(), self.key.clone(), format!("{}{before}", self.authority)];
        let encoded = values.map(|value| Value::from(STANDARD.encode(value)));
        SERVING_KEYS.into_iter().map(str::to_owned).zip(encoded).collect()
    }

    /// `hosts`: the first one is the name of the certificate.
    pub(in crate::olm::work) fn new(
        hosts: &[String],
        organization: &str,
        now: Timestamp,
    ) -> Result<Serving, MakeError> {
        let key = KeyPair::generate()?;
        // A number that is no negative one.
        let bytes = Sha256::digest(key.public_key_raw()).into_iter().take(SERIAL).enumerate();
        let serial: Vec<u8> = bytes.map(|(at, byte)| if at == 0 { byte & 0x3f | 0x40 } else { byte }).collect();
        let of = |name: &str| {
            let mut names = named(name);
            names.push(DnType::OrganizationName, organization);
            names
        };
        let mut params = authority("");
        params.distinguished_name = of(&format!("olm-selfsigned-{}", hex::encode(&serial)));
        params.serial_number = Some(SerialNumber::from(serial));
        valid(&mut params, now, DAYS);
        let authority = params.self_signed(&key)?.pem();
        let name = of(hosts.first().map(String::as_str).unwrap_or_default());
        let (certificate, key) = served(hosts, name, &Issuer::new(params, key), (now, DAYS))?;
        Ok(Serving { certificate, key, authority })
    }
}

/// Certificate and key of a server, valid for so many days.
fn served(
    hosts: &[String],
    name: DistinguishedName,
    issuer: &Issuer<'_, KeyPair>,
    (now, days): (Timestamp, i64),
) -> Result<(String, String), MakeError> {
    let mut params = CertificateParams::new(hosts)?;
    params.distinguished_name = name;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.use_authority_key_identifier_extension = true;
    valid(&mut params, now, days);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, issuer)?.pem();
    Ok((certificate, key.serialize_pem()))
}

fn authority(name: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = named(name);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    params
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// From the day before, for clocks that are late, for so many days.
fn valid(params: &mut CertificateParams, now: Timestamp, days: i64) {
    let day = |days: i64| {
        let date = (now + SignedDuration::from_hours(24 * days)).to_zoned(TimeZone::UTC).date();
        // Months and days are positive.
        date_time_ymd(date.year().into(), date.month().unsigned_abs(), date.day().unsigned_abs())
    };
    (params.not_before, params.not_after) = (day(-1), day(days));
}

/// What a Secret has.
fn texts<const N: usize>(secret: &Value, keys: [&'static str; N]) -> Result<Vec<String>, MakeError> {
    let text = |key: &'static str| {
        let value = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
        let refuse = |cause: &str| MakeError::Secret(key, cause.to_owned());
        let bytes = STANDARD.decode(value.ok_or_else(|| refuse("it is not there"))?);
        let bytes = bytes.map_err(|_| refuse("it is not base64"))?;
        String::from_utf8(bytes).map_err(|_| refuse("it is not text"))
    };
    keys.into_iter().map(text).collect()
}

/// What can be done with a Secret, and the certificate to serve with, if it is one for this host.
pub(super) fn judge(secret: &Value, host: &str) -> (Stored, Option<Arc<CertifiedKey>>) {
    let hosts = [host.to_owned()];
    judged(secret, texts(secret, KEYS).map(|texts| texts.into_iter().take(3).collect()), ("ca.crt", &hosts))
}

/// The same for the Secret of a Deployment.
pub(in crate::olm::work) fn judge_serving(secret: &Value, hosts: &[String]) -> Stored {
    judged(secret, texts(secret, SERVING_KEYS), (AUTHORITIES, hosts)).0
}

/// `texts`: certificate, key and authorities. `named`: the key of the last one, and for which hosts the certificate has to be.
fn judged(
    secret: &Value,
    texts: Result<Vec<String>, MakeError>,
    named: (&str, &[String]),
) -> (Stored, Option<Arc<CertifiedKey>>) {
    let version = secret.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let checked = texts.and_then(|texts| {
        let [certificate, key, authorities] = texts.as_slice() else {
            return Err(MakeError::Secret("data", "it is not whole".to_owned()));
        };
        // Each certificate of a bundle ends with a line.
        let authorities = format!("{}\n", authorities.trim_end());
        let found = check(certificate, key, &authorities, named);
        Ok((authorities, found.map_err(|cause| MakeError::Secret("tls.crt", cause))?))
    });
    match checked {
        Ok((authorities, Checked { key, certificate_until, authority_until })) => {
            let usable = Usable { authorities, certificate_until, authority_until, version };
            (Stored::Usable(usable), Some(Arc::new(key)))
        }
        Err(error) => (Stored::Unusable { cause: error.to_string(), version }, None),
    }
}

struct Checked {
    key: CertifiedKey,
    certificate_until: Timestamp,
    authority_until: Timestamp,
}

/// Whether key and certificate belong together, and one of the authorities has signed it for these hosts. An expired one is still
/// that. `ca`: under which name the Secret has the authorities.
fn check(certificate: &str, key: &str, authorities: &str, (ca, hosts): (&str, &[String])) -> Result<Checked, String> {
    let key = key_pair(certificate, key)?;
    let mut roots = RootCertStore::empty();
    let mut authority_until = None;
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        let authority = authority.map_err(|e| format!("{ca} is not PEM: {e}"))?;
        // The first one is the present one.
        authority_until = authority_until.or(Some(until(&authority)?));
        roots.add(authority).map_err(|e| format!("{ca} cannot be used: {e}"))?;
    }
    let authority_until = authority_until.ok_or_else(|| format!("{ca} has no certificate"))?;
    let (leaf, others) = key.cert.split_first().ok_or("there is no certificate")?;
    let certificate_until = until(leaf)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|e| e.to_string())?;
    let last = u64::try_from(certificate_until.as_second() - 1).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(last));
    for host in hosts {
        let name = ServerName::try_from(host.as_str()).map_err(|e| format!("{host}: {e}"))?;
        verifier.verify_server_cert(leaf, others, &name, &[], at).map_err(|e| e.to_string())?;
    }
    Ok(Checked { key, certificate_until, authority_until })
}

/// Until when a certificate is valid.
fn until(certificate: &CertificateDer<'_>) -> Result<Timestamp, String> {
    let parsed = Certificate::from_der(certificate).map_err(|e| e.to_string())?;
    let seconds = parsed.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    let seconds = i64::try_from(seconds).map_err(|e| e.to_string())?;
    Timestamp::from_second(seconds).map_err(|e| e.to_string())
}
