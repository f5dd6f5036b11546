//! Brings the network of a plan up: namespaces, veth pairs, addresses, neighbours, routes,
//! disciplines, MPTCP endpoints.
//!
//! A namespace's messages go in one batch; device numbers are chosen here, so that nothing has to
//! be asked for. Nothing outside the plan's namespaces is touched.

use crate::address::{family, ip, mac, octets};
use crate::mptcp::PathManager;
use crate::offload::Offload;
use crate::out_of_tree;
use crate::plan::{Change, Discipline, Plan, Port, Route, Tunnel, VethPair};
use crate::records::TunnelResult;
use crate::sys::{self, Error, Outcome};
use crate::tunnels::Daemon;
use polypath_io::netlink::{CREATE, EXCL, Message, Netlink, REPLACE};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;
const RTM_NEWRULE: u16 = 32;
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTFILTER: u16 = 44;
/// The loopback device of any namespace.
const LOOPBACK: u32 = 1;
/// First number of a device; smaller ones are the kernel's own.
const FIRST_DEVICE: u32 = 100;
/// First table for routes of one source, and the preference of its rule.
const FIRST_TABLE: u32 = 1000;
const MAIN_TABLE: u32 = 254;
/// The root discipline is 1:0.
const HANDLE: u32 = 0x1_0000;
/// What manages the queue of a root that shapes, and where it stands in that.
const CHILD_HANDLE: u32 = 0x2_0000;
pub(crate) const CHILD_PARENT: u32 = 0x1_0001;
pub(crate) const TC_H_ROOT: u32 = u32::MAX;
pub(crate) const TC_H_CLSACT: u32 = 0xffff_fff1;
const TC_H_MIN_INGRESS: u32 = 0xffff_fff2;
const TC_H_MIN_EGRESS: u32 = 0xffff_fff3;
const TCA_KIND: u16 = 1;

/// A network namespace that exists.
#[derive(Debug)]
pub(crate) struct Namespace {
    pub(crate) name: String,
    pub(crate) file: OwnedFd,
    pub(crate) route: Netlink,
    pub(crate) path_manager: Option<PathManager>,
    /// What a socket gets that asks for nothing.
    pub(crate) congestion_control: String,
}

/// The network of a plan.
#[derive(Debug)]
pub struct Network {
    pub(crate) namespaces: Vec<Namespace>,
    /// This kernel has out-of-tree MPTCP.
    pub(crate) out_of_tree: bool,
    numbers: BTreeMap<String, usize>,
    devices: BTreeMap<(usize, String), u32>,
    /// Those of the plan's tunnels, two a tunnel.
    daemons: Vec<Daemon>,
}

impl Network {
    /// Builds it. The calling thread is in the machine's first namespace before, and in one of the
    /// new ones afterwards: call it on a thread of its own.
    pub fn build(plan: &Plan) -> Outcome<Self> {
        // Asked once and here: the new namespaces do not have its settings.
        let out_of_tree = out_of_tree::is_there(Path::new("/proc/sys"));
        let mut network =
            Self { namespaces: Vec::new(), out_of_tree, numbers: BTreeMap::new(), devices: BTreeMap::new(), daemons: Vec::new() };
        network.create_namespaces(plan)?;
        let mut offload = None;
        for pair in &plan.veth_pairs {
            network.create_veth_pair(pair)?;
        }
        for namespace in &mut network.namespaces {
            namespace.route.flush()?;
        }
        for port in plan.veth_pairs.iter().flat_map(|pair| [&pair.a, &pair.b]) {
            let namespace = &network.namespaces[network.number(&port.namespace)?];
            sys::enter_network(&namespace.file)?;
            let offload = match &mut offload {
                Some(offload) => offload,
                none => none.insert(Offload::find(&port.device)?),
            };
            offload.switch_off(&port.device)?;
        }
        network.raise(plan)?;
        let mut tables = BTreeMap::new();
        network.neighbours(plan)?;
        network.routes(plan.routes.iter().filter(|route| route.via.is_some()), &mut tables)?;
        network.queue(plan)?;
        network.redirect(plan)?;
        network.police(plan)?;
        network.flush()?;
        if !plan.tunnels.is_empty() {
            // Their paths are there, and routes over them need their devices.
            network.start_tunnels(plan)?;
            network.routes(plan.routes.iter().filter(|route| route.via.is_none()), &mut tables)?;
            network.flush()?;
        }
        network.endpoints(plan)?;
        Ok(network)
    }

