//! The facts of a pool as its object, with its annotations, says them.

use super::holds::{self, Answer, QUOTED};
use super::node::{NodeFacts, Target};
use super::rollout::etcd::Etcd;
use super::rollout::{BlockedReason, Hold, PoolFacts};
use crate::error::shortened;
use crate::machine_config::api::machine_config::{GROUP, MachineConfigPool};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use std::collections::BTreeMap;

/// Annotation of a pool: which nodes may be told by whoever reads it, as JSON from names to claims.
pub(crate) const CLAIMED: &str = "claimed";
/// How long a node has to be well before the next one is begun, such as `2m`.
pub(crate) const SOAK: &str = "soak";
/// How many nodes of one zone may be unavailable: a number or a percentage.
pub(crate) const MAX_UNAVAILABLE_PER_ZONE: &str = "max-unavailable-per-zone";

/// What the rollout has to know of a pool. `last`: nodes that come after all others. What cannot be read holds the pool,
/// with the reason.
pub(crate) fn pool_facts(
    pool: &MachineConfigPool,
    nodes: Vec<NodeFacts>,
    answer: &Answer,
    last: &[String],
    now: Timestamp,
) -> PoolFacts {
    let none = BTreeMap::new();
    let annotations = pool.metadata.annotations.as_ref().unwrap_or(&none);
    let text = |key: &str| annotations.get(&format!("{GROUP}/{key}")).map(|text| text.trim());
    let text = |key: &str| text(key).filter(|text| !text.is_empty());
    let target = Target::new(&pool.spec.configuration.name);
    let mut holds = holds::holds(annotations, &target, &nodes, answer, now);
    let mut invalid = |key: &str, found: &str, wanted: &str| {
        let message = format!("its annotation {GROUP}/{key} is {:?}: {wanted}", shortened(found, QUOTED));
        holds.push(Hold { reason: BlockedReason::InvalidPool, message, nodes: 0, until: None });
    };
    let soak = text(SOAK).map(|soak| {
        soak.parse::<SignedDuration>().unwrap_or_else(|_| {
            invalid(SOAK, soak, "write a time such as 2m");
            SignedDuration::ZERO
        })
    });
    let claimed = text(CLAIMED).map(|claimed| {
        serde_json::from_str(claimed).unwrap_or_else(|_| {
            invalid(CLAIMED, claimed, "this controller cannot have written it; remove it");
            BTreeMap::new()
        })
    });
    let per_zone = text(MAX_UNAVAILABLE_PER_ZONE)
        .map(|text| text.parse().map_or_else(|_| IntOrString::String(text.to_owned()), IntOrString::Int));
    PoolFacts {
        name: pool.metadata.name.clone().unwrap_or_default(),
        target,
        paused: pool.spec.paused,
        max_unavailable: pool.spec.max_unavailable.clone(),
        max_unavailable_per_zone: per_zone,
        soak: soak.unwrap_or_default(),
        holds,
        last: last.to_vec(),
        claimed: claimed.unwrap_or_default(),
        etcd: Etcd::default(),
        nodes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(annotations: &[(&str, &str)]) -> PoolFacts {
        let mut pool = MachineConfigPool::new("worker", Default::default());
        let annotations = annotations.iter().map(|(key, value)| (format!("{GROUP}/{key}"), (*value).to_owned()));
        pool.metadata.annotations = Some(annotations.collect());
        pool_facts(&pool, Vec::new(), &Answer::Unknown, &[], Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn annotations_of_a_pool_are_read() {
        let facts = pool(&[(SOAK, "2m"), (CLAIMED, r#"{"n1":"7"}"#), (MAX_UNAVAILABLE_PER_ZONE, "3")]);
        assert_eq!(facts.soak, SignedDuration::from_mins(2));
        assert_eq!(facts.claimed, BTreeMap::from([("n1".to_owned(), "7".to_owned())]));
        assert_eq!(facts.max_unavailable_per_zone, Some(IntOrString::Int(3)));
        assert_eq!(facts.holds, []);
        let facts = pool(&[(MAX_UNAVAILABLE_PER_ZONE, "10%")]);
        assert_eq!(facts.max_unavailable_per_zone, Some(IntOrString::String("10%".into())));
    }

    #[test]
    fn annotation_that_cannot_be_read_holds_the_pool() {
        for annotation in [(SOAK, "soon"), (CLAIMED, "[]"), (CLAIMED, "{")] {
            let facts = pool(&[annotation]);
            let [hold] = facts.holds.as_slice() else { panic!("{annotation:?}: {:?}", facts.holds) };
            assert_eq!((hold.reason, hold.nodes), (BlockedReason::InvalidPool, 0), "{annotation:?}");
            assert!(hold.message.contains(annotation.0) && hold.message.contains(annotation.1), "{}", hold.message);
        }
    }
}
