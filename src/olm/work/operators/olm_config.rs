//! The copies of operators, and what OLMConfig says of them.

use super::OperatorController;
use super::known::Known;
use super::perform::reference;
use super::planned::Planned;
use super::views::Csv;
use crate::olm::api::olm_config;
use crate::olm::operator::copies::{self, Course, Rules, Source, Targets};
use crate::process::events::Notice;
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::time::Instant;

/// The reason of the event of an operator that is not copied.
const NOT_COPIED: &str = olm_config::DISABLED_COPIED_CSVS;

impl OperatorController {
    /// The copies of all operators, and what OLMConfig says of them.
    /// Returns when to look again although nothing has changed.
    pub(super) fn bring_copies(&mut self, known: &Known, at: Instant, now: Timestamp) -> Option<Timestamp> {
        let config = known.config();
        let disabled = known.has_no_copies();
        let is_virtual = self.settings.virtual_copies;
        let rules = Rules { disabled, is_virtual, protected: self.settings.protected.clone() };
        let next = match &self.planned {
            Some(planned) if self.not_copied.is_some() && planned.holds(known, &rules, now) => planned.next(),
            _ => {
                let sources = known.csvs().filter_map(|csv| Some((csv, Source::of(csv, now)?)));
                self.tell_not_copied(sources, &rules);
                let (plan, planned) = Planned::of(known, rules, now);
                let next = planned.next();
                self.copies.set(plan);
                self.planned = Some(planned);
                next
            }
        };
        let Some((config, outstanding)) = config.zip(self.copies.outstanding()) else { return next };
        let before = config.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        if let Some(conditions) = copies::conditions(before, (disabled, outstanding), now) {
            self.perform(at).config(config, &conditions);
        }
        next
    }

    /// Each operator that is not copied any more is told of once. One whose copies are only not written is still seen.
    fn tell_not_copied<'a>(&mut self, sources: impl Iterator<Item = (&'a Csv, Source)>, rules: &Rules) {
        if !rules.disabled {
            self.not_copied = Some(BTreeSet::new());
            return;
        }
        // Those that were not copied when the process began have been told of.
        let before = self.not_copied.take();
        let mut told = BTreeSet::new();
        let mut is_known = true;
        for (csv, source) in
            sources.filter(|(_, source)| source.targets == Targets::All && source.course == Course::Copied)
        {
            let key = (source.namespace.clone(), source.name.clone());
            let is_new = before.as_ref().is_none_or(|before| !before.contains(&source.uid));
            told.insert(source.uid);
            let was_copied = before.is_some().then_some(true).or_else(|| self.copies.has(&key, &rules.protected));
            is_known &= was_copied.is_some();
            if is_new && was_copied == Some(true) {
                let note = format!("CSV copying disabled for {}/{}", key.0, key.1);
                self.events.publish_about(Notice::new(true, NOT_COPIED, &note), reference(csv));
            }
        }
        // Nobody has been told as long as the copies are not known.
        self.not_copied = is_known.then_some(told);
    }
}
