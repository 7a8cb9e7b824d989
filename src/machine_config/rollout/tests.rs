use super::*;
use crate::machine_config::node::NodeState;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn later(seconds: i64) -> Timestamp {
    NOW + SignedDuration::from_secs(seconds)
}

/// `current → desired`, in this state, healthy.
fn node(name: &str, current: &str, desired: &str, state: NodeState) -> NodeFacts {
    let (current, desired) = (Target::new(current), Target::new(desired));
    NodeFacts { name: name.into(), current, desired, state, created: Some(NOW), ..NodeFacts::default() }
}

fn done(name: &str, config: &str) -> NodeFacts {
    node(name, config, config, NodeState::Done)
}

fn not_ready(node: NodeFacts) -> NodeFacts {
    let problem = Problem { what: "Ready=False (KubeletNotReady)".into(), since: Some(NOW) };
    NodeFacts { problems: vec![problem], ..node }
}

fn cordoned(node: NodeFacts) -> NodeFacts {
    NodeFacts { unschedulable: true, ..node }
}

fn at(node: NodeFacts, zone: &str, created: i64) -> NodeFacts {
    NodeFacts { zone: (!zone.is_empty()).then(|| zone.to_owned()), created: Some(later(created)), ..node }
}

fn pool(name: &str, target: &str, max: i32, nodes: Vec<NodeFacts>) -> PoolFacts {
    let max_unavailable = Some(IntOrString::Int(max));
    PoolFacts { name: name.into(), target: Target::new(target), max_unavailable, nodes, ..PoolFacts::default() }
}

fn only(pool: &PoolFacts) -> Round {
    rounds(std::slice::from_ref(pool), None, NOW).remove(0)
}

/// Those that are told at once and those that are claimed for it.
fn all(round: &Round) -> Vec<String> {
    [round.begin.clone(), round.claim.clone()].concat()
}

fn begun(target: &str, max: i32, nodes: Vec<NodeFacts>) -> Vec<String> {
    all(&only(&pool("worker", target, max, nodes)))
}

#[test]
fn limit_is_a_number_or_a_percentage_rounded_down_and_at_least_one() {
    let text = |text: &str| Some(IntOrString::String(text.into()));
    for (value, expected) in [
        (None, 1),
        (Some(IntOrString::Int(2)), 2),
        (Some(IntOrString::Int(0)), 1),
        (text("50%"), 2),
        (text("60%"), 2),
        (text("0%"), 1),
    ] {
        assert_eq!(limit("worker", value.as_ref(), 4), Ok(expected), "{value:?}");
        assert_eq!(limit("arbiter", value.as_ref(), 4), Ok(1));
    }
    for value in [text("60"), text("50 percent"), text("40 %"), text("%"), text("-1%"), Some(IntOrString::Int(-1))] {
        let error = limit("worker", value.as_ref(), 4).unwrap_err();
        assert!(error.contains("neither a number nor a percentage: give"), "{error}");
        let pool = PoolFacts { max_unavailable: value, ..pool("worker", "v1", 0, vec![done("a", "v0")]) };
        let round = only(&pool);
        assert_eq!((all(&round).len(), round.waiting), (0, 1));
        assert_eq!(round.blocked, Some((BlockedReason::InvalidPool, error)));
    }
}

