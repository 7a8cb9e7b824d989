//! What is to be installed in a namespace, by functions of plain types: for measuring.

use crate::olm::catalog::index::{Channel, Entry, Package};
use crate::olm::net::store::content;
use crate::olm::resolve::answer::{Outcome, Part};
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use crate::olm::subscription::Visible;
use crate::olm::subscription::forecast::Hypothesis;
use crate::olm::subscription::plan::Group;
use std::path::Path;
use std::sync::Arc;

/// Its name, which is that of the catalogs' namespace as well.
const NAMESPACE: &str = "shop";

/// A namespace in which nothing is installed.
#[derive(Debug)]
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
        let visible = self.hypothesis.catalogs.get(&(NAMESPACE.to_owned(), catalog.to_owned()));
        let Some(content) = visible.and_then(|visible| visible.content.as_ref()) else { return Vec::new() };
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
        let round = self.hypothesis.round(&self.cluster, &Limits::default());
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
