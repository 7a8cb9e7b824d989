use super::*;

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

#[test]
fn quantiles_are_of_the_last_durations() {
    assert_eq!(Durations::default().quantile(50), None);
    let mut durations = Durations::new([30, 10, 20, -5]);
    assert_eq!((durations.quantile(50), durations.quantile(90)), (Some(seconds(20)), Some(seconds(30))));
    assert_eq!((durations.quantile(0), durations.quantile(1000)), (Some(seconds(10)), Some(seconds(30))));
    for number in 0..100 {
        durations.add(seconds(number));
    }
    assert_eq!(durations.seconds().len(), KEPT);
    assert_eq!((durations.seconds()[0], durations.quantile(0)), (99, Some(seconds(68))));
    durations.add(seconds(-1));
    assert_eq!(durations.seconds()[0], 0, "a clock was put back");
}

#[test]
fn rest_is_that_of_a_schedule_with_so_many_at_a_time() {
    let each = seconds(60);
    assert_eq!(remaining(&[], 0, 3, each), seconds(0));
    assert_eq!(remaining(&[], 5, 3, each), seconds(120));
    assert_eq!(remaining(&[], 5, 1, each), seconds(300));
    assert_eq!(remaining(&[], 5, 0, each), seconds(300), "at least one goes on");
    // The next begins when the first of those under way ends.
    assert_eq!(remaining(&[seconds(50), seconds(10)], 1, 2, each), seconds(70));
    assert_eq!(remaining(&[seconds(50), seconds(10)], 1, 3, each), seconds(60));
    assert_eq!(remaining(&[seconds(500)], 1, 1, each), seconds(60), "it may be done at any moment");
    assert_eq!(remaining(&[], 100_000, 1000, each), seconds(6000));
}
