use super::*;
use crate::cluster_version::status::facts::LoadStep;
use crate::net::proxy::ProxySettings;
use crate::release::api::Release;

#[test]
fn refused_release_is_tried_later_and_later_and_at_once_when_the_spec_changes() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    let target =
        |image: &str| Target { release: Release { image: image.into(), ..Release::default() }, ..Target::default() };
    let terms = |generation| Terms { generation, ..Terms::default() };
    let refuse = |image: &str, before: Option<&Refused>, generation| {
        let refusal = Refusal::new(&Release::default(), (LoadStep::LoadPayload, "no".into()));
        Refused::new(target(image), refusal, before, terms(generation), now)
    };
    let seconds = |refused: &Refused| refused.again.duration_since(now).as_secs();
    let mut refused = refuse("a", None, 1);
    let mut pauses = vec![seconds(&refused)];
    for _ in 0..6 {
        refused = refuse("a", Some(&refused), 1);
        pauses.push(seconds(&refused));
    }
    assert_eq!(pauses, [20, 40, 80, 160, 320, 600, 600]);
    refused.consider(terms(1), now);
    assert_eq!(seconds(&refused), 600);
    refused.consider(terms(2), now);
    assert_eq!(seconds(&refused), 0);
    assert_eq!(seconds(&refuse("a", Some(&refused), 2)), 20, "the first by this spec");
    assert_eq!(seconds(&refuse("b", Some(&refused), 2)), 20, "another one");
}

#[test]
fn new_signature_has_a_release_tried_at_once_that_lacks_one() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    let read = |as_of| Some(Unsigned { as_of });
    for (unsigned, version, at_once, at_once_after, why) in [
        (None, Some(9), false, false, "its image could not be pulled, for instance"),
        (read(Some(7)), Some(9), true, true, "it was added after the attempt had looked"),
        (read(Some(9)), Some(9), false, false, "the attempt has read it"),
        (read(None), Some(9), true, false, "whether it was read cannot be told"),
        (read(Some(7)), None, true, false, "the same"),
    ] {
        let refused = || {
            let refusal = Refusal::new(&Release::default(), (LoadStep::RetrievePayload, "no".into()));
            Refused::new(Target::default(), Refusal { unsigned, ..refusal }, None, Terms::default(), now)
        };
        let (mut event, mut meanwhile) = (refused(), refused());
        event.on_signature(version, now);
        meanwhile.on_signature_meanwhile(version, now);
        assert_eq!((event.again == now, meanwhile.again == now), (at_once, at_once_after), "{why}");
        let mut way = refused();
        way.on_new_way(now);
        assert_eq!(way.again == now, unsigned.is_some(), "by another way: {why}");
        assert_eq!(event.status().tries, 1);
    }
}

#[test]
fn way_that_is_found_during_an_attempt_is_tried_at_once() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    let proxy = ProxySettings { http: String::new(), https: "http://proxy".into(), none: String::new() };
    let direct = Some(Ok(Egress::default()));
    let through = Some(Ok(Egress { proxy: Some(proxy), ..Egress::default() }));
    let unknown = Some(Err("forbidden".to_owned()));
    for (begun_with, found, at_once, why) in [
        (&direct, &through, true, "the proxy was corrected"),
        (&unknown, &direct, true, "no store was asked"),
        (&direct, &direct, false, "it has been tried"),
        (&direct, &unknown, false, "nothing can be reached by it"),
        (&None, &direct, false, "the attempt has waited for it"),
    ] {
        for unsigned in [None, Some(Unsigned::default())] {
            let refusal = Refusal::new(&Release::default(), (LoadStep::RetrievePayload, "no".into()));
            let refusal = Refusal { unsigned, ..refusal };
            let mut refused = Refused::new(Target::default(), refusal, None, Terms::default(), now);
            refused.on_new_way_meanwhile(begun_with, found, now);
            assert_eq!(refused.again == now, at_once && unsigned.is_some(), "{why}");
        }
    }
}

#[test]
fn cause_is_told_until_the_attempt_is_past_the_step_that_failed() {
    use LoadStep::{LoadPayload, PreconditionChecks, RetrievePayload, VerifyPayloadVersion};
    let now = Timestamp::from_second(1_000_000).unwrap();
    // Where it was refused, and whether for want of a signature; what the next attempt does, and whether it has looked for one.
    for (failed, unsigned, step, searched, goes_on) in [
        (RetrievePayload, true, RetrievePayload, false, false),
        (RetrievePayload, true, RetrievePayload, true, true),
        (RetrievePayload, false, RetrievePayload, true, false),
        (RetrievePayload, false, LoadPayload, true, true),
        (VerifyPayloadVersion, false, LoadPayload, true, false),
        (VerifyPayloadVersion, false, PreconditionChecks, true, true),
        (PreconditionChecks, false, RetrievePayload, true, false),
        (PreconditionChecks, false, PreconditionChecks, true, false),
    ] {
        let refusal = Refusal::new(&Release::default(), (failed, "no".into()));
        let refusal = Refusal { unsigned: unsigned.then(Unsigned::default), ..refusal };
        let refused = Refused::new(Target::default(), refusal, None, Terms::default(), now);
        let attempt = LoadStatus { step, searched, ..LoadStatus::started(Release::default()) };
        let told = refused.beside(attempt.clone());
        let expected = if goes_on { LoadStatus { tries: 1, ..attempt } } else { refused.status() };
        assert_eq!(told, expected, "{failed:?} {unsigned} {step:?} {searched}");
    }
}

#[test]
fn release_is_tried_at_once_when_a_gate_or_the_clock_changes() {
    let now = Timestamp::from_second(1_000_000).unwrap();
    let refused = || {
        let refusal = Refusal::new(&Release::default(), (LoadStep::RetrievePayload, "no".into()));
        Refused::new(Target::default(), refusal, None, Terms::default(), now)
    };
    let gates = FeatureGates { signature_stores: true, ..FeatureGates::default() };
    let mut changed = refused();
    changed.consider(Terms { gates, ..Terms::default() }, now);
    assert_eq!(changed.again, now);
    for (back, at_once) in [(SignedDuration::from_mins(9), false), (SignedDuration::from_hours(6), true)] {
        let (mut refused, now) = (refused(), now - back);
        refused.consider(Terms::default(), now);
        assert_eq!(refused.again == now, at_once, "{back:?}");
    }
}
