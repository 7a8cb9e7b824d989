//! Objects beside Deployments that are kept for operators and their groups: Services, roles and their bindings, APIServices and the
//! configurations of webhooks.

use super::deployment::{WRITER, handed_over, owner_labels};
use super::differing::differing;
use crate::merge::{Outcome, initial, merge};
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::keys::label;
use crate::olm::components;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Which kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    Service,
    Role,
    RoleBinding,
    ClusterRole,
    ClusterRoleBinding,
    ApiService,
    MutatingWebhookConfiguration,
    ValidatingWebhookConfiguration,
}

impl Kind {
    pub(crate) const ALL: [Kind; 8] = [
        Kind::Service,
        Kind::Role,
        Kind::RoleBinding,
        Kind::ClusterRole,
        Kind::ClusterRoleBinding,
        Kind::ApiService,
        Kind::MutatingWebhookConfiguration,
        Kind::ValidatingWebhookConfiguration,
    ];

    /// Group, name and plural. All of them are of version v1.
    pub(crate) fn names(self) -> (&'static str, &'static str, &'static str) {
        const RBAC: &str = "rbac.authorization.k8s.io";
        const ADMISSION: &str = "admissionregistration.k8s.io";
        match self {
            Kind::Service => ("", "Service", "services"),
            Kind::Role => (RBAC, "Role", "roles"),
            Kind::RoleBinding => (RBAC, "RoleBinding", "rolebindings"),
            Kind::ClusterRole => (RBAC, "ClusterRole", "clusterroles"),
            Kind::ClusterRoleBinding => (RBAC, "ClusterRoleBinding", "clusterrolebindings"),
            Kind::ApiService => ("apiregistration.k8s.io", "APIService", "apiservices"),
            Kind::MutatingWebhookConfiguration => {
                (ADMISSION, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations")
            }
            Kind::ValidatingWebhookConfiguration => {
                (ADMISSION, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations")
            }
        }
    }

    pub(crate) fn is_namespaced(self) -> bool {
        matches!(self, Kind::Service | Kind::Role | Kind::RoleBinding)
    }

    fn of(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.names().1 == name)
    }
}

/// An object of one of these kinds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Id {
    pub kind: Kind,
    /// Empty where its kind has none.
    pub namespace: String,
    pub name: String,
}

impl Id {
    /// `None` for another kind, and for an object without a name.
    pub(crate) fn of(object: &Value) -> Option<Id> {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (kind, name) = (Kind::of(text("/kind"))?, text("/metadata/name"));
        let namespace = if kind.is_namespaced() { text("/metadata/namespace") } else { "" };
        (!name.is_empty()).then(|| Id { kind, namespace: namespace.to_owned(), name: name.to_owned() })
    }
}

impl fmt::Display for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind.names().1;
        match self.namespace.is_empty() {
            true => write!(f, "{kind} {}", self.name),
            false => write!(f, "{kind} {}/{}", self.namespace, self.name),
        }
    }
}

/// Whom an object names as its owner in its labels.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub kind: String,
    pub namespace: String,
    /// As a label has it: what is too long is cut.
    pub name: String,
}

impl Owner {
    pub(crate) fn csv(csv: &ClusterServiceVersion) -> Owner {
        let [(_, name), (_, namespace), (_, kind)] = owner_labels(csv);
        Owner { kind, namespace, name }
    }

    pub(crate) fn of(object: &Value) -> Option<Owner> {
        let labels = object.pointer("/metadata/labels")?;
        let label = |key: &str| Some(labels.get(key)?.as_str()?.to_owned());
        let (kind, namespace) = (label(label::OWNER_KIND)?, label(label::OWNER_NAMESPACE)?);
        Some(Owner { kind, namespace, name: label(label::OWNER)? })
    }
}

/// Whether an object with these labels was made for an operator or a group.
pub(crate) fn is_made<'a>(label: impl Fn(&str) -> Option<&'a str>) -> bool {
    label(label::MANAGED) == Some("true") || label(label::OWNER_KIND).is_some()
}

/// The same as [`change`] for an object that is found although none was known. It becomes what is wanted if it was made for an operator or a
/// group, as earlier programs have left it, or belongs to the same owner. Any other one is somebody's who has chosen the same name, such as
/// a role of the cluster, whose rules must not be exchanged.
///
/// # Errors
/// Whose it is, and what to do.
pub(crate) fn take_over(id: &Id, found: &Value, wanted: &Value) -> Result<Option<Write>, String> {
    let labels = found.pointer("/metadata/labels").and_then(Value::as_object);
    let label = |key: &str| labels?.get(key)?.as_str();
    let is_of_groups = labels.into_iter().flatten().any(|(key, _)| key.starts_with(label::AGGREGATE_TO));
    let owners = |object: &Value| -> BTreeSet<String> {
        let all = object.pointer("/metadata/ownerReferences").and_then(Value::as_array);
        let uid = |owner: &Value| owner.get("uid")?.as_str().map(str::to_owned);
        all.into_iter().flatten().filter_map(uid).collect()
    };
    if is_made(label) || is_of_groups || !owners(found).is_disjoint(&owners(wanted)) {
        return change(id, found, wanted);
    }
    Err(format!(
        "{id} exists already and was not made for an operator: it is left as it is; rename it, or delete it if nobody needs it"
    ))
}

