//! The pod that reads the image of a bundle through a node, which has credentials and ways of its own: it says what is in the image,
//! and ends.

use super::{PodInput, TOOL, TOOLS, label, mount, owner, placed, set, step, tool, volumes};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

/// The container with the image of the bundle, which says what is in it.
pub(crate) const CONTAINER: &str = "bundle";
/// Seconds that it may run.
const LONGEST: u32 = 600;
/// Longest beginning of a name that is a label and the name of a host.
const MAX_PREFIX: usize = 40;

/// The name of the pod that reads this image for this catalog. `moment`: what is the same for no other pod.
pub(crate) fn name(catalog: &str, image: &str, moment: i128) -> String {
    let hash = hex::encode(Sha256::digest(format!("{catalog} {image} {moment}")));
    let prefix: String = catalog.chars().take(MAX_PREFIX).collect();
    let prefix = prefix.trim_end_matches(['.', '-']);
    format!("{prefix}-bundle-{}", hash.get(..10).unwrap_or_default())
}

/// It runs once, in the namespace of the catalog and with the pull secrets of that; what else the node knows is its own.
pub(crate) fn pod(input: &PodInput<'_>, name: &str) -> Value {
    let source = input.source;
    let secrets = source.spec.secrets.iter().filter(|name| !name.is_empty());
    let secrets: Vec<Value> = secrets.map(|name| json!({"name": name})).collect();
    let mut spec = placed(input);
    let print = [TOOL, "bundle", "print"];
    let container = step(input, (CONTAINER, input.image), &print, json!([mount(TOOLS, "/utilities", true)]));
    for (key, value) in [
        ("restartPolicy", json!("Never")),
        ("activeDeadlineSeconds", json!(LONGEST)),
        ("enableServiceLinks", json!(false)),
        ("initContainers", json!([tool(input)])),
        ("containers", json!([container])),
        ("volumes", volumes(&[TOOLS])),
    ] {
        set(&mut spec, key, value);
    }
    // Without any the server takes those of the account.
    if !secrets.is_empty() {
        set(&mut spec, "imagePullSecrets", secrets.into());
    }
    json!({
        "apiVersion": "v1", "kind": "Pod", "spec": spec,
        "metadata": {
            "name": name, "namespace": source.metadata.namespace,
            "labels": {label::MANAGED: "true", label::BUNDLE_UNPACK_REF: name},
            "annotations": {super::SAFE_TO_EVICT: "true", super::IMAGE: input.named},
            "ownerReferences": [owner(input.name(), source.metadata.uid.as_deref().unwrap_or_default())],
        },
    })
}
