//! Everything `status::compute` may know: one value, updated by every step of the work loop.

use crate::api::cluster_version::{ConditionalUpdate, Release};
use crate::graph::Mode;
use crate::status::failure::UpdateError;
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The state of the daemon that ClusterVersion.status is computed from.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Generation of the ClusterVersion spec these facts answer.
    pub generation: i64,
    /// The release this process was built for.
    pub own: Release,
    /// The release being applied; an empty image means "none yet".
    pub actual: Release,
    /// `Reconcile` from the moment a pass over `actual` has ended well: set together with `completed`.
    pub mode: Mode,
    /// Manifests applied and their gates passed, of those that take part.
    pub done: usize,
    pub total: usize,
    /// The pass over `actual` has ended well (once it has, it stays so until `actual` changes).
    pub completed: bool,
    /// What is wrong now, aggregated (payload-and-apply §4.9).
    pub failure: Option<UpdateError>,
    pub version_hash: String,
    /// `actual` was verified by signature in this process.
    pub verified: bool,
    /// `actual` is the own release, loaded from the own image.
    pub local: bool,
    /// Text for the history entry of `actual`: what was forced or warned about.
    pub accepted_risks: String,
    /// The last attempt to load a release.
    pub load: Option<LoadStatus>,
    pub capabilities: CapabilityFacts,
    /// The last answer of the update service; `None` before the first.
    pub retrieval: Option<Retrieval>,
    /// When the daemon began to wait, by ClusterOperator name; outlives restarts.
    pub waiting_since: BTreeMap<String, Timestamp>,
    /// Errors of spec validation (cluster-version §1.4), in order.
    pub invalid: Vec<String>,
    /// Objects that another client keeps changing back.
    pub conflicts: Vec<Conflict>,
    /// Objects that the release has deleted and that are not gone yet, as `ObjectId` displays them.
    pub pending_deletions: Vec<String>,
}

impl Facts {
    /// What is known at the start: the own release, and nothing else. `actual` is unknown until work is accepted.
    pub fn new(own: Release) -> Self {
        Facts {
            generation: 0,
            own,
            actual: Release::default(),
            mode: Mode::Install,
            done: 0,
            total: 0,
            completed: false,
            failure: None,
            version_hash: String::new(),
            verified: false,
            local: false,
            accepted_risks: String::new(),
            load: None,
            capabilities: CapabilityFacts::default(),
            retrieval: None,
            waiting_since: BTreeMap::new(),
            invalid: Vec::new(),
            conflicts: Vec::new(),
            pending_deletions: Vec::new(),
        }
    }
}

/// A step of loading a release, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStep {
    RetrievePayload,
    LoadPayload,
    VerifyPayloadVersion,
    PreconditionChecks,
    PayloadLoaded,
}

impl LoadStep {
    /// The reason of condition `ReleaseAccepted`.
    pub fn reason(self) -> &'static str {
        match self {
            LoadStep::RetrievePayload => "RetrievePayload",
            LoadStep::LoadPayload => "LoadPayload",
            LoadStep::VerifyPayloadVersion => "VerifyPayloadVersion",
            LoadStep::PreconditionChecks => "PreconditionChecks",
            LoadStep::PayloadLoaded => "PayloadLoaded",
        }
    }

    /// What the step does, and what it means that it failed.
    fn text(self) -> (&'static str, &'static str) {
        match self {
            LoadStep::RetrievePayload => {
                ("Retrieving and verifying the release", "The release could not be retrieved or verified")
            }
            LoadStep::LoadPayload => ("Reading the release", "The release could not be read"),
            LoadStep::VerifyPayloadVersion => {
                ("Comparing the version of the release", "The release is not the one requested")
            }
            LoadStep::PreconditionChecks => {
                ("Checking the preconditions of the release", "Preconditions hold the release back")
            }
            LoadStep::PayloadLoaded => ("Loading the release", "The release could not be loaded"),
        }
    }
}

/// The last attempt to load a release.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStatus {
    pub step: LoadStep,
    /// `None` while the step is running.
    pub outcome: Option<Result<(), String>>,
    /// What is being loaded.
    pub release: Release,
    /// Details of what the running step does.
    pub message: String,
}

impl LoadStatus {
    /// What happens or happened to which release, and why it failed: condition and event say the same.
    pub fn text(&self) -> String {
        let (doing, failed) = self.step.text();
        let subject = format!("version=\"{}\" image=\"{}\"", self.release.version, self.release.image);
        match (&self.outcome, self.step) {
            (Some(Err(error)), _) => format!("{failed}: {subject}: {error}"),
            (Some(Ok(())), LoadStep::PayloadLoaded) => format!("Payload loaded {subject}"),
            _ => format!("{doing} {subject}"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CapabilityFacts {
    pub enabled: Vec<String>,
    pub known: Vec<String>,
    pub implicit: Vec<String>,
}

/// The answer of the update service, or why there is none (cluster-version §2.6).
#[derive(Clone, Debug, PartialEq)]
pub struct Retrieval {
    pub outcome: Result<(), (String, String)>,
    /// The node of the graph that stands for the own release: fills missing metadata.
    pub current: Option<Release>,
    /// The lists count. Otherwise this process has heard nothing, and what stands in status stays.
    pub heard: bool,
    pub available: Vec<Release>,
    pub conditional: Vec<ConditionalUpdate>,
}

impl Retrieval {
    /// An answer without updates.
    pub fn nothing() -> Retrieval {
        Retrieval { outcome: Ok(()), current: None, heard: true, available: Vec::new(), conditional: Vec::new() }
    }

    /// Before the first answer.
    pub fn unheard() -> Retrieval {
        Retrieval { heard: false, ..Retrieval::nothing() }
    }
}

/// An object that another client keeps changing, field by field, after each repair.
#[derive(Clone, Debug, PartialEq)]
pub struct Conflict {
    /// As `ObjectId` displays it.
    pub object: String,
    /// The field manager that makes the other changes, if managedFields name one; else empty.
    pub manager: String,
    pub fields: Vec<String>,
    /// Repairs within the last ten minutes.
    pub repairs: u32,
}
