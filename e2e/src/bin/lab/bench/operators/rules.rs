//! What an operator requires that asks for many rules, in a cluster with many roles.

use crate::bench::figures::Measured;
use crate::bench::world::median;
use anyhow::{Context, ensure};
use cvo::testing::requirements::{Cluster, Found};
use e2e::operators::Version;
use serde_json::{Value, json};
use std::time::Instant;

pub(super) const SECONDS: &str = "200 rules among 5000 roles, seconds";

const ROLES: usize = 5000;
const RULES: usize = 200;
/// How often it is looked at; the median counts.
const TIMES: usize = 21;

pub(super) fn measure(measured: &mut Measured) -> anyhow::Result<()> {
    let (namespace, version) = ("team", Version::new("widgets.v1"));
    let name = version.package();
    let rules: Vec<Value> = (0..RULES).map(rule).collect();
    let mut csv = version.csv();
    let of_account = csv.pointer_mut("/spec/install/spec/permissions/0/rules");
    *of_account.context("a version without permissions")? = json!(rules);
    let roles: Vec<Value> = (0..ROLES).map(|number| role(namespace, number, &rules)).collect();
    let bindings: Vec<Value> = (0..ROLES).map(|number| binding(namespace, number, name)).collect();
    let begun = Instant::now();
    let cluster = Cluster::new(roles, bindings, (namespace, name))?;
    measured.add("rights of 5000 roles, seconds", begun.elapsed().as_secs_f64());
    let csv = cluster.marked(csv)?;
    let mut seconds = Vec::new();
    for _ in 0..TIMES {
        let begun = Instant::now();
        let found = cluster.look(&csv);
        seconds.push(begun.elapsed().as_secs_f64());
        ensure!(found == Found { met: true, rules: RULES }, "{found:?}");
    }
    measured.add(SECONDS, median(seconds));
    Ok(())
}

fn rule(number: usize) -> Value {
    json!({"apiGroups": [format!("group-{number}.example.com")], "resources": ["widgets", "widgets/status"],
        "verbs": ["get", "list", "watch", "create", "update", "patch", "delete"]})
}

/// The first ones are those of the operator, each with one of its rules.
fn role(namespace: &str, number: usize, rules: &[Value]) -> Value {
    let (of, rules) = match rules.get(number) {
        Some(rule) => (namespace.to_owned(), vec![rule.clone()]),
        None => (format!("other-{}", number % 500), rules.iter().take(10).cloned().collect()),
    };
    json!({"metadata": {"namespace": of, "name": format!("role-{number}")}, "rules": rules})
}

/// Every tenth of the others is for all accounts.
fn binding(namespace: &str, number: usize, account: &str) -> Value {
    let (of, subject) = match number {
        _ if number < RULES => {
            (namespace.to_owned(), json!({"kind": "ServiceAccount", "name": account, "namespace": namespace}))
        }
        _ if number.is_multiple_of(10) => (
            format!("other-{}", number % 500),
            json!({"kind": "Group", "name": "system:serviceaccounts", "apiGroup": "rbac.authorization.k8s.io"}),
        ),
        _ => {
            (format!("other-{}", number % 500), json!({"kind": "ServiceAccount", "name": format!("account-{number}")}))
        }
    };
    json!({"metadata": {"namespace": of, "name": format!("role-{number}")},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": format!("role-{number}")},
        "subjects": [subject]})
}
