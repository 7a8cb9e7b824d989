//! Compares the definitions of the release with our types, with what clients are used to, and with those of OpenShift if they are at
//! hand; and checks the component that brings them.

mod component;
mod definitions;
mod reference;
mod samples;
mod schema;

use serde_json::Value;
use std::path::{Path, PathBuf};

/// A kind with a definition in the release.
#[derive(Clone, Copy, Debug)]
struct Kind {
    plural: &'static str,
    /// The file of the definition, and that of OpenShift.
    file: &'static str,
    theirs: &'static str,
    /// The version that our type has.
    version: &'static str,
    /// A value in which each field is set, and one in which as few as possible are.
    full: fn() -> Value,
    least: fn() -> Value,
}

const KINDS: [Kind; 9] = [
    Kind {
        plural: "catalogsources",
        file: "0000_50_olm_01_catalogsources.crd.yaml",
        theirs: "0000_50_olm_00-catalogsources.crd.yaml",
        version: "v1alpha1",
        full: samples::catalog_source::full,
        least: samples::catalog_source::least,
    },
    Kind {
        plural: "clusterserviceversions",
        file: "0000_50_olm_01_clusterserviceversions.crd.yaml",
        theirs: "0000_50_olm_00-clusterserviceversions.crd.yaml",
        version: "v1alpha1",
        full: samples::cluster_service_version::full,
        least: samples::cluster_service_version::least,
    },
    Kind {
        plural: "installplans",
        file: "0000_50_olm_01_installplans.crd.yaml",
        theirs: "0000_50_olm_00-installplans.crd.yaml",
        version: "v1alpha1",
        full: samples::install_plan::full,
        least: samples::install_plan::least,
    },
    Kind {
        plural: "olmconfigs",
        file: "0000_50_olm_01_olmconfigs.crd.yaml",
        theirs: "0000_50_olm_00-olmconfigs.crd.yaml",
        version: "v1",
        full: samples::others::olm_config,
        least: samples::others::least_olm_config,
    },
    Kind {
        plural: "operatorconditions",
        file: "0000_50_olm_01_operatorconditions.crd.yaml",
        theirs: "0000_50_olm_00-operatorconditions.crd.yaml",
        version: "v2",
        full: samples::others::operator_condition,
        least: samples::others::least_operator_condition,
    },
    Kind {
        plural: "operatorgroups",
        file: "0000_50_olm_01_operatorgroups.crd.yaml",
        theirs: "0000_50_olm_00-operatorgroups.crd.yaml",
        version: "v1",
        full: samples::others::operator_group,
        least: samples::others::least_operator_group,
    },
    Kind {
        plural: "operatorhubs",
        file: "0000_03_marketplace_01_operatorhubs.crd.yaml",
        theirs: "0000_03_marketplace_01_operatorhubs.crd.yaml",
        version: "v1",
        full: samples::others::operator_hub,
        least: samples::others::least_operator_hub,
    },
    Kind {
        plural: "operators",
        file: "0000_50_olm_01_operators.crd.yaml",
        theirs: "0000_50_olm_00-operators.crd.yaml",
        version: "v1",
        full: samples::others::operator,
        least: samples::others::least_operator,
    },
    Kind {
        plural: "subscriptions",
        file: "0000_50_olm_01_subscriptions.crd.yaml",
        theirs: "0000_50_olm_00-subscriptions.crd.yaml",
        version: "v1alpha1",
        full: samples::subscription::full,
        least: samples::subscription::least,
    },
];

impl Kind {
    fn of(plural: &str) -> Kind {
        KINDS.into_iter().find(|kind| kind.plural == plural).unwrap()
    }

    fn definition(&self) -> Value {
        serde_yaml::from_str(&std::fs::read_to_string(component_folder().join(self.file)).unwrap()).unwrap()
    }

    /// That of OpenShift; `None` and a note if there is none.
    fn theirs(&self) -> Option<Value> {
        Some(
            serde_yaml::from_str(&std::fs::read_to_string(shared(&format!("payload-5.0/{}", self.theirs))?).unwrap())
                .unwrap(),
        )
    }
}

fn component_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("manifests/olm")
}

/// A file or folder beside the repository; `None` and a note if it does not exist.
fn shared(path: &str) -> Option<PathBuf> {
    let beside = |folder: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let folders = match std::env::var("CVO_SHARED_DATA") {
        Ok(folder) => vec![PathBuf::from(folder)],
        // The second is for a git worktree, which is one level deeper.
        Err(_) => vec![beside("../shared/data"), beside("../../shared/data")],
    };
    let found = folders.iter().map(|folder| folder.join(path)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: no {path} in {folders:?} (set CVO_SHARED_DATA to the folder that holds it)");
    }
    found
}

fn versions(definition: &Value) -> &Vec<Value> {
    definition["spec"]["versions"].as_array().unwrap()
}

/// The schema of a version.
fn schema_of<'a>(definition: &'a Value, version: &str) -> &'a Value {
    let found = versions(definition).iter().find(|it| it["name"] == version).unwrap();
    &found["schema"]["openAPIV3Schema"]
}
