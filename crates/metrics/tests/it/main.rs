//! What users of the metrics rely on.

mod exposition;
mod gauges;
mod health;
mod histograms;
mod openmetrics;
mod sets;
