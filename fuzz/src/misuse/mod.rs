//! stub
#[derive(Debug, arbitrary::Arbitrary)]
pub struct Input;
pub fn run(_: &Input) {}
