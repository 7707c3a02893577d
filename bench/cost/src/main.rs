//! Zone: outside. Does what the plugin does, for `scripts/instructions.py` and the benchmarks. One
//! program, because what takes time is to link it as the plugin is linked.

mod probe;
mod rewrite;
mod writer;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (what, rest) = match arguments.split_first() {
        Some((what, rest)) => (what.as_str(), rest),
        None => ("", &[][..]),
    };
    match what {
        "probe" => probe::run(rest),
        "rewrite" => rewrite::run(rest),
        "writer" => writer::run(rest),
        _ => panic!(
            "usage: tacho-cost probe | rewrite | writer, each without arguments for its usage"
        ),
    }
}
