use super::*;
use crate::script::{Opt, Outcome, Packet, Segment, Value, Verb};

fn one(line: &str) -> Line {
    let mut script = parse("a.pkt", line).unwrap_or_else(|fault| panic!("{fault}"));
    assert_eq!(script.lines.len(), 1);
    script.lines.remove(0)
}

fn segment(line: &str) -> Segment {
    match one(line).event {
        Event::Inject(Packet::Tcp(segment)) | Event::Expect(Packet::Tcp(segment)) => *segment,
        other => panic!("{other:?}"),
    }
}

/// The message about a text that is no script.
fn wrong(text: &str) -> String {
    parse("a.pkt", text).map_or_else(|fault| fault.to_string(), |script| panic!("{script:?}"))
}

#[test]
fn a_segment_has_what_its_line_gives() {
    let data = segment("+0.050 < [ect0] [1] P. 1:1001(1000) ack 5 win 257 <nop, nop, sack 1:2 4:9>");
    assert_eq!((data.subflow, data.ecn, data.flags, data.seq, data.len), (1, Some(2), 24, 1, 1000));
    assert_eq!((data.ack, data.window), (Some(5), Some(257)));
    let options = data.options.expect("it has options");
    assert_eq!(options.list[2].fields.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>(), [1, 2, 4, 9].map(Value::Number));
    let bare = segment("+0 > R -99:-99(0)");
    assert_eq!((bare.flags, bare.seq, bare.ack, bare.window, bare.options), (4, -99, None, None, None));
    assert_eq!(segment("+0 > - 1:1(0)").flags, 0);
}

#[test]
fn times_are_those_of_packetdrill() {
    let ms = Duration::from_millis;
    for (text, time) in [
        ("0.250", Time::At(ms(250))),
        ("+1", Time::After(ms(1000))),
        ("+0.2~+0.21", Time::WithinAfter(ms(200), ms(210))),
        ("1.0~2.000000001", Time::Within(ms(1000), ms(2000) + Duration::from_nanos(1))),
        ("*", Time::Any),
    ] {
        assert_eq!(one(&format!("{text} > . 1:1(0)")).time, time, "{text}");
    }
}

#[test]
fn options_of_mptcp_have_names_and_numbers() {
    let list = |text: &str| segment(&format!("+0 > . 1:1(0) ack 1 <{text}>")).options.expect("options");
    let keys = list("mpcapable v1 flags[flag_a,flag_h] key[skey, ckey=2] mpcdatalen 100, ...");
    assert!(keys.open);
    let fields = [
        ("version", Value::Number(1)),
        ("flags", Value::Number(0x81)),
        ("key", Value::Name("skey".to_owned())),
        ("peer_key", Value::Let("ckey".to_owned(), 2)),
        ("keys", Value::Number(2)),
        ("mpcdatalen", Value::Number(100)),
    ];
    assert_eq!(keys.list, [Opt { name: "mpcapable", fields: fields.into() }]);
    let dss = list("dss dack8=1001 dsn4=1 ssn=1 dll=1000 nocs fin, mp_join_ack sender_hmac=auto");
    assert_eq!(dss.list[0].fields.len(), 6);
    assert_eq!(dss.list[1].fields, [("sender_hmac", Value::Auto)]);
    let address = list("add_address address_id=2 addr=10.9.1.2 hmac=wrong");
    assert_eq!(address.list[0].fields[1..], [("addr", Value::Number(0x0a09_0102)), ("hmac", Value::Wrong)]);
}

#[test]
fn calls_and_assertions_are_read() {
    let call = |text: &str| match one(text).event {
        Event::Call(call) => (call.verb, call.result),
        other => panic!("{other:?}"),
    };
    assert_eq!(call("0 socket(..., SOCK_STREAM, IPPROTO_MPTCP) = 3"), (Verb::Socket { mptcp: true }, Outcome::Value(3)));
    assert_eq!(
        call("+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)"),
        (Verb::Connect { fd: 3 }, Outcome::Error("EINPROGRESS".to_owned()))
    );
    assert_eq!(call("+0 write(4, ..., 1000) = 1000"), (Verb::Write { fd: 4, len: 1000 }, Outcome::Value(1000)));
    assert_eq!(call("+0 `ip mptcp endpoint del id 2`"), (Verb::RemoveEndpoint { id: 2 }, Outcome::Value(0)));
    let Event::Assert(assertions) = one("+0 %{ assert tcpi_snd_cwnd == 10; tcpi_state != TCP_CLOSE }%").event else {
        panic!("no assertion")
    };
    assert_eq!(assertions.iter().map(|a| (a.field.as_str(), a.value)).collect::<Vec<_>>(), [("tcpi_snd_cwnd", 10), ("tcpi_state", 7)]);
}

