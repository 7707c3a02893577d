//! Every format, over representative records and over arbitrary bytes in every field.

mod arbitrary;
mod injection;
mod places;
mod round_trip;
mod samples;
mod schemas;
