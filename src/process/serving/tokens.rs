//! What is known of bearer tokens, by their hashes, and how many unknown ones the API server is asked about.

use crate::process::serving::METRICS_AUDIENCE;
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
/// How long after a good token another one of its account, as it says itself, is reviewed whatever others do: the token of a pod
/// is replaced every 48 minutes.
const ACCOUNT_FOR: Duration = Duration::from_secs(3600);
/// The period in which unknown tokens are counted.
const PERIOD: Duration = Duration::from_secs(60);
/// Unknown tokens in a period, of one address and of all.
const UNKNOWN_OF_ONE: usize = 10;
const UNKNOWN: usize = 60;
/// Beside them those of one account that had a good one, from the same address. Anybody may write that account into a token.
const UNKNOWN_OF_ACCOUNT: usize = 5;

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

/// A token and who sends it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bearer {
    token: Hash,
    /// Issuer and subject, if the token names both. Whether that is true is for the API server to say.
    account: Option<Hash>,
    address: IpAddr,
}

impl Bearer {
    pub(super) fn of(token: &str, address: IpAddr) -> Bearer {
        let claims = claims(token).unwrap_or_default();
        let named = |claim: &str| claims.get(claim).and_then(Value::as_str);
        let account = named("iss").zip(named("sub")).map(|(issuer, subject)| hash(&format!("{issuer}\0{subject}")));
        Bearer { token: hash(token), account, address }
    }
}

fn hash(text: &str) -> Hash {
    Sha256::digest(text.as_bytes()).into()
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
    Timestamp::from_second(claims(token)?.get("exp")?.as_i64()?).ok()
}

/// Whether a token says that it is for the metrics alone. Whether that is true is for the API server to say.
pub(super) fn is_for_metrics(token: &str) -> bool {
    let claims = claims(token).unwrap_or_default();
    let audiences = claims.get("aud").and_then(Value::as_array).into_iter().flatten();
    audiences.filter_map(Value::as_str).any(|audience| audience == METRICS_AUDIENCE)
}

fn claims(token: &str) -> Option<Value> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    serde_json::from_slice(&claims).ok()
}

/// Verdicts and counts. What is kept is bounded by the number of tokens that are asked about in a period, and by that of the
/// accounts that may read metrics.
#[derive(Debug, Default)]
pub(super) struct Tokens {
    verdicts: HashMap<Hash, (Verdict, Instant)>,
    /// Of each account with a good token, from one address: until when it counts, and how many of its tokens have been asked
    /// about in this period.
    accounts: HashMap<(IpAddr, Hash), (Instant, usize)>,
    /// How many tokens of each address have been asked about in this period.
    asked: HashMap<IpAddr, usize>,
    period_ends: Option<Instant>,
}

impl Tokens {
    /// If the answer is to ask, it counts as asked.
    pub(super) fn look(&mut self, bearer: &Bearer, now: Instant) -> Known {
        if let Some((verdict, until)) = self.verdicts.get(&bearer.token) {
            if now < *until {
                return Known::Verdict(verdict.clone());
            }
            if verdict.0.is_ok() && now < *until + REMEMBERED_FOR {
                return Known::Ask;
            }
        }
        if self.period_ends.is_none_or(|end| end <= now) {
            self.asked.clear();
            self.accounts.retain(|_, (until, _)| now < *until);
            self.accounts.values_mut().for_each(|(_, asked)| *asked = 0);
            self.period_ends = Some(now + PERIOD);
        }
        let account = bearer.account.and_then(|account| self.accounts.get_mut(&(bearer.address, account)));
        if let Some((until, asked)) = account
            && now < *until
            && *asked < UNKNOWN_OF_ACCOUNT
        {
            *asked += 1;
            return Known::Ask;
        }
        if self.asked.values().sum::<usize>() >= UNKNOWN
            || self.asked.get(&bearer.address).is_some_and(|n| *n >= UNKNOWN_OF_ONE)
        {
            return Known::TooMany;
        }
        *self.asked.entry(bearer.address).or_default() += 1;
        Known::Ask
    }

