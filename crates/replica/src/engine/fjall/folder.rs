//! The data folder: whose it is, of which format, and how far it had been synced.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::FjallError;

/// The format that is read and written.
const KNOWN: u64 = 1;

const FORMAT: &str = "FORMAT";
/// What `FORMAT` is called until all else is there.
const UNFINISHED: &str = "FORMAT.new";
const SYNCED: &str = "synced";
const DATA: &str = "data";

const OURS: &str = "spanlatch-replica data, format ";

/// A data folder that nobody else has open.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    /// Told apart from all other folders, so that nothing of another's is taken for its own.
    pub(super) id: u64,
    synced: File,
    /// `FORMAT`, locked until dropped. The last field.
    lock: File,
}

/// What was found.
#[derive(Debug)]
pub(super) enum Found {
    /// Nothing; to be [finished](Folder::finish) once there is data.
    Nothing(Folder),
    /// A folder that was finished, in which this group and all before had been synced.
    Data(Folder, u64),
}

impl Folder {
    /// Opens or creates the folder, but nothing of its data.
    pub(super) fn open(path: &Path) -> Result<Found, FjallError> {
        fs::create_dir_all(path).map_err(FjallError::io(path))?;
        let format = path.join(FORMAT);
        if format.try_exists().map_err(FjallError::io(&format))? {
            return Self::found(path, format);
        }
        let unfinished = path.join(UNFINISHED);
        if !unfinished.try_exists().map_err(FjallError::io(path))? {
            let mut entries = fs::read_dir(path).map_err(FjallError::io(path))?;
            if entries.next().is_some() {
                return Err(FjallError::NotOurs {
                    path: path.to_owned(),
                });
            }
        }
        Self::begin(path, unfinished)
    }

    fn found(path: &Path, format: PathBuf) -> Result<Found, FjallError> {
        let mut lock = open(&format)?;
        take(&lock, path)?;
        let mut text = Vec::new();
        lock.read_to_end(&mut text)
            .map_err(FjallError::io(&format))?;
        let id = id_of(&format, &text)?;
        let synced_path = path.join(SYNCED);
        let mut synced = open(&synced_path)?;
        let mut bytes = Vec::new();
        synced
            .read_to_end(&mut bytes)
            .map_err(FjallError::io(&synced_path))?;
        let group = decode_synced(&bytes, id)
            .ok_or_else(|| FjallError::corrupt(synced_path, "its checksum is another"))?;
        let folder = Self {
            path: path.to_owned(),
            id,
            synced,
            lock,
        };
        Ok(Found::Data(folder, group))
    }

    /// Creates the folder, in place of what an earlier try has left.
    fn begin(path: &Path, unfinished: PathBuf) -> Result<Found, FjallError> {
        let lock = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&unfinished)
            .map_err(FjallError::io(&unfinished))?;
        take(&lock, path)?;
        // Whoever finished it in the meantime has also given it another name.
        if path.join(FORMAT).exists() || !unfinished.exists() {
            return Err(FjallError::InUse {
                path: path.to_owned(),
            });
        }
        let data = data(path);
        if data.exists() {
            fs::remove_dir_all(&data).map_err(FjallError::io(data))?;
        }
        let synced = path.join(SYNCED);
        let mut folder = Self {
            path: path.to_owned(),
            id: RandomState::new().build_hasher().finish(),
            synced: OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(&synced)
                .map_err(FjallError::io(synced))?,
            lock,
        };
        folder.note_synced(0)?;
        Ok(Found::Nothing(folder))
    }

    /// Makes it a folder of ours, for good.
    pub(super) fn finish(&mut self) -> Result<(), FjallError> {
        let unfinished = self.path.join(UNFINISHED);
        let format = self.path.join(FORMAT);
        self.lock
            .set_len(0)
            .and_then(|()| self.lock.write_all(format_of(self.id).as_bytes()))
            .and_then(|()| self.lock.sync_all())
            .map_err(FjallError::io(&unfinished))?;
        self.sync()?;
        fs::rename(unfinished, &format).map_err(FjallError::io(format))?;
        let above = self.path.parent().filter(|path| path.is_dir());
        for path in [Some(self.path.as_path()), above].into_iter().flatten() {
            sync_folder(path).map_err(FjallError::io(path))?;
        }
        Ok(())
    }

    /// Where the data is.
    pub(super) fn data(&self) -> PathBuf {
        data(&self.path)
    }

    /// Notes that this group and all before it have been synced. The note itself is not synced: it may
    /// only ever be late.
    pub(super) fn note_synced(&mut self, group: u64) -> Result<(), FjallError> {
        let noted = encode_synced(group, self.id);
        self.synced
            .seek(SeekFrom::Start(0))
            .and_then(|_| self.synced.write_all(&noted))
            .map_err(FjallError::io(self.path.join(SYNCED)))
    }

    #[cfg(test)]
    pub(super) fn replace_synced(&mut self, file: File) {
        self.synced = file;
    }

    /// Syncs the note.
    pub(super) fn sync(&self) -> Result<(), FjallError> {
        let synced = self.synced.sync_all();
        synced.map_err(FjallError::io(self.path.join(SYNCED)))
    }
}

/// Where the data is in the folder `path`.
pub(super) fn data(path: &Path) -> PathBuf {
    path.join(DATA)
}

fn open(file: &Path) -> Result<File, FjallError> {
    let opened = OpenOptions::new().read(true).write(true).open(file);
    opened.map_err(FjallError::io(file))
}

fn take(lock: &File, path: &Path) -> Result<(), FjallError> {
    lock.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => FjallError::InUse {
            path: path.to_owned(),
        },
        TryLockError::Error(error) => FjallError::io(path)(error),
    })
}

#[cfg(not(windows))]
fn sync_folder(path: &Path) -> std::io::Result<()> {
    File::open(path)?.sync_all()
}

/// There, folders cannot be synced.
#[cfg(windows)]
fn sync_folder(_: &Path) -> std::io::Result<()> {
    Ok(())
}

fn format_of(id: u64) -> String {
    let said = format!("{OURS}{KNOWN}, id {id:016x}");
    let sum = xxh3_64_with_seed(said.as_bytes(), 0);
    format!("{said}, checksum {sum:016x}\n")
}

/// The id in a file `FORMAT`.
fn id_of(file: &Path, text: &[u8]) -> Result<u64, FjallError> {
    let corrupt = || FjallError::corrupt(file, "it is not as it was written");
    let text = str::from_utf8(text).map_err(|_| corrupt())?;
    let rest = text.strip_prefix(OURS).ok_or_else(corrupt)?;
    let (found, rest) = rest.split_once(", ").ok_or_else(corrupt)?;
    let found = found.parse().map_err(|_| corrupt())?;
    if found != KNOWN {
        return Err(FjallError::OtherFormat {
            file: file.to_owned(),
            found,
            known: KNOWN,
        });
    }
    let id = rest
        .strip_prefix("id ")
        .and_then(|rest| rest.get(..16))
        .and_then(|id| u64::from_str_radix(id, 16).ok())
        .ok_or_else(corrupt)?;
    match text == format_of(id) {
        true => Ok(id),
        false => Err(corrupt()),
    }
}

fn encode_synced(group: u64, id: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&group.to_be_bytes());
    let sum = xxh3_64_with_seed(&bytes[..8], id);
    bytes[8..].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn decode_synced(bytes: &[u8], id: u64) -> Option<u64> {
    let group = u64::from_be_bytes(*bytes.first_chunk()?);
    (bytes == encode_synced(group, id)).then_some(group)
}
