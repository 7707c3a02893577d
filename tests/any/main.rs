//! Guarantees of the recorder with every server. `TACHO_SERVER` selects the server; the default is
//! the MariaDB of this machine. Tests in modules `mariadb_only` are not for MySQL.

mod capture_answers;
mod capture_clients;
mod capture_disk;
mod capture_ends;
mod capture_enrich;
mod capture_large;
mod capture_restart;
mod capture_threads;
mod capture_tls;
mod crash;
mod crash_moments;
mod digests;
mod disk;
mod durability;
mod evidence;
mod external;
mod file_privilege;
mod filter_recipes;
mod hub_activity;
mod hub_faults;
mod identity;
mod retention_files;
mod retention_unshipped;
mod scene;
mod setting_values;
mod slots;
mod status;
mod table_rules;
mod top;
mod verify;
