//! Upstream's in-kernel path manager by generic netlink.

use crate::address::{family, octets};
use crate::plan::{Endpoint, Limits};
use crate::sys::{Error, Outcome};
use polypath_io::netlink::{self, Message, Netlink};
use std::net::IpAddr;

const COMMAND_ADD: u8 = 1;
const COMMAND_DELETE: u8 = 2;
const COMMAND_LIMITS: u8 = 5;
const ATTR_ADDR: u16 = 1;
const ATTR_RCV_ADD_ADDRS: u16 = 2;
const ATTR_SUBFLOWS: u16 = 3;
const ADDR_FAMILY: u16 = 1;
const ADDR_ID: u16 = 2;
const ADDR_ADDR4: u16 = 3;
const ADDR_ADDR6: u16 = 4;
const ADDR_PORT: u16 = 5;
const ADDR_FLAGS: u16 = 6;
const ADDR_IF_IDX: u16 = 7;
const FLAG_SIGNAL: u32 = 1;
const FLAG_SUBFLOW: u32 = 2;
const FLAG_BACKUP: u32 = 4;
const FLAG_FULLMESH: u32 = 8;
const FLAG_LAMINAR: u32 = 32;

/// The path manager of one namespace.
#[derive(Debug)]
pub(crate) struct PathManager {
    socket: Netlink,
    number: u16,
}

impl PathManager {
    /// That of the calling thread's namespace.
    pub(crate) fn open() -> Outcome<Self> {
        const CONTROL: u16 = 16;
        const CONTROL_GET_FAMILY: u8 = 3;
        const CONTROL_FAMILY_ID: u16 = 1;
        const CONTROL_FAMILY_NAME: u16 = 2;
        let mut socket = Netlink::open(libc::NETLINK_GENERIC)?;
        let question = Message::new(CONTROL, 0, &head(CONTROL_GET_FAMILY)).put_text(CONTROL_FAMILY_NAME, "mptcp_pm");
        let mut number = None;
        let asked = socket.ask(question, |part| {
            number = part.body.get(4..).and_then(|body| netlink::attribute(body, CONTROL_FAMILY_ID)).map(|value| netlink::short(value, 0));
        });
        let missing = "this kernel has no MPTCP with endpoints (Linux 5.6 or later built with CONFIG_MPTCP has)";
        match (asked, number) {
            (Ok(()), Some(number)) => Ok(Self { socket, number }),
            _ => Err(Error::machine(missing)),
        }
    }

    pub(crate) fn limit(&mut self, limits: Limits) {
        let message = Message::new(self.number, 0, &head(COMMAND_LIMITS));
        let message = message.put_u32(ATTR_SUBFLOWS, limits.subflows).put_u32(ATTR_RCV_ADD_ADDRS, limits.add_addr_accepted);
        self.socket.queue(message, format!("MPTCP limits {limits:?}"));
    }

    pub(crate) fn add(&mut self, endpoint: &Endpoint, id: u8, device: u32, address: IpAddr) {
        let wanted = [
            (endpoint.signal, FLAG_SIGNAL),
            (endpoint.subflow, FLAG_SUBFLOW),
            (endpoint.backup, FLAG_BACKUP),
            (endpoint.fullmesh, FLAG_FULLMESH),
            (endpoint.laminar, FLAG_LAMINAR),
        ];
        let flags = wanted.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum();
        let message = Message::new(self.number, 0, &head(COMMAND_ADD)).nest_flagged(ATTR_ADDR, |m| {
            let m = put_address(m, address).put_u8(ADDR_ID, id).put_u32(ADDR_FLAGS, flags).put_u32(ADDR_IF_IDX, device);
            if let Some(port) = endpoint.port { m.put_u16(ADDR_PORT, port) } else { m }
        });
        self.socket.queue(message, format!("MPTCP endpoint {address}"));
    }

    pub(crate) fn remove(&mut self, id: u8, address: IpAddr) -> Outcome<()> {
        let message = Message::new(self.number, 0, &head(COMMAND_DELETE));
        let message = message.nest_flagged(ATTR_ADDR, |m| put_address(m, address).put_u8(ADDR_ID, id));
        self.socket.queue(message, format!("removing the MPTCP endpoint {address}"));
        self.socket.flush()
    }

    pub(crate) fn flush(&mut self) -> Outcome<()> {
        self.socket.flush()
    }
}

/// struct genlmsghdr: command, version, reserved.
fn head(command: u8) -> [u8; 4] {
    [command, 1, 0, 0]
}

fn put_address(message: Message, address: IpAddr) -> Message {
    let kind = if address.is_ipv4() { ADDR_ADDR4 } else { ADDR_ADDR6 };
    message.put_u16(ADDR_FAMILY, u16::from(family(address))).put(kind, &octets(address))
}
