use super::*;

/// Entries as `name<replaced!skipped,skipped@range`; their versions are their names.
fn graph(text: &str) -> Vec<Entry<'static>> {
    let entry = |text: &str| {
        let (text, range) = text.split_once('@').unwrap_or((text, ""));
        let (text, skips) = text.split_once('!').unwrap_or((text, ""));
        let (name, replaces) = text.split_once('<').unwrap_or((text, ""));
        Entry {
            name: Cow::Owned(name.to_owned()),
            replaces: Cow::Owned(replaces.to_owned()),
            skips: skips.split(',').filter(|skip| !skip.is_empty()).map(|skip| Cow::Owned(skip.to_owned())).collect(),
            skip_range: Cow::Owned(range.to_owned()),
        }
    };
    text.split(' ').filter(|text| !text.is_empty()).map(entry).collect()
}

fn text(entry: &Entry<'_>) -> String {
    let skips = if entry.skips.is_empty() { String::new() } else { format!("!{}", entry.skips.join(",")) };
    let replaces = if entry.replaces.is_empty() { String::new() } else { format!("<{}", entry.replaces) };
    format!("{}{replaces}{skips}", entry.name)
}

/// Flags as on the command line.
fn added(old: &str, name: &str, flags: &str) -> Result<String, AdditionError> {
    let old = graph(old);
    let versions = old.iter().filter_map(|entry| Some((entry.name.as_ref(), entry.name.parse().ok()?))).collect();
    let value = |flag: &str| flags.split(' ').filter_map(|it| it.strip_prefix(flag)).map(str::to_owned).collect();
    let replaces: Vec<String> = value("--replaces=");
    let addition = Addition {
        name: name.to_owned(),
        version: name.parse().unwrap(),
        replaces: replaces.first().cloned(),
        before_all: "0.9.0".to_owned(),
        skips: value("--skip="),
        z_stream: flags.contains("--z-stream"),
        skip_range: String::new(),
    };
    entry(&old, &versions, &addition).map(|entry| text(&entry))
}

#[test]
fn new_version_replaces_the_head_unless_that_is_skipped() {
    for (old, name, flags, expected) in [
        ("", "1.0.0", "", "1.0.0<0.9.0"),
        ("1.0.0", "1.1.0", "", "1.1.0<1.0.0"),
        ("1.0.0 1.1.0<1.0.0", "1.2.0", "", "1.2.0<1.1.0"),
        ("1.0.0 1.1.0<1.0.0", "1.2.0", "--skip=1.1.0", "1.2.0<1.0.0!1.1.0"),
        ("1.0.0 1.1.0<1.0.0", "1.2.0", "--skip=1.1.0 --skip=1.1.0 --replaces=1.0.0", "1.2.0<1.0.0!1.1.0"),
        // All are skipped, and what the oldest replaces is gone.
        ("1.0.0<0.9.0 1.1.0<1.0.0", "1.2.0", "--skip=1.1.0 --skip=1.0.0", "1.2.0<0.9.0!1.1.0,1.0.0"),
        ("1.0.0!0.8.0 0.8.0", "1.1.0", "", "1.1.0<1.0.0"),
    ] {
        assert_eq!(added(old, name, flags).as_deref(), Ok(expected), "{old} + {name} {flags}");
    }
}

#[test]
fn z_stream_skips_its_earlier_releases_and_replaces_what_was_before_them() {
    let old = "4.0.0 4.0.1<4.0.0 4.1.0<4.0.1 4.1.1<4.1.0";
    assert_eq!(added(old, "4.1.2", "--z-stream").as_deref(), Ok("4.1.2<4.0.1!4.1.0,4.1.1"));
    // The next one of a stream that was made so.
    let old = "4.0.0 4.1.0<4.0.0 4.1.1<4.0.0!4.1.0";
    assert_eq!(added(old, "4.1.2", "--z-stream").as_deref(), Ok("4.1.2<4.0.0!4.1.0,4.1.1"));
    // The first of a minor version.
    assert_eq!(added(old, "4.2.0", "--z-stream").as_deref(), Ok("4.2.0<4.1.1"));
    // A skipped one of another stream besides.
    assert_eq!(
        added("3.9.0 4.0.0<3.9.0 4.1.0<4.0.0", "4.1.1", "--z-stream --skip=4.0.0").as_deref(),
        Ok("4.1.1<3.9.0!4.0.0,4.1.0")
    );
    let later = added("4.1.3", "4.1.2", "--z-stream").unwrap_err();
    assert!(matches!(later, AdditionError::Later { .. }), "{later}");
}

