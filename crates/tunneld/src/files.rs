//! What a daemon that has given up root's rights still needs of them: its file and its keys read
//! again, a new TUN device's file opened, and its socket removed at the end. A second process does
//! that, which knows no more of the network than what its files say and takes two words from the
//! daemon.

use crate::config::{self, Config, beside, read_secret};
use polypath_base::Error;
use polypath_io::{Failed, Helper, Tun, keep_net_admin_only, name_thread, receive, send};
use std::cell::RefCell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use zeroize::{Zeroize, Zeroizing};

const READ: u8 = b'r';
const END: u8 = b'e';
/// A file is waited for so long at most.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(5);

/// The files of a tunnel, in the hands of the second process.
pub(crate) struct Files {
    file: PathBuf,
    /// None once it has not answered.
    helper: Option<Helper>,
}

impl Files {
    /// Starts the second process. `socket` is removed when the tunnel ends. To be called before
    /// there are other threads.
    pub(crate) fn start(file: &Path, socket: Option<PathBuf>) -> Result<Self, Failed> {
        let own = file.to_owned();
        let helper = Helper::fork(move |stream| serve(&stream, &own, socket.as_deref()))?;
        helper.stream.set_read_timeout(Some(PATIENCE)).map_err(|e| Failed::new("setting the longest wait", e))?;
        Ok(Self { file: file.to_owned(), helper: Some(helper) })
    }

    /// The tunnel's settings as they are now, and the file of a new device.
    pub(crate) fn read(&mut self) -> Result<(Config, File), Error> {
        let (answer, device) = self.ask(READ)?;
        let mut parts = Parts(&answer);
        let text = parts.next().unwrap_or_default();
        let Some(device) = device else { return Err(Error::caller(text)) };
        let mut secrets = Vec::new();
        while let (Some(name), Some(secret)) = (parts.next(), parts.next()) {
            secrets.push((name, secret));
        }
        let found = config::parse_with(&self.file, text, &|wanted| {
            let found = secrets.iter().find(|(name, _)| *name == wanted);
            found.map(|(_, secret)| Zeroizing::new((*secret).to_owned())).ok_or_else(|| "it was not read".to_owned())
        })?;
        Ok((found, File::from(device)))
    }

    /// Removes the socket.
    pub(crate) fn end(&mut self) {
        // Where it is gone, the next daemon replaces what is left.
        let _ = self.ask(END);
    }

    fn ask(&mut self, word: u8) -> Result<(Zeroizing<Vec<u8>>, Option<std::os::fd::OwnedFd>), Error> {
        let answer = self.helper.as_ref().map(|helper| {
            (&helper.stream).write_all(&[word])?;
            receive(&helper.stream)
        });
        if let Some(Ok((answer, device))) = answer {
            return Ok((Zeroizing::new(answer), device));
        }
        // What came later would be the answer to another question.
        self.helper = None;
        Err(Error::machine("the process that reads the tunnel's files does not answer: take the tunnel down, then up"))
    }
}

/// What the second process does.
fn serve(mut stream: &UnixStream, file: &Path, socket: Option<&Path>) {
    name_thread("tunnel-files");
    if keep_net_admin_only(false).is_err() {
        return;
    }
    let mut word = [0];
    while stream.read_exact(&mut word).is_ok() {
        let sent = match (word[0], socket) {
            (READ, _) => answer(stream, file),
            (END, Some(socket)) => {
                // Whether it is there still makes no difference at the end.
                let _ = std::fs::remove_file(socket);
                send(stream, b"", None)
            }
            _ => send(stream, b"", None),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// Sends the file's text, and the name and the text of each key's, with the file of a new device;
/// or, without that, why not.
fn answer(stream: &UnixStream, file: &Path) -> std::io::Result<()> {
    let secrets = RefCell::new(Vec::new());
    let read = config::text(file).and_then(|text| {
        config::parse_with(file, &text, &|name| {
            let secret = read_secret(&beside(file, name))?;
            secrets.borrow_mut().push((name.to_owned(), secret.clone()));
            Ok(secret)
        })?;
        Ok((text, Tun::file()?))
    });
    let mut message = Zeroizing::new(Vec::new());
    match read {
        Ok((text, device)) => {
            put(&mut message, &text);
            for (name, secret) in secrets.borrow().iter() {
                put(&mut message, name);
                put(&mut message, secret);
            }
            send(stream, &message, Some(device.as_fd()))
        }
        Err(error) => {
            put(&mut message, &error.to_string());
            send(stream, &message, None)
        }
    }
}

fn put(message: &mut Zeroizing<Vec<u8>>, text: &str) {
    let mut longer = Vec::with_capacity(message.len() + 4 + text.len());
    longer.extend_from_slice(message);
    longer.extend_from_slice(&(text.len() as u32).to_ne_bytes());
    longer.extend_from_slice(text.as_bytes());
    message.zeroize();
    **message = longer;
}

/// The texts of a message.
struct Parts<'a>(&'a [u8]);

impl<'a> Iterator for Parts<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let (length, rest) = self.0.split_first_chunk::<4>()?;
        let (text, rest) = rest.split_at_checked(u32::from_ne_bytes(*length) as usize)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_out_as_they_went_in_and_a_cut_one_is_none() {
        let mut message = Zeroizing::new(Vec::new());
        for text in ["name", "", "ä"] {
            put(&mut message, text);
        }
        assert_eq!(Parts(&message).collect::<Vec<_>>(), ["name", "", "ä"]);
        assert_eq!(Parts(&message[..message.len() - 1]).count(), 2);
    }
}
