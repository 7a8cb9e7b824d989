use super::*;

fn rendered(source: &str) -> Result<Rendered, TemplateError> {
    let images = BTreeMap::from([("a-b".to_owned(), "r/ab@sha256:1".to_owned())]);
    render(
        source,
        &Variables {
            release_image: "r/r@sha256:0",
            cluster_profile: "prof",
            exclude_manifests: "without",
            images: &images,
        },
    )
}

#[test]
fn supported_expressions_are_evaluated() {
    let table = [
        ("", ""),
        ("plain } } {", "plain } } {"),
        ("i: '{{.ReleaseImage}}'", "i: 'r/r@sha256:0'"),
        ("{{ .ClusterProfile }}{{.ClusterProfile}}", "profprof"),
        ("{{.ExcludeManifests}}", "without"),
        ("{{index .Images \"a-b\"}} {{ index\n .Images `a-b` }}", "r/ab@sha256:1 r/ab@sha256:1"),
        ("x {{ \"{{ $labels.name }}\" }} y", "x {{ $labels.name }} y"),
        (r#"{{ "a \"{{q}}\" \\ \n\t\x41\101\u00e4\U0001F600" }}"#, "a \"{{q}}\" \\ \n\tAA\u{e4}\u{1F600}"),
        ("{{ `raw \\n }} \"` }}", "raw \\n }} \""),
        ("a \n {{- .ClusterProfile -}} \n b", "aprofb"),
        ("a {{- \"\" }} b", "a b"),
        ("a{{/* a comment }} */}}b", "ab"),
        ("a {{- /* c */ -}} b", "ab"),
    ];
    for (source, expected) in table {
        assert_eq!(rendered(source).map(|r| r.text), Ok(expected.to_owned()), "{source:?}");
    }
}

#[test]
fn unknown_expressions_are_reported_with_their_line() {
    let table = [
        ("\n{{ .Unknown }}", "line 2: {{ .Unknown }} is not known"),
        ("{{ \"a\nb\" }}", "line 1: \"a\nb\" is not a valid string literal"),
        ("{{ .ReleaseImage | quote }}", "line 1: {{ .ReleaseImage | quote }} is not known"),
        ("{{ \"a\" | quote }}", "is not known"),
        ("{{ if .X }}", "is not known"),
        ("{{ index .Images }}", "is not known"),
        ("{{ index .Other \"a\" }}", "is not known"),
        ("{{ $x.y }}", "is not known"),
        ("{{}}", "is not known"),
        ("{{-3}}", "is not known"),
        ("a\nb {{ .ReleaseImage }", "line 2: the action that begins with {{.ReleaseImage } is not closed"),
        ("{{ \"}} ", "is not closed"),
        ("{{ /* }}", "is not closed"),
        (r#"{{ "\q" }}"#, "is not a valid string literal"),
        (r#"{{ "\xff" }}"#, "is not a valid string literal"),
        (r#"{{ "\400" }}"#, "is not a valid string literal"),
    ];
    for (source, expected) in table {
        let error = rendered(source).unwrap_err().to_string();
        assert!(error.contains(expected), "{source:?}: {error}");
    }
}

#[test]
fn missing_image_is_empty_and_reported() {
    let read = rendered("[{{index .Images \"none\"}}]").unwrap();
    assert_eq!((read.text.as_str(), read.missing_images), ("[]", BTreeSet::from(["none".to_owned()])));
}

/// Rows: template, and for each line of the text the line of the template from which it comes.
#[test]
fn lines_of_the_text_map_to_the_template() {
    let table: [(&str, &[usize]); 9] = [
        ("", &[1]),
        ("a\nb\n", &[1, 2, 3]),
        ("a{{- /* 1\n2\n3 */}}\nb\nc", &[1, 4, 5]),
        ("{{- /* 1\n2 */ -}}\n\nb\n{{.ClusterProfile}}: x\nc", &[4, 5, 6]),
        ("{{/* 1\n2 */ -}}\n{{.ClusterProfile}}\nb", &[3, 4]),
        ("a {{ \"x\\ny\\n\" }}b\nc", &[1, 1, 1, 2]),
        ("a\n{{ `x\ny` }} b\nc", &[1, 2, 2, 4]),
        ("{{ index\n.Images \"a-b\" }}\nb", &[1, 3]),
        ("a\n  {{- \"\" -}}  \n\n b", &[1]),
    ];
    for (source, expected) in table {
        let read = rendered(source).unwrap();
        let lines = 1..=read.text.split('\n').count();
        assert_eq!(lines.map(|line| read.lines.source(line)).collect::<Vec<_>>(), expected, "{source:?}");
    }
    assert_eq!(Lines::default().source(7), 7);
}

/// A short template repeats an image name of one MiB.
#[test]
fn text_over_the_limit_is_refused_before_it_is_built() {
    let images = BTreeMap::from([("a".to_owned(), "x".repeat(1 << 20))]);
    let variables = Variables { release_image: "", cluster_profile: "", exclude_manifests: "", images: &images };
    let times = |count: usize| render(&"{{index .Images \"a\"}}\n".repeat(count), &variables);
    let most = MAX_BYTES / ((1 << 20) + 1);
    assert_eq!(times(most).unwrap().text.len(), most * ((1 << 20) + 1));
    let error = times(100_000).unwrap_err();
    assert_eq!(error, TemplateError::TooLarge { line: most + 1 });
    assert!(
        error.to_string().starts_with("line 4: here the evaluated file exceeds the limit of 4194304 bytes"),
        "{error}"
    );
}

proptest::proptest! {
    #[test]
    fn random_templates_do_not_panic(source in "[-a{}\"`'\\\\ \n./*ux7\u{e4}]{0,40}") {
        if let Ok(read) = rendered(&source).map_err(|e| assert!(e.to_string().starts_with("line "))) {
            let lines: Vec<usize> = (1..=read.text.split('\n').count()).map(|l| read.lines.source(l)).collect();
            let all = 1..=source.split('\n').count();
            assert!(lines.is_sorted() && lines.iter().all(|line| all.contains(line)), "{source:?}: {lines:?}");
        }
    }
}
