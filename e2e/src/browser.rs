//! A real browser, Debian's chromium, driven over its own protocol: JSON messages that end in a zero byte, on two pipes.

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe::{self, Receiver, Sender};
use tokio::process::{Child, Command};
use tokio::time::{Instant, timeout};

/// For one answer of the browser.
const LIMIT: Duration = Duration::from_secs(60);

/// One browser with one tab.
#[derive(Debug)]
pub struct Browser {
    process: Child,
    requests: Sender,
    answers: BufReader<Receiver>,
    session: String,
    number: u64,
    /// Errors and refusals that pages have caused since [`Browser::take_errors`].
    errors: Vec<String>,
}

/// Whether there is one on this machine.
pub fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|program| program.is_file())
}

impl Browser {
    /// Starts it; its files are kept in `dir`.
    pub async fn start(program: &Path, dir: &Path) -> anyhow::Result<Browser> {
        std::fs::create_dir_all(dir)?;
        let (requests, answers) = (dir.join("requests"), dir.join("answers"));
        for fifo in [&requests, &answers] {
            rustix::fs::mknodat(
                rustix::fs::CWD,
                fifo,
                rustix::fs::FileType::Fifo,
                rustix::fs::Mode::from_raw_mode(0o600),
                0,
            )?;
        }
        let mut options = pipe::OpenOptions::new();
        // Opening one end alone would wait for the other.
        let (sender, receiver) = (options.read_write(true).open_sender(&requests)?, options.open_receiver(&answers)?);
        let process = Command::new("sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<\"$REQUESTS\" 4>\"$ANSWERS\""])
            .arg(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!("--user-data-dir={}", dir.join("profile").display()))
            .env("REQUESTS", &requests)
            .env("ANSWERS", &answers)
            .env("HOME", dir)
            .env_remove("http_proxy")
            .env_remove("https_proxy")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(dir.join("log"))?)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start the browser")?;
        let answers = BufReader::new(receiver);
        let (session, errors) = (String::new(), Vec::new());
        let mut browser = Browser { process, requests: sender, answers, session, number: 0, errors };
        let tab = browser.ask("Target.createTarget", json!({"url": "about:blank"})).await?;
        let attach = json!({"targetId": tab["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", attach).await?;
        browser.session = attached["sessionId"].as_str().context("no session")?.to_owned();
        for domain in ["Page", "Runtime", "Log", "Performance", "Network"] {
            browser.ask(&format!("{domain}.enable"), json!({})).await?;
        }
        Ok(browser)
    }

    /// Calls a method of the protocol.
    pub async fn ask(&mut self, method: &str, parameters: Value) -> anyhow::Result<Value> {
        self.number += 1;
        let mut message = json!({"id": self.number, "method": method, "params": parameters});
        if !self.session.is_empty() {
            message["sessionId"] = json!(self.session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.requests.write_all(&bytes).await?;
        let answer = timeout(LIMIT, self.answer()).await;
        let answer = answer.map_err(anyhow::Error::from).flatten().with_context(|| format!("no answer to {method}"))?;
        ensure!(answer["error"].is_null(), "{method}: {}", answer["error"]);
        Ok(answer["result"].clone())
    }

    /// The answer to the last call; the page's messages before it are noted.
    async fn answer(&mut self) -> anyhow::Result<Value> {
        loop {
            let message = self.read().await?;
            if message["id"] == self.number {
                return Ok(message);
            }
        }
    }

    async fn read(&mut self) -> anyhow::Result<Value> {
        let mut bytes = Vec::new();
        self.answers.read_until(0, &mut bytes).await?;
        bytes.pop();
        let message: Value = serde_json::from_slice(&bytes)?;
        match message["method"].as_str() {
            Some("Runtime.exceptionThrown") => {
                self.errors.push(message["params"]["exceptionDetails"].to_string());
            }
            Some("Log.entryAdded") if message["params"]["entry"]["level"] == "error" => {
                self.errors.push(message["params"]["entry"]["text"].to_string());
            }
            Some("Runtime.consoleAPICalled") => self.errors.push(message["params"]["args"].to_string()),
            _ => {}
        }
        Ok(message)
    }

    /// What went wrong in pages so far.
    pub fn take_errors(&mut self) -> Vec<String> {
        std::mem::take(&mut self.errors)
    }

    /// Opens an address, and waits until it has been loaded.
    pub async fn open(&mut self, url: &str) -> anyhow::Result<()> {
        let answer = self.ask("Page.navigate", json!({"url": url})).await?;
        if let Some(error) = answer["errorText"].as_str() {
            bail!("cannot open {url}: {error}");
        }
        self.until("document.readyState === 'complete'").await
    }

    /// The value of an expression in the page; a promise is awaited.
    pub async fn value(&mut self, expression: &str) -> anyhow::Result<Value> {
        let question = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.ask("Runtime.evaluate", question).await?;
        ensure!(answer["exceptionDetails"].is_null(), "{expression}: {}", answer["exceptionDetails"]);
        Ok(answer["result"]["value"].clone())
    }

    /// Waits until an expression is true. The page says when it has changed.
    pub async fn until(&mut self, expression: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        let wait = format!(
            "new Promise((done) => {{ const ok = () => {{ try {{ return Boolean({expression}); }} catch {{ return false; }} }}; \
             if (ok()) return done(true); \
             const observer = new MutationObserver(() => {{ if (ok()) {{ observer.disconnect(); done(true); }} }}); \
             observer.observe(document, {{childList: true, subtree: true, characterData: true, attributes: true}}); \
             setTimeout(() => {{ observer.disconnect(); done(ok()); }}, 5000); }})"
        );
        while begun.elapsed() < LIMIT {
            // Of a page that is replaced meanwhile, the promise is gone.
            if matches!(self.value(&wait).await, Ok(Value::Bool(true))) {
                return Ok(());
            }
        }
        let text = self.value("document.body?.innerText").await.unwrap_or_default();
        bail!("not so within {} s: {expression}; the page shows {text}", LIMIT.as_secs())
    }

    /// The size of the window in CSS pixels, and the colours that the reader prefers.
    pub async fn look(&mut self, width: u32, height: u32, dark: bool) -> anyhow::Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.ask("Emulation.setDeviceMetricsOverride", size).await?;
        let scheme = if dark { "dark" } else { "light" };
        let media = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        self.ask("Emulation.setEmulatedMedia", media).await?;
        self.ask("Emulation.setScrollbarsHidden", json!({"hidden": true})).await?;
        Ok(())
    }

    /// Presses a key, such as `Tab` or `Enter`.
    pub async fn press(&mut self, key: &str) -> anyhow::Result<()> {
        let code = if key == "Tab" { 9 } else { 13 };
        let text = if key == "Enter" { "\r" } else { "" };
        for kind in ["keyDown", "keyUp"] {
            let event = json!({"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code, "text": text});
            self.ask("Input.dispatchKeyEvent", event).await?;
        }
        Ok(())
    }

    /// A picture of the whole page.
    pub async fn picture(&mut self, file: &Path) -> anyhow::Result<()> {
        let answer =
            self.ask("Page.captureScreenshot", json!({"format": "png", "captureBeyondViewport": true})).await?;
        let bytes = BASE64_STANDARD.decode(answer["data"].as_str().unwrap_or_default())?;
        std::fs::write(file, bytes)?;
        Ok(())
    }

    /// Roles and names of what a screen reader finds, in its order.
    pub async fn accessible(&mut self) -> anyhow::Result<Vec<(String, String)>> {
        let tree = self.ask("Accessibility.getFullAXTree", json!({})).await?;
        let text = |node: &Value, key: &str| node[key]["value"].as_str().unwrap_or_default().to_owned();
        let nodes = tree["nodes"].as_array().context("no tree")?.iter();
        Ok(nodes.filter(|node| node["ignored"] != true).map(|node| (text(node, "role"), text(node, "name"))).collect())
    }

    /// A counter of the browser about the tab, such as `TaskDuration`, in its own unit.
    pub async fn metric(&mut self, name: &str) -> anyhow::Result<f64> {
        let metrics = self.ask("Performance.getMetrics", json!({})).await?;
        let mut all = metrics["metrics"].as_array().context("no metrics")?.iter();
        all.find(|it| it["name"] == name)
            .and_then(|it| it["value"].as_f64())
            .with_context(|| format!("no metric {name}"))
    }

    /// Ends it.
    pub async fn close(mut self) -> anyhow::Result<()> {
        self.process.kill().await?;
        Ok(())
    }
}
