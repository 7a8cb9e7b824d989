//! What an unquoted word means: the table of go-yaml v2, which is YAML 1.1 with Go's integers.

use base64::Engine;
use saphyr_parser::Tag;
use serde_json::{Number, Value};

/// Outcome of looking at one scalar.
pub(super) enum Resolved {
    Value(Value),
    /// `.inf` or `.nan`.
    NotANumber,
    /// The explicit tag, which the text does not fit.
    Misfit(String),
}

/// Resolves a scalar. Quoted and block scalars are text unless a tag says otherwise; tags nobody knows make text.
pub(super) fn resolve(text: &str, plain: bool, tag: Option<&Tag>) -> Resolved {
    let Some(tag) = tag else {
        return if plain { untagged(text) } else { Resolved::Value(text.into()) };
    };
    if !tag.is_yaml_core_schema() {
        return Resolved::Value(text.into());
    }
    let misfit = || Resolved::Misfit(format!("!!{}", tag.suffix));
    match tag.suffix.as_str() {
        "binary" => match base64::engine::general_purpose::STANDARD.decode(text.replace(['\n', ' '], "")) {
            Ok(bytes) => Resolved::Value(String::from_utf8_lossy(&bytes).into_owned().into()),
            Err(_) => misfit(),
        },
        "int" => fitting(text, |v| v.is_i64() || v.is_u64()).unwrap_or_else(misfit),
        "float" => fitting(text, Value::is_number).unwrap_or_else(misfit),
        "bool" => fitting(text, Value::is_boolean).unwrap_or_else(misfit),
        "null" => fitting(text, Value::is_null).unwrap_or_else(misfit),
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

/// Integers first, then floats; timestamps and everything else stay text.
fn number(text: &str) -> Option<Value> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.')) {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| float(&digits))
}

/// `0x`, `0o`, `0b` and a leading 0 choose the base as in Go; beyond 64 bits it is no integer.
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
    // from_str_radix would take a second sign.
    if digits.starts_with(['+', '-']) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    if negative {
        let value = i64::try_from(-i128::from(value)).ok()?;
        return Some(value.into());
    }
    // A plus sign is only known to Go's signed parser.
    if text.starts_with('+') {
        return i64::try_from(value).ok().map(Value::from);
    }
    Some(value.into())
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`; whole numbers become integers, as Go writes them.
fn float(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent.strip_prefix(['+', '-']).unwrap_or(exponent))),
        None => (unsigned, None),
    };
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let shaped = all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    if !shaped || exponent.is_some_and(|e| e.is_empty() || !all_digits(e)) {
        return None;
    }
    let value: f64 = text.parse().ok()?;
    // Above 2^53 a whole float is no longer the number that was written; Go prints its digits up to 1e21, and so
    // does the nearest integer while it has one.
    if value.fract() == 0.0 && value.abs() < 9.2e18 {
        return format!("{value:.0}").parse::<i64>().ok().map(Value::from);
    }
    Number::from_f64(settled(value)).map(Value::Number)
}

/// The float that a fractional number is after it has been written as JSON and read again. Reading JSON may miss the last
/// digit; what is loaded must be what the API server gives back, or there would be a difference for ever.
pub(super) fn settled(value: f64) -> f64 {
    let mut value = value;
    // One step does it in practice; a bound, since nobody proves it.
    for _ in 0..4 {
        let again = serde_json::to_string(&value).ok().and_then(|text| serde_json::from_str(&text).ok());
        match again {
            Some(again) if again != value => value = again,
            _ => break,
        }
    }
    value
}

/// The text of a mapping key, or what it is instead.
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
