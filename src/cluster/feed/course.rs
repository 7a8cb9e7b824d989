//! How a feed goes on when a watch has ended: in which mode, from where, and after which pause. Decides only.

use crate::cluster::backoff::{jittered, spread};
use crate::cluster::error::ApiError;
use std::time::Duration;

/// How a feed reads its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// A watch of whole objects with initial events.
    Stream,
    /// The same with metadata only: the kind has too many objects that are not tracked.
    Metadata,
    /// A list in pages, then a watch of whole objects: for servers without initial events.
    Pages,
}

/// How a watch ended.
#[derive(Debug)]
pub(super) enum End {
    /// Go on from this resourceVersion.
    From(String),
    /// The time is over: list everything again.
    Relist,
    /// The server does not know any more what happened since.
    Gone,
    /// List everything again in another mode.
    RelistAs(Mode),
    /// With the resourceVersion to go on from, if there is one.
    Failed(ApiError, Option<String>),
}

impl End {
    pub(super) fn error(&self) -> Option<&ApiError> {
        if let End::Failed(error, _) = self { Some(error) } else { None }
    }
}

#[derive(Debug)]
pub(super) struct Ended {
    pub end: End,
    /// How long there was a watch, if there was one.
    pub watched: Option<Duration>,
}

/// When to begin again.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    After(Duration),
    /// As soon as the server is ready again; after the pause if it is ready already.
    Ready(Duration),
    /// When the kind is served again, and after the pause in any case: an extension server has no definition that would tell.
    Served(Duration),
}

/// After so many errors in a row the position of a watch is given up: a server may have lost it without saying so, and then
/// it fails every time.
const POSITION_LOST: u32 = 5;
/// Answers with an error in a row until a kind is read by pages: some servers that do not know initial events answer with an
/// internal server error.
const BY_PAGES: u32 = 2;
/// How long such a kind is read by pages before initial events are asked for again; doubled each time.
const DETOUR: Duration = Duration::from_secs(60);

const LONGEST_PAUSE: Duration = Duration::from_secs(20);
/// A kind that is not served is asked for again after this; doubled each time that nothing has changed.
const NOT_SERVED: Duration = Duration::from_secs(120);
const LONGEST_NOT_SERVED: Duration = Duration::from_secs(1800);

#[derive(Debug)]
pub(super) struct Course {
    relist: Duration,
    pub mode: Mode,
    /// Where the last watch was cut off. Without it everything is read.
    pub from: Option<String>,
    /// How long the next watch lasts at most.
    pub lasts: Duration,
    /// In a row.
    failures: u32,
    /// Attempts to read everything that were answered with an error, in a row.
    errors: u32,
    detour: Duration,
    /// The last watch ended because the server did not know its position.
    gone: bool,
    /// How often the kind has been waited for, in a row.
    not_served: u32,
}

impl Course {
    pub(super) fn new(relist: Duration) -> Course {
        // All feeds start at the same time; their later lists are spread over the whole period.
        let lasts = spread(relist);
        Course {
            relist,
            mode: Mode::Stream,
            from: None,
            lasts,
            failures: 0,
            errors: 0,
            detour: DETOUR,
            gone: false,
            not_served: 0,
        }
    }

    /// The definition of a kind that was waited for has changed, or the server says that it serves it.
    pub(super) fn changed(&mut self) {
        self.not_served = 0;
    }

    /// `took`: the attempt as a whole.
    pub(super) fn next(&mut self, Ended { end, watched }: Ended, took: Duration) -> Next {
        // A server that ends watches at once must not be asked in a tight loop.
        let lasted = watched.is_some_and(|watched| watched > Duration::from_secs(1));
        self.failures = if lasted { 0 } else { self.failures.saturating_add(1) };
        let was_gone = std::mem::replace(&mut self.gone, matches!(end, End::Gone));
        let read_all = self.from.is_none();
        self.from = None;
        if watched.is_some() {
            self.not_served = 0;
        }
        if watched.is_some() && read_all {
            self.errors = 0;
            if self.mode != Mode::Pages {
                self.detour = DETOUR;
            }
        }
        match end {
            End::RelistAs(mode) => {
                (self.mode, self.failures) = (mode, 0);
                return Next::After(Duration::ZERO);
            }
            End::Relist => self.begin_again(),
            End::Gone => {
                self.begin_again();
                if !was_gone {
                    return Next::After(Duration::ZERO);
                }
            }
            End::From(version) => {
                self.lasts = self.lasts.saturating_sub(took).max(Duration::from_secs(5));
                self.from = Some(version);
            }
            End::Failed(error, position) => return self.failed(&error, position, read_all),
        }
        Next::After(self.pause())
    }

    /// The better way is tried again whenever everything is read again.
    fn begin_again(&mut self) {
        self.lasts = self.relist;
        if self.mode == Mode::Pages {
            self.mode = Mode::Stream;
        }
    }

    fn failed(&mut self, error: &ApiError, position: Option<String>, read_all: bool) -> Next {
        if error.is_not_found() {
            self.mode = Mode::Stream;
            if self.failures >= POSITION_LOST {
                self.failures = 0;
                self.not_served = self.not_served.saturating_add(1);
                return Next::Served(jittered(NOT_SERVED, self.not_served, LONGEST_NOT_SERVED));
            }
            return Next::After(self.pause());
        }
        if error.is_answer() {
            self.not_served = 0;
        }
        self.from = position.filter(|_| !error.is_gone() && self.failures < POSITION_LOST);
        if self.from.is_none() && error.is_answer() {
            self.errors = if read_all { self.errors.saturating_add(1) } else { 0 };
            if self.errors >= BY_PAGES && self.mode != Mode::Pages {
                self.mode = Mode::Pages;
                self.lasts = self.lasts.min(self.detour);
                self.detour = self.detour.saturating_mul(2).min(self.relist);
            } else {
                self.begin_again();
            }
        }
        Next::Ready(self.pause())
    }

    /// 0.2 s doubling, with jitter so that the feeds do not all ask at the same time.
    fn pause(&self) -> Duration {
        match self.failures {
            0 => Duration::ZERO,
            failures => jittered(Duration::from_millis(200), failures, LONGEST_PAUSE),
        }
    }
}

#[cfg(test)]
mod tests;
