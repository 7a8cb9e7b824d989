//! Errors about an API server that cannot be reached.

use crate::cluster::ApiError;
use crate::cluster::error::Cause;
use crate::net::proxy::{Proxies, ProxySettings};
use std::env;
use url::Url;

/// Adds the address and a hint to errors about reaching the server. An error that the server itself returned needs none.
pub(crate) fn explain(server: &str, error: ApiError) -> anyhow::Error {
    match error.cause {
        Cause::Transport(_) | Cause::Timeout => anyhow::anyhow!("{error} ({})", hint(server)),
        _ => error.into(),
    }
}

fn hint(server: &str) -> String {
    let set = |name: &str| env::var(name).ok().filter(|value| !value.is_empty());
    let either = |name: &str| set(name).or_else(|| set(&name.to_lowercase())).unwrap_or_default();
    let (https, none) = (either("HTTPS_PROXY"), either("NO_PROXY"));
    hint_in(server, &ProxySettings { https, none, ..ProxySettings::default() })
}

/// `environment`: the proxy of other programs, which has no effect here.
fn hint_in(server: &str, environment: &ProxySettings) -> String {
    let text = format!("the API server should be at {server}: is it running? --kubeconfig names another");
    let proxies = Proxies::new(environment).ok().zip(Url::parse(server).ok());
    if proxies.and_then(|(proxies, url)| proxies.of(&url)).is_none() {
        return text;
    }
    format!(
        "{text}; HTTPS_PROXY of the environment has no effect on that: if only a proxy leads there, name it as proxy-url of the \
         cluster in the kubeconfig"
    )
}

#[cfg(test)]
mod tests;
