//! Zone: outside. What does auditing cost on this server? The library of `tacho bench`.
//!
//! ```text
//! methods/*.toml ─> method ─> switch ──┐            ┌── load ─ lua/measure.lua ─ histogram
//!                                      ▼            ▼
//!          run ─> target ─> plan ─> blocks ─> sample (status, /proc, latencies)
//!                                      │
//!                                      ▼
//!                          figures (pairs, A/A, stats) ─> lines ─> answer, table, report
//! ```
//!
//! | module | contents |
//! |---|---|
//! | [`method`] | methods of auditing a server, declared in files |
//! | [`workload`], [`load`] | the work of the clients |
//! | [`histogram`] | latencies, counted by the load, read while it runs |
//! | [`target`] | the server: the user's, or a private one of [`tacho_sandbox`] |
//! | [`switch`], [`undo`] | switches methods, and restores the server |
//! | [`plan`], [`blocks`], [`run`] | the order of the blocks, and the run |
//! | [`sample`], [`proc`], [`priority`] | counters at the edges of a block, read together |
//! | [`instructions`] | counted by callgrind instead of measured |
//! | [`sides`] | two private servers at the same time, instead of neighbouring blocks of one |
//! | [`figures`], [`stats`], [`signed_rank`] | from blocks to ratios with intervals |
//! | [`lines`], [`output`] | results and progress |
//! | [`again`] | the results of an earlier run, computed from its blocks |
//! | [`answer`], [`table`], [`report`] | what the figures say, in words, as a table, as a page |
//! | [`stop`] | interrupts |
//!
//! Errors are `anyhow` errors: their only reader is the user of the command.
//! `docs/decisions/2026-11-21-paired-blocks.md` has the reasons for this way of measuring.

pub mod again;
pub mod answer;
pub mod blocks;
pub mod companion;
pub mod figures;
pub mod histogram;
pub mod instructions;
pub mod lines;
pub mod load;
pub mod method;
mod notes;
pub mod output;
pub mod plan;
pub mod priority;
pub mod proc;
pub mod report;
pub mod run;
pub mod sample;
pub mod sides;
pub mod signed_rank;
pub mod stats;
pub mod stop;
pub mod switch;
pub mod table;
pub mod target;
pub mod undo;
pub mod workload;
