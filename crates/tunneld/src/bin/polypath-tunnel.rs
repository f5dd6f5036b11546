//! `polypath-tunnel`: a multipath tunnel of GRE in UDP, for routers and hosts that need nothing
//! else of Polypath.

use polypath_base::{Duration, Error, ErrorKind};
use polypath_io::{Between, Clock, Namespace};
use polypath_tunneld::control::{self, Reach};
use polypath_tunneld::encryption::Key;
use polypath_tunneld::{daemon, import, status};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const USAGE: &str = "\
polypath-tunnel carries a tunnel of GRE in UDP over several paths.

  polypath-tunnel up FILE.toml        bring a tunnel up, in the background
  polypath-tunnel run FILE.toml       the same in the foreground, until SIGTERM; SIGHUP reads the file again
  polypath-tunnel run FILE.toml --private
                                      `status` and `down` do not reach it: who started it asks it at the abstract socket
                                      polypath-tunnel-NAME of its network namespace
  polypath-tunnel down [NAME]         take it down
  polypath-tunnel status [NAME] [--json]
  polypath-tunnel check FILE.toml     only read the file
  polypath-tunnel import FOLDER       print our file for each of MPT's (interface.conf, connections/*.conf)
  polypath-tunnel keygen FILE         write a new private key to FILE, and print its public key, which goes into the other end's file
  polypath-tunnel pubkey FILE         print the public key of the private key in FILE
  polypath-tunnel measure CLIENT SERVER ADDRESS BYTES SECONDS
                                      what the network between two namespaces carries to an address of the second, as JSON: one TCP
                                      connection, and UDP datagrams of so many bytes

Without [encryption] in its file a tunnel is neither encrypted nor authenticated: whoever is on a path reads it, and may write into it.
";

/// The caller's mistake, and everything else.
const CALLER: u8 = 2;
const FAILURE: u8 = 1;
/// What `run` says when it is up.
const UP: &str = "up ";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match command(&words.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("polypath-tunnel: {error}");
            ExitCode::from(if error.kind() == ErrorKind::Caller { CALLER } else { FAILURE })
        }
    }
}

fn command(words: &[&str]) -> Result<(), Error> {
    match words {
        [] | ["-h" | "--help"] => say(USAGE),
        // A tunnel's name begins with no dash.
        ["status" | "down", more @ ..] if more.iter().any(|&word| word.starts_with('-') && word != "--json") => {
            Err(Error::caller(format!("{:?} is no command; `polypath-tunnel --help` lists them", words.join(" "))))
        }
        ["run", file] => run(file, Reach::Machine),
        ["run", file, "--private"] => run(file, Reach::Namespace),
        ["up", file] => up(Path::new(file)),
        ["check", file] => daemon::read(Path::new(file)).map(drop),
        ["down"] => down(&control::only()?),
        ["down", name] => down(&named(name)?),
        ["status"] => show(&control::only()?, false),
        ["status", "--json"] => show(&control::only()?, true),
        ["status", name] => show(&named(name)?, false),
        ["status", name, "--json"] | ["status", "--json", name] => show(&named(name)?, true),
        ["import", folder] => say(&import::folder(Path::new(folder))?),
        ["measure", client, server, address, bytes, seconds] => measure([client, server], address, bytes, seconds),
        ["keygen", file] => keygen(Path::new(file)),
        ["pubkey", file] => pubkey(Path::new(file)),
        _ => Err(Error::caller(format!("{:?} is no command; `polypath-tunnel --help` lists them", words.join(" ")))),
    }
}

fn run(file: &str, reach: Reach) -> Result<(), Error> {
    let log = |line: &str| eprintln!("polypath-tunnel: {line}");
    daemon::run(Path::new(file), reach, &log, |config| {
        // Who started it may have gone.
        let _ = say(&format!("{UP}{}: {} with {} paths\n", config.name, config.device, config.paths.len()));
    })
}

fn say(text: &str) -> Result<(), Error> {
    let mut out = std::io::stdout();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| Error::machine(format!("writing: {e}")))
}

/// The port of the measured connection.
const MEASURED: u16 = 5001;

