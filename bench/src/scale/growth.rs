//! What grows with the number of ranks, and how: the costs at one rank, for patterns of sharing whose work
//! for each rank stays the same.

use super::machine::Machine;
use super::trace::{Laplace, Lu, Pattern, Trace};
use super::world::{Totals, World};
use serde::Serialize;

/// How something grows with the number of ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Law {
    /// Not at all.
    Constant,
    /// With its logarithm.
    Logarithm,
    /// With its square root.
    Root,
    /// With itself.
    Linear,
}

impl Law {
    const ALL: [Law; 4] = [Law::Constant, Law::Logarithm, Law::Root, Law::Linear];

    /// A fit is good enough if no value is further away from it than this part of itself.
    const TOLERANCE: f64 = 0.05;

    /// What the law says, for people.
    pub fn name(self) -> &'static str {
        match self {
            Law::Constant => "constant",
            Law::Logarithm => "log n",
            Law::Root => "√n",
            Law::Linear => "linear",
        }
    }

    fn of(self, ranks: f64) -> f64 {
        match self {
            Law::Constant => 0.0,
            Law::Logarithm => ranks.log2(),
            Law::Root => ranks.sqrt(),
            Law::Linear => ranks,
        }
    }

    /// The slowest law that values keep, by least squares; if they keep none, the one that they are nearest
    /// to.
    pub fn fit(values: &[(u32, f64)]) -> Law {
        let errors = Law::ALL.map(|law| (law, law.error(values)));
        let good = errors.iter().find(|(_, error)| *error <= Law::TOLERANCE);
        let nearest = || errors.iter().min_by(|a, b| a.1.total_cmp(&b.1));
        good.or_else(nearest).map_or(Law::Linear, |(law, _)| *law)
    }

    /// By how much the value that is furthest away differs from `a + b·law(n)`, as a part of itself.
    fn error(self, values: &[(u32, f64)]) -> f64 {
        let points: Vec<(f64, f64)> = values.iter().map(|&(n, y)| (self.of(f64::from(n)), y)).collect();
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|p| p.0), mean(|p| p.1));
        let spread: f64 = points.iter().map(|p| (p.0 - x).powi(2)).sum();
        let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread.max(f64::MIN_POSITIVE);
        let far = |p: &(f64, f64)| (y + slope * (p.0 - x) - p.1).abs() / p.1.abs().max(f64::MIN_POSITIVE);
        points.iter().map(far).fold(0.0, f64::max)
    }
}

/// A cost at the rank where it is greatest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PeakCost {
    /// Messages, puts, gets and answers sent (or received, if these are more), in a barrier and the interval
    /// before it.
    Messages,
    /// Their bytes.
    Bytes,
    /// Bytes of the directory.
    Directory,
    /// Bytes held of what others said in a meeting.
    Notices,
    /// Meetings of a barrier.
    Meetings,
}

impl PeakCost {
    const ALL: [PeakCost; 5] =
        [PeakCost::Messages, PeakCost::Bytes, PeakCost::Directory, PeakCost::Notices, PeakCost::Meetings];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            PeakCost::Messages => "messages a barrier",
            PeakCost::Bytes => "bytes a barrier",
            PeakCost::Directory => "directory, bytes",
            PeakCost::Notices => "notices held, bytes",
            PeakCost::Meetings => "meetings a barrier",
        }
    }

    fn of(self, totals: &Totals) -> f64 {
        let barriers = totals.barriers as f64;
        match self {
            PeakCost::Messages => totals.most.messages as f64 / barriers,
            PeakCost::Bytes => totals.most.bytes as f64 / barriers,
            PeakCost::Directory => totals.directory as f64,
            PeakCost::Notices => totals.notices as f64,
            PeakCost::Meetings => totals.meetings as f64 / barriers,
        }
    }
}

/// One cost of one pattern.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Growth {
    /// What ranks do.
    pub pattern: &'static str,
    /// What it costs one of them.
    pub cost: PeakCost,
    /// How much, by the number of ranks.
    pub values: Vec<(u32, f64)>,
    /// How that grows.
    pub law: Law,
    /// Why, where it grows faster than the logarithm.
    pub reason: Option<&'static str>,
}

impl Growth {
    /// Whether it grows no faster than the logarithm, or there is a reason.
    pub fn is_explained(&self) -> bool {
        matches!(self.law, Law::Constant | Law::Logarithm) || self.reason.is_some()
    }
}

/// What ranks do, and what may grow faster than the logarithm of their number.
struct GrowthCase {
    pattern: &'static str,
    trace: fn(u32) -> Box<dyn Trace>,
    may_grow: &'static [PeakCost],
    reason: &'static str,
}

