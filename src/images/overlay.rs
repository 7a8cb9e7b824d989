//! The layers of an image as one file system, of which some directories are wanted. It decides by names alone: what an entry of a
//! layer means, which content is to be kept, and where that belongs in the end.
//!
//! Layers are read from the last to the first, so that a path is decided when it is seen: a file that a later layer replaces or
//! deletes is never kept, and where nothing below can count any more (a directory that was deleted and made anew) the layers
//! below are not read. The price is that a link may lead to what was passed already, as `/configs` to `/opt/configs`: then the
//! layers are read once more, for that alone. Reading from the first layer would need no second time but would keep everything
//! that a link could lead to.
//!
//! Directories are those of overlayfs, which nodes use: a directory in a later layer replaces what is no directory in an earlier
//! one, also if only a path in it says that it exists.

mod resolve;
mod view;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use view::{View, What};

/// Memory for names and what is known of them, in bytes: at least, and for each file that may be kept.
const MAX_NAMES: usize = 4 << 20;
const NAMES_OF_FILE: usize = 256;
/// What a path costs beside its text.
const EACH_NAME: usize = 128;
/// How often the layers are read, for links that lead to links.
const MAX_ROUNDS: usize = 8;
/// Longest path, in bytes and in parts, and longest target of a link. The first is that of Linux.
const MAX_PATH: usize = 4096;
const MAX_PARTS: usize = 255;
/// Most paths and parts of paths that one tour looks at, or that are looked through while layers are read: links, and entries in
/// place of others, can make that as many as they like.
const MAX_STEPS: u64 = 1_000_000;
/// As many notes of what is left out are kept.
const MAX_NOTES: usize = 10;

/// How much may be kept of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub files: usize,
    /// Of all files, and of one.
    pub bytes: u64,
    pub file_bytes: u64,
}

/// What an entry of a layer is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind<'a> {
    /// With its size in bytes.
    File(u64),
    Directory,
    Link(&'a str),
    /// The target is a path in the image.
    HardLink(&'a str),
    /// A device, for example; the text says what it is.
    Other(&'static str),
}

/// Files of an image cannot be used. Paths are those in the image, without a leading slash.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OverlayError {
    #[error("{0:?} is no directory in an image: write a path like /configs, without \"..\"")]
    BadDirectory(String),
    #[error("an entry has the name {0:?}, which leads out of the image: rebuild the image, it may be an attack")]
    Climbs(String),
    #[error("an entry has the name {0:?}, which is not UTF-8 text: rename the file and rebuild the image")]
    NotText(String),
    #[error(
        "{path:?} lies in {above:?}, which is a {what} in the same layer: rebuild the image with a directory in place of the {what}"
    )]
    Below { path: String, above: String, what: &'static str },
    #[error("{0:?} is no directory in this image: name the directory, or rebuild the image with one")]
    NotADirectory(String),
    #[error("the link {0:?} leads back to itself or to a directory that it is in: rebuild the image without this link")]
    Cycle(String),
    #[error(
        "links lead from one to the next more than {MAX_ROUNDS} times: rebuild the image with the files themselves"
    )]
    TooManyRounds,
    #[error("its links, or entries in place of others, are too tangled: rebuild the image with the files themselves")]
    Tangled,
    #[error(
        "an entry has a name of {bytes} bytes and {parts} parts, and {MAX_PATH} and {MAX_PARTS} are the most: rename the file"
    )]
    LongName { bytes: usize, parts: usize },
    #[error("{path:?} has {size} bytes, and a file may have {limit}: {way_out}", way_out = TOO_MUCH)]
    LargeFile { path: String, size: u64, limit: u64 },
    #[error("it has more than {limit} {unit} there: {way_out}", way_out = TOO_MUCH)]
    TooMuch { limit: u64, unit: &'static str },
}

const TOO_MUCH: &str = "is this the right image? else make its content smaller, or raise the limit";

/// What is known of an image.
#[derive(Debug)]
pub(crate) struct Overlay {
    limits: Limits,
    /// The directories that are wanted, none in another.
    wanted: Vec<String>,
    layers: usize,
    /// The number of the last layer; the first has 0.
    top: usize,
    /// By the layer up to which it counts. That of the last layer is the image; others are needed for hard links, whose content is
    /// that of their own layer, whatever later layers do to the path that they name.
    views: BTreeMap<usize, View>,
    rounds: usize,
    names: usize,
    bytes: u64,
    files: u32,
    /// Of the present tour.
    steps: Cell<u64>,
}

/// What came of reading the layers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Round {
    /// They have to be read again, for what links lead to.
    Again,
    /// Everything is known.
    Done(Summary),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Summary {
    /// Wanted directories that exist, and those that do not.
    pub found: Vec<String>,
    pub missing: Vec<String>,
    pub files: usize,
    pub bytes: u64,
    /// Links to nothing, devices and the like, some of them.
    pub skipped: Vec<String>,
    pub skipped_count: usize,
}

