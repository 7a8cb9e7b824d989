//! What ServiceAccounts may do, by the roles and bindings of the cluster. It is evaluated here, because asking the API server for each
//! rule of each operator would be many requests.

use super::differing::differing;
use k8s_openapi::api::rbac::v1::{PolicyRule, RoleRef, Subject};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A rule that allows more single things than this is not taken apart: lists that are multiplied become large.
pub(crate) const MAX_SINGLE: usize = 10_000;

/// Groups that accounts are in.
const ALL_ACCOUNTS: &str = "group system:serviceaccounts";
const ACCOUNTS_OF: &str = "group system:serviceaccounts:";
const ALL_USERS: &str = "group system:authenticated";

/// Rules of a role.
pub(crate) type Rules = Arc<[PolicyRule]>;

/// A role that is given to subjects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Binding<'a> {
    /// Empty if it is given in all namespaces.
    pub namespace: &'a str,
    pub role: &'a RoleRef,
    pub subjects: &'a [Subject],
}

/// Who may do what.
#[derive(Debug, Default)]
pub(crate) struct Rights {
    /// By a user or a group, and by a namespace or, where that is empty, in all of them.
    given: BTreeMap<String, BTreeMap<String, Vec<Rules>>>,
}

impl Rights {
    /// `rules`: those of a Role, or of a ClusterRole, which has no namespace.
    pub(crate) fn new<'a>(
        bindings: impl Iterator<Item = Binding<'a>>,
        rules: impl Fn(&str, &str) -> Option<Rules>,
    ) -> Rights {
        let mut given: BTreeMap<String, BTreeMap<String, Vec<Rules>>> = BTreeMap::new();
        for Binding { namespace, role, subjects } in bindings {
            let of = if role.kind == "ClusterRole" { "" } else { namespace };
            let Some(rules) = rules(of, &role.name) else { continue };
            for subject in subjects {
                if let Some(name) = subject_name(subject, namespace) {
                    let of_namespace = given.entry(name).or_default().entry(namespace.to_owned());
                    of_namespace.or_default().push(rules.clone());
                }
            }
        }
        Rights { given }
    }

    /// Namespaces whose accounts others give something else; `None` where that may be all of them.
    pub(crate) fn touched(&self, other: &Rights) -> Option<BTreeSet<String>> {
        let is_same = |one: &BTreeMap<String, Vec<Rules>>, other: &BTreeMap<String, Vec<Rules>>| {
            let all = |one: &Vec<Rules>, other: &Vec<Rules>| {
                one.len() == other.len() && one.iter().zip(other).all(|(one, other)| Arc::ptr_eq(one, other))
            };
            one.len() == other.len()
                && one.iter().zip(other).all(|((at, one), (of, other))| at == of && all(one, other))
        };
        let mut touched = BTreeSet::new();
        for (name, _) in differing(&self.given, &other.given, is_same) {
            if name == ALL_ACCOUNTS || name == ALL_USERS {
                return None;
            }
            let account = name.strip_prefix("user system:serviceaccount:").and_then(|rest| rest.split(':').next());
            touched.extend(account.or_else(|| name.strip_prefix(ACCOUNTS_OF)).map(str::to_owned));
        }
        Some(touched)
    }

    /// Whether the account may do all that a rule says, in a namespace or, where that is empty, in all of them. A rule that is not taken
    /// apart has to be part of a single other one.
    pub(super) fn allow(&self, (own, account): (&str, &str), namespace: &str, rule: &PolicyRule) -> bool {
        let names = [
            format!("user {}", user(own, account)),
            ALL_ACCOUNTS.to_owned(),
            format!("{ACCOUNTS_OF}{own}"),
            ALL_USERS.to_owned(),
        ];
        let places: BTreeSet<&str> = BTreeSet::from(["", namespace]);
        let given = names.iter().filter_map(|name| self.given.get(name));
        let given = given.flat_map(|given| places.iter().filter_map(|place| given.get(*place)));
        let given: Vec<&PolicyRule> =
            given.flatten().flat_map(|rules| rules.iter()).filter(|given| meets(given, rule)).collect();
        if count(rule) > MAX_SINGLE {
            return given.iter().any(|given| contains(given, rule));
        }
        single(rule).iter().all(|wanted| given.iter().any(|rule| covers(rule, wanted)))
    }
}

fn user(namespace: &str, account: &str) -> String {
    format!("system:serviceaccount:{namespace}:{account}")
}

/// `namespace`: of the binding, which is that of an account that names none.
fn subject_name(subject: &Subject, namespace: &str) -> Option<String> {
    match subject.kind.as_str() {
        "ServiceAccount" => {
            let own = subject.namespace.as_deref().filter(|own| !own.is_empty()).unwrap_or(namespace);
            Some(format!("user {}", user(own, &subject.name)))
        }
        "User" => Some(format!("user {}", subject.name)),
        "Group" => Some(format!("group {}", subject.name)),
        _ => None,
    }
}

/// What the wanted rules allow and those of today do not, such as `get, list configmaps`.
pub(crate) fn lacking(today: &[PolicyRule], wanted: &[PolicyRule]) -> Vec<String> {
    let mut verbs: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let (large, wanted): (Vec<_>, Vec<_>) = wanted.iter().partition(|rule| count(rule) > MAX_SINGLE);
    let large = large.into_iter().filter(|wanted| !today.iter().any(|rule| contains(rule, wanted)));
    let large = large.map(|rule| format!("{} single things that one rule allows, too many to compare", count(rule)));
    for wanted in wanted.into_iter().flat_map(single).filter(|wanted| !today.iter().any(|rule| covers(rule, wanted))) {
        let (verb, object) = match wanted {
            Wanted::Url { verb, url } => (verb, url.to_owned()),
            Wanted::Resource { verb, group, resource, name } => {
                let of = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
                (verb, name.map_or_else(|| of.clone(), |name| format!("{of} {name:?}")))
            }
        };
        verbs.entry(object).or_default().insert(verb);
    }
    let told = |(object, verbs): (String, BTreeSet<&str>)| {
        format!("{} {object}", verbs.into_iter().collect::<Vec<_>>().join(", "))
    };
    verbs.into_iter().map(told).chain(large).collect()
}

