use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn operator(name: &str) -> ObjectId {
    ObjectId::new("config.openshift.io", "ClusterOperator", "", name)
}

#[test]
fn clocks_of_a_withdrawn_update_do_not_count_on_the_way_back() {
    let dns = operator("dns");
    let awaited = std::slice::from_ref(&dns);
    let mut clocks = Clocks::recorded("new", BTreeMap::new());
    clocks.observe(awaited, |_| false, at(1));
    clocks.begin("new");
    clocks.observe(awaited, |_| false, at(2));
    assert_eq!(clocks.of(&dns), Some(at(1)), "another process goes on with the same release");
    clocks.begin("old");
    assert_eq!(clocks.of(&dns), None);
    clocks.observe(awaited, |_| false, at(3));
    assert_eq!(clocks.of(&dns), Some(at(3)));
    // Of the same name, and nothing else.
    assert_eq!(clocks.of(&ObjectId::new("apps", "DaemonSet", "dns", "dns")), None);
}

#[test]
fn clock_of_an_object_that_is_no_longer_awaited_starts_afresh() {
    let ids = [operator("dns"), operator("etcd"), ObjectId::new("apps", "DaemonSet", "a", "b")];
    let mut clocks = Clocks::recorded("image", ids.iter().map(|id| (clock_of(id), at(1))).collect());
    clocks.observe(&ids[2..], |key| key == clock_of(&ids[1]), at(2));
    assert_eq!(ids.map(|id| clocks.of(&id)), [None, Some(at(1)), Some(at(1))]);
}
