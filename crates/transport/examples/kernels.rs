//! Prints the page on how the modelled kernels differ:
//! `cargo run -p polypath-transport --example kernels > docs/reference/kernels.md`.

fn main() {
    print!("{}", polypath_transport::stack::page());
}
