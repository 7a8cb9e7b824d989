//! OperatorGroups: which meet each other, what their status says, and what is made for them.

use super::*;
use crate::olm::operator::apis::{Apis, hash};
use crate::olm::operator::group::{GroupFacts, status_patch};
use crate::olm::operator::labels::patches;
use crate::olm::operator::roles::of_group;

/// Namespace, targets and APIs of a group.
type Other = (&'static str, &'static [&'static str], &'static str);

/// A group of the namespace `own`, with a member.
struct Meeting {
    name: &'static str,
    /// A star for all namespaces.
    targets: &'static [&'static str],
    /// The kinds of the APIs that the group names.
    names: &'static str,
    others: &'static [Other],
    /// The kinds of the APIs that the member provides.
    provides: &'static str,
}

const fn meeting(
    name: &'static str,
    (targets, names): (&'static [&'static str], &'static str),
    others: &'static [Other],
    provides: &'static str,
) -> Meeting {
    Meeting { name, targets, names, others, provides }
}

/// Nothing is in its way.
const FREE: [Meeting; 9] = [
    meeting("nothing is provided", (&["own"], ""), &[], ""),
    meeting("targets are others", (&["x"], "A"), &[("b", &["y"], "A")], "A"),
    meeting("apis are others", (&["x"], "A"), &[("b", &["x"], "B")], "A"),
    meeting("apis of two are others", (&["x"], "A"), &[("b", &["x"], "B"), ("c", &["own"], "C")], "A"),
    meeting(
        "who provides the same has other targets, and who is for all provides something else",
        (&["x", "y", "z"], "A B"),
        &[("b", &["u"], "B"), ("c", &["v"], "A"), ("d", &["*"], "C")],
        "A B",
    ),
    meeting("it is for all", (&["*"], "A"), &[("b", &["x"], "B")], "A"),
    meeting("the other one is for all", (&["x"], "A"), &[("b", &["*"], "B")], "A"),
    meeting("both are for all", (&["*"], "A"), &[("b", &["*"], "B")], "A"),
    meeting("the other one names nothing", (&["x"], "A"), &[("b", &["x"], "")], "A"),
];

/// Another one provides the same.
const CONFLICT: [Meeting; 6] = [
    meeting("they share a target", (&["x"], ""), &[("b", &["x"], "A")], "A"),
    meeting("it is for all", (&["*"], ""), &[("b", &["x"], "A")], "A"),
    meeting("the other one is for all", (&["x"], ""), &[("b", &["*"], "A")], "A"),
    meeting("both are for all", (&["*"], ""), &[("b", &["*"], "A")], "A"),
    meeting("the second one provides it", (&["x"], ""), &[("b", &["x"], "B"), ("c", &["x"], "A C")], "A"),
    meeting("its own namespace is a target", (&["x"], ""), &[("c", &["own"], "A C")], "A"),
];

/// Nobody else provides it.
const ADDED: [Meeting; 6] = [
    meeting("targets are others", (&["x"], ""), &[("b", &["b"], "A")], "A"),
    meeting("they share a target", (&["x"], ""), &[("b", &["x"], "B")], "A"),
    meeting("its own namespace is a target", (&["x"], ""), &[("b", &["own"], "B")], "A"),
    meeting("it is for all", (&["*"], ""), &[("b", &["x"], "B"), ("c", &["x"], "C D")], "A"),
    meeting("others are for all", (&["x"], ""), &[("b", &["*"], "B"), ("c", &["*"], "C D")], "A"),
    meeting("it names another one", (&["x"], "E"), &[("b", &["*"], "B"), ("c", &["*"], "C D")], "A E"),
];

/// It names what another one provides too.
const REMOVED: [Meeting; 5] = [
    meeting("they share a target", (&["x"], "A"), &[("b", &["x"], "A")], "A"),
    meeting("it is for all", (&["*"], "A"), &[("b", &["x"], "A")], "A"),
    meeting("both are for all", (&["*"], "A"), &[("b", &["*"], "A")], "A"),
    meeting("two provide it", (&["x"], "A"), &[("b", &["x"], "A"), ("c", &["own"], "A")], "A"),
    meeting(
        "one of three provides it",
        (&["x", "y", "z"], "A B"),
        &[("b", &["u"], "B"), ("c", &["v", "z"], "A"), ("d", &["*"], "C")],
        "A B",
    ),
];

/// The list of a group that is not its own is fixed, so that it names what nobody has to provide.
fn group(namespace: &str, targets: &[&str], names: &str) -> OperatorGroup {
    let apis: Vec<String> = names.split_whitespace().map(|kind| format!("{kind}.v1.example.com")).collect();
    let mut spec = json!({"staticProvidedAPIs": namespace != "own"});
    if !targets.contains(&"*") {
        spec["targetNamespaces"] = json!(targets);
    }
    typed(json!({"metadata": {"name": "g", "namespace": namespace, "uid": format!("uid-{namespace}"),
        "annotations": {"olm.providedAPIs": apis.join(",")}}, "spec": spec}))
}