    /// A verdict that counts until then. Those that do not any more are forgotten.
    pub(super) fn keep(&mut self, bearer: &Bearer, verdict: Verdict, until: Instant) {
        let now = Instant::now();
        self.verdicts.retain(|_, (verdict, until)| {
            now < *until + if verdict.0.is_ok() { REMEMBERED_FOR } else { Duration::ZERO }
        });
        if let Some(account) = bearer.account.filter(|_| verdict.0.is_ok()) {
            self.accounts.entry((bearer.address, account)).or_insert((now, 0)).0 = now + ACCOUNT_FOR;
        }
        self.verdicts.insert(bearer.token, (verdict, until));
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
        let (good, bad) = (Bearer::of("good", A), Bearer::of("bad", A));
        assert_eq!(tokens.look(&good, now), Known::Ask);
        tokens.keep(&good, Verdict(Ok(())), now + ALLOWED_FOR);
        tokens.keep(&bad, refused(), now + REFUSED_FOR);
        assert_eq!(tokens.look(&good, now + ALLOWED_FOR - SECOND), Known::Verdict(Verdict(Ok(()))));
        assert_eq!(tokens.look(&bad, now + REFUSED_FOR - SECOND), Known::Verdict(refused()));
        assert_eq!(tokens.look(&good, now + ALLOWED_FOR), Known::Ask);
        assert_eq!(tokens.look(&bad, now + REFUSED_FOR), Known::Ask);
    }

    #[test]
    fn unknown_tokens_are_limited_and_keep_no_known_one_out() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        let good = Bearer::of("good", A);
        tokens.keep(&good, Verdict(Ok(())), now);
        let unknown = |number: usize, address: IpAddr| Bearer::of(&number.to_string(), address);
        for number in 0..UNKNOWN_OF_ONE {
            assert_eq!(tokens.look(&unknown(number, A), now), Known::Ask);
        }
        assert_eq!(tokens.look(&unknown(99, A), now), Known::TooMany);
        assert_eq!(tokens.look(&good, now + SECOND), Known::Ask, "its verdict has expired, but it was good");
        for number in 0..u8::MAX {
            let address = IpAddr::from([10, 0, 1, number]);
            let expected = if usize::from(number) < UNKNOWN - UNKNOWN_OF_ONE { Known::Ask } else { Known::TooMany };
            assert_eq!(tokens.look(&unknown(99, address), now), expected);
        }
        assert!(tokens.asked.len() <= UNKNOWN);
        assert_eq!(tokens.look(&unknown(99, A), now + PERIOD), Known::Ask, "in the next period");
        assert_eq!(tokens.look(&good, now + REMEMBERED_FOR), Known::Ask);
        assert_eq!(tokens.asked.values().sum::<usize>(), 1, "one that was good long ago counts as unknown");
    }

    /// As the token of a pod is replaced while somebody else, at the same address too, sends one unknown token after the other.
    #[test]
    fn next_token_of_an_account_that_had_a_good_one_is_reviewed() {
        let (mut tokens, now) = (Tokens::default(), Instant::now());
        let other = IpAddr::from([10, 0, 0, 2]);
        let of = |account: &str, number: usize, address: IpAddr| {
            Bearer::of(&token(&format!("{{\"iss\":\"i\",\"sub\":\"{account}\",\"jti\":{number}}}")), address)
        };
        tokens.keep(&of("prometheus", 0, A), Verdict(Ok(())), now);
        tokens.keep(&of("refused", 0, A), refused(), now);
        for number in 0..=u8::MAX {
            let _counted = tokens.look(&Bearer::of("x", IpAddr::from([10, 0, 1, number])), now);
        }
        for number in 1..=UNKNOWN_OF_ACCOUNT {
            assert_eq!(tokens.look(&of("prometheus", number, A), now), Known::Ask, "{number}");
        }
        for (unknown, why) in [
            (of("prometheus", 99, A), "no more than so many"),
            (of("prometheus", 99, other), "of another address"),
            (of("refused", 99, A), "never had a good one"),
            (Bearer::of("opaque", A), "names no account"),
        ] {
            assert_eq!(tokens.look(&unknown, now), Known::TooMany, "{why}");
        }
        let later = now + PERIOD;
        assert_eq!(tokens.look(&of("prometheus", 100, A), later), Known::Ask);
        assert_eq!(tokens.asked.len(), 0, "beside the others");
        assert_eq!(tokens.look(&of("prometheus", 101, A), now + 2 * ACCOUNT_FOR), Known::Ask);
        assert_eq!((tokens.asked.len(), tokens.accounts.len()), (1, 0), "it was forgotten, and counts as unknown");
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
