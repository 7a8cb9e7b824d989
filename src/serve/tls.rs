//! How a server speaks TLS: with a certificate from files, one that another part of the process gives it, or a self-signed one, and
//! with the versions and cipher suites that flags or the cluster demand. Both may change while the server runs: each connection gets
//! what is valid when it begins.

use super::ServeError;
use super::certificate::AnyCertificate;
use crate::merge::inject::Tls;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ServerConfig, SupportedCipherSuite, SupportedProtocolVersion};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;
use tokio::sync::watch;

/// The certificate chain and the key: two PEM files, which may be replaced at any time.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// Where the certificate of a server comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    SelfSigned,
    Files(Files),
    /// The last one that was sent; as long as there is none it is self-signed.
    Given(watch::Receiver<Option<Arc<CertifiedKey>>>),
}

/// The protocols that are offered to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocols {
    Http1,
    /// HTTP/2 and HTTP/1.1.
    Http2,
}

impl Protocols {
    /// By their names in ALPN, the preferred one first.
    fn names(self) -> Vec<Vec<u8>> {
        let http1 = b"http/1.1".to_vec();
        match self {
            Protocols::Http1 => vec![http1],
            Protocols::Http2 => vec![HTTP2.to_vec(), http1],
        }
    }
}

/// The name of HTTP/2 in ALPN.
pub(super) const HTTP2: &[u8] = b"h2";

/// Versions and cipher suites that are accepted. TLS 1.2 is the lowest version whatever is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demands {
    /// Nothing below TLS 1.3.
    only_tls13: bool,
    /// IANA names of the suites for TLS 1.2; `None` for every suite that this program has. The suites of TLS 1.3 cannot be
    /// chosen, as in Go.
    suites: Option<Vec<String>>,
}

impl Demands {
    /// What the names of the API mean: a version such as `VersionTLS12`, empty for the lowest, and IANA names of cipher suites.
    /// An error names what is unknown.
    pub(crate) fn new(min_version: &str, suites: &[String]) -> Result<Demands, String> {
        let only_tls13 = match min_version {
            "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" => false,
            "VersionTLS13" => true,
            other => {
                return Err(format!(
                    "unknown TLS version {other:?}: use VersionTLS12 or VersionTLS13 (VersionTLS10 and VersionTLS11 are \
                     taken for VersionTLS12)"
                ));
            }
        };
        let mut demands = Demands { only_tls13, suites: (!suites.is_empty()).then(|| suites.to_vec()) };
        if demands.usable().next().is_none() {
            if !suites.iter().all(|suite| is_of_tls13(suite)) {
                let (known, named) = (known_suites().join(", "), suites.join(", "));
                return Err(format!("none of the cipher suites {named} can be used: known for TLS 1.2 are {known}"));
            }
            demands.only_tls13 = true;
        }
        Ok(demands)
    }

    /// The settings of the cluster, overridden by those of the command line.
    pub(crate) fn of_cluster(cluster: &Tls, flags: &Flags) -> Result<Demands, String> {
        let version = flags.min_version.as_deref().unwrap_or(&cluster.min_version);
        let suites = if flags.suites.is_empty() { &cluster.ciphers } else { &flags.suites };
        Demands::new(version, suites)
    }

    fn usable(&self) -> impl Iterator<Item = SupportedCipherSuite> {
        let all = aws_lc_rs::default_provider().cipher_suites.into_iter();
        all.filter(|suite| match (&self.suites, name(*suite)) {
            (Some(chosen), Some(name)) => chosen.iter().any(|chosen| chosen == name),
            (None, Some(_)) => true,
            (_, None) => false,
        })
    }

    fn config(&self, key: Arc<CertifiedKey>, protocols: Protocols) -> Result<ServerConfig, rustls::Error> {
        let mut provider = aws_lc_rs::default_provider();
        let of_tls13 = provider.cipher_suites.iter().copied().filter(|suite| suite.tls13().is_some());
        provider.cipher_suites = of_tls13.chain(self.usable()).collect();
        let versions: &[&SupportedProtocolVersion] = if self.only_tls13 { &[&TLS13] } else { &[&TLS13, &TLS12] };
        let resolver = Arc::new(rustls::sign::SingleCertAndKey::from(key));
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(versions)?
            .with_client_cert_verifier(Arc::new(AnyCertificate::default()))
            .with_cert_resolver(resolver);
        config.alpn_protocols = protocols.names();
        Ok(config)
    }
}

