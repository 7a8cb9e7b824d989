//! What is known of bearer tokens, by their hashes, and how many unknown ones the API server is asked about.

use crate::serve::caller::Refusal;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// How long a token is taken for good, unless it expires before: a token that is revoked gives access for this long at most.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
/// How long a token is taken for bad: a right that is given counts after this long at most.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// A token that was good this long ago or less is reviewed again whatever others do.
const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// The period in which unknown tokens are counted.
const PERIOD: Duration = Duration::from_secs(60);
/// Unknown tokens in a period, of one address and of all.
const UNKNOWN_OF_ONE: usize = 10;
const UNKNOWN: usize = 60;

/// Whether the bearer of a token may read metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Verdict(pub Result<(), Refusal>);

/// What is known of a token.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Known {
    Verdict(Verdict),
    /// Nothing: the API server is to be asked.
    Ask,
    /// Nothing, and the API server has been asked about too many others.
    TooMany,
}

type Hash = [u8; 32];

pub(super) fn hash(token: &str) -> Hash {
    Sha256::digest(token.as_bytes()).into()
}

/// How long a verdict counts.
pub(super) fn lifetime(verdict: &Verdict, token: &str, now: Timestamp) -> Duration {
    if verdict.0.is_err() {
        return REFUSED_FOR;
    }
    let left = expiry(token).map(|at| Duration::try_from(at.duration_since(now)).unwrap_or_default());
    left.map_or(ALLOWED_FOR, |left| left.min(ALLOWED_FOR))
}

/// When a token expires, if it says so. It has been found valid before, so what it says is true.
fn expiry(token: &str) -> Option<Timestamp> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    Timestamp::from_second(claims.get("exp")?.as_i64()?).ok()
}

/// Verdicts and counts. What is kept is bounded by the number of tokens that are asked about in a period.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    verdicts: HashMap<Hash, (Verdict, Instant)>,
    /// How many tokens of each address have been asked about in this period.
    asked: HashMap<IpAddr, usize>,
    period_ends: Option<Instant>,
}

impl Tokens {
    /// If the answer is to ask, it counts as asked.
    pub(super) fn look(&mut self, hash: &Hash, address: IpAddr, now: Instant) -> Known {
        if let Some((verdict, until)) = self.verdicts.get(hash) {
            if now < *until {
                return Known::Verdict(verdict.clone());
            }
            if verdict.0.is_ok() && now < *until + REMEMBERED_FOR {
                return Known::Ask;
            }
        }
        if self.period_ends.is_none_or(|end| end <= now) {
            self.asked.clear();
            self.period_ends = Some(now + PERIOD);
        }
        if self.asked.values().sum::<usize>() >= UNKNOWN
            || self.asked.get(&address).is_some_and(|n| *n >= UNKNOWN_OF_ONE)
        {
            return Known::TooMany;
        }
        *self.asked.entry(address).or_default() += 1;
        Known::Ask
    }

    /// A verdict that counts until then. Those that do not any more are forgotten.
    pub(super) fn keep(&mut self, hash: Hash, verdict: Verdict, until: Instant) {
        let now = Instant::now();
        self.verdicts.retain(|_, (verdict, until)| {
            now < *until + if verdict.0.is_ok() { REMEMBERED_FOR } else { Duration::ZERO }
        });
        self.verdicts.insert(hash, (verdict, until));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const SECOND: Duration = Duration::from_secs(1);

    fn refused() -> Verdict {
        Verdict(Err(Refusal::unauthorized("no")))
    }

    /// A token with these claims, as far as this module reads it.
    fn token(claims: &str) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(claims))
    }

    #[test]
    fn verdict_is_asked_for_once_and_again_after_its_time() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        let (good, bad) = (hash("good"), hash("bad"));
        assert_eq!(tokens.look(&good, A, now), Known::Ask);
        tokens.keep(good, Verdict(Ok(())), now + ALLOWED_FOR);
        tokens.keep(bad, refused(), now + REFUSED_FOR);
        assert_eq!(tokens.look(&good, A, now + ALLOWED_FOR - SECOND), Known::Verdict(Verdict(Ok(()))));
        assert_eq!(tokens.look(&bad, A, now + REFUSED_FOR - SECOND), Known::Verdict(refused()));
        assert_eq!(tokens.look(&good, A, now + ALLOWED_FOR), Known::Ask);
        assert_eq!(tokens.look(&bad, A, now + REFUSED_FOR), Known::Ask);
    }

    #[test]
    fn unknown_tokens_are_limited_and_keep_no_known_one_out() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        tokens.keep(hash("good"), Verdict(Ok(())), now);
        let unknown = |number: usize| hash(&number.to_string());
        for number in 0..UNKNOWN_OF_ONE {
            assert_eq!(tokens.look(&unknown(number), A, now), Known::Ask);
        }
        assert_eq!(tokens.look(&unknown(99), A, now), Known::TooMany);
        assert_eq!(tokens.look(&hash("good"), A, now + SECOND), Known::Ask, "its verdict has expired, but it was good");
        for number in 0..u8::MAX {
            let address = IpAddr::from([10, 0, 1, number]);
            let expected = if usize::from(number) < UNKNOWN - UNKNOWN_OF_ONE { Known::Ask } else { Known::TooMany };
            assert_eq!(tokens.look(&unknown(99), address, now), expected);
        }
        assert!(tokens.asked.len() <= UNKNOWN);
        assert_eq!(tokens.look(&unknown(99), A, now + PERIOD), Known::Ask, "in the next period");
        assert_eq!(tokens.look(&hash("good"), A, now + REMEMBERED_FOR), Known::Ask);
        assert_eq!(tokens.asked.values().sum::<usize>(), 1, "one that was good long ago counts as unknown");
    }

    #[test]
    fn token_is_never_good_for_longer_than_it_lives() {
        let now: Timestamp = "2026-03-01T00:00:00Z".parse().unwrap();
        let at = |seconds: i64| token(&format!("{{\"exp\":{}}}", now.as_second() + seconds));
        let good = Verdict(Ok(()));
        assert_eq!(lifetime(&good, &at(20), now), Duration::from_secs(20));
        assert_eq!(lifetime(&good, &at(-5), now), Duration::ZERO);
        for token in [at(3600), token("{}"), token("{\"exp\":\"x\"}"), token("{\"exp\":1e99}"), "opaque".to_owned()] {
            assert_eq!(lifetime(&good, &token, now), ALLOWED_FOR, "{token}");
        }
        assert_eq!(lifetime(&refused(), &at(3600), now), REFUSED_FOR);
    }
}
