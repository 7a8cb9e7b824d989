use super::*;

fn check(image: &str) -> Result<(), String> {
    if image.is_empty() { Err("it is empty".to_owned()) } else { Ok(()) }
}

fn resolved(template: &str, version: Option<&Result<KubeVersion, String>>) -> Resolved {
    resolve(template, version, &check)
}

fn known(git: &str) -> Option<Result<KubeVersion, String>> {
    Some(Ok(KubeVersion::of("1", "30+", git).unwrap()))
}

#[test]
fn version_is_that_of_the_server_as_far_as_it_says_one() {
    let version = |major: &str, minor: &str, patch: Option<&str>| {
        Some(KubeVersion { major: major.into(), minor: minor.into(), patch: patch.map(str::to_owned) })
    };
    for (major, minor, git, expected) in [
        ("1", "35", "v1.35.2", version("1", "35", Some("2"))),
        ("1", "25+", "v1.25.16-eks-8cb36c9", version("1", "25", Some("16"))),
        ("", "", "v1.31.4+k3s1", version("1", "31", Some("4"))),
        ("1", "30", "1.35.2", version("1", "35", Some("2"))),
        ("1", "30+", "custom", version("1", "30", None)),
        ("1", "30+", "", version("1", "30", None)),
        ("one", "30", "", None),
        ("1", "", "", None),
        ("1", "x30", "", None),
    ] {
        assert_eq!(KubeVersion::of(major, minor, git), expected, "{major} {minor} {git}");
    }
}

#[test]
fn variables_get_their_values() {
    let version = known("v1.35.2");
    for (template, image) in [
        ("a/b:v1", "a/b:v1"),
        ("{kube_major_version}", "1"),
        ("a/b:{kube_major_version}.{kube_minor_version}.{kube_patch_version}-x", "a/b:1.35.2-x"),
        ("{kube_minor_version}/{kube_minor_version}", "35/35"),
    ] {
        assert_eq!(resolved(template, version.as_ref()), Resolved::Image(image.to_owned()), "{template}");
    }
}

#[test]
fn variables_wait_for_the_version_and_other_templates_do_not() {
    assert_eq!(resolved("a/b:{kube_major_version}", None), Resolved::NotYet);
    assert_eq!(resolved("a/b:1", None), Resolved::Image("a/b:1".to_owned()));
    assert!(matches!(resolved("a/b:{nobody}", None), Resolved::Unable(_)));
}

#[test]
fn message_names_all_that_is_wrong() {
    for (template, expected) in [
        (
            "{a}{b}{a}",
            "nobody knows {a}, {b}; there are {kube_major_version}, {kube_minor_version}, {kube_patch_version}",
        ),
        ("{", "it is malformed: a brace has no counterpart"),
        ("}", "it is malformed"),
        ("{}", "it is malformed"),
        ("{{kube_major_version}}", "it is malformed"),
        ("a{b", "it is malformed"),
        ("ä{ö}ü", "nobody knows {ö}; there are"),
        ("{ kube_major_version}", "nobody knows { kube_major_version}"),
        (
            "{a}{",
            "nobody knows {a}; there are {kube_major_version}, {kube_minor_version}, {kube_patch_version}; it is malformed",
        ),
        ("", "it stands for \"\", which is no image: it is empty"),
    ] {
        let Resolved::Unable(message) = resolved(template, known("v1.35.2").as_ref()) else { panic!("{template}") };
        assert!(message.contains(expected), "{template}: {message}");
        assert!(message.starts_with(&format!("cannot make an image of the template {template:?}: ")), "{message}");
    }
}

#[test]
fn variable_without_a_value_is_named_with_the_cause() {
    let Resolved::Unable(message) = resolved("{kube_minor_version}{kube_patch_version}", known("custom").as_ref())
    else {
        panic!("the server says no patch");
    };
    let expected = "the API server has no value for {kube_patch_version}: it does not say them of itself";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn message_stays_short() {
    let many: String = (0..5000).map(|number| format!("{{variable_{number}_{}}}", "x".repeat(300))).collect();
    let Resolved::Unable(message) = resolved(&many, known("v1.35.2").as_ref()) else { panic!() };
    assert!(message.len() < 4000 && message.contains("and 4990 more"), "{} {message}", message.len());
}

proptest::proptest! {
    #[test]
    fn every_text_is_resolved_or_said(template in "([{}]|[a-zä:/]{0,3}|kube_major_version){0,9}") {
        match resolved(&template, known("v1.35.2").as_ref()) {
            Resolved::Image(image) => proptest::prop_assert!(!image.contains(['{', '}']), "a brace is left"),
            Resolved::Unable(message) => proptest::prop_assert!(!message.is_empty()),
            Resolved::NotYet => proptest::prop_assert!(false, "the version is known"),
        }
    }
}
