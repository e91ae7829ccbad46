//! `quipu completions`: what a shell needs to complete commands and flags.

use crate::failure::Failure;
use clap_complete::Shell;

const EXAMPLES: &str = "\
Examples:
  quipu completions bash > ~/.local/share/bash-completion/completions/quipu
  quipu completions zsh > \"${fpath[1]}/_quipu\"
  quipu completions fish > ~/.config/fish/completions/quipu.fish";

/// Print a script that completes commands and flags in a shell
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args, mut command: clap::Command) -> Result<(), Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "quipu", &mut script);
    std::io::Write::write_all(&mut std::io::stdout(), &script)
        .map_err(|error| Failure::failed(format!("cannot write: {error}")))
}
