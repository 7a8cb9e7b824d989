//! Which files of a folder are no part of its catalog: `.indexignore` says so in the syntax of `.gitignore`, for its folder and those
//! below.

use crate::error::together;
use crate::olm::catalog::fault::Reason;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

pub(super) const IGNORE_FILE: &str = ".indexignore";

/// Bytes of all patterns of a catalog. What they are compiled to takes up to a thousand times as much memory.
pub(super) const MAX_PATTERNS: usize = 32 << 10;

/// The patterns of a catalog, read as its folders are walked.
#[derive(Debug)]
pub(super) struct Ignored {
    by_folder: BTreeMap<PathBuf, Gitignore>,
    /// Bytes of patterns that may still come.
    left: usize,
    /// Files of patterns, of which not all can be used.
    pub faults: Vec<(PathBuf, Reason)>,
    /// The file with which there are more patterns than may be compiled.
    pub excess: Option<PathBuf>,
}

impl Ignored {
    /// With the patterns of the folder itself.
    pub(super) fn of(root: &Path) -> Ignored {
        let mut ignored = Ignored { by_folder: BTreeMap::new(), left: MAX_PATTERNS, faults: Vec::new(), excess: None };
        ignored.read(root);
        ignored
    }

    /// Whether a file or folder is part of the catalog. The patterns of a folder that is are read, so that it comes before what is in it.
    pub(super) fn keeps(&mut self, path: &Path, is_folder: bool) -> bool {
        // The nearest folder that says something counts.
        let said =
            path.ancestors().skip(1).find_map(|folder| match self.by_folder.get(folder)?.matched(path, is_folder) {
                Match::None => None,
                said => Some(said.is_ignore()),
            });
        let is_kept = !said.unwrap_or(false) && self.excess.is_none();
        if is_kept && is_folder {
            self.read(path);
        }
        is_kept
    }

    fn read(&mut self, folder: &Path) {
        let path = folder.join(IGNORE_FILE);
        if !fs::metadata(&path).is_ok_and(|file| file.is_file()) {
            return;
        }
        let mut bytes = Vec::new();
        let read = File::open(&path).and_then(|file| file.take(self.left as u64 + 1).read_to_end(&mut bytes));
        let Some(left) = self.left.checked_sub(bytes.len()) else {
            self.excess = Some(path);
            return;
        };
        self.left = left;
        let mut wrong: Vec<String> = read.err().iter().map(ToString::to_string).collect();
        let mut patterns = GitignoreBuilder::new(folder);
        let text = bytes.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&bytes);
        for (at, line) in text.split(|byte| *byte == b'\n').enumerate() {
            // Also the last line may end with it, though no other one follows.
            let line = std::str::from_utf8(line.strip_suffix(b"\r").unwrap_or(line));
            let added = line
                .map_err(|_| "it is not UTF-8 text".to_owned())
                .and_then(|line| patterns.add_line(None, line).map(drop).map_err(|error| error.to_string()));
            wrong.extend(added.err().map(|cause| format!("line {}: {cause}", at + 1)));
        }
        match patterns.build() {
            Ok(patterns) => drop(self.by_folder.insert(folder.to_owned(), patterns)),
            Err(error) => wrong.push(error.to_string()),
        }
        if !wrong.is_empty() {
            self.faults.push((path, Reason::Patterns(together(&wrong, "; "))));
        }
    }
}
