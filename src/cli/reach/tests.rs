use super::*;
use crate::cluster::Clients;
use crate::error::chain;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;

const DOWN: &str = "https://127.0.0.1:1/";

/// No server listens there.
fn down() -> Clients {
    let _installed_before = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Clients::new(kube::Config::new(DOWN.parse().unwrap())).unwrap()
}

#[tokio::test]
async fn unreachable_server_is_named_once_with_a_hint() {
    let clients = down();
    assert_eq!(clients.server(), DOWN);
    let namespaces: Api<Namespace> = Api::all(clients.call.clone());
    let refused = namespaces.get("a").await.unwrap_err();
    let said = chain(explain(DOWN, ApiError::of("read Namespace a", refused)).as_ref());
    assert_eq!(said.matches("Connection refused").count(), 1, "{said}");
    assert_eq!(said.matches("client error (Connect)").count(), 1, "{said}");
    let hint = " (the API server should be at https://127.0.0.1:1/: is it running? --kubeconfig names another)";
    assert!(said.ends_with(hint), "{said}");
}

#[test]
fn error_from_the_server_gets_no_hint() {
    let cause = Cause::Server { code: 403, reason: "Forbidden".into(), message: "you may not".into() };
    let said = explain(DOWN, ApiError { attempt: "read it".into(), cause }).to_string();
    assert_eq!(said, "cannot read it: you may not");
}

#[test]
fn proxy_of_the_environment_is_told_of_where_it_would_apply() {
    for (server, https, none, told) in [
        ("https://api.example.com:6443/", "http://proxy:3128", "", true),
        ("https://api.example.com:6443/", "proxy:3128", "localhost,.svc", true),
        ("https://api.example.com:6443/", "", "", false),
        ("https://api.example.com:6443/", "http://proxy:3128", ".example.com", false),
        ("https://127.0.0.1:6443/", "http://proxy:3128", "", false),
        ("http://api.example.com/", "http://proxy:3128", "", false),
    ] {
        let environment = ProxySettings { https: https.into(), none: none.into(), ..ProxySettings::default() };
        let said = hint_in(server, &environment);
        assert!(said.contains("is it running?"), "{said}");
        assert_eq!(
            said.contains("HTTPS_PROXY") && said.contains("proxy-url"),
            told,
            "{server} {https:?} {none:?}: {said}"
        );
    }
}