#[test]
fn the_head_describes_the_host() {
    let text = "kernel 6.1\ntolerance 1ms\nmtu 1400 // bytes\nsysctl net.ipv4.tcp_ecn=1\nsysctl net.ipv4.tcp_rmem=\"1 2 3\"\nlimits subflows 2 add_addr_accepted 1\n\
                endpoint 10.9.1.1 id 5 subflow backup\nsubflow 1 local 10.9.0.1 remote 10.9.2.2:99\n0 quiet";
    let head = parse("a.pkt", text).expect("it is right").head;
    assert_eq!(
        (head.kernels, head.tolerance, head.mtu, head.limits),
        (vec!["6.1".to_owned()], Duration::from_millis(1), 1400, Some((2, 1)))
    );
    assert_eq!(head.sysctls[1], ("net.ipv4.tcp_rmem".to_owned(), "1 2 3".to_owned()));
    assert_eq!((head.endpoints[0].id, head.endpoints[0].flags.len()), (Some(5), 2));
    assert_eq!(head.subflows[0].remote_port, Some(99));
}

#[test]
fn a_line_of_one_engine_says_why() {
    let reason =
        "0 quiet // the peer\n// Linux alone resets it.\nlinux: +0 > R 1:1(0)\nlinux: +0 > R 1:1(0)\nours: +0 quiet # it is silent";
    let lines = parse("a.pkt", reason).expect("it is right").lines;
    assert_eq!(
        lines.iter().map(|line| line.engine).collect::<Vec<_>>(),
        [None, Some(Engine::Linux), Some(Engine::Linux), Some(Engine::Ours)]
    );
    assert_eq!(
        wrong("0 quiet\n\nours: +0 quiet"),
        "a.pkt:3: a line for one engine alone needs a comment above it or behind it that says why."
    );
}

#[test]
fn a_line_of_one_kernel_says_why() {
    let text = "// Since 6.5 the SYN goes again after a second four times.\n6.1: +3 quiet\nlinux: 6.12,7.3: +1 quiet\n+1 quiet";
    let script = parse("a.pkt", text).expect("it is right");
    assert_eq!(script.head.kernels, ["6.1", "6.12", "7.3"], "without a line `kernel`");
    assert_eq!(
        script.lines.iter().map(|line| (line.engine, line.kernels.join(" "))).collect::<Vec<_>>(),
        [(None, "6.1".to_owned()), (Some(Engine::Linux), "6.12 7.3".to_owned()), (None, String::new())]
    );
    for (text, sentence) in [
        ("0 quiet\n6.1: +0 quiet", "a.pkt:2: a line for one kernel alone needs a comment above it or behind it that says why."),
        ("kernel 6.12\n6.1: +0 quiet // why", "a.pkt:2: the script is about 6.12, so no line is for 6.1 alone."),
        ("6.1: mtu 1400 // why\n0 quiet", "a.pkt:1: a line for one kernel alone needs a time."),
        ("kernel\n0 quiet", "a.pkt:1: which kernel is missing; it is written `kernel 6.1`."),
    ] {
        assert_eq!(wrong(text), sentence);
    }
}

