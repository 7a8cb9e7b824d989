use super::*;

/// The error for a command line that must be wrong usage.
fn refused(words: &str) -> String {
    let error = parse(std::iter::once("cvo").chain(words.split(' '))).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{words}: {error}");
    error.to_string()
}

#[test]
fn daemons_are_subcommands() {
    let line = Cli::command();
    let found = |name: &str| name.split(' ').try_fold(&line, |command, word| command.find_subcommand(word)).is_some();
    let unknown = DAEMONS.iter().filter(|name| !found(name));
    assert_eq!(unknown.count(), 0);
}

#[test]
fn without_a_command_it_is_the_overview() {
    for name in ["cvo", "/usr/bin/kubectl-cvo"] {
        assert!(matches!(parse([name]).unwrap().command, Command::Overview(_)), "{name}");
    }
    assert!(parse(["cvo", "--nothing"]).is_err());
}

#[test]
fn plugin_of_kubectl_is_called_as_one() {
    let said = |name: &str| parse([name, "status", "--nothing"]).unwrap_err().to_string();
    assert!(said("/usr/local/bin/kubectl-cvo").contains("Usage: kubectl cvo status "), "{}", said("kubectl-cvo"));
    assert!(said("/usr/local/bin/cvo").contains("Usage: cvo status "), "{}", said("cvo"));
    assert_eq!(program(None), "cvo");
}

#[test]
fn flags_without_effect_are_refused() {
    let table = [
        ("plan --from cluster --to cluster", "error: --to must name a release"),
        (
            "plan --from . --to . --running x",
            "--running has an effect only with --from cluster: with --from . no cluster is read",
        ),
        ("plan --from r/a:1 --to . --as me", "--as has an effect only with --from cluster"),
        ("plan --from . --to . --kubeconfig x", "--kubeconfig has an effect only with --from cluster"),
        ("plan --from . --to . --name version", "--name has an effect only with --from cluster"),
        (
            "plan --from cluster --to . --feature-set Default",
            "--feature-set has no effect with --from cluster, where it is read",
        ),
        ("plan --from cluster --to . --feature-gates A", "--feature-gates has no effect with --from cluster"),
        ("plan --from cluster --to . --capabilities None", "--capabilities has no effect with --from cluster"),
        ("plan --from cluster --to . --from-image r/a:1", "--from-image has no effect with --from cluster"),
        ("plan --from r/a:1 --to . --from-image r/a:1", "--from-image is for a folder in --from"),
        ("plan --from . --to r/a:1 --to-image r/a:1", "--to-image is for a folder in --to"),
        ("plan --from . --to . --to-image A:::b", "invalid value 'A:::b' for '--to-image <IMAGE>'"),
        ("plan --from . --to . --capabilities v4.11,v4.12", "--capabilities takes one set"),
        ("plan --from . --to . --all -o json", "--all has an effect only with -o text"),
        ("graph . --capabilities v4.99", "this set is unknown"),
        ("graph . --capabilities v4.11,v4.12", "--capabilities takes one set"),
        ("graph . -o json --manifests", "--manifests has an effect only with -o text"),
        ("graph . -o dot --manifests", "--manifests has an effect only with -o text"),
        ("payload list . --objects", "--objects goes with -o json only"),
        ("status --from f --namespace x", "--namespace has no effect with --from"),
        ("history --from f --name x", "--name has no effect with --from"),
        ("page --from f --name x --namespace y", "--namespace has no effect with --from"),
        ("payload list . --capabilities v4.11,v4.12", "--capabilities takes one set"),
    ];
    for (words, expected) in table {
        let said = refused(words);
        assert!(said.contains(expected), "{words}: {said}");
        if said.contains("invalid value") {
            continue;
        }
        let command = words.split(" .").next().unwrap().split(" --").next().unwrap();
        assert!(said.contains(&format!("Usage: cvo {command} ")), "{words}: {said}");
    }
}

#[test]
fn flags_with_an_effect_are_accepted() {
    for words in [
        "plan --from cluster --to . --to-image r/a:1 --running r/b:1 --as me --kubeconfig x --name v --profile p",
        "plan --from . --from-image r/a:1 --to . --to-image r/a@sha256:1234567890123456789012345678901234567890123456789012345678901234",
        "plan --from . --to r/a:1 --namespace n --feature-set OKD --capabilities v4.11,X --all",
        "graph . --manifests",
        "payload list . --objects -o json",
        "status --watch",
        "status --from f",
        "status --namespace x --name y",
    ] {
        let parsed = parse(std::iter::once("cvo").chain(words.split(' ')));
        assert!(parsed.is_ok(), "{words}: {}", parsed.unwrap_err());
    }
}
