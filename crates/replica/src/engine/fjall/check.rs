//! Looks at fjall's files before fjall does, which takes whatever it cannot read for a torn tail.
//!
//! Nothing here writes, but for [`Journals::cut`]. The formats are those of fjall 3: of its journals (a batch is a start with the
//! number of items and a sequence number, the items, and an end with their checksum), and of the
//! manifests and tables of its trees, each of which has a checksum elsewhere.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::{Xxh3, xxh3_64, xxh3_128};

use super::FjallError;

/// No folder gets as far as this sequence number. There must be room for more above those that are there: no checksum
/// covers them.
const HIGHEST: u64 = 1 << 48;

/// The groups that the journals hold.
#[derive(Debug, Default)]
pub(super) struct Journals {
    /// The number of the last one.
    pub(super) last: Option<u64>,
    /// What the first one holds and none after it. What fjall does with a batch depends on its sequence number,
    /// which no checksum covers and which only for the first one has nothing to be compared with.
    pub(super) first: HashMap<Vec<u8>, Option<Vec<u8>>>,
    /// Where new groups go.
    pub(super) active: PathBuf,
    /// Where in it a torn group begins, if one is there.
    pub(super) torn: Option<u64>,
}

/// What stands for a group: the key and the value that each one has.
pub(super) struct Numbering {
    pub(super) key: Vec<u8>,
    pub(super) id: u64,
}

impl Numbering {
    /// What the key of group `number` holds.
    pub(super) fn encode(&self, number: u64) -> Vec<u8> {
        [number.to_be_bytes(), self.id.to_be_bytes()].concat()
    }

    /// The number that is held, if it is one of this folder's.
    pub(super) fn decode(&self, value: &[u8]) -> Option<u64> {
        let number = u64::from_be_bytes(*value.first_chunk()?);
        (value == self.encode(number)).then_some(number)
    }
}

/// Checks all journals in `data`, given that the groups up to `synced` are on the disk. O(what they hold).
///
/// A group is written when the one before has been synced. So a part that cannot be read is what a crash has
/// left of the last group, or is damage: if an intact group follows, or if what precedes ends
/// before `synced`.
pub(super) fn journals(
    data: &Path,
    numbering: &Numbering,
    synced: u64,
) -> Result<Journals, FjallError> {
    let mut files = Vec::new();
    for entry in fs::read_dir(data).map_err(FjallError::io(data))? {
        let path = entry.map_err(FjallError::io(data))?.path();
        if path.extension().is_some_and(|extension| extension == "jnl") {
            let number = path
                .file_stem()
                .and_then(|stem| stem.to_str()?.parse().ok());
            let number: u64 = number
                .ok_or_else(|| FjallError::corrupt(&path, "a journal is called by its number"))?;
            files.push((number, path));
        }
    }
    files.sort();
    let Some((_, active)) = files.last() else {
        return Err(FjallError::corrupt(
            data.join("0.jnl"),
            "there is no journal",
        ));
    };
    let mut journals = Journals {
        active: active.clone(),
        ..Journals::default()
    };
    let mut last_sequence = None;
    for (_, file) in &files {
        let bytes = read_trimmed(file).map_err(FjallError::io(file))?;
        let mut at = 0;
        while let Some(batch) = Batch::read(&bytes[at..], numbering) {
            let corrupt =
                |what: String| Err(FjallError::corrupt(file, format!("at byte {at}, {what}")));
            if last_sequence.is_some_and(|last| batch.sequence <= last) {
                return corrupt(format!("sequence number {} is too low", batch.sequence));
            }
            if batch.sequence > HIGHEST {
                return corrupt(format!("sequence number {} is too high", batch.sequence));
            }
            if journals.last.is_some_and(|last| batch.group != last + 1) {
                let last = journals.last.unwrap_or_default();
                return corrupt(format!("group {} follows group {last}", batch.group));
            }
            journals.note(&batch, last_sequence.is_none());
            last_sequence = Some(batch.sequence);
            at += batch.length;
        }
        let rest = &bytes[at..];
        if rest.is_empty() {
            continue;
        }
        if *file != journals.active {
            return Err(FjallError::corrupt(
                file,
                format!("from byte {at} on, it cannot be read, and it was synced as a whole"),
            ));
        }
        if let Some((skipped, batch)) = intact_after(rest, numbering) {
            return Err(FjallError::corrupt(
                file,
                format!(
                    "from byte {at} on, it cannot be read, but group {} follows at byte {}",
                    batch.group,
                    at + skipped
                ),
            ));
        }
        journals.torn = Some(at as u64);
    }
    match journals.last {
        Some(last) if last < synced => Err(lost(&journals.active, last, synced)),
        _ => Ok(journals),
    }
}

