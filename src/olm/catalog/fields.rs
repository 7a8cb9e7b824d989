//! The members of a JSON object: located, not decoded, so that what is large costs nothing but to be passed over.

use crate::error::of_json;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

/// Members of an object, and elements of a list. Those of known catalogs have some hundreds.
const MAX_ITEMS: usize = 20_000;

/// Members in their order, with names as they are spelled.
#[derive(Debug, Default)]
pub(super) struct Fields<'a>(Vec<(Cow<'a, str>, &'a RawValue)>);

/// A member that has another type than it must have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {cause}")]
pub struct FieldError {
    pub field: String,
    pub cause: String,
}

impl<'a> Fields<'a> {
    pub(super) fn parse(json: &'a str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(json)
    }

    /// The object in a member or element, which `place` names in errors.
    pub(super) fn of(value: &'a RawValue, place: &str) -> Result<Self, FieldError> {
        decode(value, place)
    }

    /// A member by its name in any case, as programs in Go read it; of several the last one. `null` counts as absent.
    pub(super) fn get(&self, name: &str) -> Option<&'a RawValue> {
        self.raw(name).filter(|value| value.get() != "null")
    }

    /// A member as [`Fields::get`], but `null` is one.
    pub(super) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.0.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| *value)
    }

    /// Two spellings of one name.
    pub(super) fn spellings(&self) -> Option<(&str, &str)> {
        let lower = |key: &Cow<'_, str>| key.to_ascii_lowercase();
        let mut keys: Vec<(String, &str)> = self.0.iter().map(|(key, _)| (lower(key), key.as_ref())).collect();
        keys.sort_unstable();
        let pairs = keys.iter().zip(keys.iter().skip(1));
        let mut twice = pairs.filter(|(one, next)| one.0 == next.0 && one.1 != next.1);
        twice.next().map(|(one, next)| (one.1, next.1))
    }

    /// Empty if it is absent.
    pub(super) fn text(&self, name: &str) -> Result<Cow<'a, str>, FieldError> {
        self.get(name).map_or(Ok(Cow::Borrowed("")), |value| decode::<Text>(value, name).map(|text| text.0))
    }

    /// Empty if it is absent.
    pub(super) fn list(&self, name: &str) -> Result<Vec<&'a RawValue>, FieldError> {
        self.get(name).map_or(Ok(Vec::new()), |value| decode::<List<_>>(value, name).map(|list| list.0))
    }

    /// Empty if it is absent; `null` in it is an empty text.
    pub(super) fn texts(&self, name: &str) -> Result<Vec<Cow<'a, str>>, FieldError> {
        let list = self.get(name).map_or(Ok(List(Vec::new())), |value| decode::<List<Option<Text>>>(value, name))?;
        Ok(list.0.into_iter().map(|text| text.unwrap_or_default().0).collect())
    }
}

/// A list that is not too long.
#[derive(Debug)]
struct List<T>(Vec<T>);

/// A text that is borrowed where it has no escapes.
#[derive(Debug, Default)]
struct Text<'a>(Cow<'a, str>);

fn decode<'a, T: Deserialize<'a>>(value: &'a RawValue, field: &str) -> Result<T, FieldError> {
    serde_json::from_str(value.get()).map_err(|error| FieldError { field: field.to_owned(), cause: of_json(&error) })
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct TextVisitor;
        impl<'de> Visitor<'de> for TextVisitor {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        from.deserialize_str(TextVisitor)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Fields<'a> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct FieldsVisitor;
        impl<'de> Visitor<'de> for FieldsVisitor {
            type Value = Fields<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
                let mut fields = Vec::new();
                while let Some((Text(key), value)) = map.next_entry()? {
                    fields.push((key, value));
                    check_length(fields.len())?;
                }
                Ok(Fields(fields))
            }
        }
        from.deserialize_map(FieldsVisitor)
    }
}

