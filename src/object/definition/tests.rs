//! The group in a definition's name.

use super::*;

#[test]
fn group_follows_the_first_dot() {
    assert_eq!(defined_group("widgets.example.com"), Some("example.com"));
    assert_eq!(defined_group("widgets"), None);
}
