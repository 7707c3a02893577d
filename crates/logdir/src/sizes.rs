//! What is known of the sizes of closed files.

use std::collections::BTreeMap;

use super::ending::Parts;
use super::name::FileName;

/// How long closed files are: what there was of each when it was looked at, and its bytes. They do not
/// change any more, but by becoming another form.
#[derive(Default)]
pub(crate) struct Sizes(pub(crate) BTreeMap<FileName, (Parts, u64)>);
