//! Whether the daemon may do what the plan says.

use super::Cluster;
use crate::cli::plan::PlanArgs;
use crate::cluster::access::{self, Attributes};
use crate::cluster::{ApiError, Kind};
use crate::cluster_version::forecast::{Action, Blocker, Cause, Forecast, Step};
use crate::cluster_version::health::daemon;
use crate::error::{CAUSE, listed};
use crate::merge;
use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Objects that are asked about at the same time.
const QUESTIONS: usize = 8;

/// API version, kind and verb.
type What = (String, String, &'static str);
/// Namespace and name of objects; no name where a right cannot be given by name.
type Objects = BTreeSet<(String, String)>;

/// A blocker for each verb that the update needs and the daemon may not use; or the user that --as names.
pub(super) async fn denied(
    cluster: &Cluster,
    args: &PlanArgs,
    daemon: &Value,
    forecast: &Forecast,
    unknowns: &mut Vec<String>,
) -> Vec<Blocker> {
    let user = args
        .user
        .clone()
        .unwrap_or_else(|| daemon::user(&args.source.namespace, Some(daemon).filter(|daemon| !daemon.is_null())));
    let asker = Asker { client: &cluster.clients.call, user: &user, acts: args.user.is_some() };
    let unknown = |error: ApiError| format!("Whether the permissions of {user} suffice: {error}.");
    let mut blockers = Vec::new();
    match asker.may(&Attributes { verb: "*", group: "*", resource: "*", ..Attributes::default() }).await {
        Ok(true) => return blockers,
        Ok(false) => {}
        Err(error) => {
            unknowns.push(unknown(error));
            return blockers;
        }
    }
    for ((api_version, kind, verb), objects) in needed(forecast.steps()) {
        let Some(kind) = cluster.kinds.get(&api_version, &kind) else { continue };
        let resource = kind.resource();
        match asker.refused(verb, &kind, &objects).await {
            Ok(None) => {}
            Ok(Some(place)) => {
                let message = format!("{user} may not {verb} {resource} {place}");
                blockers.push(Blocker::new(Cause::Permission, resource, "Forbidden", message));
            }
            Err(error) => unknowns.push(unknown(error)),
        }
    }
    blockers
}

/// Everything that the update reads and writes. Whole kinds are listed and watched; an object that does not exist yet has no name
/// for the authorizer.
fn needed<'a>(steps: impl Iterator<Item = &'a Step>) -> BTreeMap<What, Objects> {
    let mut needed: BTreeMap<What, Objects> = BTreeMap::new();
    for Step { object, api_version, action, .. } in steps {
        let applied = merge::is_applied(&object.group, &object.kind);
        let verbs: &[&'static str] = match action {
            Action::Create if applied => &["create", "patch"],
            Action::Change { .. } if applied => &["update", "patch"],
            Action::Create => &["create"],
            Action::Change { .. } => &["update"],
            Action::Replace { .. } => &["delete", "create"],
            Action::Delete => &["delete"],
            _ => &[],
        };
        for verb in ["list", "watch"] {
            needed.entry((api_version.clone(), object.kind.clone(), verb)).or_default();
        }
        for verb in verbs.iter().copied() {
            let name = if verb == "create" { String::new() } else { object.name.clone() };
            let objects = needed.entry((api_version.clone(), object.kind.clone(), verb)).or_default();
            objects.insert((object.namespace.clone(), name));
        }
    }
    needed
}

/// Asks the API server what a user may do.
struct Asker<'a> {
    client: &'a Client,
    user: &'a str,
    /// The client acts as the user.
    acts: bool,
}

impl Asker<'_> {
    async fn may(&self, what: &Attributes<'_>) -> Result<bool, ApiError> {
        if self.acts {
            return access::may(self.client, what).await;
        }
        access::may_user(self.client, self.user, what).await
    }

    /// Where the user may not use the verb. A right for the whole kind comes first; without it, rights may be given for each of
    /// the objects, as `cvo rbac` derives them.
    async fn refused(&self, verb: &str, kind: &Kind, objects: &Objects) -> Result<Option<String>, ApiError> {
        let all = Attributes { verb, group: &kind.group, resource: &kind.plural, ..Attributes::default() };
        if self.may(&all).await? {
            return Ok(None);
        }
        if objects.is_empty() {
            return Ok(Some("in the whole cluster".to_owned()));
        }
        let each = objects.iter().map(|(namespace, name)| async move {
            let may = self.may(&Attributes { namespace, name, ..all }).await?;
            Ok::<_, ApiError>((!may).then(|| place(namespace, name)))
        });
        let answers: Vec<Option<String>> = stream::iter(each).buffered(QUESTIONS).try_collect().await?;
        let refused: Vec<String> = answers.into_iter().flatten().collect();
        Ok((!refused.is_empty()).then(|| listed(&refused, ", ", CAUSE, |n| format!("and {n} more"))))
    }
}

fn place(namespace: &str, name: &str) -> String {
    match (namespace, name) {
        ("", "") => "in the whole cluster".to_owned(),
        (namespace, "") => format!("in namespace {namespace}"),
        ("", name) => name.to_owned(),
        (namespace, name) => format!("{namespace}/{name}"),
    }
}

#[cfg(test)]
mod tests;
