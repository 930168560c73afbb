//! Snapshots of the engine: how they are cut into pieces, put together and installed.

use std::fmt;
use std::io::{self, BufReader, Read, Seek, Write};
use std::path::Path;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use spanlatch_replica::{Engine, Marks, Records, Value, Version, Versions};
use spanset::{Key, Span, Timestamp};
use tempfile::{SpooledTempFile, spooled_tempfile_in};

use crate::storage::Failure;

/// How large a piece gets before it ends, in bytes. It has at least one version.
const PIECE: usize = 256 << 10;
/// How much of a snapshot is kept in memory until it is installed; more goes to a temporary file.
const IN_MEMORY: usize = 4 << 20;

/// A snapshot: pinned, to be sent, or received, to be installed.
pub(crate) struct SnapshotData(Data);

enum Data {
    Pinned(Cut),
    Received(SpooledTempFile),
}

/// The pieces of a snapshot, one after the other.
pub(crate) struct Pieces(Source);

enum Source {
    Pinned(Cut),
    Received(BufReader<SpooledTempFile>),
}

/// Cuts what is pinned into pieces.
struct Cut {
    /// In the first piece.
    marks: Option<Marks>,
    versions: Versions,
    /// What did not fit any more.
    next: Option<Row>,
}

/// What a piece says.
#[derive(Serialize, Deserialize)]
enum Content {
    /// The ceiling and the threshold.
    Marks([(u64, u32); 2]),
    /// The next versions: keys ascending, each one's newest version first.
    Rows(Vec<Row>),
}

/// A version of a key.
#[derive(Serialize, Deserialize)]
struct Row {
    key: Key,
    wall: u64,
    logical: u32,
    value: Option<Value>,
}

impl SnapshotData {
    /// Of what the engine has now. O(1).
    pub(crate) fn pin(engine: &dyn Engine) -> Result<Self, Failure> {
        let versions = Versions::new(engine.snapshot()?, Span::all());
        Ok(Self(Data::Pinned(Cut {
            marks: Some(engine.marks()),
            versions,
            next: None,
        })))
    }

    /// Of what will be [`received`](Self::add), with a temporary file in `folder`.
    pub(crate) fn receive(folder: &Path) -> Self {
        Self(Data::Received(spooled_tempfile_in(IN_MEMORY, folder)))
    }

    /// Adds a piece to what was received.
    pub(crate) fn add(&mut self, piece: &[u8]) -> io::Result<()> {
        let Data::Received(file) = &mut self.0 else {
            return Err(io::Error::other(
                "a snapshot that is being sent takes no pieces",
            ));
        };
        let length = u64::try_from(piece.len()).map_err(io::Error::other)?;
        file.write_all(&length.to_be_bytes())?;
        file.write_all(piece)
    }

    /// The pieces.
    pub(crate) fn into_pieces(self) -> io::Result<Pieces> {
        Ok(Pieces(match self.0 {
            Data::Pinned(cut) => Source::Pinned(cut),
            Data::Received(mut file) => {
                file.rewind()?;
                Source::Received(BufReader::new(file))
            }
        }))
    }
}

impl Pieces {
    /// The next piece, if there is one.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        match &mut self.0 {
            Source::Pinned(cut) => cut.next(),
            Source::Received(file) => read_piece(file),
        }
    }
}

fn read_piece(file: &mut impl Read) -> Result<Option<Bytes>, Failure> {
    let mut length = [0; 8];
    match file.read_exact(&mut length) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error.into()),
    }
    let mut piece = vec![0; usize::try_from(u64::from_be_bytes(length))?];
    file.read_exact(&mut piece)?;
    Ok(Some(piece.into()))
}

impl Cut {
    /// The next piece, if there is one. O(versions in it * log n).
    fn next(&mut self) -> Result<Option<Bytes>, Failure> {
        if let Some(marks) = self.marks.take() {
            let marks = [marks.ceiling, marks.threshold].map(|at| (at.wall, at.logical));
            return Ok(Some(postcard::to_stdvec(&Content::Marks(marks))?.into()));
        }
        let mut rows = Vec::new();
        let mut size = 0;
        loop {
            let row = match self.next.take() {
                Some(row) => row,
                None => match self.versions.next().transpose()? {
                    Some((key, version)) => Row::new(key, version),
                    None => break,
                },
            };
            let more = ROW + row.key.len() + row.value.as_ref().map_or(0, Bytes::len);
            if size + more > PIECE && !rows.is_empty() {
                self.next = Some(row);
                break;
            }
            size += more;
            rows.push(row);
        }
        if rows.is_empty() {
            return Ok(None);
        }
        Ok(Some(postcard::to_stdvec(&Content::Rows(rows))?.into()))
    }
}

/// What a row has besides its key and its value, about, in bytes.
const ROW: usize = 16;

const NO_MARKS: &str = "a snapshot that does not begin with its marks";

/// Replaces all that the engine has by a snapshot.
///
/// Span by span: a crash in between leaves some as they were and some as they will be. That does no harm, as what is applied
/// is recorded afterwards: whatever comes then, the rest of the log or another snapshot, leads to the same versions, and until
/// then nobody reads them.
///
/// The marks come first: raising the threshold collects, and what the sender still has below it (applied after it had collected, but
/// evaluated before) is to stay, as on all other nodes.
///
/// Memory: a piece, or the versions of one key, if those are more.
pub(crate) fn install(engine: &dyn Records, snapshot: SnapshotData) -> Result<(), Failure> {
    let mut pieces = snapshot.into_pieces()?;
    let first = pieces.next()?.ok_or(NO_MARKS)?;
    let Content::Marks(marks) = postcard::from_bytes(&first)? else {
        return Err(NO_MARKS.into());
    };
    let [ceiling, threshold] = marks.map(|(wall, logical)| Timestamp::new(wall, logical));
    engine.raise_ceiling(ceiling)?;
    if threshold > engine.marks().threshold {
        engine.collect(threshold)?;
    }
    // All keys below are as they should be.
    let mut from = Key::new();
    let mut rows: Vec<(Key, Version)> = Vec::new();
    while let Some(piece) = pieces.next()? {
        if let Content::Rows(more) = postcard::from_bytes(&piece)? {
            rows.extend(more.into_iter().map(Row::into_version));
        }
        // The last key may go on in the next piece.
        let Some((last, _)) = rows.last() else {
            continue;
        };
        let last = last.clone();
        let ready = rows.partition_point(|(key, _)| *key < last);
        let rest = rows.split_off(ready);
        if !rows.is_empty() {
            engine.replace(&Span::range(from, last.clone())?, rows)?;
            from = last;
        }
        rows = rest;
    }
    Ok(engine.replace(&Span::starting_at(from), rows)?)
}

impl Row {
    fn new(key: Key, version: Version) -> Self {
        Self {
            key,
            wall: version.timestamp.wall,
            logical: version.timestamp.logical,
            value: version.value,
        }
    }

    fn into_version(self) -> (Key, Version) {
        let version = Version {
            timestamp: Timestamp::new(self.wall, self.logical),
            value: self.value,
        };
        (self.key, version)
    }
}

impl fmt::Debug for SnapshotData {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Data::Pinned(_) => "a pinned snapshot",
            Data::Received(_) => "a received snapshot",
        })
    }
}

#[cfg(test)]
mod tests;
