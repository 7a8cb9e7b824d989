use super::*;

#[test]
fn run_level_and_component_are_read_from_the_file_name() {
    let table = [
        ("0000_10_a_b_c.yaml", Some(("10", "a"))),
        ("0000_5_x-y_z.yaml", Some(("5", "x-y"))),
        ("0000_50_foo.yaml", None),
        ("0000_10_a--b_c.yaml", None),
        ("0000_30_a-_b.yaml", None),
        ("0000_10_-a_b.yaml", None),
        ("0000_70_dns.operator_00.yaml", None),
        ("99_ingress-operator_01.yaml", None),
        ("0001_10_a_b.yaml", None),
        ("0000__a_b.yaml", None),
    ];
    for (file, expected) in table {
        assert_eq!(run_level(file), expected, "{file}");
    }
}
