//! In whose name an API server passes a request on. It proves by its certificate that it is one, and says the user in headers;
//! which authorities and names count, and which headers, stands in a ConfigMap that the API server keeps.

use super::caller::Caller;
use super::certificate::Authorities;
use axum::http::HeaderMap;
use percent_encoding::percent_decode_str;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Groups of a user: the first one says that it is known who it is, the other one that it is not.
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The user in whose name is asked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct User {
    pub name: String,
    /// Empty if it is not said.
    pub uid: String,
    pub groups: Vec<String>,
    /// By their names in small letters.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What the API server says of its requests.
#[derive(Clone, Debug)]
pub(crate) struct FrontProxy {
    authorities: Authorities,
    /// Common names that count; all, if there are none.
    names: Vec<String>,
    user: Vec<String>,
    uid: Vec<String>,
    groups: Vec<String>,
    extra: Vec<String>,
}

impl FrontProxy {
    /// From the ConfigMap `extension-apiserver-authentication`. An error names the key and says what is wrong with it.
    pub(crate) fn parse(config_map: &Value) -> Result<FrontProxy, String> {
        let text = |key: &str| config_map.get("data").and_then(|data| data.get(key)).and_then(Value::as_str);
        let list = |key: &str| -> Result<Vec<String>, String> {
            text(key).map_or(Ok(Vec::new()), |text| {
                serde_json::from_str(text).map_err(|error| format!("{key} is no list of texts: {error}"))
            })
        };
        const AUTHORITIES: &str = "requestheader-client-ca-file";
        let bundle = text(AUTHORITIES).ok_or_else(|| {
            format!("{AUTHORITIES} is not there: the API server has no --requestheader-client-ca-file")
        })?;
        let lower = |names: Vec<String>| names.into_iter().map(|name| name.to_ascii_lowercase()).collect();
        let user: Vec<String> = list("requestheader-username-headers").map(lower)?;
        if user.is_empty() {
            return Err(
                "requestheader-username-headers names no header: the API server does not say who asks".to_owned()
            );
        }
        Ok(FrontProxy {
            authorities: Authorities::parse(bundle).map_err(|error| format!("{AUTHORITIES}: {error}"))?,
            names: list("requestheader-allowed-names")?,
            user,
            uid: list("requestheader-uid-headers").map(lower)?,
            groups: list("requestheader-group-headers").map(lower)?,
            extra: list("requestheader-extra-headers-prefix").map(lower)?,
        })
    }

    /// In whose name the client asks. An error says why its headers do not count.
    pub(crate) fn user(&self, caller: &Caller, headers: &HeaderMap) -> Result<User, String> {
        if caller.chain.is_empty() {
            return Err(
                "a client certificate of the API server is required: ask the API server for packages".to_owned()
            );
        }
        let name = self.authorities.common_name(&caller.chain);
        let name = name.map_err(|error| format!("the client certificate is not trusted: {error}"))?;
        if !self.names.is_empty() && !self.names.contains(&name) {
            return Err(format!("the common name {name:?} of the client certificate is not that of an API server"));
        }
        let values = |names: &[String]| {
            let of = |name: &String| headers.get_all(name.as_str()).iter().filter_map(|value| value.to_str().ok());
            names.iter().flat_map(of).filter(|value| !value.is_empty()).map(ToOwned::to_owned).collect::<Vec<_>>()
        };
        let first = |names: &[String]| values(names).into_iter().next();
        let user =
            first(&self.user).ok_or_else(|| format!("none of the headers {} says who asks", self.user.join(", ")))?;
        let mut groups = values(&self.groups);
        if !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED) {
            groups.push(AUTHENTICATED.to_owned());
        }
        Ok(User { name: user, uid: first(&self.uid).unwrap_or_default(), groups, extra: self.extra(headers) })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (name, value) in headers {
            // Names of headers are in small letters.
            let key = self.extra.iter().find_map(|prefix| name.as_str().strip_prefix(prefix.as_str()));
            if let (Some(key), Ok(value)) = (key, value.to_str()) {
                extra.entry(unescaped(key)).or_default().push(value.to_owned());
            }
        }
        extra
    }
}

/// Characters that cannot stand in the name of a header are written as `%` and their number.
fn unescaped(key: &str) -> String {
    percent_decode_str(key).decode_utf8().map_or_else(|_| key.to_owned(), Cow::into_owned)
}

#[cfg(test)]
pub(crate) mod tests;
