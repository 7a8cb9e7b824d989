//! What is done for operators and groups in each turn, whoever performs it: it is looked at again only where something has changed.

use super::idle::{Around, Idle, Others, Reach, Verdicts};
use super::known::Known;
use super::served::Kinds;
use super::views::Csv;
use crate::olm::operator::Tenant;
use crate::olm::operator::copies::book;
use crate::olm::operator::room::Room;
use crate::olm::operator::serving::certificate;
use crate::olm::operator::settled::Settled;
use crate::olm::operator::tenancy::{self, Tenancy, Verdict};
use crate::olm::operator::turn::{self, Act, Namespace, of_copies, of_groups, of_namespace};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// What was found in turns before.
#[derive(Default)]
pub(crate) struct Turns {
    idle: Idle,
    settled: Settled,
    /// What groups mean for ClusterServiceVersions, by their namespaces.
    verdicts: BTreeMap<String, Verdicts>,
    /// Nothing else was to be done for groups.
    are_groups_settled: bool,
}

/// What a turn depends on that is no object which is followed.
#[derive(Clone, Copy)]
pub(crate) struct Beside<'a> {
    pub served: &'a Kinds,
    /// Why objects cannot be written, by kind and name.
    pub refused: &'a BTreeMap<String, String>,
    /// Certificates of a namespace by the names of their Secrets.
    pub certificates: &'a dyn Fn(&str) -> BTreeMap<String, certificate::Known>,
    /// The copies of a ClusterServiceVersion in these namespaces.
    pub copies: &'a dyn Fn(&book::Key, &[String]) -> book::Copies,
}

