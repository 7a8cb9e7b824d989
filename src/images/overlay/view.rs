//! What the layers say of some paths, up to one of them.

use super::{EACH_NAME, Kind, OverlayError, ancestors};
use std::collections::{BTreeMap, BTreeSet};

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// Number and size of its content.
    File(u32, u64),
    Directory,
    Link(Box<str>),
    HardLink(Box<str>),
    Other(&'static str),
}

impl What {
    pub(super) fn of(kind: Kind<'_>, number: u32) -> What {
        match kind {
            Kind::File(size) => What::File(number, size),
            Kind::Directory => What::Directory,
            Kind::Link(target) => What::Link(target.into()),
            Kind::HardLink(target) => What::HardLink(target.into()),
            Kind::Other(what) => What::Other(what),
        }
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            What::File(..) | What::HardLink(_) => "file",
            What::Directory => "directory",
            What::Link(_) => "link",
            What::Other(what) => what,
        }
    }
}

/// What is known of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The last layer that has something there, and what it has.
    pub here: Option<(usize, What)>,
    /// Layers before this one do not count, for the path and what is below it.
    gone: usize,
    /// The same for what is below it only.
    opaque: usize,
}

#[derive(Debug, Default)]
pub(super) struct View {
    /// What the present round looks for: each path with everything below it.
    asked: BTreeSet<String>,
    /// What earlier rounds have looked for.
    known: BTreeSet<String>,
    /// Nothing in it is hidden by a later layer.
    paths: BTreeMap<String, Seen>,
    names: usize,
    /// Paths that were looked through because something takes the place of a directory.
    looked: u64,
}

impl View {
    /// Looks for this path and everything below it in the next round.
    pub(super) fn ask(&mut self, path: &str) {
        // What an earlier round has seen on the way is seen again: otherwise it would count as seen in a later layer.
        let below: Vec<String> = self.below(path).map(|(path, _)| path.clone()).collect();
        for path in ancestors(path).map(str::to_owned).chain(below) {
            if self.paths.remove(&path).is_some() {
                self.names = self.names.saturating_sub(path.len() + EACH_NAME);
            }
        }
        self.names += path.len() + EACH_NAME;
        self.asked.insert(path.to_owned());
    }

    pub(super) fn close(&mut self) {
        self.known.append(&mut self.asked);
    }

    pub(super) fn is_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// About how much memory the names need, in bytes.
    pub(super) fn names(&self) -> usize {
        self.names
    }

    pub(super) fn looked(&self) -> u64 {
        self.looked
    }

    /// Whether this layer, and those before it, can have something that is looked for.
    pub(super) fn is_open(&self, layer: usize) -> bool {
        let hides = |path: &str| {
            self.paths.get(path).is_some_and(|seen| {
                let blocked = seen.here.as_ref().is_some_and(|(_, what)| *what != What::Directory);
                layer < seen.gone || layer < seen.opaque || blocked
            })
        };
        self.asked.iter().any(|root| !ancestors(root).any(hides))
    }

    /// Takes an entry of a layer, and says whether its content is to be kept.
    pub(super) fn add(&mut self, layer: usize, path: &str, what: What) -> Result<bool, OverlayError> {
        if !self.enter(layer, path)? {
            return Ok(false);
        }
        let is_inside = ancestors(path).any(|above| self.asked.contains(above));
        if path.contains(char::REPLACEMENT_CHARACTER) {
            return Err(OverlayError::NotText(path.to_owned()));
        }
        // Of a file on the way to what is looked for only matters that it is no directory.
        let what = if is_inside || !matches!(what, What::File(..)) { what } else { What::Other("file") };
        let seen = self.seen(path);
        let (replaces, was_directory) = match &seen.here {
            _ if layer < seen.gone => return Ok(false),
            Some((later, _)) if *later > layer => {
                // A directory is merged with those before it only as far as there is nothing else between them.
                if what != What::Directory {
                    seen.gone = layer;
                    self.remove_below(layer, path);
                }
                return Ok(false);
            }
            // In an archive the last one of several entries counts.
            Some((_, old)) => (*old != what, *old == What::Directory),
            None => (true, false),
        };
        if !replaces {
            return Ok(false);
        }
        let is_file = matches!(what, What::File(..));
        let target = if let What::Link(target) | What::HardLink(target) = &what { target.len() } else { 0 };
        let is_directory = what == What::Directory;
        seen.here = Some((layer, what));
        self.names += target;
        if was_directory && !is_directory {
            self.remove_below(layer, path);
        }
        Ok(is_file)
    }