/// What the command line demands; it comes before what the cluster demands.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags {
    min_version: Option<String>,
    suites: Vec<String>,
    /// What applies while the cluster demands nothing.
    pub alone: Demands,
}

impl Flags {
    /// In the words of the API, as [`Demands::new`] takes them.
    pub(crate) fn new(min_version: Option<String>, suites: Vec<String>) -> Result<Flags, String> {
        let alone = Demands::new(min_version.as_deref().unwrap_or_default(), &suites)?;
        Ok(Flags { min_version, suites, alone })
    }
}

/// The IANA name of a suite of TLS 1.2.
fn name(suite: SupportedCipherSuite) -> Option<&'static str> {
    if suite.tls13().is_some() { None } else { suite.suite().as_str() }
}

fn is_of_tls13(suite: &str) -> bool {
    let mut all = aws_lc_rs::default_provider().cipher_suites.into_iter();
    all.any(|known| known.tls13().is_some() && tls13_name(known).is_some_and(|name| name == suite))
}

/// Go and the API write the suites of TLS 1.3 without the number of the version.
fn tls13_name(suite: SupportedCipherSuite) -> Option<String> {
    suite.suite().as_str().map(|name| name.replace("TLS13_", "TLS_"))
}

fn known_suites() -> Vec<&'static str> {
    aws_lc_rs::default_provider().cipher_suites.into_iter().filter_map(name).collect()
}

/// The configuration that is valid now. It looks at the source and at the demands at each call: a certificate that has been
/// replaced is used by the next connection, and nothing has to watch the files between.
#[derive(Debug)]
pub(crate) struct Current {
    source: Source,
    protocols: Protocols,
    demands: watch::Receiver<Demands>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    key: Arc<CertifiedKey>,
    config: Arc<ServerConfig>,
    /// The source and the demands at the last attempt, successful or not.
    stamp: Option<Stamp>,
    demands: Demands,
}

/// Tells one state of a source from another.
#[derive(Clone, Debug)]
enum Stamp {
    /// Of the two files.
    Files([(SystemTime, u64, u64); 2]),
    Given(Arc<CertifiedKey>),
}

impl PartialEq for Stamp {
    fn eq(&self, other: &Stamp) -> bool {
        match (self, other) {
            (Stamp::Files(one), Stamp::Files(other)) => one == other,
            (Stamp::Given(one), Stamp::Given(other)) => Arc::ptr_eq(one, other),
            _ => false,
        }
    }
}

impl Current {
    /// The first configuration must succeed; later ones that do not leave the last one in place. Without files the
    /// certificate is self-signed, and also as long as neither file exists: who makes them may need this process first.
    pub(crate) fn new(
        source: Source,
        protocols: Protocols,
        demands: watch::Receiver<Demands>,
    ) -> Result<Current, ServeError> {
        let stamp = source.stamp();
        let key = match (&source, &stamp) {
            (Source::Files(files), _) if !files.are_missing() => Arc::new(files.read()?),
            (_, Some(Stamp::Given(key))) => key.clone(),
            _ => Arc::new(self_signed(&["cluster-version-operator", "localhost"])?.0),
        };
        let now = demands.borrow().clone();
        let config = now.config(key.clone(), protocols).map_err(|e| refuse(source.files(), &e.to_string()))?;
        let state = State { key, config: Arc::new(config), stamp, demands: now };
        Ok(Current { source, protocols, demands, state: Mutex::new(state) })
    }

