//! The server's certificate: from files, or self-signed at start if none are given.

use super::ServeError;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use std::path::Path;
use std::sync::Arc;

/// TLS 1.2 or later with the certificate chain and key of two PEM files.
pub(crate) fn config(certificate: &Path, key: &Path) -> Result<ServerConfig, ServeError> {
    let refuse = |cause: String| ServeError::Certificate {
        certificate: certificate.display().to_string(),
        key: key.display().to_string(),
        cause,
    };
    let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(certificate).and_then(Iterator::collect);
    let chain = chain.map_err(|e| refuse(format!("the certificate file: {e}")))?;
    if chain.is_empty() {
        return Err(refuse("the certificate file contains no PEM certificate".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(key).map_err(|e| refuse(format!("the key file: {e}")))?;
    server(chain, key).map_err(|e| refuse(e.to_string()))
}

/// A self-signed certificate for `names` (host names or IP addresses), also as PEM for clients that are to trust it.
pub(crate) fn self_signed(names: &[String]) -> Result<(ServerConfig, String), ServeError> {
    let refuse = |cause: String| ServeError::SelfSigned { names: names.to_vec(), cause };
    let made = rcgen::generate_simple_self_signed(names).map_err(|e| refuse(e.to_string()))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let config = server(vec![made.cert.der().clone()], key).map_err(|e| refuse(e.to_string()))?;
    Ok((config, made.cert.pem()))
}

fn server(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<ServerConfig, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
