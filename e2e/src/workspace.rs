//! Where this repository and its data are.

use std::env;
use std::path::{Path, PathBuf};

/// The folder of the workspace, in which `e2e/` is.
pub fn root() -> &'static Path {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.parent().unwrap_or(own)
}

/// `CVO_SHARED_DATA`, or `shared/data` beside the workspace: real releases and update graphs. It may be missing.
pub fn shared_data() -> PathBuf {
    env::var_os("CVO_SHARED_DATA").map_or_else(|| root().join("../shared/data"), PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Whether a command may end before it has read everything.
    fn stops_reading(command: &str) -> bool {
        let mut words = command.split_whitespace();
        let (name, first) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let option = |letter| first.starts_with('-') && !first.starts_with("--") && first.contains(letter);
        match name {
            "head" => true,
            "grep" => option('q') || option('m'),
            "sed" => first.trim_matches(['\'', '"', ')']).ends_with('q'),
            "awk" => command.contains("exit"),
            _ => false,
        }
    }

    /// The places where a script writes into such a command.
    fn broken_pipes(script: &str) -> Vec<usize> {
        let numbered = script.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with('#'));
        let broken = numbered.filter(|(_, line)| line.replace("||", "").split('|').skip(1).any(stops_reading));
        broken.map(|(number, _)| number + 1).collect()
    }

    /// With `pipefail` the script ends, sometimes: if the reader is gone before the writer has written everything.
    #[test]
    fn no_script_writes_into_a_command_that_may_be_gone() {
        let mut scripts = 0;
        for folder in ["hack", "hack/lib", ".ci"] {
            for entry in fs::read_dir(root().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let Some(text) = path.is_file().then(|| fs::read_to_string(&path).unwrap()) else { continue };
                if !text.starts_with("#!") && path.extension().is_none_or(|it| it != "sh") {
                    continue;
                }
                scripts += 1;
                assert_eq!(broken_pipes(&text), [0; 0], "{}", path.display());
            }
        }
        assert!(scripts > 10, "only {scripts} scripts were found");
    }

    #[test]
    fn commands_that_stop_reading_are_found() {
        let script = "a | head -1\na || grep -q b\na | sort | sed 10q)\n# a | head\na | sed -n 1,10p\na | grep -qxF b\n\
            a | grep b\na | awk 'NR == 2 { exit }'\n";
        assert_eq!(broken_pipes(script), [1, 3, 6, 8]);
    }
}
