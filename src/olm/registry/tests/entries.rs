use super::*;

fn shown(entries: Vec<ChannelEntry>) -> Vec<String> {
    let text = |it: ChannelEntry| format!("{} {} {} {}", it.package_name, it.channel_name, it.bundle_name, it.replaces);
    let mut shown: Vec<String> = entries.into_iter().map(text).collect();
    shown.sort();
    shown
}

#[test]
fn entries_that_replace_or_skip_a_bundle_are_told_once_with_what_they_replace() {
    let content = content(&widgets());
    let replacing = |name: &str| GetAllReplacementsRequest { csv_name: name.into() };
    let told = |name: &str| shown(ask(replacing(name), &content).unwrap());
    assert_eq!(told("widgets.v2"), ["widgets fast widgets.v3 widgets.v2", "widgets stable widgets.v3 widgets.v2"]);
    assert_eq!(told("widgets.v1"), ["widgets stable widgets.v2 widgets.v1", "widgets stable widgets.v3 widgets.v2"]);
    for nothing in ["widgets.v3", ""] {
        assert_eq!(refusal(replacing(nothing), &content), format!("no channel entries found that replace {nothing:?}"));
    }
}

#[test]
fn entries_that_provide_an_api_are_told_for_all_that_they_replace_and_skip() {
    let content = content(&widgets());
    let providing = |kind: &str| GetAllProvidersRequest {
        group: "example.com".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: "ignored".into(),
    };
    assert_eq!(
        shown(ask(providing("Gadget"), &content).unwrap()),
        [
            "widgets fast widgets.v3 widgets.v2",
            "widgets stable widgets.v3 widgets.v1",
            "widgets stable widgets.v3 widgets.v2",
            "widgets stable widgets.v3 widgets.v2.5",
        ]
    );
    assert_eq!(ask(providing("Widget"), &content).unwrap().len(), 7);
    let expected = r#"no channel entries found that provide group "example.com", version "v1", kind "Other""#;
    assert_eq!(refusal(providing("Other"), &content), expected);
}

#[test]
fn latest_entries_that_provide_an_api_are_heads_with_what_they_skip_in_their_channel() {
    let content = content(&widgets());
    let providing = |kind: &str| GetLatestProvidersRequest {
        group: "example.com".into(),
        version: "v1".into(),
        kind: kind.into(),
        plural: String::new(),
    };
    assert_eq!(
        shown(ask(providing("Widget"), &content).unwrap()),
        [
            "gears main gears.v1 ",
            "widgets fast widgets.v3 widgets.v2",
            "widgets stable widgets.v3 widgets.v1",
            "widgets stable widgets.v3 widgets.v2",
        ]
    );
    assert_eq!(shown(ask(providing("Cog"), &content).unwrap()), ["gears old gears.v0 "]);
    assert!(refusal(providing("Other"), &content).starts_with("no channel entries found that provide"));
}
