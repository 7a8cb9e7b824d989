//! Frames of HTTP/2 and messages of gRPC, written from JSON and read back as far as is needed to see that they are such.

use serde_json::Value;

/// The type of a frame with a part of a body.
pub(super) const DATA: u8 = 0;
const HEADERS: u8 = 1;
/// All headers are in the frame.
const END_HEADERS: u8 = 4;

/// Bytes that are sent at once.
pub(super) type Group = Vec<u8>;

fn varint(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A message: numbers of fields as keys. Values that are no field of any message are left out.
pub(super) fn message(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (key, value) in value.as_object().into_iter().flatten() {
        let Ok(number) = key.parse::<u32>() else { continue };
        field(u64::from(number), value, &mut out);
    }
    out
}

fn field(number: u64, value: &Value, out: &mut Vec<u8>) {
    let mut bytes = |bytes: &[u8]| {
        varint(number << 3 | 2, out);
        varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    };
    match value {
        Value::Null => {}
        Value::String(text) => bytes(text.as_bytes()),
        Value::Object(_) => bytes(&message(value)),
        Value::Array(all) => all.iter().for_each(|value| field(number, value, out)),
        Value::Bool(_) | Value::Number(_) => {
            varint(number << 3, out);
            let number = value.as_i64().map(i64::cast_unsigned).or(value.as_u64());
            varint(number.unwrap_or(1), out);
        }
    }
}

/// A body of messages. One may be `{"flag", "length", "message"}` to be written with those, or a text that is no message.
pub(super) fn messages(value: &Value) -> Vec<u8> {
    let mut body = Vec::new();
    let one = std::slice::from_ref(value);
    for value in value.as_array().map_or(one, Vec::as_slice) {
        if let Value::String(raw) = value {
            body.extend(raw.chars().map(|c| u32::from(c) as u8));
            continue;
        }
        let number = |key: &str| value.get(key).and_then(Value::as_u64);
        let bytes = message(value.get("message").unwrap_or(value));
        body.push(number("flag").unwrap_or(0) as u8);
        let length = number("length").map_or(u32::try_from(bytes.len()).unwrap_or(u32::MAX), |length| length as u32);
        body.extend(length.to_be_bytes());
        body.extend(bytes);
    }
    body
}

/// The messages of a body; `None` if it is not made of them.
pub(super) fn unframed(mut body: &[u8]) -> Option<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let (head, rest) = body.split_first_chunk::<5>()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (message, rest) = rest.split_at_checked(length).filter(|_| head[0] == 0)?;
        found.push(message);
        body = rest;
    }
    Some(found)
}

/// Names and values.
pub(super) fn headers(value: Option<&Value>) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned);
    value.and_then(Value::as_object).into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
}

/// A frame of any type, with its length.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX).to_be_bytes();
    let head = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    [&head, payload].concat()
}

/// Headers without compression.
fn block(headers: &[(String, String)]) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in headers {
        out.push(0);
        for text in [name, value] {
            let length = text.len();
            if length < 127 {
                out.push(length as u8);
            } else {
                out.push(127);
                varint(length as u64 - 127, &mut out);
            }
            out.extend_from_slice(text.as_bytes());
        }
    }
    out
}

/// Groups of frames: a list of lists of `{kind, flags, stream, headers | messages | raw}`, in which pseudo headers are written without their
/// colon as `"_path"`. Anything else is one group of these bytes.
pub(super) fn groups(input: &[u8]) -> Vec<Group> {
    let Ok(Value::Array(groups)) = serde_json::from_slice::<Value>(input) else { return vec![input.to_vec()] };
    let group = |group: &Value| group.as_array().into_iter().flatten().flat_map(of_json).collect();
    groups.iter().map(group).collect()
}

fn of_json(value: &Value) -> Vec<u8> {
    let number = |key: &str, default: u64| value.get(key).and_then(Value::as_u64).unwrap_or(default);
    let (payload, kind, flags) = if let Some(given) = value.get("headers") {
        let mut headers = headers(Some(given));
        // They come before others.
        headers.sort_by_key(|(name, _)| !name.starts_with('_'));
        headers.iter_mut().for_each(|(name, _)| *name = name.replacen('_', ":", 1));
        (block(&headers), HEADERS, END_HEADERS)
    } else if let Some(given) = value.get("messages") {
        (messages(given), DATA, 0)
    } else {
        let raw = value.get("raw").and_then(Value::as_str).unwrap_or_default();
        (raw.chars().map(|c| u32::from(c) as u8).collect(), 4, 0)
    };
    let (kind, flags) = (number("kind", u64::from(kind)) as u8, number("flags", u64::from(flags)) as u8);
    frame(kind, flags, number("stream", 0) as u32, &payload)
}

/// Types and lengths of frames; `None` if the bytes are not made of them. The last one may have been cut off.
pub(super) fn frames(mut bytes: &[u8]) -> Option<Vec<(u8, usize)>> {
    let mut found = Vec::new();
    while let Some((head, rest)) = bytes.split_first_chunk::<9>() {
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        if head[3] > 9 || length > 16 << 10 {
            return None;
        }
        found.push((head[3], length));
        bytes = rest.get(length..).unwrap_or_default();
    }
    Some(found)
}

/// The same after what each connection of a client begins with.
pub(super) fn frames_of_client(bytes: &[u8]) -> Option<Vec<(u8, usize)>> {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    if bytes.len() < PREFACE.len() { Some(Vec::new()) } else { frames(bytes.strip_prefix(PREFACE)?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn messages_are_written_as_protobuf_and_read_back() {
        let body = messages(&json!([{"1": "ab", "2": [{"3": true}, 300]}, {"length": 9, "message": {}}]));
        assert_eq!(body, b"\0\0\0\0\x0b\x0a\x02ab\x12\x02\x18\x01\x10\xac\x02\0\0\0\0\x09");
        assert_eq!(unframed(&body), None);
        assert_eq!(unframed(&body[..16]), Some(vec![&body[5..16]]));
    }

    #[test]
    fn frames_are_written_and_read_back() {
        let groups = groups(
            br#"[[{"headers": {"a": "b", "_path": "/"}, "stream": 1, "flags": 5}], [{"raw": "xy", "kind": 6}]]"#,
        );
        assert_eq!(groups[0], b"\0\0\x0e\x01\x05\0\0\0\x01\0\x05:path\x01/\0\x01a\x01b".as_slice());
        assert_eq!(frames(&groups.concat()), Some(vec![(1, 14), (6, 2)]));
        assert_eq!(frames(b"\0\0\0\x63\0\0\0\0\0"), None);
    }
}
