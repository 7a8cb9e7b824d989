use super::*;

fn at(windows: &str, zone: &str, now: &str) -> Opening {
    Windows::parse(windows, zone).unwrap().at(now.parse().unwrap())
}

fn open(until: &str) -> Opening {
    Opening::Open { until: until.parse().ok() }
}

fn closed(until: &str) -> Opening {
    Opening::Closed { until: until.parse().ok() }
}

/// 2026-11-23 is a Monday.
#[test]
fn window_is_open_from_its_first_to_before_its_last_minute() {
    let windows = "Mon-Fri 22:00-04:00";
    assert_eq!(at(windows, "", "2026-11-23T21:59:59Z"), closed("2026-11-23T22:00:00Z"));
    assert_eq!(at(windows, "", "2026-11-23T22:00:00Z"), open("2026-11-24T04:00:00Z"));
    assert_eq!(at(windows, "", "2026-11-24T03:59:59Z"), open("2026-11-24T04:00:00Z"));
    assert_eq!(at(windows, "UTC", "2026-11-24T04:00:00Z"), closed("2026-11-24T22:00:00Z"));
    // The one that begins on Friday ends on Saturday, and the next begins on Monday.
    assert_eq!(at(windows, "", "2026-11-28T03:00:00Z"), open("2026-11-28T04:00:00Z"));
    assert_eq!(at(windows, "", "2026-11-28T04:00:00Z"), closed("2026-11-30T22:00:00Z"));
}

#[test]
fn days_and_hours_are_those_of_the_zone() {
    // 22:00 in Berlin is 21:00 UTC in winter and 20:00 in summer.
    assert_eq!(at("Mon 22:00-23:00", "Europe/Berlin", "2026-11-23T21:30:00Z"), open("2026-11-23T22:00:00Z"));
    assert_eq!(at("Mon 22:00-23:00", "Europe/Berlin", "2026-07-06T20:30:00Z"), open("2026-07-06T21:00:00Z"));
    // Monday in Auckland begins while it is Sunday in UTC.
    assert_eq!(at("Mon 00:00-01:00", "Pacific/Auckland", "2026-11-22T11:30:00Z"), open("2026-11-22T12:00:00Z"));
}

/// On 2026-03-29 the clocks of Berlin go from 02:00 to 03:00, and on 2026-10-25 back from 03:00 to 02:00.
#[test]
fn change_to_summer_time_shortens_a_window_and_the_change_back_makes_it_longer() {
    let windows = "Sun 01:00-04:00";
    assert_eq!(at(windows, "Europe/Berlin", "2026-03-29T00:00:00Z"), open("2026-03-29T02:00:00Z"));
    assert_eq!(at(windows, "Europe/Berlin", "2026-10-24T23:00:00Z"), open("2026-10-25T03:00:00Z"));
    // A window in the hour that does not exist is empty or moves, and never lasts for a day.
    let opening = at("Sun 02:15-02:45", "Europe/Berlin", "2026-03-29T01:20:00Z");
    assert_eq!(opening, open("2026-03-29T01:45:00Z"));
}

#[test]
fn windows_that_touch_are_one_and_one_without_an_end_is_always_open() {
    assert_eq!(at("Mon 20:00-24:00; Tue 00:00-02:00", "", "2026-11-23T21:00:00Z"), open("2026-11-24T02:00:00Z"));
    assert_eq!(at("Mon-Sun 00:00-24:00", "", "2026-11-23T21:00:00Z"), Opening::Open { until: None });
    assert_eq!(at("Mon-Sun 08:00-08:00", "", "2026-11-23T21:00:00Z"), Opening::Open { until: None });
    assert_eq!(at("", "", "2026-11-23T21:00:00Z"), Opening::Closed { until: None });
}

#[test]
fn days_are_names_lists_and_ranges_around_the_weekend() {
    for (windows, open) in [
        ("mon 00:00-24:00", [true, false, false, false, false, false, false]),
        ("Tue,Thu 00:00-24:00", [false, true, false, true, false, false, false]),
        ("Fri-Mon 00:00-24:00", [true, false, false, false, true, true, true]),
        ("Sat-Sun,Wed 00:00-24:00", [false, false, true, false, false, true, true]),
    ] {
        let monday: Timestamp = "2026-11-23T12:00:00Z".parse().unwrap();
        let windows = Windows::parse(windows, "").unwrap();
        let found: Vec<bool> =
            (0..7).map(|day| matches!(windows.at(monday + (day * 24).hours()), Opening::Open { .. })).collect();
        assert_eq!(found, open, "{windows:?}");
    }
}

#[test]
fn text_that_is_no_window_is_refused_with_its_place() {
    for (windows, zone, error) in [
        ("always", "", WindowError::Window("always".into())),
        ("Mon 10:00", "", WindowError::Window("Mon 10:00".into())),
        ("Mon 10:00-12:00 UTC", "", WindowError::Window("Mon 10:00-12:00 UTC".into())),
        ("Mo 10:00-12:00", "", WindowError::Day("Mo".into())),
        ("Mon- 10:00-12:00", "", WindowError::Day(String::new())),
        ("Mon 10:00-25:00", "", WindowError::Time("25:00".into())),
        ("Mon 10:00-24:01", "", WindowError::Time("24:01".into())),
        ("Mon +1:00-12:00", "", WindowError::Time("+1:00".into())),
        ("Mon 9:00-12:00", "", WindowError::Time("9:00".into())),
        ("Mon 10:00-12:00", "Mars/Olympus", WindowError::Zone("Mars/Olympus".into())),
    ] {
        assert_eq!(Windows::parse(windows, zone).unwrap_err(), error, "{windows}");
    }
    assert_eq!(Windows::parse(&"Mon 10:00-12:00;".repeat(100), "").unwrap_err(), WindowError::Long);
}

#[test]
fn ends_of_time_do_not_panic() {
    let windows = Windows::parse("Mon-Sun 22:00-04:00", "Pacific/Auckland").unwrap();
    assert!(matches!(windows.at(Timestamp::UNIX_EPOCH), Opening::Closed { until: Some(_) }));
    for now in [Timestamp::MIN, Timestamp::MAX] {
        assert!(matches!(windows.at(now), Opening::Closed { .. } | Opening::Open { .. }));
    }
}
