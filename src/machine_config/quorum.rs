//! Whether the control plane's pool leaves enough members of etcd while its nodes are updated.

use super::membership::{ARBITER, MASTER};
use super::rollout::limit;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// The condition of a pool that is there only while this is so.
pub(crate) const AT_RISK: &str = "EtcdQuorumAtRisk";

/// Why as many nodes of the control plane as its pool allows must not be unavailable, if that is so. Each of these nodes is
/// taken for a member of etcd, and so are arbiters; `nodes` counts those of a pool. Where a single node is the control plane
/// nothing can be saved.
pub(crate) fn at_risk(max_unavailable: Option<&IntOrString>, nodes: impl Fn(&str) -> usize) -> Option<String> {
    let (nodes, arbiters) = (nodes(MASTER), nodes(ARBITER));
    let members = nodes.saturating_add(arbiters);
    // A value that cannot be read lets no node begin, and is told elsewhere.
    let away = limit(MASTER, max_unavailable, nodes).ok()?.min(nodes);
    let quorum = members / 2 + 1;
    let left = members.saturating_sub(away);
    if members < 2 || left >= quorum {
        return None;
    }
    let way_out = match members.saturating_sub(quorum) {
        0 => "no number is safe with two members: add a third one".to_owned(),
        safe => format!("set spec.maxUnavailable to {safe}"),
    };
    Some(format!(
        "the pool {MASTER} allows {away} of {nodes} nodes to be unavailable: that leaves {left} of {members} members of \
         etcd, which needs {quorum} to write anything; {way_out}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(max_unavailable: Option<&IntOrString>, nodes: usize, arbiters: usize) -> Option<String> {
        at_risk(max_unavailable, |pool| if pool == MASTER { nodes } else { arbiters })
    }

    #[test]
    fn a_majority_has_to_stay() {
        let number = |number| Some(IntOrString::Int(number));
        for (max, nodes, arbiters, safe) in [
            (None, 3, 0, true),
            (number(1), 3, 0, true),
            (number(2), 3, 0, false),
            (number(2), 5, 0, true),
            (number(3), 5, 0, false),
            (number(9), 5, 0, false),
            (number(1), 4, 0, true),
            (number(2), 4, 0, false),
            (Some(IntOrString::String("50%".into())), 5, 0, true),
            (Some(IntOrString::String("100%".into())), 3, 0, false),
            // Two nodes and an arbiter are three members.
            (number(1), 2, 1, true),
            (number(2), 2, 1, false),
            (None, 2, 0, false),
            (None, 1, 0, true),
            (number(1), 0, 0, true),
            (Some(IntOrString::String("many".into())), 3, 0, true),
        ] {
            assert_eq!(of(max.as_ref(), nodes, arbiters).is_none(), safe, "{max:?} of {nodes} and {arbiters}");
        }
    }

    #[test]
    fn the_number_that_is_safe_is_named() {
        let text = of(Some(&IntOrString::Int(2)), 3, 0).unwrap();
        assert_eq!(
            text,
            "the pool master allows 2 of 3 nodes to be unavailable: that leaves 1 of 3 members of etcd, which needs 2 to \
             write anything; set spec.maxUnavailable to 1"
        );
        assert!(of(None, 2, 0).unwrap().ends_with("no number is safe with two members: add a third one"));
    }
}
