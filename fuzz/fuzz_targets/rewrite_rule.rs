//! A rule that rewrites statements, from a table or a file: a program or an error, without a panic.
#![no_main]

use tacho_rewrite::compile::{Compiler, RuleSource};

libfuzzer_sys::fuzz_target!(|rule: (&[u8], Option<&[u8]>, &[u8])| {
    let (pattern, database, replacement) = rule;
    let mut compiler = Compiler::default();
    if compiler.add(&RuleSource { id: 1, pattern, database, replacement }).is_ok() {
        let _ = compiler.finish();
    }
});
