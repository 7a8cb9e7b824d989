use super::*;

#[test]
fn pause_doubles_up_to_its_cap() {
    let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
    for (failures, seconds) in [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (u32::MAX, 30.0)] {
        assert_eq!(doubled(base, failures, cap).as_secs_f64(), seconds, "{failures} failures");
    }
}
