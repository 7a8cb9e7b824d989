//! Pictures of packages.

use super::*;
use crate::olm::packages::icon::Icon;
use crate::olm::packages::view::IconSource;

fn icon(package: &Package) -> Icon {
    Icon::of(&PackageManifest::of(&catalog(), package).unwrap())
}

#[test]
fn first_icon_of_the_default_channels_head_is_sent_with_its_tag() {
    let package = Package { default_channel: "old", ..widgets() };
    let icon = icon(&package);
    assert_eq!(
        (&*icon.bytes, &*icon.media_type, &*icon.etag),
        (&[0, 1, 2][..], "image/png", "\"widgets.old.widgets.v0.9.0\"")
    );
}

#[test]
fn icon_of_the_package_belongs_to_heads_of_which_only_metadata_are_known() {
    let source = IconSource { data: "AA\nEC\n", media_type: "image/svg+xml" };
    let icon = icon(&Package { icon: Some(source), ..widgets() });
    assert_eq!((&*icon.bytes, &*icon.etag), (&[0, 1, 2][..], "\"widgets.stable.widgets.v1.2.0\""));
}

#[test]
fn default_picture_is_sent_where_there_is_none_that_can_be_sent() {
    let default = icon(&widgets());
    assert_eq!(default.media_type, "image/svg+xml");
    assert!(default.bytes.starts_with(b"<svg ") && default.bytes.ends_with(b"</svg>"));
    for (data, media_type) in
        [("#", "image/png"), ("", "image/png"), ("AAEC", "text/html"), ("AAEC", "image/\r\nx: y"), ("AAEC", "image/")]
    {
        let source = IconSource { data, media_type };
        assert_eq!(icon(&Package { icon: Some(source), ..widgets() }), default, "{data:?} {media_type:?}");
    }
}

#[test]
fn tag_of_what_the_client_has_is_known() {
    let icon = icon(&widgets());
    let tag = "\"widgets.stable.widgets.v1.2.0\"";
    for known in [tag, "*", &format!("W/{tag}"), &format!("\"x\", {tag}")] {
        assert!(icon.is_known(known), "{known}");
    }
    for other in ["", "\"x\"", "widgets.stable.widgets.v1.2.0"] {
        assert!(!icon.is_known(other), "{other}");
    }
}

#[test]
fn names_in_a_tag_cannot_end_it() {
    let stable = Channel { name: "a\"\r\nb ä", ..channel("", CsvSource::Metadata(METADATA)) };
    assert_eq!(icon(&package(vec![stable])).etag, "\"widgets.ab.widgets.v1.2.0\"");
}
