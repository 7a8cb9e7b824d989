//! What a process has for a CatalogSource, and what becomes of it when work on it ends. Content that is good goes only when a better
//! one is there.

use super::content::{Content, Subject};
use crate::pause::{doubled, jittered};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// The pause after the first failure, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// The longest pause that a registry may ask for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Subjects whose failures are remembered: what is wanted, and what was served before.
const MOST_SUBJECTS: usize = 4;

/// What is to be done with registries, ConfigMaps and servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Read the catalog in an image.
    Pull {
        /// Perhaps with a digest.
        image: String,
        /// Which content of it; without one, the one that the image names now.
        digest: Option<String>,
        /// The folder of the image with the catalog; if empty, the image says which.
        directory: String,
    },
    /// Ask the registry for the digest that the image has now.
    Ask { image: String },
    /// Read the catalog in a ConfigMap, whose data has this digest.
    ReadConfigMap { name: String, digest: String },
    /// Read the catalog of the server at this address, which is connected since then.
    ReadServer { address: String, connected: Timestamp },
    /// Take what the server at this address answered once, if it is still on disk.
    TakeKept { address: String, digest: String },
}

impl Work {
    pub(crate) fn subject(&self) -> Subject {
        match self {
            Work::Pull { image, .. } | Work::Ask { image } => Subject::Image(image.clone()),
            Work::ReadConfigMap { name, digest } => Subject::ConfigMap(name.clone(), digest.clone()),
            Work::ReadServer { address, .. } => Subject::Server(address.clone()),
            Work::TakeKept { address, digest } => Subject::Kept(address.clone(), digest.clone()),
        }
    }

    /// To read this content, and no other.
    pub(crate) fn read(content: &Content) -> Work {
        match content.clone() {
            Content::Image { image, digest, directory } => Work::Pull { image, digest: Some(digest), directory },
            Content::ConfigMap { name, digest } => Work::ReadConfigMap { name, digest },
            Content::Server { address, digest } => Work::TakeKept { address, digest },
        }
    }
}

/// How work has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The registry has said what the image is now.
    Asked { digest: String },
    /// The content is complete, and is served from now on.
    Loaded { content: Content, notes: String },
    /// The content is there, and is not to be served; it will be the same the next time.
    Refused { content: Content, cause: String },
    /// The image has a server of its own, which alone can read its catalog.
    OnlyServes { digest: String },
    /// It may succeed later.
    Failed { cause: String },
    /// The same: the registry refuses us, or cannot be reached. A node may have other credentials and ways.
    NoAccess { cause: String },
    /// The same, and the registry does not want to be asked before that long.
    Busy { cause: String, wait: Duration },
}

/// What this process has for a CatalogSource. The default has nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Held {
    /// What is served.
    pub loaded: Option<Loaded>,
    /// What the registry has said last to this process.
    pub asked: Option<Asked>,
    /// Since when the server was connected of which the content was read last: what it says may have changed with its next start.
    pub heard: Option<Timestamp>,
    /// An image whose catalog only its own server can read.
    pub only_serves: Option<String>,
    troubles: BTreeMap<Subject, Trouble>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Loaded {
    pub content: Content,
    /// What is to be said of it, such as packages that are not served.
    pub notes: String,
    /// It was read because the holder of the lease had said so, and not because the registry has.
    pub told: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    pub image: String,
    pub digest: String,
    pub at: Timestamp,
}

/// Attempts that have failed, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub cause: String,
    pub first: Timestamp,
    pub last: Timestamp,
    pub count: u32,
    /// For how long the registry does not want to be asked.
    pub wait: Duration,
    /// The registry refuses us, or cannot be reached.
    pub no_access: bool,
    /// The content that was refused, and is not read again; and why.
    pub refused: Option<(Content, String)>,
}

impl Trouble {
    /// When the next attempt may begin. `random`: from 0 to 1.
    pub(crate) fn again(&self, random: f64, now: Timestamp) -> Timestamp {
        // A time that is still to come is that of a clock which was wrong.
        if self.last > now {
            return now;
        }
        let pause = doubled(FIRST_PAUSE, self.count, LONGEST_PAUSE).max(self.wait.min(LONGEST_WAIT));
        let pause = jittered(pause, random);
        self.last.checked_add(pause).unwrap_or(Timestamp::MAX)
    }
}

