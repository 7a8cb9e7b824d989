//! Lets writes below a root fail in tests.

use rustix::io::Errno;
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
pub(crate) struct Faults(Mutex<Fault>);

impl Faults {
    pub(crate) fn set(&self, fault: Fault) {
        *self.0.lock().unwrap() = fault;
    }

    /// Whether the one failure that was set is still to come.
    pub(crate) fn is_pending(&self) -> bool {
        matches!(*self.0.lock().unwrap(), Fault::Once(_))
    }

    pub(super) fn check(&self) -> Result<(), Errno> {
        let mut fault = self.0.lock().unwrap();
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
