//! The documentation: its pages, the blocks in them and who runs these, and whether what pages link to exists.

#[allow(clippy::unwrap_used)]
pub mod follow;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context, bail};

use crate::workspace;

/// Folders that hold no pages of this repository.
const NOT_OURS: [&str; 3] = ["target", ".git", "node_modules"];
/// What a block holds that no shell could run.
const DATA: [&str; 4] = ["yaml", "json", "text", "rust"];

/// Pages of the repository by their paths, which have no `.` and no `..`.
pub type Pages = BTreeMap<PathBuf, String>;

/// A block between two fences.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Where it begins, from 1.
    pub line: usize,
    /// What follows the fence, such as `sh`.
    pub info: String,
    pub text: String,
}

/// Who runs a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `sh`: commands to be pasted, which a test runs.
    Commands,
    /// `console`: what a terminal showed, with what was typed behind `$ `. It is read, not pasted.
    Transcript,
    Data,
}

impl Block {
    /// What it is, or why nobody can tell.
    pub fn kind(&self) -> anyhow::Result<Kind> {
        match self.info.as_str() {
            "sh" => Ok(Kind::Commands),
            "console" => {
                let typed = |line: &str| line.starts_with("$ ") || line.trim().is_empty();
                if self.text.lines().all(typed) {
                    bail!("line {}: it shows commands and no output: make it a block `sh`, which is run", self.line);
                }
                Ok(Kind::Transcript)
            }
            info if DATA.contains(&info) => Ok(Kind::Data),
            info => bail!("line {}: a block {info:?} is neither run (`sh`) nor marked as one that is not", self.line),
        }
    }
}

/// A page without its blocks, with empty lines in their place, and its blocks.
fn parted(text: &str) -> anyhow::Result<(String, Vec<Block>)> {
    let (mut prose, mut blocks) = (String::new(), Vec::new());
    // The fence that ends the present block.
    let mut open: Option<(String, Block)> = None;
    for (number, line) in text.lines().enumerate() {
        let trimmed = line.trim_start();
        let ticks = trimmed.len() - trimmed.trim_start_matches('`').len();
        let tildes = trimmed.len() - trimmed.trim_start_matches('~').len();
        let fence = &trimmed[..ticks.max(tildes)];
        open = match open.take() {
            Some((end, block)) if trimmed.trim_end() == end => {
                blocks.push(block);
                None
            }
            Some((end, mut block)) => {
                block.text.push_str(line);
                block.text.push('\n');
                Some((end, block))
            }
            None if fence.len() >= 3 => {
                let info = trimmed[fence.len()..].trim().to_owned();
                Some((fence.to_owned(), Block { line: number + 1, info, text: String::new() }))
            }
            None => {
                prose.push_str(line);
                None
            }
        };
        prose.push('\n');
    }
    match open {
        Some((_, block)) => bail!("line {}: the block does not end", block.line),
        None => Ok((prose, blocks)),
    }
}

/// The blocks of a page, each with what it is.
pub fn blocks(text: &str) -> anyhow::Result<Vec<(Kind, Block)>> {
    let (prose, blocks) = parted(text)?;
    let lines: Vec<&str> = prose.lines().collect();
    for (number, pair) in lines.windows(2).enumerate() {
        if pair[0].trim().is_empty() && pair[1].starts_with("    ") {
            bail!("line {}: an indented block says nobody what it is: use fences", number + 2);
        }
        if pair[1].contains("<pre") {
            bail!("line {}: a block in HTML says nobody what it is: use fences", number + 2);
        }
    }
    blocks.into_iter().map(|block| Ok((block.kind()?, block))).collect()
}

/// What is to be run of a page, in its order.
pub fn commands(text: &str) -> anyhow::Result<Vec<Block>> {
    let blocks = blocks(text)?.into_iter().filter(|(kind, _)| *kind == Kind::Commands);
    Ok(blocks.map(|(_, block)| block).collect())
}

/// Every page of the repository.
pub fn pages() -> anyhow::Result<Pages> {
    let root = workspace::root();
    let (mut found, mut folders) = (Pages::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type()?;
            if kind.is_dir() && !NOT_OURS.iter().any(|it| name == *it) {
                folders.push(path);
            } else if kind.is_file() && path.extension().is_some_and(|it| it == "md") {
                let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
                found.insert(path.strip_prefix(root)?.to_owned(), text);
            }
        }
    }
    Ok(found)
}