    /// The path does not exist in layers before this one.
    pub(super) fn hide(&mut self, layer: usize, path: &str) -> Result<(), OverlayError> {
        if self.enter(layer, path)? {
            let seen = self.seen(path);
            seen.gone = seen.gone.max(layer);
        }
        Ok(())
    }

    /// The same for what is in a directory.
    pub(super) fn hide_content(&mut self, layer: usize, path: &str) -> Result<(), OverlayError> {
        self.add(layer, path, What::Directory)?;
        if let Some(seen) = self.paths.get_mut(path) {
            seen.opaque = seen.opaque.max(layer);
        }
        Ok(())
    }

    /// Whether something may be at the path in this layer that counts. That there is an entry makes directories of those on the way.
    fn enter(&mut self, layer: usize, path: &str) -> Result<bool, OverlayError> {
        let Some((folder, _)) = path.rsplit_once('/').or((!path.is_empty()).then_some(("", path))) else {
            return Ok(self.concerns(path));
        };
        let mut is_inside = false;
        for above in ancestors(folder) {
            is_inside |= self.asked.contains(above);
            if !is_inside && !leads_to(&self.asked, above) {
                return Ok(false);
            }
            let seen = self.seen(above);
            match &seen.here {
                _ if layer < seen.gone => return Ok(false),
                Some((_, What::Directory)) => {}
                Some((later, _)) if *later > layer => return Ok(false),
                Some((_, what)) => {
                    let (path, above, what) = (path.to_owned(), above.to_owned(), what.name());
                    return Err(OverlayError::Below { path, above, what });
                }
                None => seen.here = Some((layer, What::Directory)),
            }
            if layer < seen.opaque {
                return Ok(false);
            }
        }
        Ok(is_inside || self.concerns(path))
    }

    /// Whether the path is looked for, or on the way to one that is.
    fn concerns(&self, path: &str) -> bool {
        ancestors(path).any(|above| self.asked.contains(above)) || leads_to(&self.asked, path)
    }

    fn seen(&mut self, path: &str) -> &mut Seen {
        if !self.paths.contains_key(path) {
            self.names += path.len() + EACH_NAME;
        }
        self.paths.entry(path.to_owned()).or_default()
    }

    /// What was in a directory of this layer, which is none any more.
    fn remove_below(&mut self, layer: usize, path: &str) {
        let here = |seen: &Seen| seen.here.as_ref().is_some_and(|(at, _)| *at == layer);
        let mut looked = 0;
        let all = self.below(path).inspect(|_| looked += 1);
        let below: Vec<String> = all.filter(|(_, seen)| here(seen)).map(|(path, _)| path.clone()).collect();
        self.looked += looked;
        for path in below {
            self.paths.entry(path).and_modify(|seen| seen.here = None);
        }
    }

    /// Whether an earlier round has looked for everything below the path.
    pub(super) fn knows_content(&self, path: &str) -> bool {
        ancestors(path).any(|above| self.known.contains(above))
    }

    /// Whether an earlier round has looked for the path, or came through it.
    pub(super) fn knows(&self, path: &str) -> bool {
        self.knows_content(path) || leads_to(&self.known, path)
    }

    /// What is at the path.
    pub(super) fn at(&self, path: &str) -> Option<(usize, &What)> {
        self.paths.get(path)?.here.as_ref().map(|(layer, what)| (*layer, what))
    }

    /// Everything below the path, in the order of names.
    pub(super) fn below<'a>(&'a self, path: &str) -> impl Iterator<Item = (&'a String, &'a Seen)> + use<'a> {
        let begin = if path.is_empty() { String::new() } else { format!("{path}/") };
        let range = self.paths.range(begin.clone()..);
        range.take_while(move |(path, _)| path.starts_with(&begin)).filter(|(path, _)| !path.is_empty())
    }
}

/// Whether one of the paths is below this one.
fn leads_to(paths: &BTreeSet<String>, path: &str) -> bool {
    if path.is_empty() {
        return !paths.is_empty();
    }
    let begin = format!("{path}/");
    paths.range(begin.clone()..).next().is_some_and(|next| next.starts_with(&begin))
}
