//! The commands of an administrator where they may not read, where there is no daemon, and where there is no API server: none of
//! them says that all is well without having looked. And what `cvo collect` sends to whoever listens in the daemon's place.

use e2e::faults::proxy::{Proxy, serving};
use e2e::harness::{Cvo, machine::own_address};
use e2e::simulator::cluster::SimulatedCluster;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

const NAMESPACE: &str = cvo::testing::api::NAMESPACE;
const DEPLOYMENT: &str = "cluster-version-operator";

/// Commands that change nothing. `TO` is the folder of the release that runs, `IMAGE` its image, `FILE` a new file.
const TOOLS: [&[&str]; 11] = [
    &["overview"],
    &["status"],
    &["status", "--details"],
    &["history"],
    &["doctor"],
    &["plan", "--from", "cluster", "--to", "TO"],
    &["upgrade", "--to-latest", "--dry-run"],
    &["ack"],
    &["wait", "--timeout", "5s"],
    &["collect", "--to", "FILE"],
    &["verify", "IMAGE", "--from", "cluster"],
];

/// Exit code and all that was printed.
type Said = (i32, String);

struct Tools {
    folder: PathBuf,
    to: String,
    image: String,
}

impl Tools {
    async fn run(&self, tool: &[&str], kubeconfig: &Path) -> Said {
        let file = self.folder.join("collected.tar.zst");
        let word = |word: &&str| match *word {
            "TO" => self.to.clone(),
            "IMAGE" => self.image.clone(),
            "FILE" => file.display().to_string(),
            other => other.to_owned(),
        };
        let done = Cvo::new(tool.iter().map(word)).kubeconfig(kubeconfig).run().await.unwrap();
        let mut said = done.all();
        if tool[0] == "collect" && file.exists() {
            // What could not be read is told by what shows the file.
            said += &Cvo::new(["status"]).flag("--from", &file).run().await.unwrap().all();
            std::fs::remove_file(&file).unwrap();
        }
        (done.code.expect("it ends by itself"), said)
    }
}

fn first_line(said: &str) -> &str {
    said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default()
}

fn redirected(cluster: &SimulatedCluster, name: &str, change: impl Fn(&Path)) -> PathBuf {
    let path = cluster.control_plane.dir().join(name);
    std::fs::copy(cluster.control_plane.kubeconfig(), &path).unwrap();
    change(&path);
    path
}

/// Nobody listens at the address of the API server.
pub(super) fn to_nobody(path: &Path) {
    let mut config: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1".into();
    std::fs::write(path, config.to_string()).unwrap();
}

/// Of each tool and each kind that it asks for: what it does where that kind is forbidden.
async fn forbidden(tools: &Tools, proxy: &Proxy, kubeconfig: &Path) -> Vec<String> {
    let mut table = Vec::new();
    let mut silent = Vec::new();
    for tool in TOOLS {
        let name = tool.join(" ");
        drop(proxy.asked());
        let (code, said) = tools.run(tool, kubeconfig).await;
        table.push(format!("| {name} | all can be read | {code} | {} |", first_line(&said)));
        assert!(!said.contains("forbidden"), "{name}: {said}");
        let asked: Vec<String> = proxy.asked().into_iter().collect();
        assert!(!asked.is_empty(), "{name} asks for nothing");
        for resource in asked.iter().map(String::as_str).chain(["*"]) {
            proxy.forbid(Some(resource));
            let (code, said) = tools.run(tool, kubeconfig).await;
            proxy.forbid(None);
            let case = if resource == "*" { "all is forbidden" } else { resource };
            table.push(format!("| {name} | {case} | {code} | {} |", first_line(&said)));
            if !said.contains("forbidden") {
                silent.push(format!("{name} without {case}: {code}\n{said}"));
            }
            assert!(resource != "*" || code != 0, "{name}: {said}");
        }
    }
    println!("| command | case | exit code | first line |\n|---|---|---|---|\n{}", table.join("\n"));
    silent
}