#[test]
fn nodes_that_are_unavailable_for_any_reason_use_up_what_the_pool_allows() {
    use NodeState::{Degraded, Done, Working};
    let nothing: [&str; 0] = [];
    // One of three is not ready, and nobody is to be changed.
    assert_eq!(begun("v1", 1, vec![done("a", "v1"), not_ready(done("b", "v1")), done("c", "v1")]), nothing);
    assert_eq!(begun("v1", 1, vec![not_ready(done("1", "v1")), done("2", "v0")]), nothing);
    // A node that is not ready waits until it is, and the others go on as far as they may.
    let nodes = [not_ready(done("0", "v0")), done("1", "v0"), done("2", "v0")].to_vec();
    assert_eq!(begun("v1", 2, nodes), ["1"]);
    assert_eq!(begun("v1", 2, vec![not_ready(done("0", "v0")), done("1", "v1"), done("2", "v0")]), ["2"]);
    // It deviates from the configuration that it has.
    assert_eq!(begun("v1", 1, vec![node("1", "v1", "v1", Degraded), done("2", "v0")]), nothing);
    // It has been told, and its agent has not begun.
    assert_eq!(begun("v2", 1, vec![node("1", "v1", "v2", Done), done("2", "v1")]), nothing);
    let mut nodes: Vec<NodeFacts> = (0..7).map(|n| done(&format!("n{n}"), if n < 2 { "v1" } else { "v0" })).collect();
    nodes.extend([not_ready(done("x", "v1")), node("y", "v0", "v1", Working)]);
    assert_eq!(begun("v1", 4, nodes), ["n2", "n3"]);
}

#[test]
fn node_that_failed_on_the_way_gets_the_corrected_configuration() {
    use NodeState::{Degraded, Unreconcilable};
    assert_eq!(begun("v1", 1, vec![node("1", "v0.1", "v0.2", Degraded), done("2", "v1")]), ["1"]);
    assert_eq!(begun("v1", 1, vec![done("1", "v1"), node("2", "v1", "v2", Unreconcilable)]), ["2"]);
    // It is cordoned, because it had been drained, and nobody else has to be unavailable for it.
    let drained = NodeFacts { cordoned_for_update: true, ..cordoned(node("1", "v0", "v1", Degraded)) };
    let nodes = vec![drained.clone(), done("2", "v0")];
    assert_eq!(begun("v2", 1, nodes.clone()), ["1"]);
    let round = only(&pool("worker", "v1", 1, nodes));
    assert_eq!((all(&round), round.waiting), (vec![], 1));
    let (reason, message) = round.blocked.unwrap();
    assert_eq!((reason, message.as_str()), (BlockedReason::FailedNodes, "node 1: is degraded"));
    assert_eq!(begun("v1", 2, vec![drained, done("2", "v0")]), ["2"], "it counts once");
    // Somebody else wants it to be left alone.
    assert_eq!(begun("v2", 1, vec![cordoned(node("1", "v0", "v1", Degraded))]), [""; 0]);
}

#[test]
fn node_under_way_is_told_the_newest_target_and_makes_no_other_unavailable() {
    let under_way = node("1", "v0", "v1", NodeState::Working);
    assert_eq!(begun("v2", 1, vec![under_way.clone(), done("2", "v0")]), ["1"]);
    let stopped = PoolFacts { paused: true, ..pool("worker", "v2", 1, vec![under_way.clone(), done("2", "v0")]) };
    let round = only(&stopped);
    assert_eq!((all(&round).len(), round.waiting), (0, 2));
    assert_eq!(round.blocked.unwrap().0, BlockedReason::PausedPool);
    assert_eq!(begun("v2", 1, vec![not_ready(under_way), done("2", "v0")]), [""; 0], "it is being restarted");
}

#[test]
fn operating_system_images_count_like_configurations() {
    let image = |node: NodeFacts, current: Option<&str>, desired: Option<&str>| {
        let target = |target: Target, image: Option<&str>| Target { image: image.map(str::to_owned), ..target };
        NodeFacts { current: target(node.current, current), desired: target(node.desired, desired), ..node }
    };
    // Its image has not come yet, or has not gone yet.
    for (current, desired) in [(None, Some("i")), (Some("i"), None), (Some("i"), Some("j"))] {
        let facts = image(done("a", "v1"), current, desired);
        assert!(!facts.is_done() && facts.is_changing(), "{facts:?}");
    }
    let layered = image(done("a", "v1"), Some("i"), Some("i"));
    assert_eq!(begun("v1", 1, vec![layered.clone()]), ["a"], "it leaves its image");
    let target = Target { config: "v1".into(), image: Some("i".into()) };
    let mut facts = pool("worker", "v1", 1, vec![layered, done("b", "v1")]);
    facts.target = target;
    assert_eq!(all(&only(&facts)), ["b"]);
}

