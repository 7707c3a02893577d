//! Attacks on a sealed log, each by its name. The attacker has all files and no secret key, but
//! for what a test says.

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod doubled;
mod hostile;
mod keys;
mod removal;
mod states;
mod verdicts;
