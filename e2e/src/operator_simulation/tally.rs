//! What has happened in simulations, so that nobody takes a run for a test in which nothing did.

/// Counts of many runs.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    pub turns: usize,
    pub writes: usize,
    /// Writes that came too late.
    pub refused: usize,
    /// Writes that failed otherwise.
    pub failed: usize,
    pub restarts: usize,
    /// Times at which there were two leaders.
    pub doubled: usize,
    /// Deployments that are not wanted any more, and that must not run because of their groups.
    pub left_over: usize,
    pub expelled: usize,
    /// Annotations for all namespaces, and for some.
    pub everywhere: usize,
    pub somewhere: usize,
    /// At rest: operators that run, that do not, and copies.
    pub running: usize,
    pub waiting: usize,
    pub copies: usize,
    /// At rest: operators that must run, by all that is known of them.
    pub healthy: usize,
    /// At rest: operators that are kept from running by other groups.
    pub conflicts: usize,
    /// Rounds until rest, at most.
    pub rounds: usize,
}

impl Tally {
    pub fn add(&mut self, other: &Tally) {
        self.turns += other.turns;
        self.writes += other.writes;
        self.refused += other.refused;
        self.failed += other.failed;
        self.restarts += other.restarts;
        self.doubled += other.doubled;
        self.left_over += other.left_over;
        self.expelled += other.expelled;
        self.everywhere += other.everywhere;
        self.somewhere += other.somewhere;
        self.running += other.running;
        self.waiting += other.waiting;
        self.copies += other.copies;
        self.healthy += other.healthy;
        self.conflicts += other.conflicts;
        self.rounds = self.rounds.max(other.rounds);
    }
}
