//! What is to be installed in a namespace, by functions of plain types: for measuring.

use crate::olm::catalog::index::{Channel, Entry, Package};
use crate::olm::catalog::served::Content;
use crate::olm::net::store::content;
use crate::olm::resolve::answer::{Outcome, Part};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use crate::olm::subscription::Visible;
use crate::olm::subscription::forecast::{GAVE_UP, Hypothesis, Round, Rounds};
use crate::olm::subscription::plan::Group;
use crate::olm::subscription::why_not::WhyNot;
use std::path::Path;
use std::sync::Arc;

/// Its name, which is that of the catalogs' namespace as well.
const NAMESPACE: &str = "shop";

/// A namespace in which nothing is installed.
#[derive(Clone, Debug)]
pub struct Namespace {
    hypothesis: Hypothesis,
    cluster: ClusterVersions,
}

/// What is to be installed, or why that is not known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// Names of ClusterServiceVersions.
    pub installs: Vec<String>,
    /// Explanations of parts without an answer.
    pub failures: Vec<String>,
    /// Parts for which too much would have to be tried.
    pub gave_up: usize,
    /// Why nothing was looked for.
    pub held: Option<String>,
}

impl Default for Namespace {
    fn default() -> Self {
        Namespace {
            hypothesis: Hypothesis {
                namespace: NAMESPACE.to_owned(),
                groups: vec![Arc::new(Group::default())],
                ..Hypothesis::default()
            },
            cluster: ClusterVersions { kubernetes: "1.34.0".to_owned(), release: "1.0.0".to_owned() },
        }
    }
}

impl Namespace {
    /// Reads the catalog in a folder; its data is kept in another one, which is empty.
    pub fn offer(&mut self, name: &str, folder: &Path, data: &Path) -> Result<(), String> {
        let stored = content(folder, Some(data)).map_err(|error| error.to_string())?;
        let visible = Visible { health: Some(Ok(())), content: Some(stored.content), ..Visible::default() };
        self.hypothesis.catalogs.insert((NAMESPACE.to_owned(), name.to_owned()), visible);
        Ok(())
    }

    /// Packages of a catalog, in the order of their names, each with whether the head of its default channel depends on something.
    pub fn packages(&self, catalog: &str) -> Vec<(String, bool)> {
        let Some(content) = self.content(catalog) else { return Vec::new() };
        let package = |package: Package<'_>| {
            let head = package.default_channel().and_then(Channel::head).and_then(Entry::bundle);
            let depends = head.is_some_and(|bundle| bundle.properties().any(|it| it.kind().ends_with(".required")));
            (package.name().to_owned(), depends)
        };
        content.index.packages().map(package).collect()
    }

    /// Subscribes to a package. `channel`: empty for any.
    pub fn subscribe(&mut self, catalog: &str, package: &str, channel: &str) {
        self.hypothesis.subscribe(&(NAMESPACE.to_owned(), catalog.to_owned()), package, channel);
    }

    pub fn answer(&self) -> Verdict {
        self.hypothesis.round(&self.cluster, &Limits::default()).into()
    }

    pub(super) fn content(&self, catalog: &str) -> Option<&Content> {
        self.hypothesis.catalogs.get(&(NAMESPACE.to_owned(), catalog.to_owned()))?.content.as_deref()
    }

    /// Subscribes to a channel beginning with a version; what follows as if each answer were carried out.
    pub(super) fn following(mut self, catalog: &str, package: &str, channel: &str, starting_csv: &str) -> Following {
        self.hypothesis.subscribe_from(&(NAMESPACE.to_owned(), catalog.to_owned()), package, channel, starting_csv);
        Following { rounds: Rounds::of(self.hypothesis, usize::MAX), cluster: self.cluster }
    }
}

/// Answers that follow each other.
pub(super) struct Following {
    rounds: Rounds,
    cluster: ClusterVersions,
}

impl Iterator for Following {
    type Item = Verdict;

    fn next(&mut self) -> Option<Verdict> {
        self.rounds.next(&self.cluster, &Limits::default()).map(Verdict::from)
    }
}

impl Following {
    /// Why the Subscription to a package does not get this version once all answers are carried out; empty if it does.
    pub(super) fn why_not(&self, package: &str, csv: &str) -> String {
        let found = self.rounds.now.why_not(package, csv, &self.cluster, &Limits::default());
        let Some(WhyNot { is_coming: false, lines, ways }) = found else { return String::new() };
        lines.iter().chain(&ways).map(|line| format!("{line}\n")).collect()
    }
}

impl Verdict {
    /// Why there is no answer; empty if there is one.
    pub(super) fn why(&self) -> String {
        let gave_up = (self.gave_up > 0).then(|| GAVE_UP.to_owned());
        self.held.iter().chain(&self.failures).cloned().chain(gave_up).collect::<Vec<_>>().join("\n")
    }
}

impl From<Round> for Verdict {
    fn from(round: Round) -> Self {
        let installs = round.installs().iter().map(|new| new.name.clone()).collect();
        let mut verdict = Verdict { installs, held: round.held, ..Verdict::default() };
        for Part { outcome, .. } in round.answer.parts {
            match outcome {
                Outcome::Install(_) => {}
                Outcome::Impossible(failure) => verdict.failures.push(failure.explanation),
                Outcome::GaveUp => verdict.gave_up += 1,
            }
        }
        verdict
    }
}
