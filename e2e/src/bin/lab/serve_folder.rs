//! `lab serve-folder`: serves the files of a folder over plain HTTP. In a test cluster it is the signature store and the
//! update service, whose graph is one file.

use std::{
    net::SocketAddr,
    path::{Component, Path, PathBuf},
};

use anyhow::Context;
use axum::{
    Router,
    extract::State,
    http::{StatusCode, Uri},
};
use clap::Args;

/// The folder and the address.
#[derive(Debug, Args)]
pub(crate) struct ServeFolder {
    /// Address and port to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// The folder; read again for each request.
    folder: PathBuf,
}

/// Serves until it is killed.
pub(crate) async fn run(serve: ServeFolder) -> anyhow::Result<()> {
    let listener = tokio::net::TcpListener::bind(serve.listen)
        .await
        .with_context(|| format!("cannot listen on {}", serve.listen))?;
    let router = Router::new().fallback(file).with_state(serve.folder);
    Ok(axum::serve(listener, router).await?)
}

async fn file(State(folder): State<PathBuf>, uri: Uri) -> Result<Vec<u8>, StatusCode> {
    let path = Path::new(uri.path().trim_start_matches('/'));
    if !path.components().all(|part| matches!(part, Component::Normal(_))) {
        return Err(StatusCode::NOT_FOUND);
    }
    tokio::fs::read(folder.join(path)).await.map_err(|_| StatusCode::NOT_FOUND)
}
