//! The exit codes of all commands: their names, and a table of what they say, of which each help and the reference are made.

use crate::process::signals;
use std::process::ExitCode;

/// How a command ends. Several names have one number: what it says depends on the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    /// The cause is on standard error, or it is the result.
    Failure,
    Usage,
    /// Something was found.
    Found,
    /// Something will probably stop what is planned.
    Blocked,
    /// Something waits for somebody.
    Waits,
    /// The cluster refuses what is asked for.
    Refused,
    /// What is asked about could not be found out.
    Unknown,
    /// Nothing was found, but not everything could be read.
    Incomplete,
    /// The time is up.
    Late,
    /// A daemon was told twice to end.
    AtOnce,
}

impl Exit {
    /// Scripts compare with these numbers: none changes.
    pub(crate) const fn number(self) -> u8 {
        match self {
            Exit::Success => 0,
            Exit::Failure => 1,
            // As clap has it.
            Exit::Usage => 2,
            Exit::Found | Exit::Blocked | Exit::Waits | Exit::Refused | Exit::Unknown => 3,
            Exit::Incomplete | Exit::Late => 4,
            Exit::AtOnce => signals::AT_ONCE,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.number())
    }
}

/// A code of a command, and what it says.
type Meaning = (Exit, &'static str);
/// A command below `cvo`, with a space before the name of a nested one, and what its codes say.
type Row = (&'static str, &'static [Meaning]);

const USAGE: Meaning = (Exit::Usage, "wrong usage");
const DAEMON: &[Meaning] = &[
    (Exit::Success, "it was told to end"),
    (Exit::Failure, "failure"),
    USAGE,
    (Exit::AtOnce, "it was told twice to end, and has not waited for what was under way"),
];

/// Commands that say more than all others do.
#[rustfmt::skip]
const ROWS: &[Row] = &[
    ("overview", &[
        (Exit::Success, "the cluster was read, whatever is wrong in it"),
        (Exit::Failure, "it was not, and what is said is how to begin"),
        USAGE,
    ]),
    ("start", DAEMON),
    ("machine-config", DAEMON),
    ("node-agent", DAEMON),
    ("olm start", DAEMON),
    ("catalog serve", DAEMON),
    ("plan", &[
        (Exit::Success, "nothing is known that would stop the update"),
        (Exit::Failure, "no plan could be made, or every manifest of the release is excluded"),
        USAGE,
        (Exit::Blocked, "something in the plan will probably stop the update"),
    ]),
    ("upgrade", &[
        (Exit::Success, "the update is requested, or there is nothing to do"),
        (Exit::Failure, "it is refused, with the reason"),
        USAGE,
        (Exit::Blocked, "with --dry-run: something in the plan will probably stop the update"),
    ]),
    ("rollback", &[
        (Exit::Success, "it is requested"),
        (Exit::Failure, "it is refused, with the reason"),
        USAGE,
    ]),
    ("channel", &[
        (Exit::Success, "it is the channel now"),
        (Exit::Failure, "it is refused, with the reason"),
        USAGE,
    ]),
    ("ack", &[
        (Exit::Success, "nothing is open, or what was named is acknowledged"),
        (Exit::Failure, "failure"),
        USAGE,
        (Exit::Found, "without names: gates are open, or invalid, so that the release has to be corrected"),
    ]),
    ("doctor", &[
        (Exit::Success, "nothing was found"),
        (Exit::Failure, "the cluster cannot be read"),
        USAGE,
        (Exit::Found, "something was found"),
        (Exit::Incomplete, "nothing was found, but not everything could be read"),
    ]),
    ("wait", &[
        (Exit::Success, "the release is completed"),
        (Exit::Failure, "failure"),
        USAGE,
        (Exit::Refused, "the daemon refuses what is asked for (it tries again by itself, and so can this command)"),
        (Exit::Late, "the time is up"),
    ]),
    ("node plan", &[
        (Exit::Success, "nothing is known that would keep the nodes waiting for somebody"),
        (Exit::Failure, "no plan could be made, or a pool could not be rendered, or its nodes could not follow"),
        USAGE,
        (Exit::Waits, "something would probably wait until somebody does something about it, or no pool selects a given MachineConfig"),
        (Exit::Incomplete, "nothing is known that would, but not everything could be read that says so"),
    ]),
    ("catalog validate", &[
        (Exit::Success, "every package can be served"),
        (Exit::Failure, "the catalog cannot be read"),
        USAGE,
        (Exit::Found, "faults"),
    ]),
    ("catalog render", &[
        (Exit::Success, "everything was written"),
        (Exit::Failure, "an input cannot be read"),
        USAGE,
        (Exit::Found, "something of a folder with a package.yaml was left out"),
    ]),
    ("catalog add", &[
        (Exit::Success, "the bundle is added, or with --dry-run could be"),
        (Exit::Failure, "the catalog or the bundle cannot be read, or the file cannot be written"),
        USAGE,
        (Exit::Refused, "the new graph would not be right, and nothing is changed"),
    ]),
    ("catalog lint", &[
        (Exit::Success, "no errors, though perhaps warnings"),
        (Exit::Failure, "the catalog cannot be read"),
        USAGE,
        (Exit::Found, "errors, or with --strict warnings"),
    ]),
    ("catalog diff", &[
        (Exit::Success, "nobody who has installed something loses by it"),
        (Exit::Failure, "a catalog or the cluster cannot be read"),
        USAGE,
        (Exit::Found, "a package or a channel is gone, or nothing leads on from a version; with --cluster: a Subscription loses by that"),
    ]),
    ("catalog build", &[
        (Exit::Success, "the image is built, and where it was to go"),
        (Exit::Failure, "it is not"),
        USAGE,
        (Exit::Found, "packages have faults, and nothing is built"),
    ]),
    ("bundle build", &[
        (Exit::Success, "the image is built, and where it was to go"),
        (Exit::Failure, "it is not"),
        USAGE,
        (Exit::Found, "the bundle has errors, and nothing is built"),
    ]),
    ("olm catalogs", &[
        (Exit::Success, "no catalog fails"),
        (Exit::Failure, "the cluster cannot be read"),
        USAGE,
        (Exit::Found, "a catalog fails"),
    ]),
    ("olm status", &[
        (Exit::Success, "nothing is wrong that somebody has to mend, though perhaps something waits for an approval"),
        (Exit::Failure, "the cluster cannot be read, or it has no such Subscription"),
        USAGE,
        (Exit::Found, "something is"),
    ]),
    ("olm plan", &[
        (Exit::Success, "nothing is known that would stop what is to be installed"),
        (Exit::Failure, "no plan could be made"),
        USAGE,
        (Exit::Blocked, "nothing can be found, or something will hold what is to be installed until somebody does something"),
    ]),
    ("olm why", &[
        (Exit::Success, "nothing is in the way of the Subscription"),
        (Exit::Failure, "the cluster cannot be read"),
        USAGE,
        (Exit::Blocked, "something is"),
    ]),
    ("olm why-not", &[
        (Exit::Success, "the version is installed, or comes without anybody doing anything"),
        (Exit::Failure, "the cluster cannot be read"),
        USAGE,
        (Exit::Waits, "it does not come before somebody does something"),
    ]),
    ("release lint", &[
        (Exit::Success, "no errors, though perhaps warnings"),
        (Exit::Failure, "the release cannot be read"),
        USAGE,
        (Exit::Found, "errors, or with --strict warnings"),
    ]),
    ("bundle validate", &[
        (Exit::Success, "no errors, though perhaps warnings"),
        (Exit::Failure, "the bundle cannot be read"),
        USAGE,
        (Exit::Found, "errors, or with --strict warnings"),
    ]),
    ("verify", &[
        (Exit::Success, "every keyring has a signature"),
        (Exit::Failure, "it is refused, with the reasons"),
        (Exit::Usage, "wrong usage, or a keyring that cannot be read"),
        (Exit::Unknown, "not known, because a store, a file with signatures or the cluster could not be read, and what could be is not enough"),
    ]),
];

/// The commands, each with what its codes say, such as `0: success; 1: failure`.
pub(crate) fn commands() -> impl Iterator<Item = (&'static str, String)> {
    let said = |(exit, meaning): &Meaning| format!("{}: {meaning}", exit.number());
    ROWS.iter().map(move |(command, meanings)| (*command, meanings.iter().map(said).collect::<Vec<_>>().join("; ")))
}

/// What the codes of a command say, if it says more than all others.
pub(crate) fn of(command: &str) -> Option<String> {
    commands().find(|(known, _)| *known == command).map(|(_, codes)| codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_a_command_are_different_and_grow() {
        for (command, meanings) in ROWS {
            let numbers: Vec<u8> = meanings.iter().map(|(exit, _)| exit.number()).collect();
            assert!(numbers.is_sorted_by(|one, next| one < next), "{command}: {numbers:?}");
            assert_eq!(numbers[..3], [0, 1, 2], "{command}");
        }
        let two = [Exit::Success, Exit::Failure].map(|exit| format!("{:?}", ExitCode::from(exit)));
        assert_eq!(two, [ExitCode::SUCCESS, ExitCode::FAILURE].map(|code| format!("{code:?}")));
    }

    #[test]
    fn help_of_a_command_tells_its_codes_once() {
        let mut line = crate::cli::line();
        for (path, codes) in commands() {
            let command = path.split(' ').try_fold(&mut line, |it, name| it.find_subcommand_mut(name)).unwrap();
            // Lines are broken to the width.
            let help = command.clone().render_long_help().to_string();
            let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(help.contains(&format!("Exit code {codes}.")), "{path}: {help}");
            assert_eq!(help.matches("Exit code 0").count(), 1, "{path}: {help}");
        }
    }
}
