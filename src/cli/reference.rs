//! `cvo reference`: pages of the documentation that are made of the program itself, so that they are never out of date.

use super::exit;
use super::output::print;
use super::pages;
use crate::cluster_version::metrics;
use crate::cluster_version::status::facts::LoadStep;
use crate::cluster_version::status::failure::Reason;
use crate::diagnosis::pods;
use crate::machine_config::rollout::BlockedReason;
use crate::release::update_graph;
use clap::{Arg, Args, Command, ValueEnum};
use std::fmt::Write;

/// Print a page of the documentation
#[derive(Args, Debug)]
pub(crate) struct ReferenceArgs {
    #[arg(value_enum)]
    pub page: Name,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Name {
    /// What to do about each message
    Troubleshooting,
    /// Commands, exit codes, flags and metrics
    Reference,
}

pub(crate) fn run(args: &ReferenceArgs, line: Command) -> anyhow::Result<()> {
    print(&text(args.page, line))
}

fn text(name: Name, line: Command) -> String {
    match name {
        Name::Troubleshooting => troubleshooting(),
        Name::Reference => reference(line),
    }
}

/// A table of two columns.
fn table(out: &mut String, titles: [&str; 2], rows: impl IntoIterator<Item = (String, String)>) {
    let cell = |text: &str| text.replace('|', "\\|").replace('\n', " ").replace('<', "&lt;");
    // Writing to a string does not fail.
    let _written = write!(out, "| {} | {} |\n|---|---|\n", titles[0], titles[1]);
    for (first, second) in rows {
        let _written = writeln!(out, "| {} | {} |", cell(&first), cell(&second));
    }
    out.push('\n');
}

fn code(text: impl std::fmt::Display) -> String {
    format!("`{text}`")
}

fn troubleshooting() -> String {
    let mut out = String::from(include_str!("reference/troubleshooting.txt"));
    out.push_str("## Words of the API server\n\n");
    let titles = ["Message contains", "Next step"];
    let rows = super::status::next_step::BY_MESSAGE.iter().map(|(words, step)| (code(words), (*step).to_owned()));
    table(&mut out, titles, rows);
    let titles = ["Reason", "Next step"];
    out.push_str("## The condition Failing\n\n");
    table(&mut out, titles, Reason::ALL.iter().map(|reason| (code(reason), reason.next_step().to_owned())));
    out.push_str("## The condition ReleaseAccepted\n\n");
    table(&mut out, titles, LoadStep::ALL.iter().map(|step| (code(step.reason()), step.next_step().to_owned())));
    out.push_str("## The condition RetrievedUpdates\n\n");
    table(
        &mut out,
        titles,
        update_graph::Reason::ALL.iter().map(|reason| (code(reason), reason.next_step().to_owned())),
    );
    out.push_str("## Other conditions of the ClusterVersion\n\n");
    let rows = super::status::next_step::BY_TYPE.iter().map(|(type_, step)| (code(type_), (*step).to_owned()));
    table(&mut out, ["Condition", "Next step"], rows);
    out.push_str("## The condition RolloutBlocked of a MachineConfigPool\n\n");
    table(&mut out, titles, BlockedReason::ALL.iter().map(|reason| (code(reason), reason.next_step().to_owned())));
    out.push_str("## Pods and their containers\n\n");
    let rows = pods::STEPS.iter().map(|(reasons, step, _)| {
        let reasons: Vec<String> = reasons.iter().map(code).collect();
        (reasons.join(", "), (*step).to_owned())
    });
    table(&mut out, titles, rows);
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

/// The daemons, whose flags stand in manifests.
const DAEMONS: [&str; 4] = ["start", "machine-config", "node-agent", "olm start"];

fn shown(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help")
}

fn about(command: &Command) -> String {
    command.get_about().map(ToString::to_string).unwrap_or_default()
}

/// The name of a page without its ending and heading.
fn page_name(page: &str) -> &str {
    page.split(".md").next().unwrap_or(page)
}

fn reference(mut line: Command) -> String {
    let mut out = String::from(
        "# Reference\n\nAll commands and their exit codes, the flags of the daemons, and the metrics. Conditions and what to do about them are in \
         [troubleshooting](troubleshooting.md). Made by `cvo reference reference`.\n\n## Commands\n\n",
    );
    line.build();
    let mut rows = Vec::new();
    for command in shown(&line) {
        let nested = shown(command).map(|nested| (format!("{} {}", command.get_name(), nested.get_name()), nested));
        rows.extend(std::iter::once((command.get_name().to_owned(), command)).chain(nested));
    }
    let rows = rows.into_iter().map(|(path, command)| {
        let links: Vec<String> = pages::of(&path).iter().map(|page| format!("[{}]({page})", page_name(page))).collect();
        (code(format!("cvo {path}")), format!("{} ({})", about(command), links.join(", ")))
    });
    table(&mut out, ["Command", "What it does, and the page that tells of it"], rows);
    out.push_str("`cvo COMMAND --help` says more, and so do the manual pages (`cvo man-pages DIR`). ");
    out.push_str(pages::PROXY);
    out.push_str("\n\n");
    out.push_str(
        "## Exit codes\n\n0: success; 1: failure, with the cause on standard error; 2: wrong usage. Some commands say more by them:\n\n",
    );
    table(
        &mut out,
        ["Command", "Exit code"],
        exit::commands().map(|(path, codes)| (code(format!("cvo {path}")), codes)),
    );
    for name in DAEMONS {
        let command = name.split(' ').try_fold(&line, |command, word| command.find_subcommand(word));
        let Some(command) = command else { continue };
        let _written = write!(out, "## Flags of `cvo {name}`\n\n{}.\n\n", about(command));
        let flags = command.get_arguments().filter(|flag| !flag.is_hide_set() && flag.get_long() != Some("help"));
        table(&mut out, ["Flag", "Meaning"], flags.map(flag));
    }
    out.push_str("## Metrics of the daemon\n\n");
    table(&mut out, ["Metric", "Meaning"], metrics::described().into_iter().map(|(name, help)| (code(name), help)));
    out.push_str("## Metrics of the machine-config controller\n\n");
    let described = crate::machine_config::metrics::described();
    table(&mut out, ["Metric", "Meaning"], described.into_iter().map(|(name, help)| (code(name), help)));
    out.push_str("## Metrics of the controller of operators\n\n");
    let described = crate::olm::metrics::described();
    table(&mut out, ["Metric", "Meaning"], described.into_iter().map(|(name, help)| (code(name), help)));
    while out.ends_with("\n\n") {
        out.pop();
    }
    out
}

fn flag(flag: &Arg) -> (String, String) {
    let name = flag.get_long().map_or_else(|| flag.get_id().to_string().to_uppercase(), |long| format!("--{long}"));
    let value = flag.get_value_names().filter(|_| flag.get_action().takes_values());
    let value = value.and_then(|names| names.first()).map(|name| format!(" {name}")).unwrap_or_default();
    let mut text = flag.get_help().map(ToString::to_string).unwrap_or_default();
    if let Some(env) = flag.get_env() {
        let _written = write!(text, " (environment: `{}`)", env.to_string_lossy());
    }
    let defaults: Vec<String> = flag.get_default_values().iter().map(|it| it.to_string_lossy().into_owned()).collect();
    if flag.get_action().takes_values() && !defaults.is_empty() {
        let _written = write!(text, " (default: `{}`)", defaults.join(" "));
    }
    (code(format!("{name}{value}")), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `cvo reference NAME > .github/docs/NAME.md` writes them anew.
    #[test]
    fn pages_of_the_documentation_are_as_the_program_says() {
        for (name, file) in [(Name::Troubleshooting, "troubleshooting"), (Name::Reference, "reference")] {
            let path = format!("{}/.github/docs/{file}.md", env!("CARGO_MANIFEST_DIR"));
            let written = std::fs::read_to_string(&path).unwrap_or_default();
            assert!(written == text(name, crate::cli::line()), "run: cvo reference {file} > .github/docs/{file}.md");
        }
    }

    #[test]
    fn tables_are_whole() {
        let reference = reference(crate::cli::line());
        for words in [
            "`cvo upgrade`",
            "`--release-image",
            "`cluster_operator_up`",
            "`mcc_drain_err`",
            "## Flags of `cvo node-agent`",
        ] {
            assert!(reference.contains(words), "{words} is not in\n{reference}");
        }
        let mut out = String::new();
        table(&mut out, ["a", "b"], [("x|y".to_owned(), "<c>\nd".to_owned())]);
        assert_eq!(out, "| a | b |\n|---|---|\n| x\\|y | &lt;c> d |\n\n");
    }
}
