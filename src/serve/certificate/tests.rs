use super::*;
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

/// Signs the certificates of clients.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Authority {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Authority { issuer: Issuer::new(params, key), pem }
    }

    /// Its own certificate.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    pub(crate) fn known(&self) -> Authorities {
        Authorities::parse(&self.pem).unwrap()
    }

    /// The certificate with its key of a client with this common name, PEM.
    pub(crate) fn client(&self, name: &str) -> String {
        self.sign(|params| params.distinguished_name.push(DnType::CommonName, name))
    }

    fn sign(&self, change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = Default::default();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        params.signed_by(&key, &self.issuer).unwrap().pem() + &key.serialize_pem()
    }
}

pub(crate) fn chain(pem: &str) -> Vec<CertificateDer<'static>> {
    CertificateDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().unwrap()
}

#[test]
fn name_counts_only_if_the_certificate_does() {
    let (authority, other) = (Authority::new("ca"), Authority::new("ca"));
    let known =
        Authorities::parse(&format!("# comment\n{}\n{}", Authority::new("another").pem, authority.pem)).unwrap();
    let name = |pem: &str| known.common_name(&chain(pem));
    assert_eq!(name(&authority.client("prometheus")), Ok("prometheus".to_owned()));
    assert!(name(&other.client("prometheus")).is_err(), "an authority of the same name with another key");
    let of_a_server = authority.sign(|params| {
        params.distinguished_name.push(DnType::CommonName, "prometheus");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    });
    assert!(name(&of_a_server).is_err());
    let expired = authority.sign(|params| {
        params.distinguished_name.push(DnType::CommonName, "prometheus");
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    assert!(name(&expired).unwrap_err().contains("expired"));
    let nameless = authority.sign(|params| params.distinguished_name.push(DnType::OrganizationName, "prometheus"));
    assert!(name(&nameless).unwrap_err().contains("common name"));
    assert!(known.common_name(&[]).is_err());
    assert!(known.common_name(&[CertificateDer::from(vec![0x30, 0x03, 1, 1, 1])]).is_err());
}

#[test]
fn bundle_counts_as_a_whole() {
    let authority = Authority::new("ca");
    let broken = "-----BEGIN CERTIFICATE-----\nMAMBAQE=\n-----END CERTIFICATE-----\n";
    for (bundle, part) in [
        (String::new(), "no root"),
        ("junk".to_owned(), "no root"),
        (format!("{}{broken}", authority.pem), "certificate 2 cannot be used"),
        ("-----BEGIN CERTIFICATE-----\n%\n-----END CERTIFICATE-----\n".to_owned(), "not PEM"),
    ] {
        let error = Authorities::parse(&bundle).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
}
