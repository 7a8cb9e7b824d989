//! What happens in simulated pools.

/// What a run did, so that one that did nothing does not pass for a proof.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    pub told: usize,
    pub finished: usize,
    pub rolled_back: usize,
    pub killed: usize,
    /// Force files, clocks set back, and targets that were withdrawn and wanted again.
    pub forced: usize,
    pub set_back: usize,
    pub again: usize,
    /// Looks at a node that did not answer.
    pub unread: usize,
    /// States from which it was tried what becomes of a node, and how many of them ended after a restart in vain.
    pub prospects: usize,
    pub given_up: usize,
    /// Writes of a controller that read before somebody else wrote.
    pub refused: usize,
    /// Decisions of the controllers.
    pub decisions: usize,
    /// Nodes that were marked as waiting or asked to prepare for what they take later.
    pub marked: usize,
    pub prepared: usize,
    /// Pools that were not given what running nodes cannot follow, and those that were because of an exception.
    pub irreconcilable: usize,
    pub exempted: usize,
    /// Rendered MachineConfigs that were removed.
    pub collected: usize,
    /// The most writes of one node for one update that nothing disturbed.
    pub writes: usize,
    /// The most nodes that were disturbed at the same time, in percent of what was allowed.
    pub fullest: usize,
}

impl Tally {
    pub fn add(&mut self, other: Tally) {
        self.told += other.told;
        self.finished += other.finished;
        self.rolled_back += other.rolled_back;
        self.killed += other.killed;
        self.forced += other.forced;
        self.set_back += other.set_back;
        self.again += other.again;
        self.unread += other.unread;
        self.prospects += other.prospects;
        self.given_up += other.given_up;
        self.refused += other.refused;
        self.decisions += other.decisions;
        self.marked += other.marked;
        self.prepared += other.prepared;
        self.irreconcilable += other.irreconcilable;
        self.exempted += other.exempted;
        self.collected += other.collected;
        self.writes = self.writes.max(other.writes);
        self.fullest = self.fullest.max(other.fullest);
    }
}
