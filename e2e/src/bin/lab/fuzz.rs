//! `lab fuzz`: a million changed inputs for everything that reads from outside. None may panic, break a property, take too
//! long or too much memory. Also says what an input costs at worst.
//!
//! Each input is determined by the seed and its number. Workers are separate processes, because what ends a whole
//! process (deep recursion, memory) can be seen only from outside; each writes the number of its current input to a
//! file.

mod catalogs;
mod corpus;
mod fixture;
mod mutate;
mod properties;
mod tally;
mod targets;
mod wire;

use anyhow::{Context, bail, ensure};
use clap::Args;
use e2e::random::SeededRandom;
use e2e::workspace;
use fixture::Fixture;
use properties::Verdict;
use rustix::process::{Resource, Rlimit, setrlimit};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tally::{Memory, Tally};
use targets::{TARGETS, Target};

/// Findings after which the run stops.
const ENOUGH: usize = 20;
/// Address space of a worker in bytes: the limit for one input, far above what any needs.
const MEMORY: u64 = 2 << 30;

/// Feed everything that reads from outside with changed inputs
#[derive(Args, Clone, Debug)]
pub(crate) struct Fuzz {
    /// How many inputs
    #[arg(value_name = "N", default_value_t = 1_000_000)]
    inputs: u64,
    /// Seed of the inputs; a different one each time when absent
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Only this reader
    #[arg(long, value_name = "TARGET", value_parser = TARGETS.map(|target| target.name))]
    only: Option<String>,
    /// Run the input with this number alone
    #[arg(long, value_name = "I", requires = "seed")]
    number: Option<u64>,
    /// Run this saved input alone
    #[arg(long, value_name = "FILE", requires = "only", conflicts_with = "number")]
    input: Option<PathBuf>,
    /// Where findings are saved, and the key that signatures are made with
    #[arg(long, value_name = "DIR", default_value_os_t = workspace::root().join("target/fuzz"))]
    save: PathBuf,
    /// An input that takes longer is a finding, and its process is killed
    #[arg(long, value_name = "SECONDS", default_value_t = 20)]
    limit: u64,
    /// Take every N-th input from the K-th on, for the process that started this one
    #[arg(long, value_name = "K/N", hide = true, value_parser = part)]
    part: Option<(u64, u64)>,
    /// Run the one input in this process, for the process that watches it
    #[arg(long, hide = true)]
    here: bool,
}

fn part(text: &str) -> Result<(u64, u64), String> {
    let (k, n) = text.split_once('/').ok_or("K/N is expected")?;
    let (k, n) = (k.parse().map_err(|e| format!("{e}"))?, n.parse().map_err(|e| format!("{e}"))?);
    if k < n { Ok((k, n)) } else { Err("K must be less than N".to_owned()) }
}

