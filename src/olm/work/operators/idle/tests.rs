use super::*;
use crate::olm::api::keys::label;
use crate::olm::work::operators::memory::Memory;
use crate::olm::work::operators::seen::Seen;
use crate::olm::work::operators::seen::tests::put;
use serde_json::{Value, json};
use std::sync::Arc;

type Refused = BTreeMap<String, String>;

/// One of each kind that the namespace `shop` may depend on.
fn seen() -> Seen {
    let mut seen = Seen::default();
    let made = json!({"metadata": {"labels": {label::MANAGED: "true", label::DEPLOYMENT_SPEC_HASH: "x"}}});
    let mut deployment = made.clone();
    deployment["spec"] = json!({"replicas": 1});
    put(&mut seen.csvs, "shop/a", json!({"spec": {}}));
    put(&mut seen.groups, "shop/g", json!({"spec": {}}));
    put(&mut seen.conditions, "shop/a", json!({"spec": {}}));
    put(&mut seen.subscribers, "shop/s", json!({"spec": {}}));
    put(&mut seen.deployments, "shop/server", deployment);
    put(&mut seen.namespaces, "shop", json!({}));
    put(&mut seen.definitions, "widgets.example.com", json!({"spec": {"versions": [{"name": "v1", "served": true}]}}));
    put(&mut seen.api_services, "v1.gears.example.com", json!({}));
    put(&mut seen.accounts, "shop/server", json!({}));
    put(&mut seen.roles.roles, "shop/server", made.clone());
    put(&mut seen.roles.cluster_roles, "reader", json!({"rules": []}));
    put(&mut seen.roles.cluster_bindings, "server", binding("ClusterRole", "reader", "shop"));
    put(&mut seen.services, "shop/server-service", made.clone());
    put(&mut seen.validating, "check.example.com-x", made);
    put(&mut seen.proxies, "cluster", json!({}));
    seen
}

/// Of the account `server` of a namespace to a role.
fn binding(kind: &str, role: &str, namespace: &str) -> Value {
    json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [{"kind": "ServiceAccount", "name": "server", "namespace": namespace}]})
}

/// A role that was made for an operator of a namespace.
fn made_for(namespace: &str) -> Value {
    json!({"metadata": {"labels": {label::MANAGED: "true", label::OWNER: "a", label::OWNER_NAMESPACE: namespace,
        label::OWNER_KIND: "ClusterServiceVersion"}}})
}

fn known(seen: &Seen, memory: &Memory) -> Known {
    Known::of(seen.clone(), memory, Ok(semver::Version::new(1, 33, 2)))
}

/// The version `a` has this copy in the namespace `mall`, where the group selects that.
fn others(verdicts: &[(&str, Verdict)], copies: &Copies) -> Others {
    let verdicts: BTreeMap<String, Verdict> =
        verdicts.iter().map(|(name, it)| ((*name).to_owned(), it.clone())).collect();
    let copies = vec![("a".to_owned(), copies.clone())];
    Others { verdicts: Arc::new(verdicts), targets: vec!["mall".to_owned()], copies }
}