    /// The namespaces with their names in the plan, held open.
    pub fn namespaces(&self) -> impl Iterator<Item = (&str, &OwnedFd)> {
        self.namespaces.iter().map(|namespace| (namespace.name.as_str(), &namespace.file))
    }

    pub(crate) fn namespace(&mut self, name: &str) -> Outcome<&mut Namespace> {
        let number = self.number(name)?;
        Ok(&mut self.namespaces[number])
    }

    pub(crate) fn number(&self, namespace: &str) -> Outcome<usize> {
        self.numbers
            .get(namespace)
            .copied()
            .ok_or_else(|| Error::caller(format!("the plan names a namespace {namespace:?} that it does not have")))
    }

    /// Number of a device of a namespace.
    pub(crate) fn device(&self, namespace: &str, device: &str) -> Outcome<u32> {
        let number = self.number(namespace)?;
        if device == "lo" {
            return Ok(LOOPBACK);
        }
        let found = self.devices.get(&(number, device.to_owned()));
        found.copied().ok_or_else(|| Error::caller(format!("the plan names a device {device:?} of {namespace} that it does not have")))
    }

    /// What came of the tunnels, in the order of the plan. The calling thread is in one of the
    /// namespaces afterwards.
    pub(crate) fn tunnels(&mut self, plan: &Plan) -> Outcome<Vec<TunnelResult>> {
        let (namespaces, mut daemons) = (&self.namespaces, self.daemons.iter_mut());
        let one = |tunnel: &Tunnel| {
            let ends = daemons.by_ref().take(tunnel.ends.len());
            let ends = ends.map(|daemon| daemon.result(&tunnel.name, &namespaces[daemon.namespace()].file)).collect::<Outcome<_>>()?;
            Ok(TunnelResult { name: tunnel.name.clone(), ends })
        };
        plan.tunnels.iter().map(one).collect()
    }

    /// Starts the daemons of the tunnels, each tunnel's in the order of its ends.
    fn start_tunnels(&mut self, plan: &Plan) -> Outcome<()> {
        for tunnel in &plan.tunnels {
            for end in &tunnel.ends {
                let number = self.number(&end.namespace)?;
                let daemon = Daemon::start(&tunnel.program, end, number, &self.namespaces[number].file);
                self.daemons.push(daemon.map_err(|e| e.of(format!("tunnel {} at {}", tunnel.name, end.namespace)))?);
                self.devices.insert((number, end.device.clone()), sys::device_number(&end.device)?);
            }
        }
        Ok(())
    }

    /// Whether a device is one end of a tunnel, which carries IP packets without a header of
    /// Ethernet.
    pub(crate) fn is_tunnel(&self, namespace: &str, device: &str) -> Outcome<bool> {
        let number = self.number(namespace)?;
        Ok(self.daemons.iter().any(|daemon| daemon.is_at(number, device)))
    }

    fn flush(&mut self) -> Outcome<()> {
        self.namespaces
            .iter_mut()
            .try_for_each(|namespace| namespace.route.flush().map_err(|e| e.of(format!("namespace {}", namespace.name))))
    }

    /// Gives a device's discipline other parameters; what waits in it stays.
    pub(crate) fn change(&mut self, change: &Change) -> Outcome<()> {
        let Change { namespace, device, .. } = change;
        let index = self.device(namespace, device)?;
        let head = Message::new(RTM_NEWQDISC, 0, &traffic_control(index, HANDLE, TC_H_ROOT, 0));
        let message = match (&change.netem, &change.shaper) {
            (Some(netem), _) => netem.put(head, true),
            (None, Some(shaper)) => shaper.put(head),
            (None, None) => return Ok(()),
        };
        let route = &mut self.namespace(namespace)?.route;
        route.queue(message, format!("discipline of {device} in {namespace}"));
        route.flush()
    }

