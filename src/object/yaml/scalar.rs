//! Resolves scalars as go-yaml v2 does: YAML 1.1 with Go's integers.

use base64::Engine;
use saphyr_parser::Tag;
use serde_json::{Number, Value};

/// A resolved scalar.
pub(super) enum Resolved {
    Value(Value),
    /// `.inf` or `.nan`.
    NotANumber,
    /// The explicit tag, if it does not fit the text.
    TagMismatch(String),
}

/// Resolves a scalar. Without a tag quoted and block scalars are text. A scalar with an unknown tag is text as well.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&Tag>) -> Resolved {
    let Some(tag) = tag else {
        return if plain { untagged(text) } else { Resolved::Value(text.into()) };
    };
    if !tag.is_yaml_core_schema() {
        return Resolved::Value(text.into());
    }
    let mismatch = || Resolved::TagMismatch(format!("!!{}", tag.suffix));
    match tag.suffix.as_str() {
        "binary" => match base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', ' '], "")) {
            Ok(bytes) => Resolved::Value(String::from_utf8_lossy(&bytes).into_owned().into()),
            Err(_) => mismatch(),
        },
        "int" => fitting(text, |v| v.is_i64() || v.is_u64()).unwrap_or_else(mismatch),
        "float" => fitting(text, Value::is_number).unwrap_or_else(mismatch),
        "bool" => fitting(text, Value::is_boolean).unwrap_or_else(mismatch),
        "null" => fitting(text, Value::is_null).unwrap_or_else(mismatch),
        _ => Resolved::Value(text.into()),
    }
}

fn fitting(text: &str, fits: impl Fn(&Value) -> bool) -> Option<Resolved> {
    match untagged(text) {
        Resolved::Value(value) => fits(&value).then_some(Resolved::Value(value)),
        other => Some(other),
    }
}

fn untagged(text: &str) -> Resolved {
    Resolved::Value(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => true.into(),
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => false.into(),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "+.Inf" | "+.INF" | "-.inf" | "-.Inf"
        | "-.INF" => return Resolved::NotANumber,
        _ => number(text).unwrap_or_else(|| text.into()),
    })
}

/// Tries integers first, then floats. Timestamps and everything else stay text.
fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

/// `0x`, `0o`, `0b` and a leading 0 select the base as in Go. More than 64 bits are not an integer.
fn integer(text: &str) -> Option<Value> {
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (base, digits) = match magnitude.strip_prefix('0') {
        None | Some("") => (10, magnitude),
        Some(rest) => [(16, 'x', 'X'), (8, 'o', 'O'), (2, 'b', 'B')]
            .into_iter()
            .find_map(|(base, lower, upper)| Some((base, rest.strip_prefix([lower, upper])?)))
            .unwrap_or((8, rest)),
    };
    // from_str_radix would accept a second sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    if negative {
        let value = i64::try_from(-i128::from(value)).ok()?;
        return Some(value.into());
    }
    // Only Go's signed parser accepts a plus sign.
    if text.starts_with('+') {
        return i64::try_from(value).ok().map(Value::from);
    }
    Some(value.into())
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`. Whole numbers become integers, as Go writes them.
fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let well_formed = all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    if !well_formed || exponent.is_some_and(|e| e.is_empty() || !all_digits(e)) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // Go prints whole floats up to 1e21 with all their digits. An integer prints the same digits as long as one can hold the
    // value.
    if value.fract() == 0.0 && value.abs() < 9.2e18 {
        return format!("{value:.0}").parse::<i64>().ok().map(Value::from);
    }
    Number::from_f64(round_trip(value)).map(Value::Number)
}

/// What a float becomes when it is written as JSON and read again. Reading JSON may change the last digit. A loaded value
/// must equal what the API server returns for it, or it would always count as different.
pub(super) fn round_trip(value: f64) -> f64 {
    let mut value = value;
    // In practice one step is enough. The number of steps is bounded since that is not proven.
    for _ in 0..4 {
        let again = serde_json::to_string(&value).ok().and_then(|text| serde_json::from_str(&text).ok());
        match again {
            Some(again) if again != value => value = again,
            _ => break,
        }
    }
    value
}

/// The text of a mapping key; the error says what it is instead of text.
pub(super) fn key(value: Value) -> Result<String, &'static str> {
    match value {
        Value::String(text) => Ok(text),
        Value::Bool(flag) => Ok(flag.to_string()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Null => Err("null"),
        Value::Array(_) => Err("a list"),
        Value::Object(_) => Err("a mapping"),
    }
}
