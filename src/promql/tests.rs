use super::*;

fn body(kind: &str, result: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"{kind}","result":{result}}}}}"#)
}

fn sample(value: &str) -> String {
    format!(r#"{{"metric":{{"a":"b"}},"value":[1700000000.1,"{value}"]}}"#)
}

#[test]
fn one_sample_of_zero_or_one_is_a_verdict() {
    for (value, matches) in [("1", true), ("0", false), ("1.0", true), ("-0", false), ("1e0", true)] {
        let found = answer(body("vector", &format!("[{}]", sample(value))).as_bytes());
        assert_eq!(found, Ok(Answer { matches, warnings: Vec::new() }), "{value}");
    }
    let result = format!(r#"{{"resultType":"vector","result":[{}]}}"#, sample("1"));
    let warned = format!(r#"{{"status":"success","data":{result},"warnings":["a store is away"]}}"#);
    assert_eq!(answer(warned.as_bytes()).map(|a| a.warnings), Ok(vec!["a store is away".to_owned()]), "{warned}");
}

#[test]
fn any_other_answer_is_an_error_that_says_what_is_wrong() {
    let one = |value: &str| body("vector", &format!("[{}]", sample(value)));
    let table = [
        (one("NaN"), "\"NaN\""),
        (one("2"), "\"2\""),
        (one("0.999"), "\"0.999\""),
        (one("+Inf"), "\"+Inf\""),
        (one(""), "\"\""),
        (body("vector", "[]"), "0 samples"),
        (body("vector", &format!("[{},{}]", sample("1"), sample("1"))), "2 samples"),
        (body("vector", "null"), "no result"),
        (body("vector", "{}"), "no result"),
        (body("vector", r#"[{"metric":{},"value":1}]"#), "no value"),
        (body("vector", r#"[{"metric":{},"value":[1,1]}]"#), "no value"),
        (body("vector", r#"[{"metric":{},"histogram":[1,{}]}]"#), "histogram"),
        (body("scalar", r#"[1,"1"]"#), "\"scalar\""),
        (body("matrix", "[]"), "\"matrix\""),
        (r#"{"status":"success"}"#.into(), "\"none\""),
        (r#"{"status":"error","errorType":"bad_data","error":"parse error"}"#.into(), "bad_data: parse error"),
        (r#"{"status":"error"}"#.into(), "without a cause"),
        ("<html>".into(), "not one of a Prometheus API"),
        ("[]".into(), "not one of a Prometheus API"),
        (String::new(), "not one of a Prometheus API"),
        ("[".repeat(100_000), "not one of a Prometheus API"),
    ];
    for (body, expected) in table {
        let error = answer(body.as_bytes()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn cause_of_an_error_answer_is_found() {
    let body = br#"{"status":"error","errorType":"timeout","error":"query timed out"}"#;
    assert_eq!(error_in(body).as_deref(), Some("the server reports timeout: query timed out"));
    assert_eq!(error_in(b"Forbidden"), None);
    assert_eq!(error_in(br#"{"status":"success"}"#), None);
}

#[test]
fn query_is_appended_to_the_metrics_url() {
    let url = |base: &str| query_url(base, "a == 1 + {b=\"c\"}").map(String::from);
    let query = "api/v1/query?query=a+%3D%3D+1+%2B+%7Bb%3D%22c%22%7D";
    assert_eq!(url("https://thanos:9091"), Ok(format!("https://thanos:9091/{query}")));
    assert_eq!(url("http://h/prometheus/#x"), Ok(format!("http://h/prometheus/{query}")));
    for wrong in ["", "thanos:9091", "ftp://h", "file:///x"] {
        assert!(url(wrong).unwrap_err().contains(&format!("{wrong:?}")), "{wrong}");
    }
}