/// The error that says that groups are missing.
pub(super) fn lost(file: &Path, last: u64, synced: u64) -> FjallError {
    FjallError::corrupt(
        file,
        format!("it ends with group {last}, and group {synced} had been synced"),
    )
}

impl Journals {
    /// Drops the torn group. Fjall would drop most, and take some for another error.
    pub(super) fn cut(&self) -> Result<(), FjallError> {
        let Some(end) = self.torn else {
            return Ok(());
        };
        let opened = OpenOptions::new().write(true).open(&self.active);
        opened
            .and_then(|file| file.set_len(end).and_then(|()| file.sync_all()))
            .map_err(FjallError::io(&self.active))
    }

    fn note(&mut self, batch: &Batch<'_>, is_first: bool) {
        self.last = Some(batch.group);
        for &(key, value) in &batch.items {
            if is_first {
                self.first
                    .insert(key.to_owned(), value.map(<[u8]>::to_owned));
            } else if !self.first.is_empty() {
                self.first.remove(key);
            }
        }
    }
}

/// What a file holds, without the zeros at its end: journals are made longer than they need to be.
fn read_trimmed(file: &Path) -> io::Result<Vec<u8>> {
    const CHUNK: usize = 1 << 16;
    let mut file = File::open(file)?;
    let mut bytes = Vec::new();
    let mut end = 0;
    let mut chunk = vec![0; CHUNK];
    let zeros = vec![0; CHUNK];
    // Of all-zero chunks, only how many there were; they are needed if something follows.
    let mut skipped = 0;
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        let read = &chunk[..length];
        if read == &zeros[..length] {
            skipped += length;
        } else {
            bytes.resize(bytes.len() + skipped, 0);
            skipped = 0;
            let last = read.iter().rposition(|&byte| byte != 0);
            end = bytes.len() + last.map_or(0, |last| last + 1);
            bytes.extend_from_slice(read);
        }
    }
    bytes.truncate(end);
    Ok(bytes)
}

/// A batch that is as it was written, but maybe for its sequence number.
struct Batch<'a> {
    sequence: u64,
    group: u64,
    items: Vec<(&'a [u8], Option<&'a [u8]>)>,
    length: usize,
}

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: [u8; 4] = *b"FJL\x03";
const VALUE: u8 = 0;
const TOMBSTONE: u8 = 1;
const UNCOMPRESSED: u8 = 0;

impl<'a> Batch<'a> {
    /// The batch at the start of `bytes`, if there is one.
    fn read(bytes: &'a [u8], numbering: &Numbering) -> Option<Self> {
        let mut rest = bytes;
        let [START] = take(&mut rest)? else {
            return None;
        };
        let count = u32::from_le_bytes(take(&mut rest)?);
        let sequence = u64::from_le_bytes(take(&mut rest)?);
        let from = rest;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(item(&mut rest)?);
        }
        let content = &from[..from.len() - rest.len()];
        let [END] = take(&mut rest)? else {
            return None;
        };
        let checksum = u64::from_le_bytes(take(&mut rest)?);
        if take(&mut rest)? != TRAILER || checksum != xxh3_64(content) {
            return None;
        }
        let named = items.iter().find(|(key, _)| *key == numbering.key);
        let &(_, Some(value)) = named? else {
            return None;
        };
        Some(Self {
            sequence,
            group: numbering.decode(value)?,
            items,
            length: bytes.len() - rest.len(),
        })
    }
}

/// The first intact batch after the start of `bytes`, and how many bytes precede it.
fn intact_after<'a>(bytes: &'a [u8], numbering: &Numbering) -> Option<(usize, Batch<'a>)> {
    (1..bytes.len())
        .filter(|&at| bytes[at] == START)
        .find_map(|at| Some((at, Batch::read(&bytes[at..], numbering)?)))
}

