//! What a script says, once it is read.

use polypath_base::Duration;
use std::net::Ipv4Addr;

/// A whole script.
#[derive(Clone, Debug)]
pub struct Script {
    /// As messages name it.
    pub file: String,
    pub head: Head,
    pub lines: Vec<Line>,
}

/// What a script is about that names no kernel: those that both engines have.
pub const KERNELS: [&str; 3] = ["6.1", "6.12", "7.3"];

/// What the lines without a time say: the host and its surroundings, before anything happens.
#[derive(Clone, Debug)]
pub struct Head {
    /// The kernels that it is about, as `polypath linux list` and the table of kernels name them.
    pub kernels: Vec<String>,
    /// How much earlier or later a packet may leave than its line says, unless the line has a
    /// range.
    pub tolerance: Duration,
    /// MTU of the endpoint's interface, bytes.
    pub mtu: u32,
    /// Name and value, in their order.
    pub sysctls: Vec<(String, String)>,
    /// `ip mptcp limits`: subflows and accepted ADD_ADDRs.
    pub limits: Option<(u32, u32)>,
    /// `ip mptcp endpoint add`.
    pub endpoints: Vec<Endpoint>,
    /// Addresses of subflows by their number, where they are not the default ones.
    pub subflows: Vec<SubflowAddresses>,
    /// The program reads when a line calls `read`, instead of at once.
    pub reads_by_call: bool,
}

impl Default for Head {
    fn default() -> Self {
        Self {
            kernels: KERNELS.map(str::to_owned).to_vec(),
            tolerance: Duration::from_millis(4),
            mtu: 1500,
            sysctls: Vec::new(),
            limits: None,
            endpoints: Vec::new(),
            subflows: Vec::new(),
            reads_by_call: false,
        }
    }
}

/// An MPTCP endpoint of the path manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    pub address: Ipv4Addr,
    pub id: Option<u8>,
    /// Any of `subflow`, `signal`, `backup`, `fullmesh`.
    pub flags: Vec<String>,
}

/// Addresses of one subflow.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct SubflowAddresses {
    pub number: usize,
    /// Of the endpoint.
    pub local: Ipv4Addr,
    /// Of the script's side, and its port.
    pub remote: Ipv4Addr,
    pub remote_port: Option<u16>,
}

/// Who is the endpoint.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The endpoint of `polypath-transport`.
    Ours,
    /// A Linux kernel.
    Linux,
}

impl Engine {
    /// As a script and a command write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Linux => "linux",
        }
    }
}

/// One line with a time.
#[derive(Clone, Debug)]
pub struct Line {
    /// From 1.
    pub number: usize,
    /// As it stands in the file, without the engine, the kernel, the time and the comment.
    pub text: String,
    /// None: for both.
    pub engine: Option<Engine>,
    /// Empty: for all of the script's.
    pub kernels: Vec<String>,
    pub time: Time,
    pub event: Event,
}

impl Line {
    /// Whether this engine plays it as this kernel.
    pub fn is_for(&self, engine: Engine, kernel: &str) -> bool {
        self.engine.is_none_or(|own| own == engine) && (self.kernels.is_empty() || self.kernels.iter().any(|own| own == kernel))
    }
}

/// When a line's event happens.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Time {
    /// After the script's beginning.
    At(Duration),
    /// After the event before.
    After(Duration),
    /// Between two times after the script's beginning.
    Within(Duration, Duration),
    /// Between two times after the event before.
    WithinAfter(Duration, Duration),
    /// Whenever it comes.
    Any,
}

/// What happens on a line.
#[derive(Clone, Debug)]
pub enum Event {
    /// The script sends a packet to the endpoint.
    Inject(Packet),
    /// The endpoint sends a packet.
    Expect(Packet),
    /// A program on the endpoint's host calls the kernel.
    Call(Call),
    /// What TCP_INFO says of the newest connection.
    Assert(Vec<Assertion>),
    /// Nothing: the endpoint is silent until then.
    Quiet,
}

/// A packet of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    Tcp(Box<Segment>),
    /// ICMP "fragmentation needed" about a segment of the endpoint.
    FragmentationNeeded {
        subflow: usize,
        mtu: u16,
        /// First sequence number of the segment and its length.
        seq: i64,
        len: u32,
    },
}

/// A TCP segment: what a line gives of it. Numbers count from each side's initial sequence number.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Segment {
    pub subflow: usize,
    /// ECN codepoint of the IP header.
    pub ecn: Option<u8>,
    /// TCP header flags.
    pub flags: u16,
    pub seq: i64,
    pub len: u32,
    pub ack: Option<i64>,
    pub window: Option<u16>,
    /// None: the line says nothing of options.
    pub options: Option<Options>,
}

/// The options between angle brackets.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Options {
    pub list: Vec<Opt>,
    /// Further ones may be there (`...`).
    pub open: bool,
}

/// One option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opt {
    pub name: &'static str,
    /// What the line gives of it.
    pub fields: Vec<(&'static str, Value)>,
}

/// A value of an option's field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    Number(u128),
    /// A name: it gets its value where it first stands in an expected packet, and means that value
    /// from then on.
    Name(String),
    /// A name and its value.
    Let(String, u128),
    /// What the standard computes here.
    Auto,
    /// Another value than that.
    Wrong,
    /// In an expected packet: whatever it is. In an injected one: the last one seen.
    Any,
}

/// A system call of a program on the endpoint's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    pub verb: Verb,
    pub result: Outcome,
}

/// The call. Sockets have the numbers that the script gives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    Socket {
        mptcp: bool,
    },
    Bind {
        fd: i32,
    },
    Listen {
        fd: i32,
    },
    Accept {
        fd: i32,
    },
    Connect {
        fd: i32,
    },
    Write {
        fd: i32,
        len: u64,
    },
    Read {
        fd: i32,
        len: u64,
    },
    Shutdown {
        fd: i32,
        how: Directions,
    },
    Close {
        fd: i32,
    },
    SetOption {
        fd: i32,
        option: SocketOption,
        value: i32,
    },
    /// `ip mptcp endpoint delete id N`.
    RemoveEndpoint {
        id: u8,
    },
}

/// What `shutdown` ends.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Directions {
    Read,
    Write,
    Both,
}

/// Socket options that scripts set.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum SocketOption {
    ReuseAddr,
    ReceiveLowWater,
    SendBuffer,
    ReceiveBuffer,
    /// Seconds; below zero: off.
    Linger,
    NoDelay,
    Cork,
    MaxSegment,
    /// TCP_SYNCNT.
    SynCount,
    /// TCP_NOTSENT_LOWAT, bytes.
    NotSentLowWater,
    /// Milliseconds.
    UserTimeout,
    /// TCP_RTO_MAX_MS.
    RtoMax,
}

/// What a call returns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    Value(i64),
    /// The name of an error, such as `EINPROGRESS`.
    Error(String),
}

/// A comparison of a field of TCP_INFO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertion {
    pub field: String,
    pub comparison: Comparison,
    pub value: u64,
    /// As it is written.
    pub text: String,
}

/// How two numbers compare.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Comparison {
    Equal,
    Unequal,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Whether it holds.
    pub fn holds(self, left: u64, right: u64) -> bool {
        match self {
            Self::Equal => left == right,
            Self::Unequal => left != right,
            Self::Less => left < right,
            Self::LessOrEqual => left <= right,
            Self::Greater => left > right,
            Self::GreaterOrEqual => left >= right,
        }
    }
}
