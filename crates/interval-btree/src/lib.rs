//! An ordered map of intervals with overlap queries and O(1) snapshots.
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod abbreviate;
mod end;
mod interval;
mod iter;
mod map;
mod node;
mod overlapping;
mod peaks;
mod words;

pub use abbreviate::{Abbreviate, Bytewise, Prefix, Probe, Whole, Word};
pub use end::End;
pub use interval::{EmptyInterval, Interval};
pub use iter::{IntoIter, Iter, Range};
pub use map::IntervalMap;
pub use overlapping::Overlapping;
