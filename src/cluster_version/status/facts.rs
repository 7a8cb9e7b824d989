//! The input of `status::compute`: one value that every step of the work loop updates.

use crate::cluster_version::graph::Mode;
use crate::cluster_version::status::Risk;
use crate::cluster_version::status::failure::UpdateError;
use crate::release::api::{ConditionalUpdate, ConditionalUpdateRisk, Release};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// The state of the daemon from which ClusterVersion.status is computed.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    /// Generation of the ClusterVersion spec that these facts belong to.
    pub generation: i64,
    /// The release this process was built for.
    pub own: Release,
    /// The release being applied; an empty image means "none yet".
    pub actual: Release,
    /// How far the rollout of `actual` is; `None` before it begins.
    pub rollout: Option<RolloutFacts>,
    /// `actual` was verified by signature in this process.
    pub verified: bool,
    /// `actual` is the own release, loaded from the own image.
    pub local: bool,
    /// For the history entry of `actual`: which failed checks were overridden.
    pub accepted_risks: String,
    /// The last attempt to load a release.
    pub load: Option<LoadStatus>,
    pub capabilities: CapabilityFacts,
    /// What came of the last request to the update service; `None` before the first.
    pub retrieval: Option<Retrieval>,
    /// Errors of spec validation, in order.
    pub invalid: Vec<String>,
    /// Why the cluster should stay at its minor version; `None` while not everything has been read that decides it.
    pub risks: Option<Vec<Risk>>,
    /// Objects that the release no longer contains and that still exist, as `ObjectId` displays them; `None` while that is
    /// not known of all.
    pub dropped: Option<Vec<String>>,
}

impl Facts {
    /// `Install` as long as nothing is applied.
    pub(super) fn mode(&self) -> Mode {
        self.rollout.as_ref().map_or(Mode::Install, RolloutFacts::mode)
    }

    /// A rollout of `actual` has completed.
    pub(super) fn is_completed(&self) -> bool {
        self.rollout.as_ref().is_some_and(|rollout| rollout.completed)
    }

    /// What is wrong now, as one error.
    pub(super) fn failure(&self) -> Option<&UpdateError> {
        self.rollout.as_ref()?.failure.as_ref()
    }
}

/// A release that is being applied, and kept as desired once it is.
#[derive(Clone, Debug)]
pub(crate) struct RolloutFacts {
    /// The mode that it began in.
    pub begun: Mode,
    /// Every object was in place at one moment. Once it is so, it stays so.
    pub completed: bool,
    /// Manifests that are applied with their gates passed, and all that are included.
    pub done: usize,
    pub total: usize,
    /// What is wrong now, as one error.
    pub failure: Option<UpdateError>,
    /// Of what is included.
    pub version_hash: String,
    /// Since when the daemon waits, by what [`UpdateError::name_of`] makes of the object. Kept across restarts.
    pub waiting_since: BTreeMap<String, Timestamp>,
    /// Objects that another client keeps changing back.
    pub conflicts: Vec<Conflict>,
    /// Kinds that have had no watch for more than a minute.
    pub unwatched: Vec<Unwatched>,
    /// Objects with fields that the API server does not accept as they are desired.
    pub kept: Vec<KeptFields>,
}

impl RolloutFacts {
    /// `Reconcile` once it has completed.
    pub(crate) fn mode(&self) -> Mode {
        if self.completed { Mode::Reconcile } else { self.begun }
    }
}

crate::error::causes! {
    /// A step of loading a release, in their order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub(crate) enum LoadStep {
        RetrievePayload => "Check the registry and the signature: cvo verify --from cluster IMAGE says whether the daemon would accept it, kubectl describe the Job in the daemon's namespace why its image cannot be had; cvo upgrade --clear withdraws the request",
        LoadPayload => "Request another release: this one cannot be read; cvo payload list shows what is wrong with a copy of it",
        VerifyPayloadVersion => "Request the image of the version that is wanted: the image contains another one",
        PreconditionChecks => "Meet what the message names, such as by cvo ack or by the operator that it names, or choose another release; cvo upgrade --clear withdraws the request",
        PayloadLoaded => "Nothing: the release is loaded",
    }
}

