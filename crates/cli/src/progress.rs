//! How far the work is and how long the rest may take, on stderr: a bar on a terminal, a few lines elsewhere,
//! and nothing with `--quiet`.
//!
//! 1. Elsewhere at most one line is written per tenth of the work, beside one per step of a run.
//! 2. Dropping the last clone leaves the line of the bar empty.

use crate::Context;
use crate::interrupt::Interrupt;
use crate::meter::{MeterReport, RaplRun};
use crate::output;
use crate::stopwatch::{Stopwatch, in_words};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use nandu_base::words::visible;
use nandu_lab::RunObserver;
use nandu_probe::Observer;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, IsTerminal};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

const PARTS: u64 = 1000;
const TEMPLATE: &str = "  {bar:28.cyan/black.dim} {percent:>3} %  {left}{prefix}{wide_msg}";

/// A view on the work; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    state: Rc<RefCell<State>>,
    interrupt: Interrupt,
}

#[derive(Debug)]
struct State {
    /// Hidden where stderr is no terminal.
    bar: ProgressBar,
    is_terminal: bool,
    is_quiet: bool,
    stopwatch: Stopwatch,
    /// Where steps are of very different length: since when the step at hand goes on.
    step_stopwatch: Option<Stopwatch>,
    done_count: usize,
    step_count: usize,
    /// The step's own name, which comes before what it does.
    label: String,
    tenths_told: u64,
    /// Sampled whenever something is shown.
    meter: Option<RaplRun>,
}

impl Drop for State {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Progress {
    /// Watches work of `step_count` steps.
    pub(crate) fn new(context: &Context, step_count: usize) -> Self {
        Self::watching(context, step_count, None)
    }

    /// The same where one step says nothing of how long another takes: what is told to be left is that of the
    /// step at hand.
    pub(crate) fn of_unlike_steps(context: &Context, step_count: usize) -> Self {
        Self::watching(context, step_count, Some(Stopwatch::start()))
    }

    fn watching(context: &Context, step_count: usize, step_stopwatch: Option<Stopwatch>) -> Self {
        let is_quiet = context.is_quiet;
        let is_terminal = io::stderr().is_terminal();
        let is_drawn = is_terminal && !is_quiet;
        let draw =
            if is_drawn { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(PARTS), draw);
        let style = ProgressStyle::with_template(TEMPLATE).expect("the template is valid");
        let style = match step_stopwatch {
            None => style.with_key("left", write_time_left),
            Some(_) => style.with_key("left", |_: &ProgressState, _: &mut dyn fmt::Write| {}),
        };
        bar.set_style(style.progress_chars("━╸─"));
        let state = State {
            bar,
            is_terminal,
            is_quiet,
            stopwatch: Stopwatch::start(),
            step_stopwatch,
            done_count: 0,
            step_count,
            label: String::new(),
            tenths_told: 0,
            meter: None,
        };
        Self { state: Rc::new(RefCell::new(state)), interrupt: context.interrupt.clone() }
    }

    /// Sets how many steps there are, once that is known.
    pub(crate) fn set_step_count(&self, step_count: usize) {
        self.state.borrow_mut().step_count = step_count;
    }

    /// One more step is done.
    pub(crate) fn step_done(&self) {
        let mut state = self.state.borrow_mut();
        state.done_count += 1;
        state.step_stopwatch = state.step_stopwatch.map(|_| Stopwatch::start());
        state.show(0.0, "");
    }

    /// Has the meter of this machine look on from now.
    pub(crate) fn begin_meter(&self) {
        self.state.borrow_mut().meter = Some(RaplRun::begin());
    }

    /// What the meter told since then, for so many operations if somebody counted them; where none looked on, that
    /// the drive is a simulated one.
    pub(crate) fn end_meter(&self, operation_count: Option<u64>) -> MeterReport {
        let meter = self.state.borrow_mut().meter.take();
        meter.map_or_else(MeterReport::of_simulated, |meter| meter.end(operation_count))
    }

