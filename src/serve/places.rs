//! The connections that one server serves at once.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use tokio_util::sync::CancellationToken;

/// Connections served at once, where nothing else is said.
pub(super) const MAX_CONNECTIONS: usize = 64;

/// The connections that are served, oldest first. There is always a place for the next one: of the address that has most
/// of them the oldest must go, so that who opens many connections keeps nobody else from being served.
#[derive(Debug)]
pub(crate) struct Places {
    most: usize,
    taken: VecDeque<Place>,
    next: u64,
}

#[derive(Debug)]
struct Place {
    number: u64,
    peer: IpAddr,
    given_up: CancellationToken,
}

impl Default for Places {
    fn default() -> Self {
        Places::new(MAX_CONNECTIONS)
    }
}

impl Places {
    /// For so many connections at once.
    pub(crate) fn new(most: usize) -> Self {
        Places { most, taken: VecDeque::new(), next: 0 }
    }

    /// A place for a new connection, and what tells it to give the place up again.
    pub(crate) fn take(&mut self, peer: IpAddr) -> (u64, CancellationToken) {
        while self.taken.len() >= self.most {
            if let Some(oldest) = self.most_of_one_peer().and_then(|position| self.taken.remove(position)) {
                oldest.given_up.cancel();
            }
        }
        let (number, given_up) = (self.next, CancellationToken::new());
        self.next += 1;
        self.taken.push_back(Place { number, peer, given_up: given_up.clone() });
        (number, given_up)
    }

    /// The oldest connection of the address with most connections.
    fn most_of_one_peer(&self) -> Option<usize> {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for place in &self.taken {
            *counts.entry(place.peer).or_default() += 1;
        }
        let most = counts.values().max()?;
        self.taken.iter().position(|place| counts.get(&place.peer) == Some(most))
    }

    pub(crate) fn leave(&mut self, number: u64) {
        self.taken.retain(|place| place.number != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

    #[test]
    fn newest_connection_gets_the_place_of_the_oldest() {
        let mut places = Places::default();
        let first: Vec<_> = (0..MAX_CONNECTIONS).map(|_| places.take(A)).collect();
        assert!(first.iter().all(|(_, given_up)| !given_up.is_cancelled()));
        places.leave(first[0].0);
        let (_, replacing_nobody) = places.take(A);
        assert!(!first[1].1.is_cancelled(), "there was a place");
        let (_, newest) = places.take(A);
        assert!(first[1].1.is_cancelled() && !first[2].1.is_cancelled());
        assert!(!replacing_nobody.is_cancelled() && !newest.is_cancelled());
        assert_eq!(places.taken.len(), MAX_CONNECTIONS);
    }

    #[test]
    fn address_with_most_connections_makes_room() {
        let mut places = Places::default();
        let (_, of_b) = places.take(B);
        let of_a: Vec<_> = (1..MAX_CONNECTIONS).map(|_| places.take(A).1).collect();
        for _ in 0..MAX_CONNECTIONS {
            let (place, given_up) = places.take(A);
            assert!(!given_up.is_cancelled());
            assert!(!of_b.is_cancelled(), "it is older than all others");
            places.leave(place);
        }
        assert!(of_a[0].is_cancelled() && !of_a[1].is_cancelled(), "one had to go for each that was there at once");
    }
}
