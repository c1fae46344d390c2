//! hakmem-bench
fn main() {}
