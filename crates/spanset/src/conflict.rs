//! Which accesses to one key conflict.

use crate::{Access, Timestamp};

/// Whether two accesses to the same key, in the same scope, conflict: whichever comes later must
/// let the earlier one finish first. O(1), and the same in both orders.
///
/// | one | other | conflict |
/// |---|---|---|
/// | read | read | never |
/// | write | write | always |
/// | read@t | write@u | iff u <= t |
/// | read or write without timestamp | the other | always |
///
/// No timestamp means every timestamp. A write at u changes what reads at u and above see, and
/// nothing that a read below u sees.
///
/// ```
/// use spanset::{Access::{Read, Write}, Timestamp, conflicts};
///
/// let (five, six) = (Timestamp::new(5, 0), Timestamp::new(6, 0));
/// assert!(!conflicts((Read, Some(five)), (Write, Some(six))));
/// assert!(conflicts((Read, Some(six)), (Write, Some(five))));
/// assert!(conflicts((Read, None), (Write, Some(six))));
/// ```
pub const fn conflicts(a: (Access, Option<Timestamp>), b: (Access, Option<Timestamp>)) -> bool {
    use Access::{Read, Write};
    match (a, b) {
        ((Read, _), (Read, _)) => false,
        ((Read, Some(read)), (Write, Some(write))) | ((Write, Some(write)), (Read, Some(read))) => {
            write.at_most(read)
        }
        ((Read, _), (Write, _)) | ((Write, _), (Read, _)) | ((Write, _), (Write, _)) => true,
    }
}
