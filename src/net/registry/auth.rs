//! What registries want to be shown. Tokens are kept until they expire, so that a registry that is asked again is asked once.

use super::layer::sha256;
use super::request::{Ask, Host, body, too_slow};
use super::{RegistryError, Repository};
use crate::images::credentials::{Credential, Login};
use crate::net::http::misleads;
use reqwest::header::{HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Method, Response, StatusCode};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};
use url::Url;

/// Largest answer with a token, in bytes.
const MAX_TOKEN: usize = 256 << 10;
/// How long a token is good if the server does not say so, as the protocol has it.
const USUAL_TIME: u64 = 60;
const LONGEST_TIME: u64 = 24 * 3600;
/// As many registries and repositories are remembered. Whoever asks for more begins anew.
const MAX_REMEMBERED: usize = 500;

/// What is known of registries. Clones share it, but a token only with those who have the credentials that it was given for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    hosts: BTreeMap<String, Arc<Host>>,
    repositories: BTreeMap<String, Remembered>,
}

/// What is known of a repository.
#[derive(Clone, Debug, Default)]
pub(super) struct Remembered {
    /// The position of the login that was accepted last.
    pub login: usize,
    challenge: Option<Challenge>,
    /// What is shown, for this login, until this time.
    shown: Option<(usize, HeaderValue, Instant)>,
    /// It does not tell digests when it is asked for them alone.
    pub without_head: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Challenge {
    Basic,
    Bearer { realm: Url, service: Option<String>, scope: Option<String> },
}

#[derive(Deserialize)]
struct Token {
    #[serde(default)]
    token: String,
    #[serde(default)]
    access_token: String,
    expires_in: Option<u64>,
}

impl Token {
    fn text(&self) -> &str {
        if self.token.is_empty() { &self.access_token } else { &self.token }
    }
}

/// The key of a repository, for those with these credentials.
pub(super) fn key(registry: &str, repository: &str, logins: &[Credential]) -> String {
    let text = |known: &Credential| match &known.login {
        Login::Password { user, password } => format!("{} {user} {password} ", user.len()),
        Login::Token(token) => format!("token {token} "),
    };
    let all: String = logins.iter().map(text).collect();
    format!("{registry}/{repository} {}", sha256(all.as_bytes()))
}

impl Known {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The registry that this key stands for, made at the first time.
    pub(super) fn host<E>(&self, key: &str, make: impl FnOnce() -> Result<Host, E>) -> Result<Arc<Host>, E> {
        if let Some(host) = self.state().hosts.get(key) {
            return Ok(host.clone());
        }
        let host = Arc::new(make()?);
        let hosts = &mut self.state().hosts;
        if hosts.len() >= MAX_REMEMBERED {
            hosts.clear();
        }
        hosts.insert(key.to_owned(), host.clone());
        Ok(host)
    }

    pub(super) fn of(&self, repository: &str) -> Remembered {
        self.state().repositories.get(repository).cloned().unwrap_or_default()
    }

    pub(super) fn remember(&self, repository: &str, change: impl FnOnce(&mut Remembered)) {
        let repositories = &mut self.state().repositories;
        if repositories.len() >= MAX_REMEMBERED && !repositories.contains_key(repository) {
            repositories.clear();
        }
        change(repositories.entry(repository.to_owned()).or_default());
    }
}

impl Repository {
    /// What is to be shown with a request as far as it is known, for the login at this position.
    pub(super) async fn shown(&self, attempt: &str, login: usize) -> Result<Option<HeaderValue>, RegistryError> {
        if let Some(Login::Token(token)) = self.login(login).map(|known| &known.login) {
            return self.header(attempt, &format!("Bearer {token}")).map(Some);
        }
        let known = self.known.of(&self.key);
        match (known.shown, known.challenge) {
            (Some((of, header, until)), _) if of == login && Instant::now() < until => Ok(Some(header)),
            // Without asking for nothing first.
            (_, Some(challenge)) => self.answer(attempt, login, challenge).await,
            (_, None) => Ok(None),
        }
    }

    /// What is to be shown after this answer; `None` if nothing would change it.
    pub(super) async fn challenged(
        &self,
        attempt: &str,
        login: usize,
        response: &Response,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        match challenge(response.headers()).filter(|_| self.is_from_registry(response)) {
            Some(challenge) => self.answer(attempt, login, challenge).await,
            None => Ok(None),
        }
    }

    /// What is to be shown to a registry that has not asked for it, as its root says; `None` if there are no credentials.
    pub(super) async fn introduced(&self, attempt: &str, login: usize) -> Result<Option<HeaderValue>, RegistryError> {
        if self.login(login).is_none() {
            return Ok(None);
        }
        let root = Ask { method: Method::GET, path: String::new(), headers: Vec::new(), attempt };
        let response = self.ask_once(&root, None).await?;
        let challenge = challenge(response.headers()).filter(|_| self.is_from_registry(&response));
        self.answer(attempt, login, challenge.unwrap_or(Challenge::Basic)).await
    }

