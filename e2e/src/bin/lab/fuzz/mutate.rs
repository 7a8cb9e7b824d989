//! Inputs that nobody would write: a good one, changed a few times in ways that parsers stumble over. Everything comes
//! from a number, so that an input can be had again.

use serde_json::{Map, Value};

/// Longest input, in bytes.
const MAX_INPUT: usize = 256 << 10;
/// Where numbers change their meaning.
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

/// SplitMix64: small, fast, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Dice for the input with this number.
    pub fn of(seed: u64, number: u64) -> Self {
        let mut dice = Dice(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.roll();
        dice
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// From 0 to `sides` - 1; 0 if there is none.
    pub fn below(&mut self, sides: usize) -> usize {
        let sides = u64::try_from(sides).unwrap_or(u64::MAX);
        usize::try_from(self.roll().checked_rem(sides).unwrap_or(0)).unwrap_or(0)
    }

    pub fn one_of<'a, T>(&mut self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    /// Part of `length`, mostly short.
    fn range(&mut self, length: usize) -> (usize, usize) {
        let start = self.below(length + 1);
        let longest = if self.below(4) == 0 { length } else { 32 };
        (start, start + self.below((length - start).min(longest) + 1))
    }
}

/// One to eight, mostly one or two: what is changed much is refused at its first character.
fn times(dice: &mut Dice) -> usize {
    let most = if dice.below(3) == 0 { 8 } else { 2 };
    1 + dice.below(most)
}

/// One of `seeds`, changed one to eight times. `tokens` are words that mean something where it will be read.
pub fn bytes(dice: &mut Dice, seeds: &[Vec<u8>], tokens: &[&str]) -> Vec<u8> {
    let mut input = dice.one_of(seeds).cloned().unwrap_or_default();
    for _ in 0..times(dice) {
        match dice.below(12) {
            0 => flip(dice, &mut input),
            1 => {
                let (from, to) = dice.range(input.len());
                input.drain(from..to);
            }
            2 => {
                let (from, to) = dice.range(input.len());
                let part = input.get(from..to).unwrap_or_default().to_vec();
                insert(dice, &mut input, &part);
            }
            3 | 4 => {
                let token = dice.one_of(tokens).copied().unwrap_or("\n").as_bytes().to_vec();
                insert(dice, &mut input, &token);
            }
            5 => {
                // Nesting and bombs.
                let token = dice.one_of(tokens).copied().unwrap_or("[");
                let times = if dice.below(8) == 0 { 3000 } else { 40 };
                let many = token.repeat(1 + dice.below(times));
                insert(dice, &mut input, many.as_bytes());
            }
            6 => {
                let other = dice.one_of(seeds).cloned().unwrap_or_default();
                let (from, to) = dice.range(other.len());
                insert(dice, &mut input, other.get(from..to).unwrap_or_default());
            }
            7 => number(dice, &mut input),
            8 => input.truncate(dice.below(input.len() + 1)),
            9 => {
                let odd = ["\u{0}", "\u{feff}", "\u{2028}", "\u{85}", "\u{1f600}", "\r", "\t", "\u{301}"];
                let odd = dice.one_of(&odd).copied().unwrap_or_default().as_bytes().to_vec();
                insert(dice, &mut input, &odd);
            }
            _ => lines(dice, &mut input),
        }
        input.truncate(MAX_INPUT);
    }
    input
}

fn flip(dice: &mut Dice, input: &mut [u8]) {
    let at = dice.below(input.len());
    let value = dice.roll();
    if let Some(byte) = input.get_mut(at) {
        *byte = if value & 0x100 == 0 { *byte ^ (1 << (value & 7)) } else { u8::try_from(value & 0xff).unwrap_or(0) };
    }
}

fn insert(dice: &mut Dice, input: &mut Vec<u8>, part: &[u8]) {
    let at = dice.below(input.len() + 1);
    input.splice(at..at, part.iter().copied());
}

/// Another number in the place of one, or the first digit after some place.
fn number(dice: &mut Dice, input: &mut Vec<u8>) {
    let start = dice.below(input.len() + 1);
    let digit = |from: usize, wanted: bool| {
        let rest = input.get(from..).unwrap_or_default();
        rest.iter().position(|b| b.is_ascii_digit() == wanted).map_or(input.len(), |at| from + at)
    };
    let from = digit(start, true);
    let to = digit(from, false);
    let other = dice.one_of(&NUMBERS).copied().unwrap_or_default();
    input.splice(from..to, other.bytes());
}

/// Lines that go, come twice, change places or their indentation.
fn lines(dice: &mut Dice, input: &mut Vec<u8>) {
    let mut lines: Vec<Vec<u8>> = input.split_inclusive(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
    let (one, other) = (dice.below(lines.len()), dice.below(lines.len()));
    match dice.below(5) {
        0 if one < lines.len() => drop(lines.remove(one)),
        1 if one < lines.len() && other < lines.len() => lines.swap(one, other),
        2 => {
            let line = lines.get(one).cloned().unwrap_or_default();
            let times = if dice.below(20) == 0 { 2000 } else { 3 };
            for _ in 0..=dice.below(times) {
                lines.insert(one.min(lines.len()), line.clone());
            }
        }
        3 => {
            let blanks = dice.below(5);
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

/// Changes a JSON value one to eight times; it stays JSON. `others` lend their parts.
pub fn value(dice: &mut Dice, value: &mut Value, others: &[Value]) {
    for _ in 0..times(dice) {
        let depth = 1 + dice.below(8);
        change(dice, value, others, depth);
    }
}

fn change(dice: &mut Dice, value: &mut Value, others: &[Value], depth: usize) {
    let descend = depth > 0 && dice.below(8) != 0;
    match value {
        Value::Object(map) if descend && !map.is_empty() => {
            let at = dice.below(map.len());
            let Some(key) = map.keys().nth(at).cloned() else { return };
            match dice.below(10) {
                0 => drop(map.remove(&key)),
                1 => {
                    let part = part(dice, others);
                    map.insert(key, part);
                }
                2 => {
                    let moved = map.remove(&key).unwrap_or_default();
                    map.insert(key + "x", moved);
                }
                _ => change(dice, map.entry(key).or_insert(Value::Null), others, depth - 1),
            }
        }
        Value::Array(list) if descend && !list.is_empty() => {
            let (one, other) = (dice.below(list.len()), dice.below(list.len()));
            match dice.below(8) {
                0 => drop(list.remove(one)),
                1 => list.swap(one, other),
                2 => list.extend(list.get(one).cloned()),
                3 => {
                    let part = part(dice, others);
                    list.insert(one, part);
                }
                _ => list.get_mut(one).into_iter().for_each(|inner| change(dice, inner, others, depth - 1)),
            }
        }
        leaf => *leaf = part(dice, others),
    }
}

/// A small value, or a part of another one.
fn part(dice: &mut Dice, others: &[Value]) -> Value {
    match dice.below(10) {
        0 => Value::Null,
        1 => Value::from(dice.below(2) == 0),
        2 => Value::from(dice.roll().cast_signed()),
        3 => Value::from(0.5),
        4 => Value::Array(Vec::new()),
        5 => Value::Object(Map::new()),
        6 => dice
            .one_of(&["", "a", "true", "1000m", "1Gi", "v1", "é", "name", "$(X)"])
            .copied()
            .unwrap_or_default()
            .into(),
        _ => {
            let mut place = dice.one_of(others).unwrap_or(&Value::Null);
            for _ in 0..dice.below(6) {
                let at = dice.below(place.as_object().map_or(0, Map::len).max(place.as_array().map_or(0, Vec::len)));
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
