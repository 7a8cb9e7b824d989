use super::*;

/// Of the pauses after failures.
const CAP: Duration = Duration::from_secs(300);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn updated(by: Option<&str>) -> Applied {
    Applied::Updated { fields: vec!["data.a".into()], by: by.map(str::to_owned) }
}

#[test]
fn failed_repair_backs_off_and_success_starts_over() {
    let mut repairs = Repairs::default();
    assert_eq!(repairs.begin(at(0)), Some(Duration::ZERO));
    let pauses: Vec<u64> = (0..11).map(|_| repairs.end(true, true, CAP, at(0)).unwrap().as_secs()).collect();
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
    assert_eq!(repairs.end(false, true, CAP, at(0)), None);
    assert_eq!(repairs.begin(at(0)), Some(Duration::ZERO));
    assert_eq!(repairs.end(true, true, CAP, at(0)), Some(PAUSE), "as after the first failure");
}

#[test]
fn server_that_was_away_for_long_makes_no_repair_slow() {
    let mut repairs = Repairs::default();
    repairs.begin(at(0));
    let pauses: Vec<u64> = (0..6).map(|_| repairs.end(true, false, CAP, at(0)).unwrap().as_secs()).collect();
    assert_eq!((pauses, repairs.failures()), (vec![1, 2, 4, 4, 4, 4], PATIENCE), "enough to be reported");
    assert_eq!(repairs.end(true, true, CAP, at(0)), Some(8 * PAUSE), "the first answer is a refusal");
    assert_eq!(repairs.end(true, false, CAP, at(0)), Some(8 * PAUSE), "which counts");
}

#[test]
fn third_repair_is_a_conflict_and_slower() {
    let mut repairs = Repairs::default();
    let id = ObjectId::new("", "ConfigMap", "ns", "a");
    for _ in 0..2 {
        assert_eq!(repairs.begin(at(0)), Some(Duration::ZERO));
        assert_eq!((repairs.conflict(&id, at(0)), repairs.conflict_ends(at(0))), (None, None));
        repairs.record_write(&updated(Some("somebody")), at(0));
        assert_eq!(repairs.end(false, true, CAP, at(0)), None);
    }
    assert_eq!(repairs.begin(at(1)), Some(PAUSE));
    repairs.record_write(&updated(None), at(1));
    let conflict = repairs.conflict(&id, at(1)).unwrap();
    assert_eq!((conflict.manager.as_str(), conflict.repairs), ("somebody", 3));
    assert_eq!(conflict.fields, ["data.a"]);
    assert_eq!(repairs.conflict_ends(at(1)), Some(at(600)), "ten minutes after the first of the last three");
    assert_eq!(repairs.begin(at(1)), None, "one repair at a time");
    assert_eq!(repairs.end(false, true, CAP, at(1)), Some(2 * PAUSE), "it changed again meanwhile, and slower still");
}

#[test]
fn conflict_ends_when_the_window_has_passed() {
    let mut repairs = Repairs::default();
    let id = ObjectId::new("", "ConfigMap", "ns", "a");
    for second in [0, 1, 2] {
        repairs.record_write(&Applied::Created, at(second));
    }
    assert!(repairs.conflict(&id, at(600)).is_some());
    assert_eq!((repairs.conflict(&id, at(601)), repairs.pause(at(603))), (None, Duration::ZERO));
    assert_eq!(repairs.pause(at(601)), PAUSE, "two are left in the window");
    let back = at(-6 * 3600);
    assert_eq!((repairs.conflict(&id, back), repairs.conflict_ends(back)), (None, None), "the clock was set back");
    assert_eq!(repairs.pause(back), Duration::ZERO);
    repairs.forget(back);
    assert_eq!(repairs.conflict(&id, at(60)), None, "and has come to the same time again");
}
