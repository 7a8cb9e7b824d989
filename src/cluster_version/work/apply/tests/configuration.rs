//! What takes in the cluster configuration follows it.

use super::*;

fn proxy(address: &str) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}, "spec": {},
        "status": {"httpProxy": address}})
}

fn operator() -> Value {
    let pod = json!({"containers": [{"name": "main", "image": "x"}]});
    let deployment = json!({"spec": {"replicas": 1, "selector": {}, "template": {"spec": pod}}});
    annotated(object("apps/v1", "Deployment", deployment), "config.openshift.io/inject-proxy", "main")
}

const OPERATOR: &str = "/apis/apps/v1/namespaces/b/deployments/a";

/// The proxy in the environment of the operator.
fn proxy_of_operator(server: &Server) -> Option<String> {
    let live = server.get(OPERATOR)?;
    let variable = live.pointer("/spec/template/spec/containers/0/env/0")?;
    Some(variable["value"].as_str()?.to_owned())
}

async fn until_proxy(server: &Server, rollout: &mut RunningRollout, address: Option<&str>) {
    let following = async {
        while proxy_of_operator(server).as_deref() != address {
            tokio::select! { _ = rollout.moved() => {} () = tokio::time::sleep(Duration::from_millis(5)) => {} }
        }
    };
    assert!(
        tokio::time::timeout(LIMIT, following).await.is_ok(),
        "the proxy does not become {address:?} but is {:?}",
        proxy_of_operator(server)
    );
}

#[tokio::test]
async fn workload_follows_the_proxy_at_once_without_a_conflict() {
    let server = Server::default();
    server.put(PROXY, proxy("http://one"));
    let applier = process_with(&server, vec![proxies()]).await;
    // In another mode its gate would wait for pods that do not run.
    let mut rollout = completed(&applier, &manifest(&operator()), Mode::Install).await;
    assert_eq!(
        proxy_of_operator(&server).as_deref(),
        Some("http://one"),
        "the proxy is read before the workload is created"
    );
    let requests = server.requests();
    let of_the_proxy: Vec<_> = requests.iter().filter(|r| r.contains("proxies")).collect();
    assert_eq!(of_the_proxy, ["WATCH /apis/config.openshift.io/v1/proxies"]);

    for address in ["http://two", "http://three", "http://four", "http://five"] {
        server.edit(PROXY, |live| live["status"]["httpProxy"] = json!(address));
        until_proxy(&server, &mut rollout, Some(address)).await;
        let writes = server.requests().into_iter().filter(|r| !r.starts_with("GET")).collect::<Vec<_>>();
        assert_eq!(writes, [format!("PUT {OPERATOR}")]);
    }
    assert_eq!(rollout.view().conflicts, [], "nobody else writes");
    server.edit(PROXY, |live| live["status"] = json!({}));
    until_proxy(&server, &mut rollout, None).await;
    server.edit(PROXY, |live| live["status"] = json!({"httpProxy": "http://six"}));
    until_proxy(&server, &mut rollout, Some("http://six")).await;
    server.remove(PROXY);
    until_proxy(&server, &mut rollout, None).await;
    rollout.cancel().await;
}

#[tokio::test]
async fn proxy_that_appears_with_its_kind_is_followed() {
    let server = Server::default();
    let applier = process(&server).await;
    let mut rollout = completed(&applier, &manifest(&operator()), Mode::Install).await;
    assert_eq!(proxy_of_operator(&server), None, "if the kind is not served, the object counts as absent");
    assert!(!server.requests().iter().any(|r| r.contains("proxies")));
    server.put(PROXY, proxy("http://late"));
    applier.kinds().add([proxies()]);
    until_proxy(&server, &mut rollout, Some("http://late")).await;
    rollout.cancel().await;
}

#[tokio::test]
async fn configuration_that_no_manifest_needs_is_not_read() {
    let server = Server::default();
    server.put(PROXY, proxy("http://one"));
    let applier = process_with(&server, vec![proxies()]).await;
    assert_eq!(apply_one(&applier, &manifest(&config("1"))).await, Applied::Created);
    assert!(!server.requests().iter().any(|r| r.contains("proxies")));
}

/// Requests that leave the cluster take the proxy that is injected into workloads.
#[tokio::test]
async fn proxy_is_told_as_a_whole_by_the_one_watch_of_it() {
    let server = Server::default();
    server.put(PROXY, proxy("http://one"));
    let applier = process_with(&server, vec![proxies()]).await;
    let mut told = applier.proxy();
    let address = |state: &ProxyState| match state {
        Some(Read::Value(object)) => object["status"]["httpProxy"].as_str().unwrap_or_default().to_owned(),
        Some(other) => format!("{other:?}"),
        None => String::new(),
    };
    let mut until = async |expected: &str| {
        let state = tokio::time::timeout(LIMIT, told.wait_for(|state| address(state) == expected)).await;
        assert!(state.is_ok(), "{expected} is not told");
    };
    until("http://one").await;
    let mut rollout = completed(&applier, &manifest(&operator()), Mode::Install).await;
    server.edit(PROXY, |live| live["status"]["httpProxy"] = json!("http://two"));
    until("http://two").await;
    server.remove(PROXY);
    until("Absent").await;
    let requests = server.requests();
    let watches = requests.iter().filter(|r| r.starts_with("WATCH") && r.contains("proxies"));
    assert_eq!(watches.count(), 1, "{requests:?}");
    rollout.cancel().await;

    let unserved = process(&server).await;
    let absent = |state: &ProxyState| *state == Some(Read::Absent);
    assert!(tokio::time::timeout(LIMIT, unserved.proxy().wait_for(absent)).await.is_ok(), "the kind is not served");
}
