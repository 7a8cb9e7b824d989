//! A rollout whose attempts a test ends, and what it does after each event, in a short notation.

use super::*;

/// `apply 0`, `gate 0 after 500ms until namespace ns`, `repair 0`, ...
pub(super) fn text(command: &Command) -> String {
    match command {
        Command::CreatePrerequisite(position) => format!("prerequisite {position}"),
        Command::Precreate { position, .. } => format!("precreate {position}"),
        Command::ServeKinds(position) => format!("serve {position}"),
        Command::HandOverTimer { after, .. } => format!("timer {after:?}"),
        Command::Reconcile(Reconcile { position, purpose, contested, delay, .. }) => {
            let purpose = match purpose {
                Purpose::Apply { .. } => "apply",
                Purpose::Ahead { .. } => "ahead",
                Purpose::Gate { .. } => "gate",
                Purpose::Repair => "repair",
                Purpose::Configuration => "configure",
            };
            let after = if delay.pause.is_zero() { String::new() } else { format!(" after {:?}", delay.pause) };
            let until = match &delay.until {
                Wake::Timeout => String::new(),
                Wake::NamespaceChanged(name) => format!(" until namespace {name}"),
                Wake::ObjectChanged => " until changed".into(),
                Wake::ObjectDeleted => " or deleted".into(),
                Wake::ServerReady => " or ready".into(),
                Wake::AnyChanged(positions) => format!(" until {positions:?}"),
                Wake::KindServed { refresh: false } => " until served".into(),
                Wake::KindServed { refresh: true } => " until served or refreshed".into(),
                Wake::Refresh => " then refreshed".into(),
            };
            let contested = if *contested { " contested" } else { "" };
            format!("{purpose} {position}{contested}{after}{until}")
        }
    }
}

/// A rollout with the commands that are under way.
pub(super) struct Run {
    pub rollout: Rollout,
    pub running: Vec<Command>,
    pub now: i64,
}

impl Run {
    pub(super) fn start(plan: Plan) -> (Run, String) {
        Run::resume(plan, Clocks::default())
    }

    pub(super) fn resume(plan: Plan, clocks: Clocks) -> (Run, String) {
        let (rollout, commands) = Rollout::start(plan, clocks, at(0));
        let mut run = Run { rollout, running: Vec::new(), now: 0 };
        let texts = run.begin(commands);
        (run, texts)
    }

    pub(super) fn begin(&mut self, commands: Vec<Command>) -> String {
        let texts: Vec<String> = commands.iter().map(text).collect();
        self.running.extend(commands);
        texts.join(", ")
    }

    pub(super) fn on(&mut self, event: Event) -> String {
        let commands = self.rollout.on(event, at(self.now));
        self.begin(commands)
    }

    /// Ends the attempt at this position.
    pub(super) fn ends(&mut self, position: usize, outcome: Outcome) -> String {
        let is = |command: &Command| matches!(command, Command::Reconcile(r) if r.position == position);
        let index = self.running.iter().position(is).expect("an attempt is under way");
        let Command::Reconcile(request) = self.running.remove(index) else { unreachable!() };
        self.on(Event::Reconciled(request, Box::new(outcome)))
    }

    pub(super) fn view(&mut self) -> View {
        self.rollout.view(at(self.now))
    }

    pub(super) fn node(&self, node: usize) -> NodeState {
        self.rollout.nodes[node].state
    }
}

pub(super) fn update(files: &[(&str, &str)]) -> (Run, String) {
    start(files, Mode::Update)
}

pub(super) fn start(files: &[(&str, &str)], mode: Mode) -> (Run, String) {
    let manifests = files.iter().map(|(file, kind)| object(file, kind, &file.replace(['_', '.'], "-"))).collect();
    Run::start(plan(manifests, mode))
}

/// What ends the pause after a failure of a widget.
pub(super) fn causes() -> [(Cause, &'static str); 6] {
    [
        (Cause::Other, " or deleted"),
        (Cause::NoAnswer, " or ready"),
        (Cause::Terminating, " until changed"),
        (Cause::NamespaceMissing("ns".into()), " until namespace ns"),
        // No definition of the release brings the kind, so the server is asked at once.
        (Cause::KindNotServed, " until served or refreshed"),
        (Cause::KindGone, " then refreshed"),
    ]
}
