//! MARKET: accounts that trade with each other, each behind a lock of its own.
//!
//! Each trade moves an amount from one account to another. Accounts are small, and many of them lie in one
//! page. What a trade is worth stands in a table of prices, which changes seldom. And each worker has scratch
//! pages that nobody else uses, with the homes of which it has nothing to do: it writes them between trades,
//! other values and the same ones again, and checks at each trade that they are what it wrote.
//!
//! **Who owns what:** an account belongs to who has its lock; prices to the first worker, at the beginning of
//! every fourth step; the scratch pages that one worker sets in the beginning belong to the next one ever
//! after.
//!
//! **The same result on any number of workers**: sums of whole numbers do not depend on their order. The last
//! number of the result counts the values that were not what their only writer had written. It is 0.

use serde::Serialize;

use crate::crew::{Worker, WorkerNumber};
use crate::memory::{Memory, product};
use crate::owned::{Array, Division, Locked};
use crate::program::Program;
use crate::random::mix;
use crate::{Error, Result};

/// The program, with its parameters.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Market {
    /// How many accounts.
    size: usize,
    steps: usize,
}

/// What the workers share.
pub struct Arrays {
    /// What is in each account; behind them, how many values were wrong. Each has a lock.
    accounts: Locked<i64>,
    prices: Array<i64>,
    scratch: Array<i64>,
    /// Who owns what of accounts, prices and scratch pages in the beginning,
    own: [Division; 3],
    /// and who of the scratch pages ever after.
    next: Division,
    /// Nobody owns anything of accounts and prices.
    read: [Division; 2],
}

/// Prices change every so many steps.
const PERIOD: usize = 4;
const PRICES: usize = 256;
/// Numbers of each worker's scratch pages: two pages and a half, so that neighbours share one.
const SCRATCH: usize = 1280;

impl Market {
    /// A market of that many accounts, in which each trades once a step.
    ///
    /// # Errors
    /// If there are none.
    pub fn new(size: usize, steps: usize) -> Result<Self> {
        if size == 0 {
            return Err(Error::Empty("--size"));
        }
        Ok(Self { size, steps })
    }

    /// The two accounts of a trade, and which price it has.
    fn trade(&self, step: usize, number: usize) -> (usize, usize, usize) {
        let random = mix((step * self.size + number) as u64);
        let pick = |shift: u32, of: usize| usize::try_from(random >> shift).unwrap_or(0) % of;
        (pick(0, self.size), pick(20, self.size), pick(40, PRICES))
    }

    /// Adds to an account.
    fn add(worker: &Worker<'_>, arrays: &Arrays, account: usize, amount: i64) -> Result<()> {
        *arrays.accounts.lock(worker, account)? += amount;
        Ok(())
    }

    /// One worker's trades of a step. Returns how many values of its scratch pages were wrong.
    fn trade_all(&self, worker: &Worker<'_>, step: usize, arrays: &Arrays) -> Result<usize> {
        let mut wrong = 0;
        let (prices, scratch) = (arrays.prices.get(worker, 0..PRICES), arrays.scratch.mine(worker));
        for number in worker.who().part(self.size) {
            let (from, to, price) = self.trade(step, number);
            let amount = prices[price];
            let value = mix(number as u64 ^ (step as u64) << 32).cast_signed();
            // There, away, and back: who took a look meanwhile must not keep it.
            for value in [value, !value, value] {
                std::hint::black_box(&mut *scratch).fill(value);
            }
            Self::add(worker, arrays, from, -amount)?;
            Self::add(worker, arrays, to, amount)?;
            wrong += std::hint::black_box(&*scratch).iter().filter(|&&x| x != value).count();
        }
        Ok(wrong)
    }
}

/// The price at a place of the table, from some step on.
fn price(step: usize, place: usize) -> i64 {
    i64::try_from(mix((step * PRICES + place) as u64) % 1000).unwrap_or(0)
}

impl Program for Market {
    const NAME: &'static str = "market";
    type Arrays = Arrays;
    type Element = i64;

    fn allocate(&self, workers: usize, memory: &mut impl Memory) -> Result<Arrays> {
        // As many numbers as the accounts must have a place before each has a lock.
        product(&[self.size, size_of::<i64>()])?;
        let scratch = product(&[workers, SCRATCH])?;
        // The first worker has all prices.
        let prices = Division::new(PRICES, workers, |index| (index == 0).then_some(0..PRICES))?;
        let part = |index| WorkerNumber { index: (index + 1) % workers, count: workers }.part(scratch);
        Ok(Arrays {
            accounts: memory.locked(self.size + 1)?,
            prices: memory.array(PRICES)?,
            scratch: memory.array(scratch)?,
            own: [Division::even(self.size + 1, workers), prices, Division::even(scratch, workers)],
            next: Division::new(scratch, workers, |index| [part(index)])?,
            read: [self.size + 1, PRICES].map(|len| Division::read_by_all(len, workers)),
        })
    }

    fn result<'a>(&self, arrays: &'a Self::Arrays) -> &'a Array<Self::Element> {
        arrays.accounts.array()
    }

    fn result_mut<'a>(&self, arrays: &'a mut Self::Arrays) -> &'a mut Array<Self::Element> {
        arrays.accounts.array_mut()
    }

    fn initialise(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { accounts, prices, scratch, own, next, .. } = arrays;
        worker.turn(&[accounts.array().to(&own[0]), prices.to(&own[1]), scratch.to(&own[2])])?;
        accounts.array().mine(worker).fill(0);
        scratch.mine(worker).fill(-1);
        worker.turn(&[accounts.to_holders(), scratch.to(next)])
    }

    fn compute(&self, worker: &mut Worker<'_>, arrays: &Arrays) -> Result<()> {
        let Arrays { accounts, prices, own, read, .. } = arrays;
        for step in 0..self.steps {
            if step % PERIOD == 0 {
                prices.mine(worker).iter_mut().enumerate().for_each(|(at, x)| *x = price(step, at));
                worker.turn(&[prices.to(&read[1])])?;
            }
            let wrong = self.trade_all(worker, step, arrays)?;
            if wrong > 0 {
                Self::add(worker, arrays, self.size, i64::try_from(wrong).unwrap_or(i64::MAX))?;
            }
            if (step + 1) % PERIOD == 0 {
                worker.turn(&[prices.to(&own[1])])?;
            } else {
                worker.barrier()?;
            }
        }
        // Without a step, this is the barrier that ends the computation.
        worker.turn(&[accounts.array().to(&read[0])])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repetitions::tests::{agrees_on_any_number_of_threads, result_of};

    #[test]
    fn threads_compute_what_one_worker_does_whatever_the_sizes() {
        for (accounts, steps) in [(1, 3), (2, 2), (7, 0), (8, 5), (65, 9)] {
            agrees_on_any_number_of_threads(Market::new(accounts, steps).unwrap());
        }
    }

    #[test]
    fn trades_move_what_there_is_and_nothing_is_wrong() {
        let accounts = result_of(&Market::new(40, 7).unwrap());
        assert_eq!(accounts.len(), 41);
        assert!(accounts[..40].iter().any(|&x| x != 0), "there are trades");
        assert_eq!((accounts[..40].iter().sum::<i64>(), accounts[40]), (0, 0));
    }

    #[test]
    fn a_market_without_accounts_is_refused() {
        assert!(matches!(Market::new(0, 1), Err(Error::Empty("--size"))));
    }
}
