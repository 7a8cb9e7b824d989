//! The files of a bundle as text, which the log of a pod carries: compressed, in Base64, in lines of which the last one shows whether
//! the others are whole.

use super::{MAX_FILES, MAX_TOTAL, SourceFile};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use std::io::{self, BufRead, BufReader, Read, Write};

/// Bytes of the text. A node keeps 10 MiB of what a container says, with the time of each line, unless it is configured otherwise.
pub(crate) const MAX_TEXT: usize = 9 << 20;
/// Characters of a line, which is shorter than what nodes cut in pieces.
const LINE: usize = 8_000;
const LAST: &str = "sha256:";

/// Why the text of a bundle is not to be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PrintedError {
    #[error("cannot compress it: {0}")]
    Compress(io::Error),
    #[error(
        "compressed it has {0} characters, more than the {MAX_TEXT} that a node keeps of what a container says: let the process reach \
         the registry itself, with a pull secret at the CatalogSource"
    )]
    Large(usize),
    #[error("what the pod has said of it is not whole: {0}")]
    Broken(String),
    #[error("the bundle has more than {MAX_FILES} files or {MAX_TOTAL} bytes")]
    Files,
}

/// The text of these files.
pub(crate) fn print(files: &[SourceFile]) -> Result<String, PrintedError> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::best());
    for file in files {
        let head = serde_json::json!([file.path, file.bytes.len()]).to_string();
        let written = writeln!(packed, "{head}").and_then(|()| packed.write_all(&file.bytes));
        written.map_err(PrintedError::Compress)?;
    }
    let packed = packed.finish().map_err(PrintedError::Compress)?;
    let encoded = STANDARD.encode(&packed);
    let mut text = String::with_capacity(encoded.len() + encoded.len() / LINE + 80);
    let mut rest = encoded.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at_checked(LINE).unwrap_or((rest, ""));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("{LAST}{}\n", hex::encode(Sha256::digest(&packed))));
    if text.len() > MAX_TEXT {
        return Err(PrintedError::Large(text.len()));
    }
    Ok(text)
}

/// The files of such a text, which may be cut off anywhere, or somebody else's. Never panics; memory is bounded.
pub(crate) fn read(text: &str) -> Result<Vec<SourceFile>, PrintedError> {
    let broken = |cause: &str| PrintedError::Broken(cause.to_owned());
    let missing = || broken("its last line is missing, as where a node keeps less of what containers say");
    let (lines, sum) = text.trim_end().rsplit_once('\n').ok_or_else(missing)?;
    let sum = sum.strip_prefix(LAST).ok_or_else(missing)?;
    let encoded: String = lines.split('\n').collect();
    let packed = STANDARD.decode(encoded).map_err(|error| PrintedError::Broken(error.to_string()))?;
    if hex::encode(Sha256::digest(&packed)) != sum {
        return Err(broken("its checksum differs"));
    }
    let mut packed = BufReader::new(GzDecoder::new(packed.as_slice()).take(2 * MAX_TOTAL as u64));
    let (mut files, mut room) = (Vec::new(), MAX_TOTAL as u64);
    loop {
        let mut head = String::new();
        let read = (&mut packed).take(room.min(64 << 10)).read_line(&mut head);
        if read.map_err(|error| PrintedError::Broken(error.to_string()))? == 0 {
            return Ok(files);
        }
        let (path, size): (String, u64) =
            serde_json::from_str(&head).map_err(|error| PrintedError::Broken(error.to_string()))?;
        room = room.checked_sub(size).filter(|_| files.len() < MAX_FILES).ok_or(PrintedError::Files)?;
        let mut bytes = Vec::new();
        let read = (&mut packed).take(size).read_to_end(&mut bytes);
        read.map_err(|error| PrintedError::Broken(error.to_string()))?;
        if bytes.len() as u64 != size {
            return Err(broken("a file ends too early"));
        }
        files.push(SourceFile { path, bytes });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, bytes: Vec<u8>) -> SourceFile {
        SourceFile { path: path.to_owned(), bytes }
    }

    /// Bytes that do not shrink.
    fn noise(size: usize) -> Vec<u8> {
        (0..size / 32).flat_map(|at| Sha256::digest(at.to_string())).collect()
    }

    #[test]
    fn files_are_read_as_they_were_printed() {
        let files = vec![
            file("manifests/a.yaml", b"kind: A\n".to_vec()),
            file("manifests/empty", Vec::new()),
            file("manifests/a \"quoted\"\nname", vec![0, 255, 10]),
            file("metadata/annotations.yaml", noise(100_000)),
        ];
        let text = print(&files).unwrap();
        assert!(text.lines().count() > 10 && text.lines().all(|line| line.len() <= LINE), "{}", text.lines().count());
        let paths =
            |files: &[SourceFile]| files.iter().map(|it| (it.path.clone(), it.bytes.clone())).collect::<Vec<_>>();
        assert_eq!(paths(&read(&text).unwrap()), paths(&files));
        assert_eq!(read(&print(&[]).unwrap()).unwrap().len(), 0);
    }

    #[test]
    fn text_that_is_not_whole_is_refused() {
        let text = print(&[file("manifests/a.yaml", noise(50_000))]).unwrap();
        let (first, rest) = text.split_once('\n').unwrap();
        let last = text.trim_end().rsplit_once('\n').unwrap().0;
        let packed = |bytes: &[u8]| {
            let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
            packed.write_all(bytes).unwrap();
            let packed = packed.finish().unwrap();
            format!("{}\n{LAST}{}\n", STANDARD.encode(&packed), hex::encode(Sha256::digest(&packed)))
        };
        let many = "[\"a\",0]\n".repeat(MAX_FILES + 1);
        let rows = [
            ("", "its last line is missing"),
            ("panic: no such file\n", "its last line is missing"),
            (last, "its last line is missing"),
            (rest, "its checksum differs"),
            (&text.replacen(first, "!", 1), "Invalid"),
            (&packed(b"[\"a\",5]\nabc"), "a file ends too early"),
            (&packed(b"{}\n"), "not whole"),
            (&packed(format!("[\"a\",{}]\n", MAX_TOTAL + 1).as_bytes()), "more than 10000 files"),
            (&packed(many.as_bytes()), "more than 10000 files"),
        ];
        for (text, expected) in rows {
            let error = read(text).map(|files| files.len()).unwrap_err().to_string();
            assert!(error.contains(expected), "{expected}: {error}");
        }
    }

    #[test]
    fn more_than_a_node_keeps_is_refused_with_the_way_out() {
        let error = print(&[file("manifests/a", noise(MAX_TEXT))]).unwrap_err().to_string();
        assert!(error.contains("more than the 9437184 that a node keeps") && error.contains("pull secret"), "{error}");
    }
}
