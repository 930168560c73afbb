//! A durable engine, on [fjall](https://docs.rs/fjall).

mod check;
mod encoding;
mod error;
mod folder;
mod group;
mod reader;
mod records;

use std::fmt;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread;

use bytes::Bytes;
use fjall::{Database, Guard, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::Mutex;
use spanset::Timestamp;

use self::check::{Journals, Numbering};
use self::folder::{Folder, Found};
use self::group::Group;
use self::reader::FjallSnapshot;
use super::{Collected, Collector, Engine, EngineError, Marks, Snapshot};
use crate::{Records, WriteBatch};

pub use error::FjallError;

/// Keeps every version in a folder, durably, and [`Records`] beside them.
///
/// What [`apply`](Engine::apply) or [`write`](Records::write) is given is one batch of fjall's: appended to its journal, and synced
/// (`fdatasync`) once, before it can be seen and before the call returns. Background threads of fjall's move
/// what the journal holds into sorted tables.
///
/// # Costs
///
/// A read is O(log n) in memory plus, where tables are needed, a block from each level; blocks are cached (32 MiB).
/// An `apply` is O(m log m) for m writes, and a sync, which is what it waits for: so groups are worth it. A group is
/// held in memory three times while it is applied. `collect` reads everything.
///
/// Opening reads *every* file once to see that it is what was written, and replays the journals.
///
/// # Layout of the folder
///
/// | file | holds |
/// |---|---|
/// | `FORMAT` | the format's number (1), the folder's id and a checksum, as a line of text; is locked while the folder is open. While a folder is being created it is called `FORMAT.new` |
/// | `synced` | the number of the last group that is known to have been synced, and a checksum. Written after each group and not synced until the engine is dropped: after a power cut it may be late |
/// | `data/` | fjall's: journals (`*.jnl`), and a folder `keyspaces/N` of tables and manifests for its own records (0) and for ours (1) |
///
/// All is in one tree of keys and values:
///
/// | key | value |
/// |---|---|
/// | `00` and `group`, `ceiling` or `threshold` | the number of the group, 8 bytes, and the folder's id, 8 bytes; a timestamp, 12 bytes |
/// | `01`, the key with each `00` in it followed by `ff`, `00 00`, the wall time and the logical part of the timestamp, all bits inverted, in 8 and 4 bytes | `00` for a deletion; `01` and the value |
/// | `02` and the key of a record | the record |
///
/// Numbers are big endian. So versions are in the order of their keys, and of each key the newest
/// comes first, whatever bytes are in them.
///
/// # What it survives
///
/// - *The end of the process, at any moment*: the next one to open the folder finds all groups that were
///   acknowledged; of those that were not, each one wholly or not at all.
/// - *A power cut*: the same. A torn tail of the last journal after the last sync is dropped.
/// - *A damaged file* is an error that names the file, and nothing is written then. Fjall has checksums
///   everywhere but takes what it cannot read in a journal for a torn tail, and creates anew what it
///   does not find; so all files are checked before it sees them. Groups are numbered, which tells a torn group
///   from a damaged one: a group is written only once all before it have been synced.
/// - *A full disk, or another failure of the file system*: the call fails, and from then on every call does
///   ([`FjallError::Poisoned`]), reads included, since whether the group is on the disk is not known, and nobody may be told that it
///   is not. Opening the folder again settles it.
///
/// It does not survive: a power cut *and* damage to the very last groups, those after the last
/// number in `synced` that reached the disk, with nothing intact after it, which looks like a torn tail; a journal file that
/// somebody removed, if it was the oldest one; and disks that do not sync when they say so. Writing may
/// wait for as long as fjall has tables to write or to merge; if that fails meanwhile, it waits for ever.
///
/// # Errors
///
/// [`FjallError`], also inside of each [`EngineError`].
pub struct FjallEngine {
    shared: Arc<Shared>,
}

/// What snapshots share with the engine. In the order in which it has to be dropped.
struct Shared {
    tree: Keyspace,
    database: Database,
    path: PathBuf,
    marks: Mutex<Marks>,
    /// Held while a mark is raised, so that a lower one is not written after a higher.
    raising: Mutex<()>,
    /// Why nothing goes any more, if so.
    poisoned: OnceLock<String>,
    numbering: Numbering,
    /// Groups are written one at a time, under it.
    writer: Mutex<Writer>,
}

struct Writer {
    /// The number of the last group.
    group: u64,
    folder: Folder,
}

/// The name of our tree; and the folders of fjall's trees, its own first.
const TREE: &str = "replica";
const TREES: [&str; 2] = ["0", "1"];

impl FjallEngine {
    /// Opens the data in a folder, or creates the folder if there is none or an empty one.
    ///
    /// # Errors
    ///
    /// Nothing is changed if the folder is [somebody else's](FjallError::NotOurs), of
    /// [another format](FjallError::OtherFormat), [in use](FjallError::InUse) or [corrupt](FjallError::Corrupt).
    pub fn open(path: impl AsRef<Path>) -> Result<Self, FjallError> {
        Self::open_with(path.as_ref(), Self::MEMTABLE)
    }

    /// How much fjall keeps in memory before it writes a table.
    const MEMTABLE: u64 = 64 << 20;

    /// Opens, and if the folder is created, has it write tables of about this many bytes, so that tests see some.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    #[doc(hidden)]
    pub fn open_with(path: &Path, memtable: u64) -> Result<Self, FjallError> {
        match Folder::open(path)? {
            Found::Nothing(mut folder) => {
                let database = database(&folder)?;
                let options = || KeyspaceCreateOptions::default().max_memtable_size(memtable);
                let tree = database
                    .keyspace(TREE, options)
                    .map_err(FjallError::storage(path))?;
                folder.finish()?;
                Self::recover(folder, database, tree, 0)
            }
            Found::Data(folder, synced) => {
                let data = folder.data();
                check::trees(&data, &TREES)?;
                let numbering = numbering(&folder);
                let journals = check::journals(&data, &numbering, synced)?;
                journals.cut()?;
                let database = database(&folder)?;
                if !database.keyspace_exists(TREE) {
                    let own = data.join("keyspaces").join(TREES[0]);
                    return Err(FjallError::corrupt(own, "our tree is not in it"));
                }
                let tree = database
                    .keyspace(TREE, KeyspaceCreateOptions::default)
                    .map_err(FjallError::storage(path))?;
                let engine = Self::recover(folder, database, tree, synced)?;
                engine.shared.check_replayed(&journals, synced)?;
                Ok(engine)
            }
        }
    }

    /// Reads what outlives engines.
    fn recover(
        mut folder: Folder,
        database: Database,
        tree: Keyspace,
        synced: u64,
    ) -> Result<Self, FjallError> {
        let numbering = numbering(&folder);
        let get = |key: &[u8]| tree.get(key).map_err(FjallError::storage(&folder.path));
        let corrupt = || FjallError::corrupt(folder.data(), "it has a mark that is none");
        let mark = |name| match get(&encoding::mark(name))? {
            None => Ok(Timestamp::MIN),
            Some(value) => encoding::decode_timestamp(&value).ok_or_else(corrupt),
        };
        let marks = Marks {
            ceiling: mark(CEILING)?,
            threshold: mark(THRESHOLD)?,
        };
        let group = match get(&numbering.key)? {
            None => 0,
            Some(value) => numbering.decode(&value).ok_or_else(corrupt)?,
        };
        // Fjall has synced what it has replayed.
        if group > synced {
            folder.note_synced(group)?;
        }
        let shared = Arc::new(Shared {
            tree,
            database,
            path: folder.path.clone(),
            marks: Mutex::new(marks),
            raising: Mutex::new(()),
            poisoned: OnceLock::new(),
            numbering,
            writer: Mutex::new(Writer { group, folder }),
        });
        Ok(Self { shared })
    }

    /// How many versions are removed as one group.
    const REMOVED_AT_ONCE: usize = 1024;
}

const GROUP: &str = "group";
const CEILING: &str = "ceiling";
const THRESHOLD: &str = "threshold";

fn numbering(folder: &Folder) -> Numbering {
    Numbering {
        key: encoding::mark(GROUP),
        id: folder.id,
    }
}

fn database(folder: &Folder) -> Result<Database, FjallError> {
    let opened = Database::builder(folder.data()).open();
    opened.map_err(FjallError::storage(&folder.path))
}

impl Shared {
    fn check(&self) -> Result<(), FjallError> {
        match self.poisoned.get() {
            None => Ok(()),
            Some(cause) => Err(FjallError::Poisoned {
                path: self.path.clone(),
                cause: cause.clone(),
            }),
        }
    }

    /// Writes a group, and syncs it. Fails from the first failure on.
    fn write(&self, group: Group) -> Result<(), FjallError> {
        let mut batch = self
            .database
            .batch()
            .durability(Some(PersistMode::SyncData));
        group.fill(&mut batch, &self.tree);
        let mut writer = self.writer.lock();
        self.check()?;
        let armed = Armed(self);
        let number = writer.group + 1;
        batch.insert(
            &self.tree,
            self.numbering.key.as_slice(),
            self.numbering.encode(number),
        );
        let written = batch.commit().map_err(FjallError::storage(&self.path));
        let noted = written.and_then(|()| writer.folder.note_synced(number));
        if let Err(error) = &noted {
            self.poison(error.to_string());
        }
        writer.group = number;
        drop(armed);
        noted
    }

    fn poison(&self, cause: String) {
        // The first cause stays.
        let _ = self.poisoned.set(cause);
    }

    /// Raises a mark, durably.
    fn raise(
        &self,
        name: &str,
        to: Timestamp,
        mark: fn(&mut Marks) -> &mut Timestamp,
    ) -> Result<(), FjallError> {
        let _one_at_a_time = self.raising.lock();
        if *mark(&mut self.marks.lock()) >= to {
            return self.check();
        }
        let mut group = Group::default();
        group.put_mark(name, encoding::timestamp(to));
        self.write(group)?;
        let mut marks = self.marks.lock();
        let mark = mark(&mut marks);
        *mark = to.max(*mark);
        Ok(())
    }

    /// Checks that nothing is missing of what is known to have been in the folder.
    fn check_replayed(&self, journals: &Journals, synced: u64) -> Result<(), FjallError> {
        let writer = self.writer.lock();
        let last = synced.max(journals.last.unwrap_or_default());
        if writer.group < last {
            return Err(check::lost(&journals.active, writer.group, last));
        }
        for (key, value) in &journals.first {
            let found = self
                .tree
                .get(key)
                .map_err(FjallError::storage(&self.path))?;
            if found.as_deref() != value.as_deref() {
                return Err(FjallError::corrupt(
                    &journals.active,
                    "the sequence number of the first group in the journals is wrong",
                ));
            }
        }
        writer.folder.sync()
    }

    /// What an iterator has come to.
    fn read(&self, guard: Guard) -> Result<(Bytes, Bytes), EngineError> {
        let read = guard.into_inner();
        let (key, value) = read.map_err(|error| self.unreadable(error))?;
        Ok((key.into(), value.into()))
    }

    /// The error of a read that failed, with the file if it can be found.
    fn unreadable(&self, error: fjall::Error) -> EngineError {
        let found = check::trees(&folder::data(&self.path), &TREES);
        let damage = found.err().filter(FjallError::is_corrupt);
        damage
            .unwrap_or_else(|| FjallError::storage(&self.path)(error))
            .into()
    }

    /// The error of something that was read well and that nobody can have written.
    fn undecodable(&self) -> EngineError {
        FjallError::corrupt(self.tree.path(), "it has a version that is none").into()
    }
}

/// Poisons if dropped by a panic: then it is not known what was done.
struct Armed<'a>(&'a Shared);

