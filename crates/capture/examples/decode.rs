//! Decodes a packet file and counts: what packets, TCP and the protocol cost without the recorder.
//!
//!     cargo run --release -p tacho-capture --example decode -- FILE.pcap
//!
//! Prints a line of JSON: statements, rows and bytes of frames.

use std::path::PathBuf;
use std::process::ExitCode;

use tacho_capture::flows::{Budget, Flows};
use tacho_capture::link;
use tacho_capture::mysql::{Event, Identity, Output};
use tacho_capture::source::file;

#[derive(Default)]
struct Count {
    statements: u64,
    rows: u64,
    lost: u64,
}

impl Output for Count {
    fn emit(&mut self, _: &Identity, _: i64, event: &Event<'_>) {
        match event {
            Event::End(end) => {
                self.statements += 1;
                self.rows += end.rows_sent.unwrap_or(0);
            }
            Event::Lost { .. } => self.lost += 1,
            _ => {}
        }
    }
}

fn main() -> ExitCode {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: decode FILE.pcap");
        return ExitCode::from(2);
    };
    let mut flows = Flows::new(Vec::new(), Budget::default());
    let (mut count, mut bytes) = (Count::default(), 0_u64);
    let read = file::read(&path, |frame| {
        bytes += frame.bytes.len() as u64;
        let segment = frame
            .link
            .and_then(|link| link::segment(link, frame.bytes, frame.frame_bytes, frame.ts_us));
        if let Some(segment) = segment {
            flows.segment(&segment, &mut count);
        }
        Ok::<(), file::FileError>(())
    });
    if let Err(error) = read {
        eprintln!("decode: {error}");
        return ExitCode::from(1);
    }
    flows.finish(&mut count);
    println!(
        "{{\"statements\":{},\"rows\":{},\"lost\":{},\"frame_bytes\":{bytes}}}",
        count.statements, count.rows, count.lost
    );
    ExitCode::SUCCESS
}