impl Held {
    pub(crate) fn trouble(&self, subject: &Subject) -> Option<&Trouble> {
        self.troubles.get(subject)
    }

    /// Takes in how the work has ended.
    pub(crate) fn on(&mut self, work: &Work, outcome: Outcome, now: Timestamp) {
        match outcome {
            Outcome::Asked { digest } => {
                self.on_answer(work, &digest, now);
                self.on_asked(work, &digest, now);
            }
            Outcome::Loaded { content, notes } => {
                self.on_answer(work, content.digest(), now);
                let told = matches!(&content, Content::Image { image, .. } if self.digest_of(image).is_none())
                    && matches!(work, Work::Pull { digest: Some(_), .. });
                self.troubles.clear();
                self.loaded = Some(Loaded { content, notes, told });
            }
            Outcome::Refused { content, cause } => {
                self.on_answer(work, content.digest(), now);
                let trouble = self.on_trouble(work, &cause, now);
                trouble.refused = Some((content, cause));
            }
            Outcome::OnlyServes { digest } => {
                self.on_answer(work, &digest, now);
                if let Work::Pull { image, .. } = work {
                    self.only_serves = Some(image.clone());
                }
                self.troubles.remove(&work.subject());
            }
            Outcome::Failed { cause } => _ = self.on_failure(work, &cause, now),
            Outcome::NoAccess { cause } => self.on_failure(work, &cause, now).no_access = true,
            Outcome::Busy { cause, wait } => self.on_failure(work, &cause, now).wait = wait,
        }
    }

    fn on_failure(&mut self, work: &Work, cause: &str, now: Timestamp) -> &mut Trouble {
        let asks = matches!(work, Work::Ask { .. });
        let trouble = self.on_trouble(work, cause, now);
        trouble.refused = trouble.refused.take().filter(|_| asks);
        trouble
    }

    /// Something that failures may have been caused by has changed, such as a password: it is tried again at once.
    pub(crate) fn try_again(&mut self) {
        self.troubles.retain(|_, trouble| trouble.refused.is_some());
    }

    /// What the registry has said last of this image.
    pub(crate) fn digest_of(&self, image: &str) -> Option<&str> {
        self.asked.as_ref().filter(|asked| asked.image == image).map(|asked| asked.digest.as_str())
    }

    /// To read an image by its name asks for its digest as well. One that is named with its digest is always the same.
    fn on_answer(&mut self, work: &Work, digest: &str, at: Timestamp) {
        match work {
            Work::Ask { image } | Work::Pull { image, digest: None, .. } if !image.contains('@') => {
                self.asked = Some(Asked { image: image.clone(), digest: digest.to_owned(), at });
            }
            Work::Pull { digest: None, .. } => self.asked = None,
            Work::ReadServer { connected, .. } => self.heard = Some(*connected),
            _ => {}
        }
    }

    /// What is refused stays so until the image is another one.
    fn on_asked(&mut self, work: &Work, digest: &str, now: Timestamp) {
        let subject = work.subject();
        let trouble = self.troubles.remove(&subject);
        if let Some(Trouble { first, count, refused: Some((content, cause)), .. }) = trouble
            && content.digest() == digest
        {
            let (count, refused) = (count.saturating_add(1), Some((content, cause.clone())));
            let trouble = Trouble { cause, first, last: now, count, wait: Duration::ZERO, no_access: false, refused };
            self.troubles.insert(subject, trouble);
        }
    }

    fn on_trouble(&mut self, work: &Work, cause: &str, now: Timestamp) -> &mut Trouble {
        let subject = work.subject();
        if !self.troubles.contains_key(&subject) && self.troubles.len() >= MOST_SUBJECTS {
            let oldest =
                self.troubles.iter().min_by_key(|(_, trouble)| trouble.last).map(|(subject, _)| subject.clone());
            oldest.map(|oldest| self.troubles.remove(&oldest));
        }
        let new = Trouble {
            cause: String::new(),
            first: now,
            last: now,
            count: 0,
            wait: Duration::ZERO,
            no_access: false,
            refused: None,
        };
        let trouble = self.troubles.entry(subject).or_insert(new);
        trouble.count = trouble.count.saturating_add(1);
        (trouble.wait, trouble.no_access) = (Duration::ZERO, false);
        (trouble.cause, trouble.last) = (cause.to_owned(), now);
        trouble
    }
}

#[cfg(test)]
mod tests;
