use super::*;
use crate::cluster::error::Cause;

const RELIST: Duration = Duration::from_secs(1800);
const MOMENT: Duration = Duration::from_millis(10);

fn answer(code: u16) -> ApiError {
    let cause = Cause::Server { code, reason: String::new(), message: String::new() };
    ApiError { attempt: "watch".into(), cause }
}

fn failed(code: u16) -> Ended {
    Ended { end: End::Failed(answer(code), None), watched: None }
}

fn watched(end: End, watched: Duration) -> Ended {
    Ended { end, watched: Some(watched) }
}

/// A kind that was read by pages is read by initial events as soon as they may come again.
#[test]
fn initial_events_are_asked_for_again() {
    // The server does not know them: at the next time that everything is read.
    for end in [End::Relist, End::Gone] {
        let mut course = Course::new(RELIST);
        assert_eq!(
            course.next(Ended { end: End::RelistAs(Mode::Pages), watched: None }, MOMENT),
            Next::After(Duration::ZERO)
        );
        assert_eq!(course.mode, Mode::Pages);
        course.next(watched(end, RELIST), RELIST);
        assert_eq!((course.mode, course.from.as_deref(), course.lasts), (Mode::Stream, None, RELIST));
    }
    // It answered with errors: soon, then later and later.
    let mut course = Course::new(RELIST);
    for expected in [60, 120, 240, 480, 960, 1800, 1800] {
        course.lasts = RELIST;
        course.next(failed(500), MOMENT);
        assert_eq!(course.mode, Mode::Stream);
        course.next(failed(500), MOMENT);
        assert_eq!((course.mode, course.lasts), (Mode::Pages, Duration::from_secs(expected)));
        course.next(watched(End::Relist, course.lasts), course.lasts);
        assert_eq!(course.mode, Mode::Stream);
    }
    // A success of initial events ends that.
    course.next(watched(End::Relist, RELIST), RELIST);
    course.next(failed(500), MOMENT);
    course.next(failed(500), MOMENT);
    assert_eq!((course.mode, course.lasts), (Mode::Pages, DETOUR));
    // If pages cannot be read either, both are tried in turn.
    course.next(failed(500), MOMENT);
    assert_eq!(course.mode, Mode::Stream);
    course.next(failed(500), MOMENT);
    assert_eq!(course.mode, Mode::Pages);
    // A kind with too many other objects stays at metadata.
    let mut course = Course::new(RELIST);
    course.next(Ended { end: End::RelistAs(Mode::Metadata), watched: None }, MOMENT);
    course.next(watched(End::Relist, RELIST), RELIST);
    assert_eq!(course.mode, Mode::Metadata);
}

#[test]
fn position_is_kept_until_it_has_failed_often() {
    let mut course = Course::new(RELIST);
    course.next(watched(End::From("7".into()), MOMENT * 200), MOMENT * 200);
    assert_eq!(course.from.as_deref(), Some("7"));
    let mut kept = 0;
    while let Some(from) = course.from.clone() {
        course.next(Ended { end: End::Failed(answer(500), Some(from)), watched: None }, MOMENT);
        kept += 1;
    }
    assert_eq!(kept, POSITION_LOST);
    assert_eq!(course.mode, Mode::Stream);
    // A server that does not know the position is asked for everything at once, but only once.
    let mut course = Course::new(RELIST);
    assert_eq!(course.next(watched(End::Gone, MOMENT), MOMENT), Next::After(Duration::ZERO));
    assert!(matches!(course.next(watched(End::Gone, MOMENT), MOMENT), Next::After(pause) if !pause.is_zero()));
}

#[test]
fn kind_that_is_not_served_is_waited_for() {
    let mut course = Course::new(RELIST);
    for _ in 1..POSITION_LOST {
        assert!(matches!(course.next(failed(404), MOMENT), Next::After(pause) if !pause.is_zero()));
    }
    assert!(matches!(course.next(failed(404), MOMENT), Next::Served(_)));
    assert!(matches!(course.next(failed(404), MOMENT), Next::After(_)), "it is tried again a few times then");
}

#[test]
fn kind_that_stays_away_is_asked_for_less_and_less_until_something_changes() {
    let waits = |course: &mut Course, seconds: &[u64]| {
        for expected in seconds.iter().map(|seconds| Duration::from_secs(*seconds)) {
            let pause = loop {
                match course.next(failed(404), MOMENT) {
                    Next::After(pause) => assert!(!pause.is_zero()),
                    Next::Served(pause) => break pause,
                    other => panic!("{other:?}"),
                }
            };
            assert!((expected..=expected.mul_f64(1.25)).contains(&pause), "{pause:?} and not {expected:?}");
        }
    };
    let mut course = Course::new(RELIST);
    waits(&mut course, &[120, 240, 480, 960, 1800, 1800]);
    course.changed();
    waits(&mut course, &[120, 240]);
    course.next(watched(End::Relist, RELIST), RELIST);
    waits(&mut course, &[120, 240]);
    // The server of its group is named again, and does not answer yet.
    course.next(failed(503), MOMENT);
    waits(&mut course, &[120, 240]);
}
