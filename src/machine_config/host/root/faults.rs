//! Lets writes below a root fail in tests, and lets somebody else be faster.

use super::Place;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::path::PathBuf;
use std::sync::Mutex;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Fault {
    #[default]
    None,
    /// The write after so many others fails, and only that one.
    Once(usize),
    /// So many writes are made, and no other: the process was killed.
    Killed(usize),
}

#[derive(Debug, Default)]
pub(crate) struct Faults {
    next: Mutex<Fault>,
    /// What a link leads to that the user of the folder around puts in the place of the next folder that is made.
    link: Mutex<Option<PathBuf>>,
}

impl Faults {
    pub(crate) fn set(&self, fault: Fault) {
        *self.next.lock().unwrap() = fault;
    }

    pub(crate) fn exchange_for_link(&self, to: PathBuf) {
        *self.link.lock().unwrap() = Some(to);
    }

    pub(super) fn exchange(&self, made: &Place<'_>) {
        if let Some(to) = self.link.lock().unwrap().take() {
            rustix::fs::unlinkat(&made.folder, made.name, AtFlags::REMOVEDIR).unwrap();
            rustix::fs::symlinkat(to, &made.folder, made.name).unwrap();
        }
    }

    /// Whether the one failure that was set is still to come.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(*self.next.lock().unwrap(), Fault::Once(_))
    }

    pub(super) fn check(&self) -> Result<(), Errno> {
        let mut fault = self.next.lock().unwrap();
        let (next, result) = match *fault {
            Fault::None => (Fault::None, Ok(())),
            Fault::Once(0) => (Fault::None, Err(Errno::NOSPC)),
            Fault::Killed(0) => (Fault::Killed(0), Err(Errno::NOSPC)),
            Fault::Once(left) => (Fault::Once(left - 1), Ok(())),
            Fault::Killed(left) => (Fault::Killed(left - 1), Ok(())),
        };
        *fault = next;
        result
    }
}