/// What follows for the member, and what its group names from now on where that is something else.
fn of_meeting(meeting: &Meeting) -> String {
    let own = group("own", meeting.targets, meeting.names);
    let others = meeting.others.iter().map(|(namespace, targets, names)| group(namespace, targets, names));
    let objects: Vec<OperatorGroup> = [own].into_iter().chain(others).collect();
    let none = BTreeMap::new();
    let groups: Vec<Group<'_>> =
        objects.iter().map(|object| Group { object, targets: targets(&object.spec, &none) }).collect();
    let mut member = version("w", "Succeeded", &[]);
    let provided: Vec<Value> = meeting.provides.split_whitespace().map(described).collect();
    member["spec"]["customresourcedefinitions"] = json!({"owned": provided});
    let member: ClusterServiceVersion = typed(member);
    let members = |at: usize| if at == 0 { vec![&member] } else { Vec::new() };
    let all: Vec<tenants::Tenant<'_>> = groups
        .iter()
        .enumerate()
        .map(|(at, group)| tenants::Tenant { group, members: members(at), is_whole: at == 0 })
        .collect();
    let tenancy = Tenancy::new(&all);
    let verdict = match tenancy.verdict(&groups[0], &member) {
        Verdict::Free => "goes on",
        Verdict::Waits => "waits",
        Verdict::Refused(state) => state.reason,
    };
    let Some(patch) = tenancy.patch(&groups[0]) else { return verdict.to_owned() };
    let list = patch["metadata"]["annotations"]["olm.providedAPIs"].as_str().unwrap();
    let kinds: Vec<&str> = list.split(',').filter_map(|api| api.strip_suffix(".v1.example.com")).collect();
    format!("{verdict}; names {}", if kinds.is_empty() { "nothing".to_owned() } else { kinds.join(" ") })
}

/// Elsewhere a member whose group gives an API up waits for that, and is refused at the next look.
#[test]
fn groups_that_meet_come_to_what_is_published() {
    const REASON: &str = "InterOperatorGroupOwnerConflict";
    for meeting in &FREE {
        assert_eq!(of_meeting(meeting), "goes on", "{}", meeting.name);
    }
    for meeting in &CONFLICT {
        assert_eq!(of_meeting(meeting), REASON, "{}", meeting.name);
    }
    for meeting in &ADDED {
        assert_eq!(of_meeting(meeting), format!("waits; names {}", meeting.provides), "{}", meeting.name);
    }
    for meeting in &REMOVED {
        assert_eq!(of_meeting(meeting), format!("{REASON}; names nothing"), "{}", meeting.name);
    }
}

/// What a group selects, which its status says, and what becomes of a version of its namespace.
#[test]
fn groups_and_their_versions_come_to_what_is_published() {
    let (labelled, other) = (json!({"matchLabels": {"app": "x"}}), json!({"matchLabels": {"a": "x"}}));
    let begins = "a: Pending/RequirementsUnknown";
    for (name, spec, lacks, namespaces, annotation, expected) in [
        ("no namespace is selected", json!({"selector": other}), "", vec![], None, "a: Failed/NoTargetNamespaces"),
        ("labels select", json!({"selector": labelled}), "", vec!["mall", "shop"], Some("mall,shop"), begins),
        (
            "some are named",
            json!({"targetNamespaces": ["shop", "mall"]}),
            "",
            vec!["mall", "shop"],
            Some("mall,shop"),
            begins,
        ),
        ("it is for all", json!({}), "", vec![""], Some(""), begins),
        ("not all are supported", json!({}), "AllNamespaces", vec![""], Some(""), "a: Failed/UnsupportedOperatorGroup"),
    ] {
        let mut cluster = Cluster::new([version("a", "None", &["owns", "Widget"])]);
        let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
        cluster.csvs[0]["spec"]["installModes"] =
            modes.map(|mode| json!({"type": mode, "supported": mode != lacks})).into_iter().collect();
        cluster.groups[0]["spec"] = spec;
        cluster.namespaces = vec!["mall"];
        cluster.labels = BTreeMap::from([("app".to_owned(), "x".to_owned())]);
        let cluster = cluster.marked();
        assert_eq!(told(&cluster), expected, "{name}");
        let found = &cluster.csvs[0]["metadata"]["annotations"]["olm.targetNamespaces"];
        assert_eq!(found.as_str(), annotation, "{name}");
        let object: OperatorGroup = typed(cluster.groups[0].clone());
        let all: BTreeMap<String, BTreeMap<String, String>> =
            ["mall", "shop"].map(|name| (name.to_owned(), cluster.labels.clone())).into();
        let selected = targets(&object.spec, &all);
        let facts = GroupFacts { group: &object, targets: &selected, has_others: false, account_exists: false };
        assert_eq!(status_patch(&facts, at(5)).unwrap()["namespaces"], json!(namespaces), "{name}");
    }
}

