//! What packages install beside the program: completions for shells, and manual pages.

use std::path::Path;

use clap::CommandFactory;
use clap_complete::Shell;

use super::{Cli, cannot_write, print};
use crate::exit::Exit;

/// To standard output.
pub(super) fn completions(shell: Shell) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "tidegate", &mut script);
    print(&String::from_utf8(script)?)
}

/// One page for the program and one for each subcommand, into a directory that is made if missing.
pub(super) fn man(directory: &Path) -> anyhow::Result<Exit> {
    std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
        .map_err(|error| cannot_write(directory, &error))?;
    Ok(Exit::Done)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    fn commands() -> Vec<String> {
        let mut program = Cli::command();
        program.build();
        let commands = program.get_subcommands().filter(|one| !one.is_hide_set());
        commands.map(|one| one.get_name().to_owned()).collect()
    }

    #[test]
    fn every_shell_knows_every_command() {
        let commands = commands();
        assert!(commands.len() > 8, "{commands:?}");
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Cli::command(), "tidegate", &mut script);
            let script = String::from_utf8(script).unwrap();
            for command in &commands {
                assert!(script.contains(command.as_str()), "{shell}: {command}");
            }
            // Fish has its own way to write options.
            assert!(script.contains("log-level"), "{shell}");
        }
    }

    #[test]
    fn every_command_has_its_page() {
        let directory = std::env::temp_dir().join(format!("tidegate-man-{}", std::process::id()));
        man(&directory).unwrap();
        let page = |name: &str| std::fs::read_to_string(directory.join(name));
        let first = page("tidegate.1").unwrap();
        for command in commands().iter().filter(|name| *name != "help") {
            let name = format!("tidegate-{command}.1");
            let text = page(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
            for section in [".SH NAME", ".SH SYNOPSIS"] {
                assert!(text.contains(section), "{name} has no {section}");
            }
            let referred = format!("tidegate\\-{}(1)", command.replace('-', "\\-"));
            assert!(
                first.contains(&referred),
                "tidegate.1 does not lead to {name}"
            );
        }
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