#[test]
fn a_wrong_line_is_named_in_a_sentence() {
    for (text, sentence) in [
        ("", "a.pkt:1: the script has no line with a time."),
        ("0 quiet\nquiet", "a.pkt:2: a line begins with a time, such as `+0.010`, and not with `quiet`."),
        (
            "mut 1500\n0 quiet",
            "a.pkt:1: `mut` begins neither a line with a time nor one of `kernel`, `tolerance`, `mtu`, `sysctl`, `limits`, `endpoint`, `subflow` and `reads by call`.",
        ),
        ("mtu 20\n0 quiet", "a.pkt:1: the MTU is 20; it must be from 68 to 65535 bytes."),
        ("+0.2~0.3 > . 1:1(0)", "a.pkt:1: both ends of a range of times count from the same moment: `+0.2~+0.21` or `0.2~0.21`."),
        ("+0.3~+0.2 > . 1:1(0)", "a.pkt:1: a range of times ends before it begins."),
        ("+1.0000000001 quiet", "a.pkt:1: `1.0000000001` is no time in seconds, such as `0.250`."),
        (
            "+0 < Q 1:1(0)",
            "a.pkt:1: `Q` are no TCP flags: `S`, `F`, `R`, `P`, `.`, `U`, `E`, `W` and `A` are, each once, a digit for the last three, and `-` for none.",
        ),
        (
            "+0 < .. 1:1(0)",
            "a.pkt:1: `..` are no TCP flags: `S`, `F`, `R`, `P`, `.`, `U`, `E`, `W` and `A` are, each once, a digit for the last three, and `-` for none.",
        ),
        ("+0 < . 1:9(7) ack 1", "a.pkt:1: 1:9 are not 7 bytes."),
        ("+0 < . 1:1(0)", "a.pkt:1: a segment with the flag `.` needs an `ack`."),
        ("+0 < S 0:0(0) ack 1", "a.pkt:1: a segment with an `ack` needs the flag `.`."),
        ("+0 < S 0:0(0) win 70000", "a.pkt:1: the window is `70000`, which is no such number."),
        ("+0 < S 0:0(0) <mss 1460", "a.pkt:1: `>` is missing behind the options."),
        ("+0 < S 0:0(0) <...>", "a.pkt:1: `...` says nothing of an injected packet."),
        ("+0 > . 1:1(0) ack 1 <dss dack4=1 dack4=2>", "a.pkt:1: `dack4` stands there twice."),
        (
            "+0 > . 1:1(0) ack 1 <dss foo=1>",
            "a.pkt:1: `foo=1` is no field of the option `dss`; fields are dack4, dack8, dsn4, dsn8, ssn, dll, csum, fin.",
        ),
        ("+0 > . 1:1(0) ack 1 <mss>", "a.pkt:1: mss is the end of the line, which is no such number."),
        ("+0 > . 1:1(0) nonsense", "a.pkt:1: `nonsense` is not understood here."),
        ("+0 > icmp unreachable frag_needed mtu 1200 [1:2(1)]", "a.pkt:1: an endpoint's own ICMP is nothing that a script can expect."),
        ("+0 < [99] . 1:1(0) ack 1", "a.pkt:1: `[99]` is neither a subflow's number nor one of `[noecn]`, `[ect0]`, `[ect1]` and `[ce]`."),
        (
            "+0 fork() = 0",
            "a.pkt:1: `fork` is no call that a script can make; calls are socket, setsockopt, bind, listen, accept, connect, write, send, read, recv, shutdown and close.",
        ),
        ("+0 write(4, ..., much) = 1", "a.pkt:1: the length of `write` is `much`, which is no number."),
        ("+0 accept(3, ..., ...) = -1", "a.pkt:1: a result of -1 needs the name of an error, such as `-1 EAGAIN`."),
        (
            "+0 %{ tcpi_mood == 1 }%",
            "a.pkt:1: `tcpi_mood` is no field of TCP_INFO that a script can ask for; fields are tcpi_state, tcpi_ca_state, tcpi_backoff, tcpi_rto, tcpi_snd_mss, tcpi_unacked, tcpi_pmtu, tcpi_rtt, tcpi_rttvar, tcpi_snd_ssthresh, tcpi_snd_cwnd, tcpi_reordering, tcpi_total_retrans, tcpi_min_rtt, tcpi_delivered, tcpi_delivered_ce.",
        ),
        ("+0 `rm -rf x`", "a.pkt:1: `rm -rf x` is no command that a script can run; `ip mptcp endpoint delete id N` is one."),
    ] {
        assert_eq!(wrong(text), sentence, "{text}");
    }
}

#[test]
fn whatever_stands_in_a_file_is_a_fault_and_no_panic() {
    let whole = "ours: +0.1~+0.2 > [ce] [1] FP. 1:9(8) ack 5 win 7 <mss 1, TS val a ecr *, mpcapable v1 flags[flag_h] key[a=0x7f, b]> // ü";
    for end in (0..whole.len()).filter(|&end| whole.is_char_boundary(end)) {
        for junk in ["", "ü", "[", "<", "(", "99999999999999999999999999999999999999999", "`", "%{", "]"] {
            let _either = parse("a.pkt", &format!("{}{junk}", &whole[..end]));
        }
    }
}
