//! Poll and epoll: what is so, and what of it is news.

use super::{Errno, Program, Watched, WouldBlock, descriptor};
use polypath_base::{Duration, Instant};
use polypath_testkit::Endpoint as _;
use polypath_testkit::ours::Readiness;

impl Program {
    fn mask(&self, fd: i32) -> u32 {
        let Some(socket) = self.sockets.get(&fd) else { return libc::POLLNVAL as u32 };
        mask_of(socket.readiness(&self.host))
    }

    pub(crate) fn poll_events(&self, fd: i32, asked: i16) -> i16 {
        // What is told is asked for, or always told.
        self.mask(fd) as i16 & (asked | libc::POLLERR | libc::POLLHUP | libc::POLLNVAL)
    }

    /// `until`: when the call gives up, from its beginning on.
    pub(crate) fn poll(&mut self, asked: &[(i32, i16)], timeout_ms: i32, until: &mut Option<Instant>) -> Result<i64, WouldBlock> {
        let ready = asked.iter().filter(|(fd, events)| self.poll_events(*fd, *events) != 0).count();
        self.ready_or_wait(ready, timeout_ms, until)
    }

    fn ready_or_wait(&mut self, ready: usize, timeout_ms: i32, until: &mut Option<Instant>) -> Result<i64, WouldBlock> {
        let end = *until.get_or_insert(match u64::try_from(timeout_ms) {
            Ok(ms) => self.host.now() + Duration::from_millis(ms),
            Err(_) => Instant::NEVER,
        });
        if ready > 0 || self.host.now() >= end { Ok(ready as i64) } else { Err(WouldBlock::Until(end)) }
    }

    pub(crate) fn epoll_create(&mut self) -> Result<i64, Errno> {
        let fd = descriptor()?;
        self.epolls.insert(fd, Vec::new());
        Ok(i64::from(fd))
    }

    pub(crate) fn epoll_ctl(&mut self, epoll: i32, operation: i32, fd: i32, event: Option<(u32, u64)>) -> Result<i64, Errno> {
        let socket = self.socket_of(fd)?;
        let noticed = socket.noticed;
        let now = self.sockets[&fd].readiness(&self.host);
        let watched = self.epolls.get_mut(&epoll).ok_or(Errno(libc::EBADF))?;
        let place = watched.iter().position(|watched| watched.fd == fd);
        match (operation, place, event) {
            (libc::EPOLL_CTL_ADD, None, Some((events, data))) => {
                watched.push(Watched { fd, events, data, news: mask_of(now), before: now, noticed, is_spent: false });
            }
            (libc::EPOLL_CTL_MOD, Some(i), Some((events, data))) => {
                watched[i] = Watched { fd, events, data, news: mask_of(now), before: now, noticed, is_spent: false };
            }
            (libc::EPOLL_CTL_DEL, Some(i), _) => drop(watched.remove(i)),
            (libc::EPOLL_CTL_ADD, Some(_), _) => return Err(Errno(libc::EEXIST)),
            (_, None, _) => return Err(Errno(libc::ENOENT)),
            _ => return Err(Errno(libc::EINVAL)),
        }
        Ok(0)
    }

    /// What edge-triggered ones are told later: what was not so before, and each arrival.
    pub(super) fn note_news(&mut self) {
        for watched in self.epolls.values_mut().flatten() {
            let Some(socket) = self.sockets.get(&watched.fd) else { continue };
            let (before, now) = (watched.before, socket.readiness(&self.host));
            let arrived = if now.arrived != before.arrived { libc::EPOLLIN as u32 } else { 0 };
            let noticed = if socket.noticed != watched.noticed { libc::EPOLLERR as u32 } else { 0 };
            watched.news |= mask_of(now) & (!mask_of(before) | arrived | noticed);
            (watched.before, watched.noticed) = (now, socket.noticed);
        }
    }

    pub(crate) fn epoll_wait(&mut self, epoll: i32, most: i32, timeout_ms: i32, until: &mut Option<Instant>) -> Result<i64, WouldBlock> {
        self.note_news();
        let always = (libc::EPOLLERR | libc::EPOLLHUP) as u32;
        let mut watched = self.epolls.get(&epoll).cloned().ok_or(Errno(libc::EBADF))?;
        let mut found = Vec::new();
        for watched in watched.iter_mut().filter(|watched| !watched.is_spent) {
            let is_edge = watched.events & libc::EPOLLET as u32 != 0;
            let ready = self.mask(watched.fd) & (watched.events | always);
            // Any news has all told that is so now.
            let news = watched.news & (watched.events | always);
            if ready == 0 || (is_edge && news == 0) || found.len() >= most.max(0) as usize {
                continue;
            }
            found.push((ready, watched.data));
            watched.news = 0;
            watched.is_spent = watched.events & libc::EPOLLONESHOT as u32 != 0;
        }
        let told = self.ready_or_wait(found.len(), timeout_ms, until)?;
        self.epolls.insert(epoll, watched);
        self.events = found;
        Ok(told)
    }

    pub(crate) fn take_epoll_events(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.events)
    }
}

/// The events of poll, whose numbers epoll's are too.
fn mask_of(ready: Readiness) -> u32 {
    let events = [
        (ready.readable, libc::POLLIN | libc::POLLRDNORM),
        (ready.writable, libc::POLLOUT | libc::POLLWRNORM),
        (ready.has_error, libc::POLLERR),
        (ready.read_closed, libc::POLLRDHUP),
        (ready.hung_up, libc::POLLHUP),
    ];
    events.iter().filter(|(is_so, _)| *is_so).fold(0, |mask, (_, event)| mask | *event as u32)
}