impl Overlay {
    /// An image with so many layers, of which these directories are wanted.
    pub(crate) fn new(layers: usize, directories: &[&str], limits: Limits) -> Result<Overlay, OverlayError> {
        let bad = |directory: &str| OverlayError::BadDirectory(directory.to_owned());
        let paths: BTreeSet<String> =
            directories.iter().map(|it| path_of(it).ok_or_else(|| bad(it))).collect::<Result<_, _>>()?;
        let is_top = |path: &&String| ancestors(path).all(|above| above == path.as_str() || !paths.contains(above));
        let wanted: Vec<String> = paths.iter().filter(is_top).cloned().collect();
        let top = layers.saturating_sub(1);
        let mut view = View::default();
        for path in &wanted {
            view.ask(path);
        }
        let views = BTreeMap::from([(top, view)]);
        Ok(Overlay { limits, wanted, layers, top, views, rounds: 0, names: 0, bytes: 0, files: 0, steps: Cell::new(0) })
    }

    /// The layer to read after this one, or the first of a round; `None` if nothing in the layers below can count.
    pub(crate) fn next_layer(&self, after: Option<usize>) -> Option<usize> {
        let below = after.unwrap_or(self.layers).checked_sub(1)?;
        self.views.iter().filter_map(|(level, view)| view.is_open(below.min(*level)).then_some(below.min(*level))).max()
    }

    /// Takes an entry of a layer. If its content is to be kept, it gets a number. A later entry of this name gets another one.
    pub(crate) fn entry(&mut self, layer: usize, name: &str, kind: Kind<'_>) -> Result<Option<u32>, OverlayError> {
        let path = path_of(name).ok_or_else(|| OverlayError::Climbs(name.to_owned()))?;
        let (folder, base) = path.rsplit_once('/').unwrap_or(("", &path));
        // What aufs keeps for itself, and what would be below a deleted path.
        if folder.split('/').any(|part| part.starts_with(".wh.")) {
            return Ok(None);
        }
        let parts = path.split('/').count();
        if path.len() > MAX_PATH || parts > MAX_PARTS {
            return Err(OverlayError::LongName { bytes: path.len(), parts });
        }
        let kind = match kind {
            Kind::Link(target) | Kind::HardLink(target) if target.len() > MAX_PATH => {
                Kind::Other("link to a name that is too long")
            }
            kind => kind,
        };
        let number = self.files;
        let mut keeps = false;
        for (_, view) in self.views.range_mut(layer..).filter(|(_, view)| view.is_asked()) {
            let before = view.names();
            match base.strip_prefix(".wh.") {
                None => keeps |= view.add(layer, &path, What::of(kind, number))?,
                Some(".wh..opq") => view.hide_content(layer, folder)?,
                Some("") => {}
                Some(hidden) => view.hide(layer, &join(folder, hidden))?,
            }
            self.names = (self.names + view.names()).saturating_sub(before);
            if view.looked() > MAX_STEPS {
                return Err(OverlayError::Tangled);
            }
        }
        let limit = self.limits.files.saturating_mul(NAMES_OF_FILE).max(MAX_NAMES);
        if self.names > limit {
            return Err(OverlayError::TooMuch { limit: limit as u64, unit: "bytes of names of files" });
        }
        match kind {
            Kind::File(size) if keeps => self.keep(path, size).map(Some),
            _ => Ok(None),
        }
    }

    fn keep(&mut self, path: String, size: u64) -> Result<u32, OverlayError> {
        let Limits { files, bytes, file_bytes: limit } = self.limits;
        if size > limit {
            return Err(OverlayError::LargeFile { path, size, limit });
        }
        self.bytes = self.bytes.saturating_add(size);
        if self.bytes > bytes {
            return Err(OverlayError::TooMuch { limit: bytes, unit: "bytes" });
        }
        let number = self.files;
        self.files += 1;
        if self.files as usize > files {
            return Err(OverlayError::TooMuch { limit: files as u64, unit: "files" });
        }
        Ok(number)
    }

    /// To be called when every layer is read that counts.
    pub(crate) fn end_round(&mut self) -> Result<Round, OverlayError> {
        self.views.values_mut().for_each(View::close);
        let (summary, asked) = self.walk(&mut |_, _| {})?;
        if asked.is_empty() {
            return Ok(Round::Done(summary));
        }
        self.rounds += 1;
        if self.rounds > MAX_ROUNDS {
            return Err(OverlayError::TooManyRounds);
        }
        for (level, path) in asked {
            let view = self.views.entry(level).or_default();
            let before = view.names();
            view.ask(&path);
            self.names = (self.names + view.names()).saturating_sub(before);
        }
        Ok(Round::Again)
    }

    /// Tells of each file of the wanted directories: its path, and the number of its content. Several files may have one content.
    /// To be called when everything is known.
    pub(crate) fn files(&self, tell: &mut dyn FnMut(&str, u32)) -> Result<(), OverlayError> {
        self.walk(tell).map(drop)
    }
}

/// A path as it is used here: its parts with single slashes between them, the root as an empty text; `None` if it has a part `..`.
fn path_of(name: &str) -> Option<String> {
    let parts = || name.split('/').filter(|part| !matches!(*part, "" | "."));
    let plain = parts().all(|part| part != "..") && !name.contains('\0');
    plain.then(|| parts().collect::<Vec<_>>().join("/"))
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

/// The root, then each directory on the way, and the path itself.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let above = path.match_indices('/').filter_map(|(at, _)| path.get(..at));
    let own = (!path.is_empty()).then_some(path);
    std::iter::once("").chain(above).chain(own)
}

#[cfg(test)]
mod tests;