    fn create_namespaces(&mut self, plan: &Plan) -> Outcome<()> {
        for namespace in &plan.namespaces {
            sys::new_network()?;
            let file = File::open("/proc/thread-self/ns/net").map_err(|e| Error::machine(format!("the namespace just made: {e}")))?.into();
            for (name, value) in &namespace.sysctl {
                let path = format!("/proc/sys/{}", name.replace('.', "/"));
                let written = File::options().write(true).open(path).and_then(|mut f| f.write_all(value.as_bytes()));
                written.map_err(|e| Error::machine(format!("namespace {}: setting {name} to {value:?}: {e}", namespace.name)))?;
            }
            let congestion_control = std::fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap_or_default();
            let route = Netlink::open(libc::NETLINK_ROUTE)?;
            let wants_endpoints = namespace.limits.is_some() || plan.endpoints.iter().any(|e| e.namespace == namespace.name);
            let path_manager = if wants_endpoints && !self.out_of_tree { Some(PathManager::open()?) } else { None };
            self.numbers.insert(namespace.name.clone(), self.namespaces.len());
            let congestion_control = congestion_control.trim().to_owned();
            self.namespaces.push(Namespace { name: namespace.name.clone(), file, route, path_manager, congestion_control });
        }
        Ok(())
    }

    fn create_veth_pair(&mut self, pair: &VethPair) -> Outcome<()> {
        const IFLA_ADDRESS: u16 = 1;
        const IFLA_IFNAME: u16 = 3;
        const IFLA_MTU: u16 = 4;
        const IFLA_LINKINFO: u16 = 18;
        const IFLA_NET_NS_FD: u16 = 28;
        const IFLA_INFO_KIND: u16 = 1;
        const IFLA_INFO_DATA: u16 = 2;
        const VETH_INFO_PEER: u16 = 1;
        let (at_a, at_b) = (self.number(&pair.a.namespace)?, self.number(&pair.b.namespace)?);
        let (mac_a, mac_b) = (mac(&pair.a.mac)?, mac(&pair.b.mac)?);
        let mut add = |at: usize, port: &Port| {
            let index = FIRST_DEVICE + self.devices.len() as u32;
            match self.devices.insert((at, port.device.clone()), index) {
                None => Ok(index),
                Some(_) => Err(Error::caller(format!("the plan has two devices {} in namespace {}", port.device, port.namespace))),
            }
        };
        let (index_a, index_b) = (add(at_a, &pair.a)?, add(at_b, &pair.b)?);
        let put = |message: Message, port: &Port, mac: [u8; 6]| {
            message.put_text(IFLA_IFNAME, &port.device).put(IFLA_ADDRESS, &mac).put_u32(IFLA_MTU, port.mtu)
        };
        let other_end = sys::number(&self.namespaces[at_b].file) as u32;
        let message = put(Message::new(RTM_NEWLINK, CREATE | EXCL, &link(index_a, false)), &pair.a, mac_a).nest(IFLA_LINKINFO, &[], |m| {
            m.put_text(IFLA_INFO_KIND, "veth").nest(IFLA_INFO_DATA, &[], |m| {
                m.nest(VETH_INFO_PEER, &link(index_b, false), |m| put(m, &pair.b, mac_b).put_u32(IFLA_NET_NS_FD, other_end))
            })
        });
        let what = format!("the veth pair {}/{} to {}/{}", pair.a.namespace, pair.a.device, pair.b.namespace, pair.b.device);
        self.namespaces[at_a].route.queue(message, what);
        Ok(())
    }

