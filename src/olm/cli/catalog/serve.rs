//! `cvo catalog serve`: one catalog by gRPC, with the server of the controller of operators.

use crate::cli::exit::Exit;
use crate::cli::release::ImageSource;
use crate::olm::catalog::served::{Catalog, Served};
use crate::olm::cli::input;
use crate::olm::net::store::{self, Stored};
use crate::olm::serve::registry::{Limits, Server};
use anyhow::{Context, ensure};
use clap::Args;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Serve a catalog by gRPC
///
/// Answers what clients of catalogs ask (the service api.Registry), health checks and reflection. Packages with faults are not served,
/// and the log tells of them. The catalog is read once: start it anew when the files have changed.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Folder or image of the catalog
    #[arg(value_name = "DIR|IMAGE")]
    pub catalog: String,
    /// Address to serve at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:50051")]
    pub listen: SocketAddr,
    /// Folder below which the data of the catalog are until the end [default: that for temporary files; without any they are in memory]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
    #[command(flatten)]
    pub source: ImageSource,
}

pub(super) async fn run(args: &ServeArgs, stop: CancellationToken) -> anyhow::Result<Exit> {
    let given = input::catalog(&args.catalog, &args.source).await?;
    let (stored, _cache) = read(&given.folder, args.cache_dir.as_deref())?;
    drop(given);
    let Stored { content, found } = stored;
    for fault in &found.faults {
        tracing::warn!(%fault, "a package cannot be served");
    }
    ensure!(found.packages > 0, super::no_catalog(&args.catalog, "no package that can be served"));
    let server = Server::bind(args.listen, Limits::default()).await?;
    tracing::info!(address = %args.listen, packages = found.packages, sick = found.sick_count, "serving the catalog");
    server.run_one(Served { about: Arc::new(Catalog::default()), content }, stop).await;
    Ok(Exit::Success)
}

/// The catalog, and the folder with its data, if there is one.
fn read(catalog: &Path, cache: Option<&Path>) -> anyhow::Result<(Stored, Option<TempDir>)> {
    let folder = match cache {
        Some(dir) => std::fs::create_dir_all(dir).and_then(|()| TempDir::new_in(dir)).map(Some).with_context(|| {
            format!("cannot write {}: name a folder that can be written with --cache-dir", dir.display())
        })?,
        // A container may have no folder that can be written.
        None => TempDir::new().ok(),
    };
    let stored = store::content(catalog, folder.as_ref().map(TempDir::path))?;
    Ok((stored, folder))
}

#[cfg(test)]
mod tests {
    use super::super::tests::catalog;
    use super::*;
    use crate::cli::release::RegistryArgs;

    fn arguments(dir: &Path) -> ServeArgs {
        let source = ImageSource { architecture: "amd64".to_owned(), registry: RegistryArgs::default() };
        let (catalog, listen) = (dir.to_str().unwrap().to_owned(), "127.0.0.1:0".parse().unwrap());
        ServeArgs { catalog, listen, cache_dir: None, source }
    }

    #[test]
    fn data_are_in_a_folder_that_is_removed_or_in_memory() {
        let (dir, cache) = (catalog(), tempfile::tempdir().unwrap());
        let (stored, folder) = read(dir.path(), Some(&cache.path().join("new"))).unwrap();
        assert_eq!((stored.found.packages, stored.found.sick_count), (1, 1));
        let kept = folder.as_ref().unwrap().path().to_owned();
        assert!(kept.join("data").is_file());
        drop(folder);
        assert!(!kept.exists());
        let in_memory = store::content(dir.path(), None).unwrap();
        let names =
            |stored: &Stored| stored.content.index.packages().map(|it| it.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&in_memory), names(&stored));
        let none = read(dir.path(), Some(&dir.path().join("all.json"))).unwrap_err().to_string();
        assert!(none.contains("--cache-dir"), "{none}");
    }

    #[tokio::test]
    async fn server_ends_when_it_is_told_to_and_a_folder_without_packages_is_refused() {
        let (dir, stop) = (catalog(), CancellationToken::new());
        stop.cancel();
        assert_eq!(run(&arguments(dir.path()), stop).await.unwrap(), Exit::Success);
        let empty = tempfile::tempdir().unwrap();
        let error = run(&arguments(empty.path()), CancellationToken::new()).await.unwrap_err().to_string();
        assert!(error.contains("is no catalog: it has no package that can be served"), "{error}");
    }
}
