use super::*;
use serde_json::json;

#[test]
fn quantities_are_compared_by_value() {
    let equal = [
        (json!("1000m"), json!("1")),
        (json!("1Gi"), json!("1024Mi")),
        (json!("1.5Gi"), json!("1536Mi")),
        (json!("0.1"), json!("100m")),
        (json!(1), json!("1")),
        (json!(0.5), json!("500m")),
        (json!("1e3"), json!("1k")),
        (json!("1E3"), json!("1000")),
        (json!("12E"), json!("12000P")),
        (json!("0"), json!("0Mi")),
        (json!("-1"), json!("-1000m")),
        (json!("+5"), json!("5")),
        (json!("1000000u"), json!("1")),
        (json!("not one"), json!("not one")),
    ];
    for (live, desired) in equal {
        assert!(same(&live, &desired), "{live} {desired}");
    }
    let different = [
        (json!("1"), json!("1m")),
        (json!("1G"), json!("1Gi")),
        (json!("1"), json!("-1")),
        (json!("1.2.3"), json!("1.23")),
        (json!(""), json!("0")),
        (json!("."), json!("0")),
        (json!("1x"), json!("1")),
        (json!("1e99999999999"), json!("1")),
        (json!("99999999999999999999999999999999999999"), json!("1")),
        (json!(true), json!("1")),
    ];
    for (live, desired) in different {
        assert!(!same(&live, &desired), "{live} {desired}");
    }
}

#[test]
fn parts_of_a_unit_are_rounded_down() {
    for (text, in_a_unit, expected) in [
        ("1", 1000, Some(1000)),
        ("1900m", 1000, Some(1900)),
        ("1500u", 1000, Some(1)),
        ("0.5", 1000, Some(500)),
        ("4Gi", 1, Some(4 << 30)),
        ("1k", 1, Some(1000)),
        ("a lot", 1, None),
        ("1E", i128::MAX, None),
    ] {
        assert_eq!(parts(text, in_a_unit), expected, "{text}");
    }
}
