//! `polypath_fuzz::tunnel_files` under libFuzzer; `make fuzz` builds and runs it.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| polypath_fuzz::tunnel_files(bytes));
