//! A flow whose two ends are programs of this machine, such as iperf3. What they print goes to
//! files; whoever made the plan reads them.

use crate::network::Network;
use crate::plan::{Flow, Programs};
use crate::progress::{EndState, Progress, lock, spawn};
use crate::sys::{self, Error, Outcome};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

/// How long the server may take to end once the client has.
const PATIENCE_NS: u64 = 2_000_000_000;
const POLL_NS: u64 = 10_000_000;

/// The server's program, which runs, and what the client's needs.
#[derive(Debug)]
pub(crate) struct Ends {
    server: Child,
    namespace: std::os::fd::OwnedFd,
    output: PathBuf,
}

impl Ends {
    /// Starts the server's program. It ends with the calling thread.
    pub(crate) fn open(number: usize, flow: &Flow, programs: &Programs, network: &Network, results: &Path) -> Outcome<Self> {
        let namespace_of = |name: &str| Ok::<_, Error>(&network.namespaces[network.number(name)?].file);
        sys::enter_network(namespace_of(&flow.server)?)?;
        let server = start(&programs.server, &results.join(format!("{number}-server.json")))?;
        let namespace = namespace_of(&flow.client)?.try_clone().map_err(|e| Error::machine(format!("holding a namespace open: {e}")))?;
        Ok(Self { server, namespace, output: results.join(format!("{number}-client.json")) })
    }

    /// Starts the client's program in time.
    pub(crate) fn start(mut self, flow: Flow, programs: Programs, progress: Arc<Mutex<Progress>>, origin: u64) -> Outcome<()> {
        spawn(move || {
            sys::sleep_until(origin + flow.start_ns);
            let outcome = self.run(&programs);
            let mut progress = lock(&progress);
            progress.client = EndState { socket: None, ended: true };
            progress.end_server();
            if let Err(wrong) = outcome {
                progress.result.error.get_or_insert(wrong.to_string());
            }
        })
    }

    fn run(&mut self, programs: &Programs) -> Outcome<()> {
        sys::enter_network(&self.namespace)?;
        let mut client = start(&programs.client, &self.output)?;
        let status = client.wait().map_err(|e| Error::machine(format!("waiting for {}: {e}", programs.client[0])))?;
        let until = sys::monotonic() + PATIENCE_NS;
        while sys::monotonic() < until && !matches!(self.server.try_wait(), Ok(Some(_)) | Err(_)) {
            sys::sleep_for(POLL_NS);
        }
        // One that has ended already cannot be killed.
        let _ended = self.server.kill();
        if status.success() { Ok(()) } else { Err(Error::machine(format!("{} ended with {status}", programs.client[0]))) }
    }
}

fn start(words: &[String], output: &Path) -> Outcome<Child> {
    let [program, arguments @ ..] = words else { return Err(Error::caller("the plan names no program")) };
    let file = File::create(output).map_err(|e| Error::machine(format!("{}: {e}", output.display())))?;
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(file).stderr(Stdio::null());
    sys::die_with_thread(&mut command);
    command.spawn().map_err(|e| Error::machine(format!("starting {program}: {e}")))
}