#[test]
fn graph_in_which_something_has_no_or_several_successors_is_refused() {
    let cases: [(&str, &str, &str, &str); 8] = [
        ("1.0.0", "1.0.0", "", "has 1.0.0 already"),
        ("1.0.0 1.1.0", "1.2.0", "", "the channel as it is: it has 2 heads"),
        ("1.0.0", "1.1.0", "--replaces=0.9.0", "--replaces 0.9.0: the channel has no such entry. It has 1.0.0"),
        ("1.0.0", "1.1.0", "--skip=0.9.0", "--skip 0.9.0: the channel has no such entry"),
        ("1.0.0 1.1.0<1.0.0", "1.2.0", "--replaces=1.0.0", "would not be the end of the channel: it has 2 heads"),
        // Whoever has 1.0.0 finds 1.1.0 and, because that is what it skips, 1.2.0.
        ("1.0.0 1.1.0<1.0.0", "1.2.0", "--skip=1.0.0", "1.0.0 would be followed by 1.1.0, 1.2.0"),
        ("1.0.0 1.1.0<1.0.0 1.2.0<1.1.0!1.0.0", "1.3.0", "", "1.0.0 would be followed by 1.1.0, 1.2.0"),
        ("1.0.0<1.1.0 1.1.0<1.0.0 1.2.0<1.1.0", "1.3.0", "", "the channel as it is: its entries replace each other"),
    ];
    for (old, name, flags, expected) in cases {
        let error = added(old, name, flags).unwrap_err().to_string();
        assert!(error.contains(expected), "{old} + {name} {flags}: {error}");
    }
}

#[test]
fn range_counts_only_where_nothing_replaces_or_skips() {
    let old = graph("1.0.0 1.1.0<1.0.0@<1.1.0");
    let versions = old.iter().map(|entry| (entry.name.as_ref(), entry.name.parse().unwrap())).collect();
    let addition = Addition {
        name: "1.2.0".to_owned(),
        version: Version::new(1, 2, 0),
        replaces: None,
        before_all: String::new(),
        skips: Vec::new(),
        z_stream: false,
        skip_range: "<1.2.0".to_owned(),
    };
    let added = entry(&old, &versions, &addition).unwrap();
    assert_eq!((added.replaces.as_ref(), added.skip_range.as_ref()), ("1.1.0", "<1.2.0"));
    let new = graph("1.0.0 1.1.0@>=1.0.0");
    assert_eq!(one_successor(&old[..1], &new, &versions), Ok(()));
    assert_eq!(
        one_successor(&old[..1], &graph("1.0.0 1.1.0@>1.0.0"), &versions),
        Err(AdditionError::NoSuccessor("1.0.0".into()))
    );
}

/// With whatever is added to whatever there is, each installed version finds one that follows it, or nothing is added.
#[test]
fn additions_keep_one_successor_for_each_entry() {
    let mut old = Vec::new();
    let mut seed = 7_u64;
    let mut random = |below: usize| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize % below
    };
    let mut added = 0;
    for round in 0..300_u64 {
        let names: Vec<String> = old.iter().map(|entry: &Entry<'static>| entry.name.to_string()).collect();
        let pick = |at: usize| names.get(at).cloned();
        let addition = Addition {
            name: format!("1.{}.{round}", round / 5),
            version: Version::new(1, round / 5, round),
            before_all: String::new(),
            replaces: (random(4) == 0).then(|| pick(random(names.len() + 1))).flatten(),
            skips: (0..random(3)).filter_map(|_| pick(random(names.len() + 1))).collect(),
            z_stream: random(3) == 0,
            skip_range: String::new(),
        };
        let versions = old.iter().map(|entry| (entry.name.as_ref(), entry.name.parse().unwrap())).collect();
        let Ok(entry) = entry(&old, &versions, &addition) else { continue };
        added += 1;
        let new: Vec<Entry<'static>> = old.iter().cloned().chain([entry]).collect();
        assert_eq!(channel::check(&new).1, []);
        let skipped = |name: &str| new.iter().any(|entry| entry.skips.iter().any(|skip| skip == name));
        for entry in &old {
            let follows = |it: &&Entry<'_>| it.replaces == entry.name || it.skips.contains(&entry.name);
            assert_eq!(new.iter().filter(follows).filter(|it| !skipped(&it.name)).count(), 1, "{}", entry.name);
        }
        old = new;
    }
    assert!(added > 50, "{added}");
}
