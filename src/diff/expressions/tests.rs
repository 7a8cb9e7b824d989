use super::*;
use proptest::prelude::*;
use serde_json::json;

fn names(expression: &str) -> Vec<String> {
    functions(expression).into_iter().map(|(name, minor)| format!("{name} {minor}")).collect()
}

#[test]
fn functions_that_1_30_does_not_take_are_found() {
    let table: [(&str, &[&str]); 15] = [
        ("isIP(self) && ip(self).family() == 4", &["isIP 31", "ip 31"]),
        ("!format.dns1123Subdomain().validate(self).hasValue()", &["format.dns1123Subdomain 32"]),
        ("self.all(x, isCIDR(x) && cidr(x).prefixLength() < 8)", &["isCIDR 31", "cidr 31"]),
        ("self.all(k, v, k != v)", &["all with two variables 33"]),
        ("self.all(x, f(x, 1, 2))", &[]),
        ("self.exists(x, [x, 1, {'a': 2, 'b': 3}] == x)", &[]),
        ("self.transformMap(k, v, v + 1)", &["transformMap 33"]),
        ("semver(self).isLessThan(semver('1.2.3'))", &["semver 34", "semver 34"]),
        ("self.distinct() == lists.range(4)", &["distinct 35", "lists.range 35"]),
        // Fields, and methods of other types.
        ("self.format == 'a' && self.ip == '' && self.lists.size() > 0", &[]),
        ("self.ip() == '1'", &[]),
        ("quantity(self).isLessThan(quantity('1')) && url(self).getHost() == '' && sets.contains(a, b)", &[]),
        // In a literal or a comment.
        (r#"self == "isIP(x)" || self == 'it\'s ip(1)' // format.uri()"#, &[]),
        (r#"self.matches(r'^\') && isIP(self)"#, &["isIP 31"]),
        (r#"self == '''ip('1') isn't''' && isIP(self)"#, &["isIP 31"]),
    ];
    for (expression, expected) in table {
        assert_eq!(names(expression), expected, "{expression}");
    }
}

#[test]
fn only_expressions_of_definitions_and_admission_objects_count() {
    let rules = json!([{"rule": "isIP(self)", "messageExpression": "format.uri().validate(self).value()[0]",
        "message": "cidr(self) is no expression"}]);
    let properties = json!({"rule": {"type": "string", "default": "semver(self)", "x-kubernetes-validations": rules}});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": properties}});
    let versions = json!([{"name": "v1", "schema": schema, "selectableFields": [{"jsonPath": ".spec.a"}]}]);
    let mut object = json!({"kind": "CustomResourceDefinition", "spec": {"versions": versions}});
    let needed = |object: &Value, server| too_new(object, server).into_iter().collect::<Vec<_>>();
    assert_eq!(needed(&object, 30), [("format.uri".to_owned(), 32), ("isIP".to_owned(), 31)]);
    assert_eq!(needed(&object, 31), [("format.uri".to_owned(), 32)]);
    assert_eq!(needed(&object, 32), []);
    assert!(has_selectable_fields(&object));
    object["kind"] = json!("ConfigMap");
    assert_eq!(needed(&object, 30), []);
    let policy = json!({"kind": "ValidatingAdmissionPolicy", "spec": {
        "matchConditions": [{"name": "a", "expression": "isIP('1')"}],
        "validations": [{"expression": "true", "messageExpression": "string(semver('1.2.3').major())"}],
        "auditAnnotations": [{"key": "a", "valueExpression": "string([1].distinct())"}]}});
    let names = |server| too_new(&policy, server).into_keys().collect::<Vec<_>>();
    assert_eq!(names(30), ["distinct", "isIP", "semver"]);
    assert_eq!((names(34), names(35)), (vec!["distinct".to_owned()], vec![]));
}

proptest! {
    #[test]
    fn any_text_is_read_to_its_end(text in "[-a-z()'\"\\\\r.,/\n ü]{0,60}") {
        functions(&text);
        prop_assert!(tokens(&text).concat().len() <= text.len());
    }
}
