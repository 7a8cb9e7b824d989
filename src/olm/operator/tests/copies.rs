use super::*;
use crate::olm::operator::copies::book::{Book, Job, Key, Live as Copy, Outstanding, Plan};
use crate::olm::operator::copies::{Course, Rules, Source, Targets, compare, conditions, content, labelled};

/// A version in a phase for a reason whose targets are these, as its annotation has them.
fn source(phase: &str, reason: &str, targets: &str) -> Option<Source> {
    let mut object = csv("a", phase, reason);
    object["metadata"]["annotations"] = json!({"olm.targetNamespaces": targets});
    Source::of(&typed(object), at(11))
}

#[test]
fn what_is_copied_is_kept_or_is_removed_by_phase_and_reason() {
    use Course::{Copied, Kept, Removed};
    for (phase, reason, expected) in [
        ("", "", Kept),
        ("Pending", "RequirementsNotMet", Copied),
        ("Succeeded", "InstallSucceeded", Copied),
        ("Failed", "InstallCheckFailed", Copied),
        ("Replacing", "BeingReplaced", Copied),
        ("Failed", "InvalidInstallModes", Kept),
        ("Failed", "NoTargetNamespaces", Kept),
        ("Failed", "UnsupportedOperatorGroup", Kept),
        ("Failed", "NoOperatorGroup", Kept),
        ("Failed", "TooManyOperatorGroups", Kept),
        ("Failed", "CannotModifyStaticOperatorGroupProvidedAPIs", Kept),
        ("Succeeded", "Copied", Kept),
        ("Failed", "InterOperatorGroupOwnerConflict", Removed),
    ] {
        assert_eq!(source(phase, reason, "").unwrap().course, expected, "{phase} {reason}");
    }
    let mut going = csv("a", "Succeeded", "");
    merge(
        &mut going["metadata"],
        &json!({"deletionTimestamp": at(1).to_string(), "annotations": {"olm.targetNamespaces": ""}}),
    );
    assert_eq!(Source::of(&typed(going), at(11)).unwrap().course, Removed);
}

#[test]
fn targets_are_those_of_the_annotation_without_its_own_namespace() {
    let some = |names: &[&str]| Targets::Some(names.iter().map(|name| (*name).to_owned()).collect());
    assert_eq!(source("Succeeded", "", "").unwrap().targets, Targets::All);
    assert_eq!(source("Succeeded", "", "mall,park,shop").unwrap().targets, some(&["mall", "park"]));
    assert_eq!(source("Succeeded", "", "shop"), None);
    assert_eq!(Source::of(&typed(csv("a", "Succeeded", "")), at(11)), None, "nothing says that it is for all");
}

#[test]
fn copies_of_operators_for_all_namespaces_alone_can_be_switched_off_and_not_in_protected_ones() {
    use Course::{Copied, Removed};
    let rules = Rules { disabled: true, is_virtual: false, protected: BTreeSet::from(["park".to_owned()]) };
    let (all, some) = (source("Succeeded", "", "").unwrap(), source("Succeeded", "", "mall").unwrap());
    let on = ["mall", "park", "shop"].map(|name| all.course_in(name, &Rules::default()));
    assert_eq!(on, [Copied, Copied, Removed]);
    assert_eq!(["mall", "park", "shop"].map(|name| all.course_in(name, &rules)), [Removed, Copied, Removed]);
    assert_eq!(["mall", "park"].map(|name| some.course_in(name, &rules)), [Copied, Removed]);
    let unwritten = Rules { disabled: false, is_virtual: true, ..rules };
    assert_eq!(["mall", "park", "shop"].map(|name| all.course_in(name, &unwritten)), [Removed, Copied, Removed]);
    assert_eq!(["mall", "park"].map(|name| some.course_in(name, &unwritten)), [Copied, Removed]);
}

/// As the API server has it.
fn original() -> Value {
    let mut object = csv("a", "Succeeded", "InstallSucceeded");
    merge(
        &mut object["metadata"],
        &json!({
            "annotations": {"olm.targetNamespaces": "", "olm.operatorGroup": "g", "kubectl.kubernetes.io/last-applied-configuration": "{}"},
            "labels": {"operators.coreos.com/a.shop": "", "olm.api.1": "provided"},
            "finalizers": ["operators.coreos.com/csv-cleanup"],
        }),
    );
    object
}

