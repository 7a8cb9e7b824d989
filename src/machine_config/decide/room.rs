//! Which writes can be begun: one at a time for each object, and not too many together.

use std::collections::BTreeSet;
use std::fmt;

/// Writes that may be under way when one of a node or a MachineConfig begins. More of them would only keep others waiting: those
/// of pools, and the renewal of the lease.
const MOST: usize = 32;

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    Node(String),
    Config(String),
    Pool(String),
    /// The MachineConfigNode of a node.
    NodeObject(String),
    /// The kind and the name of what MachineConfigs are made of.
    Source(&'static str, String),
    Operator,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Node(name) => write!(f, "Node {name}"),
            Key::Config(name) => write!(f, "MachineConfig {name}"),
            Key::Pool(name) => write!(f, "MachineConfigPool {name}"),
            Key::NodeObject(name) => write!(f, "MachineConfigNode {name}"),
            Key::Source(kind, name) => write!(f, "{kind} {name}"),
            Key::Operator => write!(f, "ClusterOperator"),
        }
    }
}

/// What is being written already.
#[derive(Clone, Debug, Default)]
pub struct Room {
    /// How many writes are under way.
    pub under_way: usize,
    /// What is being written, or has to rest after that.
    pub busy: BTreeSet<Key>,
}

impl Room {
    /// Whether a write can begin, which it then has.
    pub(super) fn take(&mut self, key: Key) -> bool {
        let many = matches!(key, Key::Node(_) | Key::Config(_) | Key::NodeObject(_));
        let free = !(many && self.under_way >= MOST) && self.busy.insert(key);
        self.under_way += usize::from(free);
        free
    }

    /// Whether a write may begin that nobody waits for: half of the places are for the others.
    pub(super) fn has_room_for_marks(&self) -> bool {
        self.under_way < MOST / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_leave_half_of_the_places_to_others() {
        let node = |number: usize| Key::Node(number.to_string());
        let mut room = Room { under_way: 1, busy: [node(0)].into() };
        assert!(!room.take(node(0)), "it is being written");
        for number in 1..MOST / 2 {
            assert!(room.has_room_for_marks() && room.take(node(number)));
        }
        assert!(!room.has_room_for_marks());
        let begun = (MOST / 2..MOST + 5).filter(|number| room.take(node(*number))).count();
        assert_eq!(begun, MOST / 2, "and there is a limit for all");
        assert!(room.take(Key::Pool("worker".to_owned())), "but not for pools, which are few");
    }
}
