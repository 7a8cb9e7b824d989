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
    /// Objects that somebody else keeps changing back (architecture §3, "Fights").
    pub fights: Vec<Fight>,
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
            fights: Vec::new(),
            pending_deletions: Vec::new(),
        }
    }
}

/// Step of the load pipeline; its name is the reason of `ReleaseAccepted` (cluster-version §2.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStep {
    RetrievePayload,
    LoadPayload,
    VerifyPayloadVersion,
    PreconditionChecks,
    PayloadLoaded,
}

/// The last attempt to load a release.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadStatus {
    pub step: LoadStep,
    /// `None` while the step is running.
    pub outcome: Option<Result<(), String>>,
    /// What is being loaded.
    pub release: Release,
    /// What is going on, while the step is running.
    pub message: String,
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

/// Somebody else wants an object otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Fight {
    /// As `ObjectId` displays it.
    pub object: String,
    /// Field manager that writes against us, if managedFields name one.
    pub manager: String,
    pub fields: Vec<String>,
    /// Repairs within the last ten minutes.
    pub repairs: u32,
}
