//! Digest and compression of a body.

use std::borrow::Cow;
use std::io::Read as _;

use tacho_ship::protocol::{BODY_BYTES_MAX, ContentDigest, WINDOW_LOG_MAX};

use super::Refusal;

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// As it is.
    Plain,
    /// One zstd frame.
    Zstd,
}

/// Checks the digest and decompresses. Never has more than [`BODY_BYTES_MAX`] bytes in memory, and
/// trusts no size in a frame.
pub fn decode<'a>(
    sent: &'a [u8],
    coding: Coding,
    digest: Option<&ContentDigest>,
) -> Result<Cow<'a, [u8]>, Refusal> {
    if sent.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    if digest.is_some_and(|digest| *digest != ContentDigest::of(sent)) {
        return Err(Refusal::Digest);
    }
    match coding {
        Coding::Plain => Ok(Cow::Borrowed(sent)),
        Coding::Zstd => unpack(sent).map(Cow::Owned),
    }
}

fn unpack(sent: &[u8]) -> Result<Vec<u8>, Refusal> {
    let bad = |error: std::io::Error| Refusal::BadBody(error.to_string());
    let mut decoder = zstd::Decoder::with_buffer(sent).map_err(bad)?.single_frame();
    decoder.window_log_max(WINDOW_LOG_MAX).map_err(bad)?;
    let mut body = Vec::new();
    decoder.by_ref().take(BODY_BYTES_MAX as u64 + 1).read_to_end(&mut body).map_err(bad)?;
    if body.len() > BODY_BYTES_MAX {
        return Err(Refusal::TooLarge);
    }
    if !decoder.finish().is_empty() {
        return Err(Refusal::BadBody("there is something behind the frame".to_owned()));
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 3).unwrap()
    }

    #[test]
    fn bodies_are_read_as_they_were_sent() {
        let text = b"line\n".repeat(1000);
        let sent = packed(&text);
        let digest = ContentDigest::of(&sent);
        assert_eq!(decode(&sent, Coding::Zstd, Some(&digest)).unwrap(), text);
        assert_eq!(decode(&text, Coding::Plain, None).unwrap(), text);
        assert_eq!(decode(&packed(b""), Coding::Zstd, None).unwrap(), b"".as_slice());
        let damaged = decode(&text, Coding::Plain, Some(&digest));
        assert!(matches!(damaged, Err(Refusal::Digest)));
    }

    #[test]
    fn bombs_are_refused() {
        let zeros = vec![0; BODY_BYTES_MAX + 1];
        let small = packed(&zeros);
        assert!(small.len() < 10_000);
        assert!(matches!(decode(&small, Coding::Zstd, None), Err(Refusal::TooLarge)));
        assert!(matches!(decode(&zeros, Coding::Plain, None), Err(Refusal::TooLarge)));
        assert_eq!(decode(&packed(&zeros[1..]), Coding::Zstd, None).unwrap(), &zeros[1..]);
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        encoder.window_log(24).unwrap();
        std::io::Write::write_all(&mut encoder, &vec![7; 1 << 25]).unwrap();
        let wide = encoder.finish().unwrap();
        assert!(matches!(decode(&wide, Coding::Zstd, None), Err(Refusal::BadBody(_))));
    }

    #[test]
    fn what_is_not_one_frame_is_refused() {
        let one = packed(b"one");
        let two = [one.as_slice(), &one].concat();
        for bad in [&b"plain"[..], b"", &one[..one.len() - 1], &two] {
            assert!(matches!(decode(bad, Coding::Zstd, None), Err(Refusal::BadBody(_))), "{bad:?}");
        }
    }
}
