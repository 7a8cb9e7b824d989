//! The certificate that packages are served with, and the authority that signs it. Both are kept in a Secret, and the API server is
//! told of the authority. An authority is known to the API server before it is used.

use jiff::{SignedDuration, Timestamp};

/// A new certificate is made when the last one is valid for less than this.
pub(crate) const RENEW_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 120);
/// How long one is valid, in days.
pub(crate) const CERTIFICATE_DAYS: i64 = 365;
/// A new authority is made when the last one is valid for less than this: longer than any certificate that it signs.
pub(crate) const RENEW_AUTHORITY_BEFORE: SignedDuration = SignedDuration::from_hours(24 * 730);
/// How long one is valid, in days.
pub(crate) const AUTHORITY_DAYS: i64 = 3650;

/// What is in the Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stored {
    /// It has not been read.
    Unknown,
    Absent,
    /// Nobody can be served with it.
    Unusable {
        cause: String,
        version: String,
    },
    Usable(Usable),
}

/// What can be served with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Usable {
    /// PEM: the present authority, and perhaps the one before.
    pub authorities: String,
    /// Until when the certificate and the present authority are valid.
    pub certificate_until: Timestamp,
    pub authority_until: Timestamp,
    /// The resourceVersion.
    pub version: String,
}

/// What the API server is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// It has not been read, or does not exist.
    Unknown,
    /// Another Service answers for packages.
    Other,
    /// PEM; empty if there is none.
    Bundle(String),
}

/// What the holder of the lease does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A new authority, and a certificate signed by it. The API server is told of it first, beside `before`, if there is anybody
    /// who has been served by the one before.
    Make {
        before: String,
        version: Option<String>,
    },
    /// A new certificate, signed by the authority that there is.
    Sign {
        version: String,
    },
    /// The API server is told of these authorities.
    Tell(String),
    None,
}

pub(crate) fn next(stored: &Stored, told: &Told, now: Timestamp) -> Action {
    let usable = match stored {
        Stored::Unknown => return Action::None,
        Stored::Absent => return Action::Make { before: String::new(), version: None },
        Stored::Unusable { version, .. } => {
            return Action::Make { before: String::new(), version: Some(version.clone()) };
        }
        Stored::Usable(usable) => usable,
    };
    let left = |until: Timestamp| until.duration_since(now);
    if left(usable.authority_until) < RENEW_AUTHORITY_BEFORE {
        return Action::Make { before: usable.authorities.clone(), version: Some(usable.version.clone()) };
    }
    match told {
        Told::Bundle(bundle) if *bundle != usable.authorities => Action::Tell(usable.authorities.clone()),
        _ if left(usable.certificate_until) < RENEW_BEFORE => Action::Sign { version: usable.version.clone() },
        _ => Action::None,
    }
}

/// The first certificate of a bundle, PEM.
pub(crate) fn first(bundle: &str) -> Option<&str> {
    const END: &str = "-----END CERTIFICATE-----\n";
    let end = bundle.find(END)? + END.len();
    bundle.get(..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Timestamp {
        "2026-03-01T00:00:00Z".parse().unwrap()
    }

    fn days(days: i64) -> Timestamp {
        now() + SignedDuration::from_hours(24 * days)
    }

    fn usable(certificate: i64, authority: i64) -> Stored {
        Stored::Usable(Usable {
            authorities: "A".into(),
            certificate_until: days(certificate),
            authority_until: days(authority),
            version: "7".into(),
        })
    }

    #[test]
    fn one_is_made_where_there_is_none_that_can_be_used() {
        let make = |version: Option<&str>| Action::Make { before: String::new(), version: version.map(String::from) };
        for told in [Told::Unknown, Told::Other, Told::Bundle(String::new())] {
            assert_eq!(next(&Stored::Unknown, &told, now()), Action::None);
            assert_eq!(next(&Stored::Absent, &told, now()), make(None));
            let unusable = Stored::Unusable { cause: "x".into(), version: "5".into() };
            assert_eq!(next(&unusable, &told, now()), make(Some("5")));
        }
    }

    #[test]
    fn api_server_is_told_of_the_authority_before_anything_else_is_signed() {
        let told = |bundle: &str| Told::Bundle(bundle.to_owned());
        assert_eq!(next(&usable(365, 3650), &told(""), now()), Action::Tell("A".into()));
        assert_eq!(next(&usable(1, 3650), &told("B"), now()), Action::Tell("A".into()));
        assert_eq!(next(&usable(365, 3650), &told("A"), now()), Action::None);
        for told in [Told::Unknown, Told::Other] {
            assert_eq!(next(&usable(365, 3650), &told, now()), Action::None, "{told:?} is left alone");
        }
    }

    #[test]
    fn certificate_is_renewed_in_time_by_the_same_authority() {
        let told = Told::Bundle("A".to_owned());
        assert_eq!(next(&usable(121, 3650), &told, now()), Action::None);
        for left in [119, 0, -10] {
            assert_eq!(next(&usable(left, 3650), &told, now()), Action::Sign { version: "7".into() }, "{left}");
        }
    }

    #[test]
    fn next_authority_comes_beside_the_last_one() {
        let told = Told::Bundle("A".to_owned());
        assert_eq!(next(&usable(365, 731), &told, now()), Action::None);
        let make = Action::Make { before: "A".into(), version: Some("7".into()) };
        assert_eq!(next(&usable(365, 729), &told, now()), make);
    }
}