    /// Addresses, then everything up.
    fn raise(&mut self, plan: &Plan) -> Outcome<()> {
        for (namespace, planned) in self.namespaces.iter_mut().zip(&plan.namespaces) {
            namespace.route.queue(Message::new(RTM_NEWLINK, 0, &link(LOOPBACK, true)), "raising the loopback device");
            for text in &planned.addresses {
                let address = ip(text)?;
                namespace.route.queue(new_address(LOOPBACK, address, if address.is_ipv4() { 32 } else { 128 }), format!("address {text}"));
            }
        }
        for port in plan.veth_pairs.iter().flat_map(|pair| [&pair.a, &pair.b]) {
            let index = self.device(&port.namespace, &port.device)?;
            let route = &mut self.namespace(&port.namespace)?.route;
            if let Some((address, length)) = &port.address {
                route.queue(new_address(index, ip(address)?, *length), format!("address {address} of {}", port.device));
            }
            route.queue(Message::new(RTM_NEWLINK, 0, &link(index, true)), format!("raising {}", port.device));
        }
        for namespace in &mut self.namespaces {
            namespace.route.flush().map_err(|e| e.of(format!("namespace {}", namespace.name)))?;
        }
        Ok(())
    }

    fn neighbours(&mut self, plan: &Plan) -> Outcome<()> {
        for neighbour in &plan.neighbours {
            const NUD_PERMANENT: u16 = 0x80;
            const NDA_DST: u16 = 1;
            const NDA_LLADDR: u16 = 2;
            let (index, address) = (self.device(&neighbour.namespace, &neighbour.device)?, ip(&neighbour.address)?);
            // struct ndmsg: family, padding, device, state, flags, type.
            let mut head = [0; 12];
            head[0] = family(address);
            head[4..8].copy_from_slice(&index.to_ne_bytes());
            head[8..10].copy_from_slice(&NUD_PERMANENT.to_ne_bytes());
            let message = Message::new(RTM_NEWNEIGH, CREATE | REPLACE, &head);
            let message = message.put(NDA_DST, &octets(address)).put(NDA_LLADDR, &mac(&neighbour.mac)?);
            self.namespace(&neighbour.namespace)?.route.queue(message, format!("neighbour {address}"));
        }
        Ok(())
    }