/// Those of the cluster that were made for operators or groups, as they are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Known {
    objects: BTreeMap<Id, Arc<Value>>,
    by_owner: BTreeMap<Owner, BTreeSet<Id>>,
    /// By the namespace that they were copied from, and the name of their owner.
    copied: BTreeMap<(String, String), BTreeSet<Id>>,
    /// Roles whose names end with [`CERTIFICATE`].
    certificate_roles: BTreeSet<Id>,
}

/// What the name of a Secret with the certificate of a Service ends with, and that of the Role by which pods read it.
pub(crate) const CERTIFICATE: &str = "-cert";

impl Known {
    pub(crate) fn new(objects: impl IntoIterator<Item = Arc<Value>>) -> Known {
        let mut known = Known::default();
        for object in objects {
            let Some(id) = Id::of(&object) else { continue };
            if let Some(owner) = Owner::of(&object) {
                let from =
                    object.pointer("/metadata/labels").and_then(|labels| labels.get(label::COPIED_FROM)?.as_str());
                if let Some(from) = from {
                    known.copied.entry((from.to_owned(), owner.name.clone())).or_default().insert(id.clone());
                }
                known.by_owner.entry(owner).or_default().insert(id.clone());
            }
            if id.kind == Kind::Role && id.name.ends_with(CERTIFICATE) {
                known.certificate_roles.insert(id.clone());
            }
            known.objects.insert(id, object);
        }
        known
    }

    /// Namespaces that others of these objects are in or belong to; `None` where what they do may concern all of them.
    pub(crate) fn touched(&self, other: &Known) -> Option<BTreeSet<String>> {
        let mut touched = BTreeSet::new();
        for (id, values) in differing(&self.objects, &other.objects, Arc::ptr_eq) {
            let is_of_cluster = !id.kind.is_namespaced();
            let is_of_roles = matches!(id.kind, Kind::ClusterRole | Kind::ClusterRoleBinding);
            if is_of_cluster && !is_of_roles {
                return None;
            }
            if !is_of_cluster {
                touched.insert(id.namespace.clone());
            }
            for object in values.into_iter().flatten() {
                match Owner::of(object) {
                    Some(owner) => drop(touched.insert(owner.namespace)),
                    None if is_of_cluster => return None,
                    None => {}
                }
                let from =
                    object.pointer("/metadata/labels").and_then(|labels| labels.get(label::COPIED_FROM)?.as_str());
                touched.extend(from.map(str::to_owned));
            }
        }
        Some(touched)
    }

    pub(crate) fn get(&self, id: &Id) -> Option<&Value> {
        self.objects.get(id).map(Arc::as_ref)
    }

    pub(crate) fn owner(&self, id: &Id) -> Option<Owner> {
        Owner::of(self.get(id)?)
    }

    /// Roles by which pods may read a certificate, as far as their names tell.
    pub(crate) fn certificate_roles(&self) -> impl Iterator<Item = &Id> {
        self.certificate_roles.iter()
    }

    /// The same of a namespace.
    pub(crate) fn certificate_roles_in(&self, namespace: &str) -> impl Iterator<Item = &Id> {
        let from = Id { kind: Kind::Role, namespace: namespace.to_owned(), name: String::new() };
        self.certificate_roles.range(from..).take_while(move |id| id.namespace == namespace)
    }

    /// Those in other namespaces that were copied for this owner.
    pub(crate) fn copied(&self, owner: Owner) -> impl Iterator<Item = &Id> {
        self.copied.get(&(owner.namespace, owner.name)).into_iter().flatten()
    }

    /// Those whose owner is of this kind.
    pub(crate) fn of_kind(&self, kind: &str) -> impl Iterator<Item = &Id> {
        self.by_owner.iter().filter(move |(owner, _)| owner.kind == kind).flat_map(|(_, ids)| ids)
    }

    pub(crate) fn of_owner(&self, owner: &Owner) -> impl Iterator<Item = (&Id, &Value)> {
        let ids = self.by_owner.get(owner).into_iter().flatten();
        ids.filter_map(|id| Some((id, self.get(id)?)))
    }
}

/// What is to be written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Write {
    Create {
        id: Id,
        object: Value,
    },
    /// With the resourceVersion that it is based on.
    Replace {
        id: Id,
        object: Value,
        /// Paths of what differs.
        fields: Vec<String>,
    },
    Delete {
        id: Id,
        uid: String,
    },
}

