//! Digest and compression of a body.

use std::borrow::Cow;

use tacho_ship::protocol::{BODY_BYTES_MAX, ContentDigest};
use zstd::zstd_safe;

use super::Refusal;

/// zstd's `dstSize_tooSmall`, as its functions return it.
const BUFFER_TOO_SMALL: usize = 0_usize.wrapping_sub(70);

/// How a body is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// As it is.
    Plain,
    /// One zstd frame.
    Zstd,
}

/// Bytes that the decompressed body needs: what its frame says, which [`decode`] does not exceed.
pub fn unpacked_bytes(sent: &[u8], coding: Coding) -> Result<usize, Refusal> {
    match coding {
        Coding::Plain => Ok(0),
        Coding::Zstd => Ok(claimed_bytes(sent)?.unwrap_or(BODY_BYTES_MAX)),
    }
}

/// Checks the digest and decompresses. Needs no more memory than [`unpacked_bytes`] and a constant.
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

fn claimed_bytes(sent: &[u8]) -> Result<Option<usize>, Refusal> {
    let bytes = zstd_safe::get_frame_content_size(sent);
    let bytes = bytes.map_err(|error| Refusal::BadBody(error.to_string()))?;
    match bytes.map(usize::try_from) {
        None => Ok(None),
        Some(Ok(bytes)) if bytes <= BODY_BYTES_MAX => Ok(Some(bytes)),
        Some(_) => Err(Refusal::TooLarge),
    }
}

/// In one piece: so the decoder needs no window beside the body.
fn unpack(sent: &[u8]) -> Result<Vec<u8>, Refusal> {
    let bad = |code| Refusal::BadBody(zstd_safe::get_error_name(code).to_owned());
    let claimed = claimed_bytes(sent)?;
    if zstd_safe::find_frame_compressed_size(sent).map_err(bad)? != sent.len() {
        return Err(Refusal::BadBody("there is something behind the frame".to_owned()));
    }
    let mut body = Vec::with_capacity(claimed.unwrap_or(BODY_BYTES_MAX));
    match zstd_safe::decompress(&mut body, sent) {
        Ok(_) => Ok(body),
        Err(code) if claimed.is_none() && code == BUFFER_TOO_SMALL => Err(Refusal::TooLarge),
        Err(code) => Err(bad(code)),
    }
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
        assert!(matches!(decode(&wide, Coding::Zstd, None), Err(Refusal::TooLarge)));
        // A frame with a size that is not its own.
        let mut lying = zstd::bulk::compress(&[7; 300], 1).unwrap();
        assert_eq!(unpacked_bytes(&lying, Coding::Zstd).unwrap(), 300);
        lying[5] -= 1;
        assert!(unpacked_bytes(&lying, Coding::Zstd).unwrap() < 300);
        assert!(matches!(decode(&lying, Coding::Zstd, None), Err(Refusal::BadBody(_))));
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
