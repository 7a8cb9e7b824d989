//! Where the objects are that a plan starts from: in a cluster, or in a folder with files of them.

use crate::cluster::{ApiError, Clients, Kind, Kinds, Objects};
use crate::object::read::Read;
use crate::object::yaml;
use crate::olm::api::MANAGER;
use crate::olm::cli::objects::raw;
use crate::olm::forecast::Trial;
use crate::olm::forecast::known::Key;
use crate::olm::plan::definition::add_unfit;
use crate::olm::plan::schema::Schema;
use crate::olm::source::template::KubeVersion;
use crate::olm::work::plans::existing;
use anyhow::{Context, bail};
use kube::Resource;
use kube::core::NamespaceResourceScope;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// What a `--from` says that is no folder.
pub(super) const CLUSTER: &str = "cluster";
/// Kinds of bundles whose objects have no namespace.
const WITHOUT_NAMESPACE: [&str; 9] = [
    "CustomResourceDefinition",
    "ClusterRole",
    "ClusterRoleBinding",
    "PriorityClass",
    "ConsoleYAMLSample",
    "ConsoleQuickStart",
    "ConsoleCLIDownload",
    "ConsoleLink",
    "ConsolePlugin",
];
/// What a server says to who may not write an object, or may not give rights that he does not have.
const RIGHTS: [&str; 3] = ["cannot create resource", "cannot update resource", "attempting to grant"];
/// Objects in one page of a list.
const PAGE: u32 = 250;

pub(super) enum Reader {
    Cluster(Box<Connected>),
    Folder(Vec<Value>),
}

/// A cluster that is read.
pub(super) struct Connected {
    clients: Clients,
    objects: Objects,
    /// Asks what would become of writes; the server stores none of them.
    tried: Objects,
    kinds: Kinds,
}

/// What the API server says of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Tried {
    /// Nothing against it, also where it cannot say.
    NoObjection,
    Refused(String),
    /// Whoever asks may not.
    NotAllowed(String),
}

impl Reader {
    pub(super) async fn connect(kubeconfig: Option<&Path>) -> anyhow::Result<Reader> {
        let clients = Clients::connect(kubeconfig).await?;
        let objects = Objects::reader(clients.call.clone());
        let tried = Objects::new(clients.call.clone(), MANAGER, Arc::new(|| true)).dry_run();
        Ok(Reader::Cluster(Box::new(Connected { clients, objects, tried, kinds: Kinds::default() })))
    }

    /// All files below a folder that end with `.yaml`, `.yml` or `.json`, and the elements of their lists.
    pub(super) fn folder(folder: &Path) -> anyhow::Result<Reader> {
        let mut all = Vec::new();
        let mut open = vec![folder.to_owned()];
        while let Some(folder) = open.pop() {
            let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
            for entry in entries {
                let path = entry?.path();
                let is_of_objects =
                    ["yaml", "yml", "json"].iter().any(|end| path.extension().is_some_and(|it| it == *end));
                if path.is_dir() {
                    open.push(path);
                } else if is_of_objects {
                    all.extend(read_file(&path)?);
                }
            }
        }
        if all.is_empty() {
            bail!("{} has no objects: write them there, as with kubectl get -o yaml", folder.display());
        }
        Ok(Reader::Folder(all))
    }

    pub(super) fn is_cluster(&self) -> bool {
        matches!(self, Reader::Cluster(_))
    }

    /// Of the API server; empty if it is not known.
    pub(super) async fn kubernetes(&self) -> anyhow::Result<String> {
        let Reader::Cluster(cluster) = self else { return Ok(String::new()) };
        let info = cluster.clients.call.apiserver_version().await?;
        let version = KubeVersion::of(&info.major, &info.minor, &info.git_version);
        Ok(version.map(|it| it.to_string()).unwrap_or_default())
    }

    pub(super) async fn listed<K>(&self, namespace: Option<&str>) -> anyhow::Result<Vec<K>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + DeserializeOwned,
    {
        let all = self.raw::<K>(namespace).await?;
        Ok(all.into_iter().filter_map(|object| serde_json::from_value(object).ok()).collect())
    }

