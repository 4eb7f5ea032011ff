//! The fuzzing loop: inputs of the corpus are mutated, run, and checked; those with a new outcome join the corpus.

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{self, AssertUnwindSafe};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use crate::mutate::{self, Style};
use crate::random::Random;
use crate::watch::Watch;

/// Maximum size of an input; longer ones are truncated.
const MAX_INPUT: usize = 64 * 1024;
/// Maximum number of inputs in the corpus.
const MAX_CORPUS: usize = 1000;
/// Number of findings after which a target counts as broken.
const MAX_FINDINGS: usize = 5;
/// Number of brackets above which an input is saved to a file while it runs.
const MANY_BRACKETS: usize = 300;
/// Stack size of production threads.
const STACK: usize = 2 * 1024 * 1024;

/// A component that handles external input.
pub(crate) struct Target {
    /// Name on the command line.
    pub(crate) name: &'static str,
    /// Mutations that suit the inputs.
    pub(crate) style: Style,
    /// Valid initial inputs.
    pub(crate) corpus: fn() -> Vec<Vec<u8>>,
    /// Runs one input, with a random generator derived from it.
    pub(crate) run: fn(&[u8], &mut Random) -> Verdict,
}

/// Result of an input: a short description of the outcome, or the problem in the code.
pub(crate) type Verdict = Result<String, String>;

/// Extent of the fuzzing.
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) time: Duration,
}

thread_local! {
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Stores the message of a panic instead of printing it.
pub(crate) fn quiet_panics() {
    panic::set_hook(Box::new(|info| PANIC.with(|cell| *cell.borrow_mut() = Some(info.to_string()))));
}

/// Runs one input; returns the number of findings.
pub(crate) fn replay(target: &Target, input: &[u8]) -> usize {
    match evaluate(target, input) {
        Ok(outcome) => {
            println!("{}: {outcome}", target.name);
            0
        }
        Err(what) => {
            println!("{}: FOUND {what}", target.name);
            1
        }
    }
}

/// Fuzzes a target; returns the number of findings.
pub(crate) fn fuzz(target: &'static Target, plan: &Plan) -> Result<usize, String> {
    let (seed, time) = (plan.seed, plan.time);
    let work = move || Session::new(target, seed)?.run(time);
    let thread = std::thread::Builder::new().name(target.name.to_owned()).stack_size(STACK).spawn(work);
    let thread = thread.map_err(|error| format!("no thread for `{}`: {error}", target.name))?;
    thread.join().map_err(|_| format!("the fuzzer itself panicked on `{}`", target.name))?
}

fn evaluate(target: &Target, input: &[u8]) -> Verdict {
    let run = || (target.run)(input, &mut Random::from_bytes(input));
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| {
        let panic_message = PANIC.with(|cell| cell.borrow_mut().take());
        Err(panic_message.unwrap_or_else(|| "a panic without a message".to_owned()))
    })
}

struct Session {
    target: &'static Target,
    seed: u64,
    random: Random,
    corpus: Vec<Vec<u8>>,
    outcomes: HashSet<String>,
    found: HashSet<String>,
    dir: PathBuf,
    watch: Watch,
}

impl Session {
    fn new(target: &'static Target, seed: u64) -> Result<Self, String> {
        let dir = PathBuf::from("target").join("fuzz").join(target.name);
        std::fs::create_dir_all(&dir).map_err(|error| format!("{}: {error}", dir.display()))?;
        let watch = Watch::start(target.name, dir.join("stuck"));
        Ok(Self {
            target,
            seed,
            random: Random::seeded(seed),
            corpus: Vec::new(),
            outcomes: HashSet::new(),
            found: HashSet::new(),
            dir,
            watch,
        })
    }

    fn run(mut self, time: Duration) -> Result<usize, String> {
        let start = Instant::now();
        let mut iteration: u64 = 0;
        for input in (self.target.corpus)() {
            self.take(input, iteration)?;
        }
        if self.corpus.is_empty() {
            return Err(format!("`{}` has no initial inputs", self.target.name));
        }
        while start.elapsed() < time && self.found.len() < MAX_FINDINGS {
            iteration += 1;
            let input = self.next_input();
            self.take(input, iteration)?;
        }
        let (name, corpus_size, found) = (self.target.name, self.corpus.len(), self.found.len());
        println!(
            "{name:<12} {iteration:>9} inputs, {corpus_size:>4} kept, {found} findings (seed {})",
            self.seed
        );
        Ok(found)
    }

    fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.random.pick(&self.corpus).cloned().unwrap_or_default();
        for _ in 0..=self.random.below(4) {
            let other = self.corpus.get(self.random.below(self.corpus.len())).map_or(&[][..], Vec::as_slice);
            mutate::mutate(&mut input, other, self.target.style, &mut self.random);
        }
        input.truncate(MAX_INPUT);
        input
    }

    /// Runs an input; adds it to the corpus if the outcome is new, and reports it if it is a finding.
    fn take(&mut self, input: Vec<u8>, iteration: u64) -> Result<(), String> {
        let running = self.dir.join("running");
        let is_deep = input.iter().filter(|byte| matches!(byte, b'[' | b'{')).count() > MANY_BRACKETS;
        if is_deep {
            std::fs::write(&running, &input).map_err(|error| format!("{}: {error}", running.display()))?;
        }
        self.watch.begin(&input);
        let verdict = evaluate(self.target, &input);
        self.watch.end();
        if is_deep {
            std::fs::remove_file(&running).map_err(|error| format!("{}: {error}", running.display()))?;
        }
        match verdict {
            Ok(outcome) => {
                let is_new = self.outcomes.insert(outcome);
                if iteration == 0 || (is_new && self.corpus.len() < MAX_CORPUS) {
                    self.corpus.push(input);
                }
                Ok(())
            }
            Err(what) => self.report(&what, &input, iteration),
        }
    }

    fn report(&mut self, what: &str, input: &[u8], iteration: u64) -> Result<(), String> {
        // One bug appears with many inputs; the first words of the message distinguish bugs.
        if !self.found.insert(what.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()) {
            return Ok(());
        }
        let path = self.dir.join(format!("finding-{}-{iteration}", self.seed));
        std::fs::write(&path, input).map_err(|error| format!("{}: {error}", path.display()))?;
        let what: String = what.chars().take(2000).collect();
        let (name, seed, path) = (self.target.name, self.seed, path.display());
        println!("{name}: FOUND at seed {seed}, iteration {iteration}: {what}");
        println!("  cargo xtask fuzz {name} --input {path}");
        Ok(())
    }
}
