use super::*;

#[test]
fn unknown_log_level_is_the_normal_one() {
    for (level, expected) in [
        (json!("Debug"), LogLevel::Debug),
        (json!("Trace"), LogLevel::Trace),
        (json!("TraceAll"), LogLevel::TraceAll),
        (json!("Normal"), LogLevel::Normal),
        (json!(""), LogLevel::Normal),
        (json!("Loud"), LogLevel::Normal),
        (json!(7), LogLevel::Normal),
    ] {
        assert_eq!(LogLevel::of(&json!({"spec": {"operatorLogLevel": level}})), expected, "{level}");
    }
    assert_eq!(LogLevel::of(&json!({})), LogLevel::Normal);
}
