use super::*;
use crate::olm::operator::labels::patches;
use crate::olm::operator::tenancy::Tenant as OfGroup;

const WIDGET: &str = "Widget.v1.example.com";
const GEAR: &str = "Gear.v1.example.com";

/// A group of a namespace of the same name, with these targets, and what its annotation names.
fn group(namespace: &str, targets: &[&str], apis: &[&str], fixed: bool) -> OperatorGroup {
    let spec = match targets {
        ["*"] => json!({"staticProvidedAPIs": fixed}),
        targets => json!({"targetNamespaces": targets, "staticProvidedAPIs": fixed}),
    };
    let annotations = if apis.is_empty() { json!({}) } else { json!({"olm.providedAPIs": apis.join(",")}) };
    typed(json!({"metadata": {"name": namespace, "namespace": namespace, "uid": format!("uid-{namespace}"),
        "resourceVersion": "7", "annotations": annotations}, "spec": spec}))
}

/// A member in a phase that provides these.
fn member(name: &str, phase: &str, apis: &[&str]) -> ClusterServiceVersion {
    let owned: Vec<Value> = apis
        .iter()
        .map(|api| {
            let kind = api.split('.').next().unwrap();
            json!({"name": format!("{}s.example.com", kind.to_lowercase()), "version": "v1", "kind": kind})
        })
        .collect();
    let mut csv = csv(name, phase, "");
    csv["spec"]["customresourcedefinitions"] = json!({"owned": owned});
    typed(csv)
}

/// What is decided for groups, each with its members: which APIs each names from now on where that is another list, and the verdict on
/// each member.
fn decided(groups: &[(OperatorGroup, Vec<ClusterServiceVersion>)]) -> Vec<String> {
    let targets = |group: &OperatorGroup| targets(&group.spec, &BTreeMap::new());
    let all: Vec<Group<'_>> = groups.iter().map(|(object, _)| Group { object, targets: targets(object) }).collect();
    let tenants: Vec<OfGroup<'_>> = all
        .iter()
        .zip(groups)
        .map(|(group, (_, members))| OfGroup { group, members: members.iter().collect(), is_whole: true })
        .collect();
    let tenancy = Tenancy::new(&tenants);
    let mut told = Vec::new();
    for (group, (object, members)) in all.iter().zip(groups) {
        let name = object.metadata.name.as_deref().unwrap();
        if let Some(patch) = tenancy.patch(group) {
            assert_eq!(patch["metadata"]["resourceVersion"], "7");
            told.push(format!(
                "{name} := {}",
                patch["metadata"]["annotations"]["olm.providedAPIs"].as_str().unwrap_or("none")
            ));
        }
        for csv in members {
            let verdict = match tenancy.verdict(group, csv) {
                Verdict::Free => "goes on".to_owned(),
                Verdict::Waits => "waits".to_owned(),
                Verdict::Refused(state) => state.reason.to_owned(),
            };
            told.push(format!("{}: {verdict}", csv.metadata.name.as_deref().unwrap()));
        }
    }
    told
}

/// Whether others provide the same API, whether the group names it, and whether its list is fixed.
#[test]
fn six_cases_of_groups_that_meet() {
    const CONFLICT: &str = "w: InterOperatorGroupOwnerConflict";
    const FIXED: &str = "w: CannotModifyStaticOperatorGroupProvidedAPIs";
    let widgets = format!("b := {WIDGET}");
    for (others, names, fixed, expected) in [
        (false, true, false, vec!["w: goes on"]),
        (false, true, true, vec!["w: goes on"]),
        (false, false, false, vec![widgets.as_str(), "w: waits"]),
        (false, false, true, vec![FIXED]),
        (true, false, false, vec![CONFLICT]),
        (true, false, true, vec![CONFLICT]),
        (true, true, false, vec!["b := ", CONFLICT]),
        (true, true, true, vec![FIXED]),
    ] {
        let theirs = if others { vec![WIDGET] } else { vec![GEAR] };
        let ours = if names { vec![WIDGET] } else { vec![] };
        // The list of the other one is fixed, so that it names an API without anybody who provides it.
        let other = (group("a", &["shared"], &theirs, true), vec![]);
        let own = (group("b", &["shared"], &ours, fixed), vec![member("w", "Succeeded", &[WIDGET])]);
        assert_eq!(decided(&[other, own]), expected, "others {others}, names {names}, fixed {fixed}");
    }
}

