use super::*;

const ID: &str = "01234567-89AB-4CDE-8F01-23456789ABCD";

#[test]
fn request_url_keeps_given_parameters_and_sorts_them() {
    let url = |upstream| request_url(upstream, "amd64", "stable-1 &x", ID, "1.0.0+b").unwrap();
    let ours = "arch=amd64&channel=stable-1+%26x&id=01234567-89ab-4cde-8f01-23456789abcd";
    assert_eq!(url("https://u/graph"), format!("https://u/graph?{ours}&version=1.0.0%2Bb"));
    assert_eq!(
        url("http://u:8080/g?z=1&arch=old&channel#frag"),
        format!("http://u:8080/g?arch=old&{}&version=1.0.0%2Bb&z=1", ours.replace("channel=", "channel=&channel="))
    );
}

#[test]
fn missing_fields_are_reported_in_order() {
    // upstream, arch, channel, id, version
    let mut request = ["", "", "", "", ""];
    let steps = [
        (Reason::NoUpstream, 0, "#%GG"),
        (Reason::InvalidURI, 0, "foo"),
        (Reason::InvalidID, 3, ID),
        (Reason::NoArchitecture, 1, "amd64"),
        (Reason::NoCurrentVersion, 4, "v1"),
        (Reason::NoChannel, 2, "stable"),
        (Reason::InvalidCurrentVersion, 4, "1.0.0"),
        (Reason::InvalidRequest, 0, "ftp://u/"),
        (Reason::InvalidRequest, 0, "https://u/graph"),
    ];
    for (reason, field, next) in steps {
        let [upstream, arch, channel, id, version] = request;
        let error = request_url(upstream, arch, channel, id, version).unwrap_err();
        assert_eq!(error.reason, reason, "{request:?}: {error}");
        request[field] = next;
    }
    let [upstream, arch, channel, id, version] = request;
    assert!(request_url(upstream, arch, channel, id, version).is_ok());
}

#[test]
fn uri_references_are_parsed_leniently() {
    let table = [
        ("", true),
        ("foo", true),
        ("https://u/%41?%GG", true),
        ("#%GG", false),
        ("a%4", false),
        ("a\nb", false),
        ("https://[", false),
        ("http://h:99999/", false),
        ("%é", false),
    ];
    for (text, valid) in table {
        assert_eq!(uri_problem(text).is_none(), valid, "{text}");
    }
}

#[test]
fn flag_overrides_spec_and_spec_overrides_default() {
    assert_eq!(service(Some("a"), "b"), "a");
    assert_eq!(service(Some(""), "b"), "b");
    assert_eq!(service(None, ""), DEFAULT_SERVICE);
}

#[test]
fn reasons_are_written_as_in_the_api() {
    let error: (String, String) = RetrievalError::new(Reason::InvalidURI, "m").into();
    assert_eq!(error, ("InvalidURI".into(), "m".into()));
    assert!(Reason::ResponseFailed.is_transient() && !Reason::VersionNotFound.is_transient());
}
