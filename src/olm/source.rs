//! What is done for a CatalogSource: which image its template stands for, which content is read and when, what is served meanwhile,
//! and what its status says. All of it is a function of what is known, so that a process that starts anew goes on where another one
//! was.
//!
//! One process holds the lease. It decides which content is served, by asking registries and reading ConfigMaps, and says so in
//! the condition `ContentLoaded`. All others read exactly that content, so that whoever asks gets the same answer everywhere.

pub(crate) mod content;
pub(crate) mod health;
pub(crate) mod held;
pub(crate) mod hub;
pub(crate) mod operators;
pub(crate) mod pod;
pub(crate) mod spec;
pub(crate) mod template;

mod follow;
mod lead;
mod server;
mod serving;
mod status;
mod turn;

use crate::object::read::Read;
use crate::olm::api::catalog_source::{CatalogSource, CatalogSourceStatus, Connection};
use held::{Held, Work};
use jiff::Timestamp;
use pod::decide::PodWrite;
use pod::{Objects, Pods};
use spec::Sibling;
use template::KubeVersion;

/// Whether a text is the name of an image, or why not.
pub(crate) type CheckImage<'a> = &'a dyn Fn(&str) -> Result<(), String>;

/// What is known of a CatalogSource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts<'a> {
    pub object: &'a CatalogSource,
    /// The CatalogSources of its namespace; itself does not count.
    pub siblings: &'a [Sibling],
    /// The version of the API server, or why it cannot be read; `None` before that is known.
    pub version: Option<&'a Result<KubeVersion, String>>,
    /// Whether this process holds the lease.
    pub leading: bool,
    pub held: &'a Held,
    /// The ConfigMap that it names; `None` before anything is known of it.
    pub config_map: Option<&'a ConfigMapState>,
    /// The connection to the address that it names; `None` before there is one.
    pub channel: Option<&'a Channel>,
    /// What pods are made by, and which there are; `None` before that is known.
    pub pods: Option<&'a Pods<'a>>,
    /// Why its Service cannot be brought into place.
    pub service: Option<&'a str>,
}

/// A ConfigMap as it was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigMapState {
    pub read: Read<ConfigMapSeen>,
    /// Since when it is so.
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigMapSeen {
    pub uid: String,
    pub resource_version: String,
    /// `sha256:…` of its data.
    pub digest: String,
    /// The CatalogSource is its owner, and it has the label that says so.
    pub adopted: bool,
}

/// A connection to a server of a catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub address: String,
    pub state: Connection,
    /// Since when it is in that state.
    pub since: Timestamp,
    /// Why it cannot be reached.
    pub error: Option<String>,
}

/// What is to be done. It is said anew each time: work that is under way and not named any more is to be ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Decision {
    /// Write this into `spec.image`, before the status.
    pub image: Option<String>,
    /// Write this status, because it differs.
    pub status: Option<CatalogSourceStatus>,
    /// Make the CatalogSource an owner of its ConfigMap, and label that.
    pub adopt: bool,
    pub work: Option<Work>,
    /// What is made for a pod that serves the catalog. Without it there is to be none.
    pub pod: Option<Objects>,
    /// What becomes of its pods.
    pub pod_writes: Vec<PodWrite>,
    /// Be connected to this server.
    pub dial: Option<String>,
    pub serve: Serve,
    /// Decide again then, although nothing has changed.
    pub next: Option<Timestamp>,
}

/// What those get who ask for the catalog.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Serve {
    #[default]
    Nothing,
    /// What this process has read.
    Content,
}

/// What is to be done for a CatalogSource.
pub(crate) fn decide(facts: &Facts<'_>, check: CheckImage<'_>, now: Timestamp) -> Decision {
    if facts.object.metadata.deletion_timestamp.is_some() {
        let address = facts.channel.map(|channel| channel.address.as_str());
        return Decision { serve: serve(facts), dial: address.map(str::to_owned), ..Decision::default() };
    }
    if facts.leading { lead::decide(facts, check, now) } else { follow::decide(facts, now) }
}

/// What was read is served until something better is.
fn serve(facts: &Facts<'_>) -> Serve {
    if facts.held.loaded.is_some() { Serve::Content } else { Serve::Nothing }
}

/// A number from 0 to 1 that is the same each time for the same texts: it spreads what many objects would do at once.
fn spread(texts: [&str; 2]) -> f64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in texts.iter().flat_map(|text| text.bytes().chain([0])) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    f64::from(u32::try_from(hash >> 40).unwrap_or_default()) / f64::from(1_u32 << 24)
}

#[cfg(test)]
mod tests;
