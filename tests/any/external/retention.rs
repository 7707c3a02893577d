//! A recorder receives limits of retention, and the operator's requests, through its socket.

use tacho_tests::log::file_names;
use tacho_tests::wait;

use super::{RecorderProcess, scene, set, status, writer};

#[test]
fn a_recorder_keeps_as_many_files_as_are_set() {
    let mut scene = scene(&["tacho-retention-files=3"]);
    let log = scene.log_directory();
    let count = || file_names(&log, ".jsonl").len();
    let recorder = RecorderProcess::start(&scene);
    recorder.wait_until_it_writes(&scene);
    for _ in 0..6 {
        let before = status(&scene, "Tacho_current_file");
        set(&scene, "tacho_rotate_now = 1");
        wait::until("there is another file", || status(&scene, "Tacho_current_file") != before);
    }
    let told = scene.server.product.named("more closed log files than tacho_retention_files=3");
    wait::until("it says why none goes", || {
        recorder.said().contains(&told) || scene.server.error_log().contains(&told)
    });
    assert_eq!((status(&scene, "Tacho_files_removed").as_str(), count()), ("0", 7));
    set(&scene, "tacho_retention_files = 2");
    wait::until("two closed ones are left", || count() == 3);
    wait::until("it is counted", || status(&scene, "Tacho_files_removed") == "4");
    assert!(writer(&scene).starts_with("EXTERNAL"), "it was the recorder");
    scene.server.stop().expect("stopped");
    recorder.end();
}
