//! Chance with a seed: the same seed gives the same manifests.

use serde_json::{Map, Value, json};
use std::cell::Cell;

/// Makes a value.
pub type Make = fn(&Dice) -> Value;

/// A stream of choices (SplitMix64).
#[derive(Clone, Debug)]
pub struct Dice {
    state: Cell<u64>,
    /// Stays the same for all manifests of one object.
    object: u64,
    /// How many of a thousand optional fields are spelled oddly: null, or empty.
    odd: usize,
}

impl Dice {
    /// `object` tells the object, `turn` which of its manifests.
    pub fn new(seed: u64, object: u64, turn: u64) -> Self {
        let object = mix(seed ^ mix(object));
        let mut dice = Dice { state: Cell::new(mix(object ^ mix(turn.wrapping_add(7)))), object, odd: 0 };
        // Odd spellings are often refused, so that only some manifests have them.
        dice.odd = dice.pick(&[0, 0, 15, 60]);
        dice
    }

    /// Choices that are the same in all manifests of the object: what the server does not let change.
    pub fn settled(&self, what: &str) -> Dice {
        let what = what.bytes().fold(self.object, |sum, byte| mix(sum ^ u64::from(byte)));
        Dice { state: Cell::new(what), object: self.object, odd: 0 }
    }

    fn next(&self) -> u64 {
        self.state.set(self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mix(self.state.get())
    }

    /// From 0 to `limit` - 1.
    pub fn below(&self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    pub fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Some of the words, in their order.
    pub fn some_of(&self, words: &[&str]) -> Vec<String> {
        words.iter().filter(|_| self.chance(40)).map(|word| (*word).to_owned()).collect()
    }

    /// `least` to `most` values.
    pub fn list(&self, least: usize, most: usize, make: impl Fn(&Dice) -> Value) -> Value {
        let count = least + self.below(most - least + 1);
        (0..count).map(|_| make(self)).collect()
    }

    /// A map with some of these fields, each by chance there, left out, or spelled oddly.
    pub fn some(&self, fields: &[(&str, Make)]) -> Value {
        self.with(json!({}), fields)
    }

    /// The same beside fields that must be there.
    pub fn with(&self, mut object: Value, fields: &[(&str, Make)]) -> Value {
        let map = object.as_object_mut().unwrap();
        for (name, make) in fields {
            let odd = self.odd;
            if self.below(1000) < odd {
                let value = make(self);
                map.insert((*name).to_owned(), self.spelled_oddly(value));
            } else if self.chance(35) {
                map.insert((*name).to_owned(), make(self));
            }
        }
        object
    }

    fn spelled_oddly(&self, value: Value) -> Value {
        match value {
            _ if self.chance(50) => Value::Null,
            Value::Null => Value::Null,
            Value::Bool(_) => json!(false),
            Value::Number(_) => json!(0),
            Value::String(_) => json!(""),
            Value::Array(_) => json!([]),
            Value::Object(_) => json!({}),
        }
    }

    /// Labels, annotations, data: up to three entries.
    pub fn entries(&self) -> Value {
        let mut map = Map::new();
        for key in self.some_of(&["app", "example.com/tier", "part", "x.y"]) {
            map.insert(key, json!(self.pick(&["a", "b", "", "true", "1"])));
        }
        Value::Object(map)
    }

    /// A label selector, as policies have them; may be empty.
    pub fn selector(&self) -> Value {
        self.some(&[
            ("matchLabels", Dice::entries),
            ("matchExpressions", |d| {
                d.list(0, 2, |d| match d.below(2) {
                    0 => json!({"key": "app", "operator": "Exists"}),
                    _ => json!({"key": "part", "operator": d.pick(&["In", "NotIn"]), "values": ["b", "a"]}),
                })
            }),
        ])
    }
}

pub fn flag(d: &Dice) -> Value {
    json!(d.chance(50))
}

/// Seconds, or another small number that is not 0.
pub fn number(d: &Dice) -> Value {
    json!(1 + d.below(20))
}

pub fn quantity(d: &Dice) -> Value {
    d.pick(&[json!("64Mi"), json!("0.5Gi"), json!("1.5Gi"), json!("1Gi"), json!("1024Mi"), json!("2000M")])
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