impl Drop for Armed<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.poison("a panic while writing".to_owned());
        }
    }
}

/// With the last engine or snapshot the folder is closed. That all is synced is noted for good, if it can be.
impl Drop for Shared {
    fn drop(&mut self) {
        if self.poisoned.get().is_none() {
            // If it fails, it is as after a power cut.
            let _ = self.writer.get_mut().folder.sync();
        }
    }
}

impl Engine for FjallEngine {
    /// O(1).
    fn snapshot(&self) -> Result<Snapshot, EngineError> {
        self.shared.check()?;
        Ok(Box::new(FjallSnapshot::new(self.shared.clone())))
    }

    /// As [`write`](Records::write), without records.
    fn apply(&self, group: Vec<WriteBatch>) -> Result<(), EngineError> {
        self.write(group, Vec::new())
    }

    fn marks(&self) -> Marks {
        *self.shared.marks.lock()
    }

    /// As [`apply`](Engine::apply).
    fn raise_ceiling(&self, to: Timestamp) -> Result<(), EngineError> {
        Ok(self.shared.raise(CEILING, to, |marks| &mut marks.ceiling)?)
    }

    /// O(n) reads on a snapshot, and a group for each thousand of versions that are removed, between which others
    /// have their turn.
    fn collect(&self, threshold: Timestamp) -> Result<Collected, EngineError> {
        self.shared
            .raise(THRESHOLD, threshold, |marks| &mut marks.threshold)?;
        let snapshot = FjallSnapshot::new(self.shared.clone());
        let mut versions = 0;
        let mut unseen = Group::default();
        let mut collector = Collector::new(threshold);
        for entry in snapshot.range(encoding::FIRST.to_vec(), encoding::END.to_vec()) {
            let entry = entry?;
            collector.meet(entry.key, &entry.version, |key, timestamp| {
                unseen.remove_version(key, timestamp);
            });
            if unseen.len() >= Self::REMOVED_AT_ONCE {
                versions += self.remove(mem::take(&mut unseen))?;
            }
        }
        collector.end(|key, timestamp| unseen.remove_version(key, timestamp));
        versions += self.remove(unseen)?;
        Ok(Collected { versions })
    }
}

impl FjallEngine {
    /// Removes versions, and returns how many.
    fn remove(&self, versions: Group) -> Result<u64, EngineError> {
        let count = versions.len() as u64;
        if count == 0 {
            return Ok(0);
        }
        let removed = self.shared.write(versions);
        // No refusal: some may have been removed before.
        removed.map(|()| count).map_err(EngineError::new)
    }
}

impl fmt::Debug for FjallEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FjallEngine")
            .field("path", &self.shared.path)
            .field("poisoned", &self.shared.poisoned.get())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
