//! The faults of a catalog that is being read, and which packages they keep from being served.

use super::fault::{Fault, Reason, Rules, short};
use super::strings::{Interner, StringId};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Faults that are kept. All are counted.
pub(crate) const MAX_KEPT: usize = 1000;
/// Faults of one package that are kept, so that one does not hide those of the others.
const MAX_OF_PACKAGE: usize = 100;

/// Where a blob begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// A number of a file.
    pub file: u32,
    /// From 1; 0 for the file as a whole.
    pub line: u32,
}

/// All that was found.
#[derive(Debug, Default)]
pub(super) struct Faults {
    pub rules: Rules,
    /// What the rules tolerate. There may be more.
    pub notes: Vec<Fault>,
    pub kept: Vec<Fault>,
    pub count: usize,
    /// Packages with faults, and how many.
    pub sick: HashMap<StringId, usize>,
    /// Packages of which a blob could not be read, so that what is missing of them proves nothing.
    pub incomplete: HashSet<StringId>,
    /// Files that were not read as a whole, and the first line of those that nobody understands.
    pub unread: BTreeMap<u32, u32>,
}

impl Faults {
    /// Adds a fault, or a note of what is tolerated. Without a package the file counts as not read, because it may say something of any package.
    pub(super) fn add(&mut self, strings: &Interner, files: &[String], fault: (Place, String, StringId, Reason)) {
        let (place, blob, package, reason) = fault;
        let fault = |blob, reason| Fault {
            file: files.get(place.file as usize).cloned().unwrap_or_default(),
            line: place.line as usize,
            blob,
            package: short(strings.get(package)),
            reason,
        };
        if self.rules.tolerate(&reason) {
            if self.notes.len() < MAX_KEPT {
                self.notes.push(fault(blob, reason));
            }
            return;
        }
        self.count += 1;
        let of_package = match package.is_empty() {
            true => {
                let first = self.unread.entry(place.file).or_insert(place.line);
                *first = place.line.min(*first);
                &mut 0
            }
            false => self.sick.entry(package).or_default(),
        };
        *of_package += 1;
        if self.kept.len() < MAX_KEPT && *of_package <= MAX_OF_PACKAGE {
            self.kept.push(fault(blob, reason));
        }
    }
}