#[test]
fn copy_has_all_but_what_is_for_pods_for_kubectl_and_for_its_operator() {
    let content = content(&original());
    let metadata = json!({"name": "a", "labels": {"olm.api.1": "provided", "olm.copiedFrom": "shop", "olm.managed": "true"},
        "annotations": {"olm.operatorGroup": "g", "olm.operatorframework.io/copied-content": content.hash}});
    assert_eq!(content.object["metadata"], metadata);
    assert_eq!(content.object["spec"], original()["spec"]);
    let mut status = original()["status"].clone();
    merge(
        &mut status,
        &json!({"reason": "Copied", "message": "The operator is running in shop but is managing this namespace"}),
    );
    assert_eq!(content.status, status);
}

#[test]
fn copy_is_equal_whoever_has_made_it() {
    let content = content(&original());
    let live = |change: Value| {
        let mut live = content.object.clone();
        live["status"] = content.status.clone();
        live["metadata"]["annotations"].as_object_mut().unwrap().remove("olm.operatorframework.io/copied-content");
        merge(&mut live, &json!({"metadata": {"namespace": "mall", "uid": "u", "labels": {"theirs": "x"}}}));
        merge(&mut live, &change);
        compare(&live, &content)
    };
    for (change, expected) in [
        (json!({}), (true, true)),
        (json!({"metadata": {"labels": {"olm.managed": "other"}}}), (true, true)),
        (json!({"spec": {"version": "2.0.0"}}), (false, true)),
        (json!({"status": {"message": "other"}}), (true, false)),
        (json!({"metadata": {"labels": {"olm.copiedFrom": "park"}}}), (false, true)),
        (json!({"metadata": {"annotations": {"olm.targetNamespaces": ""}}}), (false, true)),
        (json!({"metadata": {"annotations": {"olm.operatorGroup": "h"}}}), (false, true)),
    ] {
        assert_eq!(live(change.clone()), expected, "{change}");
    }
}

#[test]
fn copy_without_the_label_gets_it_and_loses_what_only_an_original_has() {
    let patch = |metadata: Value| {
        let mut object = csv("a", "Succeeded", "Copied");
        merge(&mut object["metadata"], &json!({"namespace": "mall", "resourceVersion": "7"}));
        merge(&mut object["metadata"], &metadata);
        labelled(&typed(object))
    };
    let other = json!({"olm.operatorNamespace": "shop", "olm.operatorGroup": "g"});
    let labels = json!({"olm.copiedFrom": "shop", "olm.managed": "true"});
    let expected = json!({"metadata": {"resourceVersion": "7", "labels": labels}});
    assert_eq!(patch(json!({"annotations": other})), Some(expected));
    let expected = json!({"metadata": {"resourceVersion": "7", "labels": labels, "finalizers": ["example.com/other"]}});
    let finalizers = json!(["operators.coreos.com/csv-cleanup", "example.com/other"]);
    assert_eq!(patch(json!({"annotations": other, "finalizers": finalizers})), Some(expected));
    assert_eq!(patch(json!({"annotations": other, "labels": {"olm.copiedFrom": "shop"}})), None, "it has one");
    assert_eq!(patch(json!({"annotations": {"olm.operatorNamespace": "mall"}})), None, "it is an original");
}

