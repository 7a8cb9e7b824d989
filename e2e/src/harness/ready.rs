//! Waiting for a condition while watching that the processes behind it still run.

use std::time::{Duration, Instant};

use super::{
    error::{HarnessError, Result},
    files,
    site::Site,
};

/// Asks again and again, quickly at first, until `probe` says yes. Ends early with the log's tail when one of
/// `processes` ended, and with all their tails when `limit` is over.
pub async fn until(
    what: &str,
    site: &Site,
    processes: &[&str],
    limit: Duration,
    mut probe: impl AsyncFnMut() -> bool,
) -> Result<()> {
    let begun = Instant::now();
    let mut pause = Duration::from_millis(20);
    loop {
        // One probe must not outlive the limit: a server under start may accept and never answer.
        if tokio::time::timeout(Duration::from_secs(5), probe()).await.unwrap_or(false) {
            return Ok(());
        }
        if let Some(dead) = processes.iter().find(|name| !site.runs(name)) {
            let tail = files::tail(&site.log(dead), 20);
            return Err(HarnessError::Died((*dead).to_owned(), what.to_owned(), tail));
        }
        if begun.elapsed() > limit {
            let tails: Vec<String> =
                processes.iter().map(|name| format!(" {name}:\n{}", files::tail(&site.log(name), 15))).collect();
            return Err(HarnessError::TimedOut(limit.as_secs(), what.to_owned(), tails.join("\n")));
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 5 / 4).min(Duration::from_millis(250));
    }
}
