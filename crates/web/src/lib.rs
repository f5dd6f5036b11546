//! The simulator as a WebAssembly module: converts types and errors, and decides nothing, as `py`
//! does for Python.
//!
//! The page asks for [`input`], writes a text there, and calls a function; what comes of it lies at
//! [`output`], [`output_len`] bytes long, until the next call. A run goes in steps, so that the
//! page can show its progress or abandon it: [`begin`], [`advance`] until it says 1, [`finish`]. A
//! panic is a trap: the page makes a new instance then.

mod catalogue;
mod result;

use polypath_base::Duration;
use polypath_sim::outcome::CaptureFile;
use polypath_sim::{Error, Run, Scenario};
use serde_json::json;
use std::cell::RefCell;

#[derive(Default)]
struct State {
    input: Vec<u8>,
    output: Vec<u8>,
    run: Option<Run>,
    captures: Vec<CaptureFile>,
}

thread_local! {
    static STATE: RefCell<State> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut State) -> T) -> T {
    STATE.with_borrow_mut(work)
}

/// Room for a text of so many bytes.
// SAFETY: no other function of the module has this name; so below.
#[unsafe(no_mangle)]
pub extern "C" fn input(len: usize) -> *mut u8 {
    with(|state| {
        state.input = vec![0; len];
        state.input.as_mut_ptr()
    })
}

/// Where the last call left its text or its bytes.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn output() -> *const u8 {
    with(|state| state.output.as_ptr())
}

/// How many bytes that is.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn output_len() -> usize {
    with(|state| state.output.len())
}

/// What there is to choose from, as JSON.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn catalogue() {
    with(|state| state.output = catalogue::catalogue().to_string().into_bytes());
}

/// Begins the run of the scenario in the input (JSON), in place of the one before. 0, or 1 with
/// what is wrong: {"sentence", "field"}.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn begin() -> i32 {
    with(|state| match run_of(&state.input) {
        Ok(run) => {
            state.run = Some(run);
            0
        }
        Err(error) => {
            state.run = None;
            state.output = json!({ "sentence": error.to_string(), "field": error.field() }).to_string().into_bytes();
            1
        }
    })
}

fn run_of(text: &[u8]) -> Result<Run, Error> {
    let scenario: Scenario = serde_json::from_slice(text).map_err(|e| Error::caller(format!("the scenario cannot be read: {e}")))?;
    polypath_sim::check(&scenario, true)?;
    Run::new(&scenario)
}

/// Runs until this simulated time. 1 if the run has ended.
///
/// # Panics
/// If no run was begun.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn advance(until_ns: f64) -> i32 {
    with(|state| i32::from(begun(state).advance(Duration::from_nanos(until_ns as u64))))
}

/// Forgets the packets captured so far.
///
/// # Panics
/// If no run was begun.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn discard_captured() {
    with(|state| begun(state).discard_captured());
}

/// Ends the run: its outcome and series, as JSON.
///
/// # Panics
/// If no run was begun.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn finish() {
    with(|state| {
        let run = state.run.take().expect("a run was begun");
        let (outcome, captures) = run.finish();
        state.captures = captures;
        state.output = result::text(&outcome).into_bytes();
    });
}

/// The pcapng file of a capture of the run that was finished, by its number in the scenario;
/// nothing if there is none.
// SAFETY: see `input`.
#[unsafe(no_mangle)]
pub extern "C" fn capture(number: usize) {
    with(|state| state.output = state.captures.get_mut(number).map(|file| std::mem::take(&mut file.bytes)).unwrap_or_default());
}

fn begun(state: &mut State) -> &mut Run {
    state.run.as_mut().expect("a run was begun")
}
