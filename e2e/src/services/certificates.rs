//! A private certificate authority and a server's certificate.

use anyhow::Context;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivatePkcs8KeyDer;
use std::path::Path;
use std::sync::Arc;

/// All as PEM, and what a server in this process needs.
#[derive(Debug)]
pub struct Certificates {
    pub authority: String,
    pub certificate: String,
    pub key: String,
    pub config: Arc<ServerConfig>,
}

impl Certificates {
    /// For servers with these names or addresses.
    pub fn new(hosts: &[String]) -> anyhow::Result<Self> {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority_key = KeyPair::generate()?;
        let authority = params.self_signed(&authority_key)?.pem();
        let key = KeyPair::generate()?;
        let signed = CertificateParams::new(hosts.to_vec())?.signed_by(&key, &Issuer::new(params, authority_key))?;
        let config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], PrivatePkcs8KeyDer::from(key.serialize_der()).into())?;
        let (certificate, key) = (signed.pem(), key.serialize_pem());
        Ok(Self { authority, certificate, key, config: Arc::new(config) })
    }

    /// Writes `ca.pem`, `cert.pem` and `key.pem` into a folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        for (name, content) in [("ca", &self.authority), ("cert", &self.certificate), ("key", &self.key)] {
            let file = folder.join(format!("{name}.pem"));
            std::fs::write(&file, content).with_context(|| file.display().to_string())?;
        }
        Ok(())
    }
}
