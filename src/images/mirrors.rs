//! Mirrors: where else an image is looked for, as ImageDigestMirrorSet, ImageTagMirrorSet and ImageContentSourcePolicy say.

use super::reference::Reference;
use super::scope;

/// Which names of images a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Digest,
    Tag,
    Any,
}

/// Mirrors of one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rule {
    /// A scope (see [`scope`]).
    pub source: String,
    /// `host[:port][/path]`: stands in place of the source in the name of an image. In the order in which they are asked.
    pub mirrors: Vec<String>,
    pub by: By,
    /// Whether the source is asked when no mirror has the image.
    pub contact_source: bool,
    /// The object that says so, for people.
    pub origin: String,
}

/// Where an image is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Candidate {
    pub image: Reference,
    /// Whether it is a mirror.
    pub mirror: bool,
}

/// There is no place where the image may be looked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "image {image}: {origin} forbids to contact its source {source_scope} (mirrorSourcePolicy: NeverContactSource) and no rule \
     names a mirror for images by {by}: name the image by {other}, or add such a mirror"
)]
pub(crate) struct NoPlace {
    pub image: String,
    pub origin: String,
    pub source_scope: String,
    pub by: &'static str,
    pub other: &'static str,
}

/// The places of an image in the order in which they are asked: mirrors of the most specific source that has rules, then the
/// source. Less specific sources do not count, even if the rules of the most specific one are about other names: so do nodes.
pub(crate) fn candidates(image: &Reference, rules: &[Rule]) -> Result<Vec<Candidate>, NoPlace> {
    let matching = rules.iter().filter_map(|rule| Some((scope::matched(&rule.source, image)?, rule)));
    let specific = |(length, rule): &(usize, &Rule)| (*length, !rule.source.starts_with('*'), rule.source.len());
    let best = matching.max_by_key(specific);
    let source = |mirror: bool| Candidate { image: image.clone(), mirror };
    let Some((length, best)) = best else { return Ok(vec![source(false)]) };
    let same: Vec<&Rule> = rules.iter().filter(|rule| rule.source == best.source).collect();
    let (by, other, wanted) =
        if image.digest.is_some() { ("digest", "tag", By::Digest) } else { ("tag", "digest", By::Tag) };
    let lists: Vec<&[String]> = same
        .iter()
        .filter(|rule| rule.by == wanted || rule.by == By::Any)
        .map(|rule| rule.mirrors.as_slice())
        .collect();
    let name = image.name();
    let rest = name.get(length..).unwrap_or_default();
    let place = |mirror: &str| {
        let mut place = image.at(&format!("{}{rest}", mirror.trim_end_matches('/')))?;
        place.tag = place.tag.filter(|_| place.digest.is_none());
        Some(Candidate { image: place, mirror: true })
    };
    let mut found: Vec<Candidate> = merged(lists).into_iter().filter_map(place).collect();
    match same.iter().find(|rule| !rule.contact_source) {
        None => found.push(source(false)),
        Some(rule) if found.is_empty() => {
            let (image, origin, source_scope) = (image.to_string(), rule.origin.clone(), rule.source.clone());
            return Err(NoPlace { image, origin, source_scope, by, other });
        }
        Some(_) => {}
    }
    Ok(found)
}

/// All mirrors once, in the order of each list where the lists do not contradict each other.
fn merged(mut lists: Vec<&[String]>) -> Vec<&str> {
    let mut taken: Vec<&str> = Vec::new();
    loop {
        for list in &mut lists {
            while let Some((first, rest)) = list.split_first()
                && taken.contains(&first.as_str())
            {
                *list = rest;
            }
        }
        let later = |name: &String| lists.iter().any(|list| list.iter().skip(1).any(|other| other == name));
        let firsts = || lists.iter().filter_map(|list| list.first());
        match firsts().find(|name| !later(name)).or(firsts().next()) {
            Some(next) => taken.push(next),
            None => return taken,
        }
    }
}

#[cfg(test)]
mod tests;
