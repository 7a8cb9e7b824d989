//! What the rollout and its executor say to each other.

use super::verdict::Unready;
use crate::cluster_version::graph::Mode;
use crate::cluster_version::status::failure::UpdateError;
use crate::merge::Applied;
use crate::merge::inject::Source;
use crate::object::manifest::ObjectId;
use std::time::Duration;

/// Something that the executor does. Positions are those of [`super::Plan::manifests`].
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    /// Creates an object that the rest of an install needs. A failure does not matter: its own turn comes.
    CreatePrerequisite(usize),
    /// Creates a ClusterOperator before the manifests of its node. A failure does not matter: its own turn comes.
    Precreate { node: usize, position: usize },
    /// Makes the kinds of a CustomResourceDefinition usable as soon as it is established. Reports nothing.
    ServeKinds(usize),
    /// Brings an object to its desired state, and judges its gate if that is asked for.
    Reconcile(Reconcile),
    /// Reports [`Event::HandOverExpired`] after this time.
    HandOverTimer { node: usize, after: Duration },
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reconcile {
    pub position: usize,
    pub purpose: Purpose,
    /// The mode that the gate is judged in; `None` if there is nothing to judge.
    pub gate: Option<Mode>,
    /// Another client keeps changing the object, so that after each write it is on its way somewhere: if it has to be written
    /// again, the gate is judged before that, and so is what the object has been since the last write.
    pub contested: bool,
    pub delay: Delay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The turn of the manifest in its node.
    Apply { node: usize },
    /// Before its turn, because it brings the webhook that the manifest waits for whose turn it is.
    Ahead { node: usize },
    /// It is applied, and its gate is waited for. A write now means that another client changed the object meanwhile.
    Gate { node: usize },
    /// Its turn is over, and another client may have changed the object.
    Repair,
    /// Its turn is over, and the cluster configuration that goes into it changed.
    Configuration,
}

/// What comes before the next attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Delay {
    /// At most so long; the executor adds jitter.
    pub pause: Duration,
    pub until: Wake,
}

impl Delay {
    pub(super) fn of(pause: Duration) -> Delay {
        Delay { pause, until: Wake::Timeout }
    }
}

/// What ends a delay early.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Wake {
    #[default]
    Timeout,
    NamespaceChanged(String),
    /// The object is gone or changed.
    ObjectChanged,
    /// Somebody has deleted the object, perhaps because that was the way out.
    ObjectDeleted,
    /// The API server is ready, if it is not so now. Otherwise the same.
    ServerReady,
    /// One of these manifests' objects has changed.
    AnyChanged(Vec<usize>),
    /// The kind is served. With `refresh` the server is asked for its kinds if that did not happen in time.
    KindServed {
        refresh: bool,
    },
    /// Nothing; after the pause the server is asked for its kinds.
    Refresh,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    PrerequisiteDone {
        position: usize,
        applied: Option<Applied>,
    },
    Precreated {
        node: usize,
    },
    Reconciled(Reconcile, Box<Outcome>),
    /// The watch saw a change by another client. `content`: not only the status changed.
    Changed {
        position: usize,
        content: bool,
    },
    ConfigurationChanged(Vec<Source>),
    HandOverExpired {
        node: usize,
    },
}

/// What came of one attempt.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// The object as the cluster names it, once its kind is known.
    pub id: Option<ObjectId>,
    /// `None`: it could not be applied, see `failure`.
    pub applied: Option<Applied>,
    pub judged: Option<Judged>,
    /// What kept the object from being applied or read.
    pub failure: Option<Failure>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Judged {
    /// `None`: the gate is open.
    pub unready: Option<Unready>,
    /// The object was still as desired after it was judged; otherwise the judgement is about something else.
    pub as_desired: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Failure {
    pub error: UpdateError,
    pub cause: Cause,
}

/// The causes that an event can remove; all others are tried again after a pause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    NamespaceMissing(String),
    /// The object has to be deleted first, and finalizers hold it.
    Terminating,
    /// Discovery does not name the kind (yet).
    KindNotServed,
    /// Discovery has named the kind, and the server does not know its resource.
    KindGone,
    /// A webhook that converts the object, or is asked about it, does not answer. With the namespace of its Service, if it
    /// has one.
    WebhookAway(Option<String>),
    /// The API server has not answered. Whether it has done what was asked of it is not known.
    NoAnswer,
    Other,
}
