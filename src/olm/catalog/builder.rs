//! Reads a catalog: takes its documents in any order, and makes an index of the packages that can be served, and a list of what is
//! wrong with the others.

use super::assemble::Assembly;
use super::collected::{Collected, Raw};
use super::decode::Decoded;
use super::fault::{Fault, Reason, Rules, short};
use super::faults::{Faults, MAX_KEPT, Place};
use super::index::Index;
use super::strings::{Order, StringId};
use super::validate::Group;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io::{self, Write};

/// Bytes that names and small properties of a catalog may take in memory. The largest known one needs a fifth.
pub(crate) const MAX_SIZE: usize = 48 << 20;
/// Files of a catalog.
pub(crate) const MAX_FILES: usize = 200_000;

/// Why a catalog cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    #[error("cannot write the data of the catalog: {0}")]
    Write(#[from] io::Error),
    #[error("its names and properties take more than {MAX_SIZE} bytes, so it is not served; split the catalog")]
    TooMuch,
    #[error("it has more than {MAX_FILES} files, so it is not served; split the catalog")]
    TooManyFiles,
}

/// A catalog that is being read. What is large goes to a data file at once.
#[derive(Debug)]
pub struct CatalogBuilder<W> {
    data: W,
    collected: Collected,
}

/// A file of a catalog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileId(u32);

/// A catalog that was read.
#[derive(Debug)]
pub struct Catalog<W> {
    pub index: Index,
    pub data: W,
    pub files: usize,
    /// By file and line; not all, if there are many.
    pub faults: Vec<Fault>,
    pub fault_count: usize,
    /// What is wrong with packages that are served all the same, by file and line; not all, if there are many.
    pub notes: Vec<Fault>,
    /// Packages that are not served, by name; not all, if there are many.
    pub sick: Vec<Sick>,
    pub sick_count: usize,
}

/// A package that is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sick {
    pub package: String,
    pub faults: usize,
}

impl<W: Write> CatalogBuilder<W> {
    pub fn new(data: W) -> Self {
        CatalogBuilder::by(Rules::Files, data)
    }

    pub fn by(rules: Rules, data: W) -> Self {
        let mut collected = Collected::default();
        collected.faults.rules = rules;
        CatalogBuilder { data, collected }
    }

    /// A file of the catalog by its path, with `/` between its parts.
    pub fn file(&mut self, path: String) -> Result<FileId, CatalogError> {
        let files = &mut self.collected.files;
        let id = u32::try_from(files.len()).ok().filter(|_| files.len() < MAX_FILES);
        files.push(path);
        id.map(FileId).ok_or(CatalogError::TooManyFiles)
    }

    /// The file, or the rest of it from a line on, cannot be read. Line 0 is the whole file.
    pub fn unreadable(&mut self, file: FileId, line: usize, reason: Reason) {
        self.collected.fault(Place { file: file.0, line: u32::try_from(line).unwrap_or(u32::MAX) }, reason);
    }

    /// Adds a document of a file.
    pub fn add(&mut self, file: FileId, decoded: Decoded<'_>) -> Result<(), CatalogError> {
        self.collected.add(file.0, decoded, &mut self.data)?;
        if self.collected.size() > MAX_SIZE { Err(CatalogError::TooMuch) } else { Ok(()) }
    }

    /// Judges the packages, and makes the index of those that can be served.
    pub fn finish(mut self) -> Result<Catalog<W>, CatalogError> {
        self.data.flush()?;
        let mut all = self.collected;
        let order = all.strings.order();
        sort(&mut all, &order);
        let mut faults = std::mem::take(&mut all.faults);
        judge_unread(&all, &mut faults);
        let mut assembly = Assembly::new(&all);
        for group in groups(&all, &order) {
            if !faults.incomplete.contains(&group.package) {
                group.faults(&mut |(place, blob, reason)| {
                    faults.add(&all.strings, &all.files, (place, blob, group.package, reason));
                });
            }
            if !faults.sick.contains_key(&group.package) {
                assembly.add(&group);
            }
        }
        let index = assembly.finish(&order, |package| faults.sick.contains_key(&package));
        let mut sick: Vec<(StringId, usize)> = faults.sick.into_iter().collect();
        sick.sort_unstable_by_key(|(package, _)| order.rank(*package));
        let name =
            |(package, faults): &(StringId, usize)| Sick { package: short(all.strings.get(*package)), faults: *faults };
        for told in [&mut faults.kept, &mut faults.notes] {
            told.sort_by(|one, other| (&one.file, one.line).cmp(&(&other.file, other.line)));
        }
        Ok(Catalog {
            index,
            data: self.data,
            files: all.files.len(),
            faults: faults.kept,
            fault_count: faults.count,
            notes: faults.notes,
            sick_count: sick.len(),
            sick: sick.iter().take(MAX_KEPT).map(name).collect(),
        })
    }
}

