//! Strings of a catalog, each kept once: names, images and properties repeat from bundle to bundle.

use std::hash::{BuildHasher, RandomState};

/// A string of one [`Strings`]. The default is the empty string.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct StringId(pub(super) u32);

impl StringId {
    pub(super) const EMPTY: StringId = StringId(0);

    pub(super) fn is_empty(self) -> bool {
        self == StringId::EMPTY
    }
}

/// Strings by number. The first one is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Strings {
    text: String,
    /// Where each string ends in the text.
    ends: Vec<u32>,
}

impl Default for Strings {
    fn default() -> Self {
        Strings { text: String::new(), ends: vec![0] }
    }
}

impl Strings {
    /// `None` if the first string is not empty, or an end is not one.
    pub(super) fn new(text: String, ends: Vec<u32>) -> Option<Self> {
        let sorted = ends.is_sorted() && ends.iter().all(|end| text.is_char_boundary(*end as usize));
        let whole = ends.last().is_some_and(|end| *end as usize == text.len());
        (ends.first() == Some(&0) && sorted && whole).then_some(Strings { text, ends })
    }

    pub(super) fn parts(&self) -> (&str, &[u32]) {
        (&self.text, &self.ends)
    }

    pub(super) fn get(&self, id: StringId) -> &str {
        let at = id.0 as usize;
        let start = at.checked_sub(1).and_then(|before| self.ends.get(before)).copied().unwrap_or_default();
        let end = self.ends.get(at).copied().unwrap_or_default();
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Bytes in memory.
    pub(super) fn size(&self) -> usize {
        self.text.len() + 4 * self.ends.len()
    }

    /// Adds a string at the end.
    pub(super) fn push(&mut self, text: &str) -> StringId {
        self.text.push_str(text);
        self.ends.push(u32::try_from(self.text.len()).unwrap_or(u32::MAX));
        StringId(u32::try_from(self.ends.len() - 1).unwrap_or(u32::MAX))
    }

    /// The number of a string, if they were added in ascending order.
    pub(super) fn find(&self, text: &str) -> Option<StringId> {
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            let id = StringId(u32::try_from(middle).ok()?);
            match self.get(id).cmp(text) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(id),
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }

    pub(super) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.ends.shrink_to_fit();
    }
}

/// Strings that are being collected. Equal ones get one number.
#[derive(Debug)]
pub(super) struct Interner {
    strings: Strings,
    /// Numbers by hash, with free places between them; 0 is free. Their count is a power of two.
    slots: Vec<u32>,
    /// Random, so that nobody can choose strings with equal hashes.
    hash: RandomState,
}

impl Default for Interner {
    fn default() -> Self {
        Interner { strings: Strings::default(), slots: vec![0; 1 << 10], hash: RandomState::new() }
    }
}

impl Interner {
    pub(super) fn add(&mut self, text: &str) -> StringId {
        if text.is_empty() {
            return StringId::EMPTY;
        }
        if self.strings.len() * 2 > self.slots.len() {
            self.grow();
        }
        let place = self.place(text);
        match self.slots.get(place) {
            Some(&known) if known != 0 => StringId(known),
            _ => {
                let id = self.strings.push(text);
                if let Some(slot) = self.slots.get_mut(place) {
                    *slot = id.0;
                }
                id
            }
        }
    }

    /// The slot of a string: the one that has it, or the free one that it belongs into.
    fn place(&self, text: &str) -> usize {
        let mask = self.slots.len() - 1;
        let mut at = usize::try_from(self.hash.hash_one(text) & mask as u64).unwrap_or_default();
        while let Some(&id) = self.slots.get(at)
            && id != 0
            && self.strings.get(StringId(id)) != text
        {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        self.slots = vec![0; self.slots.len() * 2];
        for id in 1..u32::try_from(self.strings.len()).unwrap_or(u32::MAX) {
            let place = self.place(self.strings.get(StringId(id)));
            if let Some(slot) = self.slots.get_mut(place) {
                *slot = id;
            }
        }
    }

    pub(super) fn get(&self, id: StringId) -> &str {
        self.strings.get(id)
    }

    pub(super) fn len(&self) -> usize {
        self.strings.len()
    }

    pub(super) fn size(&self) -> usize {
        self.strings.size() + 4 * self.slots.len()
    }

    /// The alphabetical order of the strings that there are.
    pub(super) fn order(&self) -> Order {
        let count = u32::try_from(self.strings.len()).unwrap_or(u32::MAX);
        let mut sorted: Vec<StringId> = (0..count).map(StringId).collect();
        sorted.sort_unstable_by(|one, other| self.get(*one).cmp(self.get(*other)));
        let mut ranks = vec![0; sorted.len()];
        for (rank, id) in (0..).zip(&sorted) {
            if let Some(place) = ranks.get_mut(id.0 as usize) {
                *place = rank;
            }
        }
        Order { sorted, ranks }
    }
}

/// Strings of an [`Interner`] in alphabetical order.
#[derive(Debug)]
pub(super) struct Order {
    pub sorted: Vec<StringId>,
    ranks: Vec<u32>,
}

impl Order {
    /// The place of a string in that order.
    pub(super) fn rank(&self, id: StringId) -> u32 {
        self.ranks.get(id.0 as usize).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_strings_get_one_number() {
        let mut strings = Interner::default();
        let ids: Vec<StringId> = (0..5000).map(|number| strings.add(&format!("name-{number}"))).collect();
        assert_eq!(strings.add(""), StringId::EMPTY);
        for (number, id) in ids.iter().enumerate() {
            assert_eq!(strings.get(*id), format!("name-{number}"));
            assert_eq!(strings.add(&format!("name-{number}")), *id);
        }
        assert_eq!(strings.order().sorted.len(), 5001);
    }

    #[test]
    fn order_is_alphabetical() {
        let mut strings = Interner::default();
        let ids = ["b", "a", "ab", ""].map(|text| strings.add(text));
        let order = strings.order();
        assert_eq!(ids.map(|id| order.rank(id)), [3, 1, 2, 0]);
        assert_eq!(order.sorted.iter().map(|id| strings.get(*id)).collect::<Vec<_>>(), ["", "a", "ab", "b"]);
    }

    #[test]
    fn sorted_strings_are_found() {
        let mut strings = Strings::default();
        for text in ["a", "ab", "b", "ä"] {
            strings.push(text);
        }
        for text in ["", "a", "ab", "b", "ä"] {
            assert_eq!(strings.find(text).map(|id| strings.get(id)), Some(text));
        }
        for text in ["0", "aa", "c", "z", "ö"] {
            assert_eq!(strings.find(text), None);
        }
    }

    #[test]
    fn ends_that_are_none_are_refused() {
        assert!(Strings::new("ä".to_owned(), vec![0, 2]).is_some());
        for (text, ends) in [("ä", vec![0, 1, 2]), ("a", vec![0]), ("a", vec![1]), ("ab", vec![0, 2, 1]), ("", vec![])]
        {
            assert!(Strings::new(text.to_owned(), ends).is_none());
        }
    }
}
