//! The component in MySQL 9.7, or with `TACHO_SERVER=mysql-8.0` the plugin there. Tests in modules `v97` and
//! `v80` are for one of them.

mod bench;
mod capture;
mod clients;
mod component;
mod digests;
mod ends;
mod hotzone;
mod install;
mod notices;
mod pmp;
mod privileges;
mod programs;
mod replication;
mod rewrite;
mod rewrite_changes;
mod rewrite_load;
mod rewrite_rules;
mod rules;
mod scene;
mod secrets;
mod settings;
mod statements;
mod traces;
mod traces_changes;
mod upgrade;
mod x;
