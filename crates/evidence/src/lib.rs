//! Zone: outside. Evidence bundles: records of a hub, with everything that proves them on a machine
//! without the hub. `docs/specs/evidence.md` is the normative text.
//!
//! | module | contents |
//! |---|---|
//! | [`container`] | the file: a tar archive with one spelling |
//! | [`names`] | the names of its members |
//! | [`manifest`] | what the hub states, and its signature |
//! | [`record`] | the lines of `records.jsonl` |
//! | [`make`] | the hub's side |
//! | [`check`] | the verifier's side: trusts no byte |

pub mod check;
pub mod container;
pub mod make;
pub mod manifest;
pub mod names;
pub mod record;