const CASES: [GrowthCase; 5] = [
    GrowthCase { pattern: "empty barrier", trace: |_| Box::new(Pattern::Nothing), may_grow: &[], reason: "" },
    GrowthCase {
        pattern: "LAPLACE, 4 rows a rank",
        trace: |ranks| {
            let rows = u64::from(ranks) * 4;
            Box::new(Laplace { rows, columns: 510, iterations: 28, warm_up: 24, ranks })
        },
        may_grow: &[],
        reason: "",
    },
    GrowthCase {
        pattern: "LU, a block a rank",
        trace: |ranks| Box::new(Lu::new(u64::from(ranks).isqrt() * 32, 32, ranks)),
        may_grow: &[],
        reason: "",
    },
    GrowthCase {
        pattern: "first touch, a page a rank",
        trace: |ranks| Box::new(Pattern::FirstTouch(ranks)),
        may_grow: &[PeakCost::Bytes, PeakCost::Notices],
        reason: "everybody learns each page's home, so that a fault asks nobody; once a page",
    },
    GrowthCase {
        pattern: "a page that all others read",
        trace: |_| Box::new(Pattern::OneForAll),
        may_grow: &[PeakCost::Messages, PeakCost::Bytes, PeakCost::Directory, PeakCost::Notices],
        reason: "a home brings its page to each sharer itself; a broadcast goes by a tree",
    },
];

/// Runs all patterns on these numbers of ranks.
pub fn measure(machine: &Machine, ranks: &[u32]) -> Vec<Growth> {
    CASES.iter().flat_map(|case| case.measure(machine, ranks)).collect()
}

impl GrowthCase {
    fn measure(&self, machine: &Machine, ranks: &[u32]) -> Vec<Growth> {
        let run = |&count: &u32| (count, World::new(machine, &*(self.trace)(count), count).run());
        let totals: Vec<(u32, Totals)> = ranks.iter().map(run).collect();
        let growth = |cost: PeakCost| {
            let values: Vec<(u32, f64)> = totals.iter().map(|(n, totals)| (*n, cost.of(totals))).collect();
            let (law, may) = (Law::fit(&values), self.may_grow.contains(&cost));
            let grows = !matches!(law, Law::Constant | Law::Logarithm);
            let reason = (grows && may).then_some(self.reason);
            Growth { pattern: self.pattern, cost, values, law, reason }
        };
        PeakCost::ALL.into_iter().map(growth).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scale::presets;

    const RANKS: [u32; 3] = [64, 256, 1024];

    fn fit(value: impl Fn(f64) -> f64) -> Law {
        Law::fit(&RANKS.map(|n| (n, value(f64::from(n)))))
    }

    #[test]
    fn laws_are_told_apart() {
        assert_eq!(fit(|_| 7.0), Law::Constant);
        assert_eq!(fit(|_| 0.0), Law::Constant);
        assert_eq!(fit(|n| 13.0 * n.log2() + 9.0), Law::Logarithm);
        assert_eq!(fit(|n| 4.0 * n.sqrt() + n.log2()), Law::Root);
        assert_eq!(fit(|n| 3.0 * n + 100.0), Law::Linear);
        assert_eq!(fit(|n| n * n), Law::Linear, "worse than all of them");
    }

    fn of(all: &[Growth], pattern: &str, cost: PeakCost) -> Law {
        let found = all.iter().find(|growth| growth.pattern.starts_with(pattern) && growth.cost == cost);
        found.map(|growth| growth.law).unwrap()
    }

    /// From 64 to 1,024 ranks. What is linear here is so by the protocol's design: see the reasons in the
    /// table.
    #[test]
    fn no_cost_at_one_rank_grows_with_the_number_of_ranks_but_where_the_table_says_why() {
        let all = measure(&presets::ethernet_10g(), &RANKS);
        let untold: Vec<_> = all.iter().filter(|growth| !growth.is_explained()).collect();
        assert!(untold.is_empty(), "{untold:#?}");
        for growth in all.iter().filter(|growth| growth.pattern == "empty barrier") {
            let values = [6.0, 8.0, 10.0];
            match growth.cost {
                PeakCost::Messages => {
                    assert!(growth.values.iter().map(|value| value.1).eq(values), "{growth:?}")
                }
                PeakCost::Bytes | PeakCost::Notices => assert_eq!(growth.law, Law::Logarithm, "{growth:?}"),
                PeakCost::Directory | PeakCost::Meetings => {
                    assert_eq!(growth.law, Law::Constant, "{growth:?}")
                }
            }
        }
        for (pattern, cost, law) in [
            ("LAPLACE", PeakCost::Messages, Law::Logarithm),
            ("LAPLACE", PeakCost::Directory, Law::Constant),
            ("LAPLACE", PeakCost::Meetings, Law::Constant),
            ("first touch", PeakCost::Messages, Law::Logarithm),
            ("first touch", PeakCost::Bytes, Law::Linear),
            ("a page that all", PeakCost::Messages, Law::Linear),
        ] {
            assert_eq!(of(&all, pattern, cost), law, "{pattern}, {cost:?}");
        }
    }
}
