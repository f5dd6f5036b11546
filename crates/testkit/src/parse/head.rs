//! The lines before the first one with a time.

use super::cursor::{Cursor, Read};
use crate::script::{Endpoint, Head, SubflowAddresses};
use polypath_base::Duration;
use std::net::Ipv4Addr;

const KNOWN: &str = "`kernel`, `tolerance`, `mtu`, `sysctl`, `limits`, `endpoint`, `subflow` and `reads by call`";

pub(super) fn take(head: &mut Head, cursor: &mut Cursor<'_>) -> Read<()> {
    let shown = cursor.shown();
    match cursor.word() {
        "kernel" => head.kernels = take_kernels(cursor)?,
        "tolerance" => {
            let text = cursor.until("ms", "behind the tolerance")?;
            let ms: u64 = text.parse().map_err(|_| format!("the tolerance is `{text}`, which is no number of milliseconds"))?;
            head.tolerance = Duration::from_millis(ms);
        }
        "mtu" => head.mtu = cursor.number("the MTU").and_then(at_least_68)?,
        "sysctl" => {
            let name = cursor.until("=", "between the name of a sysctl and its value")?;
            let value = cursor.rest().trim_matches('"').to_owned();
            *cursor = Cursor::new("");
            if name.is_empty() || value.is_empty() {
                return Err("a sysctl is written `sysctl net.ipv4.tcp_ecn=1`".to_owned());
            }
            head.sysctls.push((name.to_owned(), value));
        }
        "limits" => {
            cursor.expect("subflows", "behind `limits`")?;
            let subflows = cursor.number("the limit of subflows")?;
            cursor.expect("add_addr_accepted", "behind the limit of subflows")?;
            head.limits = Some((subflows, cursor.number("the limit of accepted addresses")?));
        }
        "endpoint" => head.endpoints.push(take_endpoint(cursor)?),
        "subflow" => head.subflows.push(take_subflow(cursor)?),
        "reads" => {
            cursor.expect("by call", "behind `reads`")?;
            head.reads_by_call = true;
        }
        _ => return Err(format!("{shown} begins neither a line with a time nor one of {KNOWN}")),
    }
    cursor.finish()
}

fn take_kernels(cursor: &mut Cursor<'_>) -> Read<Vec<String>> {
    let kernels: Vec<String> = cursor.rest().split_whitespace().map(str::to_owned).collect();
    *cursor = Cursor::new("");
    if kernels.is_empty() { Err("which kernel is missing; it is written `kernel 6.1`".to_owned()) } else { Ok(kernels) }
}

/// RFC 791 section 3.1 has no smaller one.
fn at_least_68(mtu: u32) -> Read<u32> {
    if (68..=65_535).contains(&mtu) { Ok(mtu) } else { Err(format!("the MTU is {mtu}; it must be from 68 to 65535 bytes")) }
}

fn take_address(cursor: &mut Cursor<'_>) -> Read<Ipv4Addr> {
    let shown = cursor.shown();
    let text = cursor.take(|c| c.is_ascii_digit() || c == '.');
    text.parse().map_err(|_| format!("{shown} is no IPv4 address"))
}

fn take_endpoint(cursor: &mut Cursor<'_>) -> Read<Endpoint> {
    let mut endpoint = Endpoint { address: take_address(cursor)?, id: None, flags: Vec::new() };
    while !cursor.is_empty() {
        let shown = cursor.shown();
        match cursor.word() {
            "id" => endpoint.id = Some(cursor.number("the id of the endpoint")?),
            flag @ ("subflow" | "signal" | "backup" | "fullmesh") => endpoint.flags.push(flag.to_owned()),
            _ => return Err(format!("{shown} is none of `id`, `subflow`, `signal`, `backup` and `fullmesh`")),
        }
    }
    Ok(endpoint)
}

fn take_subflow(cursor: &mut Cursor<'_>) -> Read<SubflowAddresses> {
    let number = cursor.number("the number of the subflow")?;
    cursor.expect("local", "behind the number of the subflow")?;
    let local = take_address(cursor)?;
    cursor.expect("remote", "behind the local address")?;
    let remote = take_address(cursor)?;
    let remote_port = if cursor.eat(":") { Some(cursor.number("the port")?) } else { None };
    Ok(SubflowAddresses { number, local, remote, remote_port })
}