#[test]
fn zones_are_done_one_after_the_other_and_old_nodes_before_new_ones() {
    let nodes = [
        ("none-newest", "", 9),
        ("r-new", "RRR", 5),
        ("none-old", "", 1),
        ("z-newest", "ZZZ", 8),
        ("q", "QQQ", 7),
        ("z-old", "ZZZ", 2),
        ("none-new", "", 3),
        ("r-old", "RRR", 4),
        ("z-new", "ZZZ", 6),
    ];
    let nodes: Vec<NodeFacts> = nodes.map(|(name, zone, created)| at(done(name, "v0"), zone, created)).to_vec();
    let expected = ["q", "r-old", "r-new", "z-old", "z-new", "z-newest", "none-old", "none-new", "none-newest"];
    for max in 1..=9 {
        let number = usize::try_from(max).unwrap();
        assert_eq!(begun("v1", max, nodes.clone()), expected[..number]);
    }
}

#[test]
fn zone_may_have_a_limit_of_its_own() {
    let nodes = [("a1", "a"), ("a2", "a"), ("a3", "a"), ("a4", "a"), ("b1", "b"), ("b2", "b"), ("c", "")];
    let mut facts = pool("worker", "v1", 5, nodes.map(|(name, zone)| at(done(name, "v0"), zone, 0)).to_vec());
    facts.max_unavailable_per_zone = Some(IntOrString::Int(1));
    assert_eq!(all(&only(&facts)), ["a1", "b1", "c"]);
    facts.max_unavailable_per_zone = Some(IntOrString::String("50%".into()));
    assert_eq!(all(&only(&facts)), ["a1", "a2", "b1", "c"]);
    facts.nodes[1] = not_ready(facts.nodes[1].clone());
    assert_eq!(all(&only(&facts)), ["a1", "b1", "c"]);
    facts.max_unavailable_per_zone = Some(IntOrString::String("half".into()));
    assert_eq!(only(&facts).blocked.unwrap().0, BlockedReason::InvalidPool);
}

/// As in the example that the documentation of OpenShift gives: nodes end in the order 2, 1, 3, 5, 4 and not in that in which they
/// began, each lets the next one begin, and there are never four.
#[test]
fn each_node_that_ends_lets_the_next_one_begin() {
    let mut facts = pool("worker", "v1", 3, (1..=5).map(|n| done(&n.to_string(), "v0")).collect());
    let tell = |facts: &mut PoolFacts| {
        let begun = all(&only(facts));
        for node in facts.nodes.iter_mut().filter(|node| begun.contains(&node.name)) {
            (node.desired, node.state) = (facts.target.clone(), NodeState::Working);
        }
        begun
    };
    let end = |facts: &mut PoolFacts, name: &str| {
        let node = facts.nodes.iter_mut().find(|node| node.name == name).unwrap();
        (node.current, node.state) = (node.desired.clone(), NodeState::Done);
    };
    assert_eq!(tell(&mut facts), ["1", "2", "3"]);
    assert_eq!(tell(&mut facts), [""; 0]);
    end(&mut facts, "2");
    assert_eq!(tell(&mut facts), ["4"]);
    end(&mut facts, "1");
    assert_eq!(tell(&mut facts), ["5"]);
    for name in ["3", "5", "4"] {
        end(&mut facts, name);
        assert_eq!(tell(&mut facts), [""; 0]);
    }
    let round = only(&facts);
    assert_eq!((round.unavailable.len(), round.waiting, round.blocked), (0, 0, None));
}

