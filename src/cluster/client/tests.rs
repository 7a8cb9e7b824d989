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

/// A server that asks for hours of patience is asked again after half a minute.
#[tokio::test(start_paused = true)]
async fn retry_after_is_bounded() {
    let now = tokio::time::Instant::now();
    for (asked, expected) in [("20", 20), ("30", 30), ("31", 30), ("7200", 30), ("18446744073709551615", 30)] {
        for code in [429, 503] {
            let mut request = http::Request::new(kube::client::Body::empty());
            let answer = http::Response::builder().status(code).header("Retry-After", asked).body(()).unwrap();
            let pause = retry_policy().unwrap().retry(&mut request, &mut Ok(answer)).unwrap();
            assert_eq!(pause.deadline() - now, Duration::from_secs(expected), "{asked}");
        }
    }
}
