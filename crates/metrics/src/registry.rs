//! The metrics that are exported, by name and owner, and their exposition as OpenMetrics text.

use std::collections::BTreeMap;
use std::fmt;

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry as encoder;

use crate::counter::Counter;
use crate::def::{Def, Kind, Unit};
use crate::gauge::Gauge;
use crate::histogram::{BOUNDS, Histogram};
use crate::outcome::{Outcome, Outcomes};

/// The metrics that are exported, by name and owner.
///
/// It holds handles: metrics are made and used without it. An owner is whoever a metric is about
/// (a store of several, say) and becomes the label `owner`; the empty owner has no label.
#[derive(Debug, Default)]
pub struct Registry {
    /// By the name in the exposition, which is the order there.
    families: BTreeMap<String, Family>,
}

/// One metric: what it is, and the instances of its owners.
#[derive(Clone, Debug)]
struct Family {
    def: Def,
    members: BTreeMap<String, Metric>,
}

/// A handle to a metric of any kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Metric {
    /// A counter.
    Counter(Counter),
    /// A counter for each outcome, told apart by the label `outcome`.
    Outcomes(Outcomes),
    /// A gauge.
    Gauge(Gauge),
    /// A histogram.
    Histogram(Histogram),
}

/// Why a metric cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name cannot be mapped to an OpenMetrics name.
    #[error(
        "metric name {0:?} is not made of words of a-z and 0-9 joined by dots, or ends in a word that OpenMetrics appends itself"
    )]
    Name(&'static str),
    /// The help would not fit on its line.
    #[error("the help of metric {name:?} is not one line: {help:?}")]
    Help {
        /// The metric.
        name: &'static str,
        /// Its help.
        help: &'static str,
    },
    /// The definition says one kind, the metric is of another.
    #[error("metric {name:?} is defined as a {defined}, and a {given} was registered for it")]
    Kind {
        /// The metric.
        name: &'static str,
        /// The kind in its definition.
        defined: Kind,
        /// The kind of what was to be registered.
        given: Kind,
    },
    /// A histogram holds durations; its unit must be seconds.
    #[error("histogram {name:?} holds durations, and its unit is {unit:?} instead of seconds")]
    Unit {
        /// The metric.
        name: &'static str,
        /// The unit in its definition.
        unit: Unit,
    },
    /// The name is in use with another definition.
    #[error("metric {0:?} is registered already with another help, unit or kind")]
    Redefined(&'static str),
    /// The owner has registered a metric of this name.
    #[error("owner {owner:?} has registered a metric {name:?} already")]
    Duplicate {
        /// The metric.
        name: &'static str,
        /// Its owner.
        owner: String,
    },
}

impl Registry {
    /// An empty registry.
    pub fn new() -> Self {
        Self::default()
    }

    /// Exports `metric` as `owner`'s instance of what `def` defines. O(log n) in the metrics registered.
    ///
    /// # Errors
    ///
    /// If the definition cannot be exported, does not fit the metric, or contradicts one that
    /// is registered; if the owner has registered this metric before. Nothing is changed then.
    pub fn register(
        &mut self,
        def: Def,
        owner: &str,
        metric: impl Into<Metric>,
    ) -> Result<(), RegisterError> {
        self.register_set(owner, [(def, metric.into())])
    }

    /// Exports all of a set, whose names differ, or nothing: `owner`'s instances of what each
    /// definition defines. O(k log n) for a set of k.
    ///
    /// # Errors
    ///
    /// As [`register`](Self::register).
    pub(crate) fn register_set<const N: usize>(
        &mut self,
        owner: &str,
        set: [(Def, Metric); N],
    ) -> Result<(), RegisterError> {
        for (def, metric) in &set {
            self.check(*def, owner, metric)?;
        }
        for (def, metric) in set {
            let family = self.families.entry(def.exposed_name());
            let family = family.or_insert_with(|| Family {
                def,
                members: BTreeMap::new(),
            });
            family.members.insert(owner.to_owned(), metric);
        }
        Ok(())
    }

    /// Whether `metric` can be exported as `owner`'s instance of what `def` defines.
    fn check(&self, def: Def, owner: &str, metric: &Metric) -> Result<(), RegisterError> {
        let name = def.name;
        if !def.has_valid_name() {
            return Err(RegisterError::Name(name));
        }
        if def.help.contains(['\n', '\r']) {
            return Err(RegisterError::Help {
                name,
                help: def.help,
            });
        }
        if def.kind != metric.kind() {
            return Err(RegisterError::Kind {
                name,
                defined: def.kind,
                given: metric.kind(),
            });
        }
        if def.kind == Kind::Histogram && def.unit != Unit::Seconds {
            return Err(RegisterError::Unit {
                name,
                unit: def.unit,
            });
        }
        let Some(family) = self.families.get(&def.exposed_name()) else {
            return Ok(());
        };
        if family.def != def {
            return Err(RegisterError::Redefined(name));
        }
        if family.members.contains_key(owner) {
            return Err(RegisterError::Duplicate {
                name,
                owner: owner.to_owned(),
            });
        }
        Ok(())
    }

    /// Stops exporting everything of `owner`. O(n) in the metrics registered.
    pub fn unregister(&mut self, owner: &str) {
        self.families.retain(|_, family| {
            family.members.remove(owner);
            !family.members.is_empty()
        });
    }

    /// Writes everything as OpenMetrics text, to be served as
    /// `application/openmetrics-text; version=1.0.0; charset=utf-8`. O(n) in the metrics registered.
    ///
    /// # Errors
    ///
    /// Only those of `out`.
    pub fn encode(&self, out: &mut impl fmt::Write) -> fmt::Result {
        // The encoder's own registry can't forget a metric; one is made of handles for each exposition.
        let mut all = encoder::Registry::default();
        for (name, family) in &self.families {
            let (help, family) = (family.def.help, family.clone());
            match family.def.unit {
                Unit::Count => all.register(name, help, family),
                Unit::Seconds => {
                    all.register_with_unit(name, help, encoder::Unit::Seconds, family);
                }
                Unit::Bytes => all.register_with_unit(name, help, encoder::Unit::Bytes, family),
            }
        }
        text::encode(out, &all)
    }

    /// The instances of the metric that `def` defines, by owner.
    pub(crate) fn instances(&self, def: Def) -> impl Iterator<Item = (&str, &Metric)> {
        self.families
            .get(&def.exposed_name())
            .into_iter()
            .filter(move |family| family.def == def)
            .flat_map(|family| &family.members)
            .map(|(owner, metric)| (owner.as_str(), metric))
    }
}

/// [`Registry::encode`]'s text.
impl fmt::Display for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.encode(f)
    }
}