/// Whether a page is part of the documentation for administrators, whose commands are run.
pub fn is_documentation(page: &Path) -> bool {
    page == Path::new("README.md") || page.starts_with(".github")
}

/// What is wrong with the links of pages. `exists`: whether the repository has a file or folder.
pub fn wrong_links(pages: &Pages, exists: impl Fn(&Path) -> bool) -> anyhow::Result<Vec<String>> {
    let mut wrong = Vec::new();
    for (page, text) in pages {
        let (prose, _) = parted(text).with_context(|| page.display().to_string())?;
        for (line, target) in links(&prose) {
            if let Some(why) = wrong_link(pages, page, &target, &exists)? {
                wrong.push(format!("{}:{line}: {target}: {why}", page.display()));
            }
        }
    }
    Ok(wrong)
}

fn wrong_link(
    pages: &Pages,
    page: &Path,
    target: &str,
    exists: &impl Fn(&Path) -> bool,
) -> anyhow::Result<Option<String>> {
    if target.contains(char::is_whitespace) {
        return Ok(Some("a link has no spaces".to_owned()));
    }
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(wrong_url(target));
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let to = if path.is_empty() { Some(page.to_owned()) } else { resolved(page, path) };
    let Some(to) = to else { return Ok(Some("it leads out of the repository".to_owned())) };
    if !exists(&to) {
        return Ok(Some(format!("there is no {}", to.display())));
    }
    let Some(anchor) = anchor else { return Ok(None) };
    let Some(text) = pages.get(&to) else { return Ok(Some("only pages have anchors".to_owned())) };
    let known = anchors(&parted(text)?.0);
    Ok((!known.contains(anchor)).then(|| format!("{} has no heading of that name, but {known:?}", to.display())))
}

/// Where a relative link of a page leads; `None`: out of the repository.
fn resolved(page: &Path, path: &str) -> Option<PathBuf> {
    let mut to = page.parent()?.to_owned();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => to.push(name),
            Component::CurDir => {}
            Component::ParentDir => {
                if !to.pop() {
                    return None;
                }
            }
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(to)
}

/// Only the form: a test asks nobody outside.
fn wrong_url(url: &str) -> Option<String> {
    let parsed = match reqwest::Url::parse(url) {
        Ok(parsed) => parsed,
        Err(error) => return Some(error.to_string()),
    };
    let named = parsed.host_str().is_some_and(|host| host.contains('.'));
    match parsed.scheme() {
        "https" if named => None,
        "mailto" if url.contains('@') => None,
        "https" => Some("it names no host".to_owned()),
        scheme => Some(format!("{scheme} is not https")),
    }
}

/// Links and pictures of a text without blocks, with their lines from 1.
fn links(prose: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose.lines().enumerate() {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let (target, next) = after.split_once(')').unwrap_or((after, ""));
            // A title follows in quotes.
            let target = target.split(" \"").next().unwrap_or(target);
            found.push((number + 1, target.to_owned()));
            rest = next;
        }
        for mark in ["href=\"", "src=\"", "<https:", "<http:"] {
            let begin = mark.strip_prefix('<').unwrap_or_default();
            for part in line.split(mark).skip(1) {
                let target = part.split(['"', '>']).next().unwrap_or_default();
                found.push((number + 1, format!("{begin}{target}")));
            }
        }
        if let Some((_, target)) = line.strip_prefix('[').and_then(|it| it.split_once("]: ")) {
            found.push((number + 1, target.trim().to_owned()));
        }
    }
    found
}

/// A line without what stands between backticks.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

