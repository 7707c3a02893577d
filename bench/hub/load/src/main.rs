//! Zone: outside.
//!
//! Records for the benchmarks of the hub (`bench/hub`), the same ones in every run:
//!
//! ```sh
//! hub_load log DIR RECORDS HOURS [SERVERS [FILE_MIB]]   # DIR/db1 …: sealed log directories
//! hub_load paced DIR RATE SECONDS    # appends to one log, with the time of the clock
//! hub_load store DATA RECORDS DAYS   # an index without a replica, for searches only
//! ```
//!
//! `traffic` says what the records are like.

mod log;
mod paced;
mod store;
mod traffic;

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "usage: hub_load log DIR RECORDS HOURS [SERVERS [FILE_MIB]]\n       \
                     hub_load paced DIR RATE SECONDS\n       hub_load store DATA RECORDS DAYS";

fn run(arguments: &[&str]) -> Result<(), Box<dyn Error>> {
    match arguments {
        ["log", dir, records, hours, more @ ..] if more.len() <= 2 => {
            let number = |at: usize, default: u64| {
                more.get(at).map_or(Ok(default), |text| text.parse::<u64>())
            };
            let rotate_bytes = number(1, log::FILE_MIB)? << 20;
            log::write(
                Path::new(dir),
                records.parse()?,
                hours.parse()?,
                number(0, 1)?,
                rotate_bytes,
            )
        }
        ["paced", dir, rate, seconds] => {
            paced::write(Path::new(dir), rate.parse()?, seconds.parse()?)
        }
        ["store", data, records, days] => {
            store::fill(Path::new(data), records.parse()?, days.parse()?)
        }
        _ => Err(USAGE.into()),
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("hub_load: {error}");
            ExitCode::FAILURE
        }
    }
}
