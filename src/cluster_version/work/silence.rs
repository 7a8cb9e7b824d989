//! Whether the daemon, and where pools are the controller of nodes, still renew their Leases; and if not, why. Whoever shows the state of
//! a cluster shows what these processes have written: it is as old as their last renewal.

use super::{attempts, health};
use crate::cluster::{ApiError, Clients, Kind, Objects, dated};
use crate::cluster_version::api::OWN_DEPLOYMENT;
use crate::cluster_version::health::daemon;
use crate::diagnosis::lease::{Holder, Renewal, Silence, silence};
use crate::diagnosis::parts::{Deployment, Parts};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Client;
use kube::api::ListParams;
use kube::client::Body;
use kube::core::ObjectList;

/// The daemon's. `name`: of the ClusterVersion.
pub(crate) fn of_daemon<'a>(namespace: &'a str, name: &'a str) -> Holder<'a> {
    Holder { process: "the daemon", namespace, name, deployment: OWN_DEPLOYMENT, required: true }
}

/// Who of these does not renew. One request each, which also tells the clock of the API server.
pub(crate) async fn look(client: &Client, holders: &[Holder<'_>]) -> Result<Vec<Silence>, ApiError> {
    let looks = holders.iter().map(|holder| async move {
        let (lease, now) = read(client, holder).await?;
        Ok::<_, ApiError>(silence(*holder, lease.as_ref().map(Renewal::of).as_ref(), now))
    });
    Ok(futures::future::try_join_all(looks).await?.into_iter().flatten().collect())
}

/// The lease if it exists, and the time at the API server.
async fn read(client: &Client, holder: &Holder<'_>) -> Result<(Option<Lease>, Timestamp), ApiError> {
    let attempt = format!("read lease {}/{}", holder.namespace, holder.name);
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", holder.namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", holder.name));
    let answer = async {
        let request = kube::core::Request::new(path).list(&params).map_err(kube::Error::BuildRequest)?;
        dated::<ObjectList<Lease>>(client, request.map(Body::from)).await
    };
    let (list, date) = answer.await.map_err(|error| ApiError::of(&attempt, error))?;
    // A server that does not say it has no clock that could be compared.
    Ok((list.items.into_iter().next(), date.unwrap_or_else(Timestamp::now)))
}

/// Adds why the daemon does not renew its lease, as far as this client may find out. Nothing is written, but writes are tried.
pub(crate) async fn explain(
    clients: &Clients,
    namespace: &str,
    name: &str,
    silences: &mut [Silence],
    unknown: &mut Vec<String>,
) {
    let own = format!("lease {namespace}/{name}");
    let Some(silence) = silences.iter_mut().find(|silence| silence.lease == own) else { return };
    let deployment = own_deployment(&clients.call, namespace, unknown).await;
    let (attempts, webhooks) =
        tokio::join!(attempts::vital(clients, namespace, name, deployment.found()), health::webhooks(&clients.call));
    let webhooks =
        webhooks.map_err(|error| unknown.push(format!("Webhooks cannot be read: {error}"))).unwrap_or_default();
    let parts = Parts { deployment, attempts, webhooks, silences: vec![silence.clone()], ..Parts::default() };
    silence.causes = daemon::reasons(&parts);
    unknown.extend(crate::diagnosis::refusals::unknown(&parts.attempts));
}

/// That of the daemon.
pub(crate) async fn own_deployment(client: &Client, namespace: &str, unknown: &mut Vec<String>) -> Deployment {
    let objects = Objects::reader(client.clone());
    let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
    match objects.get(&kind, namespace, OWN_DEPLOYMENT).await {
        Ok(Some(found)) => Deployment::Found(found),
        Ok(None) => Deployment::Missing(format!("{namespace}/{OWN_DEPLOYMENT}")),
        Err(error) => {
            unknown.push(format!("Whether the daemon runs: {error}"));
            Deployment::Unknown
        }
    }
}
