//! Attacks on a sealed log, each by its name. The attacker has all files and no secret key, unless
//! a test says otherwise.

#[path = "../support/mod.rs"]
mod support;

mod changes;
mod doubled;
mod hostile;
mod keys;
mod removal;
mod states;
mod verdicts;