#[test]
fn groups_meet_in_targets_in_their_own_namespaces_and_where_one_is_for_all() {
    for (one, other, meet) in [
        (&["x"][..], &["x"][..], true),
        (&["x"], &["y"], false),
        (&["x", "y"], &["y", "z"], true),
        (&["b"], &["b"], true),
        // The namespace of a group counts.
        (&["b"], &["x"], true),
        (&["x"], &["a"], true),
        (&["*"], &["x"], true),
        (&["x"], &["*"], true),
        (&["*"], &["*"], true),
    ] {
        let first = (group("a", one, &[WIDGET], true), vec![]);
        let second = (group("b", other, &[], false), vec![member("w", "Succeeded", &[WIDGET])]);
        let told = decided(&[first, second]);
        let expected = if meet { "w: InterOperatorGroupOwnerConflict" } else { "w: waits" };
        assert_eq!(told.last().map(String::as_str), Some(expected), "{one:?} {other:?}");
    }
}

#[test]
fn of_two_that_come_at_once_the_older_group_wins_and_neither_waits_for_the_other() {
    let with = |names: &[&str], created: [i64; 2]| {
        let mut groups = [("a", created[0]), ("b", created[1])].map(|(name, created)| {
            let mut object = group(name, &["shared"], names, false);
            object.metadata.creation_timestamp = Some(typed(json!(at(created).to_string())));
            (object, vec![member(name, "Succeeded", &[WIDGET])])
        });
        groups.reverse();
        decided(&groups)
    };
    let a_wins = ["b: InterOperatorGroupOwnerConflict".to_owned(), format!("a := {WIDGET}"), "a: waits".to_owned()];
    assert_eq!(with(&[], [1, 2]), a_wins);
    let b_wins = [format!("b := {WIDGET}"), "b: waits".to_owned(), "a: InterOperatorGroupOwnerConflict".to_owned()];
    assert_eq!(with(&[], [2, 1]), b_wins);
    // They did not meet before.
    let expected = ["b := ", "b: InterOperatorGroupOwnerConflict", "a: goes on"];
    assert_eq!(with(&[WIDGET], [1, 2]), expected);
}

#[test]
fn what_no_member_provides_any_more_is_taken_from_the_list() {
    let list =
        |fixed, members: Vec<ClusterServiceVersion>| decided(&[(group("a", &["a"], &[GEAR, WIDGET], fixed), members)]);
    assert_eq!(list(false, vec![]), ["a := "]);
    assert_eq!(list(true, vec![]), Vec::<String>::new());
    let widgets = format!("a := {WIDGET}");
    assert_eq!(list(false, vec![member("w", "Succeeded", &[WIDGET])]), [widgets.as_str(), "w: goes on"]);
    assert_eq!(list(false, vec![member("w", "Failed", &[WIDGET])]), [widgets.as_str(), "w: goes on"]);
    // Who has only begun may be the next version of who provided it.
    for phase in ["", "Pending"] {
        assert_eq!(list(false, vec![member("w", phase, &[WIDGET])]), ["w: goes on"], "{phase}");
    }
}

#[test]
fn what_may_be_provided_by_a_member_that_cannot_be_read_stays_in_the_list() {
    let (object, widget) = (group("a", &["a"], &[GEAR, WIDGET], false), member("w", "Succeeded", &[WIDGET]));
    let of = Group { object: &object, targets: targets(&object.spec, &BTreeMap::new()) };
    let patch = |is_whole: bool| {
        let tenants = [OfGroup { group: &of, members: vec![&widget], is_whole }];
        let tenancy = Tenancy::new(&tenants);
        assert_eq!(tenancy.verdict(&of, &widget), Verdict::Free);
        tenancy.patch(&of)
    };
    assert_eq!(patch(false), None);
    assert_eq!(patch(true).unwrap()["metadata"]["annotations"]["olm.providedAPIs"], WIDGET);
}

/// As documentation shows them.
#[test]
fn list_of_a_group_names_what_its_members_provide() {
    let alert = member("alerts", "Succeeded", &["PrometheusRule.v1.example.com", "Alertmanager.v1.example.com"]);
    let told = decided(&[(group("local", &["local"], &[], false), vec![alert])]);
    let expected = "local := Alertmanager.v1.example.com,PrometheusRule.v1.example.com";
    assert_eq!(told, [expected, "alerts: waits"]);
    // A static one protects what nobody provides yet, from an operator of another namespace that is for all of them.
    let apis = ["Alertmanager.v1.example.com", "PrometheusRule.v1.example.com"];
    let fixed = (group("cluster-monitoring", &["cluster-monitoring"], &apis, true), vec![]);
    let rival = member("rival", "Pending", &["Alertmanager.v1.example.com"]);
    let told = decided(&[fixed, (group("everywhere", &["*"], &[], false), vec![rival])]);
    assert_eq!(told, ["rival: InterOperatorGroupOwnerConflict"]);
}

