use super::*;
use futures::stream;
use kube::client::Body;
use std::sync::Mutex;

#[test]
fn unknown_log_level_is_the_normal_one() {
    for (level, expected) in [
        (json!("Debug"), LogLevel::Debug),
        (json!("Trace"), LogLevel::Trace),
        (json!("TraceAll"), LogLevel::TraceAll),
        (json!("Normal"), LogLevel::Normal),
        (json!(""), LogLevel::Normal),
        (json!("Loud"), LogLevel::Normal),
        (json!(7), LogLevel::Normal),
    ] {
        assert_eq!(LogLevel::of(&json!({"spec": {"operatorLogLevel": level}})), expected, "{level}");
    }
    assert_eq!(LogLevel::of(&json!({})), LogLevel::Normal);
}

#[tokio::test(start_paused = true)]
async fn observed_generation_that_could_not_be_written_is_written_again_without_an_event() {
    let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let object = json!({"apiVersion": "operator.openshift.io/v1alpha1", "kind": "ClusterVersionOperator",
        "metadata": {"name": NAME, "generation": 3, "resourceVersion": "1"}, "spec": {}});
    let (service, mut requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let (written, mut writes) = watch::channel(0);
    let answer = object.clone();
    tokio::spawn(async move {
        for code in [500, 500, 200] {
            let Some((request, respond)) = requests.next_request().await else { return };
            assert_eq!(request.method(), http::Method::PUT);
            let failed = json!({"kind": "Status", "apiVersion": "v1", "code": code, "reason": "", "message": "no"});
            let body = if code == 200 { &answer } else { &failed };
            let body = Body::from(body.to_string().into_bytes());
            respond.send_response(http::Response::builder().status(code).body(body).unwrap());
            written.send_modify(|number| *number += 1);
        }
        std::future::pending::<()>().await;
    });
    let levels = Arc::new(Mutex::new(Vec::new()));
    let set = levels.clone();
    let follower = Follower {
        clients: Arc::new(Clients::new(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap()),
        objects: Objects::new(kube::Client::new(service, "default"), "tests", Arc::new(|| true)),
        kinds: Arc::default(),
        features: watch::channel(Arc::default()).1,
        version: "1".to_owned(),
        set: SetLogLevel(Arc::new(move |level| set.lock().unwrap().push(level))),
    };
    let states = stream::iter([Read::Value(object)]).chain(stream::pending()).boxed();
    let all_written = async { writes.wait_for(|number| *number == 3).await.map(drop) };
    tokio::select! {
        () = follower.follow_states(states) => panic!("it ended"),
        ended = tokio::time::timeout(Duration::from_secs(60), all_written) => ended.unwrap().unwrap(),
    }
    assert_eq!(*levels.lock().unwrap(), [Some(LogLevel::Normal)]);
}
