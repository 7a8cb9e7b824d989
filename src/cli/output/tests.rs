use super::*;

#[test]
fn columns_are_aligned() {
    let rows = [["a".to_owned(), "long".to_owned(), "x".to_owned()], ["ä".repeat(3), "b".to_owned(), String::new()]];
    let mut out = Vec::new();
    table(["1", "2", "three"], &rows, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), "1    2     three\na    long  x\näää  b     \n");
}
