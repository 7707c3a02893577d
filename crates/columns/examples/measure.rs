//! What a file of lines takes by columns, and how fast: `measure FILE`. It prints a line of JSON.
//! Times are processor time of one thread, the best of three rounds.

use std::fs::File;
use std::io::{Cursor, Write as _};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tacho_columns::{CONTENT_BYTES, ColumnsReader, Writer};

const ROUNDS: usize = 3;

/// Processor time of this thread: other programs may run beside it.
fn now() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("usage: measure FILE")?;
    let content = std::fs::read(path)?;
    let lines = content.iter().filter(|byte| **byte == b'\n').count();
    let (mut encode, mut decode, mut one) = (Duration::MAX, Duration::MAX, Duration::MAX);
    let mut packed = Vec::new();
    for _ in 0..ROUNDS {
        let begin = now();
        let mut writer = Writer::new(Cursor::new(Vec::with_capacity(content.len() / 8)))?;
        content.chunks(CONTENT_BYTES).try_for_each(|part| writer.part(part))?;
        packed = writer.finish()?.into_inner();
        encode = encode.min(now() - begin);

        let mut file = tempfile::tempfile()?;
        file.write_all(&packed)?;
        let again = || -> std::io::Result<File> { file.try_clone() };
        let mut buffer = vec![0; CONTENT_BYTES];
        let begin = now();
        ColumnsReader::open(again()?)?.read_at(&mut buffer[..1], content.len() as u64 / 2)?;
        one = one.min(now() - begin);
        let reader = ColumnsReader::open(again()?)?;
        let begin = now();
        let mut offset = 0;
        while offset < content.len() {
            let count = reader.read_at(&mut buffer, offset as u64)?;
            if buffer[..count] != content[offset..offset + count] {
                return Err(format!("other bytes at {offset}").into());
            }
            offset += count;
        }
        decode = decode.min(now() - begin);
    }
    let speed = |time: Duration| content.len() as f64 / 1e6 / time.as_secs_f64();
    println!(
        "{{\"lines\":{lines},\"bytes_a_line\":{:.1},\"stored_a_line\":{:.2},\"encode_mb_s\":{:.0},\
         \"decode_mb_s\":{:.0},\"first_slice_ms\":{:.1}}}",
        content.len() as f64 / lines as f64,
        packed.len() as f64 / lines as f64,
        speed(encode),
        speed(decode),
        one.as_secs_f64() * 1e3,
    );
    Ok(())
}
