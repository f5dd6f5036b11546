//! A daemon's life: make the device and the sockets, carry packets, end; SIGHUP has it read its
//! file again.

use crate::config::{self, Config};
use crate::core::Core;
use crate::files::Files;
use crate::rights::{self, Rights};
use crate::{control, incoming, outgoing, status};
use polypath_base::{Duration, Error};
use polypath_io::{Offload, Signal, Signals, Tun, Waiter, configure, name_thread, user};
use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

/// Why a tunnel stopped.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Stopped {
    Down,
    Reload,
}

/// Reads a tunnel's file.
pub fn read(file: &Path) -> Result<Config, Error> {
    config::parse(file, &config::text(file)?)
}

/// Carries the tunnel of a file until SIGTERM, SIGINT or `down`. `ready` is called once it is up.
/// To be called where no other threads run, which would get the signals.
pub fn run(file: &Path, reach: control::Reach, log: &(dyn Fn(&str) + Sync), ready: impl FnOnce(&Config)) -> Result<(), Error> {
    let mut config = read(file)?;
    let signals = Signals::hold()?;
    let owner = user();
    let socket = (reach == control::Reach::Machine).then(|| control::path(&config.name));
    let mut files = Files::start(file, socket)?;
    let listener = control::listen(&config.name, reach)?;
    let outcome = (|| {
        let mut tun = device(Tun::file()?, &config)?;
        let mut ready = Some(ready);
        let mut rights = Rights { user: owner, filtered: false };
        loop {
            let core = Core::open(config.clone(), tun, log)?;
            if let Some(ready) = ready.take() {
                // The device and the sockets are there; a file that is read again may need
                // CAP_NET_ADMIN for others.
                rights = rights::give_up(log)?;
                ready(&config);
            }
            match carry(&core, &signals, (&listener, owner, &rights), log)? {
                Stopped::Down => return Ok(()),
                Stopped::Reload => {}
            }
            tun = core.tun;
            match reloaded(&mut files, file, &config) {
                Ok((new, file)) => {
                    tun = renewed(tun, file, &config, &new)?;
                    config = new;
                    log("the file is read again; counters begin anew");
                }
                Err(error) => log(&format!("the old settings stay: {error}")),
            }
        }
    })();
    files.end();
    outcome
}

fn device(file: File, config: &Config) -> Result<Tun, Error> {
    let tun = Tun::make(file, &config.device, if config.offload { Offload::TcpAndUdp } else { Offload::None })?;
    configure(&config.device, config.mtu, config.queue, &config.addresses, &config.routes)?;
    Ok(tun)
}

/// The file as it is now, if a tunnel that is up can take it, and that of a new device.
fn reloaded(files: &mut Files, file: &Path, old: &Config) -> Result<(Config, File), Error> {
    let (new, device) = files.read()?;
    if new.name != old.name {
        return Err(Error::caller(format!("{}: the tunnel's name has changed: take it down, then up", file.display())));
    }
    Ok((new, device))
}

/// The device as the new settings want it: the same one if nothing that it has is taken away.
fn renewed(tun: Tun, file: File, old: &Config, new: &Config) -> Result<Tun, Error> {
    let same = old.device == new.device && old.offload == new.offload && old.addresses == new.addresses && old.routes == new.routes;
    if !same {
        // A new one may have the old one's name.
        drop(tun);
        return device(file, new);
    }
    configure(&new.device, new.mtu, new.queue, &new.addresses, &new.routes)?;
    Ok(tun)
}

/// Carries packets until somebody says otherwise. A thread that fails ends the tunnel, with its
/// reason.
fn carry(core: &Core, signals: &Signals, asked: Asked<'_>, log: &(dyn Fn(&str) + Sync)) -> Result<Stopped, Error> {
    // One byte, never read: all threads see it.
    let (stop, mut stopper) = UnixStream::pair().map_err(|e| Error::machine(format!("making a pair of sockets: {e}")))?;
    // A thread that ends by itself says so here.
    let (ended, ending) = UnixStream::pair().map_err(|e| Error::machine(format!("making a pair of sockets: {e}")))?;
    std::thread::scope(|scope| {
        let (stop, ending) = (&stop, &ending);
        let outgoing = scope.spawn(move || {
            name_thread("tunnel-out");
            let _notifier = ExitNotifier(ending);
            outgoing::run(core, stop.as_fd(), log)
        });
        let incoming = scope.spawn(move || {
            name_thread("tunnel-in");
            let _notifier = ExitNotifier(ending);
            incoming::run(core, stop.as_fd(), log)
        });
        let stopped = supervise(core, signals, asked, &ended);
        // The other end of the pair is open: there is room for one byte.
        let _ = stopper.write_all(b"x");
        for thread in [outgoing, incoming] {
            match thread.join() {
                Ok(result) => result?,
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(stopped)
    })
}

/// Says that its thread has ended, however it ended.
struct ExitNotifier<'a>(&'a UnixStream);

impl Drop for ExitNotifier<'_> {
    fn drop(&mut self) {
        // Nobody listens any more when all has ended.
        let _ = { self.0 }.write_all(b"x");
    }
}

/// Where `status` and `down` come in, who else than root may say that, and what `status` says of
/// the daemon's rights.
type Asked<'a> = (&'a UnixListener, u32, &'a Rights);

fn supervise(core: &Core, signals: &Signals, (listener, owner, rights): Asked<'_>, ended: &UnixStream) -> Stopped {
    let mut waiter = Waiter::new([signals.as_fd(), listener.as_fd(), ended.as_fd()]);
    loop {
        waiter.wait(Some(Duration::from_secs(1)));
        if waiter.ready(2) {
            return Stopped::Down;
        }
        match signals.take() {
            Some(Signal::End) => return Stopped::Down,
            Some(Signal::Hangup) => return Stopped::Reload,
            None => {}
        }
        let down = Cell::new(false);
        control::answer(listener, owner, |command| match command {
            "status" => status::status(core, rights).to_string(),
            "down" => {
                down.set(true);
                String::new()
            }
            other => format!("unknown command: {other}"),
        });
        if down.get() {
            return Stopped::Down;
        }
    }
}
