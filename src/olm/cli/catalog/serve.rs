//! `cvo catalog serve`: one catalog by gRPC, with the server of the controller of operators.

use crate::cli::exit::Exit;
use crate::olm::catalog::served::{Catalog, Served};
use crate::olm::net::store::{self, Stored};
use crate::olm::serve::registry::{Limits, Server};
use anyhow::{Context, ensure};
use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Serve a catalog by gRPC
///
/// Answers what clients of catalogs ask (the service api.Registry), health checks and reflection. Packages with faults are not served,
/// and the log tells of them. The catalog is read once: start it anew when the files have changed.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// The folder of the catalog
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// Address to serve at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "0.0.0.0:50051")]
    pub listen: SocketAddr,
    /// Folder below which the data of the catalog are until the end [default: that for temporary files; without any they are in memory]
    #[arg(long, value_name = "DIR")]
    pub cache_dir: Option<PathBuf>,
}

pub(super) async fn run(args: &ServeArgs, stop: CancellationToken) -> anyhow::Result<Exit> {
    let (stored, _cache) = read(args)?;
    let Stored { content, found } = stored;
    for fault in &found.faults {
        tracing::warn!(%fault, "a package cannot be served");
    }
    ensure!(found.packages > 0, super::no_catalog(&args.dir.display().to_string(), "no package that can be served"));
    let server = Server::bind(args.listen, Limits::default()).await?;
    tracing::info!(address = %args.listen, packages = found.packages, sick = found.sick_count, "serving the catalog");
    server.run_one(Served { about: Arc::new(Catalog::default()), content }, stop).await;
    Ok(Exit::Success)
}

/// The catalog, and the folder with its data, if there is one.
fn read(args: &ServeArgs) -> anyhow::Result<(Stored, Option<TempDir>)> {
    let folder = match &args.cache_dir {
        Some(dir) => std::fs::create_dir_all(dir).and_then(|()| TempDir::new_in(dir)).map(Some).with_context(|| {
            format!("cannot write {}: name a folder that can be written with --cache-dir", dir.display())
        })?,
        // A container may have no folder that can be written.
        None => TempDir::new().ok(),
    };
    let stored = store::content(&args.dir, folder.as_ref().map(TempDir::path))?;
    Ok((stored, folder))
}

#[cfg(test)]
mod tests {
    use super::super::tests::catalog;
    use super::*;
    use std::path::Path;

    fn arguments(dir: &Path, cache: Option<&Path>) -> ServeArgs {
        ServeArgs { dir: dir.to_owned(), listen: "127.0.0.1:0".parse().unwrap(), cache_dir: cache.map(Path::to_owned) }
    }

    #[test]
    fn data_are_in_a_folder_that_is_removed_or_in_memory() {
        let (dir, cache) = (catalog(), tempfile::tempdir().unwrap());
        let (stored, folder) = read(&arguments(dir.path(), Some(&cache.path().join("new")))).unwrap();
        assert_eq!((stored.found.packages, stored.found.sick_count), (1, 1));
        let kept = folder.as_ref().unwrap().path().to_owned();
        assert!(kept.join("data").is_file());
        drop(folder);
        assert!(!kept.exists());
        let in_memory = store::content(dir.path(), None).unwrap();
        let names =
            |stored: &Stored| stored.content.index.packages().map(|it| it.name().to_owned()).collect::<Vec<_>>();
        assert_eq!(names(&in_memory), names(&stored));
        let none = read(&arguments(dir.path(), Some(&dir.path().join("all.json")))).unwrap_err().to_string();
        assert!(none.contains("--cache-dir"), "{none}");
    }

    #[tokio::test]
    async fn server_ends_when_it_is_told_to_and_a_folder_without_packages_is_refused() {
        let (dir, stop) = (catalog(), CancellationToken::new());
        stop.cancel();
        assert_eq!(run(&arguments(dir.path(), None), stop).await.unwrap(), Exit::Success);
        let empty = tempfile::tempdir().unwrap();
        let error = run(&arguments(empty.path(), None), CancellationToken::new()).await.unwrap_err().to_string();
        assert!(error.contains("is no catalog: it has no package that can be served"), "{error}");
    }
}