    /// Shows that `fraction` of the current step is done.
    pub(crate) fn show(&self, fraction: f64, what: &str) {
        self.state.borrow_mut().show(fraction, what);
    }

    /// Does something that prints, with the bar out of its way.
    pub(crate) fn aside<T>(&self, print: impl FnOnce() -> T) -> T {
        self.state.borrow().bar.suspend(print)
    }

    /// Says something about the work, unless nobody wants to hear of it.
    pub(crate) fn note(&self, text: &str) {
        if !self.state.borrow().is_quiet {
            self.aside(|| output::complain(text));
        }
    }

    /// Whether the user wants to stop.
    pub(crate) fn is_interrupted(&self) -> bool {
        self.interrupt.is_set()
    }
}

impl State {
    fn show(&mut self, fraction: f64, what: &str) {
        if let Some(meter) = &mut self.meter {
            meter.look();
        }
        let steps = self.step_count.max(1) as f64;
        let overall = ((self.done_count as f64 + fraction.clamp(0.0, 1.0)) / steps).min(1.0);
        let parts = parts_of(overall);
        if self.is_terminal {
            self.bar.set_position(parts);
            if self.step_stopwatch.is_some() {
                let left = self.time_left(fraction, overall);
                let room = if left.is_empty() { "" } else { "  " };
                self.bar.set_prefix(left + room);
            }
            if !what.is_empty() {
                let message = match self.label.as_str() {
                    "" => what.to_string(),
                    label => format!("{label}: {what}"),
                };
                self.bar.set_message(visible(&message).into_owned());
            }
            return;
        }
        if self.is_quiet {
            return;
        }
        let tenths = parts * 10 / PARTS;
        // Where steps have names, as in `run`, each is told when it begins and percentages are not
        // told besides.
        if tenths > self.tenths_told && self.label.is_empty() && !what.is_empty() {
            self.tenths_told = tenths;
            let left = self.time_left(fraction, overall);
            let left = if left.is_empty() { left } else { format!("  {left}") };
            output::complain(&format!("  {:>3} %  {what}{left}", tenths * 10));
        }
    }
}

impl State {
    /// How long the rest takes, in words; of steps that are unlike each other, of the one at hand.
    fn time_left(&self, fraction: f64, overall: f64) -> String {
        let Some(stopwatch) = self.step_stopwatch else {
            return self.stopwatch.time_left(overall);
        };
        let left = stopwatch.time_left(fraction);
        match self.done_count + 1 < self.step_count && !left.is_empty() {
            true => left + " in this step",
            false => left,
        }
    }
}

/// What the bar expects of the rest, and nothing before it knows.
fn write_time_left(state: &ProgressState, writer: &mut dyn fmt::Write) {
    let seconds = state.eta().as_secs_f64();
    if state.pos() > 0 && seconds >= 1.0 {
        // A bar that cannot be written is no trouble.
        let _ = write!(writer, "{}  ", in_words(seconds));
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share between 0 and 1 of a thousand"
)]
fn parts_of(share: f64) -> u64 {
    (share * PARTS as f64) as u64
}

impl Observer for Progress {
    fn progress(&mut self, fraction: f64, what: &str) {
        self.show(fraction, what);
    }

    fn is_cancelled(&self) -> bool {
        self.interrupt.is_set()
    }
}

impl RunObserver for Progress {
    fn step_started(&mut self, index: usize, count: usize, label: &str, resumed: bool) {
        let mut state = self.state.borrow_mut();
        (state.done_count, state.step_count) = (index, count);
        state.label = label.to_string();
        state.show(0.0, if resumed { "kept from before" } else { "starts" });
        if !state.is_terminal && !state.is_quiet {
            let kept = if resumed { "  (kept from before)" } else { "" };
            output::complain(&format!("  [{:>2}/{count}] {label}{kept}", index + 1));
        }
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        self.interrupt.flag()
    }
}
