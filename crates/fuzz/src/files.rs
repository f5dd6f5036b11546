//! Files that a person gives the tunnel.

use polypath_tunneld::{config, import};
use std::path::Path;

/// A tunnel's file, in TOML; or MPT's `interface.conf`, a zero, and one of its connections, whose
/// translation must be a file that can be read.
pub fn tunnel_files(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // Keys lie in files of their own, and a fuzzer may name any file.
    if text.contains("private_key") || text.contains("preshared_key") {
        return;
    }
    let Some((interfaces, connection)) = text.split_once('\0') else {
        let _ = config::parse(Path::new("fuzz.toml"), &text);
        return;
    };
    if let Ok(ours) = import::translate(interfaces, connection, Path::new("fuzz.conf")) {
        assert!(ours.len() <= 64 * 1024, "{} bytes from {}", ours.len(), bytes.len());
        if let Err(error) = config::parse(Path::new("fuzz.toml"), &ours) {
            panic!("the translation cannot be read: {error}\n{ours}");
        }
    }
}
