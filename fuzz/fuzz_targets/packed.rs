//! An untrusted compressed or encrypted log file, as `tail` and `convert` read it: lines or an
//! error, in bounded memory. Encrypted files have the right key, as a hostile file of its owner
//! would.
#![no_main]

use std::io::{BufReader, Read as _};
use std::sync::LazyLock;

use age::secrecy::ExposeSecret as _;
use libfuzzer_sys::fuzz_target;
use tacho_record::Line;
use tacho_logdir::Form;
use tacho_logdir::read::content;
use tacho_logdir::read::identities::Identities;
use tacho_logdir::read::line_limit;

/// How much of the decompressed data is read: a few bytes of zstd can produce any amount.
const BYTES_MAX: u64 = 16 << 20;
const LINE_BYTES_MAX: usize = 1 << 20;

struct Keys {
    identities: Identities,
    public: age::x25519::Recipient,
}

static KEYS: LazyLock<Keys> = LazyLock::new(|| {
    let identity = age::x25519::Identity::generate();
    let file = tempfile::NamedTempFile::new().expect("makes");
    std::fs::write(file.path(), identity.to_string().expose_secret()).expect("writes");
    let identities = Identities::read(&[file.path().to_owned()]).expect("a key");
    Keys { identities, public: identity.to_public() }
});

fn read(bytes: &[u8], form: Form) {
    let Ok(source) = content::unpack(bytes, form, &KEYS.identities) else { return };
    let mut source = BufReader::new(source.take(BYTES_MAX));
    let mut line = Vec::new();
    while let Ok(length) = line_limit::read_until(&mut source, b'\n', &mut line, LINE_BYTES_MAX) {
        if length.bytes == 0 {
            break;
        }
        assert!(line.len() <= LINE_BYTES_MAX);
        let _ = Line::parse(line.strip_suffix(b"\n").unwrap_or(&line));
    }
}

// The first bytes determine the form of the rest and, if it is encrypted here, which byte is
// changed afterwards or where it ends.
fuzz_target!(|input: &[u8]| {
    let Some((&[kind, change, a0, a1], rest)) = input.split_first_chunk::<4>() else { return };
    let form = Form::ALL[usize::from(kind) % Form::ALL.len()];
    if kind < 128 || !form.is_encrypted() {
        return read(rest, form);
    }
    let mut encrypted = age::encrypt(&KEYS.public, rest).expect("memory can be written");
    let at = usize::from(u16::from_le_bytes([a0, a1])) % encrypted.len();
    match change {
        255 => encrypted.truncate(at),
        change => encrypted[at] ^= change,
    }
    read(&encrypted, form);
});
