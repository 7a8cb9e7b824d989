//! One state of all catalogs, with what lists need to know of each package. That is read once for each content of a catalog.

use crate::olm::catalog::index::Package;
use crate::olm::catalog::served::{Catalogs, Content, Served};
use crate::olm::packages::from_catalog::{Labels, Part, Read};
use crate::olm::packages::icon::Icon;
use crate::olm::packages::list::Listed;
use crate::olm::packages::manifest::PackageManifest;
use crate::olm::packages::view::Catalog;
use std::io::{self, Write};
use std::sync::Arc;
use tokio::sync::watch;

/// It does not change any more.
#[derive(Debug, Default)]
pub(super) struct State {
    catalogs: Arc<Catalogs>,
    labels: Vec<(Arc<Content>, Arc<Labels>)>,
    /// All packages of all catalogs.
    pub listed: Vec<Listed>,
}

/// Makes a state of the catalogs whenever they change. Never ends.
pub(super) async fn follow(mut catalogs: watch::Receiver<Arc<Catalogs>>, told: watch::Sender<Option<Arc<State>>>) {
    loop {
        let now = catalogs.borrow_and_update().clone();
        let before = told.borrow().clone().unwrap_or_default();
        match tokio::task::spawn_blocking(move || State::of(now, &before)).await {
            Ok(state) => {
                told.send_replace(Some(Arc::new(state)));
            }
            Err(error) => tracing::error!(%error, "the packages of the catalogs cannot be listed; the last ones stay"),
        }
        if catalogs.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl State {
    /// Reads what was not read for the state before.
    fn of(catalogs: Arc<Catalogs>, before: &State) -> Self {
        let mut labels: Vec<(Arc<Content>, Arc<Labels>)> = Vec::new();
        let mut listed = Vec::new();
        for Served { about, content } in catalogs.values() {
            let known = labels.iter().chain(&before.labels).find(|(known, _)| Arc::ptr_eq(known, content));
            let of_content = match known {
                Some((_, labels)) => labels.clone(),
                None => {
                    let read = Labels::of(content);
                    if read.hidden > 0 {
                        let (catalog, causes) = (place(about), read.causes.join("; "));
                        tracing::warn!(catalog, packages = read.hidden, causes, "packages that cannot be shown");
                    }
                    Arc::new(read)
                }
            };
            let packages = of_content.packages.iter();
            listed.extend(packages.map(|package| Listed { catalog: about.clone(), package: package.clone() }));
            if !labels.iter().any(|(known, _)| Arc::ptr_eq(known, content)) {
                labels.push((content.clone(), of_content));
            }
        }
        State { catalogs, labels, listed }
    }

    /// Whether it was made of these.
    pub(super) fn is_of(&self, catalogs: &Arc<Catalogs>) -> bool {
        Arc::ptr_eq(&self.catalogs, catalogs)
    }

    /// Writes a package as JSON.
    pub(super) fn write(
        &self,
        listed: &Listed,
        namespace: &str,
        others: &[&Catalog],
        out: &mut impl Write,
    ) -> io::Result<()> {
        self.with(listed, Part::Channels, |manifest| manifest.write(namespace, others, out))?
    }

    pub(super) fn icon(&self, listed: &Listed) -> io::Result<Icon> {
        self.with(listed, Part::All, |manifest| Icon::of(&manifest))
    }

    fn with<T>(&self, listed: &Listed, part: Part, f: impl FnOnce(PackageManifest<'_>) -> T) -> io::Result<T> {
        let about = &listed.catalog;
        let refuse = |cause: String| {
            io::Error::other(format!("package {} of catalog {} cannot be read: {cause}", listed.name(), place(about)))
        };
        let served = self.catalogs.get(&(about.namespace.clone(), about.name.clone()));
        let content = served.map(|served| &*served.content).ok_or_else(|| refuse("the catalog is gone".to_owned()))?;
        let package: Option<Package<'_>> = content.index.package(listed.name());
        let package = package.ok_or_else(|| refuse("the catalog does not have it any more".to_owned()))?;
        let read = Read::of(content, package, part).map_err(|error| refuse(error.to_string()))?;
        let view = read.view();
        let manifest = PackageManifest::of(about, &view);
        manifest.map(f).map_err(|_| refuse("none of its channels can be shown any more".to_owned()))
    }
}

fn place(catalog: &Catalog) -> String {
    format!("{}/{}", catalog.namespace, catalog.name)
}

#[cfg(test)]
pub(crate) mod tests;
