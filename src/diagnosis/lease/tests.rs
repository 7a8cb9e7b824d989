use super::*;
use serde_json::{Value, json};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

const OWN: Holder<'_> =
    Holder { process: "the daemon", namespace: "ns", name: "version", deployment: "cvo", required: true };

/// Renewed by its holder, and stored by the API server, at these seconds.
fn lease(holder: &str, renewed: i64, stored: Option<i64>, every: Option<&str>) -> Lease {
    let manager = |manager: &str, at_: i64, field: &str| {
        json!({"manager": manager, "operation": "Update", "apiVersion": "coordination.k8s.io/v1", "fieldsType": "FieldsV1",
            "time": at(at_).to_string(), "fieldsV1": {"f:spec": {field: {}}}})
    };
    // Somebody else who has written another field later does not count.
    let managers: Vec<Value> = stored
        .map(|stored| vec![manager("cvo", stored, "f:renewTime"), manager("kubectl", stored + 500, "f:strategy")])
        .unwrap_or_default();
    let annotations = every.map(|every| json!({RENEWED_EVERY: every}));
    let renewed = format!("{}", at(renewed).strftime("%Y-%m-%dT%H:%M:%S.000000Z"));
    serde_json::from_value(json!({
        "metadata": {"name": "version", "namespace": "ns", "annotations": annotations, "managedFields": managers},
        "spec": {"holderIdentity": holder, "leaseDurationSeconds": 137, "renewTime": renewed},
    }))
    .unwrap()
}

#[test]
fn holder_that_does_not_renew_is_told_of_by_the_clock_of_the_api_server() {
    // Holder, its clock ahead by, stored ago, every, whether it is told of.
    for (holder, ahead, ago, every, expected) in [
        ("pod", 0, 33, Some("26"), false),
        ("pod", 0, 35, Some("26"), true),
        ("pod", 0, 60, None, false),
        ("pod", 0, 80, None, true),
        // A clock that is wrong hides nothing, and makes nothing up.
        ("pod", -3600, 5, Some("26"), false),
        ("pod", 3600, 60, Some("26"), true),
        ("", 0, 5, Some("26"), false),
        ("", 0, 60, Some("26"), true),
    ] {
        let renewal = Renewal::of(&lease(holder, ahead - ago, Some(-ago), every));
        let told = silence(OWN, Some(&renewal), at(0));
        assert_eq!(told.is_some(), expected, "{holder:?} {ahead} {ago} {every:?}");
        if let Some(told) = told {
            assert_eq!(told.since, Some(at(-ago)));
            assert!(
                told.message.contains(&at(-ago).to_string()) && told.message.contains("as old as that"),
                "{told:?}"
            );
        }
    }
    let mut lease = lease("pod", -5, Some(-5), Some("26"));
    let written = at(-40).to_string() + " cannot update the status: denied";
    lease.metadata.annotations.as_mut().unwrap().insert(NOT_WRITTEN.to_owned(), written);
    let told = silence(OWN, Some(&Renewal::of(&lease)), at(0)).unwrap();
    assert!(
        told.renewed && told.since == Some(at(-40)) && told.message.ends_with("cannot update the status: denied"),
        "{told:?}"
    );
    let without_server = Renewal::of(&self::lease("pod", -60, None, Some("26")));
    assert_eq!(silence(OWN, Some(&without_server), at(0)).unwrap().since, Some(at(-60)));
    assert!(silence(OWN, None, at(0)).unwrap().message.contains("does not exist"));
    assert_eq!(silence(Holder { required: false, ..OWN }, None, at(0)), None, "others may do its work");
}

#[test]
fn clock_of_a_node_is_called_wrong_only_if_it_is() {
    let second = SignedDuration::from_secs;
    let judged =
        |renewed, stored| node_lease(&Renewal::of(&lease("n", renewed, stored, None)), at(0), second(10), second(60));
    for (renewed, stored, expected) in [
        (-5, Some(-5), NodeLease::Well),
        (-60, Some(-60), NodeLease::Well),
        (-66, Some(-66), NodeLease::NotRenewed(at(-66))),
        (-66, Some(-5), NodeLease::Clock(second(-61))),
        (30, Some(-5), NodeLease::Clock(second(35))),
        // Both: the clock is what the lease proves.
        (-200, Some(-100), NodeLease::Clock(second(-100))),
        (-66, None, NodeLease::Either(second(66))),
        (11, None, NodeLease::Clock(second(11))),
        (-5, None, NodeLease::Well),
    ] {
        assert_eq!(judged(renewed, stored), expected, "{renewed} {stored:?}");
    }
}
