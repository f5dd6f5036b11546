//! What a kernel can do, and the sentence for what it lacks. Pure: whoever knows the kernel fills
//! in [`KernelCapabilities`].

use polypath_cc as cc;

use crate::Error;

/// What the kernel calls our algorithms begins with this.
pub const PREFIX: &str = "pp_";

/// Whether this process may use BPF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    Granted,
    /// The kernel knows the system call and says no.
    Refused,
    /// The kernel was built without it.
    Absent,
}

/// What matters of a kernel.
#[derive(Debug, Clone)]
pub struct KernelCapabilities {
    pub release: String,
    pub root: bool,
    pub bpf: Access,
    /// Its types are described in /sys/kernel/btf/vmlinux.
    pub btf: bool,
    /// It takes a `tcp_congestion_ops` from BPF.
    pub struct_ops: bool,
    /// BPF may follow pointers to other sockets (`bpf_rdonly_cast`).
    pub sibling_reads: bool,
    pub mptcp: bool,
    /// `cong_control` is told of the ACK's number and flags.
    pub control_flags: bool,
    /// A registration can end with the process that made it.
    pub links: bool,
}

/// The algorithm of this name, with or without the kernel's prefix.
pub fn algorithm(name: &str) -> Result<cc::Algorithm, Error> {
    cc::find(name.strip_prefix(PREFIX).unwrap_or(name)).ok_or_else(|| {
        let known: Vec<&str> = cc::all().map(cc::Algorithm::name).collect();
        Error::caller(format!("there is no congestion control '{name}' to load; there are {}", known.join(", ")))
    })
}

/// What the kernel calls an algorithm.
pub fn kernel_name(algorithm: cc::Algorithm) -> String {
    format!("{PREFIX}{}", algorithm.name())
}

/// Why this kernel cannot take these algorithms, if so. `until_exit`: for the life of a process.
pub fn unsupported_reason(capabilities: &KernelCapabilities, algorithms: &[cc::Algorithm], until_exit: bool) -> Option<Error> {
    let release = &capabilities.release;
    let lacks = |sentence: String| Some(Error::machine(sentence));
    if !capabilities.root {
        return lacks("the congestion controls of the kernel are for root alone: run it again with sudo".to_owned());
    }
    match capabilities.bpf {
        Access::Granted => {}
        Access::Refused => {
            return lacks(format!(
                "Linux {release} refuses BPF to this process although it is root: a container needs the capabilities BPF, PERFMON, \
                 NET_ADMIN and SYS_ADMIN, and a kernel in lockdown refuses it to everybody"
            ));
        }
        Access::Absent => {
            return lacks(format!("Linux {release} was built without BPF (CONFIG_BPF_SYSCALL): boot a distribution's kernel"));
        }
    }
    if !capabilities.btf {
        return lacks(format!(
            "Linux {release} does not describe its types (no /sys/kernel/btf/vmlinux): boot a kernel with CONFIG_DEBUG_INFO_BTF, as \
             distributions' are"
        ));
    }
    if !capabilities.struct_ops {
        return lacks(format!("Linux {release} takes no congestion control from BPF: boot Linux 5.6 or later with CONFIG_BPF_JIT"));
    }
    if until_exit && !capabilities.links {
        return lacks(format!("Linux {release} cannot tie a congestion control to a process (needs 6.4): load it with polypath cc load"));
    }
    if let Some(sampling) = algorithms.iter().find(|a| a.flags() & cc::flags::SEES_SAMPLES != 0)
        && !capabilities.control_flags
    {
        let name = sampling.name();
        return lacks(format!(
            "{name} rules its window at each ACK (cong_control), which BPF may do from Linux 6.10 on and not on {release}: \
             boot another kernel"
        ));
    }
    let coupled = algorithms.iter().find(|a| a.flags() & cc::flags::COUPLED != 0)?;
    let name = coupled.name();
    if !capabilities.mptcp {
        return lacks(format!("{name} couples the subflows of MPTCP, which Linux {release} was built without (CONFIG_MPTCP): {}", rest()));
    }
    if !capabilities.sibling_reads {
        return lacks(format!("{name} looks at its sibling subflows, which BPF may do from Linux 6.2 on and not on {release}: {}", rest()));
    }
    None
}

fn rest() -> String {
    let plain: Vec<&str> = cc::all().filter(|a| a.flags() & cc::flags::COUPLED == 0).map(cc::Algorithm::name).collect();
    format!("load one without coupling ({}) or boot another kernel", plain.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn everything() -> KernelCapabilities {
        KernelCapabilities {
            release: "6.12.1".to_owned(),
            root: true,
            bpf: Access::Granted,
            btf: true,
            struct_ops: true,
            sibling_reads: true,
            mptcp: true,
            control_flags: true,
            links: true,
        }
    }

    fn sentence(capabilities: &KernelCapabilities, names: &[&str], until_exit: bool) -> String {
        let algorithms: Vec<_> = names.iter().map(|name| algorithm(name).expect("it exists")).collect();
        unsupported_reason(capabilities, &algorithms, until_exit).map_or_else(String::new, |error| error.to_string())
    }

    #[test]
    fn a_full_kernel_takes_everything() {
        assert_eq!(sentence(&everything(), &["lia", "reno"], true), "");
    }

    #[test]
    fn each_lack_has_its_own_sentence() {
        let lacks: [(KernelCapabilities, &str); 8] = [
            (KernelCapabilities { root: false, ..everything() }, "for root alone"),
            (KernelCapabilities { bpf: Access::Absent, ..everything() }, "CONFIG_BPF_SYSCALL"),
            (KernelCapabilities { bpf: Access::Refused, ..everything() }, "a container needs the capabilities"),
            (KernelCapabilities { btf: false, ..everything() }, "CONFIG_DEBUG_INFO_BTF"),
            (KernelCapabilities { struct_ops: false, ..everything() }, "CONFIG_BPF_JIT"),
            (KernelCapabilities { links: false, ..everything() }, "polypath cc load"),
            (KernelCapabilities { mptcp: false, ..everything() }, "CONFIG_MPTCP"),
            (KernelCapabilities { sibling_reads: false, ..everything() }, "Linux 6.2"),
        ];
        for (capabilities, part) in lacks {
            let said = sentence(&capabilities, &["reno", "lia"], true);
            assert!(said.contains(part) && !said.contains('\n'), "{said}");
        }
    }

    #[test]
    fn algorithms_without_coupling_need_no_mptcp() {
        let plain = KernelCapabilities { mptcp: false, sibling_reads: false, links: false, ..everything() };
        assert_eq!(sentence(&plain, &["reno", "cubic"], false), "");
    }

    #[test]
    fn names_are_known_with_and_without_prefix() {
        assert_eq!(algorithm("pp_lia").map(kernel_name), Ok("pp_lia".to_owned()));
        assert_eq!(algorithm("lia").map(kernel_name), Ok("pp_lia".to_owned()));
        let said = algorithm("remy").map(kernel_name).expect_err("there is none");
        assert!(said.to_string().contains("'remy'") && said.to_string().contains("wvegas"), "{said}");
    }
}