impl Turns {
    /// Tells what is to be written, and returns when something has to be done although nothing has changed.
    pub(crate) fn turn(
        &mut self,
        known: &Known,
        beside: Beside<'_>,
        (now, at): (Timestamp, Instant),
        act: &mut Act<'_>,
    ) -> Option<Timestamp> {
        let names = known.names();
        self.idle.begin(Around { known, served: beside.served, refused: beside.refused }, at);
        let is_same = self.are_groups_settled && self.idle.has_same_groups(known);
        let all: Vec<Namespace<'_>> =
            if is_same { Vec::new() } else { names.iter().map(|name| known.namespace(name)).collect() };
        let tenants: Vec<tenancy::Tenant<'_>> = all.iter().flat_map(Namespace::tenants).collect();
        let tenancy = (!is_same).then(|| Tenancy::new(&tenants));
        if let Some(tenancy) = &tenancy {
            let of = |namespace: &Namespace<'_>| -> Verdicts {
                Arc::new(namespace.verdicts(tenancy).map(|(name, verdict)| (name.to_owned(), verdict)).collect())
            };
            self.verdicts = all.iter().map(|namespace| (namespace.name.to_owned(), of(namespace))).collect();
        }
        let world = known.world(beside.served);
        let has_other_role = |name: &str| known.has_other_role(name);
        let components = known.components();
        let around = turn::Around {
            world: &world,
            namespaces: known.labels(),
            has_all_groups: known.has_all_groups(),
            has_all_csvs: known.unread_csvs().is_empty(),
            proxy: known.proxy(),
            components,
            refused: beside.refused,
            has_other_role: &has_other_role,
        };
        let (mut next, mut room) = (None, Room::of(known.csvs(), now));
        for name in names {
            let again = self.bring(name, (known, around, &mut room), beside, now, act);
            next = next.into_iter().chain(again).min();
        }
        if let Some(tenancy) = &tenancy {
            let mut are_settled = true;
            of_groups(&all, tenancy, around, &mut self.settled, &mut |action| {
                are_settled = false;
                act(action);
            });
            self.are_groups_settled = are_settled;
        }
        of_copies(known.unlabelled_copies(), beside.refused, act);
        next
    }

    /// Whether there has been one.
    pub(crate) fn have_been(&self) -> bool {
        self.idle.has_begun()
    }

    /// Ends a turn, in which nothing was known but this.
    pub(crate) fn end(&mut self, known: Known, served: Kinds, refused: BTreeMap<String, String>, at: Instant) {
        self.idle.end(known, served, refused, at);
    }

    /// Returns when something has to be done in the namespace although nothing has changed.
    fn bring(
        &mut self,
        name: &str,
        (known, around, room): (&Known, turn::Around<'_>, &mut Room),
        beside: Beside<'_>,
        now: Timestamp,
        act: &mut Act<'_>,
    ) -> Option<Timestamp> {
        let certificates = (beside.certificates)(name);
        let copies = |csv: &str, targets: &[String]| (beside.copies)(&(name.to_owned(), csv.to_owned()), targets);
        let verdicts = self.verdicts.get(name).cloned().unwrap_or_default();
        // Nothing tells of a certificate as long as it is only made here.
        if certificates.is_empty()
            && let Some(next) = self.idle.is_idle(name, (&verdicts, &copies), now)
        {
            return next;
        }
        let namespace = known.namespace(name);
        let tenant = |(name, csv): (&&str, &&Csv)| {
            let verdict = verdicts.get(*name).cloned().unwrap_or(Verdict::Free);
            namespace.tenant(csv, (verdict, known.labels()), copies)
        };
        let tenants: Vec<Tenant<'_>> = namespace.csvs.iter().map(tenant).collect();
        let (acts, next) = of_namespace(&namespace, (&tenants, &certificates), (around, room), now, act);
        match acts || !certificates.is_empty() {
            true => self.idle.forget(name),
            false => {
                let others = Others::of(&namespace, verdicts, tenants);
                self.idle.keep((name, Reach::of(&namespace)), others, next);
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::api::keys::{annotation, label};
    use crate::olm::operator::component::{Kind, Write};
    use crate::olm::operator::turn::Action;
    use crate::olm::work::operators::memory::Memory;
    use crate::olm::work::operators::seen::Seen;
    use crate::olm::work::operators::seen::tests::put;
    use serde_json::{Value, json};

    /// The first turn.
    fn turned(seen: &Seen, act: &mut Act<'_>) {
        turned_by(&mut Turns::default(), seen, act);
    }

    /// One turn more.
    fn turned_by(turns: &mut Turns, seen: &Seen, act: &mut Act<'_>) {
        let known = Known::of(seen.clone(), &Memory::default(), Ok(semver::Version::new(1, 33, 2)));
        let (served, refused) = (Kinds::new(), BTreeMap::new());
        let beside = Beside {
            served: &served,
            refused: &refused,
            certificates: &|_| BTreeMap::new(),
            copies: &|_, _| book::Copies::default(),
        };
        turns.turn(&known, beside, (Timestamp::UNIX_EPOCH, Instant::now()), act);
    }

    /// What is written of the second names of roles.
    fn written(seen: &Seen) -> Vec<String> {
        let mut written = Vec::new();
        turned(seen, &mut |action| match action {
            Action::Component(Write::Create { id, .. }) => written.push(format!("create {}", id.name)),
            Action::Component(Write::Replace { id, .. }) => written.push(format!("replace {}", id.name)),
            Action::Component(Write::Delete { id, .. }) => written.push(format!("delete {}", id.name)),
            _ => {}
        });
        written.retain(|line| !line.contains(" olm.og."));
        written.sort();
        written
    }

    /// Else a group could take a role of the cluster away by its name.
    #[test]
    fn roles_of_a_group_have_second_names_where_no_other_group_or_role_has_them() {
        let group = json!({"spec": {"targetNamespaces": ["shop"]}});
        let all = ["create one-admin", "create one-edit", "create one-view"];
        let mut seen = Seen::default();
        put(&mut seen.groups, "shop/one", group.clone());
        assert_eq!(written(&seen), all);
        // What was made for one of them goes when there are two.
        put(&mut seen.groups, "mall/one", group);
        let labels = json!({label::MANAGED: "true", label::OWNER: "one", label::OWNER_NAMESPACE: "shop",
            label::OWNER_KIND: "OperatorGroup"});
        let made = json!({"metadata": {"uid": "u", "labels": labels}, "rules": []});
        put(&mut seen.roles.cluster_roles, "one-view", made);
        assert_eq!(written(&seen), ["delete one-view"]);
        seen.roles.cluster_roles = Arc::default();
        assert_eq!(written(&seen), [""; 0]);
        Arc::make_mut(&mut seen.groups).remove("mall/one");
        assert_eq!(written(&seen), all);
        for labels in [json!({}), json!({label::MANAGED: "true"})] {
            let theirs = json!({"metadata": {"uid": "u", "labels": labels}, "rules": []});
            put(&mut seen.roles.cluster_roles, "one-view", theirs);
            assert_eq!(written(&seen), &all[..2], "{labels}");
        }
    }

    /// What is as it has to be is not compared again as long as it stays so, and no longer.
    #[test]
    fn roles_of_a_group_that_somebody_changes_or_deletes_come_back() {
        let (mut seen, mut turns, mut made) = (Seen::default(), Turns::default(), Vec::new());
        put(&mut seen.groups, "shop/one", json!({"spec": {"targetNamespaces": ["shop"]}}));
        turned_by(&mut turns, &seen, &mut |action| {
            if let Action::Component(Write::Create { object, .. }) = action {
                made.push(object);
            }
        });
        assert_eq!(made.len(), 6, "{made:?}");
        let there = |seen: &mut Seen, role: &Value, version: &str| {
            let (mut role, name) = (role.clone(), role["metadata"]["name"].as_str().unwrap().to_owned());
            role["metadata"]["uid"] = json!(name);
            role["metadata"]["resourceVersion"] = json!(version);
            put(&mut seen.roles.cluster_roles, &name, role);
        };
        made.iter().for_each(|role| there(&mut seen, role, "1"));
        let mut written = |seen: &Seen| {
            let mut written = Vec::new();
            turned_by(&mut turns, seen, &mut |action| match action {
                Action::Component(Write::Create { id, .. }) => written.push(format!("create {}", id.name)),
                Action::Component(Write::Replace { id, .. }) => written.push(format!("replace {}", id.name)),
                _ => {}
            });
            written
        };
        for _ in 0..2 {
            assert_eq!(written(&seen), [""; 0]);
        }
        let view = made.iter().find(|role| role["metadata"]["name"] == "one-view").unwrap();
        let mut theirs = view.clone();
        theirs["rules"] = json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["secrets"]}]);
        there(&mut seen, &theirs, "2");
        assert_eq!(written(&seen), ["replace one-view"]);
        there(&mut seen, view, "3");
        for _ in 0..2 {
            assert_eq!(written(&seen), [""; 0]);
        }
        Arc::make_mut(&mut seen.roles.cluster_roles).remove("one-view");
        assert_eq!(written(&seen), ["create one-view"]);
    }

    /// The API of packages stays: where another implementation was replaced, the version that its labels name is gone.
    #[test]
    fn api_of_a_version_that_does_not_exist_goes_where_all_versions_are_known() {
        let api = |owner: &str| {
            let labels = json!({label::OWNER: owner, label::OWNER_NAMESPACE: "shop", label::OWNER_KIND: "ClusterServiceVersion"});
            json!({"metadata": {"uid": "u", "labels": labels}, "spec": {}})
        };
        let mut seen = Seen::default();
        put(&mut seen.csvs, "shop/a", json!({"metadata": {"uid": "a"}, "spec": {}}));
        put(&mut seen.api_services, "v1.own.example.com", api("a"));
        put(&mut seen.api_services, "v1.lost.example.com", api("b"));
        put(&mut seen.api_services, "v1.packages.operators.coreos.com", api("packageserver"));
        put(&mut seen.api_services, "v1.other.example.com", json!({"metadata": {"uid": "u"}, "spec": {}}));
        let gone = |seen: &Seen| {
            let mut gone = Vec::new();
            turned(seen, &mut |action| {
                if let Action::Component(Write::Delete { id, .. }) = action
                    && id.kind == Kind::ApiService
                {
                    gone.push(id.name);
                }
            });
            gone.sort();
            gone
        };
        assert_eq!(gone(&seen), ["v1.lost.example.com"]);
        seen.unread_csvs.push(("shop".to_owned(), "b".to_owned()));
        assert_eq!(gone(&seen), [""; 0]);
        seen.unread_csvs.clear();
        Arc::make_mut(&mut seen.csvs).remove("shop/a");
        assert_eq!(gone(&seen), ["v1.lost.example.com", "v1.own.example.com"]);
    }

    /// Its group selects its own namespace, so that it would be taken for an operator that is installed.
    #[test]
    fn copy_without_its_label_is_no_operator_and_gets_it() {
        let mut seen = Seen::default();
        put(&mut seen.groups, "mall/one", json!({"spec": {"targetNamespaces": ["mall"]}}));
        let metadata = json!({"uid": "u", "annotations": {annotation::OPERATOR_NAMESPACE: "shop"}});
        put(&mut seen.csvs, "mall/a", json!({"metadata": metadata, "spec": {}, "status": {"reason": "Copied"}}));
        let mut patches = Vec::new();
        turned(&seen, &mut |action| match action {
            Action::Patch { patch, .. } => patches.push(patch),
            Action::Status { .. } | Action::Delete { .. } | Action::Condition { .. } => panic!("{action:?}"),
            _ => {}
        });
        let labels = json!({label::COPIED_FROM: "shop", label::MANAGED: "true"});
        let [patch] = patches.as_slice() else { panic!("{patches:?}") };
        assert_eq!(patch["metadata"]["labels"], labels);
    }
}
