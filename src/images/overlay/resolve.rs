//! Where links lead, and with that the files of the wanted directories.

use super::view::{View, What};
use super::{MAX_NOTES, MAX_STEPS, Overlay, OverlayError, Summary, ancestors, join, path_of};
use std::collections::BTreeSet;

/// Most links from one to the next, as in Linux. Also how deep directories are that are links.
const MAX_LINKS: usize = 40;

/// What must be looked for: a path, with what it is up to a layer.
type Asked = BTreeSet<(usize, String)>;

/// Where a path leads.
enum At {
    /// To this path, in which no part is a link; only its last one may be, if that was asked for.
    Path(String),
    Nothing,
    /// It depends on what is at this path.
    Unknown(String),
}

/// What a link stands for.
enum Found {
    File(u32, u64),
    Directory(String),
    Nothing,
    Unknown(usize, String),
}

/// The links behind the first one.
struct Trail<'a> {
    first: &'a str,
    left: usize,
}

impl<'a> Trail<'a> {
    fn of(first: &'a str) -> Trail<'a> {
        Trail { first, left: MAX_LINKS }
    }

    fn next(&mut self) -> Result<(), OverlayError> {
        self.left = self.left.checked_sub(1).ok_or_else(|| OverlayError::Cycle(self.first.to_owned()))?;
        Ok(())
    }
}

/// The tour of the wanted directories.
struct Walk<'a> {
    tell: &'a mut dyn FnMut(&str, u32),
    summary: Summary,
    asked: Asked,
    /// The directories that the tour is in.
    inside: Vec<String>,
}

impl Overlay {
    /// Tells of each file. What must be known for that is returned as well: if there is any, the rest is not complete.
    pub(super) fn walk(&self, tell: &mut dyn FnMut(&str, u32)) -> Result<(Summary, Asked), OverlayError> {
        let mut walk = Walk { tell, summary: Summary::default(), asked: Asked::new(), inside: Vec::new() };
        self.steps.set(0);
        for wanted in &self.wanted {
            match self.follow("", wanted, &mut Trail::of(wanted))? {
                Found::Directory(path) => {
                    walk.summary.found.push(wanted.clone());
                    self.expand(&mut walk, &path, wanted)?;
                }
                Found::File(..) => return Err(OverlayError::NotADirectory(wanted.clone())),
                Found::Nothing => walk.summary.missing.push(wanted.clone()),
                Found::Unknown(level, path) => drop(walk.asked.insert((level, path))),
            }
        }
        Ok((walk.summary, walk.asked))
    }

    /// Tells of the files of a directory, which are those of `to` where they are wanted.
    fn expand(&self, walk: &mut Walk<'_>, directory: &str, to: &str) -> Result<(), OverlayError> {
        let is_around = |inside: &String| {
            directory.is_empty() || inside == directory || inside.starts_with(&format!("{directory}/"))
        };
        if walk.inside.iter().any(is_around) || walk.inside.len() > MAX_LINKS {
            return Err(OverlayError::Cycle(to.to_owned()));
        }
        let Some(view) = self.views.get(&self.top) else { return Ok(()) };
        for (path, seen) in view.below(directory) {
            self.step()?;
            let Some((layer, what)) = &seen.here else { continue };
            let (folder, _) = path.rsplit_once('/').unwrap_or(("", path));
            let rest = if directory.is_empty() { Some(path.as_str()) } else { path.get(directory.len() + 1..) };
            let to = join(to, rest.unwrap_or_default());
            let found = match what {
                What::Directory => continue,
                What::File(number, size) => Found::File(*number, *size),
                What::Link(target) => self.follow(folder, target, &mut Trail::of(path))?,
                What::HardLink(target) => self.hard_link(*layer, folder, target, &mut Trail::of(path))?,
                What::Other(what) => {
                    walk.skip(format!("/{path} is a {what}"));
                    continue;
                }
            };
            match found {
                Found::File(number, size) => self.tell(walk, &to, number, size)?,
                Found::Directory(below) => {
                    walk.inside.push(folder.to_owned());
                    self.expand(walk, &below, &to)?;
                    walk.inside.pop();
                }
                Found::Nothing => walk.skip(format!("/{path} is a link to nothing")),
                // Looking for it would be looking for all of this once more.
                Found::Unknown(level, around) if level == self.top && ancestors(folder).any(|it| it == around) => {
                    return Err(OverlayError::Cycle(path.clone()));
                }
                Found::Unknown(level, path) => drop(walk.asked.insert((level, path))),
            }
        }
        Ok(())
    }

    fn tell(&self, walk: &mut Walk<'_>, to: &str, number: u32, size: u64) -> Result<(), OverlayError> {
        walk.summary.files += 1;
        walk.summary.bytes = walk.summary.bytes.saturating_add(size);
        // Links make many files of one.
        if walk.summary.files > self.limits.files {
            return Err(OverlayError::TooMuch { limit: self.limits.files as u64, unit: "files" });
        }
        if walk.summary.bytes > self.limits.bytes {
            return Err(OverlayError::TooMuch { limit: self.limits.bytes, unit: "bytes" });
        }
        (walk.tell)(to, number);
        Ok(())
    }