#[test]
fn as_many_nodes_as_may_be_unavailable_come_next() {
    let nodes: Vec<NodeFacts> = (0..6).map(|number| done(&number.to_string(), "v0")).collect();
    let facts = pool("worker", "v1", 2, nodes);
    let round = only(&facts);
    assert_eq!((round.claim, round.next), (vec!["0".to_owned(), "1".into()], vec!["2".to_owned(), "3".into()]));
    // They may prepare, too, while something holds them.
    let hold = Hold { reason: BlockedReason::OutsideMaintenanceWindow, message: "wait".into(), nodes: 0, until: None };
    let held = only(&PoolFacts { holds: vec![hold], ..facts.clone() });
    assert_eq!((held.claim.len(), held.next), (0, vec!["0".to_owned(), "1".into()]));
    assert!(only(&PoolFacts { paused: true, ..facts }).next.is_empty());
}

#[test]
fn node_of_the_controller_itself_comes_last() {
    let nodes = ["node-0", "node-1", "node-2"].map(|name| done(name, "v0")).to_vec();
    let last = vec!["node-0".to_owned()];
    let facts = PoolFacts { last, ..pool("master", "v1", 3, nodes) };
    let round = only(&facts);
    assert_eq!((all(&round), round.waiting), (vec!["node-1".to_owned(), "node-2".to_owned()], 1));
    assert_eq!(round.deferred, ["node-0"]);
    let nodes = vec![done("node-0", "v0"), done("node-1", "v1"), done("node-2", "v1")];
    let round = only(&PoolFacts { nodes, ..facts });
    assert_eq!((all(&round), round.deferred), (vec!["node-0".to_owned()], vec![]));
}

#[test]
fn arbiter_and_control_plane_are_never_away_together() {
    let master = |nodes| pool("master", "v1", 1, nodes);
    let arbiter = |nodes| pool("arbiter", "v1", 1, nodes);
    let both = |master: &PoolFacts, arbiter: &PoolFacts| {
        let rounds = rounds(&[arbiter.clone(), master.clone()], None, NOW);
        [rounds[1].clone(), rounds[0].clone()]
    };
    let [m, a] = both(&master(vec![done("m", "v0")]), &arbiter(vec![not_ready(done("a", "v0"))]));
    assert_eq!((all(&m).len(), all(&a).len()), (0, 0));
    let (reason, message) = m.blocked.unwrap();
    assert_eq!(reason, BlockedReason::AwaitingOtherPool);
    assert_eq!(
        message,
        "the pool arbiter comes first: node a: Ready=False (KubeletNotReady) since 1970-01-01T00:00:00Z"
    );
    let [m, a] = both(&master(vec![done("m", "v0")]), &arbiter(vec![done("a", "v0")]));
    assert_eq!((all(&m).len(), all(&a).len()), (1, 0), "the control plane comes first");
    let [_, a] = both(&master(vec![node("m", "v0", "v1", NodeState::Working)]), &arbiter(vec![done("a", "v0")]));
    assert_eq!((all(&a).len(), a.blocked.unwrap().0), (0, BlockedReason::AwaitingOtherPool));
    let [_, a] = both(&master(vec![done("m", "v1")]), &arbiter(vec![done("a", "v0")]));
    assert_eq!(all(&a), ["a"]);
    let paused = |nodes| PoolFacts { paused: true, ..master(nodes) };
    let [_, a] = both(&paused(vec![done("m", "v0")]), &arbiter(vec![done("a", "v0")]));
    assert_eq!(all(&a), ["a"]);
    let [_, a] = both(&paused(vec![not_ready(done("m", "v0"))]), &arbiter(vec![done("a", "v0")]));
    assert_eq!(all(&a), [""; 0]);
}

