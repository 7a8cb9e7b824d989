//! Folds the risks of an update, one after the other, into status and reason of its condition `Recommended`.

/// What one risk asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Want {
    /// It applies, and the administrator accepts that.
    Accepted,
    Unknown,
    /// It applies; its name cannot be a reason.
    Exposed,
    /// It applies; its name is the reason.
    Named(String),
}

impl Want {
    /// A risk that applies and is not accepted.
    pub(super) fn of_risk(name: &str) -> Want {
        if is_reason(name) { Want::Named(name.to_owned()) } else { Want::Exposed }
    }
}

/// Whether the API server accepts a text as the reason of a condition.
fn is_reason(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || "_,:".contains(c);
    text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(inner)
        && !text.ends_with([',', ':'])
        && text.len() <= 1024
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Reason {
    #[default]
    NotExposed,
    Risk(Want),
    Multiple,
}

/// The status and the reason so far. It begins with an update that no risk applies to.
#[derive(Clone, Debug, Default)]
pub(super) struct Fold {
    reason: Reason,
    unknown: bool,
    refused: bool,
}

impl Fold {
    /// False is stronger than Unknown, and Unknown than True. A reason that names one risk stays only while no other risk
    /// asks for anything else.
    pub(super) fn add(&mut self, want: Want) {
        use Want::{Accepted, Exposed, Named, Unknown};
        self.unknown |= want == Unknown;
        self.refused |= matches!(want, Exposed | Named(_));
        let now = std::mem::take(&mut self.reason);
        self.reason = match (now, want) {
            (Reason::NotExposed, want) | (Reason::Risk(Accepted), want) => Reason::Risk(want),
            (Reason::Risk(Unknown), Exposed) => Reason::Risk(Exposed),
            (Reason::Risk(Unknown | Exposed), Named(_)) => Reason::Multiple,
            (Reason::Risk(now @ (Unknown | Exposed)), _) => Reason::Risk(now),
            (Reason::Risk(Named(now)), Named(want)) if now == want => Reason::Risk(Named(now)),
            (Reason::Risk(Named(_)) | Reason::Multiple, _) => Reason::Multiple,
        };
    }

    pub(super) fn status(&self) -> &'static str {
        match (self.refused, self.unknown) {
            (true, _) => "False",
            (false, true) => "Unknown",
            (false, false) => "True",
        }
    }

    pub(super) fn reason(&self) -> &str {
        match &self.reason {
            Reason::NotExposed => "NotExposedToRisks",
            Reason::Risk(Want::Accepted) => super::RISKS_ACCEPTED,
            Reason::Risk(Want::Unknown) => "EvaluationFailed",
            Reason::Risk(Want::Exposed) => "ExposedToRisks",
            Reason::Risk(Want::Named(name)) => name,
            Reason::Multiple => "MultipleReasons",
        }
    }

    /// Whether any risk applies or may apply.
    pub(super) fn is_exposed(&self) -> bool {
        self.reason != Reason::NotExposed
    }
}

#[cfg(test)]
mod tests;
