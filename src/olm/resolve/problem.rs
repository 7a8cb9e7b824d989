//! A world as variables and constraints: what the Subscriptions ask for, what that depends on, and what cannot be together. Each
//! constraint has the text by which administrators know it.

use super::candidates::{Candidate, bundle_identifier, meeting, offered, preference};
use super::constraint::{Api, Constraint as Requirement};
use super::operator::Operator;
use super::world::{Catalog, Subscription, World};
use crate::olm::names::MAX_NAME;
use crate::olm::solve::{Constraint, Limits};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Problem {
    pub variables: Vec<Variable>,
}

#[derive(Debug)]
pub(crate) struct Variable {
    pub identifier: String,
    pub what: What,
    /// With their texts.
    pub constraints: Vec<(Constraint, String)>,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// By its place in the world.
    Subscription(usize),
    Installed(Arc<Operator>),
    Candidate(Candidate),
    /// An API of which there can be one provider.
    Api(Api),
    /// A package of which there can be one operator.
    Package(String),
    /// A ClusterServiceVersion, of which there can be one by its name, and the packages that have one.
    Name(String, BTreeSet<String>),
}

/// Catalog, package, channel and name.
type Key = (usize, String, String, String);

struct Builder<'a> {
    world: &'a World,
    limits: &'a Limits,
    /// How often a rule has to be asked of a bundle, so far.
    questions: u64,
    problem: Problem,
    candidates: BTreeMap<Key, usize>,
    /// Variables of installed operators by name.
    installed: BTreeMap<String, usize>,
    /// Variables whose requirements are still to be added.
    new: VecDeque<usize>,
    /// What meets a demand, for bundles of a catalog: all versions of an operator require much the same.
    met: BTreeMap<(Option<usize>, String), Vec<usize>>,
}

impl Problem {
    pub(crate) fn of(world: &World, limits: &Limits) -> Self {
        let mut builder = Builder {
            world,
            limits,
            questions: 0,
            problem: Problem::default(),
            candidates: BTreeMap::new(),
            installed: BTreeMap::new(),
            new: VecDeque::new(),
            met: BTreeMap::new(),
        };
        // The order of those that must be true is the order of choices.
        let mut subscriptions: Vec<usize> = (0..world.subscriptions.len()).collect();
        subscriptions.sort_by_key(|at| world.subscriptions.get(*at).map(|it| &it.name));
        let mut variables = Vec::new();
        for at in subscriptions {
            let name = world.subscriptions.get(at).map(|it| it.name.as_str()).unwrap_or_default();
            let variable = builder.add(format!("subscription:{name}"), What::Subscription(at));
            builder.constrain(variable, Constraint::Mandatory, format!("subscription {name} exists"));
            variables.push((variable, at));
        }
        builder.add_installed();
        for (variable, at) in variables {
            if let Some(subscription) = world.subscriptions.get(at) {
                builder.add_choice(variable, subscription);
            }
        }
        while let Some(variable) = builder.new.pop_front() {
            builder.add_requirements(variable);
        }
        builder.add_unique();
        builder.problem
    }

    /// For the solver.
    pub(crate) fn constraints(&self) -> crate::olm::solve::Problem {
        let of = |variable: &Variable| variable.constraints.iter().map(|(constraint, _)| constraint.clone()).collect();
        self.variables.iter().map(of).collect()
    }
}

impl Variable {
    pub(crate) fn operator(&self) -> Option<&Arc<Operator>> {
        match &self.what {
            What::Installed(operator) => Some(operator),
            What::Candidate(candidate) => Some(&candidate.entry.operator),
            _ => None,
        }
    }
}