/// The names by which a link can lead to the headings of a page, as GitHub makes them.
fn anchors(prose: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let headings = prose
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    for heading in headings {
        let name = anchor(heading);
        let numbered = (1..).map(|number| format!("{name}-{number}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}

fn anchor(heading: &str) -> String {
    // Of a link only its text shows.
    let mut shown = String::new();
    let mut rest = heading;
    while let Some((before, after)) = rest.split_once("](") {
        shown.push_str(before);
        rest = after.split_once(')').map_or("", |(_, next)| next);
    }
    shown.push_str(rest);
    let kept = shown.trim().to_lowercase();
    let kept = kept.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pages: &[(&str, &str)]) -> Pages {
        pages.iter().map(|(path, text)| (PathBuf::from(path), (*text).to_owned())).collect()
    }

    #[test]
    fn links_of_all_pages_lead_somewhere() {
        let pages = pages().unwrap();
        assert!(pages.len() > 12, "{:?}", pages.keys());
        let wrong = wrong_links(&pages, |path| workspace::root().join(path).exists()).unwrap();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let count: usize = pages.values().map(|text| links(&parted(text).unwrap().0).len()).sum();
        assert!(count > 60, "only {count} links were found");
    }

    #[test]
    fn wrong_links_are_named_with_their_place() {
        let other = "# One `two`: three\n## Again\n## Again\n```sh\n# no heading\n[no](link)\n```\n";
        let table = [
            ("[a](docs/other.md)", ""),
            ("![a](docs/other.md \"title\")", ""),
            ("[a](docs/other.md#one-two-three) and [b](docs/other.md#again-1)", ""),
            ("[a](#here)\n\n# Here", ""),
            ("`[a](nowhere.md)`", ""),
            ("[a](https://example.com/x?y#z)", ""),
            ("<https://example.com>", ""),
            ("\n[a](docs/missing.md)", "README.md:2: docs/missing.md: there is no docs/missing.md"),
            ("[a](docs/other.md#agian)", "docs/other.md has no heading of that name"),
            ("[a](docs/other.md#no-heading)", "docs/other.md has no heading of that name"),
            ("[a](docs/other.md#again-2)", "docs/other.md has no heading of that name"),
            ("[a](#there)", "README.md has no heading of that name"),
            ("[a](docs#one)", "only pages have anchors"),
            ("[a](../x.md)", "it leads out of the repository"),
            ("[a](/x.md)", "it leads out of the repository"),
            ("[a](https://)", "empty host"),
            ("[a](https://example)", "it names no host"),
            ("[a](http://example.com)", "http is not https"),
            ("<a href=\"docs/missing.md\">", "there is no docs/missing.md"),
            ("[a]: docs/missing.md", "there is no docs/missing.md"),
        ];
        for (text, expected) in table {
            let pages = of(&[("README.md", text), ("docs/other.md", other)]);
            let exists = |path: &Path| pages.contains_key(path) || path == Path::new("docs");
            let wrong = wrong_links(&pages, exists).unwrap().join("\n");
            assert_eq!(wrong.is_empty(), expected.is_empty(), "{text}: {wrong}");
            assert!(wrong.contains(expected), "{text}: {wrong}");
        }
    }

    #[test]
    fn blocks_are_run_or_say_why_not() {
        let table = [
            ("```sh\na\n```", Ok(Kind::Commands)),
            ("1. x\n   ```sh\n   a\n   ```", Ok(Kind::Commands)),
            ("```console\n$ a\nb\n```", Ok(Kind::Transcript)),
            ("```yaml\na: b\n```", Ok(Kind::Data)),
            ("```console\n$ a\n$ b\n```", Err("commands and no output")),
            ("```\na\n```", Err("neither run")),
            ("```bash\na\n```", Err("neither run")),
            ("~~~shell\na\n~~~", Err("neither run")),
            ("```sh\na", Err("does not end")),
            ("x\n\n    cvo upgrade", Err("indented")),
            ("x\n<pre>cvo upgrade</pre>", Err("HTML")),
        ];
        for (text, expected) in table {
            let found = blocks(text).map(|blocks| blocks.into_iter().map(|(kind, _)| kind).collect::<Vec<_>>());
            match (found, expected) {
                (Ok(found), Ok(kind)) => assert_eq!(found, [kind], "{text}"),
                (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{text}: {error}"),
                (found, expected) => panic!("{text}: {found:?}, {expected:?}"),
            }
        }
        let run = commands("```sh\na\n```\n```json\n{}\n```\n```sh\nb\n```").unwrap();
        let run: Vec<(usize, &str)> = run.iter().map(|block| (block.line, block.text.as_str())).collect();
        assert_eq!(run, [(1, "a\n"), (7, "b\n")]);
    }

    #[test]
    fn readme_is_short_and_names_every_page() {
        let pages = pages().unwrap();
        let readme = &pages[Path::new("README.md")];
        assert!(readme.len() <= 12_288, "{} bytes", readme.len());
        let linked: BTreeSet<String> =
            links(&parted(readme).unwrap().0).into_iter().map(|(_, target)| target).collect();
        for page in pages.keys().filter(|page| *page != Path::new("README.md")) {
            let path = page.display().to_string();
            assert!(linked.contains(&path), "README.md does not link {path}");
        }
    }
}
