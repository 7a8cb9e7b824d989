//! Writing with the rights of ServiceAccounts, for OperatorGroups that name one.

use crate::cluster::{ApiError, Cause, Clients, Objects};
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use kube::api::PostParams;
use kube::{Api, Client};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a token is good for.
const TOKEN_SECONDS: i64 = 3600;
/// After this time another one is asked for.
const USED_FOR: Duration = Duration::from_secs(2700);

/// Namespace and name.
type Id = (String, String);

/// Clients of accounts. Cheap to clone.
#[derive(Clone)]
pub(super) struct Accounts {
    clients: Arc<Clients>,
    known: Arc<Mutex<BTreeMap<Id, (Client, Instant)>>>,
}

impl Accounts {
    pub(super) fn new(clients: &Arc<Clients>) -> Accounts {
        Accounts { clients: clients.clone(), known: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Id, (Client, Instant)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The same objects, written with the rights of the account; with those of this process where `account` is empty.
    pub(super) async fn writing_as(
        &self,
        objects: &Objects,
        namespace: &str,
        account: &str,
    ) -> Result<Objects, ApiError> {
        if account.is_empty() {
            return Ok(objects.clone());
        }
        let (id, now) = ((namespace.to_owned(), account.to_owned()), Instant::now());
        let known = {
            let mut known = self.lock();
            // Those that nobody uses any more go with the others.
            known.retain(|_, (_, until)| *until > now);
            known.get(&id).map(|(client, _)| client.clone())
        };
        if let Some(client) = known {
            return Ok(objects.with_client(client));
        }
        let attempt = format!("get a token of ServiceAccount {namespace}/{account}");
        let accounts: Api<ServiceAccount> = Api::namespaced(objects.client_for_writes(), namespace);
        let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let granted = accounts.create_token_request(account, &PostParams::default(), &request).await;
        let granted = granted.map_err(|error| ApiError::of(&attempt, error))?;
        let token = granted.status.and_then(|status| status.token).unwrap_or_default();
        let client = self
            .clients
            .with_token(&token)
            .map_err(|error| ApiError { attempt, cause: Cause::Answer(error.to_string()) })?;
        self.lock().insert(id, (client.clone(), now + USED_FOR));
        Ok(objects.with_client(client))
    }

    /// A token of an account that has been deleted is good for nothing.
    pub(super) fn on_error(&self, namespace: &str, account: &str, error: &ApiError) {
        if error.is_unauthorized() {
            self.lock().remove(&(namespace.to_owned(), account.to_owned()));
        }
    }
}