#[test]
fn conditions_of_groups_are_as_published() {
    let missing = ["OperatorGroupServiceAccount", "ServiceAccountNotFound", "ServiceAccount gone not found"];
    // With the way out.
    let several = [
        "MultipleOperatorGroup",
        "MultipleOperatorGroupsFound",
        "Multiple OperatorGroup found in the same namespace; delete all but one",
    ];
    for (name, account, account_exists, has_others, expected) in [
        ("it is alone", "", false, false, vec![]),
        ("its account exists", "server", true, false, vec![]),
        ("its account does not exist", "gone", false, false, vec![missing]),
        ("there is another one", "", false, true, vec![several]),
    ] {
        let spec = json!({"targetNamespaces": ["shop"], "serviceAccountName": account});
        let object: OperatorGroup = typed(json!({"metadata": {"name": "g", "namespace": "shop"}, "spec": spec}));
        let targets = ["shop".to_owned()];
        let facts = GroupFacts { group: &object, targets: &targets, has_others, account_exists };
        let patch = status_patch(&facts, at(5)).unwrap();
        let conditions = patch.get("conditions").and_then(Value::as_array).cloned().unwrap_or_default();
        assert!(conditions.iter().all(|it| it["status"] == "True"), "{name}: {conditions:?}");
        let found: Vec<[&str; 3]> =
            conditions.iter().map(|it| ["type", "reason", "message"].map(|key| it[key].as_str().unwrap())).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn labels_of_namespaces_are_as_published() {
    let (one, two) = ("olm.operatorgroup.uid/one", "olm.operatorgroup.uid/two");
    for (name, before, groups, expected) in [
        ("labels are missing", vec!["theirs"], [("one", "mall"), ("two", "mall")], json!({one: "", two: ""})),
        ("a label is left over", vec![one, two], [("one", "park"), ("two", "mall")], json!({one: null})),
        ("one does not select it", vec![], [("one", "mall"), ("two", "park")], json!({one: ""})),
        ("they are as they have to be", vec![one, two], [("one", "mall"), ("two", "mall")], Value::Null),
    ] {
        let objects = groups.map(|(uid, target)| -> OperatorGroup {
            let metadata = json!({"name": uid, "namespace": "shop", "uid": uid});
            typed(json!({"metadata": metadata, "spec": {"targetNamespaces": [target]}}))
        });
        let none = BTreeMap::new();
        let groups: Vec<Group<'_>> =
            objects.iter().map(|object| Group { object, targets: targets(&object.spec, &none) }).collect();
        let before: BTreeMap<String, String> = before.into_iter().map(|key| (key.to_owned(), String::new())).collect();
        let namespaces = BTreeMap::from([("mall".to_owned(), before)]);
        let found = patches(groups.iter(), &namespaces, true);
        let found: Vec<Value> = found.into_iter().map(|(_, patch)| patch["metadata"]["labels"].clone()).collect();
        let expected: Vec<Value> = [expected].into_iter().filter(|it| !it.is_null()).collect();
        assert_eq!(found, expected, "{name}");
    }
}

/// Whoever has made them before finds them again.
#[test]
fn names_of_the_roles_of_a_group_and_hashes_of_apis_are_those_that_are_published() {
    let metadata = json!({"name": "operator-group-1", "namespace": "operator-ns"});
    let object: OperatorGroup = typed(json!({"metadata": metadata, "spec": {}}));
    let roles = of_group(&Group { object: &object, targets: vec![String::new()] }, &Apis::new(), |_| false);
    let names: Vec<&str> = roles.iter().map(|role| role["metadata"]["name"].as_str().unwrap()).collect();
    let expected = [
        "olm.og.operator-group-1.admin-8rdAjL0E35JMMAkOqYmoorzjpIIihfnj3DcgDU",
        "olm.og.operator-group-1.edit-9lBEUxqAYE7CX7wZfFEPYutTfQTo43WarB08od",
        "olm.og.operator-group-1.view-1l6ymczPK5SceF4d0DCtAnWZuvmKn6s8oBUxHr",
    ];
    assert_eq!(names, expected);
    for (api, expected) in [
        ("Ghost.v1alpha1.ghouls", "6435ab0d7c6bda64"),
        ("Goblin.v1alpha1.ghouls", "557c9f42470aa352"),
        ("c1.v1.fake.api.group", "9f4c46c37bdff8d0"),
    ] {
        assert_eq!(hash(api), expected, "{api}");
    }
}
