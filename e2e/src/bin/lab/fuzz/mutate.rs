//! Changes good inputs a few times in ways that parsers stumble over.

use e2e::random::SeededRandom;
use serde_json::{Map, Value};

/// Longest input, in bytes.
const MAX_INPUT: usize = 256 << 10;
/// Numbers at the limits of types, and unusual spellings.
const NUMBERS: [&str; 16] = [
    "0",
    "-1",
    "1",
    "007",
    "08",
    "0x7f",
    "0b1",
    "1e400",
    "1e-400",
    "4294967296",
    "9223372036854775807",
    "-9223372036854775809",
    "18446744073709551616",
    "0.1",
    "1_000",
    ".5e+3",
];

/// A part of `length`, mostly a short one.
fn range(random: &SeededRandom, length: usize) -> (usize, usize) {
    let start = random.below(length + 1);
    let longest = if random.below(4) == 0 { length } else { 32 };
    (start, start + random.below((length - start).min(longest) + 1))
}

/// One to eight, mostly one or two: an input with many changes is usually refused at its first character.
fn times(random: &SeededRandom) -> usize {
    let most = if random.below(3) == 0 { 8 } else { 2 };
    1 + random.below(most)
}

/// One of `seeds`, changed one to eight times. `tokens` are words with a meaning for the reader.
pub(super) fn bytes(random: &SeededRandom, seeds: &[Vec<u8>], tokens: &[&str]) -> Vec<u8> {
    let mut input = random.one_of(seeds).cloned().unwrap_or_default();
    for _ in 0..times(random) {
        match random.below(12) {
            0 => flip(random, &mut input),
            1 => {
                let (from, to) = range(random, input.len());
                input.drain(from..to);
            }
            2 => {
                let (from, to) = range(random, input.len());
                let part = input.get(from..to).unwrap_or_default().to_vec();
                insert(random, &mut input, &part);
            }
            3 | 4 => {
                let token = random.one_of(tokens).copied().unwrap_or("\n").as_bytes().to_vec();
                insert(random, &mut input, &token);
            }
            5 => {
                // Deep nesting, and inputs that expand.
                let token = random.one_of(tokens).copied().unwrap_or("[");
                let times = if random.below(8) == 0 { 3000 } else { 40 };
                let many = token.repeat(1 + random.below(times));
                insert(random, &mut input, many.as_bytes());
            }
            6 => {
                let other = random.one_of(seeds).cloned().unwrap_or_default();
                let (from, to) = range(random, other.len());
                insert(random, &mut input, other.get(from..to).unwrap_or_default());
            }
            7 => number(random, &mut input),
            8 => input.truncate(random.below(input.len() + 1)),
            9 => {
                let odd = ["\u{0}", "\u{feff}", "\u{2028}", "\u{85}", "\u{1f600}", "\r", "\t", "\u{301}"];
                let odd = random.one_of(&odd).copied().unwrap_or_default().as_bytes().to_vec();
                insert(random, &mut input, &odd);
            }
            _ => lines(random, &mut input),
        }
        input.truncate(MAX_INPUT);
    }
    input
}

fn flip(random: &SeededRandom, input: &mut [u8]) {
    let at = random.below(input.len());
    let value = random.next();
    if let Some(byte) = input.get_mut(at) {
        *byte = if value & 0x100 == 0 { *byte ^ (1 << (value & 7)) } else { u8::try_from(value & 0xff).unwrap_or(0) };
    }
}

fn insert(random: &SeededRandom, input: &mut Vec<u8>, part: &[u8]) {
    let at = random.below(input.len() + 1);
    input.splice(at..at, part.iter().copied());
}

/// Replaces a number by another one.
fn number(random: &SeededRandom, input: &mut Vec<u8>) {
    let start = random.below(input.len() + 1);
    let digit = |from: usize, wanted: bool| {
        let rest = input.get(from..).unwrap_or_default();
        rest.iter().position(|b| b.is_ascii_digit() == wanted).map_or(input.len(), |at| from + at)
    };
    let from = digit(start, true);
    let to = digit(from, false);
    let other = random.one_of(&NUMBERS).copied().unwrap_or_default();
    input.splice(from..to, other.bytes());
}

