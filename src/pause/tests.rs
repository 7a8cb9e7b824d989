use super::*;

#[test]
fn pause_doubles_up_to_its_cap() {
    let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
    for (failures, seconds) in [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (u32::MAX, 30.0)] {
        assert_eq!(doubled(base, failures, cap).as_secs_f64(), seconds, "{failures} failures");
    }
}

#[test]
fn jitter_adds_up_to_a_quarter() {
    let pause = Duration::from_secs(4);
    for (random, seconds) in [(0.0, 4.0), (0.5, 4.5), (1.0, 5.0), (7.0, 5.0), (-1.0, 4.0)] {
        assert_eq!(jittered(pause, random).as_secs_f64(), seconds, "{random}");
    }
}
