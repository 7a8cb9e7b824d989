//! What everything else of an install needs: namespaces and definitions come first, whatever the order of their nodes,
//! because a server takes its time to serve a new kind. Those behind a Job wait for their turn, since nothing may overtake a Job.

use crate::graph::Mode;
use crate::payload::Manifest;
use std::collections::VecDeque;
use std::sync::Arc;

/// Objects on their way at once.
const AT_ONCE: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Prerequisites {
    /// Groups of positions; a group begins when the one before it has ended.
    groups: VecDeque<VecDeque<usize>>,
    running: usize,
}

impl Prerequisites {
    /// Empty in every mode but an install.
    pub(crate) fn new(manifests: &[Arc<Manifest>], mode: Mode) -> Self {
        if mode != Mode::Install {
            return Prerequisites::default();
        }
        let before_jobs = manifests.iter().enumerate().take_while(|(_, manifest)| manifest.id.kind != "Job");
        let created: Vec<_> = before_jobs.filter(|(_, manifest)| manifest.delete() == Ok(false)).collect();
        let of_kind = |kind: &str| created.iter().filter(|(_, m)| m.id.kind == kind).map(|(p, _)| *p).collect();
        Prerequisites { groups: ["Namespace", "CustomResourceDefinition"].map(of_kind).into(), running: 0 }
    }

    pub(crate) fn start(&mut self) -> Vec<usize> {
        let mut started = Vec::new();
        while let Some(group) = self.groups.front_mut() {
            let free = AT_ONCE.saturating_sub(self.running).min(group.len());
            started.extend(group.drain(..free));
            self.running += free;
            if self.running > 0 {
                break;
            }
            self.groups.pop_front();
        }
        started
    }

    /// One of them has ended: the next ones.
    pub(crate) fn ended(&mut self) -> Vec<usize> {
        self.running = self.running.saturating_sub(1);
        self.start()
    }

    pub(crate) fn are_done(&self) -> bool {
        self.running == 0 && self.groups.iter().all(VecDeque::is_empty)
    }
}