/// Removes, repeats, swaps or indents lines.
fn lines(random: &SeededRandom, input: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = input.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let (one, other) = (random.below(lines.len()), random.below(lines.len()));
    match random.below(5) {
        0 if one < lines.len() => drop(lines.remove(one)),
        1 if one < lines.len() && other < lines.len() => lines.swap(one, other),
        2 => {
            let line = lines.get(one).cloned().unwrap_or_default();
            let times = if random.below(20) == 0 { 2000 } else { 3 };
            for _ in 0..=random.below(times) {
                lines.insert(one.min(lines.len()), line.clone());
            }
        }
        3 => {
            let blanks = random.below(5);
            if let Some(line) = lines.get_mut(one) {
                line.splice(0..0, std::iter::repeat_n(b' ', blanks));
            }
        }
        _ => {
            if let Some(line) = lines.get_mut(one) {
                let blanks = line.iter().take_while(|b| **b == b' ').count();
                line.drain(..blanks.min(2));
            }
        }
    }
    *input = lines.concat();
}

/// Changes a JSON value one to eight times; it stays JSON. Parts of `others` are inserted.
pub(super) fn value(random: &SeededRandom, value: &mut Value, others: &[Value]) {
    for _ in 0..times(random) {
        let depth = 1 + random.below(8);
        change(random, value, others, depth);
    }
}

fn change(random: &SeededRandom, value: &mut Value, others: &[Value], depth: usize) {
    let descend = depth > 0 && random.below(8) != 0;
    match value {
        Value::Object(map) if descend && !map.is_empty() => {
            let at = random.below(map.len());
            let Some(key) = map.keys().nth(at).cloned() else { return };
            match random.below(10) {
                0 => drop(map.remove(&key)),
                1 => {
                    let part = part(random, others);
                    map.insert(key, part);
                }
                2 => {
                    let moved = map.remove(&key).unwrap_or_default();
                    map.insert(key + "x", moved);
                }
                _ => change(random, map.entry(key).or_insert(Value::Null), others, depth - 1),
            }
        }
        Value::Array(list) if descend && !list.is_empty() => {
            let (one, other) = (random.below(list.len()), random.below(list.len()));
            match random.below(8) {
                0 => drop(list.remove(one)),
                1 => list.swap(one, other),
                2 => list.extend(list.get(one).cloned()),
                3 => {
                    let part = part(random, others);
                    list.insert(one, part);
                }
                _ => list.get_mut(one).into_iter().for_each(|inner| change(random, inner, others, depth - 1)),
            }
        }
        leaf => *leaf = part(random, others),
    }
}

/// A small value, or a part of another one.
fn part(random: &SeededRandom, others: &[Value]) -> Value {
    match random.below(10) {
        0 => Value::Null,
        1 => Value::from(random.below(2) == 0),
        2 => Value::from(random.next().cast_signed()),
        3 => Value::from(0.5),
        4 => Value::Array(Vec::new()),
        5 => Value::Object(Map::new()),
        6 => random
            .one_of(&["", "a", "true", "1000m", "1Gi", "v1", "é", "name", "$(X)"])
            .copied()
            .unwrap_or_default()
            .into(),
        _ => {
            let mut place = random.one_of(others).unwrap_or(&Value::Null);
            for _ in 0..random.below(6) {
                let at = random.below(place.as_object().map_or(0, Map::len).max(place.as_array().map_or(0, Vec::len)));
                let inner = match place {
                    Value::Object(map) => map.values().nth(at),
                    Value::Array(list) => list.get(at),
                    _ => None,
                };
                let Some(inner) = inner else { break };
                place = inner;
            }
            place.clone()
        }
    }
}
