use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn pull(image: &str, digest: Option<&str>) -> Work {
    Work::Pull { image: image.to_owned(), digest: digest.map(str::to_owned), directory: String::new() }
}

fn failed() -> Outcome {
    Outcome::Failed { cause: "no".to_owned() }
}

fn content(digest: &str) -> Content {
    Content::of_image("a:1", digest, "")
}

fn loaded(digest: &str) -> Outcome {
    Outcome::Loaded { content: content(digest), notes: String::new() }
}

#[test]
fn image_that_was_read_by_its_name_was_asked_for_as_well() {
    let mut held = Held::default();
    held.on(&pull("a:1", None), loaded("d1"), at(1));
    assert_eq!((held.digest_of("a:1"), held.digest_of("a:2")), (Some("d1"), None));
    assert!(!held.loaded.as_ref().unwrap().told);
    let mut told = Held::default();
    told.on(&pull("a:1", Some("d1")), loaded("d1"), at(1));
    assert!(told.loaded.as_ref().unwrap().told && told.asked.is_none());
    // After a poll it is the registry that has said so.
    told.on(&Work::Ask { image: "a:1".into() }, Outcome::Asked { digest: "d2".into() }, at(2));
    told.on(&pull("a:1", Some("d2")), loaded("d2"), at(3));
    assert!(!told.loaded.as_ref().unwrap().told);
    held.on(&pull("a:1@d3", None), loaded("d3"), at(4));
    assert!(held.asked.is_none(), "it says nothing of the tag");
}

#[test]
fn failures_of_one_subject_count_together_and_end_with_success() {
    let (mut held, ask) = (Held::default(), Work::Ask { image: "a:1".into() });
    held.on(&pull("a:1", Some("d1")), failed(), at(1));
    held.on(&pull("a:1", None), failed(), at(2));
    held.on(&ask, failed(), at(3));
    let trouble = held.trouble(&ask.subject()).unwrap();
    assert_eq!((trouble.count, trouble.first, trouble.last), (3, at(1), at(3)));
    assert!(held.trouble(&pull("a:2", None).subject()).is_none());
    held.on(&ask, Outcome::Asked { digest: "d1".into() }, at(4));
    assert!(held.trouble(&ask.subject()).is_none());
}

#[test]
fn another_config_map_content_has_no_failures_yet() {
    let read = |digest: &str| Work::ReadConfigMap { name: "c".into(), digest: digest.into() };
    let mut held = Held::default();
    held.on(&read("d1"), failed(), at(1));
    assert!(held.trouble(&read("d1").subject()).is_some() && held.trouble(&read("d2").subject()).is_none());
}

#[test]
fn refused_content_stays_refused_until_the_image_is_another_one() {
    let (mut held, ask) = (Held::default(), Work::Ask { image: "a:1".into() });
    let asked = |digest: &str| Outcome::Asked { digest: digest.to_owned() };
    held.on(&pull("a:1", None), Outcome::Refused { content: content("d1"), cause: "sick".into() }, at(1));
    held.on(&ask, failed(), at(2));
    held.on(&ask, asked("d1"), at(3));
    held.try_again();
    let trouble = held.trouble(&ask.subject()).unwrap();
    assert_eq!((trouble.cause.as_str(), trouble.count, trouble.last), ("sick", 3, at(3)));
    assert_eq!(trouble.refused.as_ref().unwrap().0, content("d1"));
    held.on(&ask, asked("d2"), at(4));
    assert!(held.trouble(&ask.subject()).is_none());
}

#[test]
fn pauses_double_from_ten_seconds_to_five_minutes_with_jitter() {
    let mut held = Held::default();
    let mut pause = |random| {
        held.on(&pull("a:1", None), failed(), at(0));
        held.trouble(&pull("a:1", None).subject()).unwrap().again(random, at(0)).as_second() - at(0).as_second()
    };
    let pauses: Vec<i64> = (0..7).map(|_| pause(0.0)).collect();
    assert_eq!(pauses, [10, 20, 40, 80, 160, 300, 300]);
    assert_eq!(pause(1.0), 375);
}

#[test]
fn few_subjects_are_remembered() {
    let mut held = Held::default();
    for number in 0..100 {
        held.on(&pull(&format!("a:{number}"), None), failed(), at(number));
    }
    assert_eq!(held.troubles.len(), MOST_SUBJECTS);
    assert!(
        held.trouble(&pull("a:99", None).subject()).is_some() && held.trouble(&pull("a:0", None).subject()).is_none()
    );
}

#[test]
fn registry_that_says_when_it_wants_to_be_asked_again_is_not_asked_before_but_for_an_hour_at_most() {
    let mut held = Held::default();
    let work = pull("a:1", None);
    let again = |held: &Held| held.trouble(&work.subject()).unwrap().again(0.0, at(0));
    for (wait, expected) in [(90, 90), (1, 20), (1_000_000, 3600)] {
        let outcome = Outcome::Busy { cause: "too many requests".to_owned(), wait: Duration::from_secs(wait) };
        held.on(&work, outcome, at(0));
        assert_eq!(again(&held), at(expected), "{wait}");
    }
    held.on(&work, failed(), at(0));
    assert_eq!(again(&held), at(80), "it does not say so any more");
}

#[test]
fn failure_whose_time_is_still_to_come_is_tried_again_at_once_and_then_after_a_pause() {
    let (mut held, work) = (Held::default(), pull("a:1", None));
    held.on(&work, failed(), at(1_000_000));
    let again = |held: &Held, now| held.trouble(&work.subject()).unwrap().again(0.0, at(now));
    assert_eq!(again(&held, 5), at(5), "the clock was set back");
    held.on(&work, failed(), at(5));
    assert_eq!(again(&held, 5), at(25));
}