#[test]
fn control_plane_waits_for_etcd_and_a_node_whose_member_is_ill_does_not() {
    let etcd = |node: &str| Etcd { troubles: [(node.to_owned(), "it is ill".to_owned())].into(), ..Etcd::default() };
    let nodes = vec![done("a", "v1"), done("b", "v0"), done("c", "v0")];
    let facts = PoolFacts { etcd: etcd("a"), ..pool("master", "v1", 2, nodes) };
    let round = only(&facts);
    let (reason, message) = round.blocked.clone().unwrap();
    assert_eq!((all(&round).len(), round.waiting, reason), (0, 2, BlockedReason::AwaitingHealth));
    assert!(message.starts_with("etcd must not lose another member: it is ill"), "{message}");
    assert_eq!(all(&only(&PoolFacts { etcd: etcd("c"), ..facts.clone() })), ["c"]);
    let unread = PoolFacts { etcd: Etcd { unknown: Some(None), ..Etcd::default() }, ..facts.clone() };
    assert_eq!((all(&only(&unread)).len(), only(&unread).blocked), (0, None));
    assert_eq!(all(&only(&PoolFacts { etcd: Etcd::default(), ..facts })), ["b", "c"]);
}

#[test]
fn cluster_may_have_a_limit_for_all_pools() {
    let of = |name: &str, max| pool(name, "v1", max, (0..4).map(|n| done(&format!("{name}{n}"), "v0")).collect());
    let pools = [of("worker", 4), of("infra", 4), of("master", 1)];
    let numbers = |ceiling| rounds(&pools, ceiling, NOW).iter().map(|round| all(round).len()).collect::<Vec<_>>();
    assert_eq!(numbers(None), [4, 4, 1]);
    assert_eq!(numbers(Some(7)), [2, 4, 1]);
    assert_eq!(numbers(Some(2)), [0, 1, 1]);
    assert_eq!(rounds(&pools, Some(1), NOW)[0].blocked.as_ref().unwrap().0, BlockedReason::AwaitingOtherPool);
}

#[test]
fn hold_lets_so_many_nodes_begin_and_says_why_no_more() {
    let hold = |nodes, reason| Hold { reason, message: "wait".into(), nodes, until: Some(later(60)) };
    let mut facts = pool("worker", "v1", 3, (0..6).map(|n| done(&n.to_string(), "v0")).collect());
    facts.holds = vec![hold(2, BlockedReason::AwaitingApproval)];
    let round = only(&facts);
    assert_eq!((all(&round), round.blocked, round.again), (vec!["0".into(), "1".into()], None, Some(later(60))));
    for node in &mut facts.nodes[..2] {
        *node = done(&node.name, "v1");
    }
    let round = only(&facts);
    assert_eq!((all(&round).len(), round.blocked), (0, Some((BlockedReason::AwaitingApproval, "wait".into()))));
    // One that was begun is finished, and told what is newest, also while a window is closed.
    facts.holds.push(hold(0, BlockedReason::OutsideMaintenanceWindow));
    facts.nodes[2] = node("2", "v0", "v0.5", NodeState::Working);
    let round = only(&facts);
    assert_eq!((all(&round), round.blocked), (vec!["2".into()], None));
    facts.holds.clear();
    assert_eq!(all(&only(&facts)), ["2", "3", "4"]);
}

#[test]
fn node_counts_as_unavailable_until_it_has_been_well_for_a_time() {
    let soaking = NodeFacts { done_since: Some(NOW), ..done("1", "v1") };
    let mut facts = pool("worker", "v1", 1, vec![soaking, done("2", "v0")]);
    assert_eq!(all(&only(&facts)), ["2"]);
    facts.soak = SignedDuration::from_secs(30);
    let round = only(&facts);
    assert_eq!((all(&round).len(), round.again), (0, Some(later(30))));
    let (reason, message) = round.blocked.unwrap();
    assert_eq!(
        (reason, message.as_str()),
        (BlockedReason::AwaitingHealth, "node 1: has to be well until 1970-01-01T00:00:30Z")
    );
    assert_eq!(all(&rounds(std::slice::from_ref(&facts), None, later(30))[0]), ["2"]);
    // It was not drained, and the time of its end is not written yet.
    facts.nodes[0].done_since = None;
    assert_eq!(all(&rounds(std::slice::from_ref(&facts), None, later(30))[0]), [""; 0]);
    facts.paused = true;
    assert_eq!(only(&facts).unavailable, [], "it is not written in a paused pool");
}

