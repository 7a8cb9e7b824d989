use super::*;

fn nodes(weights: &[usize]) -> Vec<Node> {
    let mut next = 0;
    let node = |(i, &weight): (usize, &usize)| {
        let manifests = (next..next + weight).collect();
        next += weight;
        Node { id: format!("1/10/{}", char::from(b'a' + i as u8)), stage: 1, manifests }
    };
    weights.iter().enumerate().map(node).collect()
}

#[test]
fn longest_path_counts_manifests_not_nodes() {
    // a(1) -> b(5) -> d(1); a -> c(1) -> d; e(3) alone
    let graph = Graph::from_edges(nodes(&[1, 5, 1, 1, 3]), &[(0, 1), (0, 2), (1, 3), (2, 3)]);
    let longest: Vec<usize> = (0..6).map(|i| graph.longest_path(i)).collect();
    assert_eq!(longest, [7, 6, 2, 1, 3, 0]);
    assert_eq!((graph.predecessors(3), graph.successors(0)), (vec![1, 2], vec![1, 2]));
    assert_eq!((graph.predecessors(9), graph.successors(9)), (vec![], vec![]));
    assert_eq!(
        (graph.node_of(0), graph.node_of(5), graph.node_of(10), graph.node_of(11)),
        (Some(0), Some(1), Some(4), None)
    );
}

#[test]
fn dot_names_nodes_and_edges() {
    let mut two = nodes(&[1, 2]);
    two[1].id = "2/-/odd\"name".into();
    let dot = Graph::from_edges(two, &[(0, 1)]).to_dot();
    for part in ["digraph", "1/10/a\\n1 manifests", "2/-/odd\\\"name\\n2 manifests", "0 -> 1"] {
        assert!(dot.contains(part), "{part} not in {dot}");
    }
}
