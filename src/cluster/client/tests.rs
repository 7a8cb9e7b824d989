use super::*;

/// With neither a service account nor a kubeconfig.
#[tokio::test]
async fn each_cause_is_named_once() {
    let Err(cause) = kube::Config::infer().await else {
        println!("skipped: a kubeconfig exists here");
        return;
    };
    let said = format!("{:#}", anyhow::Error::from(ClientError::Infer { cause }));
    assert_eq!(said.matches("failed to read kubeconfig").count(), 1, "{said}");
    assert!(said.ends_with("or give --kubeconfig"), "{said}");
}