/// By package, name and place.
fn sort(all: &mut Collected, order: &Order) {
    fn by<T: Raw>(rows: &mut [T], order: &Order) {
        rows.sort_unstable_by_key(|row| {
            let (package, name, place) = row.key();
            (order.rank(package), order.rank(name), place)
        });
    }
    by(&mut all.packages, order);
    by(&mut all.channels, order);
    by(&mut all.bundles, order);
    by(&mut all.deprecations, order);
}

/// Package and place of each blob that names a package.
fn blobs(all: &Collected) -> impl Iterator<Item = (StringId, Place)> {
    fn of<T: Raw>(rows: &[T]) -> impl Iterator<Item = (StringId, Place)> {
        rows.iter().map(|row| (row.key().0, row.key().2))
    }
    let known = of(&all.packages).chain(of(&all.channels)).chain(of(&all.bundles)).chain(of(&all.deprecations));
    let custom = all.custom.iter().map(|(place, row)| (row.package, *place));
    known.chain(custom).filter(|(package, _)| !package.is_empty())
}

/// What a file says that was not read as a whole may be about any package. Those are not served that other blobs of that file are
/// about, or, if there are none, blobs of files in its folder.
fn judge_unread(all: &Collected, faults: &mut Faults) {
    fn folder(file: &str) -> &str {
        file.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
    let path = |file: u32| all.files.get(file as usize).map(String::as_str).unwrap_or_default();
    let unread = std::mem::take(&mut faults.unread);
    let in_file: HashSet<u32> =
        blobs(all).map(|(_, place)| place.file).filter(|file| unread.contains_key(file)).collect();
    let folders: HashMap<&str, u32> =
        unread.keys().filter(|file| !in_file.contains(file)).map(|file| (folder(path(*file)), *file)).collect();
    let mut known = HashSet::new();
    for (package, place) in blobs(all) {
        let file = match unread.contains_key(&place.file) {
            true => place.file,
            false => match folders.get(folder(path(place.file))) {
                Some(file) => *file,
                None => continue,
            },
        };
        if known.insert((package, file)) {
            let line = unread.get(&file).copied().unwrap_or_default();
            let reason = Reason::FileNotRead { line: line as usize };
            faults.add(&all.strings, &all.files, (Place { file, line }, String::new(), package, reason));
            faults.incomplete.insert(package);
        }
    }
}

/// The blobs of each package, by its name.
fn groups<'a>(all: &'a Collected, order: &'a Order) -> impl Iterator<Item = Group<'a>> {
    fn next<'a, T: Raw>(rows: &mut &'a [T], package: StringId) -> &'a [T] {
        let end = rows.iter().take_while(|row| row.key().0 == package).count();
        let (now, later) = rows.split_at(end);
        *rows = later;
        now
    }
    let ranks: BTreeSet<(u32, StringId)> = blobs(all).map(|(id, _)| (order.rank(id), id)).collect();
    let (mut packages, mut channels) = (all.packages.as_slice(), all.channels.as_slice());
    let (mut bundles, mut deprecations) = (all.bundles.as_slice(), all.deprecations.as_slice());
    let group = move |(_, package)| Group {
        all,
        package,
        packages: next(&mut packages, package),
        channels: next(&mut channels, package),
        bundles: next(&mut bundles, package),
        deprecations: next(&mut deprecations, package),
    };
    ranks.into_iter().map(group).filter(|group| !group.package.is_empty())
}

#[cfg(test)]
pub(crate) mod tests;
