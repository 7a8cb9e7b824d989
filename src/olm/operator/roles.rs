//! ClusterRoles by which users get rights to what operators provide: four for each API, which add themselves to the roles of the cluster,
//! and three for each OperatorGroup, which gather those of its APIs. Both have a second name, which documentation shows.

use super::Group;
use super::apis::{self, Apis};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::label;
use crate::olm::names::label_value;
use crate::olm::permissions::text_hash;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const RBAC: &str = "rbac.authorization.k8s.io";
/// `olm.owner.kind` of what belongs to a group.
pub(crate) const GROUP_KIND: &str = "OperatorGroup";
/// Each with its verbs.
const LEVELS: [(&str, &[&str]); 3] =
    [("admin", &["*"]), ("edit", &["create", "update", "patch", "delete"]), ("view", &["get", "list", "watch"])];
/// The longest name of a ClusterRole.
const MAX_NAME: usize = 253;

/// An API that is provided.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Api {
    /// What the names of its roles begin with, such as `widgets.example.com-v1`.
    base: String,
    kind: String,
    version: String,
    group: String,
    plural: String,
    /// apiVersion, kind, name and uid of what defines it.
    owner: (&'static str, &'static str, String, String),
}

/// Those that the version provides and that are there. `defined`, `served`: the uid of a CustomResourceDefinition and of an APIService,
/// the latter only where a Service answers for it: what the API server serves itself is not the operator's, whatever it says.
pub(crate) fn provided(
    csv: &ClusterServiceVersion,
    defined: impl Fn(&str) -> Option<String>,
    served: impl Fn(&str) -> Option<String>,
) -> Vec<Api> {
    let definitions = csv.spec.custom_resource_definitions.owned.iter().filter_map(|it| {
        let uid = defined(&it.name)?;
        Some(Api {
            base: format!("{}-{}", it.name, it.version),
            kind: it.kind.clone(),
            version: it.version.clone(),
            group: it.group().to_owned(),
            plural: it.name.split_once('.')?.0.to_owned(),
            owner: ("apiextensions.k8s.io/v1", "CustomResourceDefinition", it.name.clone(), uid),
        })
    });
    let services = csv.spec.api_service_definitions.owned.iter().filter_map(|it| {
        let name = format!("{}.{}", it.version, it.group);
        let uid = served(&name)?;
        Some(Api {
            base: format!("{}-{}", it.name, it.version),
            kind: it.kind.clone(),
            version: it.version.clone(),
            group: it.group.clone(),
            plural: it.name.clone(),
            owner: ("apiregistration.k8s.io/v1", "APIService", name, uid),
        })
    });
    definitions.chain(services).collect()
}

/// The roles of an API. `group`: the name of the OperatorGroup whose member provides it.
pub(crate) fn of_api(api: &Api, group: &str) -> Vec<Value> {
    let hash = apis::hash(&apis::name(&api.kind, &api.version, &api.group));
    let labels = |level: &str| -> Map<String, Value> {
        let all = [
            (format!("{RBAC}/aggregate-to-{level}"), "true".to_owned()),
            (format!("{}{hash}-{level}", label::AGGREGATE_TO), "true".to_owned()),
            (format!("{}{level}", label::AGGREGATE_TO), label_value(group)),
        ];
        all.into_iter().map(|(key, value)| (key, value.into())).collect()
    };
    let levels = LEVELS.map(|(level, verbs)| {
        (level, level, json!([{"verbs": verbs, "apiGroups": [api.group], "resources": [api.plural]}]))
    });
    let seen = json!([{"verbs": ["get"], "apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"],
        "resourceNames": [api.owner.2]}]);
    let is_defined = api.owner.1 == "CustomResourceDefinition";
    let all = levels.into_iter().chain(is_defined.then_some(("crdview", "view", seen)));
    let mut objects: BTreeMap<String, Value> = BTreeMap::new();
    let second = format!("{}.{}-{}", api.kind.to_lowercase(), api.group, api.version);
    for (suffix, level, rules) in all {
        let (name, other) = (
            format!("{}-{suffix}", api.base),
            match suffix {
                "crdview" => format!("{second}-view-crdview"),
                _ => format!("{second}-{suffix}"),
            },
        );
        // Only one of them adds itself to others.
        objects.entry(other).or_insert_with_key(|name| role(api, name, Map::new(), &rules));
        let object = role(api, &name, labels(level), &rules);
        objects.insert(name, object);
    }
    objects.into_values().collect()
}

fn role(api: &Api, name: &str, mut labels: Map<String, Value>, rules: &Value) -> Value {
    let (api_version, kind, owner, uid) = &api.owner;
    labels.insert(label::MANAGED.to_owned(), "true".into());
    json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
        "metadata": {"name": name, "labels": labels, "ownerReferences": [{"apiVersion": api_version, "kind": kind,
            "name": owner, "uid": uid, "controller": false, "blockOwnerDeletion": false}]},
        "rules": rules})
}

/// The roles of an OperatorGroup that names these APIs. `has_second`: whether they have their second names, `<group>-admin` and so on, too.
pub(crate) fn of_group(group: &Group<'_>, apis: &Apis, has_second: impl Fn(&str) -> bool) -> Vec<Value> {
    let metadata = &group.object.metadata;
    let (namespace, name) = (text(metadata.namespace.as_ref()), text(metadata.name.as_ref()));
    let labels = json!({label::MANAGED: "true", label::OWNER: label_value(name), label::OWNER_NAMESPACE: namespace,
        label::OWNER_KIND: GROUP_KIND});
    let role = |name: &str, level: &str| {
        let key = |api: &String| format!("{}{}-{level}", label::AGGREGATE_TO, apis::hash(api));
        let selectors: Vec<Value> = apis.iter().map(|api| json!({"matchLabels": {key(api): "true"}})).collect();
        let mut object = json!({"apiVersion": format!("{RBAC}/v1"), "kind": "ClusterRole",
            "metadata": {"name": name, "labels": labels}, "rules": []});
        if let Some(object) = object.as_object_mut().filter(|_| !selectors.is_empty()) {
            object.insert("aggregationRule".to_owned(), json!({"clusterRoleSelectors": selectors}));
        }
        object
    };
    let both = |(level, _): (&str, &[&str])| {
        let second = second(name, level);
        let second = has_second(&second).then(|| role(&second, level));
        [Some(role(&group_role(namespace, name, level), level)), second].into_iter().flatten()
    };
    LEVELS.into_iter().flat_map(both).collect()
}

/// The second names of the roles of a group.
pub(crate) fn seconds(group: &str) -> [String; 3] {
    LEVELS.map(|(level, _)| second(group, level))
}

fn second(group: &str, level: &str) -> String {
    format!("{group}-{level}")
}

fn group_role(namespace: &str, name: &str, level: &str) -> String {
    let hash = text_hash(&format!("{namespace}/{name}/{level}"));
    let rest = format!(".{level}-{hash}");
    let most = MAX_NAME.saturating_sub("olm.og.".len() + rest.len());
    let name = name.get(..name.floor_char_boundary(most)).unwrap_or_default();
    format!("olm.og.{name}{rest}")
}

fn text(text: Option<&String>) -> &str {
    text.map(String::as_str).unwrap_or_default()
}
