//! From a pull spec to a loaded payload: verify, extract by a Job, parse, check the version, preflight. Nothing of a target
//! runs before it is verified.

pub(crate) mod copy;
mod job;
mod job_spec;
mod saved;
pub(crate) mod store_client;
pub(crate) mod verify;

use super::settings::{PayloadSource, Settings};
use crate::cluster::{Clients, Objects};
use crate::cluster_version::api::OWN_DEPLOYMENT;
use crate::cluster_version::api::SignatureStore;
use crate::cluster_version::status::facts::{LoadStatus, LoadStep};
use crate::cluster_version::updates::Target;
use crate::object::manifest::ObjectId;
use crate::process::egress::Way;
use crate::release::api::Release;
use crate::release::filter::Filter;
use crate::release::work::payload_dir;
use crate::release::{LoadOptions, Payload, load};
use crate::verify::{Digest, VerifyError};
use job::{JobError, JobRunner};
use job_spec::Placement;
use k8s_openapi::api::batch::v1::Job;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use verify::Search;

/// Loads releases other than the running one.
#[derive(Debug)]
pub(crate) struct Retriever {
    pub settings: Arc<Settings>,
    pub objects: Objects,
    pub clients: Arc<Clients>,
    /// The running release.
    pub own: Arc<Payload>,
    /// How requests to signature stores leave the cluster.
    pub way: Way,
}

/// A release ready to be applied.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub payload: Arc<Payload>,
    pub verified: bool,
    /// What was accepted because of `force`, for the history entry.
    pub accepted_risks: String,
    /// For reuse after a restart.
    pub tree: Tree,
}

/// The release's folder in the payload store: its digest, or a hash of a pull spec that has none.
pub fn folder(image: &str) -> String {
    match Digest::of_pull_spec(image) {
        Ok(digest) => format!("{}-{}", digest.algorithm(), digest.hex()),
        Err(_) => format!("tag-{}", hex::encode(Sha256::digest(image.as_bytes()))),
    }
}

const FROM_A_FOLDER: &str =
    "The release is signed, but its manifests were read from a folder (--payload-source=directory), not from its image";

/// What the configuration of the cluster means for a release that is loaded.
#[derive(Debug)]
pub(crate) struct Terms {
    pub filter: Filter,
    /// Signature stores instead of those of the running release.
    pub stores: Option<Vec<SignatureStore>>,
    /// Digests of the releases that the cluster has run.
    pub history: BTreeSet<Digest>,
}

/// A release that is not accepted.
#[derive(Debug)]
pub(crate) struct Refusal {
    /// The step that failed, and why.
    pub status: LoadStatus,
    /// Folder name and tree hash, if the payload was extracted: the next attempt need not do it again.
    pub tree: Option<Tree>,
    /// Whether it lacks a signature: another one may be all that it needs.
    pub unsigned: Option<Unsigned>,
}

impl Refusal {
    pub(crate) fn new(release: &Release, (step, cause): Failure) -> Refusal {
        Refusal { status: LoadStatus::failed(step, release.clone(), cause), tree: None, unsigned: None }
    }
}

/// A release that was not verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Unsigned {
    /// The resourceVersion at which all signatures in the cluster were read; `None` if they were not.
    pub as_of: Option<u64>,
}

impl Unsigned {
    /// Whether a signature that was seen with this resourceVersion has not been read; `None` if that cannot be told.
    pub(crate) fn lacks(self, seen: Option<u64>) -> Option<bool> {
        Some(seen? > self.as_of?)
    }
}

/// Folder name and tree hash of an extracted payload.
pub(crate) type Tree = (String, String);

/// One load or preflight in progress.
struct Task<'a> {
    retriever: &'a Retriever,
    release: &'a Release,
    steps: &'a watch::Sender<LoadStatus>,
    stop: &'a CancellationToken,
}

/// The step that failed, and why.
pub(crate) type Failure = (LoadStep, String);

impl Retriever {
    /// Loads a target. `known`: tree hashes of folders extracted earlier. The error is the step that failed and why.
    pub(crate) async fn load(
        self: Arc<Self>,
        target: Target,
        terms: Terms,
        known: BTreeMap<String, String>,
        steps: watch::Sender<LoadStatus>,
        stop: CancellationToken,
    ) -> Result<Loaded, Box<Refusal>> {
        let task = Task { retriever: &self, release: &target.release, steps: &steps, stop: &stop };
        task.load(target.force, &terms, &known).await
    }

