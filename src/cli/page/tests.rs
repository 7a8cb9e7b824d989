use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

#[test]
fn pods_are_looked_at_when_something_is_waited_for_and_then_less_and_less() {
    let awaited = |names: &[(&str, Option<i64>)]| -> Vec<(String, Option<Timestamp>)> {
        names.iter().map(|(name, since)| ((*name).to_owned(), since.map(at))).collect()
    };
    let seconds = |due: Option<Duration>| due.map(|due| due.as_secs());
    let mut looks = Looks::default();
    assert_eq!(looks.due(&[], at(0)), None, "nothing is waited for");
    let network = awaited(&[("network", Some(0))]);
    looks.of(&network);
    assert_eq!(seconds(looks.due(&network, at(10))), Some(20), "most of it is there in a moment");
    assert_eq!(seconds(looks.due(&network, at(40))), Some(0));
    assert_eq!(seconds(looks.due(&awaited(&[("old", None)]), at(0))), Some(0));
    looks.looked(at(40), false);
    for (now, pause) in [(40, 30), (70, 60), (130, 120), (250, 240), (490, 480), (970, 480)] {
        assert_eq!(seconds(looks.due(&network, at(now))), Some(pause));
        looks.of(&network);
        looks.looked(at(now + pause as i64), true);
    }
    let more = awaited(&[("network", Some(0)), ("dns", Some(1500))]);
    looks.of(&more);
    assert_eq!(seconds(looks.due(&more, at(1450))), Some(30), "something else is waited for");
}
