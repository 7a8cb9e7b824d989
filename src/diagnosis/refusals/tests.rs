use super::*;
use serde_json::json;

fn refused(what: &str, code: u16, message: &str) -> Attempt {
    Attempt {
        what: what.into(),
        namespace: "ns".into(),
        vital: true,
        answer: Answer::Refused { code, message: message.into() },
    }
}

#[test]
fn cause_of_a_refusal_is_named_by_the_words_of_the_api_server() {
    let webhooks = [
        json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": "all"}, "webhooks": [{"name": "deny.example.com"}]}),
    ];
    for (code, words, object, step) in [
        (
            500,
            r#"Internal error occurred: failed calling webhook "deny.example.com": failed to call webhook: Post "https://127.0.0.1:1/x?timeout=10s": dial tcp 127.0.0.1:1: connect: connection refused"#,
            "validatingwebhookconfiguration all",
            "kubectl delete validatingwebhookconfiguration all",
        ),
        (
            403,
            r#"admission webhook "deny.example.com" denied the request: no"#,
            "validatingwebhookconfiguration all",
            "kubectl describe",
        ),
        (
            403,
            r#"admission webhook "other.example.com" denied the request: no"#,
            "webhook other.example.com",
            "whoever runs it",
        ),
        (
            422,
            "leases.coordination.k8s.io \"version\" is forbidden: ValidatingAdmissionPolicy 'freeze' with binding 'b' denied request: frozen",
            "validatingadmissionpolicy freeze",
            "kubectl describe validatingadmissionpolicy freeze",
        ),
        (
            403,
            "pods \"cluster-version-operator-x\" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1",
            "resourcequota ns/few",
            "kubectl -n ns describe resourcequota few",
        ),
        (
            403,
            r#"leases.coordination.k8s.io "version" is forbidden: User "system:serviceaccount:ns:cvo" cannot update resource "leases""#,
            "serviceaccount ns/cvo",
            "cvo rbac",
        ),
        (500, "etcdserver: mvcc: database space exceeded", "etcd", "defragment"),
        (429, "the server has received too many requests", "the API server", "readyz"),
        (0, "no answer within 15 s", "the API server", "readyz"),
        (422, "spec.renewTime: Invalid value", "namespace ns", "words of the API server"),
    ] {
        let told = troubles(
            &[refused("update lease ns/version", code, words), refused("update configmap ns/c", code, words)],
            &webhooks,
        );
        let [trouble] = told.as_slice() else { panic!("one cause, however many writes: {told:?}") };
        assert_eq!(trouble.object, object, "{words}");
        assert!(
            trouble.message.contains(words) && trouble.message.contains("lease ns/version, update configmap ns/c"),
            "{trouble:?}"
        );
        assert!(trouble.next_step.contains(step), "{trouble:?}");
    }
}

#[test]
fn two_causes_are_two_findings_and_what_could_not_be_tried_is_none() {
    let unknown = Attempt {
        what: "create a pod in ns".into(),
        namespace: "ns".into(),
        vital: true,
        answer: Answer::Unknown("you may not".into()),
    };
    let attempts = [
        refused("update lease ns/version", 403, "exceeded quota: a, requested"),
        refused("update configmap ns/c", 403, "exceeded quota: b, requested"),
        Attempt { answer: Answer::Accepted, ..unknown.clone() },
        unknown,
    ];
    let objects: Vec<String> = troubles(&attempts, &[]).into_iter().map(|it| it.object).collect();
    assert_eq!(objects, ["resourcequota ns/a", "resourcequota ns/b"]);
    assert_eq!(
        super::unknown(&attempts).collect::<Vec<_>>(),
        ["Whether the daemon can create a pod in ns: you may not"]
    );
}