#[tokio::test(flavor = "multi_thread")]
async fn tools_say_what_they_could_not_read() {
    let (mut cluster, releases) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let tools = Tools {
        folder: cluster.control_plane.dir().to_owned(),
        to: releases[0].folder.display().to_string(),
        image: releases[0].image.clone(),
    };
    let proxy = Proxy::start(&cluster.control_plane, 1).await.unwrap();
    let through = redirected(&cluster, "through.kubeconfig", |path| proxy.redirect(path).unwrap());
    let silent = forbidden(&tools, &proxy, &through).await;
    assert!(silent.is_empty(), "{} say nothing of it:\n{}", silent.len(), silent.join("\n\n"));

    let mut table = Vec::new();
    let nobody = redirected(&cluster, "nobody.kubeconfig", to_nobody);
    for tool in TOOLS {
        let (code, said) = tools.run(tool, &nobody).await;
        table.push(format!("| {} | no API server | {code} | {} |", tool.join(" "), first_line(&said)));
        assert!(code != 0 && said.contains("127.0.0.1:1"), "{tool:?}: {code} {said}");
    }

    cluster.stop_daemon().await.unwrap();
    let deployment = ["delete", "deployment", "-n", NAMESPACE, DEPLOYMENT];
    cluster.control_plane.kubectl(deployment).await.unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig();
    let named = format!("{NAMESPACE}/{DEPLOYMENT}");
    let names = |said: &str| said.contains(&named) && said.contains("does not exist");
    // For a while nobody leads wherever one process follows another.
    let told =
        async || Some(tools.run(&["status"], &kubeconfig).await.1).filter(|said| !names(said)).map_or(Ok(()), Err);
    cluster.wait("cvo status to say so").answer(told).await.unwrap();
    let mut without = BTreeMap::new();
    for tool in TOOLS {
        let (code, said) = tools.run(tool, &kubeconfig).await;
        table.push(format!("| {} | no daemon | {code} | {} |", tool.join(" "), first_line(&said)));
        without.insert(tool.join(" "), (code, said));
    }
    println!("{}", table.join("\n"));
    let (code, said) = &without["doctor"];
    assert_eq!(*code, 3, "{said}");
    for tool in ["doctor", "overview", "status", "plan --from cluster --to TO"] {
        let (_, said) = &without[tool];
        assert!(names(said), "{tool}: {said}");
    }
    cluster.close().await.unwrap();
}

/// The heads of the requests that were sent to an address, whatever the certificate is worth.
async fn listener(address: SocketAddr, pki: &Path) -> (u16, Arc<Mutex<Vec<String>>>) {
    let mut config = serving(pki).unwrap();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind(address).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heads = Arc::<Mutex<Vec<String>>>::default();
    let heard = heads.clone();
    tokio::spawn(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            let (acceptor, heard) = (acceptor.clone(), heard.clone());
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    let Ok(byte) = stream.read_u8().await else { return };
                    head.push(byte);
                }
                heard.lock().unwrap().push(String::from_utf8_lossy(&head).into_owned());
                let _gone =
                    stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").await;
            });
        }
    });
    (port, heads)
}

/// The status of an answer of the API server to whoever has this token.
async fn answers(cluster: &SimulatedCluster, token: &str) -> u16 {
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap();
    let url = format!("{}/api/v1/namespaces", cluster.control_plane.server());
    client.get(url).bearer_auth(token).send().await.unwrap().status().as_u16()
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_listens_in_the_place_of_the_daemon_is_given_no_token_of_the_api_server() {
    let Some(address) = own_address() else {
        return println!("skipped: this machine has no address but loopback ones");
    };
    let (cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let pki = cluster.control_plane.dir().join("pki");
    let (port, heads) = listener(SocketAddr::new(address, 0), &pki).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("{DEPLOYMENT}-planted"), "namespace": NAMESPACE},
        "spec": {"schedulerName": "nobody", "serviceAccountName": DEPLOYMENT, "containers": [{
            "name": "planted", "image": "registry.invalid/planted:1", "ports": [{"name": "metrics", "containerPort": port}],
        }]},
    });
    let file = cluster.control_plane.dir().join("planted.json");
    std::fs::write(&file, pod.to_string()).unwrap();
    let file = file.display().to_string();
    let kubectl = &cluster.control_plane;
    kubectl.kubectl(["apply", "-f", file.as_str()]).await.unwrap();
    let ip = address.to_string();
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
    let name = format!("{DEPLOYMENT}-planted");
    let patch =
        ["patch", "pod", "-n", NAMESPACE, name.as_str(), "--subresource=status", "--type=merge", "-p", status.as_str()];
    kubectl.kubectl(patch).await.unwrap();

    let to = cluster.control_plane.dir().join("collected.tar.zst");
    kubectl.cvo(["collect"]).flag("--to", &to).output().await.unwrap();
    let heads = heads.lock().unwrap().clone();
    println!("{}", heads.join("\n").split('.').next().unwrap_or_default());
    let bearer = |line: &str| line.split_once("Bearer ").map(|(_, token)| token.trim().to_owned());
    let tokens: Vec<String> = heads.iter().flat_map(|head| head.lines()).filter_map(bearer).collect();
    assert!(!tokens.is_empty(), "the listener was asked: {heads:?}");
    for token in &tokens {
        assert_eq!(answers(&cluster, token).await, 401, "the API server takes the token");
    }
    // One of its own is taken.
    let own = kubectl.kubectl(["create", "token", "-n", NAMESPACE, DEPLOYMENT]).await.unwrap();
    assert_eq!(answers(&cluster, own.trim()).await, 200);
    cluster.close().await.unwrap();
}