    /// What a path leads to in the image, from a directory of it.
    fn follow(&self, folder: &str, target: &str, trail: &mut Trail<'_>) -> Result<Found, OverlayError> {
        trail.next()?;
        match self.locate(self.top, folder, target, None, trail)? {
            At::Nothing => Ok(Found::Nothing),
            At::Unknown(path) => Ok(Found::Unknown(self.top, path)),
            At::Path(path) => {
                let (folder, _) = path.rsplit_once('/').unwrap_or(("", &path));
                match self.views.get(&self.top).and_then(|view| view.at(&path)) {
                    Some((_, What::File(number, size))) => Ok(Found::File(*number, *size)),
                    Some((layer, What::HardLink(target))) => self.hard_link(layer, folder, target, trail),
                    Some((_, What::Directory)) => Ok(Found::Directory(path)),
                    None if path.is_empty() => Ok(Found::Directory(path)),
                    Some((_, What::Link(_) | What::Other(_))) | None => Ok(Found::Nothing),
                }
            }
        }
    }

    /// What a hard link of this layer, in a directory of the image, stands for: what its layer, or one before, has at the path that
    /// it names.
    fn hard_link(
        &self,
        layer: usize,
        folder: &str,
        target: &str,
        trail: &mut Trail<'_>,
    ) -> Result<Found, OverlayError> {
        let inside = |target: &str| path_of(target).ok_or_else(|| OverlayError::Climbs(target.to_owned()));
        let (mut level, mut layer, mut path) = (self.top, layer, inside(target)?);
        loop {
            trail.next()?;
            let at = self.locate(level, "", &path, Some(layer), trail)?;
            let found = match &at {
                At::Path(path) => self.views.get(&level).and_then(|view| view.at(path)),
                At::Nothing | At::Unknown(_) => None,
            };
            match found {
                // Where a later layer has replaced or deleted it, it says nothing of the content of the link.
                Some((here, what)) if here <= layer => match what {
                    What::File(number, size) => return Ok(Found::File(*number, *size)),
                    What::HardLink(next) => (layer, path) = (here, inside(next)?),
                    What::Link(next) => return self.follow(folder, next, trail),
                    What::Directory | What::Other(_) => return Ok(Found::Nothing),
                },
                _ if level > layer => level = layer,
                _ => match at {
                    At::Unknown(path) => return Ok(Found::Unknown(level, path)),
                    At::Path(_) | At::Nothing => return Ok(Found::Nothing),
                },
            }
        }
    }

    /// Where a path leads in a view, from a directory in it. As for a process in a container, `..` of the root is the root, and so
    /// nothing is outside. For the target of a hard link `named_by` is its layer: a link at the end is the target itself, and links of
    /// later layers were not there.
    fn locate(
        &self,
        level: usize,
        folder: &str,
        target: &str,
        named_by: Option<usize>,
        trail: &mut Trail<'_>,
    ) -> Result<At, OverlayError> {
        let empty = View::default();
        let view = self.views.get(&level).unwrap_or(&empty);
        let mut at = if target.starts_with('/') { String::new() } else { folder.to_owned() };
        let mut parts: Vec<String> = target.rsplit('/').map(str::to_owned).collect();
        while let Some(part) = parts.pop() {
            self.step()?;
            if matches!(part.as_str(), "" | ".") {
                continue;
            }
            if part == ".." {
                at = at.rsplit_once('/').map(|(above, _)| above.to_owned()).unwrap_or_default();
                continue;
            }
            let next = join(&at, &part);
            let is_last = parts.iter().all(|part| matches!(part.as_str(), "" | "."));
            let known = if is_last { view.knows_content(&next) } else { view.knows(&next) };
            match view.at(&next) {
                Some((later, What::Link(_))) if !is_last && named_by.is_some_and(|layer| layer < later) => {
                    return Ok(At::Nothing);
                }
                Some((_, What::Link(target))) if !is_last || named_by.is_none() => {
                    trail.next()?;
                    if target.starts_with('/') {
                        at.clear();
                    }
                    parts.extend(target.rsplit('/').map(str::to_owned));
                }
                Some((_, What::Directory)) if !is_last => at = next,
                found if known && is_last => return Ok(found.map_or(At::Nothing, |_| At::Path(next))),
                _ if known => return Ok(At::Nothing),
                // With the rest of the path, unless that leads back up: then it matters what is there.
                _ => {
                    let rest = parts.iter().rev().take_while(|part| *part != "..");
                    let rest = rest.filter(|part| !matches!(part.as_str(), "" | "."));
                    return Ok(At::Unknown(rest.fold(next, |path, part| join(&path, part))));
                }
            }
        }
        let known = view.knows_content(&at);
        Ok(if known { At::Path(at) } else { At::Unknown(at) })
    }

    fn step(&self) -> Result<(), OverlayError> {
        self.steps.set(self.steps.get() + 1);
        if self.steps.get() > MAX_STEPS { Err(OverlayError::Tangled) } else { Ok(()) }
    }
}

impl Walk<'_> {
    fn skip(&mut self, note: String) {
        self.summary.skipped_count += 1;
        if self.summary.skipped.len() < MAX_NOTES {
            self.summary.skipped.push(note);
        }
    }
}