/// One thing that a rule allows.
enum Wanted<'a> {
    Resource { verb: &'a str, group: &'a str, resource: &'a str, name: Option<&'a str> },
    Url { verb: &'a str, url: &'a str },
}

fn list(list: Option<&Vec<String>>) -> &[String] {
    list.map(Vec::as_slice).unwrap_or_default()
}

fn single(rule: &PolicyRule) -> Vec<Wanted<'_>> {
    let names: Vec<Option<&str>> = match list(rule.resource_names.as_ref()) {
        [] => vec![None],
        names => names.iter().map(|name| Some(name.as_str())).collect(),
    };
    let mut wanted = Vec::new();
    for verb in &rule.verbs {
        wanted.extend(list(rule.non_resource_urls.as_ref()).iter().map(|url| Wanted::Url { verb, url }));
        for group in list(rule.api_groups.as_ref()) {
            for resource in list(rule.resources.as_ref()) {
                wanted.extend(names.iter().map(|name| Wanted::Resource { verb, group, resource, name: *name }));
            }
        }
    }
    wanted
}

/// What of a rule others do not allow: verbs, by what they are about.
pub(crate) fn beyond(rule: &PolicyRule, given: &[&PolicyRule]) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for wanted in single(rule).iter().filter(|wanted| !given.iter().any(|rule| covers(rule, wanted))) {
        let (verb, what) = match wanted {
            Wanted::Url { verb, url } => (*verb, (*url).to_owned()),
            Wanted::Resource { verb, group, resource, name } => {
                let kind = if group.is_empty() { (*resource).to_owned() } else { format!("{resource}.{group}") };
                (*verb, name.map_or(kind.clone(), |name| format!("{kind} {name:?}")))
            }
        };
        found.entry(what).or_default().insert(verb.to_owned());
    }
    found
}

/// How many single things a rule allows.
pub(crate) fn count(rule: &PolicyRule) -> usize {
    let length = |all: &Option<Vec<String>>| list(all.as_ref()).len();
    let names = length(&rule.resource_names).max(1);
    let resources = length(&rule.api_groups).saturating_mul(length(&rule.resources)).saturating_mul(names);
    rule.verbs.len().saturating_mul(length(&rule.non_resource_urls).saturating_add(resources))
}

/// Whether a rule alone allows all that another one does.
fn contains(rule: &PolicyRule, wanted: &PolicyRule) -> bool {
    let (groups, resources) = (list(wanted.api_groups.as_ref()), list(wanted.resources.as_ref()));
    let (verb, group, resource) = (first(&wanted.verbs), first(groups), first(resources));
    let names = list(wanted.resource_names.as_ref());
    let name = names.first().map(String::as_str);
    let of = |verb, group, resource, name| covers(rule, &Wanted::Resource { verb, group, resource, name });
    let is_of_resources = !groups.is_empty() && !resources.is_empty();
    // What a rule allows is a product of lists, so that each list can be looked at alone.
    let has_resources = !is_of_resources
        || wanted.verbs.iter().all(|verb| of(verb, group, resource, name))
            && groups.iter().all(|group| of(verb, group, resource, name))
            && resources.iter().all(|resource| of(verb, group, resource, name))
            && names.iter().all(|name| of(verb, group, resource, Some(name)));
    let urls = list(wanted.non_resource_urls.as_ref());
    let has = |verb, url| covers(rule, &Wanted::Url { verb, url });
    let has_urls = urls.iter().all(|url| has(verb, url))
        && (urls.is_empty() || wanted.verbs.iter().all(|verb| has(verb, first(urls))));
    has_resources && has_urls
}

/// Whether one may allow anything of the other: both are about the same API group, or about paths.
fn meets(given: &PolicyRule, wanted: &PolicyRule) -> bool {
    let (groups, urls) = (list(given.api_groups.as_ref()), |rule: &PolicyRule| rule.non_resource_urls.is_some());
    let all = groups.iter().any(|group| group == "*");
    all || list(wanted.api_groups.as_ref()).iter().any(|group| groups.contains(group)) || urls(given) && urls(wanted)
}

fn first(list: &[String]) -> &str {
    list.first().map_or("", String::as_str)
}

fn covers(rule: &PolicyRule, wanted: &Wanted<'_>) -> bool {
    let has = |list: &[String], text: &str| list.iter().any(|it| it == "*" || it == text);
    match wanted {
        Wanted::Resource { verb, group, resource, name } => {
            let resources = list(rule.resources.as_ref());
            let part = resource.split_once('/').map(|(_, part)| part);
            let below = || part.is_some() && resources.iter().any(|it| it.strip_prefix("*/") == part);
            let names = list(rule.resource_names.as_ref());
            has(&rule.verbs, verb)
                && has(list(rule.api_groups.as_ref()), group)
                && (has(resources, resource) || below())
                && (names.is_empty() || name.is_some_and(|name| names.iter().any(|it| it == name)))
        }
        Wanted::Url { verb, url } => {
            let below = |it: &String| it.strip_suffix('*').is_some_and(|prefix| url.starts_with(prefix));
            let urls = list(rule.non_resource_urls.as_ref());
            has(&rule.verbs, verb) && (has(urls, url) || urls.iter().any(below))
        }
    }
}
