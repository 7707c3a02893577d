//! Sections of the manual pages that the definition of a command does not have.

/// A term and its meaning.
pub type Fact = (&'static str, &'static str);

/// The contents of one page.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The name of the page, such as `tacho-tail`.
    pub name: &'static str,
    /// Commands and what they do.
    pub examples: &'static [Fact],
    /// Files, in groups that pages share.
    pub files: &'static [&'static [Fact]],
    /// Pages of the same section.
    pub see_also: &'static [&'static str],
    /// The path of the guide; `scripts/stage.sh` replaces its beginning with the directory of the
    /// installation.
    pub guide: &'static str,
}

/// Those of a page.
///
/// # Panics
/// There are none at all.
pub(crate) fn of(pages: &'static [Facts], name: &str) -> &'static Facts {
    pages.iter().find(|page| page.name == name).unwrap_or(&pages[0])
}