#[test]
fn conflict_removes_what_runs_names_both_groups_and_ends_with_it() {
    let definitions = json!({"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]});
    let mut version = csv("a", "Succeeded", "InstallSucceeded");
    version["spec"]["customresourcedefinitions"] = definitions;
    let mut cluster = Cluster::new([version]).marked().deployed("a", ready());
    let other = json!({"metadata": {"name": "g2", "namespace": "mall", "annotations": {"olm.providedAPIs": WIDGET}},
        "spec": {"targetNamespaces": ["shop"], "staticProvidedAPIs": true}});
    cluster.others = vec![other];
    let conflict = format!(
        "Failed/InterOperatorGroupOwnerConflict: intersecting operatorgroups provide the same apis: OperatorGroups shop/g and mall/g2, which \
         share namespaces, both provide {WIDGET}; select other namespaces in one of them, or delete the operator of one"
    );
    assert_eq!(cluster.step("a", 10), conflict);
    let deleted = |cluster: &Cluster| match cluster.decide("a", 10).deployments.as_slice() {
        [super::super::deployment::Write::Delete { name, .. }] => name == "server",
        _ => false,
    };
    assert!(deleted(&cluster));
    cluster.groups[0]["spec"]["staticProvidedAPIs"] = json!(true);
    assert!(
        cluster.step("a", 10).starts_with("Failed/CannotModifyStaticOperatorGroupProvidedAPIs: static provided api")
    );
    assert!(deleted(&cluster));
    cluster.groups[0]["metadata"]["annotations"] = json!({});
    cluster.others.clear();
    let missing = format!(
        "Failed/CannotModifyStaticOperatorGroupProvidedAPIs: static provided api operatorgroup cannot be modified by these apis: OperatorGroup \
         shop/g has spec.staticProvidedAPIs and does not name {WIDGET}; add it to its annotation olm.providedAPIs"
    );
    assert_eq!(cluster.step("a", 10), missing);
    // Both end with what the groups say.
    let mut cluster = cluster.named();
    for (reason, message) in [
        ("InterOperatorGroupOwnerConflict", "OperatorGroup no longer intersecting with conflicting owner"),
        (
            "CannotModifyStaticOperatorGroupProvidedAPIs",
            "static OperatorGroup and intersecting groups now support providedAPIs",
        ),
    ] {
        merge(&mut cluster.csv_mut("a")["status"], &json!({"phase": "Failed", "reason": reason}));
        assert_eq!(cluster.step("a", 10), format!("Pending/RequirementsUnknown: {message}"));
    }
}

#[test]
fn namespaces_have_the_label_of_each_group_that_selects_them_and_of_no_other() {
    let objects = [
        group("one", &["x", "y"], &[], false),
        group("two", &["x", "gone"], &[], false),
        group("all", &["*"], &[], false),
    ];
    let targets = |group: &OperatorGroup| targets(&group.spec, &BTreeMap::new());
    let groups: Vec<Group<'_>> = objects.iter().map(|object| Group { object, targets: targets(object) }).collect();
    let key = |uid: &str| format!("olm.operatorgroup.uid/{uid}");
    let labelled = |uids: &[&str]| -> BTreeMap<String, String> {
        let ours = uids.iter().map(|uid| (key(uid), String::new()));
        ours.chain([("a".to_owned(), "b".to_owned())]).collect()
    };
    let mut namespaces: BTreeMap<String, BTreeMap<String, String>> = BTreeMap::from([
        ("x".to_owned(), labelled(&[])),
        ("y".to_owned(), labelled(&["uid-one"])),
        ("z".to_owned(), labelled(&["uid-one", "uid-former"])),
    ]);
    let patch = |labels: Value| json!({"metadata": {"labels": labels}});
    let expected = vec![
        ("x".to_owned(), patch(json!({key("uid-one"): "", key("uid-two"): ""}))),
        ("z".to_owned(), patch(json!({key("uid-one"): null, key("uid-former"): null}))),
    ];
    assert_eq!(patches(groups.iter(), &namespaces, true), expected);
    // A group that cannot be read is not gone.
    let some = patches(groups.iter(), &namespaces, false);
    assert_eq!(some[1].1, patch(json!({key("uid-one"): null})));
    namespaces.insert("x".to_owned(), labelled(&["uid-one", "uid-two"]));
    namespaces.insert("z".to_owned(), labelled(&[]));
    assert_eq!(patches(groups.iter(), &namespaces, true), []);
}