    /// For a connection that begins now.
    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        // Files that are missing for a moment, because they are being replaced, change nothing.
        let stamp = self.source.stamp().or_else(|| state.stamp.clone());
        let demands = self.demands.borrow().clone();
        if stamp != state.stamp || demands != state.demands {
            let replaced = if stamp == state.stamp { None } else { stamp.clone() };
            let is_replaced = replaced.is_some();
            (state.stamp, state.demands) = (stamp, demands);
            match self.renewed(&state, replaced) {
                Ok((key, config)) => {
                    tracing::info!(certificate = is_replaced, demands = ?state.demands, "TLS settings changed");
                    (state.key, state.config) = (key, Arc::new(config));
                }
                Err(error) => tracing::warn!(%error, "the server keeps its last certificate and TLS settings"),
            }
        }
        state.config.clone()
    }

    /// With the key that has been replaced, or with the last one.
    fn renewed(&self, state: &State, replaced: Option<Stamp>) -> Result<(Arc<CertifiedKey>, ServerConfig), ServeError> {
        let key = match (replaced, self.source.files()) {
            (Some(Stamp::Given(key)), _) => key,
            (Some(Stamp::Files(_)), Some(files)) => Arc::new(files.read()?),
            _ => state.key.clone(),
        };
        let config = state.demands.config(key.clone(), self.protocols);
        Ok((key, config.map_err(|e| refuse(self.source.files(), &e.to_string()))?))
    }
}

impl Source {
    /// From files, where there are any.
    pub(crate) fn of_files(files: Option<Files>) -> Source {
        files.map_or(Source::SelfSigned, Source::Files)
    }

    fn files(&self) -> Option<&Files> {
        if let Source::Files(files) = self { Some(files) } else { None }
    }

    fn stamp(&self) -> Option<Stamp> {
        match self {
            Source::SelfSigned => None,
            Source::Files(files) => stamp(files),
            Source::Given(key) => key.borrow().clone().map(Stamp::Given),
        }
    }
}

fn stamp(files: &Files) -> Option<Stamp> {
    let one = |path: &Path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.modified().ok()?, metadata.ino(), metadata.len()))
    };
    Some(Stamp::Files([one(&files.certificate)?, one(&files.key)?]))
}

/// A certificate chain and its key, both PEM. An error says what is wrong with them.
pub(crate) fn key_pair(chain: &str, key: &str) -> Result<CertifiedKey, String> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
    let chain = chain.map_err(|e| format!("the certificate: {e}"))?;
    if chain.is_empty() {
        return Err("there is no PEM certificate".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|e| format!("the key: {e}"))?;
    certified(chain, key).map_err(|e| e.to_string())
}

fn refuse(files: Option<&Files>, cause: &str) -> ServeError {
    let place =
        |of: fn(&Files) -> &PathBuf| files.map_or("of this process".to_owned(), |f| of(f).display().to_string());
    ServeError::Certificate { certificate: place(|f| &f.certificate), key: place(|f| &f.key), cause: cause.to_owned() }
}

impl Files {
    fn are_missing(&self) -> bool {
        let missing = |path: &Path| matches!(path.try_exists(), Ok(false));
        missing(&self.certificate) && missing(&self.key)
    }

    fn read(&self) -> Result<CertifiedKey, ServeError> {
        let refuse = |cause: String| refuse(Some(self), &cause);
        let chain: Result<Vec<_>, _> = CertificateDer::pem_file_iter(&self.certificate).and_then(Iterator::collect);
        let chain = chain.map_err(|e| refuse(format!("the certificate file: {e}")))?;
        if chain.is_empty() {
            return Err(refuse("the certificate file contains no PEM certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key).map_err(|e| refuse(format!("the key file: {e}")))?;
        certified(chain, key).map_err(|e| refuse(e.to_string()))
    }
}

/// Checks that key and certificate belong together.
fn certified(chain: Vec<CertificateDer<'static>>, key: PrivateKeyDer<'static>) -> Result<CertifiedKey, rustls::Error> {
    CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider())
}

/// A self-signed certificate for `names` (host names or IP addresses), also as PEM for clients that are to trust it.
fn self_signed(names: &[&str]) -> Result<(CertifiedKey, String), ServeError> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    let refuse = |cause: String| ServeError::SelfSigned { names: names.clone(), cause };
    let made = rcgen::generate_simple_self_signed(names.clone()).map_err(|e| refuse(e.to_string()))?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()).into();
    let key = certified(vec![made.cert.der().clone()], key).map_err(|e| refuse(e.to_string()))?;
    Ok((key, made.cert.pem()))
}

#[cfg(test)]
pub(crate) mod tests;