    /// The target's own binary must be able to load its payload, and to read this API if it is verified, before anything is
    /// applied. It runs only once nothing else speaks against the target.
    pub(crate) async fn preflight(
        self: Arc<Self>,
        release: Release,
        verified: bool,
        steps: watch::Sender<LoadStatus>,
        stop: CancellationToken,
    ) -> Result<(), Box<Refusal>> {
        let task = Task { retriever: &self, release: &release, steps: &steps, stop: &stop };
        task.preflight(verified).await.map_err(|failure| Box::new(Refusal::new(&release, failure)))
    }
}

impl Task<'_> {
    async fn load(&self, force: bool, terms: &Terms, known: &BTreeMap<String, String>) -> Result<Loaded, Box<Refusal>> {
        let refusal = |failure| Refusal::new(self.release, failure);
        let (verified, accepted_risks) = self.verify(force, terms).await?;
        let (place, tree) = self.extract(known).await.map_err(refusal)?;
        match self.read(place, terms).await {
            Ok(payload) => Ok(Loaded { payload: Arc::new(payload), verified, accepted_risks, tree }),
            Err(failure) => Err(Box::new(Refusal { tree: Some(tree), ..refusal(failure) })),
        }
    }

    /// The payload in this folder, if it is the release that was asked for and could take over.
    async fn read(&self, place: PathBuf, terms: &Terms) -> Result<Payload, Failure> {
        self.report(LoadStep::LoadPayload, "reading the manifests");
        let payload = self.parse(place, terms).await?;
        let (requested, found) = (&self.release.version, &payload.release.version);
        if !requested.is_empty() && requested != found {
            let cause = format!(
                "the release image is version {found}, but version {requested} was requested: ask for {found}, or for the \
                 image of {requested}"
            );
            return Err((LoadStep::VerifyPayloadVersion, cause));
        }
        for warning in &payload.warnings {
            tracing::warn!(release = %payload.release.version, %warning, "file of the target release skipped");
        }
        // Without its Deployment the new operator would never take over, and two releases would be applied in turns.
        let successor = ObjectId::new("apps", "Deployment", &self.settings().namespace, OWN_DEPLOYMENT);
        if let Some(cause) = payload.missing(&successor) {
            return Err((LoadStep::LoadPayload, format!("its orchestrator could not take over: {cause}")));
        }
        Ok(payload)
    }

    /// What is done once the search for signatures is over.
    fn report(&self, step: LoadStep, message: &str) {
        self.tell(LoadStatus { step, searched: true, ..self.running(message) });
    }

    fn running(&self, message: &str) -> LoadStatus {
        LoadStatus { message: message.to_owned(), ..LoadStatus::started(self.release.clone()) }
    }

    fn tell(&self, status: LoadStatus) {
        self.steps.send_replace(status);
    }

    /// Whether the release is verified, and the accepted risk if it is not.
    async fn verify(&self, force: bool, terms: &Terms) -> Result<(bool, String), Box<Refusal>> {
        self.tell(self.running("verifying the signature of the release digest"));
        let as_of = OnceLock::new();
        match self.try_verify(terms, &as_of).await.map_err(|e| e.to_string()) {
            Ok(()) => match self.settings().payload_source {
                PayloadSource::Job => Ok((true, String::new())),
                // Nothing says that the folder is what the signature is for.
                PayloadSource::Directory => Ok((false, FROM_A_FOLDER.to_owned())),
            },
            Err(cause) if force => {
                tracing::warn!(error = %cause, "the target is not verified; proceeding because the update is forced");
                Ok((false, format!("Target release was not verified: {cause}")))
            }
            Err(cause) => {
                let failure = (LoadStep::RetrievePayload, format!("the update cannot be verified: {cause}"));
                let unsigned = Some(Unsigned { as_of: as_of.get().copied() });
                Err(Box::new(Refusal { unsigned, ..Refusal::new(self.release, failure) }))
            }
        }
    }

    async fn try_verify(&self, terms: &Terms, as_of: &OnceLock<u64>) -> Result<(), VerifyError> {
        let Retriever { objects, own, way, .. } = self.retriever;
        let digest = Digest::of_pull_spec(&self.release.image)?;
        let search = Search { objects, own, way: way.clone(), as_of };
        let found = search.run(&digest, terms.stores.as_deref()).await?;
        if !found.is_empty()
            && let Err(error) = saved::save(objects, &digest, &found, &terms.history).await
        {
            // The release is verified nevertheless.
            tracing::warn!(%error, "the signatures of the release are not kept in the cluster");
        }
        Ok(())
    }

    /// The folder with the target's manifests, extracted now or earlier; with its name and tree hash.
    async fn extract(&self, known: &BTreeMap<String, String>) -> Result<(PathBuf, Tree), Failure> {
        let name = folder(&self.release.image);
        let Settings { node_name: node, payload_host_path: host_path, payload_store, .. } = self.settings();
        let place = payload_store.join(&name);
        let fail = |cause: String| (LoadStep::RetrievePayload, cause);
        if let Some(recorded) = known.get(&name)
            && hash_of(&place).await.is_ok_and(|tree| tree == *recorded)
        {
            tracing::info!(folder = %place.display(), "payload extracted earlier is unchanged");
            return Ok((place, (name, recorded.clone())));
        }
        if self.settings().payload_source == PayloadSource::Directory {
            let tree = hash_of(&place).await.map_err(fail)?;
            return Ok((place, (name, tree)));
        }
        let keep: Vec<&str> = known.keys().map(String::as_str).collect();
        let (running_image, target) = (&self.retriever.own.release.image, self.release);
        let job = job_spec::retrieval(self.placement(), running_image, target, host_path, &name, &keep);
        let reported = self.run_job(&job, LoadStep::RetrievePayload).await.map_err(|e| fail(e.to_string()))?;
        let tree = hash_of(&place).await.map_err(fail)?;
        if reported.trim() != tree {
            return Err(fail(format!(
                "the payload in {} is not what the retrieval Job wrote (tree hash {tree}, the Job reported {reported:?}): is \
                 {host_path} of node {node} mounted at {} of this process?",
                place.display(),
                payload_store.display()
            )));
        }
        Ok((place, (name, tree)))
    }

    async fn parse(&self, place: PathBuf, terms: &Terms) -> Result<Payload, Failure> {
        let options = LoadOptions {
            image: self.release.image.clone(),
            profile: self.settings().profile.clone(),
            strict_templates: false,
            filter: terms.filter.clone(),
        };
        let parsed = tokio::task::spawn_blocking(move || {
            let files = payload_dir::read(&place).map_err(|e| e.to_string())?;
            load(files, &options).map_err(|e| e.to_string())
        });
        let parsed = parsed.await.unwrap_or_else(|e| Err(format!("loading failed: {e}")));
        parsed.map_err(|cause| (LoadStep::LoadPayload, cause))
    }

    async fn preflight(&self, verified: bool) -> Result<(), Failure> {
        if self.settings().payload_source == PayloadSource::Directory {
            return Ok(());
        }
        self.report(LoadStep::PreconditionChecks, "preflight of the target release");
        let (profile, excluded) = (&self.settings().profile, self.settings().exclude_manifests.as_deref());
        let job = job_spec::preflight(self.placement(), self.release, verified, profile, excluded);
        let failed = |e| (LoadStep::PreconditionChecks, format!("the preflight of the target release failed: {e}"));
        self.run_job(&job, LoadStep::PreconditionChecks).await.map(drop).map_err(failed)
    }

    fn settings(&self) -> &Settings {
        &self.retriever.settings
    }

    fn placement(&self) -> Placement<'_> {
        let Settings { namespace, node_name: node, .. } = self.settings();
        Placement { namespace, node }
    }

    async fn run_job(&self, job: &Job, step: LoadStep) -> Result<String, JobError> {
        let runner = JobRunner {
            objects: &self.retriever.objects,
            client: &self.retriever.clients.call,
            namespace: &self.settings().namespace,
            report: &|text| self.report(step, text),
            stop: self.stop,
        };
        runner.run(job).await
    }
}

async fn hash_of(place: &Path) -> Result<String, String> {
    let place = place.to_owned();
    let hashed = tokio::task::spawn_blocking(move || payload_dir::tree_hash(&place).map_err(|e| e.to_string()));
    hashed.await.unwrap_or_else(|e| Err(format!("hashing failed: {e}")))
}