#[test]
fn blocked_pool_names_the_nodes_and_what_to_do() {
    let blocked = |nodes| only(&pool("worker", "v1", 1, nodes)).blocked;
    let (reason, message) = blocked(vec![cordoned(done("1", "v1")), done("2", "v0")]).unwrap();
    assert_eq!(reason, BlockedReason::UnavailableNodes);
    assert_eq!(message, "node 1: was cordoned by somebody else: uncordon it to let the pool go on");
    assert_eq!(blocked(vec![cordoned(done("1", "v1")), done("2", "v1")]), None, "nobody waits");
    let under_way = node("1", "v0", "v1", NodeState::Working);
    assert_eq!(blocked(vec![under_way.clone(), done("2", "v0")]), None, "it goes on");
    let stuck = NodeFacts { drain_blocked: Some("pod shop/web: PodDisruptionBudget web".into()), ..under_way };
    let why = (BlockedReason::DrainBlocked, "node 1: pod shop/web: PodDisruptionBudget web".to_owned());
    assert_eq!(blocked(vec![stuck.clone(), done("2", "v0")]), Some(why.clone()));
    assert_eq!(blocked(vec![stuck, done("2", "v1")]), Some(why), "the last node is one that waits too");
    let unrendered = only(&pool("worker", "", 1, vec![done("1", "v0")]));
    assert_eq!((all(&unrendered).len(), unrendered.blocked.unwrap().0), (0, BlockedReason::RenderBlocked));
}

#[test]
fn node_without_an_agent_is_left_alone() {
    let facts = pool("worker", "v1", 1, vec![not_ready(node("1", "", "", NodeState::Unknown)), done("2", "v0")]);
    assert_eq!(all(&only(&facts)), ["2"]);
}

#[test]
fn node_is_claimed_before_it_is_told_and_counts_from_then_on() {
    let mut facts = pool("worker", "v1", 2, (0..4).map(|n| done(&n.to_string(), "v0")).collect());
    let round = only(&facts);
    assert_eq!((round.begin, round.claim), (vec![], vec!["0".to_owned(), "1".to_owned()]));
    // Claimed by a controller before this one, and one of them told.
    facts.claimed = [("0", "7"), ("3", "8"), ("gone", "8")].map(|(name, claim)| (name.into(), claim.into())).into();
    facts.nodes[0] = NodeFacts { told_for: Some("7".into()), ..node("0", "v0", "v1", NodeState::Done) };
    facts.nodes[3].told_for = Some("5".into());
    let round = only(&facts);
    assert_eq!((round.begin, round.claim), (vec!["3".to_owned()], vec![]));
    assert_eq!((round.settled, round.waiting), (vec!["0".to_owned(), "gone".to_owned()], 2));
    // Another target meanwhile: the claim still counts, because its node may be told at any moment.
    facts.target = Target::new("v2");
    let round = only(&facts);
    assert_eq!((round.begin, round.claim), (vec!["0".to_owned(), "3".to_owned()], vec![]));
    // Also if it is the one that the node has: it is told, so that nobody can tell it anything else any more.
    facts.target = Target::new("v0");
    let round = only(&facts);
    assert_eq!((round.begin, round.claim), (vec!["0".to_owned(), "3".to_owned()], vec![]));
    facts.nodes[3].told_for = Some("8".into());
    assert_eq!(only(&facts).begin, ["0"]);
    facts.nodes[3].told_for = None;
    facts.target = Target::new("v2");
    // A hold that came since lets those go on that were claimed.
    facts.holds = vec![Hold { reason: BlockedReason::AwaitingApproval, message: String::new(), nodes: 0, until: None }];
    assert_eq!(only(&facts).begin, ["0", "3"]);
}
