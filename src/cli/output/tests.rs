use super::*;

#[test]
fn columns_are_aligned() {
    let rows = [["a".to_owned(), "long".to_owned(), "x".to_owned()], ["ä".repeat(3), "b".to_owned(), String::new()]];
    let mut out = Vec::new();
    table(["1", "2", "three"], &rows, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "1    2     three\na    long  x\näää  b     \n");
}

#[test]
fn terminal_without_utf8_gets_other_signs() {
    let with = |set: &[(&str, &str)]| {
        let set: Vec<(String, String)> =
            set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        shows_utf8(|name| set.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone()))
    };
    assert!(with(&[]) && with(&[("LANG", "en_GB.UTF-8")]) && with(&[("LC_ALL", ""), ("LANG", "de_DE.utf8")]));
    assert!(
        !with(&[("LANG", "C")])
            && !with(&[("LC_ALL", "POSIX"), ("LANG", "en_GB.UTF-8")])
            && !with(&[("LANG", "de_DE.ISO-8859-1")])
    );
    assert_eq!(in_ascii("1.0.0 → 1.0.1 … é"), "1.0.0 > 1.0.1 ~ é");
}
