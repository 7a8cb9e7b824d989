//! What the end-to-end tests and the benchmarks use of this crate. Nothing else outside of it may rely on these names.

pub mod api {
    pub use crate::cluster_version::api::{ClusterVersion, ClusterVersionSpec, HistoryEntry, HistoryState};
    pub use crate::cluster_version::api::{FIELD_MANAGER, NAME, NAMESPACE, OWN_DEPLOYMENT};
    pub use crate::object::MANAGED_NAMESPACE;
    pub use crate::object::cluster_operator::{ClusterOperator, ClusterOperatorStatus};
    pub use crate::object::condition::{Condition, ConditionStatus};
    pub use crate::release::api::{ComponentOverride, Release};
    pub mod cluster_operator {
        pub use crate::object::cluster_operator::{ClusterOperatorSpec, OperandVersion, RelatedObject};
    }
    pub mod condition {
        pub use crate::object::condition::find;
    }
    pub mod machine_config {
        pub use crate::machine_config::api::machine_config::{
            GENERATED_BY, GROUP, MachineConfig, MachineConfigPool, MachineConfigPoolSpec, MachineConfigPoolStatus,
            MachineConfigSpec, OS_IMAGE_OVERRIDDEN, PoolCondition, PoolConfiguration, RELEASE_VERSION,
            REQUIRED_FOR_UPGRADE, ROLE_LABEL, Reference, annotation,
        };
    }
    pub mod machine_config_node {
        pub use crate::machine_config::api::machine_config_node::{
            DesiredVersion, MachineConfigNode, MachineConfigNodeSpec, MachineConfigNodeStatus, Named, Versions,
        };
    }
    pub mod node_config {
        pub use crate::machine_config::api::node_config::{
            ContainerRuntimeConfig, ContainerRuntimeConfigSpec, ContainerRuntimeConfiguration, KubeletConfig,
            KubeletConfigSpec, NodeConfigStatus,
        };
    }
    pub mod olm {
        pub use crate::olm::api::{
            DEPLOYMENT, GLOBAL_CATALOG_NAMESPACE, GROUP, NAMESPACE, PACKAGE_SERVICE, catalog_source, cluster_operator,
            cluster_service_version, condition, install_plan, keys, olm_config, operator, operator_condition,
            operator_group, operator_hub, package_manifest, subscription,
        };
    }
    pub mod progress {
        pub use crate::cluster_version::progress::{CONFIG_MAP, KEY, NodeState, Progress};
    }
}
pub mod bundles;
pub mod catalog {
    pub use crate::olm::catalog::blobs::{Blobs, BlobsError, Document, Form};
    pub use crate::olm::catalog::builder::{Catalog, CatalogBuilder, CatalogError, FileId, Sick};
    pub use crate::olm::catalog::decode::Decoded;
    pub use crate::olm::catalog::fault::{Fault, Reason};
    pub use crate::olm::catalog::fields::FieldError;
    pub use crate::olm::catalog::index::{
        Api, Bundle, Channel, Counts, Custom, Entry, Index, IndexError, Package, Property, Stored,
    };
    pub use crate::olm::catalog::record::StoredKind;
    pub use crate::olm::net::folder::{FolderError, read};
    pub use crate::olm::version_range::{RangeError, VersionRange};
}
pub mod cluster {
    pub use crate::cluster::client::Clients;
    pub use crate::cluster::kinds::Kinds;
}
pub mod graph {
    pub use crate::cluster_version::graph::build::build;
    pub use crate::cluster_version::graph::{Graph, Mode};
}
pub mod host {
    pub mod record {
        pub use crate::machine_config::host::record::{Disk, Record, RecordError, Update, seed};
    }
    pub mod root {
        pub use crate::machine_config::host::root::{HostError, Root, State};
    }
    pub mod undo {
        pub use crate::machine_config::host::undo::{discard, restore, save};
    }
}
pub mod merge {
    pub use crate::cluster_version::rollout::{MANAGER, owner};
    pub use crate::merge::initial::initial;
    pub use crate::merge::metadata::{Owner, prepare};
    pub use crate::merge::{Manager, MergeError, Outcome, merge};
}
pub mod pools {
    pub use crate::machine_config::{changes, disruption, ignition, reconcile, render};
    pub mod agent {
        pub use crate::machine_config::agent::{
            Action, AgentFacts, Check, Failure, Journal, Phase, Plan, TriedAhead, Unread, decide,
        };
    }
    pub mod decide {
        pub use crate::machine_config::decide::{
            Action, Content, Decision, Key, Overrides, Pods, Remembered, RenderedConfig, Room, Seen, Settings, decide,
        };
    }
    pub mod drain {
        pub use crate::machine_config::drain::{
            ATTEMPT, DaemonSet, Delay, Drain, DrainFacts, EVICTION_RETRY, Fate, PodFacts, Request, Step, step,
        };
    }
    pub mod estimate {
        pub use crate::machine_config::estimate::{Durations, remaining};
    }
    pub mod holds {
        pub use crate::machine_config::holds::{
            APPROVED, Answer, PAUSE_AFTER, QUERY, QUERY_FOR, TIME_ZONE, WINDOWS, holds,
        };
    }
    pub mod membership {
        pub use crate::machine_config::membership::{Membership, selects};
    }
    pub mod node {
        pub use crate::machine_config::node::{NodeFacts, NodeState, Problem, Target};
    }
    pub mod operator {
        pub use crate::machine_config::operator::{NAME, OperatorFacts, PATIENCE, PoolSummary, invalid, status};
    }
    pub mod rollout {
        pub use crate::machine_config::rollout::{
            BlockedReason, Cause, Hold, PoolFacts, Round, Unavailable, limit, rounds,
        };
    }
    pub mod status {
        pub use crate::machine_config::status::{Counts, Subject, is_updated, status};
    }
    pub mod views {
        pub use crate::machine_config::views::{ConfigView, NodeView, PoolView};
    }
    pub mod windows {
        pub use crate::machine_config::windows::{Opening, WindowError, Windows};
    }
}
pub mod net {
    pub mod layer {
        pub use crate::net::registry::layer::{Gathered, LayerError};
    }
}
pub mod operator_process;
pub mod operators;
pub mod payload {
    pub use crate::object::definition::DefinedKind;
    pub use crate::object::manifest::{Manifest, ObjectId, Origin, run_level};
    pub use crate::release::capability::Capabilities;
    pub use crate::release::filter::{ApplyFilter, Filter, check_inclusion};
    pub use crate::release::load::read::manifests_of;
    pub use crate::release::load::{LoadOptions, Payload, PayloadFiles, SourceFile, load};
    pub mod metadata {
        pub use crate::release::metadata::{FILE, ReleaseMetadata};
    }
    pub mod references {
        pub use crate::release::references::{FILE, ImageReferences, Tag};
    }
    pub mod template {
        pub use crate::release::template::{Variables, render};
    }
    pub mod yaml {
        pub use crate::object::yaml::documents;
    }
}
pub mod registry;
pub mod requirements;
pub mod resolution;
pub mod sources;
pub mod updates {
    pub mod graph {
        pub use crate::release::update_graph::response::parse_updates;
        pub use crate::release::update_graph::uri_problem;
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
pub mod walks;
pub mod work {
    pub mod payload_dir {
        pub use crate::release::work::payload_dir::{read, tree_hash};
    }
    pub mod retrieve {
        pub use crate::cluster_version::work::retrieve::folder;
    }
}
