//! What server and recorder say to each other over a socket, as either side reads it and puts it into
//! effect.
#![no_main]

use tacho_recorder::control::{ConfigChange, Control, Status};
use tacho_recorder::external::message::{Figures, ToRecorder, ToServer};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    match serde_json::from_slice::<ToRecorder>(input) {
        Ok(ToRecorder::Attach(attach)) => {
            let control = Control::default();
            attach.settings.apply(&control);
            attach.filters.apply(&control);
        }
        Ok(ToRecorder::Settings(settings)) => settings.apply(&Control::default()),
        Ok(ToRecorder::Filters(filters)) => filters.apply(&Control::default()),
        Ok(ToRecorder::Config(change)) => drop(ConfigChange::from(change)),
        _ => {}
    }
    let _ = serde_json::from_slice::<ToServer>(input);
    if let Ok(figures) = serde_json::from_slice::<Figures>(input) {
        figures.add_to(&Status::default(), &Figures::default());
    }
});
