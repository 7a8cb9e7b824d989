use super::*;

#[test]
fn wait_since_the_end_of_time_is_not_reported_again() {
    let since = |text: &str| reported_at(text.parse().unwrap()).count();
    assert_eq!(since("2026-11-21T10:00:00Z"), 4);
    assert_eq!(since("9999-12-30T21:25:00Z"), 2, "a jiff timestamp ends at 9999-12-30T22:00:00.999999999Z");
    assert_eq!((reported_at(Timestamp::MAX).count(), reported_at(Timestamp::MIN).count()), (0, 4));
}
