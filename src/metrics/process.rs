//! What each process shows of itself: its requests to the API server, and what it needs of its machine.

use super::encoder::{Text, count};
use std::collections::BTreeMap;

/// What is read of the own process. What cannot be read is `None`.
#[derive(Clone, Debug, Default)]
pub(crate) struct ProcessFigures {
    pub cpu_seconds: Option<f64>,
    pub resident_bytes: Option<f64>,
    pub virtual_bytes: Option<f64>,
    pub started: Option<f64>,
    pub open_files: Option<f64>,
    pub max_open_files: Option<f64>,
    pub threads: Option<f64>,
}

/// `requests` by verb and status code.
pub(crate) fn requests(text: &mut Text, name: &str, requests: &BTreeMap<(&'static str, String), u64>) {
    let help = "Requests to the API server by verb (get includes lists) and status code, error without an answer.";
    text.counter(name, help, |samples| {
        for ((verb, code), number) in requests {
            samples.add(&[("verb", verb), ("code", code)], count(*number));
        }
    });
}

pub(crate) fn write(text: &mut Text, process: &ProcessFigures) {
    let cpu = "Processor time of the process in user and system mode.";
    text.counter("process_cpu_seconds_total", cpu, |samples| {
        process.cpu_seconds.iter().for_each(|value| samples.add(&[], *value));
    });
    let gauges = [
        ("process_resident_memory_bytes", "Memory of the process in RAM.", process.resident_bytes),
        ("process_virtual_memory_bytes", "Address space of the process.", process.virtual_bytes),
        ("process_start_time_seconds", "Start of the process, in seconds since the epoch.", process.started),
        ("process_open_fds", "Open file descriptors.", process.open_files),
        ("process_max_fds", "Most file descriptors that may be open.", process.max_open_files),
        ("process_threads", "Threads of the process.", process.threads),
    ];
    for (name, help, value) in gauges {
        text.gauge(name, help, |samples| value.iter().for_each(|value| samples.add(&[], *value)));
    }
}