impl Metric {
    fn kind(&self) -> Kind {
        match self {
            Metric::Counter(_) | Metric::Outcomes(_) => Kind::Counter,
            Metric::Gauge(_) => Kind::Gauge,
            Metric::Histogram(_) => Kind::Histogram,
        }
    }

    fn encode(&self, owner: &str, encoder: &mut MetricEncoder<'_>) -> fmt::Result {
        // An empty label is no label to OpenMetrics, and better not written.
        let mut labels = Vec::with_capacity(2);
        if !owner.is_empty() {
            labels.push(("owner", owner));
        }
        match self {
            Metric::Counter(counter) => encoder
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, u64>(&counter.value(), None),
            Metric::Outcomes(outcomes) => Outcome::ALL.iter().try_for_each(|&outcome| {
                let mut labels = labels.clone();
                labels.push(("outcome", outcome.label()));
                encoder
                    .encode_family(&labels)?
                    .encode_counter::<NoLabelSet, _, u64>(&outcomes.of(outcome).value(), None)
            }),
            Metric::Gauge(gauge) => encoder.encode_family(&labels)?.encode_gauge(&gauge.value()),
            Metric::Histogram(histogram) => {
                // The sum first: an observation that comes in between is counted and not summed,
                // for one exposition. The count is that of the buckets, so that the two agree.
                let sum = histogram.sum().as_secs_f64();
                let counts = histogram.counts();
                let bounds = BOUNDS.iter().map(|&nanos| nanos as f64 / 1e9);
                let buckets: Vec<_> = bounds.chain([f64::INFINITY]).zip(counts).collect();
                encoder
                    .encode_family(&labels)?
                    .encode_histogram::<NoLabelSet>(sum, counts.iter().sum(), &buckets, None)
            }
        }
    }
}

impl EncodeMetric for Family {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> fmt::Result {
        self.members
            .iter()
            .try_for_each(|(owner, metric)| metric.encode(owner, &mut encoder))
    }

    fn metric_type(&self) -> MetricType {
        match self.def.kind {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        }
    }
}

impl From<Counter> for Metric {
    fn from(counter: Counter) -> Self {
        Metric::Counter(counter)
    }
}

impl From<Outcomes> for Metric {
    fn from(outcomes: Outcomes) -> Self {
        Metric::Outcomes(outcomes)
    }
}

impl From<Gauge> for Metric {
    fn from(gauge: Gauge) -> Self {
        Metric::Gauge(gauge)
    }
}

impl From<Histogram> for Metric {
    fn from(histogram: Histogram) -> Self {
        Metric::Histogram(histogram)
    }
}
