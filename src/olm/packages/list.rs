//! Which packages a namespace sees, in which order, and page by page.

use super::metadata::Labelled;
use super::query::{Query, Token};
use super::view::Catalog;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A package of a catalog as far as lists need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub catalog: Arc<Catalog>,
    pub package: Arc<Labelled>,
}

impl Listed {
    pub(crate) fn name(&self) -> &str {
        &self.package.name
    }

    pub(super) fn labels(&self) -> BTreeMap<String, String> {
        self.package.labels(&self.catalog)
    }

    /// Where it stands in lists. It depends on nothing but names, so that a list can be continued at another replica and after a
    /// catalog changed.
    fn key(&self) -> (&str, &str, &str) {
        (self.name(), &self.catalog.namespace, &self.catalog.name)
    }
}

/// The packages of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Page<'a> {
    pub items: Vec<&'a Listed>,
    pub metadata: ListMetadata,
}

/// Says how a list goes on.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ListMetadata {
    #[serde(rename = "continue", skip_serializing_if = "String::is_empty")]
    pub token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remaining_item_count: Option<usize>,
}

/// The packages that a namespace sees: those of its own catalogs and of the global ones. An empty namespace sees all.
fn visible<'a>(
    all: impl IntoIterator<Item = &'a Listed>,
    namespace: &str,
    global: &str,
) -> impl Iterator<Item = &'a Listed> {
    let sees = move |it: &&Listed| namespace.is_empty() || [namespace, global].contains(&it.catalog.namespace.as_str());
    all.into_iter().filter(sees)
}

/// The packages that a request asks for, by name, then namespace and name of the catalog. Without a limit, all that are left.
pub(crate) fn page<'a>(
    all: impl IntoIterator<Item = &'a Listed>,
    namespace: &str,
    global: &str,
    query: &Query,
) -> Page<'a> {
    let after = query.after.as_ref().map(Token::key);
    let mut items: Vec<&Listed> = visible(all, namespace, global)
        .filter(|it| query.selects(it.name(), || it.labels()) && after.is_none_or(|after| it.key() > after))
        .collect();
    items.sort_by_key(|it| it.key());
    let mut metadata = ListMetadata::default();
    if let Some(limit) = query.limit.filter(|limit| *limit < items.len()) {
        metadata.remaining_item_count = Some(items.len() - limit);
        items.truncate(limit);
        metadata.token = items.last().map(|last| Token::at(last.key()).encode()).unwrap_or_default();
    }
    Page { items, metadata }
}

/// The one package of a name that a namespace gets: that of its own catalogs, then of the highest priority, then of the first
/// catalog by name. With it those of this name that it is not.
pub(crate) fn pick<'a>(
    all: impl IntoIterator<Item = &'a Listed>,
    namespace: &str,
    global: &str,
    name: &str,
) -> Option<(&'a Listed, Vec<&'a Listed>)> {
    let mut found: Vec<&Listed> = visible(all, namespace, global).filter(|it| it.name() == name).collect();
    found.sort_by_key(|it| {
        let Catalog { namespace: own, name, priority, .. } = &*it.catalog;
        (own != namespace, Reverse(*priority), name, own)
    });
    let (first, others) = found.split_first()?;
    Some((first, others.to_vec()))
}