/// Prints TCP's goodput in bit/s, and packets a second: sent and received as fast as can be, and
/// the highest rate without loss.
fn measure(names: [&str; 2], address: &str, bytes: &str, seconds: &str) -> Result<(), Error> {
    let wrong = |what: &str| Error::caller(format!("measure: {what}"));
    let ip: IpAddr = address.parse().map_err(|_| wrong(&format!("{address} is no IP address")))?;
    // The sender writes 16 bytes of its own.
    let bytes = bytes.parse().ok().filter(|bytes| (16..=65_507).contains(bytes)).ok_or_else(|| wrong("BYTES is 16 to 65507"))?;
    let seconds: f64 = seconds.parse().ok().filter(|s| (0.1..=3600.0).contains(s)).ok_or_else(|| wrong("SECONDS is 0.1 to 3600"))?;
    let [client, server] = [Namespace::named(names[0])?, Namespace::named(names[1])?];
    let each = Duration::from_nanos((seconds * 1e9) as u64);
    let between = Between { client: &client, server: &server, clock: Clock::start(), each };
    let at = SocketAddr::new(ip, MEASURED);
    let tcp = between.tcp(at)?;
    let whole = between.udp(at, bytes, f64::INFINITY)?;
    let lossless = between.lossless(at, bytes, whole.received_per_s)?;
    let found = serde_json::json!({
        "tcp_bits_per_s": tcp,
        "sent_per_s": whole.sent_per_s,
        "received_per_s": whole.received_per_s,
        "lossless_per_s": lossless,
    });
    say(&format!("{found}\n"))
}

/// Writes a new private key, over none that is there.
fn keygen(file: &Path) -> Result<(), Error> {
    let key = Key::generate()?;
    let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(file);
    made.and_then(|mut made| made.write_all(key.text().as_bytes()).and_then(|()| made.write_all(b"\n")))
        .map_err(|e| Error::caller(format!("{}: {e}", file.display())))?;
    say(&format!("{}\n", *key.public().text()))
}

fn pubkey(file: &Path) -> Result<(), Error> {
    let text = std::fs::read_to_string(file).map(zeroize::Zeroizing::new).map_err(|e| Error::caller(format!("{}: {e}", file.display())))?;
    let key = Key::parse(&text).ok_or_else(|| Error::caller(format!("{}: it holds no key", file.display())))?;
    say(&format!("{}\n", *key.public().text()))
}

/// A tunnel's name, or that in its file.
fn named(text: &str) -> Result<String, Error> {
    if Path::new(text).extension().is_some_and(|end| end == "toml") { Ok(daemon::read(Path::new(text))?.name) } else { Ok(text.to_owned()) }
}

/// Starts `run` on its own and waits until it is up.
fn up(file: &Path) -> Result<(), Error> {
    let name = daemon::read(file)?.name;
    let failed = |what: &str, e: std::io::Error| Error::machine(format!("{what}: {e}"));
    std::fs::create_dir_all(control::FOLDER).map_err(|e| failed(control::FOLDER, e))?;
    let said: PathBuf = control::path(&name).with_extension("log");
    let log = std::fs::File::create(&said).map_err(|e| failed(&said.display().to_string(), e))?;
    let program = std::env::current_exe().map_err(|e| failed("finding this program", e))?;
    let mut command = Command::new(program);
    command.arg("run").arg(file).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
    // Ctrl-C at this terminal is not for the daemon.
    let mut child =
        std::os::unix::process::CommandExt::process_group(&mut command, 0).spawn().map_err(|e| failed("starting the daemon", e))?;
    let mut first = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut first).map_err(|e| failed("waiting for the daemon", e))?;
    }
    if first.starts_with(UP) {
        return say(&first);
    }
    let status = child.wait().map_err(|e| failed("waiting for the daemon", e))?;
    let mut why = String::new();
    std::fs::File::open(&said).and_then(|mut file| file.read_to_string(&mut why)).map_err(|e| failed(&said.display().to_string(), e))?;
    let sentence = why.lines().last().unwrap_or("it ended without a word").trim_start_matches("polypath-tunnel: ").to_owned();
    Err(if status.code() == Some(i32::from(CALLER)) { Error::caller(sentence) } else { Error::machine(sentence) })
}

/// Asks it to end, and waits until it has.
fn down(name: &str) -> Result<(), Error> {
    control::ask(name, "down")?;
    let clock = Clock::start();
    while control::path(name).exists() {
        if clock.now().as_nanos() > control::END.as_nanos() {
            return Err(Error::machine(format!("the daemon of the tunnel {name} does not end")));
        }
        clock.sleep_until(clock.now() + Duration::from_millis(10));
    }
    say(&format!("down {name}\n"))
}

fn show(name: &str, json: bool) -> Result<(), Error> {
    let said = control::ask(name, "status")?;
    let value = serde_json::from_str(&said).map_err(|e| Error::machine(format!("the daemon of the tunnel {name} answers no JSON: {e}")))?;
    let pretty = || serde_json::to_string_pretty(&value).unwrap_or_default() + "\n";
    say(&if json { pretty() } else { status::table(&value) })
}
