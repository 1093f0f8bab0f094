//! Rebuilds the crate when a profile is added to or removed from `profiles/`; edits of an embedded
//! profile are seen by the compiler itself.

fn main() {
    println!("cargo::rerun-if-changed=../../profiles");
}
