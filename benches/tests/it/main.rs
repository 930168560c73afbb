//! The program from outside.

mod cli;
