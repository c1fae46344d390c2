//! A few seconds of Larson's pattern; ci/soak-larson runs it for minutes.

use crate::common;

use common::{Language, Link, compile, preload, run};

#[test]
fn threads_hand_their_blocks_on() {
    let program = compile(Language::C, "larson.c", Link::Plain);
    let mut command = common::target::start(&program);
    command.args(["3", "4"]);
    let reports = preload(&mut command);
    run(&mut command);
    reports.assert_served();
}
