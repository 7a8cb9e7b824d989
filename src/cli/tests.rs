use super::*;

/// What is said about a command line, which must be wrong usage.
fn refused(words: &str) -> String {
    let error = parse(std::iter::once("cvo").chain(words.split(' '))).unwrap_err();
    assert_eq!(error.exit_code(), 2, "{words}: {error}");
    error.to_string()
}

#[test]
fn flags_that_contradict_or_never_count_are_refused_with_the_reason() {
    let table = [
        ("plan --from cluster --to cluster", "error: --to must name a release"),
        (
            "plan --from . --to . --running x",
            "--running goes with --from cluster only: with --from . no cluster is asked",
        ),
        ("plan --from r/a:1 --to . --as me", "--as goes with --from cluster only"),
        ("plan --from . --to . --kubeconfig x", "--kubeconfig goes with --from cluster only"),
        ("plan --from . --to . --name version", "--name goes with --from cluster only"),
        (
            "plan --from cluster --to . --feature-set Default",
            "--feature-set cannot go with --from cluster: the cluster says",
        ),
        ("plan --from cluster --to . --feature-gates A", "--feature-gates cannot go with --from cluster"),
        ("plan --from cluster --to . --capabilities None", "--capabilities cannot go with --from cluster"),
        ("plan --from cluster --to . --from-image r/a:1", "--from-image cannot go with --from cluster"),
        ("plan --from r/a:1 --to . --from-image r/a:1", "--from-image goes with a folder in --from"),
        ("plan --from . --to r/a:1 --to-image r/a:1", "--to-image goes with a folder in --to"),
        ("plan --from . --to . --to-image A:::b", "invalid value 'A:::b' for '--to-image <IMAGE>'"),
        ("plan --from . --to . --capabilities v4.11,v4.12", "--capabilities takes one set"),
        ("plan --from . --to . --all -o json", "--all goes with -o text only"),
        ("graph . --capabilities v4.99", "no such set is known"),
        ("graph . --capabilities v4.11,v4.12", "--capabilities takes one set"),
        ("graph . -o json --manifests", "--manifests goes with -o text only"),
        ("graph . -o dot --manifests", "--manifests goes with -o text only"),
        ("payload list . --objects", "--objects goes with -o json only"),
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
fn what_counts_is_taken() {
    for words in [
        "plan --from cluster --to . --to-image r/a:1 --running r/b:1 --as me --kubeconfig x --name v --profile p",
        "plan --from . --from-image r/a:1 --to . --to-image r/a@sha256:1234567890123456789012345678901234567890123456789012345678901234",
        "plan --from . --to r/a:1 --namespace n --feature-set OKD --capabilities v4.11,X --all",
        "graph . --manifests",
        "payload list . --objects -o json",
        "status --watch",
    ] {
        let parsed = parse(std::iter::once("cvo").chain(words.split(' ')));
        assert!(parsed.is_ok(), "{words}: {}", parsed.unwrap_err());
    }
}
