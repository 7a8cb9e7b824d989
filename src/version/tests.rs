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
