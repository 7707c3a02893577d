//! Zone: outside. What does auditing cost on this server? The library of `tacho bench`.
//!
//! ```text
//! methods/*.toml ─> method ─> switch ──┐            ┌── load ─ lua/measure.lua ─ histogram
//!                                      ▼            ▼
//!          run ─> target ─> plan ─> blocks ─> sample (status, /proc, latencies)
//!                                      │
//!                                      ▼
//!                          figures (pairs, A/A, stats) ─> lines ─> table, report
//! ```
//!
//! | module | what it is |
//! |---|---|
//! | [`method`] | ways to audit a server, declared in files |
//! | [`workload`], [`load`] | what clients do meanwhile |
//! | [`histogram`] | latencies, counted by the load, read while it runs |
//! | [`target`] | the server: one's own, or a private one of [`tacho_sandbox`] |
//! | [`switch`], [`undo`] | methods on and off, and everything put back |
//! | [`plan`], [`blocks`], [`run`] | the order of the blocks, and the run |
//! | [`sample`], [`proc`], [`priority`] | counters at the edges of a block, read at once |
//! | [`instructions`] | counted by callgrind instead of measured |
//! | [`figures`], [`stats`] | from blocks to ratios with intervals |
//! | [`lines`], [`output`], [`table`], [`report`] | what is told |
//! | [`stop`] | interrupts |
//!
//! Errors are `anyhow` errors: their only reader is the person in front of the command.
//! `docs/decisions/2026-11-21-paired-blocks.md` says why it measures as it does.

pub mod blocks;
pub mod companion;
pub mod figures;
pub mod histogram;
pub mod instructions;
pub mod lines;
pub mod load;
pub mod method;
pub mod output;
pub mod plan;
pub mod priority;
pub mod proc;
pub mod report;
pub mod run;
pub mod sample;
pub mod stats;
pub mod stop;
pub mod switch;
pub mod table;
pub mod target;
pub mod undo;
pub mod workload;