fn check_length<E: de::Error>(length: usize) -> Result<(), E> {
    if length > MAX_ITEMS { Err(E::custom(format_args!("it has more than {MAX_ITEMS} parts"))) } else { Ok(()) }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct ListVisitor<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for ListVisitor<T> {
            type Value = List<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<List<T>, A::Error> {
                let mut list = Vec::new();
                while let Some(element) = from.next_element()? {
                    list.push(element);
                    check_length(list.len())?;
                }
                Ok(List(list))
            }
        }
        from.deserialize_seq(ListVisitor(PhantomData))
    }
}

/// Appends JSON without the blanks between its values.
pub(super) fn compact(json: &str, out: &mut String) {
    let (mut rest, mut start, mut in_text) = (json.bytes().enumerate(), 0, false);
    while let Some((at, byte)) = rest.next() {
        match byte {
            b'"' => in_text = !in_text,
            // The escaped character ends no text.
            b'\\' => drop(rest.next()),
            b' ' | b'\n' | b'\r' | b'\t' if !in_text => {
                out.push_str(json.get(start..at).unwrap_or_default());
                start = at + 1;
            }
            _ => {}
        }
    }
    out.push_str(json.get(start..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_any_case_and_the_last_one_counts() {
        let fields =
            Fields::parse(r#"{"Image": "a", "IMAGE": "b", "n": null, "\u006eame": "x\ty", "l": ["1", null]}"#).unwrap();
        assert_eq!(fields.text("image").unwrap(), "b");
        assert_eq!(fields.text("n").unwrap(), "");
        assert_eq!(fields.text("name").unwrap(), "x\ty");
        assert_eq!(fields.texts("l").unwrap(), ["1", ""]);
        assert_eq!((fields.get("n").is_none(), fields.raw("n").map(RawValue::get)), (true, Some("null")));
        assert_eq!(fields.spellings(), Some(("IMAGE", "Image")));
        assert_eq!(Fields::parse(r#"{"a": 1, "b": 2, "a": 3}"#).unwrap().spellings(), None);
        let error = fields.text("l").unwrap_err().to_string();
        assert_eq!(error, "l: invalid type: sequence, expected a string");
        assert!(Fields::parse("[]").is_err() && Fields::parse("{} {}").is_err());
    }

    #[test]
    fn lists_and_objects_are_bounded() {
        let list = |length: usize| format!("{{\"a\": [{}0]}}", "0,".repeat(length - 1));
        let length = |text: &str| Fields::parse(text).unwrap().list("a").map(|list| list.len());
        assert_eq!(length(&list(MAX_ITEMS)), Ok(MAX_ITEMS));
        assert_eq!(length(&list(MAX_ITEMS + 1)).unwrap_err().to_string(), "a: it has more than 20000 parts");
        let object = |length: usize| format!("{{{}\"a\": 0}}", "\"a\":0,".repeat(length - 1));
        assert!(Fields::parse(&object(MAX_ITEMS)).is_ok() && Fields::parse(&object(MAX_ITEMS + 1)).is_err());
        let texts = format!("{{\"a\": [{}\"\"]}}", "\"\",".repeat(MAX_ITEMS));
        assert!(Fields::parse(&texts).unwrap().texts("a").is_err());
    }

    #[test]
    fn what_is_told_of_a_wrong_type_stays_short() {
        let json = format!(r#"{{"l": "{}"}}"#, "x".repeat(1 << 20));
        let error = Fields::parse(&json).unwrap().list("l").unwrap_err().to_string();
        assert!(error.starts_with("l: invalid type: string \"xxx") && error.len() < 1000, "{} bytes", error.len());
    }

    #[test]
    fn blanks_are_left_out_except_in_texts() {
        let mut out = String::new();
        compact("{ \"a b\" :\n\t[1, \" \\\" \\\\\" , \"ä \"]\r\n}", &mut out);
        assert_eq!(out, r#"{"a b":[1," \" \\","ä "]}"#);
    }
}
