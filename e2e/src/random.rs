//! Random choices and values that follow from a seed: the same seed gives the same manifests and inputs.

use serde_json::{Map, Value, json};
use std::cell::Cell;
use std::time::Duration;

/// Makes a value.
pub type Make = fn(&SeededRandom) -> Value;

/// SplitMix64: small, fast, and the same on every machine.
#[derive(Clone, Debug)]
pub struct SeededRandom {
    state: Cell<u64>,
    /// The same for all manifests of one object.
    object: u64,
    /// How many of a thousand optional fields are null or empty.
    odd: usize,
}

impl SeededRandom {
    /// The seed of a test: `CVO_SEED`, or a fresh one. It is printed, to repeat the test with.
    pub fn seed() -> u64 {
        let given = std::env::var("CVO_SEED").ok().and_then(|seed| seed.parse().ok());
        let seed = given.unwrap_or_else(|| uuid::Uuid::new_v4().as_u64_pair().0);
        println!("to repeat this run: CVO_SEED={seed}");
        seed
    }

    /// `object` identifies the object, or the input; `turn` is which manifest of the object it is.
    pub fn new(seed: u64, object: u64, turn: u64) -> Self {
        let object = mix(seed ^ mix(object));
        let mut random = SeededRandom { state: Cell::new(mix(object ^ mix(turn.wrapping_add(7)))), object, odd: 0 };
        // The server often refuses them, so only some manifests have them.
        random.odd = random.pick(&[0, 0, 15, 60]);
        random
    }

    /// Choices that are the same in all manifests of the object, for fields that the server does not let change.
    pub fn fixed(&self, what: &str) -> SeededRandom {
        let what = what.bytes().fold(self.object, |sum, byte| mix(sum ^ u64::from(byte)));
        SeededRandom { state: Cell::new(what), object: self.object, odd: 0 }
    }

    pub fn next(&self) -> u64 {
        self.state.set(self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        mix(self.state.get())
    }

    /// From 0 to `limit` - 1; 0 where `limit` is 0.
    pub fn below(&self, limit: usize) -> usize {
        self.next().checked_rem(limit as u64).unwrap_or(0) as usize
    }

    /// Less than `most`.
    pub fn duration(&self, most: Duration) -> Duration {
        most.mul_f64(self.below(1000) as f64 / 1000.0)
    }

    pub fn chance(&self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<'a, T>(&self, list: &'a [T]) -> Option<&'a T> {
        list.get(self.below(list.len()))
    }

    pub fn pick<T: Clone>(&self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }

    /// Some of the words, in the same order.
    pub fn some_of(&self, words: &[&str]) -> Vec<String> {
        words.iter().filter(|_| self.chance(40)).map(|word| (*word).to_owned()).collect()
    }

    /// A list of `least` to `most` values.
    pub fn list(&self, least: usize, most: usize, make: impl Fn(&SeededRandom) -> Value) -> Value {
        let count = least + self.below(most - least + 1);
        (0..count).map(|_| make(self)).collect()
    }

    /// A map with some of these fields, each by chance present, absent, or null or empty.
    pub fn some(&self, fields: &[(&str, Make)]) -> Value {
        self.with(json!({}), fields)
    }

    /// The same in addition to required fields.
    pub fn with(&self, mut object: Value, fields: &[(&str, Make)]) -> Value {
        let map = object.as_object_mut().unwrap();
        for (name, make) in fields {
            let odd = self.odd;
            if self.below(1000) < odd {
                let value = make(self);
                map.insert((*name).to_owned(), self.null_or_empty(value));
            } else if self.chance(35) {
                map.insert((*name).to_owned(), make(self));
            }
        }
        object
    }

    fn null_or_empty(&self, value: Value) -> Value {
        if self.chance(50) { Value::Null } else { empty(&value) }
    }

    /// Up to four entries, for labels, annotations and data.
    pub fn entries(&self) -> Value {
        let mut map = Map::new();
        for key in self.some_of(&["app", "example.com/tier", "part", "x.y"]) {
            map.insert(key, json!(self.pick(&["a", "b", "", "true", "1"])));
        }
        Value::Object(map)
    }

    /// A label selector, which may be empty.
    pub fn selector(&self) -> Value {
        self.some(&[
            ("matchLabels", SeededRandom::entries),
            ("matchExpressions", |d| {
                d.list(0, 2, |d| match d.below(2) {
                    0 => json!({"key": "app", "operator": "Exists"}),
                    _ => json!({"key": "part", "operator": d.pick(&["In", "NotIn"]), "values": ["b", "a"]}),
                })
            }),
        ])
    }
}

pub fn flag(d: &SeededRandom) -> Value {
    json!(d.chance(50))
}

/// Seconds, or another small number that is not 0.
pub fn number(d: &SeededRandom) -> Value {
    json!(1 + d.below(20))
}

pub fn quantity(d: &SeededRandom) -> Value {
    d.pick(&[json!("64Mi"), json!("0.5Gi"), json!("1.5Gi"), json!("1Gi"), json!("1024Mi"), json!("2000M")])
}

fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// The empty value of the same type.
pub fn empty(value: &Value) -> Value {
    match value {
        Value::Null => Value::Null,
        Value::Bool(_) => json!(false),
        Value::Number(_) => json!(0),
        Value::String(_) => json!(""),
        Value::Array(_) => json!([]),
        Value::Object(_) => json!({}),
    }
}
