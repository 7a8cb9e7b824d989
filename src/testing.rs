//! What the end-to-end tests and the benchmarks use of this crate. Nothing else outside of it may rely on these names.

pub mod api {
    pub use crate::api::cluster_operator::{ClusterOperator, ClusterOperatorStatus};
    pub use crate::api::cluster_version::{ClusterVersion, ClusterVersionSpec, HistoryEntry, HistoryState};
    pub use crate::api::condition::{Condition, ConditionStatus};
    pub use crate::api::release::{ComponentOverride, Release};
    pub use crate::api::{FIELD_MANAGER, MANAGED_NAMESPACE, NAME, NAMESPACE, OWN_DEPLOYMENT};
    pub mod cluster_operator {
        pub use crate::api::cluster_operator::{ClusterOperatorSpec, OperandVersion, RelatedObject};
    }
    pub mod condition {
        pub use crate::api::condition::find;
    }
    pub mod machine_config {
        pub use crate::api::machine_config::{
            GENERATED_BY, GROUP, MachineConfig, MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus,
            MachineConfigSpec, OS_IMAGE_OVERRIDDEN, PoolCondition, PoolConfiguration, RELEASE_VERSION,
            REQUIRED_FOR_UPGRADE, ROLE_LABEL, Reference, annotation,
        };
    }
    pub mod machine_config_node {
        pub use crate::api::machine_config_node::{
            DesiredVersion, MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus, Named, Versions,
        };
    }
    pub mod node_config {
        pub use crate::api::node_config::{
            ContainerRuntimeConfig, ContainerRuntimeConfigSpec, ContainerRuntimeConfiguration, KubeletConfig,
            KubeletConfigSpec, NodeConfigStatus,
        };
    }
    pub mod progress {
        pub use crate::api::progress::{CONFIG_MAP, KEY, NodeState, Progress};
    }
}
pub mod cluster {
    pub use crate::cluster::client::Clients;
    pub use crate::cluster::kinds::Kinds;
}
pub mod graph {
    pub use crate::graph::build::build;
    pub use crate::graph::{Graph, Mode};
}
pub mod host {
    pub mod record {
        pub use crate::host::record::{Disk, Record, RecordError, Update, seed};
    }
    pub mod root {
        pub use crate::host::root::{HostError, Root, State};
    }
    pub mod undo {
        pub use crate::host::undo::{discard, restore, save};
    }
}
pub mod merge {
    pub use crate::merge::initial::initial;
    pub use crate::merge::metadata::{Owner, prepare};
    pub use crate::merge::{Manager, MergeError, Outcome, merge};
    pub use crate::rollout::{MANAGER, owner};
}
pub mod pools {
    pub use crate::pools::{changes, disruption, ignition, reconcile, render};
    pub mod agent {
        pub use crate::pools::agent::{
            Action, AgentFacts, Check, Failure, Journal, Phase, Plan, TriedAhead, Unread, decide,
        };
    }
    pub mod drain {
        pub use crate::pools::drain::{
            ATTEMPT, DaemonSet, Delay, Drain, DrainFacts, EVICTION_RETRY, Fate, PodFacts, Request, Step, step,
        };
    }
    pub mod estimate {
        pub use crate::pools::estimate::{Durations, remaining};
    }
    pub mod holds {
        pub use crate::pools::holds::{APPROVED, Answer, PAUSE_AFTER, QUERY, QUERY_FOR, TIME_ZONE, WINDOWS, holds};
    }
    pub mod membership {
        pub use crate::pools::membership::{Membership, selects};
    }
    pub mod node {
        pub use crate::pools::node::{NodeFacts, NodeState, Problem, Target};
    }
    pub mod operator {
        pub use crate::pools::operator::{NAME, OperatorFacts, PATIENCE, PoolSummary, invalid, status};
    }
    pub mod rollout {
        pub use crate::pools::rollout::{BlockedReason, Cause, Hold, PoolFacts, Round, Unavailable, limit, rounds};
    }
    pub mod status {
        pub use crate::pools::status::{Counts, Subject, is_updated, status};
    }
    pub mod windows {
        pub use crate::pools::windows::{Opening, WindowError, Windows};
    }
}
pub mod net {
    pub mod layer {
        pub use crate::net::registry::layer::{Gathered, LayerError};
    }
}
pub mod payload {
    pub use crate::payload::capability::Capabilities;
    pub use crate::payload::definition::DefinedKind;
    pub use crate::payload::filter::{ApplyFilter, Filter, check_inclusion};
    pub use crate::payload::load::read::manifests_of;
    pub use crate::payload::load::{LoadOptions, Payload, PayloadFiles, SourceFile, load};
    pub use crate::payload::manifest::{Manifest, ObjectId, Origin, run_level};
    pub mod metadata {
        pub use crate::payload::metadata::{FILE, ReleaseMetadata};
    }
    pub mod references {
        pub use crate::payload::references::{FILE, ImageReferences, Tag};
    }
    pub mod template {
        pub use crate::payload::template::{Variables, render};
    }
    pub mod yaml {
        pub use crate::payload::yaml::documents;
    }
}
pub mod updates {
    pub mod graph {
        pub use crate::updates::graph::response::parse_updates;
        pub use crate::updates::graph::uri_problem;
    }
    pub mod promql {
        pub use crate::promql::{Answer, answer, query_url};
    }
}
pub mod verify {
    pub use crate::verify::config::Config;
    pub use crate::verify::digest::Digest;
    pub use crate::verify::verification::Verifier;
}
pub mod version {
    pub use crate::version::{parse, precedence};
}
pub mod work {
    pub mod payload_dir {
        pub use crate::work::payload_dir::{read, tree_hash};
    }
    pub mod retrieve {
        pub use crate::work::retrieve::folder;
    }
}
