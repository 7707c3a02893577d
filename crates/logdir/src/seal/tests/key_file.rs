//! The key file on a real disk: SQL can neither read it nor create one that is trusted.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt as _;

use super::*;
use crate::error::FileErrorKind;
use crate::fs::RealFs;

fn seal(above: &Path) -> Result<(), FileErrorKind> {
    let options = Options { rotate_bytes: 0 };
    let (mut files, opened) =
        LogFiles::open(RealFs, &above.join("log"), options).expect("opens the log");
    let last_seq = opened.last_seq.expect("known").unwrap_or(0);
    let key_file = above.join("key");
    let options = SealOptions { key_file, checkpoint_interval_s: 60, may_break: true };
    let sealed = files.seal(&options, last_seq).map_err(|error| error.kind())?;
    assert_eq!(sealed.declared, None, "it continues");
    files.write(line(last_seq + 1).as_bytes(), &mut 0).expect("writes");
    files.close().expect("closes");
    Ok(())
}

#[test]
fn it_cannot_be_opened_by_name_and_old_files_are_converted() {
    let above = tempfile::tempdir().expect("a directory");
    let key = above.path().join("key");
    let mode = || fs::metadata(&key).expect("the key").permissions().mode() & 0o7777;
    let set_mode = |mode| fs::set_permissions(&key, Permissions::from_mode(mode)).expect("sets");
    // A file that SQL or a crash can leave in the place of the temporary file.
    fs::write(above.path().join("key.new"), "junk").expect("writes");
    for before in [None, Some(0), Some(0o600), Some(0o400)] {
        before.iter().for_each(|before| set_mode(*before));
        assert_eq!(seal(above.path()), Ok(()), "{before:?}");
        assert_eq!(mode(), 0, "{before:?}");
        assert!(!above.path().join("key.new").exists());
        if crate::private_file::user_id() != 0 {
            let refused = fs::read(&key).expect_err("refused");
            assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        }
    }
    for planted in [0o640, 0o644, 0o604] {
        set_mode(planted);
        assert_eq!(seal(above.path()), Err(FileErrorKind::KeyNotSecret), "{planted:o}");
    }
    set_mode(0);
    fs::hard_link(&key, above.path().join("second")).expect("links");
    assert_eq!(seal(above.path()), Err(FileErrorKind::KeyNotSecret));
}
