//! Tests of the public interface.

mod collection;
mod interval;
mod model;
mod work;
