//! What is said when nobody answers where the API server should be.

use crate::cluster::ApiError;
use crate::cluster::error::Cause;
use crate::error::chain;
use kube::runtime::watcher;

/// The error, with the address that was tried and the way out where it is about reaching the server; what the server
/// itself has answered speaks for itself.
pub fn explain(server: &str, error: ApiError) -> anyhow::Error {
    match error.cause {
        Cause::Transport(_) | Cause::Timeout => anyhow::anyhow!("{error} ({})", way_out(server)),
        _ => error.into(),
    }
}

/// The same of a watch, as a text.
pub fn explain_watch(server: &str, error: &watcher::Error) -> String {
    let text = chain(error);
    let answered = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => matches!(error, kube::Error::Api(_)),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => true,
    };
    if answered { text } else { format!("{text} ({})", way_out(server)) }
}

fn way_out(server: &str) -> String {
    format!("the API server should be at {server}: is it running? --kubeconfig names another")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::Clients;
    use k8s_openapi::api::core::v1::Namespace;
    use kube::api::Api;

    const DOWN: &str = "https://127.0.0.1:1/";

    /// Nobody answers.
    fn down() -> Clients {
        let _installed_before = rustls::crypto::aws_lc_rs::default_provider().install_default();
        Clients::new(kube::Config::new(DOWN.parse().unwrap())).unwrap()
    }

    #[tokio::test]
    async fn where_nobody_answers_the_address_and_the_way_out_are_told_once() {
        let clients = down();
        assert_eq!(clients.server(), DOWN);
        let namespaces: Api<Namespace> = Api::all(clients.call.clone());
        let refused = namespaces.get("a").await.unwrap_err();
        let said = chain(explain(DOWN, ApiError::of("read Namespace a", refused)).as_ref());
        let watch = explain_watch(DOWN, &watcher::Error::InitialListFailed(namespaces.get("a").await.unwrap_err()));
        for said in [said, watch] {
            assert_eq!(said.matches("Connection refused").count(), 1, "{said}");
            assert_eq!(said.matches("client error (Connect)").count(), 1, "{said}");
            let way_out =
                " (the API server should be at https://127.0.0.1:1/: is it running? --kubeconfig names another)";
            assert!(said.ends_with(way_out), "{said}");
        }
    }

    #[test]
    fn an_answer_speaks_for_itself() {
        let cause = Cause::Server { code: 403, reason: "Forbidden".into(), message: "you may not".into() };
        let said = explain(DOWN, ApiError { attempt: "read it".into(), cause }).to_string();
        assert_eq!(said, "cannot read it: you may not");
    }
}
