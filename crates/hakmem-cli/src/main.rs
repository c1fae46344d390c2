//! hakmem-cli
fn main() {}