impl Builder<'_> {
    fn add(&mut self, identifier: String, what: What) -> usize {
        self.problem.variables.push(Variable { identifier, what, constraints: Vec::new() });
        self.problem.variables.len() - 1
    }

    fn constrain(&mut self, variable: usize, constraint: Constraint, text: String) {
        if let Some(variable) = self.problem.variables.get_mut(variable) {
            variable.constraints.push((constraint, text));
        }
    }

    fn identifier(&self, variable: usize) -> &str {
        self.problem.variables.get(variable).map(|it| it.identifier.as_str()).unwrap_or_default()
    }

    /// `a`, `a or b`, `a, b or c`.
    fn listed(&self, variables: &[usize], last: &str) -> String {
        let names: Vec<&str> = variables.iter().map(|it| self.identifier(*it)).collect();
        match names.as_slice() {
            [] => String::new(),
            [only] => (*only).to_owned(),
            [first @ .., end] => format!("{} {last} {end}", first.join(", ")),
        }
    }

    fn add_installed(&mut self) {
        let referenced: BTreeSet<&str> = self.world.subscriptions.iter().map(|it| it.installed_csv.as_str()).collect();
        let mut installed: Vec<&Arc<Operator>> = self.world.installed.iter().collect();
        installed.sort_by_key(|operator| &operator.name);
        for operator in installed {
            let name = &operator.name;
            let identifier = format!("@existing/{}//{name}", self.world.namespace);
            let variable = self.add(identifier.clone(), What::Installed(operator.clone()));
            self.installed.insert(name.clone(), variable);
            if !referenced.contains(name.as_str()) {
                let text = format!("clusterserviceversion {name} exists and is not referenced by a subscription");
                self.constrain(variable, Constraint::Mandatory, text);
            }
            if operator.deprecated {
                self.constrain(variable, Constraint::Prohibited, format!("bundle {identifier} is deprecated"));
            }
            self.new.push_back(variable);
        }
    }

    fn candidate(&mut self, candidate: Candidate) -> usize {
        let Candidate { catalog, package, channel, entry } = &candidate;
        let key = (*catalog, package.name.clone(), channel.clone(), entry.operator.name.clone());
        if let Some(known) = self.candidates.get(&key) {
            return *known;
        }
        let operator = entry.operator.clone();
        let of = self.world.catalogs.get(*catalog);
        let (name, namespace) = of.map(|it| (it.name.as_str(), it.namespace.as_str())).unwrap_or_default();
        let identifier = bundle_identifier((namespace, name), channel, &operator.name);
        let variable = self.add(identifier.clone(), What::Candidate(candidate));
        if operator.deprecated {
            self.constrain(variable, Constraint::Prohibited, format!("bundle {identifier} is deprecated"));
        }
        if let Some(cause) = &operator.unreadable {
            self.constrain(
                variable,
                Constraint::Prohibited,
                format!("bundle {identifier} cannot be installed: {cause}"),
            );
        }
        if operator.name.len() > MAX_NAME {
            let text = format!(
                "bundle {identifier} cannot be installed: its name has {} characters, and names of objects have at most {MAX_NAME}",
                operator.name.len()
            );
            self.constrain(variable, Constraint::Prohibited, text);
        }
        self.candidates.insert(key, variable);
        self.new.push_back(variable);
        variable
    }

    /// What a Subscription can be met by.
    fn add_choice(&mut self, variable: usize, subscription: &Subscription) {
        let name = &subscription.name;
        let current = self.installed.get(&subscription.installed_csv).copied();
        let installed = self.world.installed.iter().find(|it| it.name == subscription.installed_csv);
        let found = match offered(self.world, subscription, installed.map(|it| &**it)) {
            _ if subscription.waits && installed.is_some() => Vec::new(),
            Ok(found) => found,
            Err(text) => {
                self.constrain(variable, Constraint::Prohibited, text);
                return self.keep(current, subscription);
            }
        };
        let mut choice = Vec::new();
        for mut candidate in found {
            if let Some(operator) = installed {
                candidate.entry.replaces = Some(operator.name.clone());
            }
            let chosen = self.candidate(candidate);
            if let Some(current) = current {
                let text = format!("{} conflicts with {}", self.identifier(chosen), self.identifier(current));
                self.constrain(chosen, Constraint::Conflict(current), text);
            }
            choice.push(chosen);
        }
        choice.extend(current);
        let text = match choice.as_slice() {
            [] => format!("no operators found matching the criteria of subscription {name}"),
            [only] => format!("subscription {name} requires {}", self.identifier(*only)),
            several => format!("subscription {name} requires at least one of {}", self.listed(several, "or")),
        };
        self.constrain(variable, Constraint::Dependency(choice), text);
    }

    /// What is installed for a Subscription of which nothing can be said stays as it is: others may depend on it, and nothing takes
    /// its place. Where another Subscription has it installed as well, that one says what becomes of it.
    fn keep(&mut self, installed: Option<usize>, subscription: &Subscription) {
        let Subscription { name, installed_csv, .. } = subscription;
        let is_alone = self.world.subscriptions.iter().filter(|it| it.installed_csv == *installed_csv).count() == 1;
        if let Some(installed) = installed.filter(|_| is_alone) {
            let text = format!("clusterserviceversion {installed_csv} exists and subscription {name} cannot update it");
            self.constrain(installed, Constraint::Mandatory, text);
        }
    }

    fn add_requirements(&mut self, variable: usize) {
        let Some(operator) = self.problem.variables.get(variable).and_then(Variable::operator).cloned() else { return };
        let own = match self.problem.variables.get(variable).map(|it| &it.what) {
            Some(What::Candidate(candidate)) => Some(candidate.catalog),
            _ => None,
        };
        let key = |requirement: &Requirement| (own, format!("{:?}", requirement.demand));
        let keyed: Vec<_> = operator.requires.iter().map(|requirement| (key(requirement), requirement)).collect();
        let new: Vec<&Requirement> =
            keyed.iter().filter(|(key, _)| !self.met.contains_key(key)).map(|(_, requirement)| *requirement).collect();
        if !self.ask(&new) {
            let text = format!(
                "bundle {} cannot be judged: its rules would have to be asked of more bundles than there is time for ({} answers)",
                operator.name, self.limits.questions
            );
            return self.constrain(variable, Constraint::Prohibited, text);
        }
        for (key, requirement) in keyed {
            let choice = match self.met.get(&key) {
                Some(choice) => choice.clone(),
                None => {
                    let choice = self.providers(own, requirement);
                    self.met.insert(key, choice.clone());
                    choice
                }
            };
            let text = format!("bundle {} requires an operator {requirement}", operator.name);
            self.constrain(variable, Constraint::Dependency(choice), text);
        }
    }

    /// Asks all catalogs for what any bundle may meet, unless it is too much.
    fn ask(&mut self, requirements: &[&Requirement]) -> bool {
        let of = |catalog: &Catalog, it: &Requirement| (catalog.to_ask(it) * it.rules().max(1)) as u64;
        let catalogs = &self.world.catalogs;
        let more: u64 = catalogs.iter().flat_map(|catalog| requirements.iter().map(move |it| of(catalog, it))).sum();
        if self.questions + more > self.limits.questions {
            return false;
        }
        self.questions += more;
        catalogs.iter().for_each(|catalog| catalog.ask(requirements, &self.limits.cancelled));
        true
    }

    /// What meets a requirement, in the order of preference: what is installed, and then by catalog, channel, package and place in
    /// its channel. `own`: the catalog of who requires it.
    fn providers(&mut self, own: Option<usize>, requirement: &Requirement) -> Vec<usize> {
        let meets = |variable: &&usize| {
            let operator = self.problem.variables.get(**variable).and_then(Variable::operator);
            operator.is_some_and(|operator| operator.meets(requirement))
        };
        let mut found: Vec<usize> = self.installed.values().filter(meets).copied().collect();
        let mut catalogs: Vec<usize> = (0..self.world.catalogs.len()).collect();
        catalogs.sort_by_key(|at| preference(self.world, *at, own));
        for catalog in catalogs {
            let Some(offers) = self.world.catalogs.get(catalog) else { continue };
            for candidate in meeting(catalog, offers, requirement) {
                found.push(self.candidate(candidate));
            }
        }
        found
    }

    /// There can be one provider of an API, and one operator of a package.
    fn add_unique(&mut self) {
        let mut providers: BTreeMap<Api, Vec<usize>> = BTreeMap::new();
        let mut packages: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (at, variable) in self.problem.variables.iter().enumerate() {
            let Some(operator) = variable.operator() else { continue };
            for api in &operator.provides {
                providers.entry(api.clone()).or_default().push(at);
            }
            let package = match &variable.what {
                What::Candidate(candidate) if operator.package.is_empty() => &candidate.package.name,
                _ => &operator.package,
            };
            if !package.is_empty() {
                packages.entry(package.clone()).or_default().push(at);
            }
        }
        for (api, providers) in providers.into_iter().filter(|(_, all)| all.len() > 1) {
            let text = format!("{} provide {api}", self.listed(&providers, "and"));
            let unique = format!("there can be only one provider of {api}");
            self.at_most_one(api.to_string(), What::Api(api), (providers, text), unique);
        }
        for (package, operators) in packages.into_iter().filter(|(_, all)| all.len() > 1) {
            let text = format!("{} originate from package {package}", self.listed(&operators, "and"));
            let unique = format!("there can be only one operator from package {package}");
            self.at_most_one(package.clone(), What::Package(package), (operators, text), unique);
        }
        self.add_unique_names();
    }

    /// There can be one ClusterServiceVersion of a name, whichever package it is of.
    fn add_unique_names(&mut self) {
        let mut names: BTreeMap<&str, (BTreeSet<&str>, Vec<usize>)> = BTreeMap::new();
        for (at, variable) in self.problem.variables.iter().enumerate() {
            let (name, package) = match &variable.what {
                What::Candidate(Candidate { package, entry, .. }) => (&entry.operator.name, &package.name),
                What::Installed(operator) if !operator.package.is_empty() => (&operator.name, &operator.package),
                _ => continue,
            };
            let (packages, variables) = names.entry(name.as_str()).or_default();
            packages.insert(package);
            variables.push(at);
        }
        let several = names.into_iter().filter(|(_, (packages, _))| packages.len() > 1);
        let several: Vec<(String, BTreeSet<String>, Vec<usize>)> = several
            .map(|(name, (packages, all))| {
                (name.to_owned(), packages.into_iter().map(ToOwned::to_owned).collect(), all)
            })
            .collect();
        for (name, packages, all) in several {
            let listed = packages.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
            let text = format!("packages {listed} each have a bundle {name}");
            let unique = format!("there can be only one clusterserviceversion {name}");
            self.at_most_one(name.clone(), What::Name(name, packages), (all, text), unique);
        }
    }

    fn at_most_one(&mut self, identifier: String, what: What, (all, text): (Vec<usize>, String), unique: String) {
        let variable = self.add(identifier, what);
        self.constrain(variable, Constraint::Mandatory, unique);
        self.constrain(variable, Constraint::AtMost(1, all), text);
    }
}
