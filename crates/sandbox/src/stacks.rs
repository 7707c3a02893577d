//! What the threads of a server that hangs are doing, for the message of a test that fails.

use std::io;
use std::process::{Child, Command};

/// Kills a process that does not end. Returns the stacks of its threads, if there is a
/// debugger to read them.
pub fn kill(child: &mut Child) -> io::Result<String> {
    let stacks = of(child.id());
    child.kill()?;
    child.wait()?;
    Ok(stacks)
}

fn of(pid: u32) -> String {
    let output = Command::new("gdb")
        .args(["-batch", "-nx", "-iex", "set debuginfod enabled off"])
        // Short lines, and the newest threads last: those of clients, and a report that is cut off
        // keeps its end.
        .args(["-ex", "set print frame-arguments none"])
        .args(["-ex", "set print entry-values no"])
        .args(["-ex", "thread apply all -ascending backtrace 30", "-p", &pid.to_string()])
        .output();
    match output {
        Ok(output) => {
            let texts = [output.stdout, output.stderr];
            texts.map(|text| String::from_utf8_lossy(&text).into_owned()).concat()
        }
        Err(error) => format!("not known: gdb: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stacks_are_read_or_it_is_said_why_not() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let stacks = kill(&mut child).expect("it can be killed");
        // Without a debugger, or where processes may not be traced, the reason.
        let reasons = ["not known: gdb", "ptrace", "attach"];
        let is_explained = reasons.iter().any(|reason| stacks.contains(reason));
        assert!(stacks.contains("#0 ") || is_explained, "{stacks}");
    }
}
