//! A registry that is not to be trusted, and images that nobody should have built.

use std::collections::HashMap;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{Request, Response, StatusCode, header};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

/// A content that is repeated so often.
pub(super) type Part<'a> = (&'a [u8], usize);

/// A blob as it is sent.
#[derive(Clone)]
enum Blob {
    Whole(Bytes),
    /// A byte now and then.
    Dripping(Bytes),
}

/// Images by their repositories.
#[derive(Default)]
pub(super) struct Images {
    manifests: HashMap<String, String>,
    blobs: HashMap<String, Blob>,
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(Sha256::digest(bytes)))
}

impl Images {
    fn blob(&mut self, bytes: Vec<u8>) -> Value {
        let descriptor = json!({"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", "digest": digest(&bytes), "size": bytes.len()});
        self.blobs.insert(digest(&bytes), Blob::Whole(bytes.into()));
        descriptor
    }

    fn image(&mut self, repository: &str, layers: Vec<Value>) {
        let config =
            json!({"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}});
        let mut config = self.blob(config.to_string().into_bytes());
        config["mediaType"] = "application/vnd.oci.image.config.v1+json".into();
        let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": layers});
        self.manifests.insert(repository.to_owned(), manifest.to_string());
    }

    /// One with these files in `/configs`.
    pub(super) fn catalog(&mut self, repository: &str, files: &[(&str, &[Part<'_>])]) {
        let layer = files.iter().flat_map(|(name, parts)| file(&format!("configs/{name}"), parts)).collect();
        let layer = self.blob(layer);
        self.image(repository, vec![layer]);
    }

    /// One with this layer, an archive without compression.
    pub(super) fn archive(&mut self, repository: &str, mut archive: Vec<u8>) {
        // So an archive ends.
        archive.extend([0; 1024]);
        let layer = self.blob(archive);
        self.image(repository, vec![layer]);
    }

    /// One whose layers are said to be so large. They are not there.
    pub(super) fn large(&mut self, repository: &str, bytes: u64) {
        let mut layer = self.blob(repository.as_bytes().to_vec());
        layer["size"] = bytes.into();
        self.image(repository, vec![layer]);
    }

    /// One with a layer that comes with another content than its digest says.
    pub(super) fn lying(&mut self, repository: &str) {
        let catalog = e2e::catalogs::catalog("lie", &["1.0.0"]);
        let layer = self.blob(file("configs/a.json", &[(catalog.as_bytes(), 1)]));
        let mut other = file("configs/b.json", &[(catalog.as_bytes(), 1)]);
        other.resize(layer["size"].as_u64().unwrap_or_default() as usize, 0);
        self.blobs.insert(layer["digest"].as_str().unwrap().to_owned(), Blob::Whole(other.into()));
        self.image(repository, vec![layer]);
    }

    /// One with a layer that comes byte by byte.
    pub(super) fn dripping(&mut self, repository: &str) {
        let text = vec![b' '; 1 << 20];
        let layer = self.blob(file(&format!("configs/{repository}"), &[(&text, 1)]));
        if let Some(Blob::Whole(bytes)) = self.blobs.get(layer["digest"].as_str().unwrap()).cloned() {
            self.blobs.insert(digest(&bytes), Blob::Dripping(bytes));
        }
        self.image(repository, vec![layer]);
    }

    /// Serves them until the test ends. The repository `denied` is for nobody.
    pub(super) async fn serve(self) -> SocketAddr {
        let images = Arc::new(self);
        let answer = move |request: Request<Body>| {
            let images = images.clone();
            async move { images.answer(request.uri().path()) }
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, Router::new().fallback(answer)).await });
        address
    }

    fn answer(&self, path: &str) -> Response<Body> {
        let status = |status: StatusCode| Response::builder().status(status);
        let empty = |status: StatusCode| Response::builder().status(status).body(Body::empty()).unwrap();
        let Some(path) = path.strip_prefix("/v2/") else { return empty(StatusCode::NOT_FOUND) };
        if path.starts_with("denied/") {
            let basic = status(StatusCode::UNAUTHORIZED).header(header::WWW_AUTHENTICATE, "Basic realm=\"images\"");
            return basic.body(Body::empty()).unwrap();
        }
        if let Some((repository, _)) = path.split_once("/manifests/") {
            let Some(manifest) = self.manifests.get(repository) else { return empty(StatusCode::NOT_FOUND) };
            let answer = status(StatusCode::OK).header(header::CONTENT_TYPE, MANIFEST);
            let answer = answer.header("Docker-Content-Digest", digest(manifest.as_bytes()));
            return answer.body(manifest.clone().into()).unwrap();
        }
        let blob = path.split_once("/blobs/").and_then(|(_, digest)| self.blobs.get(digest));
        match blob.cloned() {
            None if path.is_empty() => empty(StatusCode::OK),
            None => empty(StatusCode::NOT_FOUND),
            Some(Blob::Whole(bytes)) => status(StatusCode::OK).body(bytes.into()).unwrap(),
            Some(Blob::Dripping(bytes)) => {
                let bytes = futures::stream::unfold((bytes, 0), |(bytes, at)| async move {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    let byte = (at < bytes.len()).then(|| Ok::<_, std::io::Error>(bytes.slice(at..at + 1)))?;
                    Some((byte, (bytes, at + 1)))
                });
                status(StatusCode::OK).body(Body::from_stream(bytes)).unwrap()
            }
        }
    }
}

/// A file of a layer as members of gzip, of which equal ones are compressed once.
fn file(path: &str, parts: &[Part<'_>]) -> Vec<u8> {
    let size: usize = parts.iter().map(|(bytes, times)| bytes.len() * times).sum();
    let mut packed = compressed(&entry(path, tar::EntryType::Regular, "", size as u64));
    for (bytes, times) in parts {
        packed.extend(compressed(bytes).repeat(*times));
    }
    packed.extend(compressed(&vec![0; size.next_multiple_of(512) - size]));
    packed
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    packed.write_all(bytes).unwrap();
    packed.finish().unwrap()
}

/// The header of an entry of an archive, whatever its path is.
pub(super) fn entry(path: &str, kind: tar::EntryType, target: &str, size: u64) -> Vec<u8> {
    let mut header = tar::Header::new_ustar();
    let old = header.as_old_mut();
    old.name[..path.len()].copy_from_slice(path.as_bytes());
    old.linkname[..target.len()].copy_from_slice(target.as_bytes());
    header.set_entry_type(kind);
    header.set_mode(0o644);
    header.set_size(size);
    header.set_cksum();
    header.as_bytes().to_vec()
}
