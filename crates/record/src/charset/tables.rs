//! Generated tables; see `scripts/charset-tables.py`.

#[rustfmt::skip]
pub(super) mod big5;
#[rustfmt::skip]
pub(super) mod cp932;
#[rustfmt::skip]
pub(super) mod eucjpms;
#[rustfmt::skip]
pub(super) mod euckr;
#[rustfmt::skip]
pub(super) mod gb2312;
#[rustfmt::skip]
pub(super) mod gbk;
#[rustfmt::skip]
pub(super) mod one_byte;
#[rustfmt::skip]
pub(super) mod sjis;
#[rustfmt::skip]
pub(super) mod ujis;
