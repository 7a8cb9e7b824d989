//! Who asks for updates: a real `oc`, this test, which sends the requests that `oc` sends, or `cvo upgrade` and its likes, which have to
//! send the same.

use std::path::{Path, PathBuf};

use kube::Client;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::{Cluster, Cvo};

/// Where `oc` reads and changes the ClusterVersion: the object itself, at a fixed place, without discovery.
pub const VERSION: &str = "/apis/config.openshift.io/v1/clusterversions/version";
const ACCEPT: &str = "application/json, */*";
const MERGE_PATCH: &str = "application/merge-patch+json";
/// Lines of an answer that are printed for the record.
const PRINTED: usize = 40;

/// The real `oc`, if there is one.
pub fn program() -> Option<PathBuf> {
    let program = std::env::var_os("OC").filter(|value| !value.is_empty()).map(PathBuf::from);
    if program.is_none() {
        println!("skipped: no oc (set OC to the path of the binary)");
    }
    program
}

pub enum Administrator {
    Oc {
        program: PathBuf,
        kubeconfig: PathBuf,
        home: PathBuf,
    },
    Ours(Client),
    /// `cvo`, where it has the command.
    Cvo {
        client: Client,
        kubeconfig: PathBuf,
    },
}

/// A request on the wire.
#[derive(Debug, PartialEq)]
struct Sent {
    verb: String,
    path: String,
    accept: String,
    content_type: String,
    body: Value,
}

/// What `oc` printed and sent.
#[derive(Debug)]
struct Said {
    code: Option<i32>,
    /// Standard output, and then what is no log on standard error.
    text: String,
    sent: Vec<Sent>,
}

/// A command line of `oc` and what comes of it.
#[derive(Debug)]
pub struct CommandLine<'a> {
    line: &'a str,
    patch: Option<Value>,
    fails: bool,
    says: &'a [&'a str],
    omits: &'a [&'a str],
}

/// `oc` with these arguments, separated by spaces. It succeeds, says anything, and writes nothing.
pub fn oc(line: &str) -> CommandLine<'_> {
    CommandLine { line, patch: None, fails: false, says: &[], omits: &[] }
}

impl<'a> CommandLine<'a> {
    /// It merges this into the ClusterVersion.
    pub fn sends(self, patch: Value) -> Self {
        Self { patch: Some(patch), ..self }
    }

    /// It asks for this update, with all fields that `oc` always sends.
    pub fn asks(self, version: &str, image: &str) -> Self {
        self.asks_by(version, image, false)
    }

    pub fn asks_by(self, version: &str, image: &str, force: bool) -> Self {
        let update = json!({"architecture": "", "version": version, "image": image, "force": force});
        self.sends(json!({"spec": {"desiredUpdate": update}}))
    }

    pub fn fails(self) -> Self {
        Self { fails: true, ..self }
    }

    pub fn says(self, says: &'a [&'a str]) -> Self {
        Self { says, ..self }
    }

    pub fn omits(self, omits: &'a [&'a str]) -> Self {
        Self { omits, ..self }
    }
}

impl Administrator {
    pub fn oc(program: PathBuf, cluster: &Cluster) -> Self {
        Self::Oc { program, kubeconfig: cluster.kubeconfig(), home: cluster.dir() }
    }

    /// Does it; what a real `oc` sends and says must be as expected.
    pub async fn run(&self, command: CommandLine<'_>) {
        match self {
            Self::Ours(client) => {
                if let Some(patch) = &command.patch {
                    send(client, patch).await;
                }
            }
            Self::Cvo { client, kubeconfig } => match as_cvo(command.line) {
                Some(line) => by_cvo(&line, kubeconfig, &command).await,
                None => {
                    if let Some(patch) = &command.patch {
                        send(client, patch).await;
                    }
                }
            },
            Self::Oc { .. } => {
                let said = self.oc_says(command.line).await;
                println!("$ oc {}\n{}", command.line, indented(&said.text));
                said.check(&command);
            }
        }
    }

    /// `cvo wait` ends with this code.
    pub async fn waits_for(&self, version: &str, code: i32) {
        let Self::Cvo { kubeconfig, .. } = self else { panic!("only cvo waits") };
        let wait = Cvo::new(["wait", "--to", version, "--timeout", "3s"]).kubeconfig(kubeconfig);
        let said = wait.run().await.unwrap();
        assert_eq!(said.code, Some(code), "{version}: {}", said.stderr);
    }

    async fn oc_says(&self, line: &str) -> Said {
        let Self::Oc { program, kubeconfig, home } = self else { panic!("there is no oc") };
        let mut command = Command::new(program);
        command.env_clear().env("HOME", home).env("KUBECONFIG", kubeconfig).env("PATH", "/usr/bin:/bin");
        for gate in ["ACCEPT_RISKS", "ROLLBACK"] {
            command.env(format!("OC_ENABLE_CMD_UPGRADE_{gate}"), "true");
        }
        // At this level it logs every request with its body, and commands on images whole images.
        let level = if line.starts_with("adm release") { None } else { Some("-v=8") };
        command.args(line.split_whitespace()).args(level).kill_on_drop(true);
        let output = command.output().await.unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let (log, errors) = split(&errors);
        let text = format!("{}{errors}", String::from_utf8_lossy(&output.stdout));
        Said { code: output.status.code(), text, sent: requests(&log) }
    }
}

