//! Where two maps differ, looked for in one pass.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// The keys of which one map alone has a value, or both have others, with both values. A map does not differ from itself, which takes no
/// pass.
pub(crate) fn differing<'a, K: Ord, V>(
    one: &'a BTreeMap<K, V>,
    other: &'a BTreeMap<K, V>,
    is_same: impl Fn(&V, &V) -> bool,
) -> impl Iterator<Item = (&'a K, [Option<&'a V>; 2])> {
    let is_one_map = std::ptr::eq(one, other);
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let next = move || {
        loop {
            let order = match (one.peek(), other.peek()) {
                (Some((key, _)), Some((of, _))) => key.cmp(of),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (None, None) => return None,
            };
            match order {
                Ordering::Less => return one.next().map(|(key, value)| (key, [Some(value), None])),
                Ordering::Greater => return other.next().map(|(key, value)| (key, [None, Some(value)])),
                Ordering::Equal => {
                    let ((key, value), (_, of)) = one.next().zip(other.next())?;
                    if !is_same(value, of) {
                        return Some((key, [Some(value), Some(of)]));
                    }
                }
            }
        }
    };
    (!is_one_map).then(|| std::iter::from_fn(next)).into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_alone_has_and_what_differs_is_found() {
        let one = BTreeMap::from([(1, "a"), (2, "b"), (4, "d"), (5, "e")]);
        let other = BTreeMap::from([(2, "b"), (3, "c"), (4, "x"), (6, "f")]);
        let found: Vec<_> = differing(&one, &other, |one, other| one == other).collect();
        let expected = [
            (&1, [Some(&"a"), None]),
            (&3, [None, Some(&"c")]),
            (&4, [Some(&"d"), Some(&"x")]),
            (&5, [Some(&"e"), None]),
            (&6, [None, Some(&"f")]),
        ];
        assert_eq!(found, expected);
        assert_eq!(differing(&one, &one, |one, other| one == other).count(), 0);
    }
}
