use super::*;
use crate::api::Release;

#[test]
fn refused_release_is_tried_later_and_later_and_at_once_when_the_spec_changes() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    let target =
        |image: &str| Target { release: Release { image: image.into(), ..Release::default() }, ..Target::default() };
    let refuse = |image: &str, before: Option<&Refused>, generation| {
        let status = LoadStatus::failed(LoadStep::LoadPayload, Release::default(), "no".into());
        Refused::new(target(image), status, before, generation, now)
    };
    let seconds = |refused: &Refused| refused.again.duration_since(now).as_secs();
    let mut refused = refuse("a", None, 1);
    let mut pauses = vec![seconds(&refused)];
    for _ in 0..6 {
        refused = refuse("a", Some(&refused), 1);
        pauses.push(seconds(&refused));
    }
    assert_eq!(pauses, [20, 40, 80, 160, 320, 600, 600]);
    refused.consider(1, now);
    assert_eq!(seconds(&refused), 600);
    refused.consider(2, now);
    assert_eq!(seconds(&refused), 0);
    assert_eq!(seconds(&refuse("a", Some(&refused), 2)), 20, "the first by this spec");
    assert_eq!(seconds(&refuse("b", Some(&refused), 2)), 20, "another one");
}

#[test]
fn new_signature_has_a_release_tried_at_once_whose_verification_failed() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    for (step, at_once) in [(LoadStep::RetrievePayload, true), (LoadStep::LoadPayload, false)] {
        let status = LoadStatus::failed(step, Release::default(), "no".into());
        let mut refused = Refused::new(Target::default(), status, None, 1, now);
        refused.on_signature(now);
        assert_eq!(refused.again == now, at_once, "{step:?}");
        assert_eq!(refused.status().tries, 1);
    }
}
