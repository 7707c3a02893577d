//! The messages between server and recorder over a socket, as either side reads and applies them.
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
