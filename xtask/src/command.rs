//! A cargo command: how it is run, and how a person would type it.

use std::fmt;
use std::path::Path;
use std::process;

use anyhow::Context;

/// A cargo command with its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cargo {
    env: Vec<(&'static str, String)>,
    args: Vec<String>,
}

impl Cargo {
    /// `cargo` with arguments, given as a person types them: separated by spaces, without quotes.
    pub(crate) fn new(args: &str) -> Self {
        Self {
            env: Vec::new(),
            args: args.split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// The same with one variable more in its environment.
    pub(crate) fn with_env(mut self, name: &'static str, value: impl ToString) -> Self {
        self.env.push((name, value.to_string()));
        self
    }

    /// Ready to run in `directory`.
    pub(crate) fn command(&self, directory: &Path) -> process::Command {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = process::Command::new(cargo);
        command
            .current_dir(directory)
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs it to its end; its output is shown as it comes.
    ///
    /// # Errors
    ///
    /// Only if it cannot be started; whether it succeeded is in the status.
    pub(crate) fn status(&self, directory: &Path) -> anyhow::Result<process::ExitStatus> {
        self.command(directory)
            .status()
            .with_context(|| format!("cannot start {self}"))
    }
}

/// As one can paste it into a shell.
impl fmt::Display for Cargo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}='{value}' ")?;
        }
        f.write_str("cargo")?;
        for arg in &self.args {
            if arg.contains(|c: char| !(c.is_ascii_alphanumeric() || "-_./=+,:".contains(c))) {
                write!(f, " '{arg}'")?;
            } else {
                write!(f, " {arg}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Cargo;

    #[test]
    fn a_command_is_shown_as_one_can_paste_it() {
        let command = Cargo::new("bench -p x --bench * -- --test").with_env("FLAGS", "-D warnings");
        assert_eq!(
            command.to_string(),
            "FLAGS='-D warnings' cargo bench -p x --bench '*' -- --test"
        );
    }
}
