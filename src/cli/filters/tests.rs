use super::*;
use crate::cli::folder::{self, Folder, tests::release};
use clap::{CommandFactory, FromArgMatches, Parser};

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    filters: FilterArgs,
}

/// The flags, or what is wrong with them.
fn parse(flags: &[&str]) -> Result<FilterArgs, String> {
    let matches = Line::command().try_get_matches_from(["cvo"].iter().chain(flags)).map_err(|e| e.to_string())?;
    match misuse(&matches) {
        Some(why) => Err(why),
        None => Ok(Line::from_arg_matches(&matches).unwrap().filters),
    }
}

fn enabled(flags: &[&str]) -> usize {
    parse(flags).unwrap().apply_filter(None).capabilities.unwrap().enabled.len()
}

#[test]
fn unknown_set_is_refused_with_the_known_ones() {
    for set in ["v4.99", "v4.20", "v5.0", "V4.12", "vcurrent", "none", "Console, v4.10"] {
        let said = parse(&["--capabilities", set]).unwrap_err();
        assert!(said.contains("this set is unknown; known sets: None, v4.11, v4.12, "), "{set}: {said}");
        assert!(said.contains(", v4.18, vCurrent"), "{set}: {said}");
    }
    for several in ["v4.11,v4.12", "None,vCurrent"] {
        let said = parse(&["--capabilities", several]).unwrap_err();
        assert!(said.contains("takes one set") && said.contains(", v4.18, vCurrent"), "{said}");
    }
    assert_eq!(enabled(&["--capabilities", "v4.11,v4.11"]), 4, "the same set twice");
    assert_eq!(enabled(&["--capabilities", "v4.11, Console"]), 5);
    assert_eq!(enabled(&["--capabilities", "None"]), 0);
    assert_eq!(enabled(&["--capabilities", ""]), 0);
}

/// All warnings about the test folder with these flags, except the one about a file that is always skipped.
fn warned(flags: &[&str]) -> Vec<String> {
    let dir = release();
    let Folder { mut warnings, .. } = folder::open(dir.path(), folder::NO_IMAGE, &parse(flags).unwrap()).unwrap();
    warnings.retain(|warning| !warning.contains("0000_91_"));
    warnings
}

#[test]
fn unknown_names_are_reported() {
    assert_eq!(warned(&["--capabilities", "Console,v4.11"]), [""; 0]);
    let said = warned(&["--capabilities", "console,Later,v4.11"]);
    let expected = |word| {
        format!("--capabilities {word}: neither this program nor any manifest of the release knows this capability")
    };
    assert_eq!(said, [expected("Later"), expected("console") + "; did you mean Console?"]);

    let dir = release();
    let own = crate::cli::folder::tests::config_map("own", "    capability.openshift.io/name: Later\n");
    std::fs::write(dir.path().join("release-manifests/0000_60_a.yaml"), own).unwrap();
    let folder = folder::open(dir.path(), folder::NO_IMAGE, &parse(&["--capabilities", "Later"]).unwrap()).unwrap();
    assert_eq!(folder.warnings.len(), 1, "a manifest of the release knows it: {:?}", folder.warnings);
}

#[test]
fn profile_that_excludes_everything_is_reported() {
    let said = warned(&["--profile", "nope"]);
    let [said] = said.as_slice() else { panic!("{said:?}") };
    assert_eq!(
        said,
        "every manifest of the release is excluded for the cluster profile \"nope\": its manifests are for other, \
         self-managed-high-availability; give one of these with --profile"
    );
    assert_eq!(warned(&["--profile", "other"]), [""; 0]);
    assert!(
        nothing_included("a", []).contains("no manifest has an annotation include.release.openshift.io/PROFILE=true")
    );
}
