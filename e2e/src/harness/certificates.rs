//! A cluster's certificate authority and the certificates that it signs.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

use super::error::{HarnessError, Result};

/// A key and its certificate, PEM.
#[derive(Debug, Clone)]
pub struct Leaf {
    pub certificate: String,
    pub key: String,
}

/// The authority of one cluster. Its key is kept too, for the controller that signs certificate requests.
#[derive(Debug)]
pub(super) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub leaf: Leaf,
}

impl Leaf {
    /// Both in one text, as clients read an identity.
    pub fn identity(&self) -> String {
        format!("{}{}", self.certificate, self.key)
    }
}

impl Authority {
    /// A new authority.
    pub(super) fn new(name: &str) -> Result<Self> {
        let failed = |error: rcgen::Error| HarnessError::Certificate(name.to_owned(), error.to_string());
        let (params, key) = (params_of(name), KeyPair::generate().map_err(failed)?);
        let certificate = params.self_signed(&key).map_err(failed)?.pem();
        let leaf = Leaf { certificate, key: key.serialize_pem() };
        Ok(Self { issuer: Issuer::new(params, key), leaf })
    }

    /// The authority of that name, which has been made before.
    pub(super) fn again(name: &str, leaf: Leaf) -> Result<Self> {
        let failed = |error: rcgen::Error| HarnessError::Certificate(name.to_owned(), error.to_string());
        let key = KeyPair::from_pem(&leaf.key).map_err(failed)?;
        Ok(Self { issuer: Issuer::new(params_of(name), key), leaf })
    }

    /// A client's certificate: Kubernetes reads the user from the common name and the group from the organization.
    pub(super) fn client(&self, user: &str, group: Option<&str>) -> Result<Leaf> {
        self.sign(user, group, &[], vec![ExtendedKeyUsagePurpose::ClientAuth])
    }

    /// A server's certificate for these names and addresses.
    pub(super) fn server(&self, name: &str, hosts: &[&str]) -> Result<Leaf> {
        self.sign(name, None, hosts, vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    /// The certificate of a server that is also a client of servers of its kind, as a member of etcd.
    pub(super) fn member(&self, name: &str, hosts: &[&str]) -> Result<Leaf> {
        self.sign(name, None, hosts, vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth])
    }

    fn sign(
        &self,
        name: &str,
        group: Option<&str>,
        hosts: &[&str],
        usages: Vec<ExtendedKeyUsagePurpose>,
    ) -> Result<Leaf> {
        let failed = |error: rcgen::Error| HarnessError::Certificate(name.to_owned(), error.to_string());
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).map_err(failed)?;
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = usages;
        params.use_authority_key_identifier_extension = true;
        params.distinguished_name = Default::default();
        params.distinguished_name.push(DnType::CommonName, name);
        if let Some(group) = group {
            params.distinguished_name.push(DnType::OrganizationName, group);
        }
        let key = KeyPair::generate().map_err(failed)?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(failed)?.pem();
        Ok(Leaf { certificate, key: key.serialize_pem() })
    }
}

fn params_of(authority: &str) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params.distinguished_name.push(DnType::CommonName, authority);
    params
}

/// The key pair that signs service account tokens: private and public key, PEM.
pub(super) fn token_keys() -> Result<(String, String)> {
    let key = KeyPair::generate()
        .map_err(|error| HarnessError::Certificate("service account tokens".to_owned(), error.to_string()))?;
    Ok((key.serialize_pem(), key.public_key_pem()))
}
