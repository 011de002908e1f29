//! Reads the command line and runs; the library does the rest.

use std::process::ExitCode;

fn main() -> ExitCode {
    tidegate::cli::main()
}
