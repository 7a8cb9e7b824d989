//! The certificates of clients. The handshake takes any, as long as the client has its key; whether it counts is decided for
//! each request, so that the answer can say why it does not, and that authorities may change while connections last.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use std::sync::Arc;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, TeletexStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;

/// Asks clients for a certificate and takes any, and none.
#[derive(Debug)]
pub(super) struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl Default for AnyCertificate {
    fn default() -> Self {
        AnyCertificate { algorithms: aws_lc_rs::default_provider().signature_verification_algorithms }
    }
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// The authorities that may sign the certificates of clients.
#[derive(Clone, Debug)]
pub(crate) struct Authorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Authorities {
    /// From a bundle of PEM certificates. What is not a certificate makes the whole bundle unusable: an authority that somebody
    /// meant to be there must not be missing unnoticed.
    pub(crate) fn parse(bundle: &str) -> Result<Authorities, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(bundle.as_bytes()) {
            let certificate = certificate.map_err(|e| format!("it is not PEM: {e}"))?;
            roots.add(certificate).map_err(|e| format!("certificate {} cannot be used: {e}", roots.len() + 1))?;
        }
        let provider = Arc::new(aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
        Ok(Authorities { verifier: verifier.map_err(|e| e.to_string())? })
    }

    /// The common name of the client whose certificate is the first of the chain, if one of the authorities has signed it for a
    /// client, through the others if need be, and it is valid now. An error says why it is not trusted.
    pub(crate) fn common_name(&self, chain: &[CertificateDer<'_>]) -> Result<String, String> {
        let (first, others) = chain.split_first().ok_or("there is no certificate")?;
        self.verifier.verify_client_cert(first, others, UnixTime::now()).map_err(|e| e.to_string())?;
        common_name(first).ok_or_else(|| "it does not have exactly one common name".to_owned())
    }
}

/// The common name of a certificate, if it has exactly one.
pub(crate) fn common_name(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = Certificate::from_der(certificate).ok()?;
    let names = certificate.tbs_certificate.subject.0.iter().flat_map(|set| set.0.iter());
    let mut names = names.filter(|name| name.oid == COMMON_NAME);
    let (name, None) = (names.next()?, names.next()) else { return None };
    let value = &name.value;
    let text = Utf8StringRef::try_from(value).map(|text| text.as_str().to_owned());
    let text = text.or_else(|_| PrintableStringRef::try_from(value).map(|text| text.as_str().to_owned()));
    let text = text.or_else(|_| Ia5StringRef::try_from(value).map(|text| text.as_str().to_owned()));
    text.or_else(|_| TeletexStringRef::try_from(value).map(|text| text.as_str().to_owned())).ok()
}

#[cfg(test)]
pub(crate) mod tests;
