//! Calls an algorithm's hooks inside the kernel, on made-up flows: cc/bpf/drive.bpf.c.

use std::ffi::c_void;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd as _, AsRawFd as _};

use libbpf_rs::{MapCore as _, MapHandle, Object, ProgramInput, libbpf_sys};
use polypath_cc as cc;

use crate::Error;
use crate::kernel::load_object;
use crate::sources::source;

/// Numbers as in drive.bpf.c.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Hook {
    Init = 0,
    Ssthresh = 2,
    CongAvoid = 3,
    SetState = 4,
    CwndEvent = 5,
    InAckEvent = 6,
    PktsAcked = 7,
    UndoCwnd = 8,
    CongControl = 9,
    SndbufExpand = 10,
    MinTsoSegs = 11,
}

impl Hook {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "ssthresh" => Self::Ssthresh,
            "cong_avoid" => Self::CongAvoid,
            "set_state" => Self::SetState,
            "cwnd_event" => Self::CwndEvent,
            "in_ack_event" => Self::InAckEvent,
            "pkts_acked" => Self::PktsAcked,
            "undo_cwnd" => Self::UndoCwnd,
            "cong_control" => Self::CongControl,
            "sndbuf_expand" => Self::SndbufExpand,
            "min_tso_segs" => Self::MinTsoSegs,
            _ => return None,
        })
    }
}

/// Subflows that an algorithm sees in the kernel (`PP_MAX_SIBLINGS` of the BPF build; the native
/// build has room for more).
pub(crate) const KERNEL_SIBLINGS: usize = 9;

/// `struct pp_siblings` of the BPF build.
#[derive(Debug, Default)]
#[repr(C)]
struct Siblings {
    len: u32,
    own: u32,
    at: [cc::Sibling; KERNEL_SIBLINGS],
}

impl From<&cc::Siblings> for Siblings {
    fn from(view: &cc::Siblings) -> Self {
        let mut siblings = Self { len: view.as_slice().len() as u32, own: view.own() as u32, ..Self::default() };
        siblings.at[..view.as_slice().len()].clone_from_slice(view.as_slice());
        siblings
    }
}

/// `struct pp_call` of drive.bpf.c.
#[derive(Debug)]
#[repr(C)]
struct Call {
    flow: cc::Flow,
    sample: cc::Sample,
    siblings: Siblings,
    private: [u64; 13],
    hook: u32,
    value: u32,
    has_siblings: u32,
    result: u32,
}

const _: () = assert!(offset_of!(Call, result) + 4 == size_of::<Call>(), "no padding behind the last field");

/// One flow of an algorithm in the kernel.
#[derive(Debug)]
pub(crate) struct Driver {
    object: Object,
    map: MapHandle,
    call: Call,
}

impl Driver {
    pub(crate) fn new(algorithm: cc::Algorithm) -> Result<Self, Error> {
        let object = load_object(algorithm.name(), source(algorithm).drive, false)?;
        let map = object.maps().find(|map| map.name().to_string_lossy().ends_with(".bss")).expect("pp_call is a global variable");
        assert_eq!(map.value_size() as usize, size_of::<Call>(), "struct pp_call of drive.bpf.c and its mirror differ in size");
        let map = MapHandle::try_from(&map).map_err(|error| Error::machine(format!("the map of {algorithm:?}: {error}")))?;
        Ok(Self {
            object,
            map,
            call: Call {
                flow: cc::Flow::new(10, 1448),
                sample: cc::Sample::default(),
                siblings: Siblings::default(),
                private: [0; 13],
                hook: 0,
                value: 0,
                has_siblings: 0,
                result: 0,
            },
        })
    }

    /// A new flow: its private state is zero.
    pub(crate) fn begin(&mut self) {
        self.call.private = [0; 13];
    }

    /// The first word of the private state.
    pub(crate) fn private_word(&self) -> u64 {
        self.call.private[0]
    }

    /// What the next call of `cong_control` is told of its ACK.
    pub(crate) fn set_sample(&mut self, sample: &cc::Sample) {
        self.call.sample.clone_from(sample);
    }

    /// Runs a hook on `flow`, and writes to it what the hook changed.
    pub(crate) fn call(&mut self, flow: &mut cc::Flow, siblings: Option<&cc::Siblings>, hook: Hook, value: u32) -> Result<u32, Error> {
        self.call.flow.clone_from(flow);
        self.call.siblings = siblings.map(Siblings::from).unwrap_or_default();
        self.call.has_siblings = siblings.is_some().into();
        self.call.hook = hook as u32;
        self.call.value = value;
        if hook == Hook::PktsAcked {
            self.call.sample = cc::Sample { rtt_us: value.into(), pkts_acked: 1, ..cc::Sample::default() };
        }
        let (fd, key) = (self.map.as_fd().as_raw_fd(), 0u32);
        let key = (&raw const key).cast::<c_void>();
        // SAFETY: the kernel reads a key of 4 bytes and a value of the size asserted above, both of
        // which outlive the call.
        let written = unsafe { libbpf_sys::bpf_map_update_elem(fd, key, (&raw const self.call).cast(), 0) };
        let program = self.object.progs_mut().next().expect("drive.bpf.c has one program");
        let ran = program.test_run(ProgramInput::default()).is_ok_and(|output| output.return_value == 0);
        let mut after = MaybeUninit::<Call>::uninit();
        // SAFETY: the kernel writes a value of the size asserted above.
        let read = unsafe { libbpf_sys::bpf_map_lookup_elem(fd, key, after.as_mut_ptr().cast()) };
        if written != 0 || read != 0 || !ran {
            return Err(Error::machine(
                "this kernel does not run BPF programs of the kind syscall, which a check needs: boot Linux 5.14 or later",
            ));
        }
        // SAFETY: the value is whole. Of the fields that are not mere numbers, the program copies
        // those of the flow from the valid ones that it was given and leaves the others as they
        // are.
        self.call = unsafe { after.assume_init() };
        flow.clone_from(&self.call.flow);
        Ok(self.call.result)
    }
}