    /// Routes and rules; `tables` has the tables of those of one source.
    fn routes<'a>(&mut self, routes: impl Iterator<Item = &'a Route>, tables: &mut BTreeMap<(String, String), u32>) -> Outcome<()> {
        for route in routes {
            let index = self.device(&route.namespace, &route.device)?;
            let (to, via) = (ip(&route.to)?, route.via.as_deref().map(ip).transpose()?);
            let mut table = MAIN_TABLE;
            if let Some(source) = &route.source {
                let next = FIRST_TABLE + tables.len() as u32;
                table = *tables.entry((route.namespace.clone(), source.clone())).or_insert(next);
                if table == next {
                    self.namespace(&route.namespace)?.route.queue(new_rule(ip(source)?, table), format!("rule from {source}"));
                }
            }
            let message = new_route(to, via, index, table, route.metric);
            self.namespace(&route.namespace)?.route.queue(message, format!("route to {to} through {}", route.device));
        }
        Ok(())
    }

    fn queue(&mut self, plan: &Plan) -> Outcome<()> {
        for discipline in &plan.disciplines {
            let index = self.device(&discipline.namespace, &discipline.device)?;
            let head = traffic_control(index, HANDLE, TC_H_ROOT, 0);
            let root = Message::new(RTM_NEWQDISC, CREATE | REPLACE, &head);
            let mut messages = Vec::new();
            if let Some(netem) = &discipline.netem {
                messages.push((netem.put(root, false), format!("netem of {}", discipline.device)));
            } else if let Some(shaper) = &discipline.shaper {
                messages.push((shaper.put(root), format!("token bucket of {}", discipline.device)));
                let head = traffic_control(index, CHILD_HANDLE, CHILD_PARENT, 0);
                let message = shaper.aqm.put(Message::new(RTM_NEWQDISC, CREATE | REPLACE, &head));
                messages.push((message, format!("managed queue of {}", discipline.device)));
            }
            for (message, what) in messages {
                self.namespace(&discipline.namespace)?.route.queue(message, what);
            }
        }
        Ok(())
    }

    fn redirect(&mut self, plan: &Plan) -> Outcome<()> {
        const TCA_MIRRED_PARMS: u16 = 2;
        for redirect in &plan.redirects {
            let (from, to) = (self.device(&redirect.namespace, &redirect.from)?, self.device(&redirect.namespace, &redirect.to)?);
            // struct tc_mirred: index, capabilities, action (stolen), two counts, kind (redirect to
            // the egress), device.
            let mirred = [0_u32, 0, 4, 0, 0, 1, to].map(u32::to_ne_bytes).concat();
            let filter = filter(from, TC_H_MIN_INGRESS, "mirred", |m| m.put(TCA_MIRRED_PARMS, &mirred));
            let route = &mut self.namespace(&redirect.namespace)?.route;
            route.queue(hooks(from), format!("the ingress of {}", redirect.from));
            route.queue(filter, format!("redirection from {} to {}", redirect.from, redirect.to));
        }
        Ok(())
    }

    /// Policers, at the hook that a packet comes by before the discipline of the device by which it
    /// leaves. After [`Self::redirect`], which makes the hooks of some devices.
    fn police(&mut self, plan: &Plan) -> Outcome<()> {
        for Discipline { namespace, device, policer, .. } in &plan.disciplines {
            let Some(policer) = policer else { continue };
            let index = self.device(namespace, device)?;
            let is_hooked = plan.redirects.iter().any(|redirect| (&redirect.namespace, &redirect.from) == (namespace, device));
            let filter = filter(index, TC_H_MIN_EGRESS, "police", |m| policer.put(m));
            let route = &mut self.namespace(namespace)?.route;
            if !is_hooked {
                route.queue(hooks(index), format!("the egress of {device}"));
            }
            route.queue(filter, format!("policer of {device}"));
        }
        Ok(())
    }

    fn endpoints(&mut self, plan: &Plan) -> Outcome<()> {
        for namespace in &plan.namespaces {
            if let (Some(limits), Some(manager)) = (namespace.limits, &mut self.namespace(&namespace.name)?.path_manager) {
                manager.limit(limits);
            }
        }
        let mut ids: BTreeMap<&str, u8> = BTreeMap::new();
        for endpoint in &plan.endpoints {
            let id = ids.entry(&endpoint.namespace).and_modify(|id| *id += 1).or_insert(1);
            let (index, address) = (self.device(&endpoint.namespace, &endpoint.device)?, ip(&endpoint.address)?);
            if let Some(manager) = &mut self.namespace(&endpoint.namespace)?.path_manager {
                manager.add(endpoint, *id, index, address);
            }
        }
        for namespace in &mut self.namespaces {
            if let Some(manager) = &mut namespace.path_manager {
                manager.flush().map_err(|e| e.of(format!("namespace {}", namespace.name)))?;
            }
        }
        Ok(())
    }
}

/// Raises the loopback device of the socket's namespace.
pub(crate) fn raise_loopback(route: &mut Netlink) -> Outcome<()> {
    route.queue(Message::new(RTM_NEWLINK, 0, &link(LOOPBACK, true)), "raising the loopback device");
    route.flush()
}

/// struct ifinfomsg: family, padding, type, device, flags, which flags to change.
fn link(index: u32, up: bool) -> [u8; 16] {
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&index.to_ne_bytes());
    if up {
        head[8] = libc::IFF_UP as u8;
        head[12] = libc::IFF_UP as u8;
    }
    head
}

/// The hooks of a device, at which packets meet filters.
fn hooks(index: u32) -> Message {
    let head = traffic_control(index, 0xffff_0000, TC_H_CLSACT, 0);
    Message::new(RTM_NEWQDISC, CREATE | EXCL, &head).put_text(TCA_KIND, "clsact")
}