/// The line of `cvo` that means the same; `None` if there is none, since `cvo status` shows what is shown.
fn as_cvo(line: &str) -> Option<String> {
    let rest = line.strip_prefix("adm upgrade")?.trim();
    match rest.split_whitespace().next()? {
        "rollback" | "channel" => Some(rest.to_owned()),
        flag if flag.starts_with("--") && flag != "--include-not-recommended" => Some(format!("upgrade {rest}")),
        _ => None,
    }
}

/// It ends as `oc` would, and sends the same patch.
async fn by_cvo(line: &str, kubeconfig: &Path, command: &CommandLine<'_>) {
    let said = Cvo::new(line.split_whitespace()).args(["-o", "json"]).kubeconfig(kubeconfig).run().await.unwrap();
    println!("$ cvo {line}\n{}", indented(&said.all()));
    let errors = &said.stderr;
    assert_eq!(said.code, Some(i32::from(command.fails)), "exit code of cvo {line}: {errors}");
    let object: Value = said.json().unwrap_or_default();
    assert_eq!(object["patch"], json!(command.patch), "what cvo {line} sends");
    let quiet = !command.fails && object["warnings"].as_array().is_none_or(Vec::is_empty);
    assert_eq!(errors.is_empty(), quiet, "{errors}");
}

impl Said {
    fn check(&self, command: &CommandLine<'_>) {
        let line = command.line;
        assert_eq!(self.code, Some(i32::from(command.fails)), "exit code of oc {line}: {}", self.text);
        let text = collapsed(&self.text);
        for words in command.says {
            assert!(text.contains(&collapsed(words)), "oc {line} does not say {words:?}:\n{}", self.text);
        }
        for words in command.omits {
            assert!(!text.contains(&collapsed(words)), "oc {line} says {words:?}:\n{}", self.text);
        }
        let writes: Vec<&Sent> = self.sent.iter().filter(|request| request.verb != "GET").collect();
        let expected: Vec<Sent> = command.patch.iter().map(as_oc).collect();
        assert_eq!(writes, expected.iter().collect::<Vec<_>>(), "requests of oc {line}");
    }
}

fn as_oc(patch: &Value) -> Sent {
    Sent {
        verb: "PATCH".to_owned(),
        path: VERSION.to_owned(),
        accept: ACCEPT.to_owned(),
        content_type: MERGE_PATCH.to_owned(),
        body: patch.clone(),
    }
}

/// Sends what `oc` would send: no field manager, no resource version, not to the status.
async fn send(client: &Client, patch: &Value) {
    let Sent { verb, path, accept, content_type, body } = as_oc(patch);
    let request = http::Request::builder().method(verb.as_str()).uri(path);
    let request = request.header("Accept", accept).header("Content-Type", content_type);
    let request = request.header("User-Agent", "oc/v0.0.0 (linux/amd64) kubernetes/$Format");
    client.request::<Value>(request.body(body.to_string().into_bytes()).unwrap()).await.unwrap();
}

/// Columns can be of any width.
fn collapsed(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first lines of it: some commands print whole manifests.
fn indented(text: &str) -> String {
    text.lines().take(PRINTED).map(|line| format!("    {line}\n")).collect()
}

/// The lines of the log, and the others. An entry of the log can go on until a line with `>`.
fn split(errors: &str) -> (Vec<&str>, String) {
    let (mut log, mut others, mut inside) = (Vec::new(), String::new(), false);
    for line in errors.lines() {
        let mut letters = line.chars();
        let begins = letters.next().is_some_and(|c| "IWEF".contains(c))
            && letters.by_ref().take(4).all(|c| c.is_ascii_digit())
            && letters.next() == Some(' ');
        if begins || inside {
            log.push(line);
            inside = if begins { line.ends_with('<') } else { !line.starts_with(" >") };
        } else {
            others.push_str(line);
            others.push('\n');
        }
    }
    (log, others)
}

/// The requests in a log of level 8: the body comes before the request, and its headers after it.
fn requests(log: &[&str]) -> Vec<Sent> {
    let mut sent: Vec<Sent> = Vec::new();
    let mut body = Value::Null;
    for line in log {
        if let Some((_, quoted)) = line.split_once("\"Request Body\" body=") {
            let text: String = serde_json::from_str(quoted).unwrap();
            body = serde_json::from_str(&text).unwrap_or_default();
        } else if let Some((_, rest)) = line.split_once("\"Request\" verb=\"") {
            let words: Vec<&str> = rest.split('"').collect();
            let url: http::Uri = words[2].parse().unwrap();
            let path = url.path_and_query().unwrap().to_string();
            let (accept, content_type) = (String::new(), String::new());
            sent.push(Sent { verb: words[0].to_owned(), path, accept, content_type, body: body.take() });
        } else if let (Some(last), Some((name, value))) = (sent.last_mut(), line.trim().split_once(": ")) {
            match name {
                "Accept" => last.accept = value.to_owned(),
                // Of the request: that of the response comes later.
                "Content-Type" if last.content_type.is_empty() => last.content_type = value.to_owned(),
                _ => {}
            }
        }
    }
    sent
}