impl Write {
    pub(crate) fn id(&self) -> &Id {
        match self {
            Write::Create { id, .. } | Write::Replace { id, .. } | Write::Delete { id, .. } => id,
        }
    }

    /// What is there afterwards; `None` for nothing.
    pub(crate) fn object(&self) -> Option<&Value> {
        match self {
            Write::Create { object, .. } | Write::Replace { object, .. } => Some(object),
            Write::Delete { .. } => None,
        }
    }
}

/// What has to be written so that all that is wanted is there, and nothing of the surplus. What is among both is wanted. An object of
/// another kind is left out. A binding waits for its role: nobody may give away what is not there.
///
/// # Errors
/// Why one of them cannot be what is wanted, with its name.
pub(crate) fn writes(
    wanted: Vec<Value>,
    surplus: impl IntoIterator<Item = Id>,
    known: &Known,
) -> Result<Vec<Write>, String> {
    let ids: BTreeSet<Id> = wanted.iter().filter_map(Id::of).collect();
    let mut writes = Vec::new();
    for object in wanted {
        let Some(id) = Id::of(&object) else { continue };
        match known.get(&id) {
            Some(live) => writes.extend(change(&id, live, &object)?),
            None if role(&id, &object).is_some_and(|role| ids.contains(&role) && known.get(&role).is_none()) => {}
            None => writes.push(Write::Create { id, object: initial(object) }),
        }
    }
    let surplus = surplus.into_iter().filter(|id| !ids.contains(id));
    writes.extend(surplus.filter_map(|id| delete(&id, known.get(&id)?)));
    Ok(writes)
}

/// The role that a binding gives away.
fn role(id: &Id, object: &Value) -> Option<Id> {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
    let kind = Kind::of(text("/roleRef/kind")?)?;
    let namespace = if kind.is_namespaced() { id.namespace.clone() } else { String::new() };
    Some(Id { kind, namespace, name: text("/roleRef/name")?.to_owned() })
}

/// `None` if it is as it has to be, or is being deleted.
pub(crate) fn change(id: &Id, live: &Value, wanted: &Value) -> Result<Option<Write>, String> {
    if live.pointer("/metadata/deletionTimestamp").is_some() {
        return Ok(None);
    }
    let (object, mut fields) = match merge(live, wanted, WRITER).map_err(|error| error.to_string())? {
        Outcome::Same => (live.clone(), Vec::new()),
        Outcome::Changed { object, fields } => (object, fields),
        // It is deleted first, and created when it is gone.
        Outcome::Replace { .. } => return Ok(delete(id, live)),
    };
    fields.retain(|field| !components::is_label(field));
    let (object, handed_over) = handed_over(object, wanted);
    if handed_over {
        fields.push("metadata.ownerReferences".to_owned());
    }
    Ok((!fields.is_empty()).then(|| Write::Replace { id: id.clone(), object, fields }))
}

