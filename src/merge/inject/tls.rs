//! The TLS settings of the cluster, which are injected into the configuration files of operators.

use super::edit;
use serde_json::{Value, json};

/// The TLS settings that operators serve with.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tls {
    /// Such as `VersionTLS12`; empty if a custom profile sets none.
    pub min_version: String,
    /// IANA names.
    pub ciphers: Vec<String>,
}

impl Default for Tls {
    fn default() -> Self {
        INTERMEDIATE.settings()
    }
}

impl Tls {
    /// From the APIServer object. Without an object or a valid profile the Intermediate profile applies.
    pub(crate) fn of(object: Option<&Value>) -> Self {
        let profile = object.and_then(|object| object.pointer("/spec/tlsSecurityProfile"));
        let kind = profile.and_then(|profile| profile.get("type")).and_then(Value::as_str).unwrap_or_default();
        match kind {
            "Old" => OLD.settings(),
            "Modern" => MODERN.settings(),
            "Custom" => match profile.and_then(|profile| profile.get("custom")).and_then(Value::as_object) {
                Some(custom) => {
                    let names = custom.get("ciphers").and_then(Value::as_array).into_iter().flatten();
                    Tls {
                        min_version: custom.get("minTLSVersion").and_then(Value::as_str).unwrap_or_default().to_owned(),
                        ciphers: names.filter_map(Value::as_str).filter_map(iana).map(str::to_owned).collect(),
                    }
                }
                None => INTERMEDIATE.settings(),
            },
            _ => INTERMEDIATE.settings(),
        }
    }
}

/// A named profile, with the OpenSSL names of its cipher suites.
struct Profile {
    min_version: &'static str,
    ciphers: &'static [&'static str],
}

impl Profile {
    fn settings(&self) -> Tls {
        let ciphers = self.ciphers.iter().filter_map(|name| iana(name));
        Tls { min_version: self.min_version.to_owned(), ciphers: ciphers.map(str::to_owned).collect() }
    }
}

const MODERN: Profile = Profile {
    min_version: "VersionTLS13",
    ciphers: &["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"],
};

const INTERMEDIATE: Profile = Profile {
    min_version: "VersionTLS12",
    ciphers: &[
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-CHACHA20-POLY1305",
    ],
};

const OLD: Profile = Profile {
    min_version: "VersionTLS10",
    ciphers: &[
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        "ECDHE-RSA-CHACHA20-POLY1305",
        "ECDHE-ECDSA-AES128-SHA256",
        "ECDHE-RSA-AES128-SHA256",
        "ECDHE-ECDSA-AES128-SHA",
        "ECDHE-RSA-AES128-SHA",
        "ECDHE-ECDSA-AES256-SHA384",
        "ECDHE-RSA-AES256-SHA384",
        "ECDHE-ECDSA-AES256-SHA",
        "ECDHE-RSA-AES256-SHA",
        "AES128-GCM-SHA256",
        "AES256-GCM-SHA384",
        "AES128-SHA256",
        "AES256-SHA256",
        "AES128-SHA",
        "AES256-SHA",
        "DES-CBC3-SHA",
    ],
};

/// OpenSSL and IANA names of the cipher suites that Go implements. Others are dropped, since an operator refuses a
/// configuration with an unknown name.
const SUITES: [(&str, &str); 21] = [
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384"),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-RSA-AES128-GCM-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA256", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-RSA-AES128-SHA256", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256"),
    ("ECDHE-ECDSA-AES128-SHA", "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-RSA-AES128-SHA", "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA"),
    ("ECDHE-ECDSA-AES256-SHA", "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA"),
    ("ECDHE-RSA-AES256-SHA", "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA"),
    ("AES128-GCM-SHA256", "TLS_RSA_WITH_AES_128_GCM_SHA256"),
    ("AES256-GCM-SHA384", "TLS_RSA_WITH_AES_256_GCM_SHA384"),
    ("AES128-SHA256", "TLS_RSA_WITH_AES_128_CBC_SHA256"),
    ("AES128-SHA", "TLS_RSA_WITH_AES_128_CBC_SHA"),
    ("AES256-SHA", "TLS_RSA_WITH_AES_256_CBC_SHA"),
    ("DES-CBC3-SHA", "TLS_RSA_WITH_3DES_EDE_CBC_SHA"),
];

fn iana(name: &str) -> Option<&'static str> {
    SUITES.iter().find(|(openssl, _)| *openssl == name).map(|(_, iana)| *iana)
}

/// The kinds of configuration files that have `servingInfo`.
const CONFIGURATIONS: [(&str, &str); 2] = [
    ("operator.openshift.io/v1alpha1", "GenericOperatorConfig"),
    ("config.openshift.io/v1", "GenericControllerConfig"),
];

/// Sets both settings in every configuration file among the ConfigMap's data.
pub(super) fn inject(object: &mut Value, tls: &Tls) {
    // In the order in which the original operator writes them, so that nothing restarts when one takes over from the other.
    let settings = [("cipherSuites", json!(tls.ciphers)), ("minTLSVersion", json!(tls.min_version))];
    let data = object.get_mut("data").and_then(Value::as_object_mut);
    for entry in data.into_iter().flat_map(|data| data.values_mut()) {
        if let Some(edited) =
            entry.as_str().and_then(|text| edit::set(text, is_configuration, "servingInfo", &settings))
        {
            *entry = Value::from(edited);
        }
    }
}

fn is_configuration(document: &Value) -> bool {
    let text = |field: &str| document.get(field).and_then(Value::as_str);
    CONFIGURATIONS.iter().any(|(version, kind)| text("apiVersion") == Some(version) && text("kind") == Some(kind))
}
