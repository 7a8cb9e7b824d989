use super::*;

#[tokio::test(start_paused = true)]
async fn pauses_grow_to_ten_seconds_and_reset_after_a_watch_that_lasted() {
    let mut backoff = WatchBackoff::default();
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let pause = backoff.pause();
        pauses.push(pause.as_secs_f64());
        tokio::time::sleep(pause).await;
        // The watch starts, sends its initial events, and breaks.
        backoff.reset();
    }
    for (pause, seconds) in pauses.iter().zip([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]) {
        assert!((seconds..seconds * 1.25).contains(pause), "{pauses:?}");
    }
    tokio::time::sleep(RECOVERED + Duration::from_millis(1)).await;
    assert!(backoff.pause() < FIRST.mul_f64(1.25));
}

#[test]
fn pause_doubles_up_to_its_cap_with_a_quarter_of_jitter() {
    let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
    for (failures, seconds) in
        [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (8, 30.0), (u32::MAX, 30.0)]
    {
        let drawn: Vec<f64> = (0..200).map(|_| jittered(base, failures, cap).as_secs_f64()).collect();
        assert!(drawn.iter().all(|pause| (seconds..seconds * 1.25).contains(pause)), "{failures}: {drawn:?}");
        let first = drawn[0];
        assert!(drawn.iter().any(|pause| *pause != first), "not all clients come back at the same moment");
    }
}

#[tokio::test(start_paused = true)]
async fn watches_that_each_node_has_do_not_come_back_together() {
    let after = |failures: u32| {
        let mut backoff = WatchBackoff::of_nodes();
        let mut pause = Duration::ZERO;
        for _ in 0..failures {
            pause = backoff.pause();
        }
        pause
    };
    for (failures, seconds) in [(1, 0.2), (4, 1.6), (9, 51.2), (12, 60.0), (40, 60.0)] {
        let drawn: Vec<f64> = (0..400).map(|_| after(failures).as_secs_f64()).collect();
        assert!(drawn.iter().all(|pause| *pause < seconds), "{failures}: {drawn:?}");
        // One of them is missing from all by a chance of less than 1 in 10^16.
        let tenth = |number: f64| drawn.iter().any(|pause| (number..number + 1.0).contains(&(pause / seconds * 10.0)));
        assert!((0..10).all(|number| tenth(f64::from(number))), "{failures}: {drawn:?}");
    }
}