#[test]
fn condition_says_whether_what_is_set_is_so() {
    let told = |disabled, missing, unexpected| {
        let [it] = conditions(&[], (disabled, Outstanding { missing, unexpected }), at(1)).unwrap().try_into().unwrap();
        assert_eq!(it.type_, "DisabledCopiedCSVs");
        format!("{}/{}: {}", it.status, it.reason, it.message)
    };
    let states = [(false, false, false), (false, true, false), (true, false, true), (true, false, false)];
    let told: Vec<String> = states.map(|(disabled, missing, unexpected)| told(disabled, missing, unexpected)).into();
    insta::assert_snapshot!(told.join("\n"), @r"
    False/CopiedCSVsEnabled: Copied CSVs are enabled and present across the cluster
    False/CopiedCSVsEnabled: Copied CSVs are enabled and at least one copied CSVs is missing
    False/CopiedCSVsDisabled: Copied CSVs are disabled and at least one unexpected copied CSV was found for an operator installed in AllNamespace mode
    True/CopiedCSVsDisabled: Copied CSVs are disabled and no unexpected copied CSVs were found for operators installed in AllNamespace mode
    ");
    let first = conditions(&[], (false, Outstanding::default()), at(1)).unwrap();
    assert_eq!(conditions(&first, (false, Outstanding::default()), at(2)), None);
    let later = conditions(&first, (false, Outstanding { missing: true, unexpected: false }), at(2)).unwrap();
    assert_eq!(later[0].last_transition_time, first[0].last_transition_time, "the status is the same");
    let off = conditions(&later, (true, Outstanding::default()), at(3)).unwrap();
    assert_eq!((off.len(), off[0].last_transition_time.0), (1, at(3)));
}

fn key(namespace: &str) -> Key {
    (namespace.to_owned(), "a".to_owned())
}

/// Of one that is copied everywhere, at this version, in these namespaces.
fn plan(version: &str, namespaces: &[&str]) -> Plan {
    let source = Source { version: version.to_owned(), ..source("Succeeded", "", "").unwrap() };
    Plan {
        sources: BTreeMap::from([(key("shop"), source)]),
        originals: BTreeSet::from([key("shop")]),
        namespaces: namespaces.iter().chain(&["shop"]).map(|name| (*name).to_owned()).collect(),
        rules: Rules::default(),
    }
}

fn copy(version: u64, hash: Option<&str>) -> Copy {
    Copy { uid: "u".to_owned(), version, from: "shop".to_owned(), hash: hash.map(str::to_owned) }
}

/// The original of this version has this description.
fn read(book: &mut Book, version: &str, description: &str) -> String {
    let mut object = original();
    object["spec"]["description"] = json!(description);
    let content = content(&object);
    let hash = content.hash.clone();
    book.on_read(&key("shop"), version.to_owned(), content);
    hash
}

/// All that is done at once.
fn jobs(book: &mut Book) -> Vec<String> {
    let jobs = std::iter::from_fn(|| book.next()).map(|((namespace, _), job)| match job {
        Job::Read { version } => format!("read {namespace} {version}"),
        Job::Write { live: None, .. } => format!("create {namespace}"),
        Job::Write { live: Some(_), .. } => format!("change {namespace}"),
        Job::Delete { .. } => format!("delete {namespace}"),
    });
    jobs.collect()
}

/// All of them were told of: one in the namespace `park`, with this content.
fn followed(book: &mut Book, hash: Option<&str>) {
    book.begin();
    book.tell(key("park"), copy(5, hash));
    book.complete();
}

#[test]
fn copies_are_written_once_what_is_there_and_what_is_wanted_is_known() {
    let mut book = Book::default();
    assert!(book.set(plan("1", &["mall", "park"])));
    assert_eq!(jobs(&mut book), Vec::<String>::new(), "what exists is not known yet");
    let hash = content(&original()).hash;
    followed(&mut book, Some(&hash));
    assert_eq!(book.outstanding(), None, "what they have to be is not known yet");
    assert_eq!(jobs(&mut book), ["read shop 1"]);
    assert_eq!(
        read(&mut book, "1", ""),
        content(&{
            let mut it = original();
            it["spec"]["description"] = json!("");
            it
        })
        .hash
    );
    // One has another content.
    assert_eq!(jobs(&mut book), ["create mall", "change park"]);
    assert_eq!(book.outstanding(), Some(Outstanding { missing: true, unexpected: false }));
    let hash = read(&mut book, "1", "");
    for namespace in ["mall", "park"] {
        book.on_written(&key(namespace), copy(9, Some(&hash)));
    }
    assert_eq!((jobs(&mut book), book.outstanding()), (vec![], Some(Outstanding::default())));
    assert!(!book.set(plan("1", &["mall", "park"])));
    // The watch tells of it afterwards, and then of what somebody else has done to it.
    assert!(!book.tell(key("mall"), copy(9, Some(&hash))));
    assert_eq!(jobs(&mut book), Vec::<String>::new());
    book.tell(key("mall"), copy(12, Some(&hash)));
    assert_eq!(jobs(&mut book), ["change mall"]);
    book.on_written(&key("mall"), copy(13, Some(&hash)));
    book.tell_deleted(key("park"));
    assert_eq!(jobs(&mut book), ["create park"]);
}

#[test]
fn equal_copies_are_left_alone_after_a_restart_and_those_without_a_status_are_not() {
    let hash = content(&{
        let mut it = original();
        it["spec"]["description"] = json!("d");
        it
    })
    .hash;
    for (known, expected) in [(Some(hash.as_str()), vec![]), (None, vec!["change park"])] {
        let mut book = Book::default();
        book.set(plan("1", &["park"]));
        followed(&mut book, known);
        assert_eq!(jobs(&mut book), ["read shop 1"]);
        read(&mut book, "1", "d");
        assert_eq!(jobs(&mut book), expected);
    }
}

fn settled() -> Book {
    let mut book = Book::default();
    book.set(plan("1", &["mall", "park"]));
    let hash = content(&{
        let mut it = original();
        it["spec"]["description"] = json!("d");
        it
    })
    .hash;
    book.begin();
    ["mall", "park"].iter().for_each(|name| assert!(book.tell(key(name), copy(5, Some(&hash)))));
    book.complete();
    assert_eq!(jobs(&mut book), ["read shop 1"]);
    read(&mut book, "1", "d");
    assert_eq!(jobs(&mut book), Vec::<String>::new());
    book
}

#[test]
fn only_what_has_changed_is_looked_at() {
    let mut book = settled();
    book.set(plan("1", &["mall", "park", "yard"]));
    assert_eq!(jobs(&mut book), ["create yard"]);
    let mut book = settled();
    // Another version of the same content.
    book.set(plan("2", &["mall", "park"]));
    assert_eq!(jobs(&mut book), ["read shop 2"]);
    read(&mut book, "2", "d");
    assert_eq!(jobs(&mut book), Vec::<String>::new());
    book.set(plan("3", &["mall", "park"]));
    assert_eq!(jobs(&mut book), ["read shop 3"]);
    read(&mut book, "3", "other");
    assert_eq!(jobs(&mut book), ["change mall", "change park"]);
}

#[test]
fn copies_go_with_the_original_with_the_target_with_a_conflict_and_when_they_are_switched_off() {
    let with = |change: &dyn Fn(&mut Plan)| {
        let (mut book, mut plan) = (settled(), plan("1", &["mall", "park"]));
        change(&mut plan);
        book.set(plan);
        jobs(&mut book)
    };
    let both = ["delete mall", "delete park"];
    let source = |plan: &mut Plan, change: &dyn Fn(&mut Source)| plan.sources.values_mut().for_each(change);
    assert_eq!(
        with(&|plan| {
            plan.sources.clear();
            plan.originals.clear()
        }),
        both
    );
    assert_eq!(with(&|plan| source(plan, &|it| it.course = Course::Removed)), both);
    assert_eq!(with(&|plan| source(plan, &|it| it.course = Course::Kept)), Vec::<String>::new());
    let mall = Targets::Some(BTreeSet::from(["mall".to_owned()]));
    assert_eq!(with(&|plan| source(plan, &|it| it.targets = mall.clone())), ["delete park"]);
    assert_eq!(with(&|plan| plan.rules.disabled = true), both);
    assert_eq!(with(&|plan| plan.rules.is_virtual = true), both);
    let rules = Rules { disabled: true, is_virtual: false, protected: BTreeSet::from(["park".to_owned()]) };
    assert_eq!(with(&|plan| plan.rules = rules.clone()), ["delete mall"]);
    // An operator of the same name is installed there.
    assert_eq!(with(&|plan| assert!(plan.originals.insert(key("park")))), ["delete park"]);
}

#[test]
fn what_passes_is_not_copied_and_what_was_before_it_stays() {
    let mut book = settled();
    let passing = |namespaces: &[&str]| {
        let mut plan = plan("2", namespaces);
        plan.sources.values_mut().for_each(|it| it.is_passing = true);
        plan
    };
    book.set(passing(&["mall", "park", "yard"]));
    assert_eq!(jobs(&mut book), ["create yard"], "as it was before");
    book.set(plan("3", &["mall", "park", "yard"]));
    assert_eq!(jobs(&mut book), ["read shop 3"]);
    // One that is new is copied once it is something.
    let mut book = Book::default();
    book.set(passing(&["mall", "park"]));
    followed(&mut book, None);
    assert_eq!(jobs(&mut book), Vec::<String>::new());
    for (phase, reason, passes) in [
        ("Pending", "RequirementsUnknown", true),
        ("Pending", "RequirementsNotMet", false),
        ("InstallReady", "AllRequirementsMet", true),
        ("Installing", "InstallWaiting", true),
        ("Succeeded", "InstallSucceeded", false),
    ] {
        assert_eq!(source(phase, reason, "").unwrap().is_passing, passes, "{phase} {reason}");
        assert!(!source(phase, reason, "mall").unwrap().is_passing, "its roles in other namespaces wait for it");
    }
    // What is required is waited for a while, and then that it is not there is copied.
    let mut object = csv("a", "Pending", "RequirementsNotMet");
    object["metadata"]["annotations"] = json!({"olm.targetNamespaces": ""});
    let of = |now| Source::of(&typed(object.clone()), now).unwrap();
    let passes = of(at(10));
    assert!(passes.is_passing && passes.lasts_from.is_some_and(|from| from > at(10) && !of(from).is_passing));
    assert_eq!(of(at(11)).lasts_from, None);
}

#[test]
fn what_has_failed_is_busy_until_it_is_tried_again() {
    let mut book = settled();
    book.set(plan("1", &["mall", "park", "yard"]));
    assert_eq!(jobs(&mut book), ["create yard"]);
    book.on_failed(&key("yard"), false);
    assert_eq!(jobs(&mut book), Vec::<String>::new());
    assert_eq!(book.outstanding(), Some(Outstanding { missing: true, unexpected: false }));
    book.on_end(&key("yard"));
    assert_eq!(jobs(&mut book), ["create yard"]);
    book.on_end(&key("yard"));
    assert_eq!(jobs(&mut book), Vec::<String>::new());
}

#[test]
fn of_two_originals_of_one_name_the_one_whose_copy_there_is_goes_on() {
    let mut book = settled();
    let mut both = plan("1", &["alley", "mall", "park"]);
    let other =
        Source { namespace: "alley".to_owned(), uid: "uid-other".to_owned(), ..both.sources[&key("shop")].clone() };
    both.sources.insert(key("alley"), other);
    both.originals.insert(key("alley"));
    book.set(both);
    assert_eq!(jobs(&mut book), ["read alley 1"], "nothing is copied to where an original is");
    let of = |namespace| book.of(&key(namespace), ["mall".to_owned(), "alley".to_owned()].iter());
    let Copies { uids, taken } = of("shop");
    assert_eq!(uids, BTreeMap::from([("mall".to_owned(), "u".to_owned())]));
    assert_eq!(taken, BTreeSet::from(["alley".to_owned()]), "there is an operator");
    let Copies { uids, taken } = of("alley");
    assert_eq!((uids.len(), taken), (0, BTreeSet::from(["mall".to_owned()])), "there is a copy of another operator");
    let has = |namespace, protected: &[&str]| {
        book.has_copies(&key(namespace), &protected.iter().map(|it| (*it).to_owned()).collect())
    };
    assert_eq!([has("shop", &[]), has("alley", &[])], [Some(true), Some(false)]);
    assert_eq!(has("shop", &["mall", "park"]), Some(false), "where they stay they say nothing");
    assert_eq!(Book::default().has_copies(&key("shop"), &BTreeSet::new()), None, "before they are known");
}
