//! What a process has written and synced, and losing the rest.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::NamedTempFile;

use crate::Choices;

/// How much of a file a disk writes as one.
const SECTOR: usize = 512;

/// The calls of a process to come that matter, and what was there before it.
pub(super) struct Trace {
    folder: PathBuf,
    /// The lengths of the files, without the zeros that journals are made longer with.
    before: HashMap<PathBuf, usize>,
    /// The note of what was synced, which is written in place and not synced itself.
    note: PathBuf,
    noted: Option<Vec<u8>>,
    log: NamedTempFile,
}

/// What was written to a file, in bytes, given that all is written to its end.
#[derive(Debug, Default, Clone, Copy)]
struct Written {
    bytes: usize,
    synced: usize,
}

impl Trace {
    pub(super) fn before(folder: &Path) -> io::Result<Self> {
        let mut before = HashMap::new();
        if folder.exists() {
            for file in files(folder)? {
                let length = trimmed(&fs::read(&file)?);
                before.insert(file, length);
            }
        }
        Ok(Self {
            folder: folder.to_owned(),
            before,
            noted: fs::read(folder.join("synced")).ok(),
            note: folder.join("synced"),
            log: NamedTempFile::new()?,
        })
    }

    /// Runs a program with its calls listed.
    pub(super) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("strace");
        // `-y`: with the paths of files; `-s 0`: without what is written.
        command
            .args(["-f", "--seccomp-bpf", "-qq", "-y", "-s", "0"])
            .args(["-e", "signal=none"])
            .args(["-e", "trace=write,pwrite64,writev,fsync,fdatasync"])
            // Most of the time something is written and not synced, then.
            .args(["-e", "inject=fdatasync:delay_enter=2000"])
            .arg("-o")
            .arg(self.log.path())
            .arg(program);
        command
    }

    /// Loses, by chance, what was written to each file since its last sync began. Returns how many bytes.
    pub(super) fn lose_unsynced(&self, choices: &mut Choices<'_>) -> Result<u64, String> {
        let log = fs::read_to_string(self.log.path()).map_err(|error| error.to_string())?;
        let written = read_log(&log);
        let mut lost = 0;
        let mut files = files(&self.folder).map_err(|error| error.to_string())?;
        files.sort();
        for file in files {
            let Some(Written { bytes, synced }) = written.get(&file).copied() else {
                continue;
            };
            if bytes == synced {
                continue;
            }
            if file == self.note {
                // It is in one sector: what is on the disk is some state of it since then.
                if let (Some(noted), true) = (&self.noted, choices.one_in(2)) {
                    fs::write(&file, noted).map_err(|error| error.to_string())?;
                }
                continue;
            }
            let content = fs::read(&file).map_err(|error| error.to_string())?;
            let before = self.before.get(&file).copied().unwrap_or(0);
            let kept = lose(&content, before + synced, &mut lost, choices);
            fs::write(&file, kept).map_err(|error| error.to_string())?;
        }
        Ok(lost)
    }
}

/// Of the sectors from `from` on, keeps some, and makes some zero, or all.
fn lose(content: &[u8], from: usize, lost: &mut u64, choices: &mut Choices<'_>) -> Vec<u8> {
    let end = trimmed(content);
    let mut kept = content.to_vec();
    let mut at = from;
    let all = choices.one_in(4);
    while at < end {
        let next = (at / SECTOR + 1) * SECTOR;
        let sector = at..next.min(end);
        if all || choices.one_in(2) {
            *lost += sector.len() as u64;
            kept[sector].fill(0);
        }
        at = next;
    }
    kept
}

fn trimmed(content: &[u8]) -> usize {
    let last = content.iter().rposition(|&byte| byte != 0);
    last.map_or(0, |last| last + 1)
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        match path.is_dir() {
            true => found.extend(files(&path)?),
            false => found.push(path),
        }
    }
    Ok(found)
}

/// What a list of calls says of each file.
fn read_log(log: &str) -> HashMap<PathBuf, Written> {
    let mut files: HashMap<PathBuf, Written> = HashMap::new();
    // Of each thread, the sync that it is in, and how much it is of.
    let mut syncing: HashMap<&str, (PathBuf, usize)> = HashMap::new();
    for line in log.lines() {
        let Some((thread, call)) = line.split_once(' ') else {
            continue;
        };
        let call = call.trim_start();
        if call.starts_with("<...") {
            if let Some((file, bytes)) = syncing.remove(thread)
                && has_succeeded(call)
            {
                let written = files.entry(file).or_default();
                written.synced = written.synced.max(bytes);
            }
            continue;
        }
        let Some((name, path)) = call
            .split_once('(')
            .and_then(|(name, rest)| Some((name, rest.split_once('<')?.1.split_once('>')?.0)))
        else {
            continue;
        };
        let file = PathBuf::from(path);
        let written = files.entry(file.clone()).or_default();
        if name == "fsync" || name == "fdatasync" {
            if has_succeeded(call) {
                written.synced = written.bytes;
            } else {
                let bytes = written.bytes;
                syncing.insert(thread, (file, bytes));
            }
        } else {
            // One that has not ended may have written all.
            written.bytes += asked(call).unwrap_or(0);
        }
    }
    files
}

/// Of a sync. What was done to it may be said after the result.
fn has_succeeded(call: &str) -> bool {
    let result = call.rsplit_once(" = ").map(|(_, result)| result);
    result.is_some_and(|result| result == "0" || result.starts_with("0 "))
}

/// How many bytes a write was asked to write: the last argument but for those of `pwrite64`, which is not used here.
fn asked(call: &str) -> Option<usize> {
    let arguments = call
        .split_once(") ")
        .map_or(call, |(arguments, _)| arguments)
        .trim_end_matches(" <unfinished ...>");
    arguments.rsplit(", ").next()?.parse().ok()
}

/// Runs a program whose calls of one kind fail from one of them on, if they are about the first journal.
pub(super) fn failing(
    program: &Path,
    folder: &Path,
    call: &str,
    error: &str,
    from: usize,
) -> Command {
    let data = folder.join("data");
    let journal = files(&data)
        .unwrap_or_default()
        .into_iter()
        .filter(|file| file.extension().is_some_and(|extension| extension == "jnl"))
        .max()
        .unwrap_or(data.join("0.jnl"));
    let mut command = Command::new("strace");
    command
        .args(["-f", "-qq", "-e", "signal=none", "-o", "/dev/null", "-P"])
        .arg(journal)
        .args(["-e", &format!("trace={call}")])
        .args(["-e", &format!("inject={call}:error={error}:when={from}+")])
        .arg(program);
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::read_log;

    #[test]
    fn a_sync_covers_what_was_written_before_it_began() {
        let log = "\
            7 write(5</d/0.jnl>, \"\"..., 100) = 100\n\
            7 fdatasync(5</d/0.jnl> <unfinished ...>\n\
            8 write(5</d/0.jnl>, \"\"..., 20) = 20\n\
            7 <... fdatasync resumed>)          = 0 (DELAYED)\n\
            8 fdatasync(5</d/0.jnl>)            = -1 EIO (Input/output error)\n\
            8 write(5</d/0.jnl>, \"\"..., 3 <unfinished ...>\n";
        let written = read_log(log)[Path::new("/d/0.jnl")];
        assert_eq!((written.bytes, written.synced), (123, 100));
    }
}
