//! Tells cargo that the binary contains the files of the web UI.

fn main() {
    println!("cargo:rerun-if-changed=../../ui/dist");
}
