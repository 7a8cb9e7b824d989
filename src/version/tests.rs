use super::*;

#[test]
fn leading_v_and_short_forms_are_refused_and_named() {
    for text in ["v1.2.3", "1.2", "", "1.2.3.4"] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}

#[test]
fn build_metadata_does_not_affect_precedence() {
    let (a, b) = (parse("1.0.0+a").unwrap(), parse("1.0.0+b").unwrap());
    assert_eq!(precedence(&a, &b), Ordering::Equal);
    assert_eq!(precedence(&parse("1.0.0-rc.1").unwrap(), &a), Ordering::Less);
}

#[test]
fn versions_as_people_write_them_are_understood() {
    for (text, expected) in [
        ("1.2.3", "1.2.3"),
        (" v1.2.3-rc.1+b ", "1.2.3-rc.1+b"),
        ("1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("01.002.0003", "1.2.3"),
        ("0.0.0", "0.0.0"),
        ("00.1", "0.1.0"),
        ("1.2.0-rc.1", "1.2.0-rc.1"),
    ] {
        assert_eq!(parse_tolerant(text), parse(expected), "{text:?}");
    }
    for text in ["", "v", "vv1", "1.2-rc.1", "1+b", "1.2.3.4", "a.b.c", "1..2", "18446744073709551616"] {
        let error = parse_tolerant(text).unwrap_err().to_string();
        assert!(error.contains(&format!("{text:?}")), "{error}");
    }
}
