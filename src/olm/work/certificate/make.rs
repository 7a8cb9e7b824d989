//! Makes authorities and certificates, and judges those that are there.

use super::KEYS;
use crate::olm::certificate::{AUTHORITY_DAYS, CERTIFICATE_DAYS, Stored, Usable};
use crate::serve::certificate::common_name;
use crate::serve::tls::key_pair;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose, date_time_ymd,
};
use rustls::RootCertStore;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::sign::CertifiedKey;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use x509_cert::Certificate;
use x509_cert::der::Decode;

/// Why there is no certificate.
#[derive(Debug, thiserror::Error)]
pub(super) enum MakeError {
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
        let [_, _, authorities, key] = texts(secret)?;
        let refuse = |cause: String| MakeError::Secret("ca.crt", cause);
        let own = CertificateDer::from_pem_slice(authorities.as_bytes()).map_err(|e| refuse(e.to_string()))?;
        let name = common_name(&own).ok_or_else(|| refuse("it has no common name".to_owned()))?;
        let pair = KeyPair::from_pem(&key).map_err(|e| MakeError::Secret("ca.key", e.to_string()))?;
        let made = Made::of(host, &Issuer::new(authority(&name), pair), now, [authorities, key])?;
        // The key may be that of another authority.
        let found = check(&made.certificate, &made.key, &made.authorities, host);
        found.map(|_| made).map_err(|cause| MakeError::Secret("ca.key", cause))
    }

    fn of(
        host: &str,
        issuer: &Issuer<'_, KeyPair>,
        now: Timestamp,
        [authorities, authority_key]: [String; 2],
    ) -> Result<Made, MakeError> {
        let mut params = CertificateParams::new(vec![host.to_owned(), format!("{host}.cluster.local")])?;
        params.distinguished_name = named(host);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.use_authority_key_identifier_extension = true;
        valid(&mut params, now, CERTIFICATE_DAYS);
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, issuer)?.pem();
        Ok(Made { certificate, key: key.serialize_pem(), authorities, authority_key })
    }
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

/// The first certificate of a bundle.
fn first(bundle: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----\n";
    let end = bundle.find(END)? + END.len();
    bundle.get(..end)
}

/// What a Secret has.
fn texts(secret: &Value) -> Result<[String; 4], MakeError> {
    let text = |key: &'static str| {
        let value = secret.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
        let refuse = |cause: &str| MakeError::Secret(key, cause.to_owned());
        let bytes = STANDARD.decode(value.ok_or_else(|| refuse("it is not there"))?);
        let bytes = bytes.map_err(|_| refuse("it is not base64"))?;
        String::from_utf8(bytes).map_err(|_| refuse("it is not text"))
    };
    let [certificate, key, authorities, authority_key] = KEYS.map(text);
    Ok([certificate?, key?, authorities?, authority_key?])
}

/// What can be done with a Secret, and the certificate to serve with, if it is one for this host.
pub(super) fn judge(secret: &Value, host: &str) -> (Stored, Option<Arc<CertifiedKey>>) {
    let version = secret.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned();
    let checked = texts(secret).and_then(|[certificate, key, authorities, _]| {
        let found =
            check(&certificate, &key, &authorities, host).map_err(|cause| MakeError::Secret("tls.crt", cause))?;
        Ok((authorities, found))
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

/// Whether key and certificate belong together, and one of the authorities has signed it for this host. An expired one is still
/// that.
fn check(certificate: &str, key: &str, authorities: &str, host: &str) -> Result<Checked, String> {
    let key = key_pair(certificate, key)?;
    let mut roots = RootCertStore::empty();
    let mut authority_until = None;
    for authority in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
        let authority = authority.map_err(|e| format!("ca.crt is not PEM: {e}"))?;
        // The first one is the present one.
        authority_until = authority_until.or(Some(until(&authority)?));
        roots.add(authority).map_err(|e| format!("ca.crt cannot be used: {e}"))?;
    }
    let authority_until = authority_until.ok_or("ca.crt has no certificate")?;
    let (leaf, others) = key.cert.split_first().ok_or("there is no certificate")?;
    let certificate_until = until(leaf)?;
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build();
    let verifier = verifier.map_err(|e| e.to_string())?;
    let name = ServerName::try_from(host).map_err(|e| format!("{host}: {e}"))?;
    let last = u64::try_from(certificate_until.as_second() - 1).unwrap_or_default();
    let at = UnixTime::since_unix_epoch(Duration::from_secs(last));
    verifier.verify_server_cert(leaf, others, &name, &[], at).map_err(|e| e.to_string())?;
    Ok(Checked { key, certificate_until, authority_until })
}

/// Until when a certificate is valid.
fn until(certificate: &CertificateDer<'_>) -> Result<Timestamp, String> {
    let parsed = Certificate::from_der(certificate).map_err(|e| e.to_string())?;
    let seconds = parsed.tbs_certificate.validity.not_after.to_unix_duration().as_secs();
    let seconds = i64::try_from(seconds).map_err(|e| e.to_string())?;
    Timestamp::from_second(seconds).map_err(|e| e.to_string())
}