    /// The same as they are.
    pub(super) async fn raw<K>(&self, namespace: Option<&str>) -> anyhow::Result<Vec<Value>>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        match self {
            Reader::Cluster(cluster) => raw::<K>(&cluster.clients, namespace).await,
            Reader::Folder(all) => {
                let (group, kind) = (K::group(&()), K::kind(&()));
                let here = |key: &Key| namespace.is_none_or(|namespace| key.namespace == namespace);
                let is = |key: &Key| key.group == group && key.kind == kind && here(key);
                Ok(all.iter().filter(|object| is(&Key::of(object))).cloned().collect())
            }
        }
    }

    async fn kind(&self, api_version: &str, kind: &str) -> anyhow::Result<Option<Kind>> {
        let Reader::Cluster(cluster) = self else { return Ok(None) };
        let Connected { clients, kinds, .. } = &**cluster;
        match kinds.get(api_version, kind) {
            Some(kind) => Ok(Some(kind)),
            None => Ok(kinds.look_up(&clients.call, api_version, kind).await?),
        }
    }

    /// Whether objects of a kind have a namespace; `None` if the kind is not served. A folder does not say what is.
    pub(super) async fn scope(&self, api_version: &str, kind: &str) -> anyhow::Result<Option<bool>> {
        match self {
            Reader::Cluster(_) => Ok(self.kind(api_version, kind).await?.map(|kind| kind.namespaced)),
            Reader::Folder(_) => Ok(Some(!WITHOUT_NAMESPACE.contains(&kind))),
        }
    }

    pub(super) async fn get(&self, api_version: &str, key: &Key) -> Read<Value> {
        match self {
            Reader::Folder(all) => {
                let found = all.iter().find(|object| Key::of(object) == *key);
                found.map_or(Read::Absent, |object| Read::Value(object.clone()))
            }
            Reader::Cluster(cluster) => {
                let kind = match self.kind(api_version, &key.kind).await {
                    Ok(Some(kind)) => kind,
                    Ok(None) => return Read::Absent,
                    Err(error) => return Read::Failed(format!("{error:#}")),
                };
                match cluster.objects.get(&kind, &key.namespace, &key.name).await {
                    Ok(Some(object)) => Read::Value(object),
                    Ok(None) => Read::Absent,
                    Err(error) => Read::Failed(error.to_string()),
                }
            }
        }
    }

    /// What the API server says of a write, which it does not carry out. A folder says nothing.
    pub(super) async fn try_out(&self, trial: &Trial) -> Tried {
        let Reader::Cluster(cluster) = self else { return Tried::NoObjection };
        let Trial { is_new, api_version, key, object, refers } = trial;
        let Ok(Some(kind)) = self.kind(api_version, &key.kind).await else { return Tried::NoObjection };
        let answer = match is_new {
            true => cluster.tried.create(&kind, &key.namespace, object).await,
            false => cluster.tried.replace(&kind, &key.namespace, &key.name, object).await,
        };
        verdict(answer.map(drop), *refers)
    }

    /// Objects of a kind without a namespace that have these labels, or why they cannot be read.
    pub(super) async fn labelled(&self, api_version: &str, kind: &str, labels: &str) -> Result<Vec<Value>, String> {
        let Reader::Cluster(cluster) = self else { return Ok(self.labelled_in_folder(kind, labels)) };
        let known = self.kind(api_version, kind).await.map_err(|error| format!("{error:#}"))?;
        let Some(known) = known else { return Ok(Vec::new()) };
        cluster.objects.selected(&known, ("", labels), PAGE, Some).await.map_err(|error| error.to_string())
    }

    fn labelled_in_folder(&self, kind: &str, labels: &str) -> Vec<Value> {
        let Reader::Folder(all) = self else { return Vec::new() };
        let has = |object: &&Value| {
            let known = object.pointer("/metadata/labels");
            let mut wanted = labels.split(',').filter_map(|it| it.split_once('='));
            wanted.all(|(key, value)| known.and_then(|it| it.get(key)?.as_str()) == Some(value))
        };
        all.iter().filter(|object| Key::of(object).kind == kind).filter(has).cloned().collect()
    }

    /// Objects that do not fit another schema of a version, and whether these are all of them; or why that cannot be known.
    pub(super) async fn invalid(
        &self,
        live: &Value,
        version: &str,
        schema: &Schema,
    ) -> Result<(Vec<String>, bool), String> {
        match self {
            Reader::Cluster(cluster) => {
                existing::invalid(&cluster.objects, live, version, schema).await.map_err(|error| error.to_string())
            }
            Reader::Folder(all) => {
                let text = |pointer: &str| live.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
                let (group, kind) = (text("/spec/group"), text("/spec/names/kind"));
                let is = |key: &Key| key.group == group && key.kind == kind;
                let of_kind: Vec<Value> = all.iter().filter(|it| is(&Key::of(it))).cloned().collect();
                let mut invalid = Vec::new();
                let is_all = add_unfit(&mut invalid, schema, &of_kind);
                Ok((invalid, is_all))
            }
        }
    }
}

