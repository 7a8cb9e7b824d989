use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

#[test]
fn clocks_of_a_withdrawn_update_do_not_count_on_the_way_back() {
    let awaited = BTreeSet::from(["dns".to_owned()]);
    let mut clocks = Clocks::recorded("new", BTreeMap::new());
    clocks.observe(&awaited, |_| false, at(1));
    clocks.begin("new");
    clocks.observe(&awaited, |_| false, at(2));
    assert_eq!(clocks.of_operator("dns"), Some(at(1)), "another process goes on with the same release");
    clocks.begin("old");
    assert_eq!(clocks.of_operator("dns"), None);
    clocks.observe(&awaited, |_| false, at(3));
    assert_eq!(clocks.of_operator("dns"), Some(at(3)));
}

#[test]
fn clock_of_an_operator_that_is_no_longer_awaited_starts_afresh() {
    let times =
        BTreeMap::from([(clock("ClusterOperator", "", "dns"), at(1)), (clock("ClusterOperator", "", "etcd"), at(1))]);
    let mut clocks = Clocks::recorded("image", times);
    clocks.observe(&BTreeSet::new(), |operator| operator == "etcd", at(2));
    assert_eq!((clocks.of_operator("dns"), clocks.of_operator("etcd")), (None, Some(at(1))));
}
