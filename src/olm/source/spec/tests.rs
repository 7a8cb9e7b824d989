use super::*;
use crate::olm::api::catalog_source::{ExtractContent, GrpcPodConfig, RegistryPoll, UpdateStrategy};

fn every(text: Option<&str>) -> (Option<SignedDuration>, Option<String>) {
    let poll = text.map(|text| RegistryPoll { interval: text.to_owned() });
    let update_strategy = Some(UpdateStrategy { registry_poll: poll });
    interval(&CatalogSourceSpec { update_strategy, ..CatalogSourceSpec::default() })
}

#[test]
fn interval_is_a_duration_of_go() {
    assert_eq!(interval(&CatalogSourceSpec::default()), (None, None));
    for (text, seconds) in [(None, None), (Some(""), None), (Some("30m0s"), Some(1800)), (Some("1ms"), Some(1))] {
        assert_eq!(every(text), (seconds.map(SignedDuration::from_secs), None), "{text:?}");
    }
    for (text, cause) in [
        ("half an hour", "\"half an hour\" does not begin with a number"),
        ("30", "a unit (h, m, s, ms, us, ns) is missing at \"30\""),
        ("0s", "it must be longer than nothing"),
        ("-5m", "it must be longer than nothing"),
    ] {
        let (every, message) = every(Some(text));
        assert_eq!(every, Some(SignedDuration::from_mins(15)));
        let message = message.unwrap();
        assert!(message.contains(&format!("{text:?}")) && message.ends_with(cause), "{message}");
    }
}

#[test]
fn sources_are_told_by_their_type() {
    let spec = |source_type: SourceType, image: &str, address: &str| CatalogSourceSpec {
        source_type,
        image: image.to_owned(),
        address: address.to_owned(),
        config_map: "c".to_owned(),
        ..CatalogSourceSpec::default()
    };
    let image =
        |image: &str, directory: &str| Wanted::Image { image: image.to_owned(), directory: directory.to_owned() };
    for (spec, resolved, expected) in [
        (spec(SourceType::Grpc, "a:1", ""), "a:1", image("a:1", "")),
        (spec(SourceType::Grpc, "a:1", "b:1"), "a:2", image("a:2", "")),
        (spec(SourceType::Grpc, "", "b:1"), "", Wanted::Address("b:1".to_owned())),
        (spec(SourceType::ConfigMap, "a:1", "b:1"), "a:1", Wanted::ConfigMap("c".to_owned())),
        (spec(SourceType::Internal, "", ""), "", Wanted::ConfigMap("c".to_owned())),
    ] {
        assert_eq!(wanted(&spec, resolved, &|_| Ok(())), Ok(expected), "{spec:?}");
    }
    let extract_content = Some(ExtractContent { catalog_dir: "/mine".to_owned(), cache_dir: String::new() });
    let mut with_folder = spec(SourceType::Grpc, "a:1", "");
    with_folder.grpc_pod_config = Some(GrpcPodConfig { extract_content, ..GrpcPodConfig::default() });
    assert_eq!(wanted(&with_folder, "a:1", &|_| Ok(())), Ok(image("a:1", "/mine")));
}

#[test]
fn long_values_are_shortened_in_messages() {
    let long = "x".repeat(100_000);
    let other = CatalogSourceSpec { source_type: SourceType::Other(long.clone()), ..CatalogSourceSpec::default() };
    assert!(wanted(&other, "", &|_| Ok(())).unwrap_err().len() < 300);
    let grpc = CatalogSourceSpec { source_type: SourceType::Grpc, ..CatalogSourceSpec::default() };
    assert!(wanted(&grpc, &long, &|_| Err("no".to_owned())).unwrap_err().len() < 300);
    assert!(every(Some(&long)).1.unwrap().len() < 500);
}