/// At a hook of a device: one action for every packet.
fn filter(index: u32, hook: u32, action: &str, options: impl FnOnce(Message) -> Message) -> Message {
    const TCA_OPTIONS: u16 = 2;
    const TCA_MATCHALL_ACT: u16 = 2;
    const TCA_ACT_OPTIONS: u16 = 2;
    /// The first action of a list.
    const FIRST: u16 = 1;
    const EVERY_PROTOCOL: u32 = (libc::ETH_P_ALL as u16).to_be() as u32;
    const PREFERENCE: u32 = 1 << 16;
    let head = traffic_control(index, 0, hook, PREFERENCE | EVERY_PROTOCOL);
    Message::new(RTM_NEWTFILTER, CREATE | EXCL, &head).put_text(TCA_KIND, "matchall").nest(TCA_OPTIONS, &[], |m| {
        m.nest(TCA_MATCHALL_ACT, &[], |m| m.nest(FIRST, &[], |m| m.put_text(TCA_KIND, action).nest(TCA_ACT_OPTIONS, &[], options)))
    })
}

/// struct tcmsg: family, padding, device, handle, parent, info.
pub(crate) fn traffic_control(index: u32, handle: u32, parent: u32, info: u32) -> [u8; 20] {
    let mut head = [0; 20];
    for (field, value) in head[4..].chunks_exact_mut(4).zip([index, handle, parent, info]) {
        field.copy_from_slice(&value.to_ne_bytes());
    }
    head
}

fn new_address(index: u32, address: IpAddr, length: u8) -> Message {
    const IFA_ADDRESS: u16 = 1;
    const IFA_LOCAL: u16 = 2;
    /// No duplicate address detection: an address is good at once.
    const IFA_F_NODAD: u8 = 2;
    // struct ifaddrmsg: family, prefix, flags, scope, device.
    let mut head = [family(address), length, if address.is_ipv6() { IFA_F_NODAD } else { 0 }, 0, 0, 0, 0, 0];
    head[4..].copy_from_slice(&index.to_ne_bytes());
    Message::new(RTM_NEWADDR, CREATE | EXCL, &head).put(IFA_LOCAL, &octets(address)).put(IFA_ADDRESS, &octets(address))
}

const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_PRIORITY: u16 = 6;
const RTA_TABLE: u16 = 15;
const RTN_UNICAST: u8 = 1;
/// Who made the route: an administrator.
const RTPROT_BOOT: u8 = 3;

fn new_route(to: IpAddr, via: Option<IpAddr>, index: u32, table: u32, metric: Option<u32>) -> Message {
    // struct rtmsg: family, lengths of destination and source, TOS, table (an attribute says),
    // protocol, scope, type, flags.
    let length = if to.is_ipv4() { 32 } else { 128 };
    let scope = if via.is_none() { libc::RT_SCOPE_LINK } else { libc::RT_SCOPE_UNIVERSE };
    let head = [family(to), length, 0, 0, 0, RTPROT_BOOT, scope, RTN_UNICAST, 0, 0, 0, 0];
    let message = Message::new(RTM_NEWROUTE, CREATE | EXCL, &head).put(RTA_DST, &octets(to));
    let message = match via {
        Some(via) => message.put(RTA_GATEWAY, &octets(via)),
        None => message,
    };
    let message = message.put_u32(RTA_OIF, index).put_u32(RTA_TABLE, table);
    match metric {
        Some(metric) => message.put_u32(RTA_PRIORITY, metric),
        None => message,
    }
}

fn new_rule(source: IpAddr, table: u32) -> Message {
    const FRA_SRC: u16 = 2;
    const FRA_PRIORITY: u16 = 6;
    const FRA_TABLE: u16 = 15;
    const FR_ACT_TO_TBL: u8 = 1;
    // struct fib_rule_hdr: family, lengths of destination and source, TOS, table, two reserved,
    // action, flags.
    let length = if source.is_ipv4() { 32 } else { 128 };
    let head = [family(source), 0, length, 0, 0, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
    let message = Message::new(RTM_NEWRULE, CREATE | EXCL, &head).put(FRA_SRC, &octets(source));
    message.put_u32(FRA_PRIORITY, table).put_u32(FRA_TABLE, table)
}
