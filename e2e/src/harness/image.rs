//! Container images with one static program, as an archive that `ctr images import` reads, so that no registry is
//! needed.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::Path,
};

use serde_json::json;
use sha2::{Digest, Sha256};

use super::error::{HarnessError, Result};

/// Writes an archive with an image `name` (with tag) that contains `program` as `/<its file name>` and runs it with
/// `arguments`.
pub(super) fn write_archive(archive: &Path, name: &str, program: &Path, arguments: &[&str]) -> Result<()> {
    let failed = |error| HarnessError::Io(archive.to_owned(), error);
    let content = fs::read(program).map_err(|error| HarnessError::Io(program.to_owned(), error))?;
    let file = program.file_name().and_then(|name| name.to_str()).unwrap_or("program");
    let layer = tar_of(&[(file, 0o755, &content)]).map_err(failed)?;
    let mut entry = vec![format!("/{file}")];
    entry.extend(arguments.iter().map(|argument| (*argument).to_owned()));
    let config = json!({
        "architecture": if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" },
        "os": "linux",
        "config": {"Entrypoint": entry},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex::encode(Sha256::digest(&layer)))]},
    })
    .to_string();
    let index = json!([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).to_string();
    let whole = tar_of(&[
        ("layer.tar", 0o644, &layer),
        ("config.json", 0o644, config.as_bytes()),
        ("manifest.json", 0o644, index.as_bytes()),
    ])
    .map_err(failed)?;
    File::create(archive).and_then(|mut to| to.write_all(&whole)).map_err(failed)
}

fn tar_of(files: &[(&str, u32, &[u8])]) -> io::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, mode, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(*mode);
        archive.append_data(&mut header, name, content.take(content.len() as u64))?;
    }
    archive.into_inner()
}