/// `refers`: the write refers to what is not there yet.
fn verdict(answer: Result<(), ApiError>, refers: bool) -> Tried {
    let Err(error) = answer else { return Tried::NoObjection };
    // Quotas and pod security answer with the same code.
    let lacks = |text: &str| RIGHTS.iter().any(|words| text.contains(words));
    let text = error.to_string();
    match () {
        () if error.is_no_verdict(refers) => Tried::NoObjection,
        () if error.is_forbidden() && lacks(&text) => Tried::NotAllowed(text),
        () => Tried::Refused(text),
    }
}

fn read_file(path: &Path) -> anyhow::Result<Vec<Value>> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let documents = yaml::documents(&bytes).with_context(|| format!("cannot read {}", path.display()))?;
    let mut all = Vec::new();
    for document in documents {
        match document.value.get("items").and_then(Value::as_array) {
            Some(items) => all.extend(items.iter().cloned()),
            None => all.push(document.value),
        }
    }
    all.retain(|object| object.get("kind").is_some());
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Cause;

    #[test]
    fn what_the_server_says_of_a_write_is_a_verdict_only_if_it_could_judge_it() {
        let error = |code: u16, reason: &str, message: &str| {
            let cause = Cause::Server { code, reason: reason.to_owned(), message: message.to_owned() };
            Err(ApiError { attempt: "create Role ns/a".to_owned(), cause })
        };
        let (denied, quota) =
            ("roles is forbidden: User \"x\" cannot create resource \"roles\"", "is forbidden: exceeded quota: q");
        let grant = "is forbidden: user \"x\" is attempting to grant RBAC permissions not currently held";
        let named = |answer: Result<(), ApiError>, refers: bool| match verdict(answer, refers) {
            Tried::NoObjection => "no objection",
            Tried::Refused(_) => "refused",
            Tried::NotAllowed(_) => "not allowed",
        };
        for (answer, refers, expected) in [
            (Ok(()), false, "no objection"),
            (error(409, "AlreadyExists", "it exists"), false, "no objection"),
            (error(422, "Invalid", "spec.x: required"), false, "refused"),
            (error(403, "Forbidden", quota), false, "refused"),
            (error(403, "Forbidden", denied), false, "not allowed"),
            (error(403, "Forbidden", grant), false, "not allowed"),
            (error(403, "Forbidden", grant), true, "no objection"),
            (error(404, "NotFound", "role a not found"), true, "no objection"),
            (error(404, "NotFound", "namespace ns not found"), false, "refused"),
            (error(400, "BadRequest", "admission webhook w does not support dry run"), false, "no objection"),
        ] {
            assert_eq!(named(answer.clone(), refers), expected, "{answer:?}");
        }
    }
}
