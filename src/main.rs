//! The `vramscope` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    vramscope::cli::main()
}