    /// Where the registry has redirected us to has no right to its credentials.
    fn is_from_registry(&self, response: &Response) -> bool {
        Url::parse(&self.host.base()).is_ok_and(|base| base.origin() == response.url().origin())
    }

    async fn answer(
        &self,
        attempt: &str,
        login: usize,
        challenge: Challenge,
    ) -> Result<Option<HeaderValue>, RegistryError> {
        let credential = self.login(login);
        let (header, time) = match &challenge {
            Challenge::Basic => match credential.map(|known| &known.login) {
                Some(Login::Password { user, password }) => (basic(user, password), LONGEST_TIME),
                Some(Login::Token(_)) | None => return Ok(None),
            },
            Challenge::Bearer { realm, service, scope } => {
                let token = self.token(attempt, credential, realm, service.as_deref(), scope.as_deref()).await?;
                let time = token.expires_in.unwrap_or(USUAL_TIME).min(LONGEST_TIME);
                (format!("Bearer {}", token.text()), time - time / 10)
            }
        };
        let header = self.header(attempt, &header)?;
        let until = Instant::now() + Duration::from_secs(time);
        self.known.remember(&self.key, |known| {
            known.challenge = Some(challenge);
            known.shown = Some((login, header.clone(), until));
        });
        Ok(Some(header))
    }

    fn header(&self, attempt: &str, text: &str) -> Result<HeaderValue, RegistryError> {
        let header = HeaderValue::from_str(text);
        let mut header =
            header.map_err(|_| self.failed(attempt.to_owned(), "a token has characters that no token may have", ""))?;
        header.set_sensitive(true);
        Ok(header)
    }

    async fn token(
        &self,
        attempt: &str,
        credential: Option<&Credential>,
        realm: &Url,
        service: Option<&str>,
        scope: Option<&str>,
    ) -> Result<Token, RegistryError> {
        let what = format!("{attempt}: get a token from {}", realm.host_str().unwrap_or_default());
        if let Some(problem) = Url::parse(&self.host.base()).ok().and_then(|from| misleads(&from, realm)) {
            return Err(self.failed(what, format!("credentials do not go {problem}, as the registry asks for"), ""));
        }
        let scope = scope.map_or_else(|| format!("repository:{}:pull", self.reference.repository()), str::to_owned);
        let mut request = self.host.http.get(realm.clone()).query(&[("scope", scope)]);
        if let Some(service) = service {
            request = request.query(&[("service", service)]);
        }
        if let Some(Login::Password { user, password }) = credential.map(|known| &known.login) {
            request = request.basic_auth(user, Some(password));
        }
        let get = async {
            let response = request.send().await.map_err(|error| self.unsent(what.clone(), &error))?;
            if response.status() != StatusCode::OK {
                return Err(self.answered(what.clone(), response).await);
            }
            body(response, MAX_TOKEN).await.map_err(|cause| self.failed(what.clone(), cause, ""))
        };
        let bytes = timeout(self.document_timeout, get).await;
        let bytes = bytes.unwrap_or_else(|_| Err(self.failed(what.clone(), too_slow(self.document_timeout), "")))?;
        // Not what serde says: it may quote the token.
        let token =
            serde_json::from_slice(&bytes).ok().filter(|token: &Token| HeaderValue::from_str(token.text()).is_ok());
        let token = token.filter(|token| !token.text().is_empty());
        token.ok_or_else(|| self.failed(what, "the answer is not JSON with a token", ""))
    }
}

/// The challenge that can be met, the stronger first.
fn challenge(headers: &HeaderMap) -> Option<Challenge> {
    let texts: Vec<&str> = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok()).collect();
    let all = || texts.iter().filter_map(|text| http_auth::parse_challenges(text).ok()).flatten();
    let bearer = all().filter(|challenge| challenge.scheme.eq_ignore_ascii_case("bearer")).find_map(|challenge| {
        let parameter = |name: &str| {
            let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            found.map(|(_, value)| value.to_unescaped()).filter(|value| !value.is_empty())
        };
        let realm = Url::parse(&parameter("realm")?).ok().filter(|realm| matches!(realm.scheme(), "http" | "https"))?;
        Some(Challenge::Bearer { realm, service: parameter("service"), scope: parameter("scope") })
    });
    let basic = || all().any(|challenge| challenge.scheme.eq_ignore_ascii_case("basic")).then_some(Challenge::Basic);
    bearer.or_else(basic)
}

fn basic(user: &str, password: &str) -> String {
    use base64::Engine;
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(format!("{user}:{password}")))
}

#[cfg(test)]
mod tests;
