use super::*;
use crate::cluster_version::api::{AcceptRisk, Update};

#[test]
fn what_is_asked_of_the_update_service_is_what_was_given_with_risks_only_by_their_gate() {
    let update = Update {
        architecture: "Multi".into(),
        accept_risks: vec![AcceptRisk { name: "A".into() }],
        ..Update::default()
    };
    let given =
        ClusterVersionSpec { upstream: "#%GG".into(), desired_update: Some(update), ..ClusterVersionSpec::default() };
    let valid = ClusterVersionSpec { upstream: String::new(), desired_update: None, ..given.clone() };
    let risk = Risk { name: "B".into(), message: "m".into(), url: String::new() };
    let gates = |accept_risks| FeatureGates { accept_risks, ..FeatureGates::default() };
    let asked = |gate, risks| {
        let request = request(&given, &valid, gates(gate), risks);
        assert_eq!((request.upstream.as_str(), request.architecture.as_str()), ("#%GG", ""));
        (request.accepted_risks, request.own_risks)
    };
    let (risks, accepted) = (std::slice::from_ref(&risk), [String::from("A")].into());
    assert_eq!(asked(false, Some(risks)), (None, None));
    assert_eq!(asked(true, Some(risks)), (Some(accepted), Some(risks.to_vec())));
    assert_eq!(asked(true, None).1, None, "they are not known yet");
}