/// Nothing stands in its way, and there is no copy.
fn usual() -> Others {
    others(&[("a", Verdict::Free)], &Copies::default())
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// After a turn in which there was nothing to do in `shop`.
struct After {
    memory: Memory,
    seen: Seen,
    idle: Idle,
    at: Instant,
}

impl After {
    /// `next`: when there will be.
    fn turn(next: Option<Timestamp>) -> After {
        After::turn_with(next, Reach::Of(BTreeSet::from(["shop".to_owned()])))
    }

    fn turn_with(next: Option<Timestamp>, reach: Reach) -> After {
        let (memory, seen, at) = (Memory::default(), seen(), Instant::now());
        let (known, mut idle) = (known(&seen, &memory), Idle::default());
        let (served, refused) = (Kinds::new(), Refused::new());
        idle.begin(Around { known: &known, served: &served, refused: &refused }, at);
        idle.keep(("shop", reach), usual(), next);
        idle.end(known, served, refused, at);
        After { memory, seen, idle, at }
    }

    /// What is found so long after it, and when there will be something to do.
    fn found(
        &mut self,
        (known, others): (&Known, &Others),
        (served, refused): (&Kinds, &Refused),
        (now, later): (Timestamp, Duration),
    ) -> Option<Option<Timestamp>> {
        self.idle.begin(Around { known, served, refused }, self.at + later);
        let copies = |name: &str, targets: &[String]| {
            assert_eq!((name, targets), ("a", &["mall".to_owned()][..]));
            others.copies[0].1.clone()
        };
        self.idle.is_idle("shop", (&others.verdicts, &copies), now)
    }

    /// Whether there is nothing to do either if that is known.
    fn is_idle(&mut self, known: &Known) -> bool {
        let (served, refused) = (Kinds::new(), Refused::new());
        self.found((known, &usual()), (&served, &refused), (at(0), Duration::ZERO)).is_some()
    }
}

/// Whether there is nothing to do either after this change.
/// What it is called, and how it is made.
type Change = (&'static str, fn(&mut Seen));

fn is_idle_after(change: fn(&mut Seen)) -> bool {
    is_idle_with(Reach::Of(BTreeSet::from(["shop".to_owned()])), change)
}

fn is_idle_with(reach: Reach, change: fn(&mut Seen)) -> bool {
    let mut after = After::turn_with(None, reach);
    let mut seen = after.seen.clone();
    change(&mut seen);
    let known = known(&seen, &after.memory);
    after.is_idle(&known)
}

#[test]
fn namespace_is_looked_at_again_where_something_has_changed_that_all_depend_on() {
    let changes: [Change; 15] = [
        ("a group", |it| put(&mut it.groups, "shop/g", json!({"spec": {}}))),
        ("another group", |it| put(&mut it.groups, "mall/g", json!({"spec": {}}))),
        ("labels of a namespace", |it| put(&mut it.namespaces, "shop", json!({"metadata": {"labels": {"x": "y"}}}))),
        ("another namespace", |it| put(&mut it.namespaces, "mall", json!({}))),
        ("a namespace that goes", |it| {
            put(&mut it.namespaces, "shop", json!({"metadata": {"deletionTimestamp": at(1).to_string()}}));
        }),
        ("a definition", |it| put(&mut it.definitions, "widgets.example.com", json!({}))),
        ("an APIService", |it| {
            put(&mut it.api_services, "v1.gears.example.com", json!({"metadata": {"uid": "u"}}));
        }),
        ("an account that goes", |it| drop(Arc::make_mut(&mut it.accounts).remove("shop/server"))),
        ("a Role", |it| put(&mut it.roles.roles, "shop/server", made_for("shop"))),
        ("a RoleBinding", |it| put(&mut it.roles.bindings, "shop/other", binding("Role", "server", "shop"))),
        ("a ClusterRole", |it| put(&mut it.roles.cluster_roles, "reader", json!({"rules": []}))),
        ("a ClusterRoleBinding", |it| drop(Arc::make_mut(&mut it.roles.cluster_bindings).remove("server"))),
        ("a Service", |it| drop(Arc::make_mut(&mut it.services).remove("shop/server-service"))),
        ("a webhook configuration", |it| put(&mut it.validating, "check.example.com-x", json!({}))),
        ("the proxy", |it| put(&mut it.proxies, "cluster", json!({"status": {"httpProxy": "http://p"}}))),
    ];
    for (what, change) in changes {
        assert!(!is_idle_after(change), "{what}");
    }
    assert!(is_idle_after(|_| {}));
}

#[test]
fn namespace_is_looked_at_again_where_something_of_its_own_has_changed() {
    let changes: [Change; 8] = [
        ("a version", |it| put(&mut it.csvs, "shop/a", json!({"spec": {}}))),
        ("another version", |it| put(&mut it.csvs, "shop/b", json!({"spec": {}}))),
        ("a version that goes", |it| drop(Arc::make_mut(&mut it.csvs).remove("shop/a"))),
        ("a condition", |it| put(&mut it.conditions, "shop/a", json!({"spec": {}}))),
        ("a Deployment", |it| put(&mut it.deployments, "shop/server", json!({}))),
        ("a Deployment that goes", |it| drop(Arc::make_mut(&mut it.deployments).remove("shop/server"))),
        ("who scales a Deployment", |it| {
            let mut live = (*it.deployments["shop/server"]).clone();
            live.scaled = true;
            Arc::make_mut(&mut it.deployments).insert("shop/server".to_owned(), Arc::new(live));
        }),
        ("a Subscription", |it| put(&mut it.subscribers, "shop/s", json!({"spec": {"config": {}}}))),
    ];
    for (what, change) in changes {
        assert!(!is_idle_after(change), "{what}");
    }
}

/// Most of what happens is about one of many.
#[test]
fn namespace_is_idle_whatever_changes_in_others() {
    let changes: [Change; 9] = [
        ("an account", |it| put(&mut it.accounts, "mall/server", json!({}))),
        ("a Role", |it| put(&mut it.roles.roles, "mall/server", made_for("mall"))),
        ("a RoleBinding", |it| put(&mut it.roles.bindings, "mall/other", binding("ClusterRole", "reader", "mall"))),
        ("a ClusterRole", |it| put(&mut it.roles.cluster_roles, "of-mall", made_for("mall"))),
        ("a version", |it| put(&mut it.csvs, "mall/a", json!({"spec": {}}))),
        ("a condition", |it| put(&mut it.conditions, "mall/a", json!({"spec": {}}))),
        ("a Deployment", |it| put(&mut it.deployments, "mall/server", json!({}))),
        ("a Subscription", |it| put(&mut it.subscribers, "mall/s", json!({"spec": {"config": {}}}))),
        ("a definition as it was", |it| {
            let versions = json!([{"name": "v1", "served": true, "schema": {"new": true}}]);
            put(&mut it.definitions, "widgets.example.com", json!({"spec": {"versions": versions}}));
        }),
    ];
    for (what, change) in changes {
        assert!(is_idle_after(change), "{what}");
    }
}

/// Operators that work elsewhere, too, write there, and objects of the whole cluster may have any names.
#[test]
fn namespace_depends_on_those_that_its_operators_reach() {
    let both = || Reach::Of(["mall", "shop"].map(str::to_owned).into());
    let changes: [Change; 3] = [
        ("a Role", |it| put(&mut it.roles.roles, "mall/server", made_for("mall"))),
        ("a copied Role", |it| {
            let mut role = made_for("park");
            role["metadata"]["labels"][label::COPIED_FROM] = json!("mall");
            put(&mut it.roles.roles, "park/server", role);
        }),
        ("a RoleBinding", |it| put(&mut it.roles.bindings, "mall/other", binding("ClusterRole", "reader", "mall"))),
    ];
    for (what, change) in changes {
        assert_eq!([is_idle_with(both(), change), is_idle_with(Reach::All, change)], [false, false], "{what}");
        assert!(is_idle_after(change), "{what}");
    }
    assert!(is_idle_with(Reach::All, |_| {}));
    // What all accounts may do is that of each.
    let everybody: fn(&mut Seen) = |it| {
        let mut given = binding("ClusterRole", "reader", "mall");
        given["subjects"] = json!([{"kind": "Group", "name": "system:serviceaccounts"}]);
        put(&mut it.roles.cluster_bindings, "everybody", given);
    };
    assert!(!is_idle_after(everybody));
    let of_shop: fn(&mut Seen) = |it| {
        let mut given = binding("ClusterRole", "reader", "mall");
        given["subjects"] = json!([{"kind": "Group", "name": "system:serviceaccounts:shop"}]);
        put(&mut it.roles.cluster_bindings, "of-shop", given);
    };
    assert!(!is_idle_after(of_shop));
}

#[test]
fn fields_that_the_server_keeps_and_another_version_of_it_are_looked_at_again() {
    let mut after = After::turn(None);
    let answer = (*after.seen.deployments["shop/server"].object).clone();
    let mut written = answer.clone();
    written["spec"]["replicas"] = json!(2);
    let id = ("shop".to_owned(), "server".to_owned());
    after.memory.on_deployment(&id, (&written, &answer));
    let kept = known(&after.seen, &after.memory);
    assert!(!after.is_idle(&kept));
    for version in [Ok(semver::Version::new(1, 34, 0)), Err("it refuses".to_owned())] {
        let mut after = After::turn(None);
        let other = Known::of(after.seen.clone(), &after.memory, version);
        assert!(!after.is_idle(&other));
    }
}

#[test]
fn kinds_refusals_and_what_the_group_means_are_looked_at_again() {
    let (no_kinds, no_errors) = (Kinds::new(), Refused::new());
    let kinds = Kinds::from([("apps".to_owned(), "v1".to_owned(), "Deployment".to_owned())]);
    let errors = Refused::from([("Service shop/server-service".to_owned(), "no".to_owned())]);
    let mut copies = Copies::default();
    copies.uids.insert("mall".to_owned(), "u".to_owned());
    let (free, waits, none) = (("a", Verdict::Free), ("a", Verdict::Waits), Copies::default());
    let rows = [
        ("nothing", usual(), &no_kinds, &no_errors, true),
        ("kinds", usual(), &kinds, &no_errors, false),
        ("refusals", usual(), &no_kinds, &errors, false),
        ("its group", others(&[waits], &none), &no_kinds, &no_errors, false),
        ("a copy", others(std::slice::from_ref(&free), &copies), &no_kinds, &no_errors, false),
        ("another version", others(&[free, ("b", Verdict::Free)], &none), &no_kinds, &no_errors, false),
    ];
    for (what, others, kinds, errors, is_idle) in rows {
        let mut after = After::turn(None);
        let known = known(&after.seen, &after.memory);
        let found = after.found((&known, &others), (kinds, errors), (at(0), Duration::ZERO));
        assert_eq!(found.is_some(), is_idle, "{what}");
    }
}

#[test]
fn namespace_is_looked_at_again_when_its_time_has_come_and_after_a_while_in_any_case() {
    let (kinds, errors) = (Kinds::new(), Refused::new());
    let found = |next: Option<i64>, now: i64, later: Duration| {
        let mut after = After::turn(next.map(at));
        let known = known(&after.seen, &after.memory);
        after.found((&known, &usual()), (&kinds, &errors), (at(now), later))
    };
    assert_eq!(found(Some(10), 9, Duration::ZERO), Some(Some(at(10))));
    assert_eq!(found(Some(10), 10, Duration::ZERO), None);
    assert_eq!(found(None, 10, ALL_AFTER - Duration::from_nanos(1)), Some(None));
    assert_eq!(found(None, 10, ALL_AFTER), None);
    // Turns in between do not put that off.
    let mut after = After::turn(None);
    let now = known(&after.seen, &after.memory);
    let half = (at(0), ALL_AFTER / 2);
    assert_eq!(after.found((&now, &usual()), (&kinds, &errors), half), Some(None));
    let second = known(&after.seen, &after.memory);
    after.idle.end(second, Kinds::new(), Refused::new(), after.at + half.1);
    assert_eq!(after.found((&now, &usual()), (&kinds, &errors), (at(0), ALL_AFTER)), None);
}

#[test]
fn namespace_in_which_something_was_done_is_looked_at_again() {
    let mut after = After::turn(None);
    after.idle.forget("shop");
    let known = known(&after.seen, &after.memory);
    assert!(!after.is_idle(&known));
}