/// `None` if it is being deleted.
pub(crate) fn delete(id: &Id, live: &Value) -> Option<Write> {
    let uid = live.pointer("/metadata/uid")?.as_str()?.to_owned();
    let is_going = live.pointer("/metadata/deletionTimestamp").is_some();
    (!is_going).then(|| Write::Delete { id: id.clone(), uid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn role(name: &str, verb: &str) -> Value {
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": name, "namespace": "n",
                "labels": {"olm.managed": "true", "olm.owner": "a.v1", "olm.owner.namespace": "n",
                    "olm.owner.kind": "ClusterServiceVersion"}},
            "rules": [{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]})
    }

    fn live(mut object: Value) -> Arc<Value> {
        object["metadata"]["uid"] = json!("u");
        object["metadata"]["resourceVersion"] = json!("7");
        Arc::new(object)
    }

    fn id(name: &str) -> Id {
        Id { kind: Kind::Role, namespace: "n".to_owned(), name: name.to_owned() }
    }

    fn told(writes: &[Write]) -> Vec<String> {
        let told = writes.iter().map(|write| match write {
            Write::Create { id, .. } => format!("create {id}"),
            Write::Replace { id, object, fields } => {
                format!("replace {id} of {}: {}", object["metadata"]["resourceVersion"], fields.join(", "))
            }
            Write::Delete { id, uid } => format!("delete {id} {uid}"),
        });
        told.collect()
    }

    #[test]
    fn what_is_missing_is_made_what_differs_is_changed_and_the_surplus_goes() {
        let known = Known::new(["same", "other", "surplus"].map(|name| live(role(name, "get"))));
        let wanted = vec![role("same", "get"), role("other", "list"), role("new", "get")];
        let writes = writes(wanted, ["surplus", "same", "unknown"].map(id), &known).unwrap();
        assert_eq!(
            told(&writes),
            ["replace Role n/other of \"7\": rules[0].verbs[0]", "create Role n/new", "delete Role n/surplus u"]
        );
    }

    #[test]
    fn binding_waits_for_its_role() {
        let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "b", "namespace": "n"}, "subjects": [],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}});
        let both = || vec![role("r", "get"), binding.clone()];
        assert_eq!(told(&writes(both(), [], &Known::default()).unwrap()), ["create Role n/r"]);
        let known = Known::new([live(role("r", "get"))]);
        assert_eq!(told(&writes(both(), [], &known).unwrap()), ["create RoleBinding n/b"]);
        // A role of somebody else.
        assert_eq!(told(&writes(vec![binding], [], &Known::default()).unwrap()), ["create RoleBinding n/b"]);
    }

    #[test]
    fn object_of_somebody_else_is_not_taken() {
        let mut wanted = role("r", "get");
        wanted["metadata"]["ownerReferences"] = json!([{"kind": "CustomResourceDefinition", "name": "d", "uid": "1"}]);
        let found = |labels: Value, owner: &str| {
            let owners = json!([{"kind": "CustomResourceDefinition", "name": "d", "uid": owner}]);
            json!({"metadata": {"name": "r", "labels": labels, "ownerReferences": owners}})
        };
        let taken = |labels: Value, owner: &str| take_over(&id("r"), &found(labels, owner), &wanted);
        let is_taken = |labels: Value, owner: &str| matches!(taken(labels, owner), Ok(Some(Write::Replace { .. })));
        let aggregated = json!({"rbac.authorization.k8s.io/aggregate-to-admin": "true"});
        for labels in [json!({}), aggregated.clone(), json!({"olm.managed": "false"})] {
            let error = taken(labels, "2").unwrap_err();
            assert!(error.starts_with("Role n/r exists already and was not made for an operator"), "{error}");
        }
        assert!(is_taken(aggregated, "1"), "it has the same owner");
        for label in ["olm.owner.kind", "olm.opgroup.permissions/aggregate-to-admin"] {
            assert!(is_taken(json!({label: "x"}), "2"), "{label}");
        }
        let bare = json!({"metadata": {"name": "r"}});
        assert!(take_over(&id("r"), &bare, &bare).is_err());
    }

    #[test]
    fn what_is_being_deleted_is_waited_for() {
        let mut going = role("going", "get");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let known = Known::new([live(going)]);
        assert!(writes(vec![role("going", "list")], [id("going")], &known).unwrap().is_empty());
        assert!(writes(Vec::new(), [id("going")], &known).unwrap().is_empty());
    }

    #[test]
    fn binding_to_another_role_is_deleted_first() {
        let binding = |role: &str| {
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "b"}, "subjects": [],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}})
        };
        let known = Known::new([live(binding("r1"))]);
        assert_eq!(told(&writes(vec![binding("r2")], [], &known).unwrap()), ["delete ClusterRoleBinding b u"]);
    }

    #[test]
    fn version_that_takes_over_becomes_the_only_owner_among_versions() {
        let owner = |kind: &str, uid: &str| {
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": kind, "name": uid, "uid": uid,
                "controller": false, "blockOwnerDeletion": false})
        };
        let owned = |owners: Value| {
            let mut object = role("r", "get");
            object["metadata"]["ownerReferences"] = owners;
            object
        };
        let (v1, v2) = (owner("ClusterServiceVersion", "v1"), owner("ClusterServiceVersion", "v2"));
        let stranger = owner("Stranger", "s");
        let known = Known::new([live(owned(json!([v1, stranger])))]);
        let written = writes(vec![owned(json!([v2]))], [], &known).unwrap();
        let [Write::Replace { object, .. }] = written.as_slice() else { panic!("{written:?}") };
        assert_eq!(object["metadata"]["ownerReferences"], json!([stranger, v2]));
        let known = Known::new([Arc::new(object.clone())]);
        assert!(writes(vec![owned(json!([v2]))], [], &known).unwrap().is_empty());
    }

    #[test]
    fn objects_are_found_by_their_owners_and_by_their_kinds_and_names() {
        let mut of_another = role("second", "get");
        of_another["metadata"]["labels"]["olm.owner"] = json!("b.v1");
        let known = Known::new([live(role("first", "get")), live(of_another)]);
        let owner = Owner { kind: "ClusterServiceVersion".into(), namespace: "n".into(), name: "a.v1".into() };
        assert_eq!(known.of_owner(&owner).map(|(id, _)| id.name.as_str()).collect::<Vec<_>>(), ["first"]);
        assert!(known.get(&id("second")).is_some());
        assert!(known.get(&Id { kind: Kind::ClusterRole, ..id("second") }).is_none());
    }
}