impl LoadStep {
    /// The reason of condition `ReleaseAccepted`.
    pub(crate) fn reason(self) -> &'static str {
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
            LoadStep::PreconditionChecks => ("Checking the preconditions of the release", "Preconditions are not met"),
            LoadStep::PayloadLoaded => ("Loading the release", "The release could not be loaded"),
        }
    }
}

/// The last attempt to load a release.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LoadStatus {
    pub step: LoadStep,
    /// `None` while the step is running.
    pub outcome: Option<Result<(), String>>,
    /// What is being loaded.
    pub release: Release,
    /// Details of what the running step does.
    pub message: String,
    /// The search for signatures is over: what [`LoadStep::RetrievePayload`] does since is to have the image.
    pub searched: bool,
    /// How the request was understood, if that needs to be said.
    pub note: String,
    /// How often it was refused, with the failure that is told.
    pub tries: u32,
}

impl LoadStatus {
    pub(crate) fn started(release: Release) -> LoadStatus {
        LoadStatus {
            step: LoadStep::RetrievePayload,
            outcome: None,
            release,
            message: String::new(),
            searched: false,
            note: String::new(),
            tries: 0,
        }
    }

    pub(crate) fn failed(step: LoadStep, release: Release, cause: String) -> LoadStatus {
        LoadStatus { step, outcome: Some(Err(cause)), ..LoadStatus::started(release) }
    }

    /// The release is loaded, or is the one that this process was started with.
    pub(crate) fn accepted(release: Release) -> LoadStatus {
        LoadStatus { step: LoadStep::PayloadLoaded, outcome: Some(Ok(())), ..LoadStatus::started(release) }
    }

    /// What happens or happened to which release, and why it failed: condition and event say the same.
    pub(crate) fn text(&self) -> String {
        let (doing, failed) = self.step.text();
        let subject = format!("version=\"{}\" image=\"{}\"", self.release.version, self.release.image);
        let text = match (&self.outcome, self.step) {
            (Some(Err(error)), _) => format!("{failed}: {subject}: {error}"),
            (Some(Ok(())), LoadStep::PayloadLoaded) => format!("Payload loaded {subject}"),
            _ => format!("{doing} {subject}"),
        };
        if self.note.is_empty() { text } else { format!("{text} ({})", self.note) }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CapabilityFacts {
    pub enabled: Vec<String>,
    pub known: Vec<String>,
    pub implicit: Vec<String>,
}

/// The answer of the update service, or why there is none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Retrieval {
    /// The message of the condition, usually empty; on failure reason and message.
    pub outcome: Result<String, (String, String)>,
    /// The own release as the update graph describes it: fills in missing metadata.
    pub current: Option<Release>,
    /// The update service has answered this process. Until then the lists are empty and those in the status stay.
    pub answered: bool,
    /// The lists are those of an answer, also if they are empty and the service has failed since.
    pub known: bool,
    pub available: Vec<Release>,
    pub conditional: Vec<ConditionalUpdate>,
    /// For `conditionalUpdateRisks`.
    pub risks: Vec<ConditionalUpdateRisk>,
}

/// An object that another client keeps changing, field by field, after each repair.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Conflict {
    /// As `ObjectId` displays it.
    pub object: String,
    /// The field manager that makes the other changes, if managedFields name one; else empty.
    pub manager: String,
    pub fields: Vec<String>,
    /// Repairs within the last ten minutes.
    pub repairs: u32,
}

/// A kind whose changes are noticed late.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unwatched {
    /// `<plural>.<group>`.
    pub kind: String,
    /// The error of the last attempt.
    pub cause: String,
}

/// What the API server, or a webhook in front of it, keeps different from what was written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptFields {
    /// As `ObjectId` displays it.
    pub object: String,
    pub fields: Vec<String>,
}