/// An item: a key, and the value that it is given, or none if it is removed.
fn item<'a>(rest: &mut &'a [u8]) -> Option<(&'a [u8], Option<&'a [u8]>)> {
    let [ITEM, kind, UNCOMPRESSED] = take(rest)? else {
        return None;
    };
    let _tree: [u8; 8] = take(rest)?;
    let key = u16::from_le_bytes(take(rest)?);
    let value = u32::from_le_bytes(take(rest)?);
    let stored = u32::from_le_bytes(take(rest)?);
    let key = take_slice(rest, key.into())?;
    let value = take_slice(rest, usize::try_from(value).ok()?)?;
    match kind {
        _ if stored as usize != value.len() => None,
        VALUE => Some((key, Some(value))),
        TOMBSTONE => Some((key, None)),
        _ => None,
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(*taken)
}

fn take_slice<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

/// Checks the manifest and the tables of each of `trees` in `data`. O(what they hold).
pub(super) fn trees(data: &Path, trees: &[&str]) -> Result<(), FjallError> {
    let marker = data.join("version");
    let version = fs::read(&marker).map_err(FjallError::io(&marker))?;
    if version != TRAILER {
        return Err(FjallError::corrupt(marker, "it is not that of fjall 3"));
    }
    let folder = data.join("keyspaces");
    trees
        .iter()
        .try_for_each(|tree| self::tree(&folder.join(tree)))
}

fn tree(folder: &Path) -> Result<(), FjallError> {
    let current = folder.join("current");
    let bytes = fs::read(&current).map_err(FjallError::io(&current))?;
    let (version, sum) = read_current(&bytes)
        .ok_or_else(|| FjallError::corrupt(&current, "it is not as it was written"))?;
    let manifest = folder.join(format!("v{version}"));
    let unreadable = |error: &dyn std::error::Error| {
        FjallError::corrupt(
            &manifest,
            format!("it is what {} names, and: {error}", current.display()),
        )
    };
    let bytes = fs::read(&manifest).map_err(|error| unreadable(&error))?;
    if xxh3_128(&bytes) != sum {
        return Err(FjallError::corrupt(
            &manifest,
            format!("its checksum is not the one in {}", current.display()),
        ));
    }
    let tables = tables_of(&manifest).map_err(|error| unreadable(&error))?;
    for (table, sum) in tables {
        let file = folder.join("tables").join(table.to_string());
        let found = sum_of(&file).map_err(|error| {
            FjallError::corrupt(
                &file,
                format!("{} names it, and: {error}", manifest.display()),
            )
        })?;
        if found != sum {
            return Err(FjallError::corrupt(
                &file,
                format!("its checksum is not the one in {}", manifest.display()),
            ));
        }
    }
    Ok(())
}

/// The number of the manifest and its checksum, which a file `current` holds.
fn read_current(mut bytes: &[u8]) -> Option<(u64, u128)> {
    let version = u64::from_le_bytes(take(&mut bytes)?);
    let sum = u128::from_le_bytes(take(&mut bytes)?);
    (bytes == [0]).then_some((version, sum))
}

/// The tables that a manifest names, with their checksums.
fn tables_of(manifest: &Path) -> io::Result<Vec<(u64, u128)>> {
    let other = || io::Error::other("it names no tables");
    let archive =
        sfa::Reader::new(manifest).map_err(|error| io::Error::other(format!("{error:?}")))?;
    let section = archive.toc().section(b"tables").ok_or_else(other)?;
    let mut bytes = Vec::new();
    section.buf_reader(manifest)?.read_to_end(&mut bytes)?;
    read_tables(&bytes).ok_or_else(other)
}

/// The number of levels, of runs in each, of tables in each; and each table.
fn read_tables(mut rest: &[u8]) -> Option<Vec<(u64, u128)>> {
    let mut tables = Vec::new();
    let [levels] = take(&mut rest)?;
    for _ in 0..levels {
        let [runs] = take(&mut rest)?;
        for _ in 0..runs {
            let count = u32::from_le_bytes(take(&mut rest)?);
            for _ in 0..count {
                let table = u64::from_le_bytes(take(&mut rest)?);
                let [0] = take(&mut rest)? else {
                    return None;
                };
                let sum = u128::from_le_bytes(take(&mut rest)?);
                let _sequence: [u8; 8] = take(&mut rest)?;
                tables.push((table, sum));
            }
        }
    }
    rest.is_empty().then_some(tables)
}

fn sum_of(file: &Path) -> io::Result<u128> {
    let mut reader = BufReader::new(File::open(file)?);
    let mut hasher = Xxh3::new();
    let mut chunk = vec![0; 1 << 16];
    loop {
        let length = reader.read(&mut chunk)?;
        if length == 0 {
            return Ok(hasher.digest128());
        }
        hasher.update(&chunk[..length]);
    }
}
