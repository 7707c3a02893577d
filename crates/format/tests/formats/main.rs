//! Every format, with representative records and with arbitrary bytes in every field.

mod arbitrary;
mod injection;
mod places;
mod round_trip;
mod samples;
mod schemas;
