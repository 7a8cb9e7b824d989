//! The pages of the documentation that tell of each command: its help names them, with its exit codes.

use super::exit;
use clap::Command;

/// Folder of the pages in the repository.
const FOLDER: &str = ".github/docs";

/// Said by each command that has a kubeconfig.
pub(crate) const PROXY: &str = "The API server is reached as the kubeconfig says, through its proxy-url where it has one: HTTPS_PROXY \
    of the environment has no effect on that.";

/// A command below `cvo`, with a space before the name of a nested one, and its pages, with the heading that is about it.
type Row = (&'static str, &'static [&'static str]);

#[rustfmt::skip]
const PAGES: &[Row] = &[
    ("overview", &["updates.md#watch", "troubleshooting.md"]),
    ("start", &["reference.md#flags-of-cvo-start", "monitoring.md"]),
    ("machine-config", &["nodes.md", "reference.md#flags-of-cvo-machine-config"]),
    ("node-agent", &["nodes.md", "reference.md#flags-of-cvo-node-agent"]),
    ("olm", &["operators.md", "moving.md"]),
    ("olm start", &["operators.md", "reference.md#flags-of-cvo-olm-start"]),
    ("olm catalogs", &["operators.md#what-a-cluster-offers"]),
    ("olm packages", &["operators.md#what-a-cluster-offers"]),
    ("olm list", &["operators.md#install-an-operator-and-keep-it-up-to-date"]),
    ("olm status", &["operators.md#where-an-operator-stands"]),
    ("olm plan", &["operators.md#install-an-operator-and-keep-it-up-to-date"]),
    ("olm why", &["operators.md#install-an-operator-and-keep-it-up-to-date"]),
    ("olm why-not", &["operators.md#install-an-operator-and-keep-it-up-to-date"]),
    ("olm subscribe", &["operators.md#install-an-operator-and-keep-it-up-to-date"]),
    ("olm approve", &["operators.md#install-an-operator-and-keep-it-up-to-date"]),
    ("render", &["install.md#render-the-manifests-of-the-installation"]),
    ("status", &["updates.md#watch", "troubleshooting.md"]),
    ("history", &["updates.md#after"]),
    ("page", &["updates.md#watch", "troubleshooting.md"]),
    ("collect", &["updates.md#after"]),
    ("plan", &["updates.md#before"]),
    ("upgrade", &["updates.md#request"]),
    ("rollback", &["updates.md#stop"]),
    ("channel", &["updates.md#update-by-version"]),
    ("ack", &["updates.md#what-may-be-updated-to-what"]),
    ("doctor", &["updates.md#before", "troubleshooting.md"]),
    ("wait", &["updates.md#request"]),
    ("node", &["nodes.md"]),
    ("node plan", &["nodes.md#see-what-a-machineconfig-does-before-it-is-applied"]),
    ("catalog", &["catalogs.md"]),
    ("catalog validate", &["catalogs.md#check"]),
    ("catalog show", &["catalogs.md#look-inside"]),
    ("catalog render", &["catalogs.md#render"]),
    ("catalog add", &["catalogs.md#add-a-version"]),
    ("catalog graph", &["catalogs.md#look-inside"]),
    ("catalog lint", &["catalogs.md#check"]),
    ("catalog diff", &["catalogs.md#compare"]),
    ("catalog build", &["catalogs.md#build-an-image"]),
    ("catalog serve", &["catalogs.md#serve"]),
    ("rbac", &["rights.md"]),
    ("graph", &["releases.md#check-and-inspect"]),
    ("image", &["releases.md#check-and-inspect"]),
    ("release", &["releases.md"]),
    ("release new", &["releases.md#the-next-release"]),
    ("release import", &["releases.md#from-what-you-have-already"]),
    ("release info", &["releases.md#check-and-inspect"]),
    ("release extract", &["releases.md#check-and-inspect"]),
    ("release lint", &["releases.md#check-and-inspect"]),
    ("release sign", &["updates.md#sign"]),
    ("release mirror", &["offline.md"]),
    ("bundle", &["operators.md"]),
    ("bundle validate", &["operators.md#check-a-bundle"]),
    ("bundle build", &["operators.md#build-the-image-of-a-bundle"]),
    ("verify", &["updates.md#sign"]),
    ("image-build", &["install.md#build-the-image-and-the-tool"]),
    ("image-files", &["releases.md#check-and-inspect"]),
    ("payload", &["releases.md#check-and-inspect"]),
    ("payload list", &["releases.md#check-and-inspect"]),
    ("completion", &["install.md#build-the-image-and-the-tool"]),
    ("man-pages", &["install.md#build-the-image-and-the-tool"]),
];

/// The pages of a command, as links from another page.
pub(crate) fn of(command: &str) -> &'static [&'static str] {
    PAGES.iter().find(|(known, _)| *known == command).map(|(_, pages)| *pages).unwrap_or_default()
}

/// The command line, with the exit codes and the pages at the end of each help.
pub(crate) fn with_pages(line: Command) -> Command {
    PAGES.iter().fold(line, |line, (path, pages)| {
        let names: Vec<String> = pages.iter().map(|page| format!("{FOLDER}/{page}")).collect();
        let told = format!("Documentation: {}", names.join(", "));
        match path.split_once(' ') {
            Some((group, name)) => {
                line.mut_subcommand(group, |group| group.mut_subcommand(name, |it| with(it, path, &told)))
            }
            None => line.mut_subcommand(path, |it| with(it, path, &told)),
        }
    })
}

fn with(command: Command, path: &str, told: &str) -> Command {
    let command = match exit::of(path) {
        None => command,
        Some(codes) => {
            let about = command.get_long_about().or(command.get_about()).map(ToString::to_string).unwrap_or_default();
            command.long_about(format!("{about}\n\nExit code {codes}."))
        }
    };
    let reaches = command.get_arguments().any(|flag| flag.get_id().as_str() == "kubeconfig");
    let told = if reaches { format!("{PROXY}\n\n{told}") } else { told.to_owned() };
    let long = command.get_after_long_help().map(|before| format!("{before}\n\n{told}"));
    let command = command.after_help(told);
    match long {
        Some(long) => command.after_long_help(long),
        None => command,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;
    use std::collections::BTreeSet;

    /// Every command that is not hidden, with its group.
    fn commands() -> BTreeSet<String> {
        let line = crate::cli::Cli::command();
        let shown = |command: &&Command| !command.is_hide_set();
        let mut all = BTreeSet::new();
        for command in line.get_subcommands().filter(shown) {
            all.insert(command.get_name().to_owned());
            all.extend(
                command
                    .get_subcommands()
                    .filter(shown)
                    .map(|nested| format!("{} {}", command.get_name(), nested.get_name())),
            );
        }
        all
    }

    #[test]
    fn help_of_every_command_names_a_page() {
        let mut line = crate::cli::line();
        for path in commands() {
            let command = path.split(' ').try_fold(&mut line, |it, name| it.find_subcommand_mut(name)).unwrap();
            for help in [command.clone().render_help(), command.clone().render_long_help()] {
                let expected = format!("Documentation: {FOLDER}/");
                assert!(help.to_string().contains(&expected), "{path}: {help}");
            }
        }
    }

    #[test]
    fn help_of_whatever_has_a_kubeconfig_tells_of_the_proxy() {
        let line = crate::cli::line();
        for (path, told) in [("status", true), ("wait", true), ("node plan", true), ("start", true), ("graph", false)] {
            let command = path.split(' ').try_fold(&line, |it, name| it.find_subcommand(name)).unwrap();
            for help in [command.clone().render_help(), command.clone().render_long_help()] {
                assert_eq!(help.to_string().contains("HTTPS_PROXY"), told, "{path}: {help}");
            }
        }
    }

    #[test]
    fn every_page_is_named_by_a_command_and_exists() {
        let known = commands();
        let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
        let mut named = BTreeSet::new();
        for (path, pages) in PAGES {
            assert!(known.contains(*path) || *path == "man-pages", "there is no command {path}");
            named.extend(pages.iter().map(|page| page.split('#').next().unwrap().to_owned()));
        }
        let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let pages: BTreeSet<String> = files.filter(|name| name.ends_with(".md")).collect();
        assert_eq!(named, pages);
    }
}