pub(crate) fn run(fuzz: &Fuzz) -> anyhow::Result<()> {
    // On a thread that is not one of a runtime, because some readers need one of their own. Its stack is as large as that of others.
    let ended = std::thread::scope(|scope| scope.spawn(|| begin(fuzz)).join());
    ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn begin(fuzz: &Fuzz) -> anyhow::Result<()> {
    if fuzz.part.is_none() && !fuzz.here && (fuzz.number.is_some() || fuzz.input.is_some()) {
        return alone(fuzz);
    }
    fs::create_dir_all(&fuzz.save).with_context(|| fuzz.save.display().to_string())?;
    let fixture = Fixture::read(&fuzz.save)?;
    let seed = fuzz.seed.unwrap_or_else(|| jiff::Timestamp::now().as_millisecond().unsigned_abs());
    let runner = Runner { fixture, seed, only: fuzz.only.clone(), save: fuzz.save.clone() };
    match (fuzz.part, fuzz.number, &fuzz.input) {
        (Some((first, step)), ..) => runner.work(first, step, fuzz.inputs),
        (_, Some(number), _) => runner.once(number),
        (_, _, Some(file)) => runner.saved(file),
        _ => supervise(fuzz, &runner),
    }
}

/// Makes inputs and runs them.
struct Runner {
    fixture: Fixture,
    seed: u64,
    only: Option<String>,
    save: PathBuf,
}

impl Runner {
    /// The target and the input with this number.
    fn make(&self, number: u64) -> Option<(usize, &'static Target, Vec<u8>)> {
        let random = SeededRandom::new(self.seed, number, 0);
        let mut left = random.below(TARGETS.iter().map(|target| target.weight).sum());
        let chosen = TARGETS.iter().enumerate().find(|(_, target)| match &self.only {
            Some(name) => target.name == name,
            None => match left.checked_sub(target.weight) {
                Some(rest) => {
                    left = rest;
                    false
                }
                None => true,
            },
        });
        chosen.map(|(position, target)| (position, target, target.input(&self.fixture, &random)))
    }

    /// A worker: every `step`-th input from `first` on.
    fn work(&self, first: u64, step: u64, inputs: u64) -> anyhow::Result<()> {
        limit_memory()?;
        let place = File::create(progress(&self.save, first))?;
        let tally = self.count((first..inputs).step_by(usize::try_from(step)?), |number| {
            place.write_all_at(&number.to_le_bytes(), 0).context("cannot write the number of the input")
        })?;
        // Not to a pipe, which holds less than many findings and is read only when the worker has ended.
        let file = results(&self.save, first);
        fs::write(&file, serde_json::to_string(&tally)?).with_context(|| file.display().to_string())
    }

    /// Runs inputs; `before` is called with the number of each.
    fn count(
        &self,
        numbers: impl Iterator<Item = u64>,
        before: impl Fn(u64) -> anyhow::Result<()>,
    ) -> anyhow::Result<Tally> {
        let panics = catch_messages();
        let mut tally = Tally::default();
        let mut memory = Memory::watch();
        for number in numbers {
            before(number)?;
            let Some((position, target, input)) = self.make(number) else { continue };
            memory.begin();
            let started = Instant::now();
            let verdict = guarded(&panics, || (target.run)(&self.fixture, &input));
            let took = started.elapsed();
            tally.count(position, number, took, memory.grown(), matches!(verdict, Ok(true)));
            if let Err(what) = verdict {
                tally.findings.push(self.finding(target, number, &input, &what)?);
                if tally.findings.len() == ENOUGH {
                    break;
                }
            }
        }
        tally.peak = memory.peak;
        Ok(tally)
    }

    /// Saves an input and says how to run it again.
    fn finding(&self, target: &Target, number: u64, input: &[u8], what: &str) -> anyhow::Result<String> {
        let file = self.save.join(format!("{}-{}-{number}", target.name.replace(' ', "-"), self.seed));
        fs::write(&file, input).with_context(|| file.display().to_string())?;
        let head: String = String::from_utf8_lossy(input).chars().take(400).collect();
        Ok(format!(
            "{}: {what}\n  seed {}, input {number}, {} bytes, in {}\n  again: hack/fuzz --only \"{}\" --input {}\n  {head:?}",
            target.name,
            self.seed,
            input.len(),
            file.display(),
            target.name,
            file.display()
        ))
    }

    fn once(&self, number: u64) -> anyhow::Result<()> {
        let (_, target, input) = self.make(number).context("no target")?;
        println!("{}, {} bytes", target.name, input.len());
        self.run(target, &input)
    }

    fn saved(&self, file: &Path) -> anyhow::Result<()> {
        let input = fs::read(file).with_context(|| file.display().to_string())?;
        let target = TARGETS.iter().find(|target| Some(target.name) == self.only.as_deref()).context("no target")?;
        self.run(target, &input)
    }

    /// One input as a worker runs it. An error is a finding.
    fn run(&self, target: &Target, input: &[u8]) -> anyhow::Result<()> {
        limit_memory()?;
        match guarded(&catch_messages(), || (target.run)(&self.fixture, input)) {
            Ok(useful) => println!("{}", if useful { "read" } else { "refused" }),
            Err(what) => bail!("{what}"),
        }
        Ok(())
    }
}

/// Holds this process to [`MEMORY`].
fn limit_memory() -> anyhow::Result<()> {
    let limit = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    setrlimit(Resource::As, limit).context("cannot limit the memory")
}

/// Runs the one input in a separate process, which it may hang or kill.
fn alone(fuzz: &Fuzz) -> anyhow::Result<()> {
    if let Some(file) = &fuzz.input {
        File::open(file).with_context(|| file.display().to_string())?;
    }
    let mut again = Command::new(std::env::current_exe()?);
    again.args(std::env::args_os().skip(1)).arg("--here").stdin(Stdio::null());
    within(again, Duration::from_secs(fuzz.limit))
}

/// An error if the process does not succeed within `limit`.
fn within(mut command: Command, limit: Duration) -> anyhow::Result<()> {
    let started = Instant::now();
    let mut process = command.spawn().context("cannot start the process that runs the input")?;
    loop {
        match process.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => bail!("a finding: the process ended with {status}"),
            None if started.elapsed() > limit => {
                process.kill()?;
                process.wait()?;
                bail!("a finding: not done after {} s", limit.as_secs())
            }
            None => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// The file in which a worker writes the number of its current input: eight bytes, little-endian.
fn progress(save: &Path, worker: u64) -> PathBuf {
    save.join(format!("worker-{worker}"))
}

/// The tally of a worker that is done.
fn results(save: &Path, worker: u64) -> PathBuf {
    save.join(format!("worker-{worker}.json"))
}

/// Collects the messages of panics for the finding, instead of printing them.
fn catch_messages() -> Arc<Mutex<String>> {
    let said = Arc::new(Mutex::new(String::new()));
    let hook = said.clone();
    std::panic::set_hook(Box::new(move |panic| {
        *hook.lock().unwrap_or_else(PoisonError::into_inner) = panic.to_string();
    }));
    said
}

/// A panic is a finding, also one of another thread or of a task that nobody waits for.
fn guarded(said: &Mutex<String>, run: impl FnOnce() -> Verdict) -> Verdict {
    let verdict = catch_unwind(AssertUnwindSafe(run));
    let panic = std::mem::take(&mut *said.lock().unwrap_or_else(PoisonError::into_inner));
    match verdict {
        Ok(verdict) if panic.is_empty() => verdict,
        _ => Err(panic),
    }
}

/// A worker process and the input at which it was last seen.
struct Worker {
    number: u64,
    process: Child,
    at: Option<u64>,
    since: Instant,
}

/// Starts the workers, watches them and adds up their results.
fn supervise(fuzz: &Fuzz, runner: &Runner) -> anyhow::Result<()> {
    let started = Instant::now();
    let workers = u64::try_from(std::thread::available_parallelism().map_or(1, usize::from))?;
    println!("seed {}, {} inputs, {workers} processes", runner.seed, fuzz.inputs);
    let mut running: Vec<Worker> = (0..workers).map(|k| start(fuzz, runner, k, workers)).collect::<Result<_, _>>()?;
    let limit = Duration::from_secs(fuzz.limit);
    let mut whole = Tally::default();
    while !running.is_empty() && whole.findings.len() < ENOUGH {
        std::thread::sleep(Duration::from_millis(100));
        let mut left = Vec::new();
        for mut worker in running {
            match watch(&mut worker, runner, limit) {
                Ok(None) => left.push(worker),
                Ok(Some(tally)) => whole.add(tally),
                Err(what) => whole.findings.push(format!("{what:#}")),
            }
        }
        running = left;
    }
    for mut worker in running {
        worker.process.kill()?;
        worker.process.wait()?;
    }
    print!("{}", whole.table(started.elapsed(), workers));
    for finding in &whole.findings {
        println!("\n{finding}");
    }
    ensure!(whole.findings.is_empty(), "{} findings, see above", whole.findings.len());
    let counted = whole.inputs();
    ensure!(counted == fuzz.inputs, "only {counted} of {} inputs were run", fuzz.inputs);
    Ok(())
}

fn start(fuzz: &Fuzz, runner: &Runner, number: u64, workers: u64) -> anyhow::Result<Worker> {
    // The file of an earlier worker would be read as progress of this one.
    let _ = fs::remove_file(progress(&fuzz.save, number));
    let _ = fs::remove_file(results(&fuzz.save, number));
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["fuzz", &fuzz.inputs.to_string(), "--seed", &runner.seed.to_string()]);
    command.args(["--part", &format!("{number}/{workers}"), "--save"]).arg(&fuzz.save);
    if let Some(only) = &fuzz.only {
        command.args(["--only", only]);
    }
    let process = command.stdin(Stdio::null()).spawn().context("cannot start a worker")?;
    Ok(Worker { number, process, at: None, since: Instant::now() })
}

/// The worker's tally when it is done. An error is a finding: an input ended the worker, or it hangs.
fn watch(worker: &mut Worker, runner: &Runner, limit: Duration) -> anyhow::Result<Option<Tally>> {
    let at = fs::read(progress(&runner.save, worker.number)).ok();
    let at = at.and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    if at != worker.at {
        (worker.at, worker.since) = (at, Instant::now());
    }
    let culprit = |what: &str| -> anyhow::Error {
        let made = at.and_then(|number| Some((number, runner.make(number)?)));
        let Some((number, (_, target, input))) = made else { return anyhow::anyhow!("{what} before the first input") };
        runner.finding(target, number, &input, what).map_or_else(|e| e, anyhow::Error::msg)
    };
    match worker.process.try_wait()? {
        Some(status) if status.success() => {
            let file = results(&runner.save, worker.number);
            let text = fs::read_to_string(&file).with_context(|| file.display().to_string())?;
            Ok(Some(serde_json::from_str(&text)?))
        }
        Some(status) => Err(culprit(&format!("the process ended with {status}"))),
        None if worker.since.elapsed() > limit => {
            worker.process.kill()?;
            worker.process.wait()?;
            Err(culprit(&format!("not done after {} s", limit.as_secs())))
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Saves to a new folder for `test`.
    fn runner(test: &str) -> Runner {
        let save = std::env::temp_dir().join(format!("cvo-fuzz-{test}-{}", std::process::id()));
        fs::create_dir_all(&save).unwrap();
        Runner { fixture: Fixture::read(&save).unwrap(), seed: 1, only: None, save }
    }

    impl Drop for Runner {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.save);
        }
    }

    /// A short run of what hack/fuzz does with many more inputs.
    #[test]
    fn changed_inputs_break_no_property() {
        const INPUTS: u64 = 20_000;
        let runner = runner("properties");
        let started = Instant::now();
        let tally = runner.count(0..INPUTS, |_| Ok(())).unwrap();
        let _hook = std::panic::take_hook();
        println!("{}", tally.table(started.elapsed(), 1));
        assert!(tally.findings.is_empty(), "{}", tally.findings.join("\n"));
        assert_eq!(tally.inputs(), INPUTS);
        tally.assert_each_target_was_tested();
        assert!(tally.slowest() < Duration::from_secs(20), "an input took {:?}", tally.slowest());
    }

    #[test]
    fn input_is_determined_by_its_number() {
        let (one, again) = (runner("number"), runner("number"));
        let mut different = 0;
        for number in 0..200 {
            let ((position, _, input), (other, _, same)) = (one.make(number).unwrap(), again.make(number).unwrap());
            assert!(position == other && input == same, "{number}");
            different += usize::from(one.make(number + 1).unwrap().2 != input);
        }
        assert_eq!(different, 200);
    }

    #[test]
    fn input_that_hangs_or_kills_is_a_finding() {
        const LONG: Duration = Duration::from_secs(60);
        let shell = |script: &str, limit: Duration| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            within(command, limit).map_err(|error| error.to_string())
        };
        assert_eq!(shell("exit 0", LONG), Ok(()));
        assert!(shell("exit 1", LONG).unwrap_err().contains("exit status: 1"));
        assert!(shell("kill -ABRT $$", LONG).unwrap_err().contains("signal: 6"));
        let begun = Instant::now();
        assert!(shell("exec sleep 300", Duration::from_millis(200)).unwrap_err().contains("not done"));
        assert!(begun.elapsed() < LONG);
    }

    #[test]
    fn panic_is_a_finding_and_findings_are_saved() {
        let panics = catch_messages();
        let verdict = guarded(&panics, || panic!("of this input"));
        let of_thread = guarded(&panics, || {
            let _ended = std::thread::spawn(|| panic!("of a thread")).join();
            Ok(true)
        });
        let after = guarded(&panics, || Ok(true));
        let _hook = std::panic::take_hook();
        assert!(verdict.unwrap_err().contains("of this input"));
        assert!(of_thread.unwrap_err().contains("of a thread"));
        assert_eq!(after, Ok(true));
        let runner = runner("finding");
        let text = runner.finding(&TARGETS[0], 7, b"a: b", "bad").unwrap();
        assert!(text.contains("seed 1, input 7") && text.contains("\"a: b\""), "{text}");
        assert_eq!(fs::read(runner.save.join("yaml-1-7")).unwrap(), b"a: b");
    }
}
