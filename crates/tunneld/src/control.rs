//! The socket over which `status` and `down` reach a daemon: one command in, an answer out.

use polypath_base::{Duration, Error};
use polypath_io::{bind_private, peer_user};
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// From where a daemon can be asked.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// From the whole machine, by a file in [`FOLDER`].
    Machine,
    /// From its network namespace alone, by a name that is no file: the tunnel of a run, which
    /// leaves nothing behind.
    Namespace,
}

/// Where the sockets of all tunnels are.
pub const FOLDER: &str = "/run/polypath";
const PREFIX: &str = "tunnel-";
const SUFFIX: &str = ".sock";
/// A daemon that does not answer for so long hangs.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);
/// The kernel may take two seconds to close what a killed daemon held.
const TRIES: u32 = 100;
const BETWEEN_TRIES: std::time::Duration = std::time::Duration::from_millis(20);
/// After the command `down` it may have to wait for full sockets.
pub const END: Duration = Duration::from_secs(10);
/// The longest command.
const LONGEST: usize = 16;

/// The socket of the tunnel of this name.
pub fn path(name: &str) -> PathBuf {
    Path::new(FOLDER).join(format!("{PREFIX}{name}{SUFFIX}"))
}

/// The names of tunnels that have a socket.
pub fn names() -> Vec<String> {
    let files = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut names: Vec<String> = files
        .filter_map(|file| Some(file.file_name().to_str()?.strip_prefix(PREFIX)?.strip_suffix(SUFFIX)?.to_owned()))
        .filter(|name| UnixStream::connect(path(name)).is_ok())
        .collect();
    names.sort();
    names
}

/// Whether no daemon has this name. One that was killed a moment ago still has its socket, which
/// takes connections until the kernel has closed all that the process held, and answers none: it is
/// waited for.
#[expect(clippy::disallowed_methods, reason = "the start of a daemon, before anything runs: there is nothing else to do meanwhile")]
fn is_free(name: &str) -> bool {
    for _ in 0..TRIES {
        let Ok(mut stream) = UnixStream::connect(path(name)) else { return true };
        let mut said = [0];
        let answer =
            stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.write_all(b"status")).and_then(|()| stream.read(&mut said));
        if matches!(answer, Ok(1)) {
            return false;
        }
        std::thread::sleep(BETWEEN_TRIES);
    }
    false
}

/// Listens for a tunnel of this name.
pub fn listen(name: &str, reach: Reach) -> Result<UnixListener, Error> {
    let listener = match reach {
        Reach::Machine => listen_by_file(name)?,
        Reach::Namespace => listen_by_name(name)?,
    };
    listener.set_nonblocking(true).map_err(|e| Error::machine(format!("the socket of the tunnel {name}: {e}")))?;
    Ok(listener)
}

/// At a name that is no file: "polypath-tunnel-NAME". Linux keeps such names for each network
/// namespace.
fn listen_by_name(name: &str) -> Result<UnixListener, Error> {
    let bound = SocketAddr::from_abstract_name(format!("polypath-tunnel-{name}")).and_then(|at| UnixListener::bind_addr(&at));
    bound.map_err(|e| Error::caller(format!("the tunnel {name} is up already in this network namespace: {e}")))
}

/// At a file; what a killed daemon left is replaced.
fn listen_by_file(name: &str) -> Result<UnixListener, Error> {
    let file = path(name);
    if !is_free(name) {
        return Err(Error::caller(format!("the tunnel {name} is up already: take it down first (polypath-tunnel down {name})")));
    }
    let failed = |e: std::io::Error| Error::machine(format!("making {}: {e}", file.display()));
    fs::create_dir_all(FOLDER).map_err(failed)?;
    match fs::remove_file(&file) {
        Err(e) if e.kind() != ErrorKind::NotFound => return Err(failed(e)),
        _ => {}
    }
    bind_private(&file).map_err(failed)
}

/// Takes one request and answers it with what `reply` makes of its command. Who asks and does not
/// speak is not waited for. Root and `owner` may ask: a socket that is no file has no mode that
/// would keep others out.
pub fn answer(listener: &UnixListener, owner: u32, mut reply: impl FnMut(&str) -> String) {
    while let Ok((mut stream, _)) = listener.accept() {
        let short = Some(std::time::Duration::from_millis(200));
        if stream.set_nonblocking(false).is_err() || stream.set_read_timeout(short).is_err() || stream.set_write_timeout(short).is_err() {
            continue;
        }
        let mut command = [0_u8; LONGEST];
        let Ok(length) = stream.read(&mut command) else { continue };
        let said = if peer_user(&stream).is_ok_and(|user| user == 0 || user == owner) {
            reply(std::str::from_utf8(&command[..length]).unwrap_or_default().trim())
        } else {
            "only root may ask, and who started the tunnel".to_owned()
        };
        // Who has gone gets no answer.
        let _ = stream.write_all(said.as_bytes());
    }
}

/// Asks the daemon of a tunnel; its answer.
pub fn ask(name: &str, command: &str) -> Result<String, Error> {
    let gone = |_| Error::caller(format!("no tunnel {name} is up: {}", known()));
    let mut stream = UnixStream::connect(path(name)).map_err(gone)?;
    let mut said = String::new();
    let mut talk = || {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(command.as_bytes())?;
        stream.read_to_string(&mut said)
    };
    talk().map_err(|e| Error::machine(format!("the daemon of the tunnel {name} does not answer: {e}")))?;
    Ok(said)
}

fn known() -> String {
    match names() {
        names if names.is_empty() => "none is".to_owned(),
        names => format!("those that are: {}", names.join(", ")),
    }
}

/// The only tunnel that is up, for who named none.
pub fn only() -> Result<String, Error> {
    let mut names = names();
    match (names.len(), names.pop()) {
        (1, Some(name)) => Ok(name),
        (0, _) => Err(Error::caller("no tunnel is up")),
        _ => Err(Error::caller(format!("several tunnels are up, name one: {}", self::names().join(", ")))),
    }
}
